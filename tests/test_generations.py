"""The table of instructions in closer look P10: what runs here is what the CPU engine translates."""

import re

import pytest

from hostcuda.frontend.rewrite import rewrite
from labkit.notebooks import execute

pytestmark = pytest.mark.thorough("a table of one page")

INSTRUCTIONS = {
    "cp.async": '"cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(y), "l"(x)',
    "cp.async.wait_group": '"cp.async.wait_group 0;"',
    "cp.async.bulk": '"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%0];"'
    ' :: "r"(y), "l"(x)',
    "cp.async.bulk.tensor": '"cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes '
    '[%0], [%1, {%0}], [%0];" :: "r"(y), "l"(x)',
    "mbarrier.try_wait": '"{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; '
    'selp.s32 %0, 1, 0, p;}" : "=r"(y) : "r"(y)',
    "mma.sync": '"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %0, %0, %0}, {%1, %1}, {%1}, '
    '{%0, %0, %0, %0};" : "+f"(z) : "r"(y)',
    "wgmma.mma_async": '"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %0, %0, %0}, %1, %1, 1, 1, 1, 0, 0;"'
    ' : "+f"(z) : "l"(x)',
    "ldmatrix": '"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(y) : "r"(y)',
    "stmatrix": '"stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%0};" :: "r"(y)',
    "setmaxnreg": '"setmaxnreg.dec.sync.aligned.u32 40;"',
    "mapa": '"mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(y) : "r"(y)',
    "tcgen05.mma": '"tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %1, %0, 1;" :: "r"(y), "l"(x)',
    "tcgen05.commit": '"tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%0];" :: "l"(x)',
    "tcgen05.ld": '"tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(y) : "r"(y)',
}
KERNEL = "__global__ void f(int *x) {{ int y = 0; float z = 0; asm volatile({}); x[0] = y; }}"


def test_the_table_says_what_runs():
    (path,) = execute.find(["closer_look/P10"])
    text = "\n".join(cell.source for cell in execute.read(path).nb.cells)
    marked = dict(re.findall(r"`([a-z0-9_.]+)` ([✓✗])", text))
    runs = {
        name: "✗" if "static_assert" in rewrite(KERNEL.format(asm)).text else "✓"
        for name, asm in INSTRUCTIONS.items()
    }
    assert marked == runs
