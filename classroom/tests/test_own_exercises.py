"""Exercises that the lab does not ship are handed in and graded like those of the series."""

import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from labkit.base.paths import PACKAGE
from labkit.exercises import exercise as module
from labkit.exercises.exercise import exercise
from labkit.exercises.judge import Grade, GradeLine
from labkit_classroom import grading, sandbox
from labkit_classroom.submissions import submissions

pytestmark = pytest.mark.thorough("a class of hand-ins: minutes")

needs_sandbox = pytest.mark.skipif(not sandbox.available(), reason=sandbox.why_not())


@pytest.fixture
def added(monkeypatch):
    monkeypatch.setattr(module, "_added", {})
    return module.add(PACKAGE.parent / "tests" / "exercises" / "own" / "saxpy")


def test_what_is_handed_in_is_known_by_the_name_of_the_folder(added, tmp_path):
    (tmp_path / "alice_saxpy.cu").write_text(added.solution)
    cell = new_code_cell(f"%%cuda mine --exercise ../sheet/saxpy\n{added.start}")
    nbformat.write(new_notebook(cells=[cell]), tmp_path / "bob.ipynb")
    assert [(entry.student, entry.exercise, entry.problem) for entry in submissions([tmp_path])] == [
        ("alice", "saxpy", ""), ("bob", "saxpy", "")]


@needs_sandbox
def test_it_is_graded_in_the_sandbox(added, tmp_path):
    (tmp_path / "alice_saxpy.cu").write_text(added.solution)
    (tmp_path / "bob_saxpy.cu").write_text(added.solution.replace(" + y[i]", ""))
    grading.grade_all(submissions([tmp_path]), tmp_path / "out")
    alice, bob = grading.read_results(tmp_path / "out")
    assert (alice.exercise, alice.verdict, bob.verdict) == ("saxpy", "goal met", "not right yet"), (alice, bob)
    assert bob.advice == "This stores a x alone: y is an input, too."


def test_a_regrade_draws_what_the_first_grading_drew(added, tmp_path, monkeypatch):
    """Another text draws anew, and `--seed` says what to draw from."""
    seeds = []
    graded = Grade(added, (GradeLine(True, "sectors per load"),), (4.0,))
    monkeypatch.setattr(grading, "in_sandbox", lambda asked, *_: (seeds.append(asked.seed), graded)[1])
    monkeypatch.setattr(sandbox, "why_not", lambda: "")
    file, states = tmp_path / "alice_saxpy.cu", iter("abcd")
    for text, seed in ((added.solution, ""), (added.solution, ""), (added.start, ""), (added.start, "given")):
        file.write_text(text)
        now = next(states)
        monkeypatch.setattr(grading, "digest_task", lambda number, now=now: now)  # the lab has changed
        grading.grade_all(submissions([tmp_path]), tmp_path / "out", again=True, seed=seed)
        assert grading.read_result(tmp_path / "out", "alice", "saxpy").seed == seeds[-1]
    assert len(seeds) == 4 and len(seeds[0]) == 16
    assert seeds[0] == seeds[1] != seeds[2] and seeds[3] == "given"


@needs_sandbox
@pytest.mark.parametrize("number", ["saxpy", "04a"])
def test_the_sandbox_gets_no_solution(added, tmp_path, number):
    asked = exercise(number)
    module.hand_over(asked, asked.start, tmp_path)
    names = {path.name for path in (tmp_path / "exercise").iterdir()}
    assert "exercise.py" in names and not names & {"wrong.toml", asked.file.name}
    program = f"import os; print(os.path.exists({str(asked.folder)!r}))"
    ended = sandbox.run([sys.executable, "-I", "-c", program], tmp_path)
    assert ended.stdout == "False\n"
