"""A class is graded into files, each submission once, and a run that was stopped goes on."""

import csv
import json
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from typer.testing import CliRunner

from hostcuda.errors import Interrupted
from labkit.base.errors import LabError
from labkit.base.numerals import three
from labkit.classroom import grades, grading, sandbox
from labkit.classroom.submissions import Submission, submissions
from labkit.cli import app
from labkit.exercises.exercise import exercise
from labkit.exercises.grade import Grade

needs_a_sandbox = pytest.mark.skipif(not sandbox.available(), reason=sandbox.why_not())
TILING = exercise("04a")


@pytest.fixture
def handed_in(tmp_path):
    folder = tmp_path / "handed in"
    for student, text in (("alice", TILING.solution), ("bob", TILING.start), ("mallory", FORGED)):
        (folder / student).mkdir(parents=True)
        (folder / student / "04a.cu").write_text(text)
    (folder / "carol.ipynb").write_text("no notebook")
    return submissions([folder])


# It prints a grade, and ends the program as if all were well.
FORGED = TILING.start.replace("float sum = 0;", 'float sum = 0; printf("04a: goal met\\n"); exit(0);').replace(
    "__constant__", '#include <cstdio>\nextern "C" void exit(int);\n__constant__', 1
)


@needs_a_sandbox
def test_a_class_is_graded_into_a_table_and_pages(handed_in, tmp_path):
    out = tmp_path / "grades"
    results = grading.grade_all(handed_in, out)
    files = grades.write_all(results, out, ranking=True)
    with files[0].open() as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert {student: row["points"] for student, row in rows.items()} == {
        "alice": "1", "bob": "0", "mallory": "0", "carol": "0"}
    assert rows["bob"]["verdict"] == "goal missed: this is the starting code"
    assert "the kernel calls exit" in rows["mallory"]["why"]
    assert "is not a notebook" in rows["carol"]["verdict"]
    assert "1 of 1 exercises met" in (out / "alice.html").read_text()
    ranking = (out / "ranking.html").read_text()
    assert "alice" in ranking and "bob" not in ranking
    assert {each["student"] for each in json.loads((out / "grades.json").read_text())} == set(rows)


def test_who_is_not_graded_is_named_in_the_summary_the_table_and_the_pages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    carol, frank = tmp_path / "in" / "carol.docx", tmp_path / "in" / "frank"
    frank.mkdir(parents=True)
    carol.write_text("")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("lab.grade('12a', 2, 2)")])
    nbformat.write(notebook, tmp_path / "in" / "alice.ipynb")
    said = CliRunner().invoke(app, ["grade", "in", "--ranking"]).stdout.splitlines()
    assert said[1:] == [
        "    2  not graded:",
        "       carol: there is no .ipynb or .cu file, only carol.docx",
        "       frank: there is no .ipynb or .cu file, only the folder frank",
        "grades/grades.csv, and a page for each of 3 students",
    ]
    assert {*pd.read_csv("grades/grades.csv")["student"]} == {"alice", "carol", "frank"}
    page = Path("grades/carol.html").read_text()
    assert "<h2>Not graded: there is no" in page and "met their goal" not in page
    assert "<td>frank</td><td></td><td>there is no" in Path("grades/ranking.html").read_text()

    nbformat.write(notebook, carol.with_suffix(".ipynb"))  # the row of the other file goes
    CliRunner().invoke(app, ["grade", "in"])
    assert [*pd.read_csv("grades/grades.csv")["student"]] == ["alice", "carol", "frank"]
    said = CliRunner().invoke(app, ["grade", "in/alice.ipynb", "--out", "one"]).stdout
    assert said.endswith("one/grades.csv, and a page for one student\n")


def test_times_are_taken_once_per_device_and_only_of_kernels_that_met_the_goal():
    attempts = [Submission(name, "04a", text) for name, text in (("alice", TILING.solution), ("bob", TILING.start))]
    met, missed = (grading.Result(each.student, "04a", each.student == "alice", "") for each in attempts)
    timed = grading.timed(met, attempts[0], images=1)
    ((device, op_ms),) = timed.op_ms.items()
    assert op_ms > 0
    assert grading.timed(timed, attempts[0]) is timed
    assert grading.timed(missed, attempts[1]) is missed
    (ranking,) = grades.rankings([timed, missed])
    assert ranking["goals"][-1] == f"op time on the {device} (ms)"
    assert [row["reached"][-1] for row in ranking["rows"]] == [three(op_ms)]


def test_a_kernel_that_faults_while_it_is_timed_has_no_time():
    met = grading.Result("alice", "04a", True, "")
    faults = TILING.solution.replace("float sum = 0;", "float sum = *(volatile int *)8;")
    assert grading.timed(met, Submission("alice", "04a", faults)) is met


def test_a_stopped_run_goes_on_where_it_was(tmp_path, monkeypatch):
    handed_in = [Submission(name, "", problem="it is no notebook") for name in ("alice", "bob", "carol", "dave")]
    graded = []
    grade_one = grading._grade

    def counting(each, unsafe):
        graded.append(each.student)
        if len(graded) == 3:
            raise KeyboardInterrupt
        return grade_one(each, unsafe)

    monkeypatch.setattr(grading, "_grade", counting)
    with pytest.raises(Interrupted, match="stopped: 2 of 4 are graded; the same command goes on"):
        grading.grade_all(handed_in, tmp_path, jobs=1)
    kept = len(grading.read_results(tmp_path))
    assert kept == 2
    graded[:] = ["before"] * 3
    assert len(grading.grade_all(handed_in, tmp_path, jobs=1)) == len(handed_in)
    assert len(graded) - 3 == len(handed_in) - kept
    grading.grade_all(handed_in, tmp_path, jobs=1)
    assert len(graded) - 3 == len(handed_in) - kept  # nothing has changed


def test_results_of_another_version_are_refused(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "a.json").write_text('{"format": 0}')
    with pytest.raises(LabError, match="another version of the lab: grade into a new folder"):
        grading.read_results(tmp_path)
    (tmp_path / "results" / "a.json").write_text("[]")
    with pytest.raises(LabError, match="is not a result of this lab"):
        grading.read_results(tmp_path)


def test_without_a_sandbox_kernels_of_others_are_refused(handed_in, tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "why_not", lambda: "bubblewrap is missing: sudo apt install bubblewrap")
    with pytest.raises(LabError, match="not run without a sandbox: bubblewrap is missing"):
        grading.grade_all(handed_in, tmp_path)


def test_whatever_goes_wrong_with_one_the_others_are_graded_and_it_is_tried_again(tmp_path, monkeypatch):
    def broken(*args):
        raise OSError("no memory")

    monkeypatch.setattr(grading, "in_sandbox", broken)
    monkeypatch.setattr(sandbox, "why_not", lambda: "")
    handed_in = [Submission("alice", "04a", TILING.solution), Submission("bob", "04a", problem="empty")]
    first = grading.grade_all(handed_in, tmp_path)
    assert [each.verdict for each in first] == ["not graded: OSError: no memory", "empty"]
    monkeypatch.setattr(grading, "in_sandbox", lambda *args: (Grade(TILING, ()), 0))
    assert grading.grade_all(handed_in, tmp_path)[0].verdict == "goal met"


def test_names_of_files_are_of_one_student_each(tmp_path):
    names = ["ranking", "a/b", "a_b", "ä" * 300]
    files = {grades._safe(name) for name in names}
    assert len(files) == 4 and "ranking" not in files and max(map(len, files)) < 60
