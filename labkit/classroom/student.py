"""The edition for students: this checkout without the solutions of its exercises."""

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
from labkit.classroom.submissions import asked_by
from labkit.exercises.exercise import exercise
from labkit.exercises.subjects import Numbers
from labkit.ladder.source import read, without_solution

# Solutions are tested there; what is recorded of edits and of textbook programs comes close to solutions.
_LEFT_OUT = ("tests/", "engine/tests/", ".ci/", "recording/edits/", "recording/programs/", "recording/textbook.cu")
# What a checkout has that is not the lab, where there is no git to say so.
_UNTRACKED = re.compile(r"\.git|\.venv.*|\.lab|__pycache__|.*\.egg-info|\.\w+_cache|\.ipynb_checkpoints|reports|build")
_SOLUTION = re.compile(r"\blab\.solution\(")
_GRADE = re.compile(r'(lab\.grade\("([^"]+)",.*\));?[ \t]*(#.*)?')


def write_edition(out: Path, nbgrader: bool = False) -> list[Path]:
    """Copy this checkout without the solutions of its exercises.

    A file of an exercise keeps its starting code alone, so that the exercises are graded there as they are here. Left
    out are the answers of exercises that ask for numbers, the tests, and cells of notebooks that show a solution.

    Parameters
    ----------
    out : Path
        A folder that is empty or does not exist.
    nbgrader : bool
        Mark the exercises' cells for nbgrader, see `mark`.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    EngineError
        labkit is not used from a checkout, or the folder is not empty or cannot be written.
    """
    checkout = PACKAGE.parent
    paths = [*files()]  # before there is anything new
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise LabError(f"{out} is not an empty folder: remove it, or choose another with --out")
    require_writable(out)
    written = []
    for path in paths:
        target = out / path.relative_to(checkout)
        if path.is_relative_to(PACKAGE / "exercises" / "series"):
            if text := posed(path):
                written.append(write(target, text))
        elif path.suffix == ".ipynb":
            written.append(write(target, _notebook(path, nbgrader)))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            written.append(Path(shutil.copy2(path, target)))
    return written


def files() -> Iterator[Path]:
    """The files that git tracks; without git, all but those that a run of the lab has made.

    Raises
    ------
    LabError
        labkit is not used from a checkout.
    """
    checkout = PACKAGE.parent
    if not (checkout / "notebooks").is_dir():
        raise LabError(f"there are no notebooks beside {PACKAGE}: run labkit from a checkout of the lab")
    if (checkout / ".git").exists():
        try:
            listed = subprocess.run(["git", "ls-files", "-z"], cwd=checkout, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[0]
            raise LabError(f"git cannot list the files of {checkout}: {said}") from None
        paths = [checkout / name for name in listed.stdout.split("\0") if name]
    else:
        paths = [*_walk(checkout)]
    for path in paths:
        if path.is_file() and not path.relative_to(checkout).as_posix().startswith(_LEFT_OUT):
            yield path


def _walk(checkout: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(checkout):
        folders[:] = [name for name in folders if not _UNTRACKED.fullmatch(name)]
        yield from (Path(folder, name) for name in files)


def posed(path: Path) -> str:
    """A file of an exercise as students get it; empty if they get none."""
    if path.suffix == ".cu":
        return without_solution(read(path))
    return "" if path.name == "wrong.toml" else unanswered(read(path))


def unanswered(module: str) -> str:
    """The source of a module of exercises without the answers of those that ask for numbers.

    What `labkit.exercises.subjects.Numbers` gets as its solution, a function or a lambda, returns an empty tuple then.
    """
    tree, lines = ast.parse(module), module.encode().splitlines(keepends=True)
    given = [each.value for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Numbers"
             for each in node.keywords if each.arg == "solution"]
    named = {each.id for each in given if isinstance(each, ast.Name)}
    parts = [(each.body, each.body, b"()") for each in given if isinstance(each, ast.Lambda)]
    parts += [(node.body[0], node.body[-1], b"return ()") for node in tree.body
              if isinstance(node, ast.FunctionDef) and node.name in named]
    for first, last, instead in sorted(parts, key=lambda part: -part[0].lineno):  # the lines above keep their numbers
        begin, end = first.lineno - 1, last.end_lineno - 1
        lines[begin : end + 1] = [lines[begin][: first.col_offset] + instead + lines[end][last.end_col_offset :]]
    return b"".join(lines).decode()


def _notebook(path: Path, nbgrader: bool) -> str:
    nb = nbformat.read(path, 4)
    nb.cells = [cell for cell in nb.cells if not (cell.cell_type == "code" and _SOLUTION.search(cell.source))]
    if nbgrader:
        mark(nb)
    return nbformat.writes(nb) + "\n"


def mark(nb: NotebookNode) -> None:
    """Mark the exercises' cells of a notebook for nbgrader, in place.

    A kernel cell becomes a cell for a solution. The cell that grades it becomes a locked test of one point, which fails
    unless the goal is met: ``assert lab.grade("04a", mine_a).passed``. Where the numbers of an answer stand in the cell
    that grades them, it becomes an answer of one point that nbgrader leaves to the instructor.

    Parameters
    ----------
    nb : NotebookNode
        In nbformat 4.
    """
    for cell in nb.cells:
        if cell.cell_type != "code":
            continue
        if number := asked_by(cell.source):
            cell.metadata["nbgrader"] = _marks(f"kernel-{Path(number).name}", solution=True)
        elif not (found := _GRADE.fullmatch(cell.source)):
            continue
        elif isinstance(exercise(found[2]).subject, Numbers):
            cell.metadata["nbgrader"] = _marks(f"answer-{found[2]}", grade=True, solution=True, points=1)
        else:
            cell.source = f"assert {found[1]}.passed"
            cell.metadata["nbgrader"] = _marks(f"grade-{Path(found[2]).name}", grade=True, locked=True, points=1)


def _marks(name: str, **values: bool | int) -> dict:
    """nbgrader's metadata of a cell, in the third version of its schema."""
    return {"schema_version": 3, "grade_id": name, "grade": False, "solution": False, "locked": False, "task": False,
            **values}
