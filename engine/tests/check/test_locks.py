"""Races within a block: a lock or a flag orders accesses, other atomic and volatile accesses do not."""

import pytest

from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

PROGRAM = '''
import numpy as np
import hostcuda.autoinit
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule

SOURCE = """#line 1 "locks.cu"
#define KERNEL extern "C" __global__ void

// Right.
KERNEL lock_in_shared_memory(int *x) {
    __shared__ int lock, sum;
    if (threadIdx.x == 0) lock = sum = 0;
    __syncthreads();
    for (bool done = false; !done;)
        if (atomicCAS(&lock, 0, 1) == 0) {
            __threadfence_block();
            sum += 1;
            __threadfence_block();
            atomicExch(&lock, 0);
            done = true;
        }
    __syncthreads();
    if (threadIdx.x == 0) x[0] = sum;
}
KERNEL flag_between_warps(int *x) {
    volatile int *flag = x + 8;
    if (threadIdx.x == 32) { x[1] = 7; __threadfence_block(); *flag = 1; }
    else if (threadIdx.x == 0) { while (*flag == 0) __nanosleep(10); __threadfence_block(); x[0] = x[1]; }
}
KERNEL volatile_word_of_two_warps(int *x) { if (threadIdx.x % 32 == 0) *(volatile int *)x = threadIdx.x; }

// Wrong.
KERNEL flag_without_a_fence(int *x) {
    volatile int *flag = x + 8;
    if (threadIdx.x == 0) { x[1] = 7; *flag = 1; }
    if (threadIdx.x == 32) x[0] = x[1] + *flag;
}
KERNEL histogram_read_too_early(int *x) {
    __shared__ int bins[64];
    bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[threadIdx.x / 2], 1);
    x[threadIdx.x] = bins[63 - threadIdx.x];
}
KERNEL volatile_reduction(int *x) {
    __shared__ volatile int s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 32) {
        s[threadIdx.x] += s[threadIdx.x + 32];
        s[threadIdx.x] += s[threadIdx.x + 16];
    }
}
"""
module = SourceModule(SOURCE, no_extern_c=True)
for name in [line.split()[1].split("(")[0] for line in SOURCE.splitlines() if line.startswith("KERNEL")]:
    module.get_function(name)(cuda.to_device(np.zeros(64, np.int32)), block=(64, 1, 1))
cuda.Context.synchronize()
'''
KERNELS = [line.split()[1].split("(")[0] for line in PROGRAM.splitlines() if line.startswith("KERNEL")]


@pytest.fixture(scope="module")
def racing(tmp_path_factory):
    """Return the names of the kernels with findings."""
    path = tmp_path_factory.mktemp("locks") / "program.py"
    path.write_text(PROGRAM)
    findings = sanitize_script(str(path), tool="racecheck", engine="cpu", capture=True)
    assert findings.ended.status == 0, findings.ended.output
    assert findings.launches == len(KERNELS)
    return set(findings.table["kernel"])


@pytest.mark.parametrize("kernel", KERNELS[:3])
def test_what_a_lock_or_a_flag_orders_is_no_race(kernel, racing):
    assert kernel not in racing


@pytest.mark.parametrize("kernel", KERNELS[3:])
def test_without_it_there_is_a_race(kernel, racing):
    assert kernel in racing
