"""Races between blocks: found where nothing can order the blocks of a launch, and nowhere else."""

import pytest

from labkit import sanitizing

PROGRAM = '''
import numpy as np
import labkit.cuda.autoinit
import labkit.cuda.driver as cuda
from labkit.cuda.compiler import SourceModule
kernel = SourceModule("""
__device__ unsigned arrived;
__global__ void last_block_sums(float *x, float *part) {
    if (threadIdx.x == 0) part[blockIdx.x] = x[blockIdx.x];
    __threadfence();
    __shared__ bool last;
    if (threadIdx.x == 0) last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x == 0) for (int i = 0; i < gridDim.x; i++) x[0] += part[i];
}
__global__ void spins(float *x, volatile float *part) {
    if (threadIdx.x == 0) part[blockIdx.x + 1] = x[blockIdx.x] + (blockIdx.x ? part[blockIdx.x] : 0);
}
__global__ void reads_what_others_read(float *x, float *part) { part[blockIdx.x * 32 + threadIdx.x] = x[threadIdx.x]; }
__global__ void neighbours_sectors(float *x, float *part) { if (threadIdx.x == 0) part[blockIdx.x] = x[blockIdx.x]; }
__global__ void two_write_one_word(float *x, float *part) {
    if (threadIdx.x == 0) part[blockIdx.x / 2] = x[blockIdx.x]; }
__global__ void halo_in_place(float *x, float *part) {
    int i = blockIdx.x * 32 + threadIdx.x;
    float right = x[i + 1];
    __syncthreads();
    x[i] += right;
}
""").get_function("KERNEL")
x, part = (cuda.to_device(np.zeros(256, np.float32)) for _ in range(2))
for _ in range(2):
    kernel(x, part, grid=(4, 1), block=(32, 1, 1))
cuda.Context.synchronize()
'''


def found(kernel, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.replace("KERNEL", kernel))
    return sanitizing.sanitize_script(str(path), tool="racecheck", engine="cpu", capture=True)


@pytest.mark.parametrize("kernel", ["last_block_sums", "spins", "reads_what_others_read", "neighbours_sectors"])
def test_blocks_that_may_be_ordered_or_do_not_meet(kernel, tmp_path):
    findings = found(kernel, tmp_path)
    assert findings.ended.status == 0 and findings.clean, repr(findings)


def test_both_blocks_are_named(tmp_path):
    (finding, again) = found("halo_in_place", tmp_path).table.to_dict("records")
    assert finding["kind"] == again["kind"] == "race between blocks"
    assert "blocks (0,0,0), which reads, and (1,0,0), which writes" in finding["message"]
    assert tuple(finding["block"]) == (1, 0, 0) and tuple(finding["thread"]) == (0, 0, 0)
    assert finding["line"] == 22 and finding["other"]["line"] == 20 and tuple(finding["other"]["thread"]) == (31, 0, 0)


def test_two_blocks_that_write_the_same_word(tmp_path):
    (finding, _) = found("two_write_one_word", tmp_path).table.to_dict("records")
    assert finding["kind"] == "race between blocks" and finding["count"] == 2  # blocks 1 and 3
    assert "(0,0,0), which writes, and (1,0,0), which writes" in finding["message"]
