"""Races between blocks: found where nothing orders two blocks, and not in the idioms that do."""

import pytest
from running import IMPORTS, kernel_source

from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

PROGRAM = """
source = sys.argv[1]
module = SourceModule(source, no_extern_c=True)
for name in [line.split()[1].split("(")[0] for line in source.splitlines() if line.startswith("KERNEL")]:
    kernel = module.get_function(name)
    for _ in range(2):
        x, part = cuda.to_device(np.arange(256, dtype=np.float32)), cuda.to_device(np.zeros(256, np.float32))
        kernel(x, part, grid=(4, 1), block=(32, 1, 1))
cuda.Context.synchronize()
"""
SOURCE = kernel_source("blocks").splitlines()[1:]  # line 1 is the one after #line
KERNELS = {
    line.split()[1].split("(")[0]: number
    for number, line in enumerate(SOURCE, 1)
    if line.startswith("KERNEL")
}
WRONG = list(KERNELS).index("two_write_one_word")


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    path = tmp_path_factory.mktemp("blocks") / "program.py"
    path.write_text(IMPORTS + PROGRAM)
    findings = sanitize_script(
        str(path), [kernel_source("blocks")], tool="racecheck", engine="cpu", capture=True
    )
    assert findings.ended.status == 0, findings.ended.output
    assert findings.launches == 2 * len(KERNELS)
    return findings.table


def select_findings(kernel, findings):
    return findings[findings["kernel"] == kernel].to_dict("records")


@pytest.mark.parametrize("kernel", list(KERNELS)[:WRONG])
def test_blocks_that_are_ordered_or_do_not_meet(kernel, findings):
    assert not select_findings(kernel, findings)


@pytest.mark.parametrize("kernel", list(KERNELS)[WRONG:])
def test_nothing_orders_the_blocks(kernel, findings):
    number = str(1 + list(KERNELS)[WRONG:].index(kernel))
    lines = {at for at, line in enumerate(SOURCE, 1) if line.endswith(f"// {number}")}
    rows = select_findings(kernel, findings)
    assert {row["kind"] for row in rows} == {"race between blocks"}
    assert {row["line"] for row in rows} | {row["other"]["line"] for row in rows} == lines


def test_both_blocks_are_named(findings):
    (finding,) = select_findings("halo_in_place", findings)
    assert finding["launches"] == 2
    assert "blocks (0,0,0), which reads, and (1,0,0), which writes" in finding["message"]
    first = KERNELS["halo_in_place"]
    assert tuple(finding["block"]) == (1, 0, 0) and tuple(finding["thread"]) == (0, 0, 0)
    assert finding["line"] == first + 4 and finding["other"]["line"] == first + 2
    assert tuple(finding["other"]["thread"]) == (31, 0, 0)


def test_two_blocks_that_write_the_same_word(findings):
    (finding,) = select_findings("two_write_one_word", findings)
    assert (finding["count"], finding["launches"]) == (4, 2)  # blocks 1 and 3, twice
    assert "(0,0,0), which writes, and (1,0,0), which writes" in finding["message"]


def test_a_missing_fence_is_named(findings):
    messages = {
        kernel: select_findings(kernel, findings)[0]["message"]
        for kernel in ("no_fence", "nobody_waits", "share_of_a_total")
    }
    assert "after its access (0,0,0) makes no __threadfence()" in messages["no_fence"]
    assert "fence" not in messages["nobody_waits"]
    assert "reads" in messages["share_of_a_total"] and "updates" in messages["share_of_a_total"]
