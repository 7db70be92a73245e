"""Check mode's counters: on kernels whose traffic can be counted by hand, and on the ladder's first rungs."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.thorough("counters, which the notebooks show, too")

LD, ST = ("l1tex__t_{}_pipe_lsu_mem_global_op_" + op + ".sum" for op in ("ld", "st"))
SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"

SCRIPT = r"""
import json, sys
import numpy as np
import hostcuda.autoinit
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule
import labkit
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
for number in (1, 2, 3, 4):
    layer = labkit.LENET86[0]
    with labkit.variant(number).plan(layer, 2) as plan:
        plan.load(np.zeros(layer.x_shape(2), np.float32), np.zeros(layer.k_shape, np.float32))
        plan.run()
        plan.result()
cuda.Context.synchronize()
print(json.dumps([[r.kernel, r.counts, r.sites, len(r.findings)] for r in checking.launches()]))
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


def traffic(counts):
    return [counts[name.format(what)] for name in (LD, ST) for what in ("requests", "sectors")]


def test_sectors_follow_the_stride(launches):
    assert traffic(launches[0][1]) == [1, 4, 1, 4]
    assert traffic(launches[1][1]) == [1, 32, 1, 4]


def test_a_vector_is_one_access(launches):
    assert traffic(launches[2][1]) == [1, 16, 1, 16]
    assert launches[2][1]["lab__unique_bytes_global.sum"] == 2 * 32 * 16


def test_a_long_struct_is_copied_once(launches):
    assert traffic(launches[10][1]) == [256, 256, 256, 256]


def test_bank_conflicts_and_the_padding_that_removes_them(launches):
    assert (launches[3][1][SHARED], launches[3][1][CONFLICTS]) == (32, 31)
    assert (launches[4][1][SHARED], launches[4][1][CONFLICTS]) == (1, 0)
    assert launches[3][1]["lab__barriers.sum"] == 1


def test_constant_memory_serializes_different_addresses(launches):
    counts = [launches[i][1] for i in (5, 6)]
    assert [c["lab__constant_requests.sum"] for c in counts] == [1, 1]
    assert [c["lab__constant_serialized.sum"] for c in counts] == [0, 31]


def test_lanes_meet_again_behind_an_inner_loop_of_unequal_length(launches):
    # Per row 32 lanes read 128 bytes, then 16 lanes 64 bytes; the rows must not mix.
    assert traffic(launches[7][1]) == [4, 12, 1, 4]


def test_atomics_are_counted_apart(launches):
    counts = launches[8][1]
    assert counts["l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"] == 1
    assert counts["l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum"] == 16  # lanes of one address go one by one
    assert traffic(counts) == [0, 0, 0, 0]


def test_logs_that_overflow_lose_nothing(launches):
    assert traffic(launches[9][1]) == [18000, 45000, 18000, 45000]


def test_sites_name_the_line(launches):
    (site,) = [s for s in launches[1][2] if s["op"] == "ld"]
    assert (site["file"], site["line"], site["space"], site["sectors"]) == ("kernels.cu", 3, "global", 32)


def test_first_rungs_agree_with_ncu(launches):
    """The figures are per image of Network's first layer, as Nsight Compute counted on an H200 (batch 1000)."""
    expected = {
        1: [78400, 263200, 40000, 160000],
        2: [39200, 224000, 40000, 160000],
        3: [39200, 224000, 800, 3200],
        4: [2200, 9350, 800, 3200],
    }
    rungs = [traffic(r[1]) for r in launches[11:]]
    assert rungs == [[2 * n for n in expected[number]] for number in (1, 2, 3, 4)]
    assert not any(r[3] for r in launches)
