"""An exercise with parameters that are drawn from the student's name: the same at home, in an edition, when graded."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from typer.testing import CliRunner

import labkit as lab
from labkit.base.errors import LabError
from labkit.base.paths import PACKAGE
from labkit.classroom import grading, sandbox, student
from labkit.classroom.submissions import submissions
from labkit.cli import app
from labkit.exercises import exercise as module
from labkit.exercises.exercise import as_student, exercise
from labkit.exercises.trial import trials

SMOOTH = Path(__file__).parent / "own" / "smooth"
needs_sandbox = pytest.mark.skipif(not sandbox.available(), reason=sandbox.why_not())


@pytest.fixture(autouse=True)
def nobody(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setattr(module, "_added", {})
    grading._draws.cache_clear()
    module.add(SMOOTH)


def of(name):
    with as_student(name):
        return exercise(SMOOTH)


def test_names_draw_what_they_always_draw():
    """Stored values: another hash would give a class other exercises in the middle of a semester."""
    assert {name: tuple(of(name).parameters.values()) for name in ("alice", "bob", "carol", "")} == STORED
    assert of(" ALICE ").parameters == of("alice").parameters  # as a folder, an address and a list may have it
    found = [tuple(of(f"student {n}").parameters.values()) for n in range(300)]
    assert len({*found}) == 9 and min(map(found.count, {*found})) > 15


STORED = {"alice": (5, 128), "bob": (5, 256), "carol": (9, 256), "": (3, 64)}


@pytest.mark.parametrize("name", ["", "carol"])
def test_each_variant_passes_its_trials(name):
    with as_student(name):
        for trial in trials(exercise(SMOOTH)):
            assert trial.problem() == ""


def test_the_text_has_the_values_and_the_goals_follow():
    alice, bob = of("alice"), of("bob")
    for each in (alice, bob):
        k, block = each.parameters.values()
        assert f"#define K {k}\n#define BLOCK {block}\n" in each.start and f"#define K {k}\n" in each.solution
        assert each.goals[0].at_most == 8 * block // 32 + 8
    assert alice.start != bob.start and exercise(SMOOTH).start.count("\n") == alice.start.count("\n")


def test_at_home_the_name_is_in_the_environment(monkeypatch):
    said = CliRunner().invoke(app, ["exercise", "start", str(SMOOTH), "--student", "alice"]).stdout
    assert said == of("alice").start
    monkeypatch.setenv("LABKIT_STUDENT", "bob")
    assert exercise(SMOOTH).parameters == of("bob").parameters
    with pytest.raises(LabError, match=r"asks this student for BLOCK 256, and this has 128: it answers another"):
        lab.grade(SMOOTH, said, quiet=True)
    assert lab.grade(SMOOTH, of("bob").solution, quiet=True).passed


@needs_sandbox
def test_the_grader_draws_the_same(tmp_path):
    texts = {"alice": of("alice").solution, "bob": of("bob").solution, "carol": of("alice").solution}
    for name, text in texts.items():
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "smooth.cu").write_text(text)
    assert of("carol").parameters != of("alice").parameters
    grading.grade_all(submissions([tmp_path / "in"]), tmp_path / "out")
    found = {each.student: each.verdict for each in grading.read_results(tmp_path / "out")}
    assert found["alice"] == found["bob"] == "goal met"
    assert found["carol"].startswith("not graded: exercise smooth asks this student for ")


def test_a_text_that_two_students_share_is_graded_for_each(tmp_path, monkeypatch):
    """It may be right for one and wrong for the other."""
    graded = []
    monkeypatch.setattr(grading, "in_sandbox", lambda asked, *_: graded.append(asked.parameters) or 1 / 0)
    monkeypatch.setattr(sandbox, "why_not", lambda: "")
    text = of("").start.replace("#define", "  // #define")
    for name in ("alice", "bob"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "smooth.cu").write_text(text)
    grading.grade_all(submissions([tmp_path / "alice", tmp_path / "bob"]), tmp_path / "out")
    assert sorted(map(str, graded)) == sorted(str(of(name).parameters) for name in ("alice", "bob"))


def test_an_edition_is_for_a_student(tmp_path, monkeypatch):
    notebook = new_notebook(cells=[new_code_cell(f"%%cuda mine --exercise {SMOOTH}\n{of('').start}")])
    nbformat.write(notebook, tmp_path / "page.ipynb")
    with as_student("alice"):
        cells = nbformat.reads(student._notebook(tmp_path / "page.ipynb", False), 4).cells
    assert cells[0].source.partition("\n")[2] == of("alice").start
    monkeypatch.setattr(student, "files", lambda: [PACKAGE.parent / "README.md"])
    files = student.write_edition(tmp_path / "edition", name="Alice")
    assert files[-1] == tmp_path / "edition" / "labkit" / "student"
    monkeypatch.setattr(module, "NAME", files[-1])
    assert exercise(SMOOTH).parameters == of("alice").parameters


def test_another_process_draws_the_same():
    program = "import sys; from labkit.exercises.exercise import exercise; print(exercise(sys.argv[1]).parameters)"
    done = subprocess.run([sys.executable, "-c", program, SMOOTH], capture_output=True, text=True,
                          env={"LABKIT_STUDENT": "alice", "PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "7"})
    assert done.stdout.strip() == str(of("alice").parameters)


def test_a_parameter_needs_a_name_of_its_own_and_choices(tmp_path):
    (tmp_path / "exercise.py").write_text("from labkit.exercises import drawn\ndrawn('K', 1)\ndrawn('K', 2)\n")
    with pytest.raises(LabError, match=r"drawn\('K', ...\) needs a name of its own"):
        exercise(tmp_path)
    (tmp_path / "exercise.py").write_text("from labkit.exercises import drawn\ndrawn('K')\n")
    with pytest.raises(LabError, match=r"drawn\('K', ...\) needs a name of its own and something"):
        exercise(tmp_path)
