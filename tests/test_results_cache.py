"""Kept outputs of notebooks: found again only while nothing has changed."""

import pytest

from labkit.base import results_cache
from labkit.base.results_cache import ResultsCache

pytestmark = pytest.mark.thorough("pages as they are published")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return results kept in a folder of the test, under the state "now"."""
    monkeypatch.setattr(results_cache, "state", lambda: "now")
    return ResultsCache("now", tmp_path)


def test_a_value_is_found_under_its_name_and_state(folder):
    folder.put("value", "a", 1)
    assert folder.get("a", 1) == "value"
    assert folder.get("a", 2) is folder.get("a1") is None  # parts are not run together
    assert ResultsCache("later", folder.folder.parent).get("a", 1) is None


def test_what_was_computed_while_something_changed_is_not_kept(folder, monkeypatch):
    monkeypatch.setattr(results_cache, "state", lambda: "later")
    folder.put("value", "a")
    assert folder.get("a") is None


def test_a_damaged_file_is_not_read(folder):
    folder.put("value", "a")
    (path,) = folder.folder.iterdir()
    whole = path.read_bytes()
    for damaged in (
        whole[:-1],
        whole + b".",
        b"",
        whole.replace(b"value", b"other"),
        b"\xff\n" + whole,
    ):
        path.write_bytes(damaged)
        assert folder.get("a") is None
    path.write_bytes(whole)
    assert folder.get("a") == "value"
    folder.put("of b", "b")
    path.write_bytes(folder._path(("b",)).read_bytes())  # whole, and of something else
    assert folder.get("a") is None


def test_a_full_disk_is_no_error(folder):
    folder.folder.write_text("no folder")
    folder.put("value", "a")
    assert folder.get("a") is None


def test_the_state_is_that_of_files_compiler_settings_and_packages(tmp_path, monkeypatch):
    states = {results_cache.state()}
    monkeypatch.setenv("HOSTCUDA_EXECUTION_MODE", "fibers")
    states.add(results_cache.state())
    monkeypatch.setattr(results_cache, "data_dir", lambda: tmp_path)
    states.add(results_cache.state())
    for text in ("1", "2"):
        (tmp_path / "table.csv").write_text(text)
        states.add(results_cache.state())
    monkeypatch.setenv("CXX", "g++ -O1")
    states.add(results_cache.state())
    assert len(states) == 6
    assert results_cache.state() in states
    monkeypatch.syspath_prepend(tmp_path)  # a checkout, in which a build has left its notes
    (tmp_path / "lab.egg-info").mkdir()
    assert results_cache.state() in states
    (tmp_path / "lab-2.0.dist-info").mkdir()
    assert results_cache.state() not in states


def test_old_files_are_removed(folder, monkeypatch):
    folder.put(1, "a")
    folder.trim()
    assert folder.get("a") == 1
    monkeypatch.setattr(results_cache, "IDLE_DAYS", -1)
    folder.trim()
    assert folder.get("a") is None
