"""Write the grader for a container, as Gradescope's zip or with a Containerfile; and grade inside of it.

``python -m labkit_classroom.autograder gradescope FOLDER`` grades the submission in Gradescope's
folder, and says first which walls stand; ``prepare`` compiles what every grading needs. The lab
goes into a container without its solutions.
"""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from hostcuda.files import write
from labkit.base.errors import LabError
from labkit.base.paths import PACKAGE, SERIES
from labkit.exercises.attempts import CHECKS, WITHOUT_COUNTS
from labkit.exercises.exercise import Exercise, add, exercise
from labkit_classroom import grades, grading, sandbox, student
from labkit_classroom.submissions import Submission, submissions

HERE = PACKAGE.parent
_CONTAINER = Path(__file__).parent / "container"
# the exercises of a container: a line for each, with its number or its folder
_ASKED = HERE / "asked"
_LAB = ("labkit/", "data/", "engine/hostcuda/", "classroom/labkit_classroom/")
_OF_EACH = ("pyproject.toml", "README.md", "LICENSE")  # files of each package
_ROOT = (
    *_OF_EACH,
    "setup.py",
    "MANIFEST.in",
    "requirements.lock",
    *(f"{folder}/{name}" for folder in ("engine", "classroom") for name in _OF_EACH),
)


def write_zip(path: Path, tasks: Iterable[Exercise]) -> Path:
    """Write Gradescope's zip for these exercises, and return its path.

    LabError outside of a checkout of the lab, or if there is a file that is no earlier grader.
    """
    existing = path.read_bytes() if path.is_file() else b""
    # only an earlier grader may be overwritten
    if os.path.lexists(path) and not (existing.startswith(b"PK") and b"run_autograder" in existing):
        raise LabError(
            f"{path} is there, and is no grader: remove it, or choose another name with --out"
        )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in _list_files(tasks):
            entry = zipfile.ZipInfo(name)  # without the time: the same grader is the same file
            # Unix permissions, in the upper 16 bits: scripts can be executed
            entry.external_attr = (0o755 if name in ("setup.sh", "run_autograder") else 0o644) << 16
            file.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return write(path, content.getvalue())


def write_image(folder: Path, tasks: Iterable[Exercise]) -> list[Path]:
    """Write into a folder what a container image of the grader is built from, and return the files.

    They are a ``Containerfile`` and what it copies. LabError outside of a checkout, or if the folder
    is not empty; EngineError if it cannot be written.
    """
    student.require_empty(folder)
    return [write(folder / name, data) for name, data in _list_files(tasks)]


def _list_files(tasks: Iterable[Exercise]) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the grader's files: scripts, the lab and added exercises, without solutions."""
    # the lines of `_ASKED`: "04a", or "exercises/NAME" for an exercise of the class's own
    keys = []
    for task in tasks:
        keys.append(task.number if task.of_series else f"exercises/{task.number}")
        if not task.of_series:  # the lab does not have its files
            for path in sorted(filter(Path.is_file, task.folder.iterdir())):
                yield from _without_solution(f"{keys[-1]}/{path.name}", path)
    yield from (
        (path.name, path.read_bytes()) for path in sorted(_CONTAINER.iterdir()) if path.is_file()
    )
    for path in student.list_files():
        name = path.relative_to(HERE).as_posix()
        if path.is_relative_to(SERIES):
            yield from _without_solution(name, path)
        elif name in _ROOT or name.startswith(_LAB):
            yield name, path.read_bytes()
    yield "asked", "".join(f"{key}\n" for key in keys).encode()


def _without_solution(name: str, path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of an exercise's file without its solution, if anything is left of it."""
    data = (
        student.remove_solution(path).encode()
        if path.suffix in (".cu", ".py", ".toml")
        else path.read_bytes()
    )
    if data:
        yield name, data


# --------------------------------------------------------------------------------- In the container
def read_exercises() -> list[str]:
    """Return the numbers of the exercises that the file `_ASKED` names, and add the class's own to the lab.

    The file lies in the container of a grader; without it the list is empty. Each line has a number,
    such as "04a", or the folder of an exercise of the class's own, such as "exercises/histogram".
    """
    keys = _ASKED.read_text(encoding="utf-8").split() if _ASKED.is_file() else []
    return [add(HERE / key).number if "/" in key else exercise(key).number for key in keys]


def gradescope(root: Path) -> Path:
    """Grade ``submission`` in Gradescope's folder `root`; write ``results/results.json`` there, and return its path.

    The student is named by the e-mail address of the first one who hands in, as Gradescope knows
    it. An exercise of the assignment that is not in the submission gets no points; other exercises
    that are in it are ignored.
    """
    metadata = json.loads((root / "submission_metadata.json").read_text(encoding="utf-8"))
    users = metadata.get("users") or [{}]
    name = str(users[0].get("email") or users[0].get("name") or "student")
    numbers = read_exercises()
    by_number = {
        submission.exercise: submission for submission in submissions([root / "submission"], name)
    }
    handed_in = [
        by_number.get(number)
        or Submission(name, number, problem="there is nothing to this exercise")
        for number in numbers
    ]
    # files that name no exercise: its `problem` is shown
    handed_in += [by_number[""]] if "" in by_number else []
    out = root / "graded"
    grading.grade_all(handed_in, out)
    files = grades.write_all(out, formats=["gradescope"]).files  # one student has one results.json
    (result_file,) = (path for path in files if path.name == "results.json")
    return write(root / "results" / "results.json", result_file.read_bytes())


def main(what: str, *folder: str) -> None:
    """Prepare the container (`what` is "prepare"), or grade the submission in Gradescope's folder ("gradescope").

    To prepare it, what all submissions need is compiled ahead of time; it has no `folder`. The
    arguments are those of the command line.
    """
    if what == "prepare":
        for tools in (CHECKS, WITHOUT_COUNTS):
            sandbox.precompile(tools)
    else:
        # how far the sandbox shuts kernels in here
        print(sandbox.describe_walls(), file=sys.stderr, flush=True)
        print(gradescope(Path(*folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
