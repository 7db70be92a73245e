"""Write the edition for students: this checkout without the solutions of its exercises."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from hostcuda.files import require_writable, write
from labkit.base.errors import LabError
from labkit.base.paths import PACKAGE
from labkit.exercises.exercise import exercise
from labkit.exercises.subjects import Numbers
from labkit.ladder.source import read, without_solution
from labkit_classroom.submissions import find_exercise_name

# Tests hold solutions. The recordings of edits and of textbook programs come close to solutions.
_LEFT_OUT = (
    "tests/",
    "engine/tests/",
    "classroom/tests/",
    "playground/tests/",
    "conftest.py",
    ".ci/",
    "recording/edits/",
    "recording/programs/",
    "recording/textbook.cu",
)
# What does not belong to the lab in a checkout without git.
_UNTRACKED = re.compile(
    r"\.git|\.venv.*|\.lab|__pycache__|.*\.egg-info|\.\w+_cache|\.ipynb_checkpoints|reports|build"
)
_SOLUTION = re.compile(r"\blab\.solution\(")
_GRADE = re.compile(r'(lab\.grade\("([^"]+)",.*\));?[ \t]*(#.*)?')


def write_edition(out: Path, nbgrader: bool = False) -> list[Path]:
    """Copy this checkout without the solutions of its exercises.

    A file of an exercise keeps only its starting code, so that the exercises are graded there as
    they are here. The answers of exercises that ask for numbers, the tests, and notebook cells that
    show a solution are left out.

    Parameters
    ----------
    out : Path
        A folder that is empty or does not exist.
    nbgrader : bool
        Mark the exercises' cells for nbgrader, see `mark_cells`.

    Returns
    -------
    list of Path
        The files of the edition.

    Raises
    ------
    LabError
        If labkit is not used from a checkout, or `out` is not empty.
    """
    checkout = PACKAGE.parent
    paths = [*list_files()]  # before there is anything new
    require_empty(out)
    targets = []
    for path in paths:
        target = out / path.relative_to(checkout)
        if path.is_relative_to(PACKAGE / "exercises" / "series"):
            if text := remove_solution(path):  # "": students do not get the file
                targets.append(write(target, text))
        elif path.suffix == ".ipynb":
            targets.append(write(target, _remove_solution_cells(path, nbgrader)))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            targets.append(Path(shutil.copy2(path, target)))
    return targets


def require_empty(folder: Path) -> None:
    """Make a folder if it does not exist. Raises LabError if it is not empty, EngineError if it cannot be written."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise LabError(f"{folder} is not an empty folder: remove it, or choose another with --out")
    require_writable(folder)


def list_files() -> Iterator[Path]:
    """Yield the files of the checkout that an edition for students is made from.

    They are those that git tracks; without git, all that no run of the lab has made. Those of
    _LEFT_OUT, such as tests, are left out. Raises LabError if labkit is not used from a checkout,
    or git fails.
    """
    checkout = PACKAGE.parent
    if not (checkout / "notebooks").is_dir():
        raise LabError(
            f"there are no notebooks beside {PACKAGE}: run labkit from a checkout of the lab"
        )
    if (checkout / ".git").exists():
        try:
            child = subprocess.run(
                ["git", "ls-files", "-z"], cwd=checkout, capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            reason = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[0]
            raise LabError(f"git cannot list the files of {checkout}: {reason}") from None
        paths = [checkout / name for name in child.stdout.split("\0") if name]
    else:
        paths = [*_walk_checkout(checkout)]
    yield from (
        path
        for path in paths
        if path.is_file() and not path.relative_to(checkout).as_posix().startswith(_LEFT_OUT)
    )


def _walk_checkout(checkout: Path) -> Iterator[Path]:
    """Yield the files in a checkout and its folders, without those that belong to git or that a run makes."""
    for folder, folders, files in os.walk(checkout):
        # os.walk does not enter the others
        folders[:] = [name for name in folders if not _UNTRACKED.fullmatch(name)]
        yield from (Path(folder, name) for name in files)


def remove_solution(path: Path) -> str:
    """Return the text of a file of an exercise without its solution, as students get it; "" if they do not get it."""
    if path.suffix == ".cu":
        return without_solution(read(path))
    if path.suffix == ".py":
        return remove_answers(read(path))
    # wrong.toml: wrong answers, close to right ones
    return "" if path.name == "wrong.toml" else read(path)


def remove_answers(module: str) -> str:
    """Return the source of an exercise's Python module, for students: without the answers if it asks for numbers.

    In such a module, ``Numbers(solution=...)`` gets a function or a lambda that returns the
    answers. Its body is replaced, so that it returns an empty tuple.
    """
    # lines in bytes: `col_offset` of ast counts bytes
    tree, lines = ast.parse(module), module.encode().splitlines(keepends=True)
    calls = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Numbers"
    )
    solutions = [
        option.value for call in calls for option in call.keywords if option.arg == "solution"
    ]
    # of functions of the module that are given as a solution
    names = {solution.id for solution in solutions if isinstance(solution, ast.Name)}
    # (first node, last node, code in their place)
    replacements = [
        (solution.body, solution.body, b"()")
        for solution in solutions
        if isinstance(solution, ast.Lambda)
    ]
    replacements += [
        (node.body[0], node.body[-1], b"return ()")
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name in names
    ]
    # from the last to the first, so that the lines above keep their numbers
    for first, last, instead in sorted(replacements, key=lambda entry: -entry[0].lineno):
        begin, end = first.lineno - 1, last.end_lineno - 1
        lines[begin : end + 1] = [
            lines[begin][: first.col_offset] + instead + lines[end][last.end_col_offset :]
        ]
    return b"".join(lines).decode()


def _remove_solution_cells(path: Path, nbgrader: bool) -> str:
    """Return the text of a notebook without cells that show a solution, marked for nbgrader if asked for."""
    nb = nbformat.read(path, 4)
    nb.cells = [
        cell
        for cell in nb.cells
        if not (cell.cell_type == "code" and _SOLUTION.search(cell.source))
    ]
    if nbgrader:
        mark_cells(nb)
    return nbformat.writes(nb) + "\n"


def mark_cells(nb: NotebookNode) -> None:
    """Mark the exercises' cells of a notebook for nbgrader, in place.

    A kernel cell becomes a cell for a solution. The cell that grades it becomes a locked test of
    one point, which fails unless the goal is met: ``assert lab.grade("04a", mine_a).passed``. A
    cell that grades its own numbers becomes an answer of one point that nbgrader leaves to the
    instructor.
    """
    for cell in nb.cells:
        if cell.cell_type != "code":
            continue
        # Path(...).name: an exercise of the class's own is named by its folder, "exercises/histogram",
        # and nbgrader's ids have no "/"; "04a" stays as it is
        if number := find_exercise_name(cell.source):
            cell.metadata["nbgrader"] = _make_metadata(f"kernel-{Path(number).name}", solution=True)
        # call[1]: lab.grade("04a", mine_a), call[2]: 04a
        elif not (call := _GRADE.fullmatch(cell.source)):
            continue
        elif isinstance(exercise(call[2]).subject, Numbers):
            cell.metadata["nbgrader"] = _make_metadata(
                f"answer-{Path(call[2]).name}", grade=True, solution=True, points=1
            )
        else:
            cell.source = f"assert {call[1]}.passed"
            cell.metadata["nbgrader"] = _make_metadata(
                f"grade-{Path(call[2]).name}", grade=True, locked=True, points=1
            )


def _make_metadata(name: str, **values: bool | int) -> dict:
    """Return nbgrader's metadata of a cell, in the third version of its schema."""
    return {
        "schema_version": 3,
        "grade_id": name,
        "grade": False,
        "solution": False,
        "locked": False,
        "task": False,
        **values,
    }
