"""The whole network's times: every way is measured and checked, wrong results and other machines are refused."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import hostcuda
import labkit as lab
from labkit.base.errors import LabError
from labkit.measure.check import CheckFailed
from labkit.networks import benchmark, steps
from labkit.networks.images import resize
from labkit.networks.reference import layers
from labkit.spec.devices import device
from recording import counters, pytorch
from recording import network as recorder
from recording.readme import format_network

pytestmark = pytest.mark.thorough("recorders: only the makers of data/ run them")


@pytest.fixture(scope="module")
def table():
    return lab.bench_network(3, repeat=1)


def test_every_way_has_a_row(table):
    ways = table[["label", "dtype", "where", "pixels"]]
    assert not ways.duplicated().any()
    assert len(table) == 1 + len(benchmark.list_steps()) * (2 * 2 * 3 + 2)  # and two graphs
    assert set(table["where"]) == {"device", "host"}
    assert set(table["pixels"]) == {"float32", "uint8 86x86", "uint8 8x8"}
    assert (table["batch"] == 3).all()
    assert np.allclose(table["images_s"], 3e3 / table["ms"])
    assert (table["error"] < 0.05).all()
    assert table.attrs["note"] == device().note


def test_a_wrong_network_is_not_timed(monkeypatch):
    right = benchmark.bounded
    monkeypatch.setattr(
        benchmark, "bounded", lambda *given: (1 - right(*given)[0], right(*given)[1])
    )
    with pytest.raises(
        CheckFailed,
        match="plain in float32 is wrong before timing: a probability of 1 images is off",
    ):
        benchmark.bench_network(1, repeat=1)


def test_a_baseline_is_measured_and_checked():
    def baselines(images):
        """Return one case, which is right."""
        y = lab.Network().forward(images.forms["float32"][0])
        return [
            benchmark.Entry(
                "mine", "float32", "host", "float32", "float32", lambda: None, lambda some: y[some]
            )
        ]

    table = lab.bench_network(1, 1, baselines)
    assert list(table["label"])[-1] == "mine" and table["error"].iloc[-1] < 1e-4


def test_a_result_that_goes_wrong_while_it_is_timed_is_refused():
    images = benchmark.Images(2)
    y = {"now": lab.Network().forward(images.forms["float32"][0])}
    case = benchmark.Entry(
        "mine", "float32", "host", "float32", "float32", lambda: None, lambda some: y["now"][some]
    )
    images.check(case, "before timing")
    y["now"] = np.full((2, 10), np.nan)
    with pytest.raises(CheckFailed, match="mine in float32 is wrong after timing"):
        images.check(case, "after timing", run_first=False)


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(LabError, match="repeat = 0"):
        lab.bench_network(1, repeat=0)
    if device().engine == "cpu":
        with pytest.raises(LabError, match="the network is recorded on a GPU"):
            recorder.network()


@pytest.fixture(scope="module")
def table_of_steps():
    return steps.bench_steps(2, repeat=1)


def test_every_step_has_a_row_and_every_layer_of_separate_kernels(table_of_steps):
    rows = table_of_steps
    key = ["label", "dtype", "where", "pixels", "kernel"]
    assert not rows[key].duplicated().any()
    whole = rows[rows["kernel"] == steps.WHOLE].set_index(["where", "label", "dtype", "pixels"])
    assert {*whole.index} == {
        ("device", "plain", "float32", "float32"),
        ("device", "plain, on tensor cores", "float32", "float32"),
        ("device", "fused", "float32", "float32"),
        ("device", "fused, again", "float32", "float32"),
        ("device", "fused", "float16", "float32"),
        ("host", "plain", "float32", "float32"),
        ("host", "plain, allocated before", "float32", "float32"),
        ("host", "plain, page-locked", "float32", "float32"),
        ("host", "plain, on tensor cores, page-locked", "float32", "float32"),
        *(
            ("host", label, dtype, pixels)
            for dtype in ("float32", "float16")
            for label, pixels in (
                ("fused, one piece", "float32"),
                ("fused", "float32"),
                ("fused", "uint8 86x86"),
            )
        ),
    }
    layers = rows[rows["kernel"] != steps.WHOLE].groupby("label", sort=False)["kernel"].agg(list)
    names = ["conv1", "pool1", "conv2", "pool2", "fc1", "fc2", "softmax"]
    assert layers.to_dict() == {"plain": names, "plain, on tensor cores": names}
    assert (rows["ms"] > 0).all() and (rows["error"] < 0.05).all() and (rows["batch"] == 2).all()
    assert rows.attrs["note"] == device().note


def test_a_step_that_is_wrong_is_not_timed(monkeypatch):
    launch = steps.NetworkBatch.launch

    def skip_the_last_layer(batch, mark=lambda: None):
        batch.steps = {name: step for name, step in batch.steps.items() if name != "softmax"}
        launch(batch, mark)

    monkeypatch.setattr(steps.NetworkBatch, "launch", skip_the_last_layer)
    with pytest.raises(CheckFailed, match="plain in float32 is wrong before timing"):
        steps.bench_steps(1, repeat=1)


def test_what_the_timed_runs_on_the_device_have_left_is_checked(monkeypatch):
    """Also if other cases of the same network are right: here only the first launch on the device computes."""
    launch, launched = steps.NetworkBatch.launch, set()

    def run(batch):
        hostcuda.driver.memcpy_htod(batch.device_x, batch.x)
        launch(batch)
        hostcuda.driver.memcpy_dtoh(batch.y, batch.device_y)

    def launch_once(batch, mark=None):
        if mark:
            launch(batch, mark)
        elif batch not in launched:
            launched.add(batch)
            launch(batch)

    monkeypatch.setattr(steps.NetworkBatch, "run", run)
    monkeypatch.setattr(steps.NetworkBatch, "launch", launch_once)
    with pytest.raises(CheckFailed, match="plain in float32 is wrong after timing"):
        steps.bench_steps(1, repeat=1)


def test_recorded_steps_are_merged_and_read(table_of_steps, tmp_path):
    results = lab.recorded("H200").path
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / results.name).write_bytes(results.read_bytes())
    recorder.write_steps(table_of_steps, tmp_path)
    path = recorder.write_steps(table_of_steps.assign(ms=7.0), tmp_path)
    assert len(pd.read_csv(path)) == len(table_of_steps)
    path.rename(path.with_name(results.name))
    here = lab.recorded("H200", tmp_path)
    assert [*here.network_steps(2, where="device", dtype="float16")["ms"]] == [7.0]
    assert len(here.network_steps(2, None, label="plain", where="device")) == 1 + 7
    assert {*here.network_steps(2)["label"]} == {*table_of_steps["label"]}, "none is a rung's"
    with pytest.raises(LabError, match="no step of the network for batch 10000"):
        here.network_steps()


class Tensor(np.ndarray):
    """An array that has PyTorch's methods."""

    def to(self, *what, memory_format=None, non_blocking=False):
        dtypes = [dtype for dtype in what if dtype in (np.float16, np.float32)]
        return self.astype(dtypes[0]) if dtypes else self

    def float(self):
        return self.astype(np.float32)

    def pin_memory(self):
        return self

    cpu = pin_memory

    def numpy(self):
        return np.asarray(self)

    def flatten(self, first):
        return self.reshape(*self.shape[:first], -1)

    def fill_(self, value):
        self.fill(value)

    def copy_(self, other, non_blocking):
        self[...] = other


def fake_torch(compiled, scale=1):
    """Return a stand-in for PyTorch on NumPy, whose graphs compute when recorded.

    `compiled` gets the options.
    """

    def compile(function, dynamic, options):
        """Note the options; compile nothing."""
        assert not dynamic
        compiled.append(options)
        return function

    def pool(x, window, stride, ceil_mode=False):
        return layers.max_pool(np.asarray(x), window).view(Tensor)

    graph = SimpleNamespace(replay=lambda: None)
    return SimpleNamespace(
        float16=np.float16,
        float32=np.float32,
        contiguous_format="NCHW",
        channels_last="NHWC",
        compile=compile,
        from_numpy=lambda array: array.view(Tensor),
        softmax=lambda x, axis: layers.softmax(x),
        no_grad=nullcontext,
        empty=lambda shape, pin_memory: np.zeros(shape, np.float32).view(Tensor),
        _dynamo=SimpleNamespace(config=SimpleNamespace()),
        nn=SimpleNamespace(
            functional=SimpleNamespace(
                conv2d=lambda x, k: (
                    (scale * lab.conv_numpy(np.float32(x), np.float32(k)))
                    .astype(x.dtype)
                    .view(Tensor)
                ),
                relu=layers.relu,
                max_pool2d=pool,
                interpolate=lambda x, size, mode: resize(np.asarray(x[:, 0]), size, 1.0).view(
                    Tensor
                ),
            )
        ),
        backends=SimpleNamespace(
            cudnn=SimpleNamespace(), cuda=SimpleNamespace(matmul=SimpleNamespace())
        ),
        cuda=SimpleNamespace(
            Stream=object,
            stream=lambda lane: nullcontext(),
            synchronize=lambda: None,
            CUDAGraph=lambda: graph,
            graph=lambda graph: nullcontext(),
        ),
    )


def ways_of(torch, monkeypatch, compiled=True):
    """Return the images, and PyTorch's cases for them in chunks of two."""
    monkeypatch.setattr(pytorch, "CHUNK", 2)
    images = benchmark.Images(3)
    return images, pytorch.list_cases(torch, compiled, images)


def test_pytorch_has_bytes_streams_and_its_compiler(monkeypatch):
    compiled, calls = [], []
    images, cases = ways_of(fake_torch(compiled), monkeypatch)
    for case in cases:
        # A graph of the stand-in computes once, before it is emptied.
        if not case.label.endswith(("graph", "compiled")) or case.where == "host":
            images.check(case, "before timing")
        calls.append((case.label, case.where, case.pixels))
    forms = list(images.forms)
    assert compiled == [pytorch.COMPILERS[0]] * 4
    for mode in pytorch.MODES:
        own = {row for row in calls if row[0].split(",")[0] == f"PyTorch {mode}"}
        wanted = {
            (f"PyTorch {mode}{suffix}", where, form)
            for form in forms
            for suffix, where in (
                ("", "device"),
                ("", "host"),
                (", graph", "device"),
                (", streams", "host"),
            )
        }
        if mode != "fp32":
            wanted |= {
                (f"PyTorch {mode}, compiled", where, form)
                for where in ("device", "host")
                for form in forms[:2]
            }
        assert own == wanted
    assert len(calls) == len(set(calls)) == 3 * 3 * 4 + 2 * 2 * 2


@pytest.mark.parametrize(
    ("failing", "measured", "at_chunks", "wrong"),
    [(1, 4, False, False), (1, 4, True, False), (1, 4, True, True), (2, 0, False, False)],
)
def test_a_compiler_that_fails_is_left_out(
    monkeypatch, capsys, failing, measured, at_chunks, wrong
):
    """If the autotuner fails or is wrong, the second options are taken; if both fail, a sentence says so."""
    tried, torch = [], fake_torch([])

    def compile(function, dynamic, options):
        """Note the options; return a function that fails, or computes wrong results, with the first of COMPILERS."""
        tried.append(options)
        if options in pytorch.COMPILERS[:failing]:

            def fails(x):
                """Fail as PyTorch does, or compute wrong results."""
                if wrong:
                    return 1 - function(x)
                if not at_chunks or len(x) == pytorch.CHUNK:
                    raise RuntimeError("setStorage: out of bounds")
                return function(x)

            return fails
        return function

    torch.compile = compile
    cases = list(ways_of(torch, monkeypatch)[1])
    assert sum(case.label.endswith("compiled") for case in cases) == 2 * measured
    assert len(cases) == 3 * 3 * 4 + 2 * measured
    assert tried == [*pytorch.COMPILERS] * 4
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 * failing
    assert lines[0].startswith(
        "PyTorch tf32, float32: torch.compile fails with comprehensive_padding, max_autotune, "
        "max_autotune_conv_backends: "
        + (
            "CheckFailed: PyTorch tf32, compiled in float32 is wrong once compiled"
            if wrong
            else "RuntimeError: setStorage: out of bounds"
        )
    )


def test_a_wrong_forward_pass_of_pytorch_is_refused(monkeypatch):
    images, cases = ways_of(fake_torch([], scale=-1), monkeypatch, compiled=False)
    case = next(case for case in cases if case.label.endswith("streams"))
    with pytest.raises(
        CheckFailed, match="PyTorch fp32, streams in float32 is wrong before timing"
    ):
        images.check(case, "before timing")


def test_a_row_of_the_table_has_a_networks_best(table):
    """Our graph is a row of its own; PyTorch's graph, on the device, and its streams, from the host, share one row."""
    about = table.iloc[0].to_dict() | {"date": "2026-01-01", "software": "CUDA 1, PyTorch 2"}
    rows = pd.DataFrame(
        [
            about
            | {
                "label": label,
                "dtype": "float16",
                "batch": batch,
                "where": where,
                "pixels": "float32",
                "ms": ms,
            }
            for batch in (100, 10_000)
            for label, where, ms in (
                ("fused", "device", 2.0),
                ("fused, graph", "device", 1.0),
                ("fused, warpgroups", "device", 3.0),
                ("PyTorch fp16", "device", 9.0),
                ("PyTorch fp16, graph", "device", 8.0),
                ("PyTorch fp16, streams", "host", 7.0),
            )
        ]
    )

    results = SimpleNamespace(network=lambda batch: rows[rows["batch"] == batch], device="GPU")
    text = format_network(results)
    assert "*Streams:* images come from the host in chunks" in text and "Compiled" not in text
    lines = text.splitlines()
    assert lines[-4:] == [
        "| fused, half | 10.0 M/s | – | 1.00 ms |",
        "| fused, warpgroups, half | 3.33 M/s | – | 3.00 ms |",
        "| PyTorch fp16, graph or streams | 1.25 M/s | 1.43 M/s | 8.00 ms |",
        "| PyTorch fp16 | 1.11 M/s | – | 9.00 ms |",
    ]


def test_several_devices_are_timed_together():
    table = recorder.bench_devices((1,), 2, ("uint8 8x8",), ("float16",), repeat=1)
    assert list(table["label"]) == ["fused on 1 GPU"]
    assert set(table.columns) == set(lab.bench_network(1, 1).columns)


def test_recordings_are_merged_and_read(table, tmp_path):
    results = lab.recorded("H200").path
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / results.name).write_bytes(results.read_bytes())
    path = recorder.write_rows(table, tmp_path)
    twice = recorder.write_rows(table.assign(ms=7.0), tmp_path)
    assert twice == path
    assert len(pd.read_csv(path)) == len(table)
    path.rename(path.with_name(results.name))
    here = lab.recorded("H200", tmp_path)
    fused = here.network(3, label="fused", dtype="float16", where="device")
    assert list(fused["pixels"]) == ["float32", "uint8 86x86", "uint8 8x8"]
    assert (fused["ms"] == 7).all()
    with pytest.raises(
        LabError, match=r"no forward pass for batch 10000, label fused\. It has batch: 3; label"
    ):
        here.network(label="fused")


def test_counters_are_those_of_the_two_launches(monkeypatch):
    def run(command, environment, capture):
        """Write the file that ncu would write, a row per launch."""
        assert command[0] == "ncu" and command[-3:] == ["-m", "recording.network", "7"]
        names = ["ID", "Kernel Name", "Block Size", "Grid Size", *recorder.COUNTERS]
        table = [
            names,
            [""] * len(names),
            *(
                [str(i), "network", "(32, 7, 1)", "(528, 1, 1)", *[str(i)] * len(recorder.COUNTERS)]
                for i in range(launches)
            ),
        ]
        text = "\n".join(",".join(f'"{cell}"' for cell in row) for row in table)
        Path(command[command.index("--log-file") + 1]).write_text(f"==PROF== Connected\n{text}\n")
        return SimpleNamespace(problem="", output="")

    monkeypatch.setattr(counters.nsight, "find", lambda tool: tool)
    monkeypatch.setattr(counters.processes, "run", run)
    launches = 2 * len(benchmark.list_steps())
    counted = recorder.count_fused(7)
    assert list(counted["dtype"]) == ["float16", "float32"] * len(benchmark.list_steps())
    assert (counted["batch"] == 7).all()
    assert list(counted["dram__bytes.sum"]) == [*range(launches)]
    launches -= 1
    with pytest.raises(LabError, match="ncu counted other launches"):
        recorder.count_fused(7)
