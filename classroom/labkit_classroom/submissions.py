"""Read what students hand in: notebooks with kernel cells of exercises, or .cu files named after an exercise."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import stat
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from hostcuda.errors import EngineError
from hostcuda.sandbox import parse_json
from hostcuda.tables import escape_controls
from labkit.base.errors import LabError
from labkit.exercises.exercise import SOURCE_CHARACTERS, by_name, exercises
from labkit.exercises.subjects import Numbers
from labkit.ladder.source import decode, with_functions
from labkit_classroom.reading import READ_S, read_limited
from labkit_classroom.roster import parse_time, read_table

_CELL = re.compile(r"\s*%%(?:kernel|cuda)\b[^\n]*?--exercise[= ]+(\S+)[^\n]*")
_KINDS = (".ipynb", ".cu")
# beside the hand-ins: their students and their times, as a platform knows them
MANIFEST = "manifest.csv"
# The most that is read of a student. The rest is not looked at, and the student's page says so.
_BYTES = 20 * 2**20  # of a file: a notebook with figures has one or two million
_VALUES = 500_000  # of a notebook's JSON
_CELLS = 1000  # of a notebook
_FILES, _ALL_BYTES = 200, 100 * 2**20
_EXERCISES = 100
_SPACES = "\xa0\u200c\u200d\u3000"  # kept, because names and texts need them
_FOLDERS = 20  # nested in each other
_PROBLEM, _NAME = 1000, 60  # characters of a problem's sentence, and of the name of an exercise


@dataclass(frozen=True)
class Submission:
    """An attempt of a student at an exercise.

    Attributes
    ----------
    student : str
        The name of the file, or of the folder that it lies in.
    exercise : str
        Its number; the student's text, if there is no such exercise; empty if nothing that can be
        graded was handed in.
    answer : str or tuple
        The text of the kernel, with lines numbered as in its cell; or the numbers.
    problem : str
        Why it cannot be graded, in one sentence; else empty.
    submitted_at : str
        When it was handed in, in UTC; empty if nobody knows.
    clock : str
        The source of that time: `MANIFEST`, or "file" for the time at which the file was last
        changed.
    seed : str
        The seed of the inputs and of a hidden shape; by default a new one in each grading.
    """

    student: str
    exercise: str
    answer: str | tuple = ""
    problem: str = ""
    submitted_at: str = ""
    clock: str = ""
    seed: str = ""


def _match_name(stem: str) -> re.Match | None:
    """Return the match of a file name (without its ending) that has an exercise's number, or None.

    Of "alice_04a_v2" the group `before` is "alice", `number` "04a" and `after` "v2"; of "04a",
    `before` and `after` are None. Numbers are those of the series and of added exercises, in upper
    or lower case.
    """
    added = "|".join(
        re.escape(number) for number, task in exercises().items() if not task.of_series
    )
    number = rf"\d\d?[a-z]|P\d\d?[a-z]{'|' * bool(added)}{added}"
    return re.fullmatch(
        rf"(?:(?P<before>.+)[_. -])?(?P<number>{number})(?:[_. -](?P<after>.+))?",
        stem,
        re.IGNORECASE,
    )


def find_exercise_name(source: str) -> str:
    """Return the exercise that a notebook's kernel cell names in its first line, such as "04a"; "" if it names none.

    The line is "%%kernel 04 --exercise 04a", or begins with "%%cuda".
    """
    match = _CELL.match(source)
    return match[1] if match else ""


def submissions(paths: Iterable[Path | str], student: str = "") -> list[Submission]:
    """Read the submissions in files and folders: ``alice.ipynb``, ``bob/04a.cu``, or a folder of such files.

    A file in a subfolder of the given folder belongs to the student after whom the outermost
    subfolder is named, whatever its own name: ``alice/week 4/04_tiling.ipynb``, as in nbgrader. Any
    other file belongs to the student after whom it is named. If it is named after an exercise or a
    page, it belongs to the student after whom the given folder is named. Of a student's attempts at
    an exercise the last one counts: in a notebook the lowest cell, whatever the order in which its
    cells were run. A student of whom a given folder has only other files, or an empty folder, gets
    a submission that says so.

    A file was handed in when it was last changed, unless a ``manifest.csv`` in the only given
    folder says otherwise. Its columns are `file` (a path in the folder, or the outermost folder of
    a path), `submitted_at`, and, where the names of files do not tell the student, `student`.
    LabError if there is no such file or folder, if nothing in them is a notebook or a .cu file, or
    if a manifest is damaged.

    Parameters
    ----------
    paths : iterable of Path
    student : str
        The student to whom all of it belongs, whatever the names; other files are then ignored.
    """
    latest: dict[tuple[str, str], tuple[Submission, Path]] = {}
    # Path("") would be the current folder; the name '' does not exist, and the error shows it
    paths = [Path(path or "''") for path in paths]
    # Of several folders, or of one student's, a manifest may be the student's own: it is not read.
    manifest = _read_manifest(paths[0]) if len(paths) == 1 and not student else {}
    files = [(file, path) for path in paths for file in _find_files(path)]
    if student and not files:
        return [Submission(student, "", problem="there is no .ipynb or .cu file")]
    if not files:
        raise LabError(
            "there is nothing to grade: give notebooks, .cu files, or folders that have some"
        )
    texts: dict[str, str] = {}  # equal texts of a large class are kept once
    exercises_of = Counter()  # how many exercises each student has named: there is a limit
    for (file, path), items in zip(files, _read_by_student(files, student), strict=True):
        # fields of a submission: when it was handed in, and the student if the manifest names one
        known = _read_time(file, path, manifest)
        for item in items:
            text = (
                item.answer
                if isinstance(item.answer, tuple)
                else texts.setdefault(item.answer, item.answer)
            )
            # the manifest's student, if it names one, in place of the file's
            item = replace(item, answer=text, **{"student": item.student, **known})
            item = replace(
                item,
                student=student or escape(item.student),
                exercise=escape(item.exercise),
                problem=escape(item.problem)[:_PROBLEM],
            )
            if (item.student, item.exercise) not in latest:  # not seen yet
                exercises_of[item.student] += 1
                if exercises_of[item.student] > _EXERCISES:
                    more = f"more than {_EXERCISES} exercises are named: the rest was not read"
                    item = replace(item, exercise="", answer="", problem=more)
            key = item.student, item.exercise
            before, other = latest.get(key, (None, file))  # an earlier one, and its file
            if before and not item.exercise:  # what could not be read of several files, or cells
                addition = "" if item.problem in before.problem else f"; {item.problem}"
                item = replace(before, problem=(before.problem + addition)[:_PROBLEM])
            elif other != file:
                twice = f"it was handed in twice, in {escape(other.name)} and {escape(file.name)}: leave one"
                item = replace(item, answer="", problem=twice)
            damaged = item.problem and before and not before.problem and other == file
            if not damaged:  # it replaces nothing
                latest[key] = item, file
    handed_in = [item for item, _ in latest.values()]
    if student:
        return handed_in
    students = {item.student for item in handed_in}
    return handed_in + [
        item for path in paths if path.is_dir() for item in _report_unread(path, students, files)
    ]


def explain_missing(handed_in: Iterable[Submission], only: Iterable[str]) -> list[Submission]:
    """Return submissions that say "there is no answer to 04a" for students who answered only other exercises.

    There is one for each exercise of `only`, the numbers of those that were assigned. A student may
    have deleted the cell that names the exercise.
    """
    # without `only`, no exercise is known to be missing: the list is empty
    by_student: dict[str, list[Submission]] = {}
    for item in handed_in:
        by_student.setdefault(item.student, []).append(item)
    known = exercises()
    return [
        Submission(
            student,
            number,
            problem=f"there is no answer to {number}: what was handed in is of "
            f"{', '.join(sorted({item.exercise for item in items}))}",
            submitted_at=items[-1].submitted_at,
            clock=items[-1].clock,
        )
        for student, items in by_student.items()
        if all(item.exercise in known and item.exercise not in only for item in items)
        for number in sorted(only)
    ]


def _read_manifest(path: Path) -> dict[str, dict[str, str]]:
    """Return what the manifest in a folder says: a path in it to ``submitted_at``, ``clock``, perhaps ``student``."""
    entries = {}
    if (file := path / MANIFEST).is_file():
        for line, row in read_table(file, ("file", "submitted_at")):
            try:
                at = parse_time(row["submitted_at"]).isoformat(timespec="seconds")
            except LabError as error:
                raise LabError(f"{file}, line {line}: {error}") from None
            student = {"student": row["student"]} if row.get("student") else {}
            entries[row["file"].strip("/")] = {"submitted_at": at, "clock": MANIFEST} | student
    return entries


def list_unused_entries(path: Path) -> list[str]:
    """Return the entries of a folder's manifest.csv that apply to no hand-in.

    They are paths that do not exist, and folders inside a student's: an entry is a file, or all of a
    student's folder.
    """
    entries = _read_manifest(path) if path.is_dir() else {}
    return [
        name
        for name in entries
        if not os.path.lexists(path / name) or ("/" in name and os.path.isdir(path / name))
    ]


def _read_time(file: Path, path: Path, manifest: dict) -> dict[str, str]:
    """Return a file's ``submitted_at`` and ``clock``, from the manifest of the folder `path` or its last change.

    A manifest's entry, from `_read_manifest`, may also have ``student``. Without a time the dict is
    empty.
    """
    below = file.relative_to(path)
    # the manifest has an entry for the file, or for the folder of the student that it lies in
    for name in (below.as_posix(), below.parts[0] if below.parts else file.name):
        if name in manifest:
            return manifest[name]
    try:
        changed = datetime.fromtimestamp(file.lstat().st_mtime, UTC)
    except (OSError, OverflowError, ValueError):
        return {}
    return {"submitted_at": changed.isoformat(timespec="seconds"), "clock": "file"}


def escape(text: str) -> str:
    """Return a text whose invalid bytes, control characters and invisible letters are escaped, for a terminal."""
    return escape_controls(text, _SPACES)


def _report_unread(
    path: Path, students: set[str], files: Iterable[tuple[Path, Path]]
) -> Iterator[Submission]:
    """Yield a submission with a `problem` for each student of whom the folder `path` has only other files.

    `students` have submissions; `files` are those that were read, each with the folder that it was
    found in.
    """
    # one student's own folder: the rest of it belongs to the same
    if path.resolve().name in students:
        return
    graded = {file.relative_to(path).parts[0] for file, folder in files if folder == path}
    if not graded:  # named beside others that have some: a student's, too
        yield Submission(
            path.resolve().name, "", problem="there is no .ipynb or .cu file in the folder"
        )
        return
    others: dict[str, list[str]] = {}
    for entry in sorted(path.iterdir()):
        # __MACOSX, __pycache__
        if entry.name in {*graded, MANIFEST} or entry.name.startswith((".", "__")):
            continue
        is_folder = os.path.isdir(entry)
        match = None if is_folder else _match_name(entry.stem)
        student = (
            _strip_suffix(entry.name)
            if is_folder
            else (match and (match["before"] or match["after"])) or entry.stem
        )
        others.setdefault(escape(student), []).append(
            escape(f"{'the folder ' * is_folder}{entry.name}")
        )
    for student, names in others.items():
        if student not in students:
            problem = f"there is no .ipynb or .cu file, only {' and '.join(names)}"
            yield Submission(student, "", problem=problem[:_PROBLEM])


def _read_by_student(files: Sequence[tuple[Path, Path]], student: str) -> list[list[Submission]]:
    """Return the submissions in each of `files`, read in a child process per student, within limits.

    `files` have the given folder that each was found in; `student`, if any, has all of them.
    """
    bytes_of: Counter[str] = Counter()
    # student -> (number in `files`, arguments of `_read_or_explain`) of those within the limits
    readable: dict[str, list[tuple[int, tuple[Path, str, bool]]]] = {}
    exercises()  # here, and not in each process
    result: list[list[Submission]] = []
    for number, (file, path) in enumerate(files):
        folder, nested = _find_student_folder(file, path)
        owner = student or (folder if nested else file.stem)
        bytes_of[owner] += _count_quota(file)
        more = f"there are more than {_FILES} files, or {_ALL_BYTES // 2**20} MB: the rest was not read"
        late = f"{file.name} was not read: to read what was handed in took longer than {READ_S} s"
        too_many = bytes_of[owner] > _ALL_BYTES
        result.append([Submission(owner, "", problem=more if too_many else late)])
        if not too_many:
            readable.setdefault(owner, []).append((number, (file, folder, nested)))
    for items in readable.values():
        read = read_limited([item for _, item in items], lambda item: _read_or_explain(*item))
        for (number, _), read_items in zip(items, read, strict=True):
            result[number] = result[number] if read_items is None else read_items
    return result


def _read_or_explain(file: Path, folder: str, nested: bool) -> list[Submission]:
    """Return the submissions in a file, or one that says why it cannot be read; never raise.

    `nested` says whether the file lies in a student's folder, `folder`; else its name is the student's.
    """
    student = folder if nested else file.stem
    if file.is_symlink():
        return [Submission(student, "", problem=f"{file.name} is a link: hand in the file itself")]
    try:
        return [*_read_file(file, folder, nested)]
    except EngineError as error:
        return [Submission(student, "", problem=str(error))]
    except Exception as error:  # a student's file must not stop the class
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        return [Submission(student, "", problem=f"{file.name} cannot be read: {reason}")]


def _count_quota(file: Path) -> int:
    """Return how many bytes of a student's limit a file takes: small ones a fixed share, so that files are limited."""
    try:
        return min(max(file.lstat().st_size, _ALL_BYTES // _FILES), _BYTES)
    except OSError:
        return _ALL_BYTES // _FILES


def _read_content(file: Path) -> bytes:
    """Return the content of a plain file of the folder's owner; LabError for another, or for more than `_BYTES`."""
    # a pipe would be waited for
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(file, "rb", opener=lambda path, read: os.open(path, read | flags)) as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise LabError(f"{file.name} is no plain file")
        if status.st_nlink > 1 and status.st_uid != file.parent.stat().st_uid:
            raise LabError(
                f"{file.name} is a second name of a file that belongs to somebody else: hand in a copy"
            )
        data = opened.read(_BYTES + 1)
    if len(data) > _BYTES:
        raise LabError(f"{file.name} has more than {_BYTES // 2**20} MB")
    return data


def _find_files(path: Path) -> list[Path]:
    """Return the notebooks and .cu files in a folder, sorted; or the file itself, if `path` is one.

    Hidden ones and those more than `_FOLDERS` folders down are left out, as are folders that cannot
    be read. Links are returned, not followed. Raises LabError if there is no such file or folder.
    """
    if not path.is_dir():
        if not path.is_file():
            raise LabError(f"there is no file or folder {path}")
        return [path]
    files, waiting = [], [(path, 0)]
    while waiting:
        folder, depth = waiting.pop()
        # a folder that must not be read
        with contextlib.suppress(OSError), os.scandir(folder) as inside:
            for entry in inside:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting += [(folder / entry.name, depth + 1)] if depth < _FOLDERS else []
                elif Path(entry.name).suffix.lower() in _KINDS and (
                    entry.is_symlink() or entry.is_file(follow_symlinks=False)
                ):
                    files.append(folder / entry.name)
    return sorted(files)


def _find_student_folder(file: Path, given: Path) -> tuple[str, bool]:
    """Return the name of the folder that may name the student, and whether it is a subfolder of the given one."""
    below = file.relative_to(given).parts
    return (
        (_strip_suffix(below[0]), True) if len(below) > 1 else (file.resolve().parent.name, False)
    )


def _strip_suffix(folder: str) -> str:
    """Return a folder's name without what Moodle appends to the student's name: "Bo Li_123_assignsubmission_file"."""
    return re.sub(r"_\d+_assignsubmission_\w+$", "", folder)


def _read_file(file: Path, folder: str, nested: bool) -> Iterator[Submission]:
    """Yield the submissions in a file, by the student whom `folder` names, if `nested`, or else the file's name."""
    match = _match_name(file.stem)
    page = file.stem in {task.page for task in exercises().values()}
    student = folder if nested or page else file.stem
    if file.suffix.lower() == ".cu":
        number = match["number"] if match else ""
        if match and not nested:
            student = match["before"] or match["after"] or folder
        if not number:
            remedy = "name it NAME_04a.cu, or 04a.cu in a folder with the student's name"
            yield Submission(
                student, "", problem=f"{file.name} does not say which exercise it answers: {remedy}"
            )
            return
        yield _read_kernel(student, number, file)
    elif file.suffix.lower() == ".ipynb":
        yield from _read_cells(student, file)
    else:
        yield Submission(student, "", problem=f"{file.name} is neither a notebook nor a .cu file")


def _read_kernel(student: str, number: str, file: Path) -> Submission:
    """Return the submission in a .cu file to the exercise `number`, with a `problem` if it cannot be graded."""
    try:
        # so it is never taken for another file's path
        text = decode(_read_content(file), file.name).rstrip() + "\n"
        problem = "" if text.strip() else f"{file.name} is empty: hand in the whole kernel"
        return Submission(student, by_name(number).number, _clip(text), problem)
    except EngineError as error:
        return Submission(student, number, problem=str(error))


def _clip(text: str) -> str:
    """Return a text; of one that is longer than an attempt may be, just enough to show that."""
    return text[: SOURCE_CHARACTERS + 1]


def _read_sources(file: Path) -> list[str]:
    """Return the texts of a notebook's code cells.

    LabError if it is no notebook, or one that is too large.
    """
    data = _read_content(file)
    try:
        cells = parse_json(data, _VALUES)["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        what = {KeyError: f"it has no {error}", TypeError: "it has other JSON"}.get(
            type(error), str(error)[:120]
        )
        raise LabError(f"{file.name} is not a notebook of format 4: {what}") from None
    if len(cells) > _CELLS:
        raise LabError(f"{file.name} has more than {_CELLS:,} cells")
    # JSON may hold half of a character
    return [text.encode("utf-8", "backslashreplace").decode() for text in texts]


def _read_cells(student: str, file: Path) -> Iterator[Submission]:
    """Yield the submissions in a notebook's cells: kernels, and numbers handed to the grader.

    A cell that cannot be graded, or a notebook without any, is a submission with a `problem`. The
    magic of a kernel cell becomes a comment, so that lines keep their numbers; with ``--part`` the
    exercise has the other functions.
    """
    any_answer = False
    for place, source in enumerate(_read_sources(file), 1):
        if match := _CELL.match(source):
            any_answer = True
            # empty lines above the magic
            above = source[: len(source) - len(source.lstrip())].count("\n")
            head, _, body = source.lstrip().partition("\n")
            try:
                exercise, text = by_name(match[1]), _clip(f"{chr(10) * above}// {head}\n{body}")
                if "--part" in head.split() and len(text) <= SOURCE_CHARACTERS:
                    text = with_functions(exercise.start, text)
                yield Submission(student, exercise.number, text)
            except EngineError as error:
                yield Submission(student, match[1][:_NAME], problem=str(error))
        elif len(source) > SOURCE_CHARACTERS:
            any_answer = True
            yield Submission(
                student,
                "",
                problem=f"code cell {place} of {file.name} has more than "
                f"{SOURCE_CHARACTERS:,} characters: it was not read",
            )
        else:
            for number, answer in _find_answers(source):
                any_answer = True
                problem = (
                    ""
                    if answer is not None
                    else f"{number}: write the numbers into the call of lab.grade"
                )
                yield Submission(student, number, answer or (), problem)
    if not any_answer:
        yield Submission(
            student,
            "",
            problem=f"{file.name} has no kernel cell with --exercise: hand in the notebook "
            "with its first lines of cells as they were",
        )


_LONGEST_ANSWER = 1000  # characters
# A comment, a string, or what may end a statement. They match possessively, so no text is read
# twice.
_PIECE = re.compile(
    r"""\#[^\n]*+|(?s:'''(?:(?!''')(?:\\.|[^\\]))*+(?:''')?|\"{3}(?:(?!\"{3})(?:\\.|[^\\]))*+(?:\"{3})?)
                    |'(?:\\.|[^'\\\n])*+'?|"(?:\\.|[^"\\\n])*+"?|\\\n|[][(){};\n]""",
    re.VERBOSE,
)
_ASSIGNED = re.compile(r"\s*(\w+)\s*=(?!=)")
_GRADES = re.compile(r"\bgrade\s*\(\s*[\"'](\w+)[\"']")


def _split_statements(source: str) -> Iterator[str]:
    """Yield the statements of a cell, in time that grows with its length: `ast` may take 20 s for 64 kB."""
    begin = depth = 0
    for piece in _PIECE.finditer(source):
        depth = max(0, depth + (piece[0] in "([{") - (piece[0] in ")]}"))
        if piece[0] in ";\n" and not depth:
            yield source[begin : piece.start()].strip()
            begin = piece.end()
    yield source[begin:].strip()


def _find_answers(source: str) -> Iterator[tuple[str, tuple | None]]:
    """Yield (exercise, numbers) handed to the grader in a cell; None unless they are literals or names set once."""
    code = "\n".join(
        line for line in source.splitlines() if not line.lstrip().startswith(("%", "!"))
    )
    statements = [*_split_statements(code)] if "grade" in code else []
    assigned = [
        (match[1], match.string[match.end() :])
        for match in map(_ASSIGNED.match, statements)
        if match
    ]
    count = Counter(name for name, _ in assigned)
    values = {
        name: value
        for name, value in assigned
        if count[name] == 1 and len(value) <= _LONGEST_ANSWER
    }
    for statement in statements:
        for number, arguments in _find_calls(statement):
            try:
                exercise = by_name(number)
            except EngineError:
                continue
            if isinstance(exercise.subject, Numbers):
                yield exercise.number, _evaluate_literals(arguments, values)


def _find_calls(statement: str) -> Iterator[tuple[str, list[ast.expr] | None]]:
    """Yield (exercise, arguments) of each call of the grader in a statement; None for them if it is too long."""
    if "grade" not in statement:
        return
    if len(statement) > 2 * _LONGEST_ANSWER:
        yield from ((match[1], None) for match in _GRADES.finditer(statement))
        return
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(statement)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", "")) == "grade"
        ):
            first, *arguments = node.args or [None]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value, arguments


def _evaluate_literals(arguments: list[ast.expr] | None, values: Mapping[str, str]) -> tuple | None:
    """Return the values of arguments that are literals or names of such, whose texts are in `values`; else None."""
    try:
        answer = tuple(
            ast.literal_eval(values.get(getattr(argument, "id", ""), argument))
            for argument in arguments
        )
        # a number of 4,300 digits has no repr at all
        return answer if len(repr(answer)) <= _LONGEST_ANSWER else None
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
