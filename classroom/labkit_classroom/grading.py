"""Grade what others have handed in: each kernel in a sandbox, several at a time, resumable.

A file per submission, in the folder ``results``, keeps its result. Nothing else is kept: points,
lateness, tables and pages are made from these files whenever they are shown
(`labkit_classroom.grades`).

A result is identified by its exercise, by the digest of what was handed in, and by the digest of
what decides the grade: the exercise's folder, the engine and the lab. A text that was graded once
is not graded again for another student. A result of another version is never taken for one of this
version.
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
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Executor, Future
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

import hostcuda
import labkit
from hostcuda import processes, temporary
from hostcuda.errors import EngineError, Interrupted
from hostcuda.files import require_writable, write
from hostcuda.sandbox import NoResultError, make_nonce, read_answer
from labkit.base.errors import LabError
from labkit.base.paths import PACKAGE, SERIES, data_dir
from labkit.base.results_cache import digest
from labkit.exercises import attempts, grade
from labkit.exercises.exercise import Exercise, add, by_name, exercises
from labkit.exercises.judge import BUDGET, UNTOUCHED, ChildResult, code_lines
from labkit.exercises.subjects import Numbers
from labkit_classroom import sandbox
from labkit_classroom.submissions import MANIFEST, Submission

FORMAT = 2  # of a result file
# begins the verdict of a submission that by its own fault could not be graded
NO_RESULT = "not right yet: "
# Threads of one process feed about 20 child processes: each takes seconds, and 0.02 to 0.08 s of
# this process.
_THREADS = 16
# characters of a line of a grade: messages repeat lines of the kernel, which may be long
_TEXT = 8_000
_IN_FLIGHT = 256  # submissions that an executor has at a time
_SHOWN = ("cli", "draw", "notebooks", "page")  # packages that decide no grade
_DECIDE = ("grading.py", "sandbox.py")  # files of this package that do
_STARTS = "starts.txt"  # beside the results


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
        For each question whether it is met, the text of the answer, and the goal in question,
        `BUDGET` or "".
    advice : str
        The sentence for a typical mistake, if the submission makes one.
    reached : dict
        Goal -> the number reached, without goals that were not counted.
    seconds : float
        The time that the grading took.
    submitted_at, clock : str
        When it was handed in, in UTC, and the source of that time: `MANIFEST` or "file"; empty if
        nobody knows.
    before, regraded : str
        The verdict of the same text before the last regrade and the day of the regrade, if it
        changed the verdict.
    answer : str
        The digest of what was handed in; empty if it could not be graded: the next run tries again.
    grader : str
        The digest of what decided the grade: `digest_task`.
    seed : str
        The seed of the inputs and of a hidden shape; a regrade draws the same ones.
    format : int
        The version of the file's format.
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
    submitted_at: str = ""
    clock: str = ""
    before: str = ""
    regraded: str = ""
    answer: str = ""
    grader: str = ""
    seed: str = ""
    format: int = FORMAT


# ------------------------------------------------------------------------------------------ A class
def grade_all(
    handed_in: Sequence[Submission],
    out: Path,
    executor: Executor | None = None,
    unsafe: bool = False,
    again: bool = False,
    done: Callable[[int], object] = lambda count: None,
    seed: str = "",
) -> list[Result]:
    """Grade submissions.

    Each result is kept in a file as soon as it is known, and not computed again.

    Parameters
    ----------
    handed_in : sequence of Submission
    out : Path
        The folder of the results.
    executor : concurrent.futures.Executor, optional
        Where kernels are graded: `start_workers`, or Dask's ``client.get_executor()`` on machines
        that have the lab and the folders of added exercises. By default, threads of this process,
        as many as there are processor cores.
    unsafe : bool
        Without a sandbox, where there is none.
    again : bool
        Grade again what an earlier version of the exercise, of the engine or of the lab has graded.
        Otherwise such a result stands until the student hands in something else.
    done : callable
        Called with the number of submissions that have just been finished, for a progress bar.
    seed : str
        The seed of the inputs and of a hidden shape, random sizes on which a kernel is checked, so
        that nobody can write it for known ones. By default the seed of an earlier grading of the
        same text, else a random one for each text.

    Returns
    -------
    list of Result
        The results of submissions that could not be graded this time. Their earlier results stand.

    Raises
    ------
    LabError
        There is no sandbox, the folder cannot be written, it holds results of another version, or
        the executor broke.
    Interrupted
        Ctrl-C stopped it; it waits for the submissions that are being graded.
    """
    if any(map(_is_kernel, handed_in)):
        sandbox.require(unsafe)
    folder = out / "results"
    require_writable(folder)
    failed: list[Result] = []
    empty_handed = {submission.student for submission in handed_in if not submission.exercise}
    for student in {submission.student for submission in handed_in} - empty_handed:
        # an earlier result that names no exercise: the student has handed in something better now
        _choose_path(folder, Submission(student, "")).unlink(missing_ok=True)

    numbers = {submission.exercise for submission in handed_in if not submission.problem}
    # groups of submissions with equal texts, each of which is graded once
    waiting = _group_new_texts(handed_in, folder, again, seed)
    starts = _note_starts(folder, numbers)  # digests of the starting code, of earlier ones, too
    done(len(handed_in) - sum(map(len, waiting)))  # those whose text has a result already

    def finish(group: list[Submission], result: Result) -> None:
        """Keep the result of a text for all who have handed it in, and report progress."""
        # Starting code that was handed in unchanged gets a verdict of its own. Grading recognizes
        # today's; here one of an earlier version of the exercise is found by its digest.
        digests = starts.get(group[0].exercise, ())
        if (
            result.lines
            and len(digests) > 1
            and _digest_code(result.exercise, group[0].answer) in digests
        ):
            result = _mark_as_start(result)
        failed.extend(
            replace(result, student=submission.student)
            for submission in group
            if not _keep(folder, submission, result)
        )
        done(len(group))

    kernels = [group for group in waiting if _is_kernel(group[0])]
    # the class's own exercises, number -> folder: a worker process has to add them, too
    added = {task.number: task.folder for task in exercises().values() if not task.of_series}
    try:
        # answers that are numbers: graded in this thread, as the grader may train a network for them
        for group in waiting:
            if not _is_kernel(group[0]):
                finish(group, _grade(group[0], unsafe))
        with contextlib.ExitStack() as stack:
            pool = executor or stack.enter_context(start_workers(None, len(kernels)))
            # Closed when Ctrl-C ends the loop, too: then the generator waits for what still runs,
            # and finishes it.
            ended = stack.enter_context(
                contextlib.closing(_grade_parallel(pool, kernels, unsafe, added, finish))
            )
            for group, future in ended:
                finish(group, _get_result(group[0], future))
    except KeyboardInterrupt:
        finished = sum(_choose_path(folder, submission).is_file() for submission in handed_in)
        raise Interrupted(
            f"stopped: {finished} of {len(handed_in)} are graded; the same command goes on"
        ) from None
    return failed


def _group_new_texts(
    handed_in: Sequence[Submission], folder: Path, again: bool, seed: str
) -> list[list[Submission]]:
    """Return the submissions that need grading, in groups of equal texts, each of which is graded once.

    The others get the result of an equal text, which is in the folder of results already. `again`
    and `seed` are as for `grade_all`.
    """
    # of any student, by exercise, text and version
    graded = {
        (old.exercise, old.answer, old.grader): path
        for path, old in _read_all(folder)
        if old.answer
    }
    numbers = {submission.exercise for submission in handed_in if not submission.problem}
    tasks = {number: digest_task(number) for number in numbers}
    waiting: dict[tuple, list[Submission]] = {}
    for submission in handed_in:
        earlier, number = _read(_choose_path(folder, submission)), submission.exercise
        key = (
            number,
            _digest_answer(submission),
            _digest_lab() if submission.problem else tasks[number],
        )
        if earlier and earlier.answer == key[1] and (earlier.grader == key[2] or not again):
            _keep(folder, submission, earlier, earlier)  # its time may have changed
        elif key in graded and (result := _read(graded[key])):
            _keep(folder, submission, replace(result, before="", regraded=""), earlier)
        else:  # the same text keeps its seed, so that a regrade draws the same inputs
            before = earlier.seed if earlier and earlier.answer == key[1] else ""
            waiting.setdefault(key, []).append(replace(submission, seed=seed or before))
    return [*waiting.values()]


def _keep(
    folder: Path, submission: Submission, result: Result, earlier: Result | None = None
) -> bool:
    """Write a submission's result to its file, with its student and time; return whether this result counts now.

    It is not written, and False is returned, if the text could not be graded this time (`result` has
    no digest of an answer) and an `earlier` result of the same text stands. By default `earlier` is
    read from the file.
    """
    earlier = earlier or _read(_choose_path(folder, submission))
    same_text = earlier is not None and earlier.answer == _digest_answer(submission)
    if same_text and not result.answer:  # a full disk, or no memory
        return False
    if same_text and earlier.untouched:  # it was the starting code, which may have changed since
        result = _mark_as_start(result)
    if same_text and earlier.grader != result.grader:
        changed = earlier.verdict != result.verdict
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        result = replace(
            result, before=earlier.verdict if changed else "", regraded=today if changed else ""
        )
    at, clock = _choose_time(submission, earlier if same_text else None)
    result = replace(result, student=submission.student, submitted_at=at, clock=clock)
    if result != earlier:
        write(_choose_path(folder, submission), json.dumps(asdict(result), indent=1) + "\n")
    return True


def _grade_parallel(
    pool: Executor,
    groups: Sequence[list[Submission]],
    unsafe: bool,
    added: Mapping[str, Path],
    finish: Callable[[list[Submission], Result], None],
) -> Iterator[tuple[list[Submission], Future]]:
    """Grade the first of each group in a pool, at most `_IN_FLIGHT` at a time; yield (group, its future) as they end.

    When the generator is closed, it waits for those that run, and passes them with their results to
    `finish`. If `unsafe`, kernels run without a sandbox where there is none. `added` maps the
    class's own exercises to their folders.
    """
    waiting, running = iter(groups), {}
    try:
        while True:
            for group in itertools.islice(waiting, _IN_FLIGHT - len(running)):
                running[pool.submit(_grade, group[0], unsafe, added)] = group
            if not running:
                return
            for future in futures.wait(running, return_when=futures.FIRST_COMPLETED).done:
                yield running.pop(future), future
    finally:
        begun = {future: group for future, group in running.items() if not future.cancel()}
        # Ctrl-C: the running ones come to their end, and are kept
        for future, group in begun.items():
            with contextlib.suppress(Exception, KeyboardInterrupt):
                finish(group, future.result())


def _get_result(submission: Submission, future: Future) -> Result:
    """Return a future's result, or one that says why there is none; LabError if the whole executor broke."""
    try:
        return future.result()
    except futures.BrokenExecutor as error:
        raise LabError(
            f"the executor broke: {error}. What is graded is kept: the same command goes on"
        ) from error
    except Exception as error:  # a worker that was lost, or could not import the lab
        return Result(
            submission.student,
            submission.exercise,
            False,
            f"not graded: {type(error).__name__}: {error}",
        )


def start_workers(jobs: int | None, most: int) -> Executor:
    """Return an executor that grades `jobs` submissions at a time: by default as many as there are processor cores.

    `most` is the number of submissions: more workers are not started.
    """
    jobs = max(1, min(jobs or os.cpu_count() or 1, most))
    # a thread only feeds the child process that runs its kernel; more threads would wait for each other
    if jobs <= _THREADS:
        return futures.ThreadPoolExecutor(jobs)
    return futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _prepare_worker)


def _prepare_worker() -> None:
    """Prepare a worker process: leave Ctrl-C to the parent, and end with it even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


# ------------------------------------------------------------------------------------- What is kept
def read_results(out: Path) -> Iterator[Result]:
    """Yield the results that `grade_all` has kept in `out`.

    A damaged file gives a result that says so. Raises LabError for a file of another version.
    """
    return (result for _, result in _read_all(out / "results"))


def owns_results(out: Path) -> bool:
    """Return whether the folder `out` is one that `grade_all` has written results to, so that it may write there."""
    folder = out / "results"
    # `_STARTS`, the digests of starting codes, is written before the first result
    return (folder / _STARTS).is_file() or any(map(_read, folder.glob("*.json")))


def read_result(out: Path, student: str, exercise: str) -> Result | None:
    """Return the result of a student at an exercise that is kept in `out`, or None."""
    # a submission without a text: the file's name depends on student and exercise alone
    return _read(_choose_path(out / "results", Submission(student, exercise)))


def list_orphans(out: Path, handed_in: Iterable[Submission]) -> list[tuple[Path, Result]]:
    """Return the results in `out` whose student and exercise are not among these hand-ins, as (file, result)."""
    here = {(submission.student, submission.exercise) for submission in handed_in}
    return [
        (path, item)
        for path, item in _read_all(out / "results")
        if (item.student, item.exercise) not in here
    ]


def list_changed_starts(out: Path, handed_in: Iterable[Submission]) -> list[str]:
    """Return the numbers of the exercises whose starting code has changed since the last grading."""
    starts = _read_starts(out / "results")
    numbers = {item.exercise for item in handed_in if not item.problem}
    return [
        number
        for number in sorted(numbers)
        # the digests of all starting codes so far, the latest last
        if starts[number] and starts[number][-1] != _digest_code(number)
    ]


def _read_starts(folder: Path) -> defaultdict[str, list[str]]:
    """Return a dict: an exercise's number to the digests of its starting codes, in the order of their use."""
    digests = defaultdict(list)
    if (path := folder / _STARTS).is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            number, _, code_digest = line.rpartition(" ")
            digests[number].append(code_digest)
    return digests


def _note_starts(folder: Path, numbers: Iterable[str]) -> dict[str, list[str]]:
    """Put the digests of these exercises' starting codes, as they are now, last in the file `_STARTS`.

    Returns the digests that the file then has: those of an exercise by its number.
    """
    starts = _read_starts(folder)
    for number in numbers:
        now = _digest_code(number)
        starts[number] = [*(code for code in starts[number] if code != now), now]
    if numbers:
        lines = (
            f"{number} {code}\n" for number, digests in sorted(starts.items()) for code in digests
        )
        write(folder / _STARTS, "".join(lines))
    return starts


def _digest_code(number: str, answer: str | tuple | None = None) -> str:
    """Return the digest of an answer to an exercise, by default of its starting code; layout does not change it."""
    exercise = by_name(number)
    if isinstance(exercise.subject, Numbers):
        return digest(repr(exercise.subject.start if answer is None else answer))[:16]
    text = exercise.start if answer is None else answer
    return digest(*(" ".join(line.split()) for line in code_lines(text)))[:16]


def _mark_as_start(result: Result) -> Result:
    """Return a result as that of the starting code, not passed; as it is if it could not be graded: it has no lines."""
    return (
        replace(result, passed=False, untouched=True, verdict=UNTOUCHED, advice="")
        if result.lines
        else result
    )


def _read_all(folder: Path) -> Iterator[tuple[Path, Result]]:
    """Yield (file, result) of each file in a folder; of one that is none, a result without an exercise says so."""
    for path in sorted(folder.glob("*.json")):
        no_result = (
            f"results/{path.name} is no result of `labkit grade`: remove it, and grade again"
        )
        yield path, _read(path) or Result(path.stem, "", False, no_result)


def _read(path: Path) -> Result | None:
    """Return the result in a file; None if there is none, or if the file is damaged.

    Raises LabError if it is of another version's format.
    """
    try:
        values = json.loads(path.read_bytes())
        if values["format"] == FORMAT:
            result = Result(
                **{item.name: values[item.name] for item in fields(Result) if item.name in values}
            )
            return result if _is_sound(result) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    raise LabError(f"{path} is a result of another version of the lab: grade into a new folder")


def _is_sound(result: Result) -> bool:
    """Return whether the fields of a result from a file have the types that tables and pages rely on."""
    blank = Result("", "", False, "")
    return all(
        isinstance(getattr(result, item.name), type(getattr(blank, item.name)) | int)
        if item.name == "seconds"  # JSON writes a whole number of them as an int
        else isinstance(getattr(result, item.name), type(getattr(blank, item.name)))
        for item in fields(Result)
    ) and all(
        isinstance(line, list) and len(line) == 3 and isinstance(line[1], str)
        for line in result.lines
    )


def _choose_path(folder: Path, submission: Submission) -> Path:
    """Return the file for a submission's result: a readable name, and a digest that makes it unique."""
    name = f"{submission.student}-{submission.exercise or 'none'}"[:50]
    safe = "".join(
        character if character.isalnum() or character in "-_." else "_" for character in name
    )
    return folder / f"{safe}-{digest(submission.student, submission.exercise)[:8]}.json"


def _choose_time(submission: Submission, earlier: Result | None) -> tuple[str, str]:
    """Return (time, clock) of a submission or an `earlier` one of the same text: a manifest's, or else the first."""
    # `min` takes a manifest's time first, because False is less than True
    times = [
        (other.clock != MANIFEST, other.submitted_at, other.clock)
        for other in (submission, earlier)
        if other and other.submitted_at
    ]
    return min(times)[1:] if times else ("", "")


def _digest_answer(submission: Submission) -> str:
    """Return the digest, 16 hex digits, of what was handed in, or of why it cannot be graded."""
    return digest(repr((submission.answer, submission.problem)))[:16]


def digest_task(number: str | Path) -> str:
    """Return the digest, 16 hex digits, of what decides an exercise's grades: the lab, and the files in its folder.

    The exercise is given by its number, or by the Path of its folder. Its wrong.toml does not count:
    it has answers for tests.
    """
    folder = number if isinstance(number, Path) else by_name(number).folder
    return digest(
        _digest_lab(),
        *_read_files(folder, (path for path in folder.rglob("*") if path.name != "wrong.toml")),
    )[:16]


def digest_tasks() -> dict[str, str]:
    """Return the `digest_task` of all exercises that are known here, by their numbers.

    It is the digest of what decides an exercise's grades. A result with another one (`grader`) was
    graded by an earlier version.
    """
    return {number: digest_task(number) for number in exercises()}


@functools.cache
def _digest_lab() -> str:
    """Return the digest of what decides every grade: versions, engine, data, and the lab without its exercises."""
    code = {path for path in PACKAGE.rglob("*") if not path.is_relative_to(SERIES)}
    code -= {path for path in code if path.relative_to(PACKAGE).parts[0] in _SHOWN}
    engine, data, here = Path(hostcuda.__file__).parent, data_dir(), Path(__file__).parent
    return digest(
        FORMAT,
        labkit.__version__,
        *_read_files(engine, engine.rglob("*")),
        *_read_files(data, data.rglob("*")),
        *_read_files(PACKAGE, code),
        *_read_files(here, (here / name for name in _DECIDE)),
    )[:16]


def _read_files(folder: Path, paths: Iterable[Path]) -> Iterator[str | bytes]:
    """Yield the names, relative to `folder`, and contents of files in turn, in the same order on every machine."""
    for name, path in sorted((path.relative_to(folder).as_posix(), path) for path in paths):
        if path.is_file() and path.suffix not in (".pyc", ".lock"):
            yield from (name, path.read_bytes())


# ----------------------------------------------------------------------------------- One submission
def _is_kernel(submission: Submission) -> bool:
    """Return whether a submission has a kernel, which the sandbox runs; the others are numbers, or have a problem."""
    return not submission.problem and not isinstance(by_name(submission.exercise).subject, Numbers)


def _grade(
    submission: Submission, unsafe: bool, added: Mapping[str, Path] = MappingProxyType({})
) -> Result:
    """Grade a submission in any process on any machine; never raise.

    If `unsafe`, a kernel runs without a sandbox where there is none. `added` maps added exercises
    to their folders.
    """
    began = time.monotonic()
    try:
        if submission.problem:
            return Result(
                submission.student,
                submission.exercise,
                False,
                submission.problem,
                answer=_digest_answer(submission),
                grader=_digest_lab(),
            )
        if submission.exercise in added:
            add(added[submission.exercise])
        exercise = by_name(submission.exercise).with_seed(submission.seed or secrets.token_hex(8))
        try:
            graded = _grade_answer(exercise, submission.answer, unsafe)
            verdict = graded.verdict
        except NoResultError as error:  # it is not tried again
            reason = str(error).removeprefix("there is no result: ")
            graded = grade.Grade(exercise, (grade.GradeLine(False, f"can be graded\n{reason}"),))
            verdict = f"{NO_RESULT}{reason.splitlines()[0]}"
        # those of the last lines, if there are any
        goals = [goal.what for goal in exercise.goals if graded.reached]
        reached = {
            what: float(got)
            for what, got in zip(goals, graded.reached, strict=False)
            if math.isfinite(got)
        }
        before = graded.lines[: len(graded.lines) - len(goals)]
        # what each line is about: nothing, the changed lines, or a goal
        subjects = [*(BUDGET if line.kind == BUDGET else "" for line in before), *goals]
        return Result(
            submission.student,
            exercise.number,
            graded.passed,
            verdict,
            graded.untouched,
            [
                [line.ok, line.text[:_TEXT], about]
                for line, about in zip(graded.lines, subjects, strict=False)
            ],
            graded.mistake,
            reached,
            round(time.monotonic() - began, 2),
            answer=_digest_answer(submission),
            grader=digest_task(exercise.number),
            seed=exercise.seed,
        )
    except EngineError as error:  # without a digest: the next run tries again
        return Result(submission.student, submission.exercise, False, f"not graded: {error}")
    except Exception as error:  # nothing that a student hands in may stop the class
        return Result(
            submission.student,
            submission.exercise,
            False,
            f"not graded: {type(error).__name__}: {error}",
        )


def _grade_answer(exercise: Exercise, answer: str | tuple, unsafe: bool) -> grade.Grade:
    """Return the grade of an answer, a kernel's text or numbers; NoResultError if by its own fault it has none.

    If `unsafe`, a kernel runs without a sandbox where there is none.
    """
    numbers = isinstance(exercise.subject, Numbers)
    try:
        if numbers:
            return grade.grade(exercise.folder, *answer, quiet=True, record=False)
        source = exercise.attempt(answer)
    except EngineError as error:
        if numbers:
            # raises if the exercise itself fails here
            exercise.subject.counts(exercise.subject.start)
        elif not exercise.start:  # the exercise is at fault
            raise
        raise NoResultError(str(error)) from None
    except (ArithmeticError, ValueError, TypeError, MemoryError) as error:
        if not numbers:
            raise
        exercise.subject.counts(exercise.subject.start)
        raise NoResultError(
            f"{', '.join(f'{value!r:.40}' for value in answer)} cannot be graded: {error}"
        ) from None
    return grade_in_sandbox(exercise, source, unsafe)


def grade_in_sandbox(exercise: Exercise, source: str, unsafe: bool = False) -> grade.Grade:
    """Run a kernel that is not trusted in the sandbox (or, if `unsafe`, without one where there is none); grade it.

    A child process runs the kernel and writes its arrays and counters to a file; they are judged
    here. LabError if the child came to no result; the message says why.
    """

    def run(tools: str) -> ChildResult:
        """Run the kernel in the sandbox under these tools of check mode, "memcheck,racecheck"."""
        with temporary.folder() as folder:
            command, environment = attempts.write_job(exercise, source, folder, tools)
            # The child gets a secret word before it compiles the kernel. An answer without the word was
            # not written by the child.
            word = make_nonce()
            child = sandbox.run(
                [*command, "--untrusted"],
                folder,
                check=tools,
                environment={"HOSTCUDA_CHECK_OUT": environment["HOSTCUDA_CHECK_OUT"]},
                stdin=word,
                unsafe=unsafe,
            )
            record = read_answer(child, folder / "answer", word)
        status = processes.Ended(child.status, child.seconds)
        # "CASE-RUN-NAME" -> array; the child has sent .npy files in base64
        arrays = {
            name: np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)
            for name, text in record["arrays"].items()
        }
        return ChildResult(status, record["events"], attempts.sort_by_case(exercise, arrays))

    return attempts.judge_runs(exercise, source, run)
