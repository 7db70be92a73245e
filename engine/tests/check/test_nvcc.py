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


SASS = """
.text.conv:
	//## File "/tmp/a/04_tiling.cu", line 41
        /*0010*/              @!P1 LDG.E.CONSTANT R10, desc[UR10][R16.64] ;
        /*0020*/                   STS [R19], R10 ;
        /*0030*/                   STS [R21], R28 ;
	//## File "/usr/include/crt/mma.hpp", line 91 inlined at "/tmp/a/04_tiling.cu", line 66
	//## File "/tmp/a/04_tiling.cu", line 66
        /*0040*/                   LDSM.16.MT88.4 R16, [R31] ;
        /*0050*/                   LDSM.16.M88 R16, [R31] ;
.L_x_1:
	//## File "/tmp/a/04_tiling.cu", line 70
        /*0060*/                   LDS.U16 R1, [R2] ;
        /*0070*/                   LDC R1, c[0x0][0x28] ;
        /*0080*/              @P0  STG.E.64 desc[UR4][R2.64], R4 ;
.text.other:
        /*0000*/                   REDG.E.ADD.STRONG.GPU desc[UR4][R2.64], R5 ;
        /*0008*/                   REDG.E.ADD.F64.RN.STRONG.GPU desc[UR4][R2.64], R6 ;
        /*0010*/                   ATOMS.ADD R0, [R1], R2 ;
"""


def test_loads_and_stores_of_machine_code_are_told_by_line_and_width():
    rows = [tuple(row.values()) for row in nvcc.read_sass(SASS, "04_tiling.cu")]
    assert rows == [
        ("conv", 41, "LDG.E.CONSTANT", "global", "ld", 4, True, 1),
        ("conv", 41, "STS", "shared", "st", 4, False, 2),
        ("conv", 66, "LDSM.16.M88", "shared", "ld", 4, False, 1),
        ("conv", 66, "LDSM.16.MT88.4", "shared", "ld", 16, False, 1),
        ("conv", 70, "LDS.U16", "shared", "ld", 2, False, 1),
        ("conv", 70, "STG.E.64", "global", "st", 8, True, 1),
        ("other", 0, "ATOMS.ADD", "shared", "atom", 4, False, 1),
        ("other", 0, "REDG.E.ADD.F64.RN.STRONG.GPU", "global", "red", 8, False, 1),
        ("other", 0, "REDG.E.ADD.STRONG.GPU", "global", "red", 4, False, 1),
    ]
