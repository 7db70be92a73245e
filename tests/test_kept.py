"""Kept results: found again only while nothing has changed, and only in a report."""

import pytest

from labkit.base import kept
from labkit.base.kept import Kept, once
from labkit.classroom import grading, sandbox
from labkit.evidence import child
from labkit.evidence.profile import profile
from labkit.exercises import grade
from labkit.spec.layers import LENET86

pytestmark = pytest.mark.thorough("pages as they are published")


@pytest.fixture
def joined(tmp_path, monkeypatch):
    """Let this process keep what it computes in a folder of the test."""
    monkeypatch.setattr(kept, "state", lambda: "now")
    monkeypatch.setattr(kept, "_kept", Kept("now", tmp_path))
    return kept._kept


def counter():
    calls = []

    def compute():
        calls.append(len(calls))
        return ("value", len(calls))

    return compute, calls


def test_a_report_computes_once(joined):
    compute, calls = counter()
    assert [once(compute, "a", 1), once(compute, "a", 1)] == [("value", 1)] * 2
    assert once(compute, "a", 2) == ("value", 2)
    assert once(compute, "a1") == ("value", 3)  # parts are not run together
    assert len(calls) == 3


def test_elsewhere_everything_is_computed(joined, monkeypatch):
    compute, _ = counter()
    once(compute, "a")
    monkeypatch.setattr(kept, "_kept", None)
    assert once(compute, "a") == ("value", 2)


def test_another_state_computes_again(joined, monkeypatch):
    compute, _ = counter()
    once(compute, "a")
    monkeypatch.setattr(kept, "_kept", Kept("later", joined.folder.parent))
    assert once(compute, "a") == ("value", 2)


def test_what_was_computed_while_something_changed_is_not_kept(joined, monkeypatch):
    compute, _ = counter()
    monkeypatch.setattr(kept, "state", lambda: "later")
    once(compute, "a")
    assert once(compute, "a") == ("value", 2)


def test_what_may_not_be_kept_is_not(joined):
    compute, _ = counter()
    once(compute, "a", only=lambda value: value[1] > 1)
    assert once(compute, "a", only=lambda value: value[1] > 1) == ("value", 2)
    assert once(compute, "a") == ("value", 2)


def test_a_damaged_file_is_not_read(joined):
    compute, _ = counter()
    once(compute, "a")
    (path,) = joined.folder.iterdir()
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole + b".", b"", whole.replace(b"value", b"other"), b"\xff\n" + whole):
        path.write_bytes(damaged)
        assert joined.get("a") is None
    path.write_bytes(whole)
    assert joined.get("a") == ("value", 1)
    joined.put("of b", "b")
    path.write_bytes(joined._path(("b",)).read_bytes())  # whole, and of something else
    assert joined.get("a") is None


def test_a_full_disk_is_no_error(joined):
    joined.folder.write_text("no folder")
    compute, _ = counter()
    assert once(compute, "a") == ("value", 1)


def test_the_state_is_that_of_files_compiler_settings_and_packages(tmp_path, monkeypatch):
    states = {kept.state()}
    monkeypatch.setenv("HOSTCUDA_GEAR", "fibers")
    states.add(kept.state())
    monkeypatch.setattr(kept, "data_dir", lambda: tmp_path)
    states.add(kept.state())
    for text in ("1", "2"):
        (tmp_path / "table.csv").write_text(text)
        states.add(kept.state())
    monkeypatch.setenv("CXX", "g++ -O1")
    states.add(kept.state())
    assert len(states) == 6
    assert kept.state() in states
    monkeypatch.syspath_prepend(tmp_path)  # a checkout, in which a build has left its notes
    (tmp_path / "lab.egg-info").mkdir()
    assert kept.state() in states
    (tmp_path / "lab-2.0.dist-info").mkdir()
    assert kept.state() not in states


def test_old_files_are_removed(joined, monkeypatch):
    once(lambda: 1, "a")
    joined.trim()
    assert joined.get("a") == 1
    monkeypatch.setattr(kept, "IDLE_DAYS", -1)
    joined.trim()
    assert joined.get("a") is None


def test_a_grade_and_a_profile_are_not_computed_twice(joined, monkeypatch):
    asked = grade.exercise("00a")
    first = [grade.of_source(asked, asked.start), profile(1, LENET86[0])]
    wrong = grade.of_source(asked, asked.start.replace("threadIdx.x", "threadIdx.y"))
    assert wrong.lines != first[0].lines

    def not_again(*ignored, **also):
        raise AssertionError("computed again")

    monkeypatch.setattr(grade, "_in_a_child", not_again)
    monkeypatch.setattr(child, "plans", not_again)
    assert grade.of_source(asked, asked.start) == first[0]
    again = profile(1, LENET86[0])
    assert again.table.equals(first[1].table) and again.note == first[1].note
    for other in (lambda: profile(2, LENET86[0]), lambda: profile(1, LENET86[1]), lambda: profile(1, LENET86[0], 2),
                  lambda: grade.of_source(asked, asked.solution)):
        with pytest.raises(AssertionError, match="computed again"):
            other()


@pytest.mark.skipif(not sandbox.available(), reason=sandbox.why_not())
def test_what_others_have_written_is_graded_anew_and_leaves_nothing(joined):
    asked = grade.exercise("00a")
    forged = grade.of_source(asked, asked.solution)
    joined.put((forged.lines, forged.reached, False, ""), "grade", "00a", asked.start)
    before = {path: path.read_bytes() for path in joined.folder.iterdir()}
    graded, _ = grading.in_sandbox(asked, asked.start)
    assert graded.untouched and not graded.passed
    assert {path: path.read_bytes() for path in joined.folder.iterdir()} == before
