"""Findings in variants.

What findings say is tested with the engine: engine/tests/check/test_sanitize.py.
"""

import sys

import pytest

import labkit
from hostcuda.errors import EngineError
from labkit.evidence import child
from labkit.ladder.rungs import LADDER

pytestmark = pytest.mark.thorough("counters, which the notebooks show, too")


def test_the_ladder_is_clean_and_a_broken_variant_is_not(tmp_path):
    layer = labkit.Layer("odd", 2, 11, 13, 3, 3)
    clean = labkit.sanitize([rung.number for rung in LADDER], layer, engine="cpu")  # all tools
    assert clean.clean, repr(clean)
    launches = sum(len(labkit.variant(rung.name).calls) for rung in LADDER)
    assert clean.launches == launches and f"nothing found in {launches} launches" in repr(clean)
    source = labkit.variant(1).source
    broken = source.replace("w >= Wo", "w > Wo")
    assert broken != source
    report = labkit.sanitize(labkit.variant(1, source=broken), layer, tool="memcheck", engine="cpu")
    assert not report.clean and set(report.table["kind"]) == {"out of bounds"}
    assert "<table" in report._repr_html_()


def test_a_program_that_fails_without_a_finding_is_an_error(monkeypatch):
    crash = [sys.executable, "-c", "print('no memory left'); raise SystemExit(3)"]
    monkeypatch.setattr(child, "prepare_command", lambda *_: crash)
    with pytest.raises(EngineError, match=r"(?s)exit status 3.*no memory left"):
        labkit.sanitize(1, labkit.LENET86[0], engine="cpu")


def test_a_module_in_the_readers_folder_does_not_stop_it(tmp_path, monkeypatch):
    """The folder of a notebook may have files with the names of modules that the child process imports."""
    for name in ("random", "numpy", "labkit", "hostcuda"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the reader')\n")
    monkeypatch.chdir(tmp_path)
    layer = labkit.Layer("odd", 2, 11, 13, 3, 3)
    assert labkit.sanitize(1, layer, tool="memcheck", engine="cpu").clean
    counts = labkit.profile(1, layer, engine="cpu")
    assert counts.value("global_load_requests", labkit.variant(1).label) > 0


def test_without_a_layer_a_small_one_shows_the_race():
    """The tile is used again for the next channel, without a barrier in between."""
    whole = labkit.variant(4).source
    at = whole.rindex("__syncthreads();")
    racy = labkit.variant(4, whole[:at] + whole[at + len("__syncthreads();") :])
    report = labkit.sanitize(racy, tool="racecheck")
    assert not report.clean and set(report.table["tool"]) == {"racecheck"}
    assert labkit.sanitize(4, tool="racecheck").clean
