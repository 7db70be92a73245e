"""Grades what others have handed in: each kernel in a sandbox, several at a time, resumable."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

import labkit
from hostcuda import processes, temporary
from hostcuda.errors import EngineError, Interrupted
from hostcuda.files import require_writable, write
from labkit.base.errors import LabError
from labkit.base.paths import PACKAGE, cuda_src
from labkit.classroom import sandbox
from labkit.classroom.submissions import Submission
from labkit.exercises import grade
from labkit.exercises.exercise import ATTEMPT_S, Exercise, exercise, exercises, hand_over
from labkit.exercises.subjects import InPlaceOf, Numbers
from labkit.spec.devices import device

FORMAT = 1  # of a result file
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
    lines : list of (bool or None, str)
        The answer, question by question.
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
    digest : str
        Of the submission, the exercises and the grader: a result is valid as long as none changes. Empty if it could
        not be graded: the next run tries again.
    format : int
        Of the file.
    """

    student: str
    exercise: str
    passed: bool
    verdict: str
    lines: list = field(default_factory=list)
    advice: str = ""
    reached: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    peak_mb: float = 0.0
    op_ms: dict[str, float] = field(default_factory=dict)
    digest: str = ""
    format: int = FORMAT


def grade_all(
    handed_in: Sequence[Submission], out: Path, jobs: int | None = None, unsafe: bool = False,
    done: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Grade submissions; each result is kept in a file as soon as it is known, and not computed again.

    Parameters
    ----------
    handed_in : sequence of Submission
    out : Path
        The folder of the results.
    jobs : int, optional
        Child processes at a time; by default as many as there are processor cores.
    unsafe : bool
        Without a sandbox, where there is none.
    done : callable
        Called with each result, for a progress bar.

    Raises
    ------
    LabError
        There is no sandbox, or the folder cannot be written, or holds results of another version.
    Interrupted
        Ctrl-C stopped it; it waits for the submissions that are being graded.
    """
    if any(map(_is_kernel, handed_in)):
        sandbox.require(unsafe)
    folder = out / "results"
    require_writable(folder)
    results: dict[int, Result] = {}
    waiting = []
    ungraded = {each.student for each in handed_in if not each.exercise}
    for student in {each.student for each in handed_in} - ungraded:  # they have handed in something better
        _file(folder, Submission(student, "")).unlink(missing_ok=True)
    for index, each in enumerate(handed_in):
        known = _read(_file(folder, each))
        if known and known.digest == _digest(each):
            results[index] = known
            done(known)
        else:
            waiting.append(index)

    def keep(each: Submission, result: Result) -> Result:
        write(_file(folder, each), json.dumps(asdict(result), indent=1) + "\n")
        return result

    def graded(each: Submission) -> Result:
        return keep(each, _grade(each, unsafe))

    pool = ThreadPoolExecutor(jobs or os.cpu_count() or 1)
    try:
        for index in [index for index in waiting if not _is_kernel(handed_in[index])]:  # in this thread: they may train
            results[index] = graded(handed_in[index])
            done(results[index])
        futures = {pool.submit(graded, handed_in[index]): index for index in waiting if index not in results}
        for future in as_completed(futures):
            results[futures[future]] = future.result()
            done(results[futures[future]])
    except KeyboardInterrupt:
        pool.shutdown(cancel_futures=True)  # the running ones come to their end, and are kept
        there = sum(_file(folder, each).is_file() for each in handed_in)
        raise Interrupted(f"stopped: {there} of {len(handed_in)} are graded; the same command goes on") from None
    finally:
        pool.shutdown(cancel_futures=True)
    if device().engine == "gpu":  # in this thread, which has the context, and one after the other
        for index, each in enumerate(handed_in):
            if (result := timed(results[index], each)) is not results[index]:
                results[index] = keep(each, result)
    return [results[index] for index in range(len(handed_in))]


def timed(result: Result, submission: Submission, images: int = 1000) -> Result:
    """A result with the op time on this device, if it met its goal in place of a rung's kernel and has none yet."""
    subject = exercise(result.exercise).subject if result.passed else None
    if not isinstance(subject, InPlaceOf) or device().name in result.op_ms:
        return result
    with temporary.folder() as folder:
        hand_over(exercise(result.exercise), subject.source(submission.answer), folder)
        ended = processes.run([sys.executable, "-m", _TIMING, str(folder), str(images)], {}, ATTEMPT_S, capture=True)
        if ended.interrupted:
            ended.require("timing")
        if ended.problem:  # wrong on this device, or without an end: the grade stands, the ranking shows no time
            return result
        return replace(result, op_ms={**result.op_ms, **json.loads((folder / "op_ms").read_text())})


def read_results(out: Path) -> list[Result]:
    """The results in a folder.

    Raises
    ------
    LabError
        A file is no result, or one of another version.
    """
    return [result for path in sorted((out / "results").glob("*.json")) if (result := _read(path))]


def _is_kernel(each: Submission) -> bool:
    return not each.problem and not isinstance(exercise(each.exercise).subject, Numbers)


def _file(folder: Path, each: Submission) -> Path:
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in f"{each.student}-{each.exercise or 'none'}")
    tail = hashlib.sha256(f"{each.student}\n{each.exercise}".encode()).hexdigest()[:6]
    return folder / f"{safe[:50]}-{tail}.json"


@functools.cache
def _grader() -> str:
    """A digest of what decides a grade: the exercises with their starting code and its headers, and the grader."""
    code = [path for room in ("exercises", "classroom") for path in sorted((PACKAGE / room).rglob("*.py"))]
    posed = [path for each in exercises().values() for path in sorted(each.folder.iterdir()) if path.is_file()]
    files = [*code, *posed, *sorted(cuda_src().glob("*.cuh"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _digest(each: Submission) -> str:
    text = repr((FORMAT, labkit.__version__, _grader(), each.answer, each.problem))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _read(path: Path) -> Result | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            raise LabError(f"{path} is a result of another version of the lab: grade into a new folder")
        return Result(**found)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise LabError(f"{path} is not a result of this lab: remove it to grade that submission again") from None


def _grade(each: Submission, unsafe: bool) -> Result:
    began = time.monotonic()
    peak = 0
    if each.problem:
        return Result(each.student, each.exercise, False, each.problem, digest=_digest(each))
    asked = exercise(each.exercise)
    try:
        if isinstance(asked.subject, Numbers):
            found = grade.grade(asked.number, *each.answer, quiet=True, record=False)
        else:
            source = asked.attempt(each.answer)
            found, peak = in_sandbox(asked, source, unsafe)
    except EngineError as error:  # without a digest: the next run tries again
        return Result(each.student, asked.number, False, f"not graded: {error}")
    except Exception as error:  # nothing that a student hands in may stop the class
        return Result(each.student, asked.number, False, f"not graded: {type(error).__name__}: {error}")
    goals = zip(asked.goals, found.reached, strict=False)
    return Result(
        each.student, asked.number, found.passed, found.verdict, [[line.ok, line.text] for line in found.lines],
        found.mistake, {goal.what: float(got) for goal, got in goals if math.isfinite(got)},
        round(time.monotonic() - began, 2), round(peak / 1e6, 1), digest=_digest(each),
    )


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
