"""The comparison in one run: every contestant's result is checked, and missing libraries are left out.

It is timed on a GPU only. A stand-in for PyTorch, on NumPy, has what the comparison uses of it.
"""

import ctypes
import os
import subprocess
import sys
from contextlib import ExitStack, nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import labkit
from labkit.base.errors import LabError
from labkit.base.numerals import format_digits
from labkit.spec import devices
from recording import libraries, options, small, versus
from recording.libraries import Given

pytestmark = pytest.mark.thorough("recorders: only the makers of data/ run them")

LAYER = labkit.Layer("lenet86 layer 2", C=2, H=9, W=8, M=3, K=3)


class Tensor(np.ndarray):
    """An array that has PyTorch's methods."""

    def to(self, place, dtype, memory_format):
        assert place == "cuda" and memory_format in ("NCHW", "NHWC")
        return self.astype(dtype)

    def float(self):
        return self.astype(np.float32)

    def cpu(self):
        return self

    def numpy(self):
        return np.asarray(self)

    def data_ptr(self):
        return self.ctypes.data

    def element_size(self):
        return self.itemsize

    def contiguous(self, memory_format):
        return np.ascontiguousarray(self).view(Tensor)

    def zero_(self):
        self.fill(0)


class Event:
    """An event of PyTorch; what libraries do moves the clock [ms], and a run takes 1 ms more."""

    clock = 0.0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = Event.clock

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return 1.0 + end.at - self.at


class Profile:
    """A profile of two kernels."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def key_averages(self):
        times = {"copy": 1.0, "triton_convolution": 2.0}
        return [SimpleNamespace(key=key, self_device_time_total=us) for key, us in times.items()]


def fake_torch(log=None):
    """Return a stand-in for PyTorch with what the comparison uses; `log` gets the limits of plans that conv2d saw."""

    def conv2d(x, k):
        """Convolve on the host, and note the limit of plans."""
        if log is not None:
            log.append(torch.backends.cudnn.benchmark_limit)
        return labkit.conv_numpy(np.asarray(x), np.asarray(k)).view(Tensor)

    def pad(tensor, padding):
        """Pad the channels with zeros."""
        assert padding[:4] == (0, 0, 0, 0)
        widths = (0, 0), padding[4:], (0, 0), (0, 0)
        return np.pad(np.asarray(tensor), widths).view(Tensor)

    torch = SimpleNamespace(
        float16=np.float16,
        float32=np.float32,
        contiguous_format="NCHW",
        channels_last="NHWC",
        from_numpy=lambda array: array.view(Tensor),
        uint8=np.uint8,
        __version__="2.11.0",
        version=SimpleNamespace(cuda="13.0"),
        empty=lambda shape, dtype, device, memory_format=None: np.full(shape, 77, dtype).view(
            Tensor
        ),
        compile=lambda function, dynamic, options: function,
        profiler=SimpleNamespace(
            ProfilerActivity=SimpleNamespace(CUDA=0), profile=lambda activities: Profile()
        ),
        _dynamo=SimpleNamespace(reset=lambda: None),
        nn=SimpleNamespace(functional=SimpleNamespace(conv2d=conv2d, pad=pad)),
        backends=SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 91900)),
        cuda=SimpleNamespace(
            Event=Event,
            synchronize=lambda: None,
            is_available=lambda: True,
            empty_cache=lambda: None,
            CUDAGraph=lambda: SimpleNamespace(replay=lambda: None),
            graph=lambda graph: nullcontext(),
            get_device_properties=lambda index: SimpleNamespace(L2_cache_size=64),
            _sleep=lambda cycles: None,
        ),
    )
    return torch


@pytest.fixture
def given():
    """Return a layer with random inputs and a mask, and a PyTorch that is none."""
    rng = np.random.default_rng(1)
    inputs = [
        rng.random(LAYER.x_shape(versus.CHECKED_IMAGES), dtype=np.float32)
        for _ in range(versus.INPUTS)
    ]
    return Given(fake_torch(), LAYER, inputs, rng.random(LAYER.k_shape, dtype=np.float32))


def test_a_wrong_result_of_either_input_ends_the_run(monkeypatch, given):
    monkeypatch.setattr(versus, "OURS", ((1, None), (10, None)))
    with ExitStack() as stack:
        several = list(versus.list_own(stack, LAYER, given.inputs, given.k))
        assert [contestant.label for contestant in several] == ["01 baseline", "10 speed of light"]
        assert versus.select_correct(several, given, "before") == several
        for contestant in several:
            right = contestant.result
            contestant.result = lambda i, right=right: right(0)  # the second input's is not it
            with pytest.raises(
                LabError, match=f"{contestant.label}, NCHW, on {LAYER}: wrong after the timed runs"
            ):
                versus.select_correct(several, given, "after")
            contestant.result = right


def test_the_run_measures_everyone_and_keeps_a_table(monkeypatch, tmp_path, capsys):
    here = SimpleNamespace(
        engine="gpu", name="NVIDIA Test", slug="nvidia-test", software="CUDA 13.0"
    )
    monkeypatch.setattr(devices, "device", lambda: here)
    monkeypatch.setattr(versus, "OURS", ((1, None), (10, None)))
    monkeypatch.setattr(
        options, "LAYERS", [labkit.Layer("lenet86 layer 1", C=1, H=9, W=8, M=3, K=3), LAYER]
    )
    monkeypatch.setitem(sys.modules, "torch", fake_torch())
    without = ["triton", "cutile", "cutlass"]
    versus.versus(repeat=2, batch=[6, 4], without=without, out=tmp_path)
    table = pd.read_csv(tmp_path / "versus" / "nvidia-test.csv", keep_default_na=False)
    assert list(table["label"].unique()) == [
        "01 baseline",
        "10 speed of light",
        "01 baseline, again",
        "10 speed of light, again",
        "cuDNN FP32",
        "cuDNN TF32",
        "cuDNN FP16",
        "torch.compile FP16",
        "torch.compile TF32",
    ]
    assert list(table[["layer", "batch"]].drop_duplicates().itertuples(index=False, name=None)) == [
        (1, 4),
        (1, 6),
        (2, 4),
        (2, 6),
    ]  # measured with the largest batch first
    assert len(table) == 4 * (4 + 6 + 2)
    assert (table[["min_ms", "q1_ms", "median_ms", "q3_ms", "max_ms"]].to_numpy() == 1.0).all()
    assert "again" not in versus.to_markdown(table) and versus.find_noise(table) == 0
    slower = table["label"].str.endswith("again") & table["batch"].eq(6)
    noisy = table.assign(median_ms=table["median_ms"].mask(slower, 1.03))
    assert "The two medians of such a kernel differ by up to 3.0 %." in versus.to_markdown(noisy)
    assert (
        "lenet86 layer 1, 6 images: measured; so far cudnn 0 s, compile 0 s"
        in capsys.readouterr().out
    )
    with pytest.raises(
        LabError, match="--without cudn: it is one of cudnn, compile, triton, cutile, cutlass"
    ):
        versus.versus(without=["cudn"])
    with pytest.raises(
        LabError, match=r"--layer lenet86 layer 3: it is one of lenet86 layer 1, lenet86 layer 2$"
    ):
        versus.versus(only=["lenet86 layer 3"])
    versus.versus(
        repeat=2, batch=[6], only=[LAYER.name], without=[*without, "compile"], out=tmp_path
    )
    # only those rows are new
    table = pd.read_csv(tmp_path / "versus" / "nvidia-test.csv", keep_default_na=False)
    assert table.groupby(["layer", "batch"]).size().to_dict() == {
        (1, 4): 12,
        (1, 6): 12,
        (2, 4): 12,
        (2, 6): 10,
    }


def test_the_contestants_take_turns_in_random_order(monkeypatch, given):
    monkeypatch.setattr(versus, "OURS", ((1, None), (10, None)))
    monkeypatch.setattr(
        versus,
        "select_correct",
        lambda runs, *more: [log_runs(n, run) for n, run in enumerate(runs)],
    )
    log = []

    def log_runs(n, contestant):
        contestant.run = lambda i: log.append((n, i))
        return contestant

    versus.measure_all(given, 20, ["cudnn"])
    turns = [log[first : first + 10] for first in range(0, len(log), 10)]
    assert len(turns) == 20 + versus.WARM_UP and all(
        sorted(n for n, _ in turn) == list(range(10)) for turn in turns
    )
    assert len({tuple(n for n, _ in turn) for turn in turns}) == len(turns)
    assert all(len({i for _, i in turn}) == 1 for turn in turns)  # all compute the same input


def test_cudnn_has_all_plans_until_its_time_is_over(given, monkeypatch):
    limits = []
    given.torch = fake_torch(limits)
    several = list(libraries.list_cudnn(given))
    assert [(contestant.label, contestant.layout) for contestant in several] == [
        (f"cuDNN {mode}", layout)
        for mode in ("FP32", "TF32", "FP16")
        for layout in ("NCHW", "NHWC")
    ]
    assert {contestant.how for contestant in several} == {"all plans"} and limits == [0] * 6
    assert 0 < given.spent["cudnn"] < 40
    assert versus.select_correct(several, given, "before") == several
    monkeypatch.setitem(libraries.SECONDS, "cudnn", 0)
    limits.clear()
    assert {contestant.how for contestant in libraries.list_cudnn(given)} == {
        "10 plans"
    } and limits == [10] * 6


def test_the_compiler_stops_when_its_time_is_over(given, monkeypatch):
    several = list(libraries.list_compiled(given))
    assert [contestant.label for contestant in several] == [
        "torch.compile FP16",
        "torch.compile TF32",
    ]
    assert {contestant.how for contestant in several} == {"max-autotune: triton_convolution"}
    assert versus.select_correct(several, given, "before") == several
    monkeypatch.setitem(libraries.SECONDS, "compile", 0)
    assert list(libraries.list_compiled(given)) == []


def test_of_triton_the_fastest_tile_is_taken(given, monkeypatch):
    calls = []

    class Kernel:
        """A kernel of Triton: kernel[grid](...) launches it."""

        def __getitem__(self, grid):
            def run(
                x, k, y, pixels, C, H, W, M, K, size, terms, maps, precision, num_warps, num_stages
            ):
                """Convolve on the host as Triton's kernel would; 64 terms and 8 warps are the fastest."""
                assert (pixels, maps) == (versus.CHECKED_IMAGES * LAYER.Ho * LAYER.Wo, 16)
                assert grid == (-(-pixels // size),) and x.dtype == k.dtype == y.dtype
                if size == 256:
                    raise RuntimeError("out of resource: shared memory")
                y[...] = labkit.conv_numpy(np.asarray(x), np.asarray(k))
                Event.clock += 1.0 + (terms != 64) + (num_warps != 8 or terms != 64)
                calls.append((size, terms, num_warps, num_stages, precision))

            return run

    monkeypatch.setitem(
        sys.modules, "recording.implicit_gemm", SimpleNamespace(convolution=Kernel())
    )
    several = list(libraries.list_triton(given))
    assert [contestant.label for contestant in several] == [
        "Triton TF32",
        "Triton 3×TF32",
        "Triton FP16",
    ]
    (how,) = {contestant.how for contestant in several}  # a second round finds the warps
    assert how.startswith("128 pixels, 64 terms, 8 warps, 3 stages, the fastest of ")
    calls.clear()
    assert versus.select_correct(several, given, "before") == several
    assert {call[:4] for call in calls} == {(128, 64, 8, 3)}
    assert [call[4] for call in calls[:4]] == [
        "tf32",
        "tf32",
        "tf32x3",
        "tf32x3",
    ]  # first those in float


def test_the_search_ends_when_its_time_is_over(given, monkeypatch):
    monkeypatch.setitem(libraries.SECONDS, "triton", 0)
    tried, y = set(), given.make_output("tf32", "NCHW")
    found = given.make_fastest(
        "Triton", "tf32", "NCHW", lambda i, tile: tried.add(tile), ((2, 1), (4, 3)), y, "{} by {}"
    )
    assert tried == {(2, 4)} and found.how == "2 by 4, the fastest of 1 searched"


def test_of_cutile_the_fastest_tile_is_taken(given, monkeypatch):
    def launch(stream, grid, kernel, arguments):
        """Convolve on the host as cuTile's kernel would; a tile of 256 pixels is the fastest."""
        x, k, y, C, H, W, M, K, size, _terms, maps = arguments
        assert (C, H, W, M, K, maps) == (2, 9, 8, 3, 3, 16) and x.ndim == k.ndim == y.ndim == 1
        assert (
            grid == (-(-versus.CHECKED_IMAGES * LAYER.Ho * LAYER.Wo // size), 1, 1)
            and kernel == "the kernel"
        )
        y[...] = labkit.conv_numpy(
            np.asarray(x).reshape(-1, C, H, W), np.asarray(k).reshape(M, C, K, K)
        ).ravel()
        Event.clock += 1.0 if size == 256 else 2.0

    monkeypatch.setitem(sys.modules, "cuda.tile", SimpleNamespace(launch=launch))
    monkeypatch.setitem(
        sys.modules, "recording.implicit_gemm_cutile", SimpleNamespace(convolution="the kernel")
    )
    given.torch.cuda.current_stream = lambda: 0
    several = list(libraries.list_cutile(given))
    assert [(one.label, one.how) for one in several] == [
        ("cuTile FP16", "256 pixels, 32 terms, the fastest of 5 searched")
    ]
    assert versus.select_correct(several, given, "before") == several


def test_triton_s_interpreter_computes_the_convolution():
    for needed in ("torch", "triton"):
        pytest.importorskip(needed)
    program = (
        "import torch, recording.implicit_gemm as gemm\n"
        "x, k, y = torch.rand(3, 2, 9, 8), torch.rand(3, 2, 3, 3), torch.full((3, 3, 7, 6), float('nan'))\n"
        "gemm.convolution[(8,)](x, k, y, 126, 2, 9, 8, 3, 3, 16, 16, 16, 'ieee')\n"
        "assert torch.allclose(y, torch.nn.functional.conv2d(x, k), atol=1e-4)\n"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parent.parent,
        check=True,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )


def test_a_stale_output_is_left_out(given, monkeypatch, capsys):
    """A kernel that computes nothing leaves NaN, or the other input's results."""

    class Kernel:
        """A kernel of Triton that computes nothing."""

        def __getitem__(self, grid):
            return lambda *arguments, **options: None

    monkeypatch.setitem(
        sys.modules, "recording.implicit_gemm", SimpleNamespace(convolution=Kernel())
    )
    versus._print_left_out.cache_clear()
    assert versus.select_correct(list(libraries.list_triton(given)), given, "before") == []
    out = capsys.readouterr().out
    assert out.count(" is left out") == 3
    assert "Triton FP16 is left out: LabError: Triton FP16, NCHW, on lenet86" in out


def test_cutlass_is_called_with_addresses(given, monkeypatch):
    called = []

    def convolve(mode, pixels, B, C, H, W, M, K, x, k, y):
        """Convolve on the host as CUTLASS's library would; mode 1 fails with the status 7."""
        assert (B, H, W, M, K) == (versus.CHECKED_IMAGES, 9, 8, 3, 3)
        called.append((mode, C, pixels))
        if mode == 1:
            return 7
        kind = ctypes.c_uint16 if mode == 0 else ctypes.c_float
        dtype = np.float16 if mode == 0 else np.float32

        def at(address, shape):
            """Return the array at an address."""
            return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(kind)), shape).view(
                dtype
            )

        at(y, LAYER.y_shape(B))[...] = labkit.conv_numpy(at(x, (B, C, H, W)), at(k, (M, C, K, K)))
        Event.clock += pixels / C
        return 0

    monkeypatch.setattr(libraries, "_load_cutlass", lambda: SimpleNamespace(convolve=convolve))
    monkeypatch.setattr(libraries, "CUTLASS_MODES", {"fp16": 0, "3xtf32": 2})
    several = list(libraries.list_cutlass(given))
    assert [(contestant.label, contestant.how) for contestant in several] == [
        ("CUTLASS FP16", "8 channels, 128 pixels, 32 maps, the fastest of 3 searched"),
        ("CUTLASS 3×TF32", "4 channels, 128 pixels, 32 maps, the fastest of 3 searched"),
    ]
    assert versus.select_correct(several, given, "before") == several
    assert {(mode, C) for mode, C, _ in called} == {(0, 2), (0, 8), (2, 2), (2, 4)}
    monkeypatch.setattr(libraries, "CUTLASS_MODES", {"tf32": 1})
    with pytest.raises(
        LabError, match="no tile size works: CUTLASS in tf32 on lenet86 layer 2: status 7"
    ):
        list(libraries.list_cutlass(given))


def test_who_is_not_installed_is_left_out_and_said_so_once(given, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "recording.implicit_gemm", raising=False)
    monkeypatch.delenv("CUTLASS", raising=False)
    versus._print_left_out.cache_clear()
    for _ in range(2):
        contestants = list(versus._list_libraries(given, ("triton", "cutlass", "compile")))
        assert [contestant.label for contestant in contestants] == [
            "torch.compile FP16",
            "torch.compile TF32",
        ]
    out = capsys.readouterr().out
    assert out.count("triton is left out: ModuleNotFoundError") == 1
    assert (
        out.count(
            "cutlass is left out: LabError: the environment variable CUTLASS names no checkout"
        )
        == 1
    )


def rows(*several):
    """Return a table as `versus` records it, a row for each of `several`."""
    about = {
        "date": "2026-01-01",
        "device": "GPU",
        "software": "CUDA 1, PyTorch 2, cuDNN 3",
        "network": "lenet86",
        "layer": 1,
        "layout": "NCHW",
        "min_ms": 1,
        "max_ms": 1,
        "repeat": 20,
    }
    return pd.DataFrame(
        [
            about | {"label": label, "batch": batch, "median_ms": ms, "how": how}
            for label, batch, ms, how in several
        ]
    )


def test_the_table_says_what_was_not_measured_and_from_what_cudnn_chose():
    table = rows(
        ("07 tuning", 10, 2.0, ""),
        ("07 tuning", 1000, 4.0, ""),
        ("CUTLASS FP16", 1000, 3.0, "128"),
        ("cuDNN TF32", 10, 1.0, "10 plans"),
        ("cuDNN TF32", 1000, 5.0, "all plans"),
    )
    page = versus.to_markdown(table)
    assert "with 10 · 1,000 images" in page and "with 10 plans or all plans. The" in page
    assert page.splitlines()[-3:] == [
        "| 07 tuning | 2.00 · **4.00** |",
        "| CUTLASS FP16 | – · **3.00** |",
        "| cuDNN TF32 | **1.00** · 5.00 |",
    ]
    assert "with all plans. The" in versus.to_markdown(table[table["batch"] == 1000])


def test_small_batches_are_measured_by_calls_and_by_graphs(monkeypatch, tmp_path, capsys):
    here = SimpleNamespace(engine="gpu", name="NVIDIA H200", slug="h200", software="CUDA 13.0")
    with monkeypatch.context() as patch:
        patch.setattr(devices, "device", lambda: here)
        patch.setattr(devices, "read_launch_limits", lambda: (5, 49152))
        patch.setattr(versus, "OURS", ((1, None), (10, None)))
        patch.setattr(options, "LAYERS", [LAYER])
        patch.setattr(small, "PASSES", 2)
        patch.setitem(sys.modules, "torch", fake_torch())
        small.small(repeat=2, out=tmp_path)
    assert capsys.readouterr().out.count("lenet86 layer 2, 5 images: measured") == 1
    table = pd.read_csv(tmp_path / "small" / "nvidia-h200.csv", keep_default_na=False)
    assert sorted(table["batch"].unique()) == [small.FEW, 5, 10, small.BATCH]
    assert set(table["way"]) == {"call", "graph"}
    graphs = table[(table["batch"] == small.BATCH) & (table["way"] == "graph")]
    assert set(graphs["label"]) > {small.NOTHING, "10 speed of light", "cuDNN FP16"}
    assert (graphs.loc[graphs["label"] == "cuDNN FP16", "median_ms"] == 1 / 2).all(), "of a pass"
    text = small.to_markdown(table)
    assert "| cuDNN FP16 | 1,000 · 500 |" in text and "again" not in text
    text = small.to_markdown(table.assign(median_ms=0.001))
    bound = format_digits(1 + 1e3 * labkit.LENET86[1].reference_ms(5, np.float16, "H200"))
    assert f"| *bound in half* | {bound} · {bound} |" in text, "an empty kernel and five images"
    assert "| 10 speed of light | 1.00 · 1.00 · 0 |" in text
