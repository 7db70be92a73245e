"""What students hand in: notebooks with kernel cells of exercises, or .cu files named after an exercise."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import nbformat

from hostcuda.errors import EngineError
from labkit.base.errors import LabError
from labkit.classroom.roster import instant, table
from labkit.exercises.exercise import exercise, exercises
from labkit.exercises.subjects import Numbers
from labkit.ladder.source import read, with_functions

_CELL = re.compile(r"\s*%%(?:kernel|cuda)\b[^\n]*?--exercise[= ]+(\S+)[^\n]*")
_KINDS = (".ipynb", ".cu")
MANIFEST = "manifest.csv"  # beside the hand-ins: whose they are and when they came, as a platform knows it
_BYTES = 20 * 2**20  # of a notebook: with figures it has one or two million


@dataclass(frozen=True)
class Submission:
    """An attempt of a student at an exercise.

    Attributes
    ----------
    student : str
        The name of the file, or of the folder that it lies in.
    exercise : str
        Its number; what was written, if there is no such exercise; empty if nothing that can be graded was handed in.
    answer : str or tuple
        The text of the kernel, with lines numbered as in its cell; or the numbers.
    problem : str
        Why it cannot be graded, in one sentence; else empty.
    submitted_at : str
        When it was handed in, in UTC; empty if nobody knows.
    clock : str
        Who says so: `MANIFEST`, or "file" for the time at which the file was last changed.
    seed : str
        What inputs and a hidden shape are drawn from; by default another one in each grading.
    """

    student: str
    exercise: str
    answer: str | tuple = ""
    problem: str = ""
    submitted_at: str = ""
    clock: str = ""
    seed: str = ""


def _named(stem: str) -> re.Match | None:
    """The parts of a name like 04a, 04a_alice or alice_04a."""
    own = "|".join(re.escape(number) for number, each in exercises().items() if not each.of_series)
    number = rf"\d\d?[a-z]|P\d[a-z]{'|' * bool(own)}{own}"
    return re.fullmatch(rf"(?:(?P<before>.+)[_. -])?(?P<number>{number})(?:[_. -](?P<after>.+))?", stem, re.IGNORECASE)


def asked_by(source: str) -> str:
    """The exercise that a kernel cell names in its first line; empty if it names none."""
    match = _CELL.match(source)
    return match[1] if match else ""


def submissions(paths: Iterable[Path | str], student: str = "") -> list[Submission]:
    """What lies in files and folders: ``alice.ipynb``, ``bob/04a.cu``, or a folder of such.

    In a folder below the given one, a file belongs to the student whose name the outermost of such folders has,
    whatever its own name: ``alice/week 4/04_tiling.ipynb``, as nbgrader has them. Any other file belongs to the student
    whose name it has, or, if it is named after an exercise or a page, to the one whose name the given folder has. Of
    several attempts of a student at an exercise the last one counts: in a notebook the lowest cell, whatever the order
    in which its cells were run. A student of whom a given folder has only other files, or an empty folder, gets a
    submission that says so.

    A file was handed in when it was last changed, unless a ``manifest.csv`` in the only given folder knows better: its
    columns are `file` (a path in the folder, or the outermost folder of one), `submitted_at`, and, where the names of
    files do not say it, `student`.

    Parameters
    ----------
    paths : iterable of Path
    student : str
        Whose all of it is, whatever the names; other files are then of no interest.

    Raises
    ------
    LabError
        There is no such file or folder, nothing in them is a notebook or a .cu file, or a manifest is damaged.
    """
    found: dict[tuple[str, str], tuple[Submission, Path]] = {}
    paths = [Path(path) for path in paths]
    # Of several folders, or of one student's, a manifest may be the student's own.
    manifest = _manifest(paths[0]) if len(paths) == 1 and not student else {}
    files = [(file, path) for path in paths for file in _files(path)]
    if student and not files:
        return [Submission(student, "", problem="there is no .ipynb or .cu file")]
    if not files:
        raise LabError("there is nothing to grade: give notebooks, .cu files, or folders that have some")
    texts: dict[str, str] = {}  # of a large class many are equal
    for file, path in files:
        about = _about(file, path, manifest)
        for each in _all_of(file, *_folder(file, path)):
            text = each.answer if isinstance(each.answer, tuple) else texts.setdefault(each.answer, each.answer)
            each = replace(each, answer=text, **{"student": _printable(each.student), **about})
            each = replace(each, student=student or each.student)
            key = each.student, each.exercise
            before, other = found.get(key, (None, file))
            if other != file:
                twice = f"it was handed in twice, in {other.name} and {file.name}: leave one"
                each = replace(each, answer="", problem=twice)
            damaged = each.problem and before and not before.problem and other == file
            if not damaged:  # it replaces nothing
                found[key] = each, file
    handed_in = [each for each, _ in found.values()]
    students = {each.student for each in handed_in}
    if student:
        return handed_in
    return handed_in + [each for path in paths if path.is_dir() for each in _without(path, students)]


def _manifest(path: Path) -> dict[str, dict[str, str]]:
    """What the manifest of a folder says of its files, by their paths."""
    found = {}
    if (file := path / MANIFEST).is_file():
        for line, row in table(file, ("file", "submitted_at")):
            try:
                at = instant(row["submitted_at"]).astimezone(UTC).isoformat(timespec="seconds")
            except LabError as error:
                raise LabError(f"{file}, line {line}: {error}") from None
            student = {"student": row["student"]} if row.get("student") else {}
            found[row["file"].strip("/")] = {"submitted_at": at, "clock": MANIFEST} | student
    return found


def unused(path: Path) -> list[str]:
    """The lines of a folder's manifest that name no file in it, and no folder of a student."""
    named = _manifest(path) if path.is_dir() else {}
    for each in path.rglob("*") if named else ():
        below = each.relative_to(path)
        for name in (below.as_posix(), below.parts[0]) if not each.is_dir() else (below.parts[0],):
            named.pop(name, None)
    return [*named]


def _about(file: Path, path: Path, manifest: dict) -> dict[str, str]:
    """When a file was handed in, and who says so; whose it is, if the manifest says it."""
    below = file.relative_to(path)
    for name in (below.as_posix(), below.parts[0] if below.parts else file.name):
        if name in manifest:
            return manifest[name]
    try:
        changed = datetime.fromtimestamp(file.lstat().st_mtime, UTC)
    except (OSError, OverflowError, ValueError):
        return {}
    return {"submitted_at": changed.isoformat(timespec="seconds"), "clock": "file"}


def _printable(name: str) -> str:
    """A name of a file as text: it may hold bytes that are none."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _without(path: Path, known: set[str]) -> Iterator[Submission]:
    """The students of whom a folder has something, but no notebook and no .cu file."""
    if path.resolve().name in known:  # one student's own folder: the rest of it belongs to the same
        return
    graded = {file.relative_to(path).parts[0] for file in _files(path)}
    if not graded:  # named beside others that have some: a student's, too
        yield Submission(path.resolve().name, "", problem="there is no .ipynb or .cu file in the folder")
        return
    others: dict[str, list[str]] = {}
    for each in sorted(path.iterdir()):
        if each.name in graded or each.name == MANIFEST or each.name.startswith((".", "__")):  # __MACOSX, __pycache__
            continue
        named = None if each.is_dir() else _named(each.stem)
        student = _owner(each.name) if each.is_dir() else (named and (named["before"] or named["after"])) or each.stem
        others.setdefault(student, []).append(f"the folder {each.name}" if each.is_dir() else each.name)
    for student, names in others.items():
        if student not in known:
            yield Submission(_printable(student), "",
                             problem=f"there is no .ipynb or .cu file, only {_printable(' and '.join(names))}")


def _all_of(file: Path, folder: str, nested: bool) -> list[Submission]:
    """The submissions in a file, whatever is in it."""
    student = folder if nested else file.stem
    if file.is_symlink():
        return [Submission(student, "", problem=f"{file.name} is a link: hand in the file itself")]
    try:
        if file.stat().st_size > _BYTES:
            return [Submission(student, "", problem=f"{file.name} has more than {_BYTES // 2**20} MB")]
        return [*_of(file, folder, nested)]
    except Exception as error:  # a student's file must not stop the class
        return [Submission(student, "", problem=f"{file.name} cannot be read: {type(error).__name__}: {error}")]


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        inside = sorted(path.rglob("*"))
        return [each for each in inside if each.suffix.lower() in _KINDS and (each.is_symlink() or each.is_file())
                and not any(part.startswith(".") for part in each.relative_to(path).parts)]
    if not path.is_file():
        raise LabError(f"there is no file or folder {path}")
    return [path]


def _folder(file: Path, given: Path) -> tuple[str, bool]:
    """The folder that may have a student's name: the outermost below the given one (True), else the file's own."""
    below = file.relative_to(given).parts
    return (_owner(below[0]), True) if len(below) > 1 else (file.resolve().parent.name, False)


def _owner(folder: str) -> str:
    """The student whose name a folder has; Moodle writes more behind it."""
    return re.sub(r"_\d+_assignsubmission_\w+$", "", folder)


def _of(file: Path, folder: str, nested: bool) -> Iterator[Submission]:
    named = _named(file.stem)
    page = file.stem in {each.page for each in exercises().values()}
    student = folder if nested or page else file.stem
    if file.suffix.lower() == ".cu":
        number = named["number"] if named else ""
        if named and not nested:
            student = named["before"] or named["after"] or folder
        if not number:
            remedy = "name it NAME_04a.cu, or 04a.cu in a folder with the student's name"
            yield Submission(student, "", problem=f"{file.name} does not say which exercise it answers: {remedy}")
            return
        yield _kernel(student, number, file)
    elif file.suffix.lower() == ".ipynb":
        yield from _cells(student, file)
    else:
        yield Submission(student, "", problem=f"{file.name} is neither a notebook nor a .cu file")


def _kernel(student: str, number: str, file: Path) -> Submission:
    try:
        text = read(file).rstrip() + "\n"  # with a line break, it is never taken for the path of another file
        problem = "" if text.strip() else f"{file.name} is empty: hand in the whole kernel"
        return Submission(student, exercise(number).number, text, problem)
    except EngineError as error:
        return Submission(student, number, problem=str(error).replace(str(file), file.name))


def _cells(student: str, file: Path) -> Iterator[Submission]:
    try:
        cells = nbformat.read(file, 4).cells
    except Exception as error:  # nbformat raises whatever its parsers do
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        yield Submission(student, "", problem=f"{file.name} is not a notebook: {reason}")
        return
    found = False
    for cell in cells:
        if cell.cell_type != "code":
            continue
        cell.source = cell.source.encode("utf-8", "backslashreplace").decode()  # JSON may hold half of a character
        if match := _CELL.match(cell.source):
            found = True
            above = cell.source[: len(cell.source) - len(cell.source.lstrip())].count("\n")
            head, _, body = cell.source.lstrip().partition("\n")
            try:
                asked, text = exercise(match[1]), f"{chr(10) * above}// {head}\n{body}"
                if "--part" in head.split():
                    text = with_functions(asked.start, text)
                yield Submission(student, asked.number, text)
            except EngineError as error:
                yield Submission(student, match[1], problem=str(error))
        else:
            for number, answer in _answers(cell.source):
                found = True
                problem = "" if answer is not None else f"{number}: write the numbers into the call of lab.grade"
                yield Submission(student, number, answer or (), problem)
    if not found:
        yield Submission(student, "", problem=f"{file.name} has no kernel cell with --exercise: hand in the notebook "
                                              "with its first lines of cells as they were")


_LONGEST_ANSWER = 1000  # characters


def _answers(source: str) -> Iterator[tuple[str, tuple | None]]:
    """The numbers that a cell hands to the grader; None where they are neither written out nor named once above."""
    try:
        tree = ast.parse("\n".join(line for line in source.splitlines() if not line.lstrip().startswith(("%", "!"))))
    except SyntaxError:
        return
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    assigned = [node for node in assigned if isinstance(node.targets[0], ast.Name)]
    names = [node.targets[0].id for node in assigned]
    named = {node.targets[0].id: node.value for node in assigned if names.count(node.targets[0].id) == 1}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "grade"):
            continue
        first, *given = node.args or [None]
        try:
            asked = exercise(first.value) if isinstance(first, ast.Constant) else None
        except EngineError:
            continue
        if asked and isinstance(asked.subject, Numbers):
            try:
                answer = tuple(ast.literal_eval(named.get(getattr(each, "id", ""), each)) for each in given)
                if len(repr(answer)) > _LONGEST_ANSWER:  # a number of 4,300 digits has no repr at all
                    answer = None
            except (ValueError, TypeError):
                answer = None
            yield asked.number, answer
