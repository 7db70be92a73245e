"""Registers, spills and occupancy: read from what ptxas prints, and with nvcc where there is one."""

import shutil

import pytest

import labkit
from labkit import compiled
from labkit.errors import LabError

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
    found = compiled.read_ptxas(TEXT)
    assert found["im2col"] == {"registers": 32, "stack_bytes": 0, "spill_store_bytes": 0, "spill_load_bytes": 0,
                               "shared_bytes": 0}  # fmt: skip
    assert found["gemm"] == {"registers": 255, "stack_bytes": 40, "spill_store_bytes": 16, "spill_load_bytes": 24,
                             "shared_bytes": 2048}  # fmt: skip


def test_without_nvcc_it_says_so(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(LabError, match="nvcc, which is not on this machine"):
        labkit.resources(1, labkit.LENET86[0])


def test_an_unknown_architecture_is_refused():
    with pytest.raises(LabError, match="sm_90"):
        labkit.resources(1, labkit.LENET86[0], arch="sm_1")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_nvcc_compiles_the_ladder_without_a_gpu():
    found = labkit.resources([1, 5], labkit.LENET86[1]).set_index("kernel")
    assert list(found.index) == ["conv", "im2col", "gemm"]
    assert found.loc["gemm", "shared_bytes"] == 2048
    assert found["registers"].between(16, 64).all() and (found["occupancy"] == 1).all()
    assert set(found["source"]) == {"nvcc, sm_90"}


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_what_nvcc_refuses_is_told():
    source = labkit.variant(1).source.replace("y[h * Wo + w] = 0;", "y[h * Wo + w] = nowhere;")
    with pytest.raises(LabError, match=r"(?s)nvcc refuses.*nowhere"):
        labkit.resources(labkit.variant(1, source=source), labkit.LENET86[1])
