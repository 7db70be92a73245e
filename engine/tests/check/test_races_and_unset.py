"""Uninitialized reads beside races: a write that races sets its bytes, and a read that races may be of unset ones."""

import re

import pytest
from running import IMPORTS, run_script

from hostcuda.findings import _fold
from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.core("a race neither hides an uninitialized read nor makes a false one")

# Warps run in their order up to a barrier. A line marked UNSET reads what nothing has written yet; no other line does.
KERNELS = r"""
#include <cuda_pipeline.h>
#define KERNEL(name) extern "C" __global__ void name(int *o, int *u)
#define BLOCK const unsigned t = threadIdx.x, warp = t / 32, lane = t % 32
#define MEET __syncthreads()
__device__ void meet(int n, int warps) { asm volatile("bar.sync %0, %1;" :: "r"(n), "r"(32 * warps) : "memory"); }

KERNEL(teams) {
    __shared__ int s;
    BLOCK;
    if (warp == 0) {
        o[t] = s;                                               // UNSET
    } else {
        if (warp == 1 && lane == 0) s = 0;
        meet(1, 2);
        atomicMax(&s, lane);
        meet(1, 2);
        o[t] = s;
    }
}
KERNEL(teams_in_global) {
    BLOCK;
    if (warp == 0) {
        o[t] = u[0];                                            // UNSET
    } else {
        if (warp == 1 && lane == 0) u[0] = 0;
        meet(1, 2);
        atomicMax(u, lane);
        meet(1, 2);
        o[t] = u[0];
    }
}
KERNEL(another_reader) {
    __shared__ int s[32];
    BLOCK;
    if (warp == 0) o[t] = s[lane];                              // UNSET
    if (warp == 1) s[lane] = t;
    if (warp == 2) o[t] = s[lane];
}
KERNEL(updated) {
    __shared__ int s[32];
    BLOCK;
    if (warp == 0) o[t] = s[lane];                              // UNSET
    if (warp == 1) atomicAdd(&s[lane], 1);                      // UNSET
    MEET;
    if (warp == 2) o[t] = s[lane];
}
KERNEL(wide_write) {
    __shared__ int4 s[32];
    BLOCK;
    if (warp == 0) o[t] = s[lane].y;                            // UNSET
    if (warp == 1) s[lane] = make_int4(t, t, t, t);
    MEET;
    if (warp == 2) o[t] = s[lane].x + s[lane].y + s[lane].z + s[lane].w;
}
KERNEL(wide_read) {
    __shared__ int4 s[32];
    BLOCK;
    if (warp == 0) s[lane].x = t;
    if (warp == 1) ((int4 *)o)[lane] = s[lane];                 // UNSET
}
KERNEL(half_written) {
    __shared__ int s[32];
    BLOCK;
    if (warp == 0) o[t] = s[lane];                              // UNSET
    if (warp == 1) ((short *)s)[2 * lane + 1] = t;
    MEET;
    if (warp == 2) o[t] = ((short *)s)[2 * lane + 1];
    MEET;
    if (warp == 2) o[t] = s[lane];                              // UNSET
}
KERNEL(copied) {
    __shared__ int s[32];
    BLOCK;
    if (warp == 0) o[t] = s[lane];                              // UNSET
    if (warp == 1) __pipeline_memcpy_async(&s[lane], &o[96 + lane], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    MEET;
    if (warp == 2) o[t] = s[lane];
}
"""
LINES = ("\n" + KERNELS).split("\n")  # so that the first line has number 1
NAMES = re.findall(r"^KERNEL\((\w+)\) {", KERNELS, re.MULTILINE)
LAUNCHES = """
module = SourceModule('#line 1 "k.cu"\\n' + KERNELS, no_extern_c=True, options=["-arch=sm_80"])
for name in NAMES:
    o, u = cuda.to_device(np.zeros(128, np.int32)), cuda.mem_alloc(128)
    module.get_function(name)(o, u, block=(96, 1, 1))
    cuda.Context.synchronize()
"""
PROGRAM = f"KERNELS, NAMES = {KERNELS!r}, {NAMES!r}\n" + LAUNCHES
RECORDS = """
FIELDS = "tool", "kind", "line", "thread", "count", "message", "other"
print(json.dumps({
    record.kernel: [{name: getattr(f, name) for name in FIELDS} for f in record.findings]
    for record in checking.launches()
}))
"""


@pytest.fixture(scope="module")
def found():
    """Return what each set of tools finds: tools -> kernel -> findings."""
    return {
        tools: run_script(PROGRAM + RECORDS, tools=tools)
        for tools in ("initcheck", "racecheck", "memcheck,racecheck,initcheck,synccheck")
    }


def select(found, kernel, tool, alone):
    """Return a kernel's findings of a tool that runs alone, or with all others."""
    tools = tool if alone else "memcheck,racecheck,initcheck,synccheck"
    return [finding for finding in found[tools][kernel] if finding["tool"] == tool]


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "all"])
@pytest.mark.parametrize("kernel", NAMES)
def test_a_read_is_of_unset_memory_if_nothing_has_written_it_yet(kernel, alone, found):
    begin = next(i for i, line in enumerate(LINES) if line.startswith(f"KERNEL({kernel})"))
    end = LINES.index("}", begin)
    unset = [i for i in range(begin, end) if LINES[i].endswith("// UNSET")]
    findings = select(found, kernel, "initcheck", alone)
    assert sorted(finding["line"] for finding in findings) == unset


@pytest.mark.parametrize("tool", ["initcheck", "racecheck"])
@pytest.mark.parametrize("kernel", NAMES)
def test_a_tool_finds_the_same_alone_and_with_all_others(kernel, tool, found):
    findings = select(found, kernel, tool, alone=True)
    assert findings and findings == select(found, kernel, tool, alone=False)


def test_a_race_with_a_write_that_is_a_race_itself_is_found(found):
    begin = LINES.index("KERNEL(another_reader) {")
    races = select(found, "another_reader", "racecheck", alone=True)
    pairs = {(race["line"] - begin, race["other"]["line"] - begin) for race in races}
    assert pairs == {(4, 3), (5, 4)}


def test_the_report_tells_an_uninitialized_read_with_its_race(write_program):
    path = write_program(IMPORTS + PROGRAM, "program.py")
    report = sanitize_script(str(path), [], engine="cpu", capture=True)
    (finding,) = (row for row in report.rows if row["kernel"] == "teams")
    line = LINES.index("KERNEL(teams) {") + 4
    assert finding["kind"] == "race"
    assert f"; line {line} reads what nothing has written yet" in finding["message"]


def test_findings_of_a_shared_array_belong_together_whatever_worker_found_them():
    """Two blocks on two workers have the array at two addresses."""
    record = {
        "tool": "racecheck",
        "kind": "race",
        "kernel": "k",
        "file": "k.cu",
        "line": 4,
        "other": {"file": "k.cu", "line": 3},
        "buffer": {"base": 4096, "bytes": 128, "name": "s"},
        "message": "threads (0,0,0) and (32,0,0) of a block read and write element 0 of the __shared__ array s",
        "count": 1,
        "launches": 1,
    }
    unset = {
        **record,
        "tool": "initcheck",
        "kind": "uninitialized",
        "line": 3,
        "other": None,
        "buffer": {"base": 8192, "bytes": 128, "name": "s"},
        "message": "read of uninitialized shared memory, at element 0 of the __shared__ array s",
    }
    (folded,) = _fold([{**record}, unset])
    assert folded["kind"] == "race"
    assert folded["message"].endswith("; line 3 reads what nothing has written yet")
