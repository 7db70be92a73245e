"""The edition for students: no solution is in it, and its exercises are graded as here."""

import json
import os
import re
import subprocess
import sys
import textwrap

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from notebook_files import write_notebook

from labkit.base.paths import PACKAGE, cuda_src
from labkit.exercises.exercise import exercise, exercises
from labkit.ladder.source import select_view, without_solution
from labkit_classroom import student

pytestmark = pytest.mark.thorough("a class of hand-ins: minutes")

# What their solutions have, a page shows as its kernel or a step of it, or the next exercise as its
# starting code.
SHOWN_LATER = {
    "00a",
    "01b",
    "03a",
    "05b",
    "07a",
    "10a",
    "11d",
    "P1a",
    "P2a",
    "P3a",
    "P4a",
    "P5a",
    "P8a",
    "P8b",
    "P10a",
}


@pytest.fixture(scope="module")
def edition(tmp_path_factory):
    """Return the folder of a students' edition for nbgrader."""
    out = tmp_path_factory.mktemp("student") / "edition"
    student.write_edition(out, nbgrader=True)
    return out


def lines(text):
    """Return the lines of code with more than one word, without comments and with single blanks."""
    code = (" ".join(line.split()) for line in re.sub(r"//[^\n]*", "", text).splitlines())
    return {line for line in code if re.search(r"\w\W+\w", line)}


def notebook_text(path):
    """Yield the texts of the cells and of their outputs."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        yield "".join(cell["source"])
        for output in cell.get("outputs", ()):
            yield "".join(output.get("text", ()))
            yield from (
                "".join(data)
                for kind, data in output.get("data", {}).items()
                if kind.startswith("text/")
            )


def test_no_line_of_a_solution_is_in_it(edition):
    # of an exercise of one's own: no answer to one of the lab's
    template = PACKAGE / "exercises" / "template"
    taught = set().union(
        *(
            lines(path.read_text())
            for where in (cuda_src(), template)
            for path in where.rglob("*.cu")
        )
    )
    public_lines = set()
    for path in edition.rglob("*"):
        if path.suffix in (".cu", ".md", ".py", ".toml"):
            public_lines |= lines(path.read_text(encoding="utf-8"))
        elif path.suffix == ".ipynb":
            public_lines |= lines("\n".join(notebook_text(path)))
    with_code = {number: asked for number, asked in exercises().items() if asked.file}
    assert with_code
    for number, asked in with_code.items():
        own = lines(asked.solution) - lines(asked.start) - taught
        assert own or number in SHOWN_LATER
        assert number in SHOWN_LATER or not own & public_lines, number


TRIED = """
    import pathlib, sys
    import labkit as lab
    from labkit.exercises.exercise import exercise, exercises
    edition, kernel = pathlib.Path(sys.argv[1]), sys.stdin.read()
    assert pathlib.Path(lab.__file__).is_relative_to(edition)
    if kernel:
        graded = lab.grade("04a", exercise("04a").start if kernel == "start" else kernel, quiet=True)
        print(graded.verdict, "lab.solution" in str(graded))
    for number in exercises():
        try:
            print(number, lab.solution(number))
        except lab.LabError as error:
            refusal = str(error)
    print(refusal)
"""


@pytest.mark.parametrize(
    ("kernel", "verdict"),
    [
        ("", ""),
        ("start", "goal missed: this is the starting code"),
        (exercise("04a").solution, "goal met"),
    ],
    ids=["nothing", "start", "solution"],
)
def test_its_exercises_are_graded_and_have_no_solution(edition, kernel, verdict):
    environment = {
        **os.environ,
        "PYTHONPATH": str(edition),
        "HOSTCUDA_ENGINE": "cpu",
        "LABKIT_PROGRESS": str(edition / "progress.json"),
    }
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(TRIED), str(edition)],
        input=kernel,
        cwd=edition,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert process.stdout.splitlines() == [
        *([f"{verdict} False"] if verdict else []),
        "this edition of the lab has no solutions: lab.grade gives a hint after each attempt",
    ], process.stderr


@pytest.mark.parametrize("number", [number for number, asked in exercises().items() if asked.file])
def test_a_file_keeps_its_starting_code_alone(number):
    text = without_solution(exercise(number).file.read_text())
    assert select_view(text, skeleton=True) == exercise(number).start
    assert select_view(text, skeleton=False) == ""
    assert without_solution(text) == text


def test_a_file_without_starting_code_is_left_out():
    assert without_solution("// 99a\n__global__ void conv() {}\n") == ""


def test_numbers_lose_their_answer():
    module = """
def _fewest() -> tuple:
    \"\"\"A docstring.\"\"\"
    found = [7, 11]
    return tuple(found)


A = Numbers(_count, start=(2, 2), solution=_fewest)
B = Numbers(_count, solution=lambda: (0.3,))
"""
    assert (
        student.remove_answers(module)
        == """
def _fewest() -> tuple:
    return ()


A = Numbers(_count, start=(2, 2), solution=_fewest)
B = Numbers(_count, solution=lambda: ())
"""
    )


def test_tests_and_cells_with_a_solution_are_left_out(edition):
    assert not (edition / "tests").exists()
    assert (edition / "labkit" / "exercises" / "grade.py").is_file()
    assert not any(
        "lab.solution(" in text for path in edition.rglob("*.ipynb") for text in notebook_text(path)
    )


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Write a small checkout without git: a file of the lab, an exercise, a page, and what runs leave."""
    root = tmp_path / "lab"
    for name in (
        "README.md",
        "tests/test_it.py",
        ".venv/lib/x.py",
        "labkit/__pycache__/x.pyc",
        "reports/index.html",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    folder = root / "labkit" / "exercises" / "series" / "04_tiling" / "a_no_conflicts"
    folder.mkdir(parents=True)
    for path in exercise("04a").folder.glob("*.*"):
        (folder / path.name).write_text(path.read_text())
    write_notebook(
        root / "notebooks" / "04_tiling.ipynb",
        new_markdown_cell("# 04 · Tiling"),
        'lab.show(lab.solution("04a"))',
        'lab.grade("04a", mine);',
    )
    monkeypatch.setattr(student, "PACKAGE", root / "labkit")
    return root


def test_without_git_what_a_run_has_made_is_left_out(checkout, tmp_path):
    out = tmp_path / "out"
    files = student.write_edition(out)
    # without .venv, __pycache__ and reports of `checkout`, and without its tests, which no edition has
    assert {path.relative_to(out).as_posix() for path in files} == {
        "README.md",
        "notebooks/04_tiling.ipynb",
        *(
            f"labkit/exercises/series/04_tiling/a_no_conflicts/{name}"
            for name in ("a_no_conflicts.cu", "exercise.py", "hints.md")
        ),
    }
    nb = nbformat.read(out / "notebooks" / "04_tiling.ipynb", 4)
    assert [cell.source for cell in nb.cells] == ["# 04 · Tiling", 'lab.grade("04a", mine);']
    assert not any(cell.metadata for cell in nb.cells)


# ----------------------------------------------------------------------------------------- nbgrader


def nbgrader_accepts(nb):
    """Check the cells with code by the rules of nbgrader's schema 3 and of its validator; return their names."""
    names = []
    for cell in nb.cells:
        if "nbgrader" not in cell.metadata:
            continue
        marks = dict(cell.metadata["nbgrader"])
        assert cell.cell_type == "code"
        assert marks.pop("schema_version") == 3
        names.append(marks.pop("grade_id"))
        assert re.fullmatch(r"[a-zA-Z0-9_\-]+", names[-1])
        assert ("points" in marks) == marks["grade"]
        assert marks.pop("points", 0) >= 0
        assert set(marks) == {"grade", "solution", "locked", "task"}
        assert all(isinstance(mark, bool) for mark in marks.values())
        assert not marks["task"]  # a task is a cell of Markdown
    assert len(names) == len(set(names))
    return names


def test_cells_of_exercises_are_marked_for_nbgrader():
    nb = new_notebook(
        cells=[
            new_code_cell("%%kernel 04 --exercise 04a --name mine_a\n__global__ void conv() {}"),
            new_code_cell('lab.grade("04a", mine_a);'),
            new_code_cell("%%kernel 04\n__global__ void conv() {}"),
            new_code_cell('lab.grade("12a", 2, 2);   # chunks'),
        ]
    )
    student.mark_cells(nb)
    assert nbgrader_accepts(nb) == ["kernel-04a", "grade-04a", "answer-12a"]
    answer = nb.cells[3].metadata["nbgrader"]
    assert answer["grade"] and answer["solution"] and not answer["locked"]
    assert nb.cells[3].source == 'lab.grade("12a", 2, 2);   # chunks'
    kernel, grade = (cell.metadata["nbgrader"] for cell in nb.cells[:2])
    assert kernel["solution"] and not kernel["locked"] and not kernel["grade"]
    assert grade["grade"] and grade["locked"] and not grade["solution"] and grade["points"] == 1
    assert nb.cells[1].source == 'assert lab.grade("04a", mine_a).passed'


def test_every_exercise_of_the_notebooks_is_marked_for_nbgrader(edition):
    for path in edition.glob("notebooks/*.ipynb"):
        nb = nbformat.read(path, 4)
        marked = nbgrader_accepts(nb)
        graded = {
            match[1]
            for cell in nb.cells
            if cell.cell_type == "code"
            and (match := re.search(r'lab\.grade\("(\w+)"', cell.source))
        }
        assert {
            name.partition("-")[2] for name in marked if not name.startswith("kernel-")
        } == graded, path.name
