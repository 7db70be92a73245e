"""Grades what others have handed in: each kernel in a sandbox, several at a time, resumable.

A file per submission keeps its result, in the folder ``results``, and is all that is kept: points, lateness, tables and
pages are made from these files whenever they are shown (`labkit.classroom.grades`).

A result is known by its exercise, by the digest of what was handed in, and by the digest of what decides the grade: the
exercise's folder, the engine and the lab. A text that was graded once is not graded again for another student, and
never in place of a grading by another version.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import functools
import io
import itertools
import json
import math
import multiprocessing
import os
import secrets
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

import hostcuda
import labkit
from hostcuda import processes, temporary
from hostcuda.errors import EngineError, Interrupted
from hostcuda.files import require_writable, write
from labkit.base.errors import LabError
from labkit.base.kept import digest
from labkit.base.paths import PACKAGE, SERIES, data_dir
from labkit.classroom import sandbox
from labkit.classroom.submissions import MANIFEST, Submission
from labkit.exercises import grade
from labkit.exercises.exercise import ATTEMPT_S, Exercise, add, by_name, exercises, hand_over
from labkit.exercises.judge import UNTOUCHED, code_lines
from labkit.exercises.subjects import InPlaceOf, Numbers
from labkit.spec.devices import device

FORMAT = 2  # of a result file
BUDGET = "changed lines"
NO_RESULT = "not right yet: "  # begins the verdict of what could not be graded by its own fault
# Threads of one process feed about 20 child processes: each takes seconds, and 0.02 to 0.08 s of this process.
_THREADS = 16
_IN_FLIGHT = 256  # submissions that an executor has at a time
_SHOWN = ("cli", "draw", "notebooks", "page", "classroom")  # packages that decide no grade, but for these files
_DECIDE = ("grading.py", "sandbox.py", "seccomp.py")
_STARTS = "starts.txt"  # beside the results
_TIMING = "labkit.classroom.timing"


@dataclass(frozen=True)
class Result:
    """The grade of a submission, as a result file has it.

    Attributes
    ----------
    student, exercise : str
    passed : bool
    verdict : str
        "goal met", "goal missed", "not right yet" or why it could not be graded.
    untouched : bool
        Whether it is the starting code.
    lines : list of (bool or None, str, str)
        The answer, question by question; the last is the goal that is asked for, `BUDGET`, or empty.
    advice : str
        The sentence for a typical mistake, if it is one.
    reached : dict
        Goal -> the number reached; without those that were not counted.
    seconds : float
        What the grading took.
    peak_mb : float
        Memory of the child process, in 10^6 bytes.
    op_ms : dict
        Device -> the op time of a kernel that met its goal, of 1000 images of the last layer that is counted. Only a
        GPU measures it.
    submitted_at, clock : str
        As `Submission` has them.
    before, regraded : str
        The verdict of the same text before the last regrade, if that changed it, and the day of the regrade.
    answer : str
        The digest of what was handed in; empty if it could not be graded: the next run tries again.
    grader : str
        The digest of what decided the grade: `state`.
    seed : str
        What inputs and a hidden shape were drawn from; a regrade draws the same.
    format : int
        Of the file.
    """

    student: str
    exercise: str
    passed: bool
    verdict: str
    untouched: bool = False
    lines: list = field(default_factory=list)
    advice: str = ""
    reached: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    peak_mb: float = 0.0
    op_ms: dict[str, float] = field(default_factory=dict)
    submitted_at: str = ""
    clock: str = ""
    before: str = ""
    regraded: str = ""
    answer: str = ""
    grader: str = ""
    seed: str = ""
    format: int = FORMAT


# ---------------------------------------------------------------------------------------------------------------------
# A class


def grade_all(
    handed_in: Sequence[Submission], out: Path, executor: Executor | None = None, unsafe: bool = False,
    again: bool = False, done: Callable[[int], object] = lambda count: None, seed: str = "",
) -> list[Result]:
    """Grade submissions; each result is kept in a file as soon as it is known, and not computed again.

    Parameters
    ----------
    handed_in : sequence of Submission
    out : Path
        The folder of the results.
    executor : concurrent.futures.Executor, optional
        Where kernels are graded: `workers`, or Dask's ``client.get_executor()`` on machines that have the lab and the
        folders of added exercises. By default, threads of this process, as many as there are processor cores.
    unsafe : bool
        Without a sandbox, where there is none.
    again : bool
        Grade again what an earlier version of its exercise, of the engine or of the lab has graded. Otherwise such a
        result stands until the student hands in something else.
    done : callable
        Called with the number of submissions that have just been finished, for a progress bar.
    seed : str
        What inputs and a hidden shape are drawn from; by default what the text was graded with before, else another
        one for each text, which nobody can know.

    Returns
    -------
    list of Result
        Those of submissions that could not be graded this time, and of which there is an earlier result, which stands.

    Raises
    ------
    LabError
        There is no sandbox, the folder cannot be written, it holds results of another version, or the executor broke.
    Interrupted
        Ctrl-C stopped it; it waits for the submissions that are being graded.
    """
    if any(map(_is_kernel, handed_in)):
        sandbox.require(unsafe)
    folder = out / "results"
    require_writable(folder)
    failed: list[Result] = []
    for student in {each.student for each in handed_in} - {each.student for each in handed_in if not each.exercise}:
        _file(folder, Submission(student, "")).unlink(missing_ok=True)  # they have handed in something better

    def keep(each: Submission, found: Result, known: Result | None = None) -> None:
        known = known or _read(_file(folder, each))
        same = known is not None and known.answer == _answer(each)
        if same and not found.answer:  # a full disk, or no memory
            failed.append(replace(found, student=each.student))
            return
        if same and known.untouched:
            found = _as_start(found)
        if same and known.grader != found.grader:
            changed = known.verdict != found.verdict
            today = datetime.datetime.now(datetime.UTC).date().isoformat()
            found = replace(found, before=known.verdict if changed else "", regraded=today if changed else "")
        at, clock = _handed_in(each, known if same else None)
        found = replace(found, student=each.student, submitted_at=at, clock=clock)
        if found != known:
            write(_file(folder, each), json.dumps(asdict(found), indent=1) + "\n")

    graded = {(each.exercise, each.answer, each.grader): path for path, each in _stored(folder) if each.answer}
    states = {number: state(number) for number in {each.exercise for each in handed_in if not each.problem}}
    starts = _starts(folder)
    for number in states:
        now = _code(number)
        starts[number] = [*(code for code in starts[number] if code != now), now]
    if states:
        lines = (f"{number} {code}\n" for number, codes in sorted(starts.items()) for code in codes)
        write(folder / _STARTS, "".join(lines))
    waiting: dict[tuple, list[Submission]] = {}
    for each in handed_in:
        known = _read(_file(folder, each))
        key = each.exercise, _answer(each), _lab() if each.problem else states[each.exercise]
        if known and known.answer == key[1] and (known.grader == key[2] or not again):
            keep(each, known, known)
        elif key in graded and (found := _read(graded[key])):
            keep(each, replace(found, before="", regraded=""), known)
        else:
            before = known.seed if known and known.answer == key[1] else ""
            waiting.setdefault(key, []).append(replace(each, seed=seed or before))
            continue
        done(1)

    def ended(group: list[Submission], found: Result) -> None:
        codes = starts.get(group[0].exercise, ())
        if found.lines and len(codes) > 1 and _code(found.exercise, group[0].answer) in codes:
            found = _as_start(found)
        for each in group:
            keep(each, found)
        done(len(group))

    kernels = [group for group in waiting.values() if _is_kernel(group[0])]
    own = {each.number: each.folder for each in exercises().values() if not each.of_series}
    try:
        for group in waiting.values():  # in this thread: they may train
            if not _is_kernel(group[0]):
                ended(group, _grade(group[0], unsafe))
        with contextlib.ExitStack() as stack:
            pool = executor or stack.enter_context(workers(None, len(kernels)))
            futures = stack.enter_context(contextlib.closing(_in_flight(pool, kernels, unsafe, own, ended)))
            for group, future in futures:
                ended(group, _result(group[0], future))
    except KeyboardInterrupt:
        there = sum(_file(folder, each).is_file() for each in handed_in)
        raise Interrupted(f"stopped: {there} of {len(handed_in)} are graded; the same command goes on") from None
    if device().engine == "gpu":  # in this thread, which has the context, and one after the other
        for each in handed_in:
            if (known := _read(_file(folder, each))) and (result := timed(known, each)) is not known:
                keep(each, result, known)
    return failed


def _in_flight(
    pool: Executor, groups: Sequence[list[Submission]], unsafe: bool, own: Mapping[str, Path],
    ended: Callable[[list[Submission], Result], None],
) -> Iterator[tuple[list[Submission], Future]]:
    """Have the first of each group graded, a bounded number at a time; yield a group when it is finished."""
    waiting, running = iter(groups), {}
    try:
        while True:
            for group in itertools.islice(waiting, _IN_FLIGHT - len(running)):
                running[pool.submit(_grade, group[0], unsafe, own)] = group
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future
    finally:
        begun = {future: group for future, group in running.items() if not future.cancel()}
        for future, group in begun.items():  # Ctrl-C: the running ones come to their end, and are kept
            with contextlib.suppress(Exception, KeyboardInterrupt):
                ended(group, future.result())


def _result(each: Submission, future: Future) -> Result:
    try:
        return future.result()
    except BrokenExecutor as error:
        raise LabError(f"the executor broke: {error}. What is graded is kept: the same command goes on") from error
    except Exception as error:  # a worker that was lost, or could not import the lab
        return Result(each.student, each.exercise, False, f"not graded: {type(error).__name__}: {error}")


def workers(jobs: int | None, most: int) -> Executor:
    """Threads for at most so many submissions; processes, where threads would wait for each other.

    `jobs` are submissions at a time, by default as many as there are processor cores.
    """
    jobs = max(1, min(jobs or os.cpu_count() or 1, most))
    if jobs <= _THREADS:
        return ThreadPoolExecutor(jobs)
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin)


def _begin() -> None:
    """In a worker process: leave Ctrl-C to the parent, and end with it even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def timed(result: Result, submission: Submission, images: int = 1000) -> Result:
    """A result with the op time on this device, if it met its goal in place of a rung's kernel and has none yet."""
    asked = by_name(result.exercise) if result.passed else None
    subject = asked and asked.subject
    if not isinstance(subject, InPlaceOf) or device().name in result.op_ms:
        return result
    with temporary.folder() as folder:
        hand_over(asked, subject.source(submission.answer), folder)
        ended = processes.run([sys.executable, "-m", _TIMING, str(folder), str(images)], {}, ATTEMPT_S, capture=True)
        if ended.interrupted:
            ended.require("timing")
        if ended.problem:  # wrong on this device, or without an end: the grade stands, the ranking shows no time
            return result
        return replace(result, op_ms={**result.op_ms, **json.loads((folder / "op_ms").read_text())})


# ---------------------------------------------------------------------------------------------------------------------
# What is kept


def read_results(out: Path) -> Iterator[Result]:
    """The results in a folder, one after the other; without damaged ones, which are graded again.

    Raises
    ------
    LabError
        A result is one of another version.
    """
    return (result for _, result in _stored(out / "results"))


def read_result(out: Path, student: str, exercise: str) -> Result | None:
    """The result of a student, if there is one."""
    return _read(_file(out / "results", Submission(student, exercise)))


def others(out: Path, handed_in: Iterable[Submission]) -> list[tuple[Path, Result]]:
    """The results in a folder, with their files, of hand-ins that are not among these: they count, too."""
    here = {(each.student, each.exercise) for each in handed_in}
    return [(path, each) for path, each in _stored(out / "results") if (each.student, each.exercise) not in here]


def changed_starts(out: Path, handed_in: Iterable[Submission]) -> list[str]:
    """The exercises of these hand-ins whose starting code is another than in the last grading."""
    numbers, starts = sorted({each.exercise for each in handed_in if not each.problem}), _starts(out / "results")
    return [number for number in numbers if starts[number] and starts[number][-1] != _code(number)]


def _starts(folder: Path) -> defaultdict[str, list[str]]:
    """The digests of all starting codes that were in use, by the exercise; the last one is that of the last grading."""
    found = defaultdict(list)
    if (path := folder / _STARTS).is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            number, _, code = line.rpartition(" ")
            found[number].append(code)
    return found


def _code(number: str, answer: str | tuple | None = None) -> str:
    """The digest of the code of an answer, by default of the start."""
    asked = by_name(number)
    if isinstance(asked.subject, Numbers):
        return digest(repr(asked.subject.start if answer is None else answer))[:16]
    text = asked.start if answer is None else answer
    return digest(*(" ".join(line.split()) for line in code_lines(text)))[:16]


def _as_start(found: Result) -> Result:
    return replace(found, passed=False, untouched=True, verdict=UNTOUCHED, advice="") if found.lines else found


def _stored(folder: Path) -> Iterator[tuple[Path, Result]]:
    return ((path, result) for path in sorted(folder.glob("*.json")) if (result := _read(path)))


def _read(path: Path) -> Result | None:
    """The result in a file; None if there is none, or what is there is damaged."""
    try:
        found = json.loads(path.read_bytes())
        if found["format"] == FORMAT:
            return Result(**found)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    raise LabError(f"{path} is a result of another version of the lab: grade into a new folder")


def _file(folder: Path, each: Submission) -> Path:
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in f"{each.student}-{each.exercise or 'none'}")
    return folder / f"{safe[:50]}-{digest(each.student, each.exercise)[:8]}.json"


def _handed_in(each: Submission, known: Result | None) -> tuple[str, str]:
    """When a text was handed in, and who says so: a manifest knows better than a file, and it was there since then."""
    times = [(other.clock != MANIFEST, other.submitted_at, other.clock) for other in (each, known)
             if other and other.submitted_at]
    return min(times)[1:] if times else ("", "")


def _answer(each: Submission) -> str:
    """The digest of what was handed in."""
    return digest(repr((each.answer, each.problem)))[:16]


def state(number: str | Path) -> str:
    """The digest of what decides a grade of an exercise, or of that in a folder: it, the engine and the lab."""
    folder = number if isinstance(number, Path) else by_name(number).folder
    return digest(_lab(), *_contents(folder, (path for path in folder.rglob("*") if path.name != "wrong.toml")))[:16]


def states() -> dict[str, str]:
    """`state` of all exercises that are known here."""
    return {number: state(number) for number in exercises()}


@functools.cache
def _lab() -> str:
    """The digest of what decides every grade: version, engine, and the lab's code and data without the exercises."""
    code = {path for path in PACKAGE.rglob("*") if not path.is_relative_to(SERIES)}
    code -= {path for path in code if path.relative_to(PACKAGE).parts[0] in _SHOWN}
    engine, data = Path(hostcuda.__file__).parent, data_dir()
    return digest(FORMAT, labkit.__version__, *_contents(engine, engine.rglob("*")), *_contents(data, data.rglob("*")),
                  *_contents(PACKAGE, {*code, *(Path(__file__).with_name(name) for name in _DECIDE)}))[:16]


def _contents(folder: Path, paths: Iterable[Path]) -> Iterator[str | bytes]:
    """Names and contents of files, in an order that is the same on every machine."""
    for name, path in sorted((path.relative_to(folder).as_posix(), path) for path in paths):
        if path.is_file() and path.suffix not in (".pyc", ".lock"):
            yield from (name, path.read_bytes())


# ---------------------------------------------------------------------------------------------------------------------
# One submission


def _is_kernel(each: Submission) -> bool:
    return not each.problem and not isinstance(by_name(each.exercise).subject, Numbers)


def _grade(each: Submission, unsafe: bool, own: Mapping[str, Path] = MappingProxyType({})) -> Result:
    """Grade a submission, in any process of any machine; `own` are folders of exercises that may have to be added."""
    began, peak = time.monotonic(), 0
    try:
        if each.problem:
            return Result(each.student, each.exercise, False, each.problem, answer=_answer(each), grader=_lab())
        if each.exercise in own:
            add(own[each.exercise])
        asked = by_name(each.exercise).drawn(each.seed or secrets.token_hex(8))
        try:
            if isinstance(asked.subject, Numbers):
                found = _of_numbers(asked, each.answer)
            else:
                found, peak = in_sandbox(asked, _attempt(asked, each.answer), unsafe)
            verdict = found.verdict
        except sandbox.NoResultError as error:  # it is not tried again
            reason = str(error).removeprefix("there is no result: ")
            found = grade.Grade(asked, (grade.Line(False, f"can be graded\n{reason}"),))
            verdict = f"{NO_RESULT}{reason.splitlines()[0]}"
        goals = [goal.what for goal in asked.goals if found.reached]
        reached = {what: float(got) for what, got in zip(goals, found.reached, strict=False) if math.isfinite(got)}
        before = found.lines[: len(found.lines) - len(goals)]
        parts = [*(BUDGET if line.kind == BUDGET else "" for line in before), *goals]
        return Result(
            each.student, asked.number, found.passed, verdict, found.untouched,
            [[line.ok, line.text, part] for line, part in zip(found.lines, parts, strict=False)], found.mistake,
            reached, round(time.monotonic() - began, 2), round(peak / 1e6, 1), answer=_answer(each),
            grader=state(asked.number), seed=asked.seed,
        )
    except EngineError as error:  # without a digest: the next run tries again
        return Result(each.student, each.exercise, False, f"not graded: {error}")
    except Exception as error:  # nothing that a student hands in may stop the class
        return Result(each.student, each.exercise, False, f"not graded: {type(error).__name__}: {error}")


def _attempt(asked: Exercise, answer: str) -> str:
    """Return the text of an attempt; NoResultError if it cannot be one."""
    try:
        return asked.attempt(answer)
    except EngineError as error:
        if not asked.start:
            raise
        raise sandbox.NoResultError(str(error)) from None


def _of_numbers(asked: Exercise, answer: tuple) -> grade.Grade:
    """Return the grade of an answer by numbers; NoResultError if it cannot be one."""
    try:
        return grade.grade(asked.folder, *answer, quiet=True, record=False)
    except EngineError as error:
        asked.subject.counts(asked.subject.start)  # raises if the exercise itself fails here
        raise sandbox.NoResultError(str(error)) from None


def in_sandbox(asked: Exercise, source: str, unsafe: bool = False) -> tuple[grade.Grade, int]:
    """Grade a kernel that is not trusted; its grade, and the peak memory of the child process in bytes.

    The arrays and counters come from the child's answer, which carries a word that the child was told before it
    compiled anything. They are judged here.

    Raises
    ------
    LabError
        The child process came to no result; the message says why.
    """
    with temporary.folder() as folder:
        command, environment = grade.job(asked, source, folder)
        word = sandbox.nonce()
        ended = sandbox.run(
            [*command, "--untrusted"], folder, check=environment["HOSTCUDA_CHECK"],
            environment={"HOSTCUDA_CHECK_OUT": environment["HOSTCUDA_CHECK_OUT"]}, stdin=word, unsafe=unsafe,
        )
        record = sandbox.answer(ended, folder / "answer", word)
    status = processes.Ended(ended.status, ended.seconds)
    arrays = {name: np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)
              for name, text in record["arrays"].items()}
    ran = grade.Ran(status, record["events"], grade.by_case(asked, arrays))
    return grade.judge(asked, source, ran), ended.peak_memory
