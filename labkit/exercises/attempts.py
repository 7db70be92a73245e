"""Run attempts in child processes: one on all cases, to judge it, or several texts on one case.

Each runs in the CPU engine's check mode (`labkit.exercises.grader`). Its arrays, findings and counts
are judged here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np

from hostcuda import checking, processes, temporary
from hostcuda.findings import list_findings
from hostcuda.source import without_comments
from labkit.base.errors import CheckFailed
from labkit.base.paths import cuda_src
from labkit.exercises.exercise import ATTEMPT_S, TEXT_WAIT_S, Exercise, hand_over
from labkit.exercises.judge import (
    TOOLS,
    WRONG,
    ChildResult,
    Grade,
    collect_marks,
    judge,
    list_records,
)

_GRADER = "labkit.exercises.grader"
CHECKED = ("profile", *TOOLS)  # the tools of check mode in the child
CHECKS = ",".join(CHECKED)
# without counts, the indices of local arrays are checked, too
WITHOUT_COUNTS = ",".join(TOOLS)
_WORKERS = min(8, os.cpu_count() or 1)
_CHUNK = 6  # texts that one child process runs
_Item, _Answer = TypeVar("_Item"), TypeVar("_Answer")


def grade_source(
    exercise: Exercise, source: str, seed: str = "", limit: float = ATTEMPT_S
) -> Grade:
    """Return the grade of a kernel's source, which runs in a child process for at most `limit` seconds.

    By default the seed of its inputs is a hash of the text without comments and blank line ends: the same
    code gets the same inputs, and so the same grade.
    """
    text = "\n".join(map(str.rstrip, without_comments(source).splitlines())).rstrip()
    exercise = exercise.with_seed(
        seed or hashlib.sha256(f"{exercise.number}\n{text}".encode()).hexdigest()[:16]
    )
    end = time.monotonic() + limit

    def run(tools: str) -> ChildResult:
        """Run the attempt under these tools; a second run has the seconds that the first one has left."""
        return _run_attempt(exercise, source, tools, max(1.0, end - time.monotonic()))

    return judge_runs(exercise, source, run)


def _run_attempt(exercise: Exercise, source: str, tools: str, limit: float) -> ChildResult:
    """Run a source in a child process, under these tools of check mode, for at most `limit` seconds."""
    with temporary.folder() as folder:
        command, environment = write_job(exercise, source, folder, tools)
        child = processes.run(command, environment, limit, capture=True)
        if child.interrupted:
            child.require("grading")  # raises Interrupted, "grading was stopped"
        return collect_result(exercise, folder, child)


def judge_runs(exercise: Exercise, source: str, run: Callable[[str], ChildResult]) -> Grade:
    """Return the grade of an attempt that `run` runs in a child process, under tools of check mode.

    Counts need code without checks of the indices of local arrays. So an attempt with right results runs
    once more, without counts, if it has an index that may lie outside of such an array. It is judged by
    this run if that has a finding, or does not come to its end. `run` gets the tools as in
    ``HOSTCUDA_CHECK``.
    """
    result = judge(exercise, source, run(CHECKS))
    if result.verdict != WRONG and checking.needs_run_without_counts(source, [cuda_src()]):
        again = run(WITHOUT_COUNTS)
        if list_findings(list_records(again)) or "done" not in collect_marks(again):
            return judge(exercise, source, again)
    return result


def write_job(
    exercise: Exercise, source: str, folder: Path, tools: str = CHECKS
) -> tuple[list[str], dict[str, str]]:
    """Write the input of the child process that runs an attempt into an empty folder; return how to start it.

    That is its command, and the environment variables that it gets in addition to this process's.
    `tools` are those of check mode, as in ``HOSTCUDA_CHECK``.
    """
    hand_over(exercise, source, folder)
    environment = {
        **processes.OWN_MODULES,  # it imports no module from the folder in which it works
        "HOSTCUDA_ENGINE": "cpu",
        "HOSTCUDA_CHECK": tools,  # by default, the engine counts, and looks for mistakes
        "HOSTCUDA_CHECK_OUT": str(folder / "events"),
    }
    return [sys.executable, "-m", _GRADER, str(folder)], environment


def collect_result(exercise: Exercise, folder: Path, child: processes.Ended) -> ChildResult:
    """Return the arrays and events that a child process has left in its folder; `child` says how it ended.

    An event is a dict: a mark of the grader, or what the engine has counted and found in a launch.
    """
    arrays = {}
    for path in folder.glob("*.npy"):
        # incomplete: the child was stopped while it wrote
        with contextlib.suppress(ValueError, OSError, EOFError):
            arrays[path.stem] = np.load(path, allow_pickle=False)
    return ChildResult(child, processes.lines(folder / "events"), sort_by_case(exercise, arrays))


def sort_by_case(
    exercise: Exercise, arrays: Mapping[str, np.ndarray]
) -> list[list[dict[str, np.ndarray]]]:
    """Sort arrays whose names are "CASE-RUN-NAME": "0-1-y" is the array y after run 1 of case 0.

    Returns a list per case, with a dict per run that maps an array's name to the array.
    """
    # per case: number of the run -> name -> array
    by_run: list[dict[int, dict[str, np.ndarray]]] = [{} for _ in exercise.subject.cases]
    for label, array in arrays.items():
        case, run, name = label.split("-", 2)
        by_run[int(case)].setdefault(int(run), {})[name] = array
    return [[runs[run] for run in sorted(runs)] for runs in by_run]


def write_texts(
    exercise: Exercise, number: int, texts: Sequence[str], folder: Path
) -> tuple[list[str], dict[str, str]]:
    """Write the input of a child process that runs several sources on one case, given by its number.

    Returns its command and its additional environment variables. What text 0 leaves, its arrays and events, goes to
    the folder ``0`` in this folder, that of text 1 to ``1``.
    """
    # The exercise and the inputs; the text does not matter, as each one is written below. Nobody needs
    # counts, without which a text compiles in less time.
    command, environment = write_job(exercise, texts[0], folder, WITHOUT_COUNTS)
    for place, text in enumerate(texts):
        (folder / str(place)).mkdir()
        (folder / str(place) / "attempt.cu").write_text(text, encoding="utf-8")
    return [*command, "--case", str(number)], environment


def map_in_parallel(
    function: Callable[[_Item], _Answer], items: Sequence[_Item]
) -> Iterator[_Answer]:
    """Yield the function's answers for the items, in order; if the caller stops iterating, no further item begins."""
    with ThreadPoolExecutor(_WORKERS) as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def run_texts(
    exercise: Exercise, case: str, texts: Sequence[str], deadline: float
) -> Iterator[bool]:
    """Yield for each text whether it runs without findings and with right results on a case; False after the deadline.

    Parameters
    ----------
    exercise : Exercise
        With the seed with which the attempt was wrong.
    case : str
        The name of the case.
    texts : sequence of str
        Sources: changed versions of the wrong attempt.
    deadline : float
        On the clock of `time.monotonic`.
    """
    number = [each.name for each in exercise.subject.cases].index(case)
    chunks = [texts[begin : begin + _CHUNK] for begin in range(0, len(texts), _CHUNK)]

    def run_chunk(chunk: Sequence[str]) -> list[bool]:
        """Return for each of a few texts whether it is right: a child process runs them, one after another."""
        if time.monotonic() >= deadline:
            return [False] * len(chunk)
        with temporary.folder() as folder:
            command, environment = write_texts(exercise, number, chunk, folder)
            # TEXT_WAIT_S more: for the child's start, and to end its texts a little after the deadline
            limit = min(TEXT_WAIT_S * len(chunk), deadline - time.monotonic()) + TEXT_WAIT_S
            processes.run(command, environment, limit, capture=True)
            return [
                _is_right(exercise, number, text, folder / str(place))
                for place, text in enumerate(chunk)
            ]

    for answers in map_in_parallel(run_chunk, chunks):
        yield from answers


def _is_right(exercise: Exercise, number: int, text: str, folder: Path) -> bool:
    """Return whether a text has run to its end without a finding, and its results in this folder are right."""
    case = exercise.subject.cases[number]
    result = collect_result(exercise, folder, processes.Ended(0, 0))
    has_run = {"mark": "ran", "case": case.name} in result.events
    if not has_run or list_findings(list_records(result)):
        return False
    try:
        exercise.subject.compare(text, case, result.arrays[number])
    except (CheckFailed, ValueError, KeyError, IndexError):
        return False
    return True
