"""The scripts that record: what they do when time runs out, and when a tool's answer does not fit the question."""

import importlib
import sys
from itertools import count
from types import SimpleNamespace

import pandas as pd
import pytest

import labkit
from labkit.base.errors import LabError


@pytest.fixture
def script():
    """A module of `labkit.recording`, by its name."""
    return lambda name: importlib.import_module(f"labkit.recording.{name}")


# ------------------------------------------------------------------------------------------------------- the sweep
def swept(variants, layer, batch, repeat):
    """In place of a sweep: every point a row, each slower than the one before."""
    rows = [{"rung": 7, "label": each.label, "options": each.options_text, "layer": layer.name, "batch": 1000,
             "op_ms": 1.0 + i, "x_reference": 2.0 + i, "registers": 40, "shared_bytes": 196, "reason": "", **each.options}
            for i, each in enumerate(variants)]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("seconds", "parts"), [(0, 0), (2, 1), (8, 4)])
def test_a_sweep_whose_time_runs_out_begins_no_new_part(script, monkeypatch, capsys, seconds, parts):
    """Between parts, between layers, or before anything was measured: the clock goes on by a second when asked."""
    record_sweep = script("sweep")
    clock = count()
    monkeypatch.setattr(record_sweep, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(labkit, "sweep", swept)
    monkeypatch.setattr(sys, "argv", ["record_sweep.py", "--dry", "--seconds", str(seconds)])
    assert record_sweep.main() == 0
    said = capsys.readouterr().out
    assert (said.count("points, 0 cannot run"), said.count("no time left")) == (parts, 20 - parts)
    assert said.count("batch 1000") == min(parts, 4)


# ---------------------------------------------------------------------------------------------------- the counters
@pytest.mark.parametrize("launches", [1, 3])
def test_counters_of_more_or_fewer_launches_are_nobodys(script, monkeypatch, launches):
    record_counters = script("counters")
    monkeypatch.setattr(record_counters, "BATCH", 2)
    cases = [(labkit.variant(1), layer) for layer in labkit.LENET86]
    monkeypatch.setattr(record_counters, "PARTS", {"kernels": (lambda numbers: cases, ("cycles",))})
    rows = [{"kernel": "conv", "cycles": i} for i in range(launches)]
    monkeypatch.setattr(record_counters, "measured", lambda program, metrics: rows[:launches])
    with pytest.raises(LabError, match=rf"ncu watched {launches} launches of .*, whose plans make 2"):
        record_counters.profile([1])
    rows[:], launches = [{"kernel": "conv", "cycles": i} for i in (5, 7)], 2
    table = record_counters.profile([1])
    assert list(zip(table["layer"], table["cycles"], strict=True)) == [("lenet86 layer 1", 5), ("lenet86 layer 2", 7)]
