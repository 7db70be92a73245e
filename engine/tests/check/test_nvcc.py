"""Registers, spills and occupancy: read from what ptxas prints, and with nvcc where there is one."""

import shutil

import pytest

from hostcuda.gpu import nvcc

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

TEXT = """ptxas info    : 0 bytes gmem, 3136 bytes cmem[3]
ptxas info    : Compiling entry function 'im2col' for 'sm_90'
ptxas info    : Function properties for im2col
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers
ptxas info    : Compiling entry function 'gemm' for 'sm_90'
ptxas info    : Function properties for gemm
    40 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 2048 bytes smem
"""


def test_each_kernel_has_its_own_figures():
    kernels = nvcc.read_ptxas(TEXT)
    assert kernels["im2col"] == {
        "registers": 32,
        "stack_bytes": 0,
        "spill_store_bytes": 0,
        "spill_load_bytes": 0,
        "shared_bytes": 0,
    }
    assert kernels["gemm"] == {
        "registers": 255,
        "stack_bytes": 40,
        "spill_store_bytes": 16,
        "spill_load_bytes": 24,
        "shared_bytes": 2048,
    }


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_a_module_s_kernels_are_found_by_the_names_that_the_source_gives_them():
    source = """#line 7 "mine.cu"
template <class T> __global__ void fill(T *x) { x[threadIdx.x] = 1; }
template __global__ void fill<float>(float *);
__global__ void twice(int *x) { x[0] *= 2; }
__global__ void twice(float *x) { x[0] *= 2; }
extern "C" __global__ void plain(float *x) { x[0] = SIZE; }"""
    module = {
        "module": "a",
        "source": source,
        "options": ["-DSIZE=3", "-gencode", "arch=compute_80,code=sm_80"],
        "include_dirs": [],
    }
    wrong = {**module, "module": "b", "options": []}
    kernels, (refused,) = nvcc.compile_modules([module, {**module, "module": "c"}, wrong])
    assert (
        kernels["a"]["fill<float>"] == kernels["c"]["_Z4fillIfEvPT_"]
        and kernels["a"]["plain"]["registers"] > 0
    )
    assert kernels["a"]["twice"] == {} and kernels["a"]["_Z5twicePf"]["registers"] > 0, (
        "which of the two is not said"
    )
    assert kernels["b"] == {} and refused.startswith("mine.cu(11): error") and "SIZE" in refused
