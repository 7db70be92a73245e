"""Check mode's counters, on kernels whose traffic can be counted by hand.

Strides, bank conflicts, constant memory, atomics and full logs are counted in engine/tests/check.
"""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.thorough("counters, which the notebooks show, too")

GLOBAL = [
    f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"
    for op in ("ld", "st")
    for what in ("requests", "sectors")
]

SCRIPT = r"""
import json, sys
import numpy as np
import hostcuda.autoinit
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule
from hostcuda import checking

SOURCE = '''#line 1 "kernels.cu"
extern "C" __global__ void vectors(const float4 *x, float4 *y) {
    float4 v = x[threadIdx.x];
    v.x += 1;
    y[threadIdx.x] = v;
}
extern "C" __global__ void ragged(const float *x, float *y) {
    float sum = 0;
    for (int i = 0; i < 2; i++)
        for (int j = threadIdx.x; j < 48; j += 32) sum += x[i * 256 + j];
    y[threadIdx.x] = sum;
}
struct Page { float of[1024]; };
extern "C" __global__ void pages(Page *x) { x[1] = x[0]; }
'''
module = SourceModule(SOURCE, no_extern_c=True)
x, y = cuda.to_device(np.zeros(4096, np.float32)), cuda.to_device(np.zeros(4096, np.float32))

def run(name, *arguments, block=(32, 1, 1)):
    module.get_function(name)(*arguments, block=block)

run("vectors", x, y)
run("ragged", x, y)
run("pages", x, block=(1, 1, 1))
cuda.Context.synchronize()
print(json.dumps([[r.kernel, r.counts, r.sites] for r in checking.launches()]))
"""


@pytest.fixture(scope="module")
def launches(tmp_path_factory):
    """Run SCRIPT in check mode; return (kernel, its counters) of each launch, which the engine's file has, too."""
    out = tmp_path_factory.mktemp("check") / "records.jsonl"
    environment = {
        **os.environ,
        "HOSTCUDA_ENGINE": "cpu",
        "HOSTCUDA_CHECK": "profile",
        "HOSTCUDA_CHECK_OUT": str(out),
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    records = json.loads(done.stdout.splitlines()[-1])
    entries = [json.loads(line) for line in out.read_text().splitlines()]
    assert [r["kernel"] for r in entries] == [r[0] for r in records]
    assert [r["counts"] for r in entries] == [r[1] for r in records]
    return records


@pytest.mark.parametrize(
    ("launch", "names", "expected"),
    [
        # A vector is one access.
        (0, [*GLOBAL, "lab__unique_bytes_global.sum"], [1, 16, 1, 16, 2 * 32 * 16]),
        # Lanes meet again behind an inner loop of unequal length: per row 32 lanes read 128 bytes,
        # then 16 lanes 64 bytes.
        (1, GLOBAL, [4, 12, 1, 4]),
        # A long struct is copied once.
        (2, GLOBAL, [256, 256, 256, 256]),
    ],
)
def test_counts_are_as_computed_by_hand(launches, launch, names, expected):
    assert [launches[launch][1][name] for name in names] == expected
