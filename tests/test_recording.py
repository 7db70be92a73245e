"""The recorders: what they keep when something fails, when time runs out, or when a tool's answer does not fit."""

import subprocess
import sys
from itertools import count
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import labkit
from labkit.base.errors import LabError
from labkit.spec import devices
from recording import compare_counters, counters, jobs, sweep, times
from recording.__main__ import app

pytestmark = pytest.mark.thorough("recorders: only the makers of data/ run them")

LAYER = labkit.LENET86[0]


def run(*arguments):
    """Run a command; return its result. A LabError is the result's exception."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_every_command_explains_itself():
    commands = [command.callback.__name__.replace("_", "-") for command in app.registered_commands]
    text = run("--help").output
    assert "..." not in text.replace("[ARGS]...", "")  # no summary is cut short
    for name in commands:
        assert f" {name} " in text and "data/" in text
        assert run(name, "--help").exit_code == 0
    assert len(commands) == 28


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["times", "nothing"], "there is no rung 'nothing'"),
        (["counters", "42"], "there is no rung 42"),
        (["counters", "tuning"], "counters are recorded on a GPU"),
        (["streams"], "streams are recorded on a GPU"),
        (["training"], "training is recorded on a GPU"),
        (
            ["experiments"],
            "experiments are measured on a GPU; the engine here is the CPU's (a processor)",
        ),
        (["versus"], "this comparison needs an NVIDIA GPU that PyCUDA and PyTorch can use"),
        (["versus-counters"], "counters are recorded on a GPU"),
        (["small"], "small batches are measured on an NVIDIA GPU that PyCUDA and PyTorch can use"),
        (["compare-counters", "--device", "h900"], "there is no h900.csv"),
    ],
)
def test_refusals(arguments, said, monkeypatch):
    in_use, read = SimpleNamespace(engine="cpu", name="a processor"), devices.device
    monkeypatch.setattr(devices, "device", lambda name=None: read(name) if name else in_use)
    assert said in str(run(*arguments).exception)


def test_the_command_is_a_program():
    command = [sys.executable, "-m", "recording", "readme", "nothing"]
    process = subprocess.run(command, input="text", capture_output=True, text=True)
    assert process.returncode == 1 and "Traceback" not in process.stderr
    assert "README.md needs one line <!-- nothing:begin -->" in process.stderr


# ---------------------------------------------------------------------------------------- the times
def test_a_kernel_that_cannot_be_measured_costs_the_others_nothing(monkeypatch, capsys):
    several = [labkit.variant(number) for number in (1, 2, 3, 4, 6)]

    def bench(chosen, layer, batch, **options):
        """Measure nothing; fail if one kernel is among the chosen."""
        if several[3] in chosen:
            raise LabError("a time of 0 ms")
        return pd.DataFrame({"label": [kernel.label for kernel in chosen]})

    monkeypatch.setattr(times, "bench", bench)
    measured = pd.concat(times.bench_all(several, LAYER, 2))["label"]
    assert list(measured) == [kernel.label for kernel in several if kernel != several[3]]
    assert "FAILED 04 tiling on lenet86 layer 1, batch 2: a time of 0 ms" in capsys.readouterr().out


def test_times_are_kept_layer_by_layer(monkeypatch):
    """The times measured before an interrupt are kept; a rung's own kernel is measured twice, others at one batch."""
    kept, clock = [], count()

    def bench(chosen, layer, batch, layer_time=True, **options):
        """Measure nothing; Ctrl-C comes at the fourth timed run."""
        if not layer_time and next(clock) == 3:
            raise KeyboardInterrupt
        return pd.DataFrame(
            {
                "label": [kernel.label for kernel in chosen],
                "layer": layer.name,
                "batch": batch,
                "op_ms": np.arange(len(chosen)) + 1.0,
                "layer_ms": 9.0 if layer_time else np.nan,
            }
        )

    monkeypatch.setattr(times, "bench", bench)
    monkeypatch.setattr(times, "record_times", kept.append)
    with pytest.raises(KeyboardInterrupt):
        times.measure_kernels(
            [labkit.variant(1)], [labkit.variant(2)], labkit.LENET86, [2, 3], keep=True
        )
    assert [table["layer"][0] for table in kept] == [
        "lenet86 layer 1",
        "lenet86 layer 1",
        "lenet86 layer 2",
    ]
    own, other = kept[1].sort_values("label").to_dict("records")
    assert len(kept[0]) == 1 and kept[0]["op_again_ms"].tolist() == [2]
    assert (own["op_ms"], own["op_again_ms"], own["layer_ms"]) == (1, 2, 9)
    assert other["op_ms"] == 3 and np.isnan(other["op_again_ms"]) and np.isnan(other["layer_ms"])


def test_what_is_missing_is_measured_after_an_interrupt(monkeypatch):
    """A kernel is complete if it has a time for each layer that it can compute, and for each batch."""
    one, two = labkit.variant(1), labkit.variant(2)
    rows = [
        {"label": kernel.label, "code": kernel.code, "layer": layer.name, "batch": batch}
        for kernel in (one, two)
        for layer in labkit.LENET86
        for batch in (2, 3)
    ]

    def list_missing(rows):
        """Return the kernels of which a time is missing in a table with these rows."""
        table = pd.DataFrame(rows).assign(op_ms=1.0)
        monkeypatch.setattr(times, "recorded", lambda _: SimpleNamespace(table=table))
        return times.list_unrecorded([one, two], labkit.LENET86, [2, 3])

    assert list_missing(rows) == []
    assert list_missing(rows[:-1]) == [two]
    assert list_missing([{**rows[0], "code": "another"}, *rows[1:]]) == [one]
    # this mask does not fit into constant memory, so rung 2 cannot compute the layer
    large = labkit.Layer("large", C=64, H=20, W=20, M=64, K=7)
    assert not times.can_compute(two, large) and times.can_compute(one, large)
    assert times.list_unrecorded([two], [large], [2]) == []


def test_times_of_one_rung(capsys):
    result = run("times", "baseline", "--check")
    assert result.exit_code == 0
    assert "PASS 01 baseline" in result.output and "PASS 02" not in result.output


# ---------------------------------------------------------------------------------------- the sweep
def swept(variants, layer, batch, repeat):
    """Stand in for a sweep: return a row per point, each slower than the one before."""
    rows = [
        {
            "rung": 7,
            "label": kernel.label,
            "options": kernel.options_text,
            "layer": layer.name,
            "batch": 1000,
            "op_ms": 1.0 + i,
            "x_reference": 2.0 + i,
            "registers": 40,
            "shared_bytes": 196,
            "reason": "",
            **kernel.options,
        }
        for i, kernel in enumerate(variants)
    ]
    return pd.DataFrame(rows)


def test_a_sweep_measures_its_parts_on_each_layer_in_their_order(monkeypatch):
    monkeypatch.setattr(sweep, "measure", SimpleNamespace(sweep=swept))
    result = run("sweep", "--dry", "--every", 7)
    assert result.exit_code == 0, result.exception
    *parts, last = sweep.PARTS
    assert result.output.count("points, 0 cannot run") == 4 * len(parts) + 1
    measured = [line.partition(":")[0] for line in result.output.splitlines()]
    assert [line.partition(",")[0] for line in measured][::4] == [*parts, last]
    assert measured[-1] == "rolled, lenet86 layer 2"


# ------------------------------------------------------------------------------------- the counters
def test_a_program_tells_the_owner_of_each_launch():
    several = [jobs.make_job(labkit.variant(5), layer, 2) for layer in labkit.LENET86]
    with jobs.write_program(several) as (command, find_owners):
        subprocess.run(command, check=True)
        assert [job.shape for job, _ in find_owners(4)] == ["lenet86 layer 1"] * 2 + [
            "lenet86 layer 2"
        ] * 2
        assert {result["images"] for _, result in find_owners(4)} == {2}
        for launches in (3, 5):
            with pytest.raises(
                LabError, match=f"{launches} launches were counted, but the jobs of 05 .* made 4"
            ):
                find_owners(launches)


def test_counters_are_those_of_the_first_launches(monkeypatch):
    """A variant that computes in chunks launches its kernels several times."""
    job = jobs.make_job(labkit.variant(5), LAYER)
    rows = [
        (job, {"images": 7}, {"kernel": kernel, "cycles": i})
        for i, kernel in enumerate(["im2col", "gemm"] * 2)
    ]
    monkeypatch.setattr(counters, "METRICS", ("cycles",))
    monkeypatch.setattr(counters, "count_launches", lambda several, metrics: rows)
    table = counters.profile_rung(labkit.variant(5).rung)
    assert table[["batch", "kernel", "cycles"]].values.tolist() == [
        [7, "im2col", 0],
        [7, "gemm", 1],
    ]


def test_what_cannot_run_is_not_counted_and_one_image_per_launch_is_one_launch():
    shapes = {(job.program, job.shape) for job in counters.list_jobs(labkit.variant("fusion").rung)}
    assert ("06 fusion, whole", "lenet86 layer 2") in shapes
    single = [
        job
        for job in counters.list_jobs(labkit.variant("unroll_gemm").rung)
        if "images=1" in job.program
    ]
    assert {job.batch for job in single} == {1}


def test_counters_are_kept_group_by_group(monkeypatch, tmp_path):
    """Those that are kept are not counted again; those of another source are removed."""
    monkeypatch.setattr(compare_counters, "EXACT", tmp_path)
    monkeypatch.setattr(
        devices, "device", lambda: SimpleNamespace(engine="gpu", name="G", slug="g")
    )
    monkeypatch.setattr(compare_counters, "device", lambda: SimpleNamespace(slug="g"))
    several = [jobs.make_job(labkit.variant(number), LAYER) for number in (1, 2, 3)]
    monkeypatch.setattr(jobs, "list_all_jobs", lambda: several)
    counted = []

    def on_gpu(mine):
        """Count nothing; Ctrl-C comes after two groups."""
        if len(counted) == 2:
            raise KeyboardInterrupt
        counted.extend(mine)
        facts = [(job.program, job.shape, job.source, "conv", 5) for job in mine]
        return pd.DataFrame(facts, columns=[*compare_counters.KEYS, "global_load_requests"])

    monkeypatch.setattr(compare_counters, "count_on_gpu", on_gpu)
    with pytest.raises(KeyboardInterrupt):
        compare_counters.record_counters(several)
    assert counted == several[:2]
    path = tmp_path / "g.csv"
    path.write_text(path.read_text().replace(several[0].source, "00000000"))
    counted.clear()
    compare_counters.record_counters(several[1:])
    assert counted == [several[2]]
    assert list(pd.read_csv(path)["source"]) == [several[1].source, several[2].source]
