"""The recorder of cuDNN's times, with a stand-in for PyTorch: what it asks for, refuses and keeps."""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.spec.layers import LENET72, LENET86, Layer
from labkit.spec.reference import conv_numpy
from recording import cudnn, keep

pytestmark = pytest.mark.thorough("recorders: only the makers of data/ run them")

TINY = Layer("lenet86 layer 2", 2, 9, 8, 3, 3)


class Tensor:
    """An array in the fake GPU's memory."""

    def __init__(self, array, dtype=np.float32, memory_format=None):
        self.array, self.memory_format = np.asarray(array, dtype), memory_format

    def to(self, device, dtype, memory_format):
        assert device == "cuda"
        return Tensor(self.array, dtype, memory_format)

    def __getitem__(self, index):
        return Tensor(self.array[index], self.array.dtype)

    def float(self):
        return Tensor(self.array)

    def cpu(self):
        return self

    def numpy(self):
        return self.array

    def zero_(self):
        self.array[:] = 0
        self.torch.log.append(("flush", self.array.nbytes))


class Event:
    """An event of PyTorch: between two of them there is one convolution, which takes 0.25 ms."""

    def __init__(self, torch, enable_timing):
        assert enable_timing
        self.torch = torch

    def record(self):
        self.at = len(self.torch.log)
        self.torch.log.append("event")

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        assert self.torch.log[self.at : end.at + 1] == ["event", "conv", "event"]
        return 0.25


def fake_torch(round_tf32=True):
    """Return a stand-in for PyTorch on NumPy; in single precision, inputs are rounded to 10 bits if TF32 is on."""
    torch = SimpleNamespace(
        log=[],
        __version__="2.11.0",
        version=SimpleNamespace(cuda="13.0"),
        from_numpy=Tensor,
        uint8=np.uint8,
        float16=np.float16,
        float32=np.float32,
        contiguous_format="nchw",
        channels_last="nhwc",
        layouts=set(),
    )
    torch.backends = SimpleNamespace(
        cudnn=SimpleNamespace(version=lambda: 91900, allow_tf32=True, benchmark=False)
    )
    torch.cuda = SimpleNamespace(
        Event=lambda enable_timing: Event(torch, enable_timing),
        get_device_properties=lambda index: SimpleNamespace(L2_cache_size=2**20),
        get_device_name=lambda index: "NVIDIA Fake",
        _sleep=lambda cycles: None,
    )

    def empty(size, dtype, device):
        """Return a tensor of ones, though PyTorch's is not filled."""
        buffer = Tensor(np.ones(size), dtype)
        buffer.torch = torch
        return buffer

    def conv2d(x, k):
        """Convolve on the host, and note how PyTorch was set; with `round_tf32` TF32 rounds the factors."""
        assert torch.backends.cudnn.benchmark
        assert x.memory_format == k.memory_format
        torch.layouts.add((x.memory_format, x.array.dtype.name, torch.backends.cudnn.allow_tf32))
        torch.log.append("conv")
        arrays = [tensor.array for tensor in (x, k)]
        if round_tf32 and torch.backends.cudnn.allow_tf32:
            arrays = [(array.view(np.uint32) & 0xFFFFE000).view(np.float32) for array in arrays]
        return Tensor(conv_numpy(*arrays), x.array.dtype)

    torch.empty, torch.nn = empty, SimpleNamespace(functional=SimpleNamespace(conv2d=conv2d))
    return torch


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(cudnn, "WARM_UP_MS", 1)
    monkeypatch.setattr(cudnn, "REPEAT", 3)


def test_every_case_is_measured_and_kept(tmp_path):
    torch = fake_torch()
    table = cudnn.measure_all(torch, [TINY], [2, 5])
    assert len(table) == 2 * 3 * 2
    assert not table.duplicated(["network", "layer", "batch", "mode", "layout"]).any()
    assert torch.layouts == {
        (layout, dtype, tf32)
        for layout in ("nchw", "nhwc")
        for dtype, tf32 in (("float32", False), ("float32", True), ("float16", False))
    }
    # before each timed run
    assert torch.log.count(("flush", 2**21)) == torch.log.count("event") / 2
    path = keep.record_table(table, "cudnn", tmp_path)
    assert path.name == "nvidia-fake.csv"
    saved = pd.read_csv(path)
    assert (saved["median_ms"] == 0.25).all()
    assert (saved["repeat"] == cudnn.REPEAT).all()


def test_tf32_is_not_taken_for_fp32():
    torch = fake_torch()
    rng = np.random.default_rng(0)
    x, k = (rng.random(shape, dtype=np.float32) for shape in (TINY.x_shape(3), TINY.k_shape))
    cudnn.measure_case(torch, TINY, x, k, "tf32", "NCHW")
    stuck = property(lambda self: True, lambda self, value: None)
    torch.backends.cudnn = type("Backend", (), {"allow_tf32": stuck})()
    with pytest.raises(LabError, match=r"in fp32, NCHW: the error is"):
        cudnn.measure_case(torch, TINY, x, k, "fp32", "NCHW")


def test_without_pytorch_or_gpu_it_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(LabError, match="through PyTorch"):
        cudnn.cudnn()
    monkeypatch.setitem(
        sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(is_available=bool))
    )
    with pytest.raises(LabError, match="needs an NVIDIA GPU"):
        cudnn.cudnn()


def test_the_recorded_file_has_every_case():
    table = pd.read_csv(data_dir() / "cudnn" / "nvidia-h200.csv")
    cases = {
        (layer.network, number, batch, mode, layout)
        for preset in (LENET86, LENET72)
        for number, layer in enumerate(preset, 1)
        for batch in cudnn.BATCHES
        for mode in cudnn.MODES
        for layout in cudnn.LAYOUTS
    }
    assert {
        *table[["network", "layer", "batch", "mode", "layout"]].itertuples(index=False, name=None)
    } == cases
    assert len(table) == len(cases)
