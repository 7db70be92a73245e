"""The whole network's times: every way is measured and checked, wrong results and other machines are refused."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import labkit as lab
from labkit.base.errors import LabError
from labkit.measure.check import CheckFailed
from labkit.networks import benchmark
from labkit.spec.devices import device
from recording import network as recorder
from recording.several import bench_devices


@pytest.fixture(scope="module")
def table():
    return lab.bench_network(3, repeat=1, pytorch=False)


def test_every_way_has_a_row(table):
    ways = table[["label", "dtype", "where", "pixels"]]
    assert not ways.duplicated().any()
    assert len(table) == 1 + 2 * 2 * 3
    assert set(table["where"]) == {"device", "host"}
    assert set(table["pixels"]) == {"float32", "uint8 86x86", "uint8 8x8"}
    assert (table["batch"] == 3).all()
    assert np.allclose(table["images_s"], 3e3 / table["ms"])
    assert (table["error"] < 0.05).all()
    assert table.attrs["note"] == device().note


def test_a_wrong_network_is_not_timed(monkeypatch):
    right = benchmark.bounded
    monkeypatch.setattr(benchmark, "bounded", lambda *given: (1 - right(*given)[0], right(*given)[1]))
    with pytest.raises(CheckFailed, match="plain in float32 is wrong before timing: a probability of 1 images is off"):
        benchmark.bench_network(1, repeat=1, pytorch=False)


def test_a_result_that_goes_wrong_while_it_is_timed_is_refused():
    images = benchmark.Images(2)
    y = {"now": lab.Network().forward(images.forms["float32"][0])}
    case = benchmark.Case("mine", "float32", "host", "float32", "float32", lambda: None, lambda some: y["now"][some])
    images.check(case, "before timing")
    y["now"] = np.full((2, 10), np.nan)
    with pytest.raises(CheckFailed, match="mine in float32 is wrong after timing"):
        images.check(case, "after timing", again=False)


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(LabError, match="repeat = 0"):
        lab.bench_network(1, repeat=0)
    if device().engine == "cpu":
        with pytest.raises(LabError, match="needs PyTorch and an NVIDIA GPU"):
            lab.bench_network(1, pytorch=True)
        with pytest.raises(LabError, match="the network is recorded on a GPU"):
            recorder.network()


def test_several_devices_are_timed_together():
    found = bench_devices((1,), 2, ("uint8 8x8",), ("float16",), repeat=1)
    assert list(found["label"]) == ["fused on 1 GPU"]
    assert set(found.columns) == set(lab.bench_network(1, 1, False).columns)


def test_recordings_are_merged_and_read(table, tmp_path):
    results = lab.recorded("H200").path
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / results.name).write_bytes(results.read_bytes())
    path = recorder.keep(table, tmp_path)
    twice = recorder.keep(table.assign(ms=7.0), tmp_path)
    assert twice == path
    assert len(pd.read_csv(path)) == len(table)
    path.rename(path.with_name(results.name))
    here = lab.recorded("H200", tmp_path)
    fused = here.network(3, label="fused", dtype="float16", where="device")
    assert list(fused["pixels"]) == ["float32", "uint8 86x86", "uint8 8x8"]
    assert (fused["ms"] == 7).all()
    with pytest.raises(LabError, match=r"no forward pass with batch=10000, label='fused'\. It has batch: 3; label"):
        here.network(label="fused")


def test_counters_are_those_of_the_two_launches(monkeypatch):
    def run(command, environment, capture):
        assert command[0] == "ncu" and command[-1].endswith("program.py")
        names = ["ID", "Kernel Name", "Block Size", "Grid Size", *recorder.COUNTERS]
        table = [names, [""] * len(names), *([str(i), "network", "(32, 7, 1)", "(528, 1, 1)", *[str(i)] * len(
            recorder.COUNTERS)] for i in range(launches))]
        text = "\n".join(",".join(f'"{cell}"' for cell in row) for row in table)
        Path(command[command.index("--log-file") + 1]).write_text(f"==PROF== Connected\n{text}\n")
        return SimpleNamespace(problem="", output="")

    monkeypatch.setattr(recorder.nsight, "find", lambda tool: tool)
    monkeypatch.setattr(recorder.processes, "run", run)
    launches = 2
    counted = recorder.counters(7)
    assert list(counted["dtype"]) == ["float16", "float32"]
    assert (counted["batch"] == 7).all()
    assert list(counted["dram__bytes.sum"]) == [0, 1]
    launches = 1
    with pytest.raises(LabError, match="ncu counted other launches"):
        recorder.counters(7)
