"""What students hand in: notebooks with kernel cells of exercises, or .cu files named after an exercise."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import stat
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from hostcuda.errors import EngineError
from labkit.base.errors import LabError
from labkit.classroom.roster import instant, table
from labkit.classroom.sandbox import parsed
from labkit.exercises.exercise import SOURCE_CHARACTERS, by_name, exercises
from labkit.exercises.subjects import Numbers
from labkit.ladder.source import decoded, with_functions

_CELL = re.compile(r"\s*%%(?:kernel|cuda)\b[^\n]*?--exercise[= ]+(\S+)[^\n]*")
_KINDS = (".ipynb", ".cu")
MANIFEST = "manifest.csv"  # beside the hand-ins: whose they are and when they came, as a platform knows it
# What is read of a student. More is not looked at, and the student's page says so.
_BYTES = 20 * 2**20  # of a file: a notebook with figures has one or two million
_VALUES = 500_000  # of a notebook's JSON
_CELLS = 1000  # of a notebook
_FILES, _ALL_BYTES = 200, 100 * 2**20
_EXERCISES = 100
_SPACES = "\xa0\u200c\u200d\u3000"  # that names and texts need
_FOLDERS = 20  # one in the other
_SAID, _NAME = 1000, 60  # characters of a sentence, and of the name of an exercise


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
    read, exercises_of = Counter(), Counter()  # of a student: bytes, and exercises
    for file, path in files:
        about = _about(file, path, manifest)
        folder, nested = _folder(file, path)
        owner = student or (folder if nested else file.stem)
        read[owner] += _cost(file)
        more = f"there are more than {_FILES} files, or {_ALL_BYTES // 2**20} MB: the rest was not read"
        inside = _all_of(file, folder, nested) if read[owner] <= _ALL_BYTES else [Submission(owner, "", problem=more)]
        for each in inside:
            text = each.answer if isinstance(each.answer, tuple) else texts.setdefault(each.answer, each.answer)
            each = replace(each, answer=text, **{"student": each.student, **about})
            each = replace(each, student=student or printable(each.student), exercise=printable(each.exercise),
                           problem=printable(each.problem)[:_SAID])
            if (each.student, each.exercise) not in found:
                exercises_of[each.student] += 1
                if exercises_of[each.student] > _EXERCISES:
                    more = f"more than {_EXERCISES} exercises are named: the rest was not read"
                    each = replace(each, exercise="", answer="", problem=more)
            key = each.student, each.exercise
            before, other = found.get(key, (None, file))
            if before and not each.exercise:  # what could not be read of several files, or cells
                said = "" if each.problem in before.problem else f"; {each.problem}"
                each = replace(before, problem=(before.problem + said)[:_SAID])
            elif other != file:
                twice = f"it was handed in twice, in {printable(other.name)} and {printable(file.name)}: leave one"
                each = replace(each, answer="", problem=twice)
            damaged = each.problem and before and not before.problem and other == file
            if not damaged:  # it replaces nothing
                found[key] = each, file
    handed_in = [each for each, _ in found.values()]
    if student:
        return handed_in
    students = {each.student for each in handed_in}
    return handed_in + [each for path in paths if path.is_dir() for each in _without(path, students, files)]


def _manifest(path: Path) -> dict[str, dict[str, str]]:
    """What the manifest of a folder says of its files, by their paths."""
    found = {}
    if (file := path / MANIFEST).is_file():
        for line, row in table(file, ("file", "submitted_at")):
            try:
                at = instant(row["submitted_at"]).isoformat(timespec="seconds")
            except LabError as error:
                raise LabError(f"{file}, line {line}: {error}") from None
            student = {"student": row["student"]} if row.get("student") else {}
            found[row["file"].strip("/")] = {"submitted_at": at, "clock": MANIFEST} | student
    return found


def unused(path: Path) -> list[str]:
    """The lines of a folder's manifest that name no file in it, and no folder of a student."""
    named = _manifest(path) if path.is_dir() else {}
    return [name for name in named
            if not os.path.lexists(path / name) or ("/" in name and os.path.isdir(path / name))]


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


def printable(text: str) -> str:
    """Return a text that a terminal shows as it is: bytes that are none, controls and invisible letters as escapes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in _SPACES else ascii(each)[1:-1].replace(r"\udc", r"\x")
                   for each in text)


def _without(path: Path, students: set[str], files: Iterable[tuple[Path, Path]]) -> Iterator[Submission]:
    """The students of whom a folder has something, but none of these files."""
    if path.resolve().name in students:  # one student's own folder: the rest of it belongs to the same
        return
    graded = {file.relative_to(path).parts[0] for file, given in files if given == path}
    if not graded:  # named beside others that have some: a student's, too
        yield Submission(path.resolve().name, "", problem="there is no .ipynb or .cu file in the folder")
        return
    others: dict[str, list[str]] = {}
    for each in sorted(path.iterdir()):
        if each.name in graded or each.name == MANIFEST or each.name.startswith((".", "__")):  # __MACOSX, __pycache__
            continue
        is_folder = os.path.isdir(each)
        named = None if is_folder else _named(each.stem)
        student = _owner(each.name) if is_folder else (named and (named["before"] or named["after"])) or each.stem
        others.setdefault(printable(student), []).append(printable(f"{'the folder ' * is_folder}{each.name}"))
    for student, names in others.items():
        if student not in students:
            yield Submission(student, "", problem=f"there is no .ipynb or .cu file, only {' and '.join(names)}"[:_SAID])


def _all_of(file: Path, folder: str, nested: bool) -> list[Submission]:
    """The submissions in a file, whatever is in it."""
    student = folder if nested else file.stem
    if file.is_symlink():
        return [Submission(student, "", problem=f"{file.name} is a link: hand in the file itself")]
    try:
        return [*_of(file, folder, nested)]
    except EngineError as error:
        return [Submission(student, "", problem=str(error))]
    except Exception as error:  # a student's file must not stop the class
        reason = f"{type(error).__name__}: {getattr(error, 'strerror', None) or error}"
        return [Submission(student, "", problem=f"{file.name} cannot be read: {reason}")]


def _cost(file: Path) -> int:
    """Return how many of a student's bytes a file takes: also an empty one takes some, and none more than is read."""
    try:
        return min(max(file.lstat().st_size, _ALL_BYTES // _FILES), _BYTES)
    except OSError:
        return _ALL_BYTES // _FILES


def _content(file: Path) -> bytes:
    """Return what is in a plain file. Raises LabError if it has more than `_BYTES`, or is another thing."""
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe would be waited for
    with open(file, "rb", opener=lambda path, read: os.open(path, read | flags)) as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise LabError(f"{file.name} is no plain file")
        data = opened.read(_BYTES + 1)
    if len(data) > _BYTES:
        raise LabError(f"{file.name} has more than {_BYTES // 2**20} MB")
    return data


def _files(path: Path) -> list[Path]:
    """The notebooks and .cu files in a folder, no link followed; or the file itself."""
    if not path.is_dir():
        if not path.is_file():
            raise LabError(f"there is no file or folder {path}")
        return [path]
    found, waiting = [], [(path, 0)]
    while waiting:
        folder, depth = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(folder) as inside:  # a folder that must not be read
            for each in inside:
                if each.name.startswith("."):
                    continue
                if each.is_dir(follow_symlinks=False):
                    waiting += [(folder / each.name, depth + 1)] if depth < _FOLDERS else []
                elif Path(each.name).suffix.lower() in _KINDS and (
                        each.is_symlink() or each.is_file(follow_symlinks=False)):
                    found.append(folder / each.name)
    return sorted(found)


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
        text = decoded(_content(file), file.name).rstrip() + "\n"  # so it is never taken for the path of another file
        problem = "" if text.strip() else f"{file.name} is empty: hand in the whole kernel"
        return Submission(student, by_name(number).number, _bounded(text), problem)
    except EngineError as error:
        return Submission(student, number, problem=str(error))


def _bounded(text: str) -> str:
    """Return a text; of one that is longer than an attempt may be, as much as shows that."""
    return text[: SOURCE_CHARACTERS + 1]


def _sources(file: Path) -> list[str]:
    """Return the texts of a notebook's code cells. Raises LabError if it is none, or one that is too large."""
    data = _content(file)
    try:
        cells = parsed(data, _VALUES)["cells"]
        texts = ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else str(error)[:120] or type(error).__name__
        raise LabError(f"{file.name} is not a notebook of format 4: {what}") from None
    if len(cells) > _CELLS:
        raise LabError(f"{file.name} has more than {_CELLS:,} cells")
    return [each.encode("utf-8", "backslashreplace").decode() for each in texts]  # JSON may hold half of a character


def _cells(student: str, file: Path) -> Iterator[Submission]:
    found = False
    for place, source in enumerate(_sources(file), 1):
        if match := _CELL.match(source):
            found = True
            above = source[: len(source) - len(source.lstrip())].count("\n")
            head, _, body = source.lstrip().partition("\n")
            try:
                asked, text = by_name(match[1]), _bounded(f"{chr(10) * above}// {head}\n{body}")
                if "--part" in head.split() and len(text) <= SOURCE_CHARACTERS:
                    text = with_functions(asked.start, text)
                yield Submission(student, asked.number, text)
            except EngineError as error:
                yield Submission(student, match[1][:_NAME], problem=str(error))
        elif len(source) > SOURCE_CHARACTERS:
            found = True
            yield Submission(student, "", problem=f"code cell {place} of {file.name} has more than "
                                                  f"{SOURCE_CHARACTERS:,} characters: it was not read")
        else:
            for number, answer in _answers(source):
                found = True
                problem = "" if answer is not None else f"{number}: write the numbers into the call of lab.grade"
                yield Submission(student, number, answer or (), problem)
    if not found:
        yield Submission(student, "", problem=f"{file.name} has no kernel cell with --exercise: hand in the notebook "
                                              "with its first lines of cells as they were")


_LONGEST_ANSWER = 1000  # characters
# A comment, a string, or what may end a statement; each takes all that it has read, so none is read twice.
_PIECE = re.compile(r"""\#[^\n]*+|(?s:'''(?:(?!''')(?:\\.|[^\\]))*+(?:''')?|\"{3}(?:(?!\"{3})(?:\\.|[^\\]))*+(?:\"{3})?)
                    |'(?:\\.|[^'\\\n])*+'?|"(?:\\.|[^"\\\n])*+"?|\\\n|[][(){};\n]""", re.VERBOSE)
_ASSIGNED = re.compile(r"\s*(\w+)\s*=(?!=)")
_GRADES = re.compile(r"\bgrade\s*\(\s*[\"'](\w+)[\"']")


def _statements(source: str) -> Iterator[str]:
    """The statements of a cell, in time that grows with its length: Python's own parser may take 20 s for 64 kB."""
    begin = depth = 0
    for piece in _PIECE.finditer(source):
        depth = max(0, depth + (piece[0] in "([{") - (piece[0] in ")]}"))
        if piece[0] in ";\n" and not depth:
            yield source[begin : piece.start()].strip()
            begin = piece.end()
    yield source[begin:].strip()


def _answers(source: str) -> Iterator[tuple[str, tuple | None]]:
    """The numbers that a cell hands to the grader; None where they are neither written out nor named once above."""
    code = "\n".join(line for line in source.splitlines() if not line.lstrip().startswith(("%", "!")))
    statements = [*_statements(code)] if "grade" in code else []
    assigned = [(match[1], each[match.end() :]) for each in statements if (match := _ASSIGNED.match(each))]
    often = Counter(name for name, _ in assigned)
    named = {name: value for name, value in assigned if often[name] == 1 and len(value) <= _LONGEST_ANSWER}
    for each in statements:
        for number, given in _graded(each):
            try:
                asked = by_name(number)
            except EngineError:
                continue
            if isinstance(asked.subject, Numbers):
                yield asked.number, _literals(given, named)


def _graded(statement: str) -> Iterator[tuple[str, list[ast.expr] | None]]:
    """The exercises for which a statement calls the grader, with the arguments; None if it is too long to be read."""
    if len(statement) > 2 * _LONGEST_ANSWER:
        yield from ((match[1], None) for match in _GRADES.finditer(statement))
        return
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(statement) if "grade" in statement else ast.Pass()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "grade":
            first, *given = node.args or [None]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value, given


def _literals(given: list[ast.expr] | None, named: Mapping[str, str]) -> tuple | None:
    """The values of arguments that are literals, or names of such; else None."""
    try:
        answer = tuple(ast.literal_eval(named.get(getattr(each, "id", ""), each)) for each in given)
        return answer if len(repr(answer)) <= _LONGEST_ANSWER else None  # a number of 4,300 digits has no repr at all
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
