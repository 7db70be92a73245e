"""Registers, spills and occupancy: read from what ptxas prints, and with nvcc where there is one."""

import shutil
import subprocess

import pytest

import labkit
from hostcuda.errors import EngineError
from hostcuda.gpu import nsight
from labkit.base.errors import LabError
from labkit.base.paths import cuda_src
from labkit.evidence import resources
from labkit.ladder.source import NVCC_OPTIONS
from recording import machine_code
from recording.compare_counters import memory_instructions

pytestmark = pytest.mark.thorough("counters, which the notebooks show, too")
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")


def test_without_nvcc_it_says_so(monkeypatch):
    monkeypatch.setattr(nsight, "find", lambda name: None)
    with pytest.raises(EngineError, match="nvcc, which is not on this machine"):
        resources.resources(1, labkit.LENET86[0])


def test_an_unknown_architecture_is_refused():
    with pytest.raises(LabError, match="sm_90"):
        resources.resources(1, labkit.LENET86[0], arch="sm_1")


@needs_nvcc
def test_nvcc_compiles_the_ladder_without_a_gpu():
    by_kernel = resources.resources([1, 5], labkit.LENET86[1]).set_index("kernel")
    assert list(by_kernel.index) == ["conv", "im2col", "gemm"]
    assert by_kernel.loc["gemm", "shared_bytes"] == 2048
    assert by_kernel["registers"].between(16, 64).all() and (by_kernel["occupancy"] == 1).all()
    assert set(by_kernel["source"]) == {"nvcc, sm_90"}


@needs_nvcc
def test_weights_that_are_not_side_by_side_take_all_registers():
    """Page 07 says so: nvcc loads 16 bytes of [m][t], too, but keeps the weights until their column comes."""
    masks = labkit.variant(7, step="masks")
    text = masks.source.replace("mask[TERMS][MAPS]", "mask[MAPS][TERMS]")
    text = text.replace("mask[t][m] =", "mask[m][t] =").replace(
        "mask[p * K + q][m]", "mask[m][p * K + q]"
    )
    other = labkit.variant(7, step="masks", source=text)
    used = resources.resources([masks, other], labkit.LENET86[1])["registers"]
    assert used.tolist() == [80, 255]


@needs_nvcc
def test_products_of_four_warps_are_compiled_as_on_an_h200():
    """For sm_90a; in float with the registers that a launch may use whose warps exchange some of them."""
    steps = [labkit.variant(number, step="warpgroups") for number in (10, 11)]
    by_variant = (
        resources.resources(steps, labkit.LENET86[1]).query("kernel == 'conv'").set_index("variant")
    )
    assert (
        set(by_variant["source"]) == {"nvcc, sm_90a"}
        and (by_variant["spill_store_bytes"] == 0).all()
    )
    assert by_variant.loc[steps[1].label, "registers"] == 168 == (8 * 216 + 4 * 72) // 12


@needs_nvcc
@pytest.mark.parametrize(
    "layer",
    [
        labkit.LENET86[1],
        labkit.LENET72[1],
        labkit.Layer("8 maps", 4, 43, 43, 8, 5),
        labkit.Layer("12 maps", 3, 48, 48, 12, 7),
    ],
    ids=str,
)
def test_products_of_four_warps_are_not_serialized(layer, tmp_path):
    """If registers do not suffice, nvcc says so in a remark."""
    step = labkit.variant(11, step="warpgroups")
    defines = [f"-D{name}={value}" for name, value in step.defines(layer).items()]
    command = [
        "nvcc",
        *NVCC_OPTIONS,
        "-arch=sm_90a",
        "-cubin",
        "-o",
        str(tmp_path / "conv.cubin"),
        *defines,
        f"-I{cuda_src()}",
        str(step.rung.step_file("warpgroups")),
    ]
    compiled = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "serialized" not in compiled.stdout + compiled.stderr


@needs_nvcc
def test_products_of_four_warps_compile_for_one_pixel():
    """The compiler nvcc refuses arrays without elements, which g++ accepts."""
    steps = [labkit.variant(number, step="warpgroups") for number in (10, 11)]
    assert len(resources.resources(steps, labkit.Layer("one pixel", 1, 1, 1, 1, 1))) == 2


@needs_nvcc
def test_what_nvcc_refuses_is_told():
    source = labkit.variant(1).source.replace("y[h * Wo + w] = 0;", "y[h * Wo + w] = nowhere;")
    with pytest.raises(EngineError, match=r"(?s)nvcc refuses.*nowhere"):
        resources.resources(labkit.variant(1, source=source), labkit.LENET86[1])


@pytest.mark.skipif(
    nsight.find("nvdisasm") is None or shutil.which("nvcc") is None,
    reason="needs nvcc and nvdisasm",
)
def test_nvcc_joins_the_reads_of_a_row():
    instructions = memory_instructions(labkit.variant(5), labkit.LENET86[0])
    loads = instructions[(instructions["space"] == "shared") & (instructions["op"] == "ld")]
    assert dict(zip(loads["instruction"], loads["count"], strict=True)) == {"LDS": 16, "LDS.128": 4}
    assert loads["line"].nunique() == 1


@pytest.mark.skipif(
    nsight.find("nvdisasm") is None or shutil.which("nvcc") is None,
    reason="needs nvcc and nvdisasm",
)
def test_a_load_brings_as_many_weights_as_every_row_of_them_allows():
    """As the pages 07 (tuning) and 07 (sizes) say: 24 bytes per row give loads of 8, a map per row loads of 4."""

    def count(own=None, **sizes):
        kernel = labkit.variant(7, rows=4, block=(160, 1), channels=4, source=own, **sizes)
        instructions = memory_instructions(kernel, labkit.LENET86[1])
        loads = instructions[(instructions["space"] == "shared") & (instructions["op"] == "ld")]
        return loads.groupby("bytes")["count"].sum().to_dict()

    assert [count(maps=maps) for maps in (4, 6, 8)] == [{16: 49}, {8: 147}, {16: 98}]
    turned = labkit.variant(7).source
    for before, after in {
        "mask[TERMS][GROUPS * MAPS]": "mask[GROUPS * MAPS][TERMS]",
        "mask[t][m] =": "mask[m][t] =",
        "mask[(c * K + p) * K + q][mine + m]": "mask[mine + m][(c * K + p) * K + q]",
    }.items():
        assert turned.count(before) == 1
        turned = turned.replace(before, after)
    assert count(turned, maps=8) == {4: 392}


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
    assert machine_code.read_accesses(SASS, "04_tiling.cu") == [
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
