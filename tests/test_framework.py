"""The recorder of the network in PyTorch, with a stand-in for PyTorch: what it times, refuses and keeps."""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import labkit
from labkit.base.errors import LabError
from labkit.networks.reference import layers
from labkit.records import recorded
from recording import keep, pytorch

pytestmark = pytest.mark.thorough("recorders: only the makers of data/ run them")

PARTS = ["conv 1", "relu, pool 1", "conv 2", "relu, pool 2", "fully connected"]


class Tensor(np.ndarray):
    """An array that has PyTorch's methods."""

    def to(self, place):
        assert place in ("cpu", "cuda")
        return self

    def cpu(self):
        return self

    float = cpu

    def numpy(self):
        return np.asarray(self)

    def flatten(self, first):
        return self.reshape(*self.shape[:first], -1)


class Event:
    """An event of PyTorch: what is between two of them takes 0.25 ms."""

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        pass

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return 0.25


def fake_torch(scale=1):
    """Return a stand-in for PyTorch on NumPy; its first convolution may be wrong by a factor."""
    return SimpleNamespace(
        __version__="2.11.0",
        version=SimpleNamespace(cuda="13.0"),
        get_num_threads=lambda: 16,
        from_numpy=lambda array: array.view(Tensor),
        softmax=lambda x, axis: layers.softmax(x),
        nn=SimpleNamespace(
            functional=SimpleNamespace(
                conv2d=lambda x, k: (scale * labkit.conv_numpy(np.asarray(x), np.asarray(k))).view(
                    Tensor
                ),
                relu=layers.relu,
                max_pool2d=lambda x, window, stride, ceil_mode=False: layers.max_pool(
                    np.asarray(x), window
                ).view(Tensor),
            )
        ),
        backends=SimpleNamespace(
            cudnn=SimpleNamespace(version=lambda: 91900),
            cuda=SimpleNamespace(matmul=SimpleNamespace()),
        ),
        cuda=SimpleNamespace(Event=Event, get_device_name=lambda index: "NVIDIA H200"),
    )


def test_every_part_is_timed_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(pytorch, "REPEAT", {"cpu": 1, "cuda": 2})
    torch = fake_torch()
    table = pytorch.measure_all(torch, [2, 5])
    assert torch.backends.cudnn.allow_tf32 is torch.backends.cuda.matmul.allow_tf32 is False
    for _, rows in table[table["place"] == "gpu"].groupby("batch"):
        assert list(rows["part"]) == ["copy in", *PARTS, "copy out", "whole"]
        assert (rows.loc[rows["part"] != "whole", "median_ms"] == 0.25).all()
    for _, rows in table[table["place"] == "cpu"].groupby("batch"):
        assert list(rows["part"]) == [*PARTS, "whole"]
        assert rows["median_ms"].gt(0).all()
    path = keep.record_table(table, "framework", tmp_path)
    assert path.name == "nvidia-h200.csv"

    shared = recorded.Recorded("H200")
    shared.folder = tmp_path
    read = shared.framework(5)
    assert list(read.index) == ["copy in", *PARTS, "copy out", "whole"]
    assert read["gpu"].notna().all()
    assert list(read.index[read["cpu"].isna()]) == ["copy in", "copy out"]
    with pytest.raises(
        LabError, match=r"no forward pass in PyTorch for batch 7\. It has batch: 2, 5"
    ):
        shared.framework(7)


def test_a_wrong_forward_pass_is_not_timed():
    with pytest.raises(LabError, match="on cpu: a probability differs from NumPy's by"):
        pytorch.measure_all(fake_torch(scale=-1), [2])


def test_without_pytorch_or_gpu_it_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(LabError, match="measured through PyTorch"):
        pytorch.framework()
    monkeypatch.setitem(
        sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(is_available=bool))
    )
    with pytest.raises(LabError, match="needs an NVIDIA GPU"):
        pytorch.framework()


def test_the_recorder_keeps_a_table_that_pandas_reads(tmp_path):
    table = pd.DataFrame([{"device": "NVIDIA Fake", "median_ms": 0.123456789}])
    assert (
        pd.read_csv(keep.record_table(table, "framework", tmp_path))["median_ms"].item() == 0.12346
    )
