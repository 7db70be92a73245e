"""The experiments of the page on measuring: each varies one thing. They are timed on a GPU only."""

from types import SimpleNamespace

import numpy as np
import pytest

import hostcuda
from labkit.base.errors import CheckFailed, LabError
from labkit.exercises.exercise import by_name
from labkit.ladder.source import code_only, module_arguments
from labkit.ladder.variants import variant
from labkit.notebooks import execute
from recording import experiments, extension, rings

pytestmark = pytest.mark.thorough("recorders: only the makers of data/ run them")


@pytest.fixture
def module(monkeypatch):
    """Return the compiled kernels of the experiments, which are timed briefly."""
    for name, value in (("REPEAT", 1), ("IDLE_S", 0), ("BATCH", 1)):
        monkeypatch.setattr(experiments, name, value)
    hostcuda.ensure_context()
    return hostcuda.compiler.SourceModule(
        **module_arguments(experiments.SOURCE.read_text(), experiments.SOURCE)
    )


def test_each_experiment_varies_what_it_says(module):
    waves = experiments.measure_waves(module, multiprocessors=4, most=2, times=10)
    assert [row["x"] for row in waves] == [
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
    ]  # up to two waves, and one block more
    latency = experiments.measure_latency(module, multiprocessors=1, places=1 << 12, times=3)
    assert [row["x"] for row in latency] == [1, 2, 4, 8, 16, 24, 32, 48, 64]
    for row in latency:
        assert row["rate"] == pytest.approx(32 * row["x"] * 3 / row["ms"] / 1e3)
    clock = experiments.measure_clock(module, variant(3), for_ms=4, launches=2, spin_ns=1000)
    assert (
        clock[0]["x"] == 0
        and np.all(np.diff([row["x"] for row in clock]) > 0)
        and clock[0]["rate"] > 0
    )
    order = experiments.compare_orders(variant(3), runs=2)
    assert [row["series"] for row in order] == [
        "one after the other: A",
        "one after the other: B",
        "in turns: A",
        "in turns: B",
    ]


def test_rings_are_checked_and_timed(monkeypatch):
    monkeypatch.setattr(rings, "REPEAT", 1)
    kernels = rings.compile_kernels((1, 4))
    measured = rings.measure_rings(kernels, rows=2, columns=5004)
    assert [(row["kernel"], row["x"]) for row in measured] == [
        ("plain loads", 0),
        ("double buffer", 2),
        ("ring", 1),
        ("ring", 4),
    ]
    assert all(row["rate"] == pytest.approx(2 * 5004 * 4 / row["ms"] / 1e6) for row in measured)
    idle = SimpleNamespace(prepare=lambda *_: None, prepared_call=lambda *_: None)
    with pytest.raises(CheckFailed, match="ring, 4 tiles: the sums of the rows are wrong"):
        rings.measure_rings({("ring", 4): idle}, rows=2, columns=8)


def test_the_kernels_of_the_extension_are_those_of_page_17():
    """The page checks here what PyTorch compiles; it is not installed here."""
    cells = [cell.source for cell in execute.read(execute.find(["17"])[0]).nb.cells]
    of_page = [cell.partition("\n")[2] for cell in cells if cell.startswith("%%cuda")]
    file = extension.SOURCE.read_text(encoding="utf-8")
    assert code_only(of_page[0]).split() == code_only(file).split()
    assert by_name("17a").start.strip() == of_page[1].strip()
    with pytest.raises(LabError, match="extensions of PyTorch are measured on a GPU"):
        extension.extension()
