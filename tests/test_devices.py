"""Devices: their rates and other data, and the sentences about them."""

import dataclasses
import math

import numpy as np
import pytest

from labkit.base.errors import LabError
from labkit.spec import devices
from labkit.spec.devices import Device, device, slug

pytestmark = pytest.mark.thorough("breadth of the lab: the notebooks run the main paths")

H200 = device("H200")


def test_the_h200s_peaks_are_its_data_sheets():
    assert pytest.approx(66.9e12, rel=0.005) == H200.peak_flops
    assert pytest.approx(4.8e12, rel=0.005) == H200.peak_bandwidth
    assert pytest.approx(133.8e12, rel=0.005) == H200.peak_half2_flops
    # the data sheet's clock is lower than the highest
    assert 989e12 <= H200.peak_tensor_flops < 1.1 * 989e12


def test_what_was_measured_lies_under_the_peaks():
    measured = H200.ceilings
    assert measured["copy"] == pytest.approx(4.23e12)
    assert measured["to_device_pinned"] == pytest.approx(55.2e9)
    assert measured["float16_gemm"] == pytest.approx(729e12)
    for name in ("copy", "read", "write", "reference_bandwidth"):
        assert measured[name] < H200.peak_bandwidth
    for name in ("float32_gemm", "float32_ffma", "reference_float32"):
        assert measured[name] <= H200.peak_flops * 1.0001
    assert measured["float16_gemm"] < H200.peak_tensor_flops
    assert len(measured) == 13


def test_nothing_is_faster_than_the_shortest_time():
    assert H200.shortest_s(read=H200.peak_bandwidth, written=0, flops=0) == 1
    assert H200.shortest_s(0, 0, H200.peak_flops) == 1
    assert H200.shortest_s(0, 0, H200.peak_half2_flops, "half2") == 1
    assert H200.shortest_s(0, 0, H200.peak_tensor_flops, "tensor cores") == 1
    assert H200.shortest_s(0, H200.l2_bytes, 0) == 0
    assert H200.shortest_s(0, H200.l2_bytes + H200.peak_bandwidth, 0) == pytest.approx(1)
    assert H200.reference_s(4.3e12, 1) == pytest.approx(1) == H200.reference_s(1, 60e12)
    assert H200.reference_s(1, 729e12, np.float16) == pytest.approx(1)
    assert H200.reference_s(1, 415e12, products="TF32") == pytest.approx(1)
    assert H200.reference_s(1, 729e12 / 3, products="3×FP16") == pytest.approx(1)


def test_the_reference_rates_of_an_unlisted_gpu_are_its_peaks():
    facts = {
        "name": "NVIDIA Unheard Of",
        "memory_bytes": 1,
        "l2_bytes": 1,
        "memory_hz": 1e9,
        "bus_bits": 256,
    }
    gpu = devices._make_gpu(
        compute_capability=(8, 6), multiprocessors=10, clock_hz=1e9, source="test", **facts
    )
    assert gpu.peak_flops == 10 * 128 * 2 * 1e9
    assert gpu.peak_bandwidth == 64e9
    assert gpu.ceilings == {
        "reference_bandwidth": gpu.peak_bandwidth,
        "reference_float32": gpu.peak_flops,
    }
    assert gpu.reference_s(1, gpu.peak_tensor_flops, np.float16) == pytest.approx(1)
    assert "no measured rates known" in gpu.source
    future = devices._make_gpu(
        compute_capability=(99, 0), multiprocessors=1, clock_hz=1e9, source="test", **facts
    )
    assert "guess" in future.source
    assert future.peak_tensor_flops == math.inf  # a limit that is not known refuses nothing
    old = devices._make_gpu(
        compute_capability=(6, 0), multiprocessors=1, clock_hz=1e9, source="test", **facts
    )
    assert old.peak_flops < old.peak_half2_flops == old.peak_tensor_flops  # no tensor cores


def test_a_listed_device_by_part_of_its_name():
    assert device("NVIDIA H200") == device("h200") == H200
    with pytest.raises(LabError, match="no device with the name 'H2000'; it lists NVIDIA H200"):
        device("H2000")
    with pytest.raises(LabError, match="has 2 devices with the name 'NVIDIA H'"):
        device("NVIDIA H")
    other = dataclasses.replace(H200, measured=None)
    assert device(other) is other


def test_without_the_data_folder_every_device_is_unknown(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "data_dir", lambda: tmp_path)
    assert devices._read_measured_rates("NVIDIA H200") is None


def test_the_device_in_use():
    here = device()
    assert here is device() is device(None)
    assert here.engine in ("gpu", "cpu")
    assert here.name
    assert here.multiprocessors >= 1
    assert here.memory_bytes > 2**28
    assert here.peak_flops > 1e9
    assert 1e8 < here.ceilings["reference_bandwidth"] < here.peak_bandwidth * 1.0001
    assert 1e8 < here.ceilings["reference_float32"] < here.peak_flops * 1.0001
    assert here.ceilings is device().ceilings  # measured once
    assert here.reference_s(1e9, 1e9) >= here.shortest_s(1e9, 0, 1e9)


def test_a_cpu_says_that_its_times_are_no_gpus():
    cpu = Device("cpu", "Some CPU (TM)", None, 4, 0.0, 2**30, 2**20, 1e12, 2e12, 2e12, 3e12)
    assert cpu.note == "Not GPU times: measured on the CPU engine (Some CPU (TM), 4 workers)."
    assert H200.note == ""
    assert "workers             4" in str(cpu)
    assert "not reported" in str(cpu)


def test_descriptions():
    text, page = str(H200), H200._repr_html_()
    for part in (
        "NVIDIA H200",
        "9.0",
        "132",
        "66.9 TFLOP/s",
        "4.81 TB/s",
        "4.3 TB/s",
        "60 TFLOP/s",
    ):
        assert part in text
        assert part in page
    assert "&lt;i&gt;" in dataclasses.replace(H200, name="<i>")._repr_html_()
    assert slug("NVIDIA GeForce RTX 4090 (Laptop)") == "nvidia-geforce-rtx-4090-laptop"
