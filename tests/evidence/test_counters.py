"""Check mode's counters, on kernels whose traffic can be counted by hand."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.thorough("counters, which the notebooks show, too")

GLOBAL = [f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum" for op in ("ld", "st") for what in ("requests", "sectors")]
ATOMIC = [f"l1tex__t_{what}_pipe_lsu_mem_global_op_red.sum" for what in ("requests", "sectors")]
SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
CONSTANT = ["lab__constant_requests.sum", "lab__constant_serialized.sum"]

SCRIPT = r"""
import json, sys
import numpy as np
import hostcuda.autoinit
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule
from hostcuda import checking

SOURCE = '''#line 1 "kernels.cu"
__constant__ float table[64];
extern "C" __global__ void copy(const float *x, float *y, int stride) {
    y[threadIdx.x] = x[threadIdx.x * stride];
}
extern "C" __global__ void vectors(const float4 *x, float4 *y) {
    float4 v = x[threadIdx.x];
    v.x += 1;
    y[threadIdx.x] = v;
}
extern "C" __global__ void column(float *y, int pitch) {
    __shared__ float tile[32 * 33];
    for (int i = threadIdx.x; i < 32 * 33; i += 32) tile[i] = i;
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x * pitch];
}
extern "C" __global__ void constants(float *y, int step) { y[threadIdx.x] = table[threadIdx.x * step]; }
extern "C" __global__ void ragged(const float *x, float *y) {
    float sum = 0;
    for (int i = 0; i < 2; i++)
        for (int j = threadIdx.x; j < 48; j += 32) sum += x[i * 256 + j];
    y[threadIdx.x] = sum;
}
struct Page { float of[1024]; };
extern "C" __global__ void pages(Page *x) { x[1] = x[0]; }
extern "C" __global__ void add(int *y) { atomicAdd(&y[threadIdx.x / 16], 1); }
extern "C" __global__ void longer(float *y) {
    for (int i = 0; i < 9000; i++) ((volatile float *)y)[threadIdx.x] += 1;
}
'''
module = SourceModule(SOURCE, no_extern_c=True)
x, y = cuda.to_device(np.zeros(4096, np.float32)), cuda.to_device(np.zeros(4096, np.float32))

def run(name, *arguments, block=(32, 1, 1)):
    module.get_function(name)(*arguments, block=block)

run("copy", x, y, np.int32(1))
run("copy", x, y, np.int32(8))
run("vectors", x, y)
run("column", y, np.int32(32))
run("column", y, np.int32(33))
run("constants", y, np.int32(0))
run("constants", y, np.int32(2))
run("ragged", x, y)
run("add", y)
run("longer", y, block=(40, 1, 1))
run("pages", x, block=(1, 1, 1))
cuda.Context.synchronize()
print(json.dumps([[r.kernel, r.counts, r.sites] for r in checking.launches()]))
"""


@pytest.fixture(scope="module")
def launches(tmp_path_factory):
    out = tmp_path_factory.mktemp("check") / "records.jsonl"
    environment = {
        **os.environ, "HOSTCUDA_ENGINE": "cpu", "HOSTCUDA_CHECK": "profile", "HOSTCUDA_CHECK_OUT": str(out),
    }
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    records = json.loads(done.stdout.splitlines()[-1])
    entries = [json.loads(line) for line in out.read_text().splitlines()]
    assert [r["kernel"] for r in entries] == [r[0] for r in records]
    assert [r["counts"] for r in entries] == [r[1] for r in records]
    return records


@pytest.mark.parametrize(("launch", "names", "expected"), [
    # Sectors follow the stride.
    (0, GLOBAL, [1, 4, 1, 4]),
    (1, GLOBAL, [1, 32, 1, 4]),
    # A vector is one access.
    (2, [*GLOBAL, "lab__unique_bytes_global.sum"], [1, 16, 1, 16, 2 * 32 * 16]),
    # Bank conflicts, and the padding that removes them.
    (3, [SHARED, CONFLICTS, "lab__barriers.sum"], [32, 31, 1]),
    (4, [SHARED, CONFLICTS], [1, 0]),
    # Constant memory serializes different addresses.
    (5, CONSTANT, [1, 0]),
    (6, CONSTANT, [1, 31]),
    # Lanes meet again behind an inner loop of unequal length: per row 32 lanes read 128 bytes, then 16 lanes 64 bytes.
    (7, GLOBAL, [4, 12, 1, 4]),
    # Atomics are counted apart; lanes of one address go one by one.
    (8, [*ATOMIC, *GLOBAL], [1, 16, 0, 0, 0, 0]),
    # Logs that overflow lose nothing.
    (9, GLOBAL, [18000, 45000, 18000, 45000]),
    # A long struct is copied once.
    (10, GLOBAL, [256, 256, 256, 256]),
])
def test_counts_are_as_computed_by_hand(launches, launch, names, expected):
    assert [launches[launch][1][name] for name in names] == expected


def test_sites_name_the_line(launches):
    (site,) = [s for s in launches[1][2] if s["op"] == "ld"]
    assert (site["file"], site["line"], site["space"], site["sectors"]) == ("kernels.cu", 3, "global", 32)
