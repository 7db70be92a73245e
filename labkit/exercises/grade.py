"""The grader: says of an attempt what is right, what is wrong and where, goal by goal.

An attempt runs in a child process (`labkit.exercises.grader`), in the CPU engine's check mode. What it wrote, what was
found and what was counted is judged here.
"""

from __future__ import annotations

import contextlib
import hashlib
import html
import itertools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hostcuda import processes, temporary
from hostcuda.errors import EngineError
from hostcuda.metrics import NAMES, QUOTIENTS, SUMS
from hostcuda.sanitize import TOOLS, checked
from hostcuda.source import code_only
from labkit.base import kept
from labkit.base.errors import LabError
from labkit.base.numerals import three
from labkit.evidence.profile import estimate
from labkit.exercises import progress
from labkit.exercises.exercise import (
    ATTEMPT_S,
    RUN_S,
    SOURCE,
    Attempt,
    Exercise,
    exercise,
    hand_over,
    number,
)
from labkit.exercises.subjects import InPlaceOf, Numbers
from labkit.exercises.text import causes, unset_sums
from labkit.exercises.text import counts as counts_in
from labkit.ladder.messages import errors, messages, report
from labkit.ladder.rung import tiles
from labkit.ladder.source import changed_lines
from labkit.ladder.variants import Launch, solution, variant
from labkit.measure.check import CheckFailed, check
from labkit.records.recorded import recorded
from labkit.spec.devices import device
from labkit.spec.layers import LENET72, LENET86, Layer

_MARKS = {True: "✓", False: "✗", None: "–"}
_NOT_YET = "not counted, because of the above"
_DIVERGENT = "divergent barrier"
_FIRST_OUTPUT = re.compile(r"\n *b +m +h +w .*\n +(\d+) +(\d+) +(\d+) +(\d+) ")
# What to look for when the sanitizer has found something, by the kind of the finding.
_LOOK = {
    "race": "Two threads use the same place, and nothing orders them: is a barrier missing between these lines, or do "
            "two threads compute the same index?",
    "race between blocks": "Threads of different blocks use the same place: does an index leave out the block, or "
                           "exchange two of its factors?",
    "uninitialized": "It is read before it is written: is a barrier missing, a zero at the beginning, or an element "
                     "that no thread fills?",
    "out of bounds": "Which threads have nothing to do here? Compare the guard with the number of outputs and inputs.",
    "misaligned": "A vector access needs an address that is a multiple of its size: for which rows is it one?",
    _DIVERGENT: "All threads of a block have to reach the barrier: does a thread return, or skip it, before?",
}
_LOOK_SHARED = ("Does the array in shared memory have an element for each index? Compare its size with the "
                "largest index of any thread.")
_RECORDED = "H200"  # the device whose times stand in where there is no GPU
_GRADER = "labkit.exercises.grader"
_BUDGET = "changed lines"


@dataclass(frozen=True)
class Line:
    """One line of a grade: ✓, ✗, or – for what was not looked at.

    `kind` is that of the sanitizer's finding, or `_BUDGET`.
    """

    ok: bool | None
    text: str
    kind: str = ""

    def __str__(self) -> str:
        return f"{_MARKS[self.ok]} {self.text}".replace("\n", "\n  ")


@dataclass(frozen=True, repr=False)
class Grade:
    """The answer to an attempt. Prints as its verdict, a line per question, and a hint.

    Attributes
    ----------
    exercise : Exercise
    lines : tuple of Line
    reached : tuple of float
        The number reached for each goal; NaN where nothing was counted.
    untouched : bool
        Whether the attempt is the starting code.
    mistake : str
        The sentence for a typical wrong answer that this is; else empty.
    advice : str
        The last paragraph: a hint, or what to do next.
    """

    exercise: Exercise
    lines: tuple[Line, ...]
    reached: tuple[float, ...] = ()
    untouched: bool = False
    mistake: str = ""
    advice: str = ""

    @property
    def passed(self) -> bool:
        """Whether every line is ✓."""
        return all(line.ok for line in self.lines) and not self.untouched

    @property
    def verdict(self) -> str:
        """The first line: "goal met", "goal missed", or "not right yet"."""
        if self.passed:
            return "goal met"
        if self.untouched:
            return "goal missed: this is the starting code"
        before = self.lines[: len(self.lines) - len(self.exercise.goals)]
        wrong = any(line.ok is False and line.kind != _BUDGET for line in before)
        return "not right yet" if wrong else "goal missed"

    def __repr__(self) -> str:
        head = f"{self.exercise.number} {self.exercise.title}: {self.verdict}"
        return "\n".join([head, *map(str, self.lines), *filter(None, [self.mistake or self.advice])])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"

    def _ipython_display_(self) -> None:
        """Show nothing: `grade` has printed it already."""


def grade(which: str | Path, *attempt: object, quiet: bool = False, record: bool = True) -> Grade:
    """Grade an attempt at an exercise, print the answer, and note it in the reader's progress.

    The sanitizer's tools look first. Then the results are compared on shapes that the page does not name, with integers
    that have to be exact and real numbers within their rounding. Then the goals are counted. All of it is done by the
    CPU engine, on every machine alike; where there is a GPU, the kernel is checked there, too.

    Parameters
    ----------
    which : str or Path
        The exercise, as its page calls it: "04a"; or the folder of one's own.
    *attempt
        A variant or a module of a kernel cell, the path of a .cu file, or its text. For an exercise that is answered
        by numbers: these.
    quiet : bool
        Print nothing.
    record : bool
        Note it in the progress, and give the hint that is due; without it, the first.

    Returns
    -------
    Grade

    Raises
    ------
    LabError
        There is no such exercise, or the attempt cannot be one: the message says what to do.
    Interrupted
        Ctrl-C stopped it.
    """
    asked = exercise(which)
    if isinstance(asked.subject, Numbers):
        answer, source = attempt, repr(attempt)
        done = _of_numbers(asked, answer)
    else:
        if len(attempt) != 1:
            raise LabError(f"exercise {asked.number} is answered by one kernel: grade(\"{asked.key}\", mine)")
        source = asked.attempt(attempt[0])
        done = of_source(asked, source)
        if done.passed and isinstance(asked.subject, InPlaceOf) and device().engine == "gpu":
            done = _on_the_gpu(done, source)
    done = replace(done, advice=_advice(done, source, record))
    if not quiet:
        print(done)
        if done.passed and isinstance(asked.subject, InPlaceOf):
            print(_estimated(asked, source), end="")
    return done


def _estimated(asked: Exercise, source: str) -> str:
    """A line with the attempt's estimated time beside that of the starting code; empty where there is no estimate."""
    layer = next((each for each in reversed(asked.subject.layers.values()) if each in (*LENET86, *LENET72)), None)
    if layer is None or not asked.start or device().engine == "gpu":
        return ""
    try:
        now, before = (estimate(asked.subject.variant(text), layer, _RECORDED) for text in (source, asked.start))
    except EngineError:
        return ""
    return f"On {layer.name}: {now.against(before)}. {now.note}\n"


def _advice(done: Grade, source: str, record: bool) -> str:
    asked = done.exercise
    if done.untouched:
        return ""
    wrong = done.verdict == "not right yet"
    long = not done.passed and all(line.ok for line in done.lines[len(done.lines) - len(asked.goals) :])
    follow = "" if done.mistake else _follow(done)  # without a known cause
    hints = 0 if follow else 1
    if record:
        digest = hashlib.sha256(source.encode()).hexdigest()[:16]
        try:  # an attempt that is told otherwise what to do, as by the sentence for a typical mistake, uses up no hint
            key = asked.number if asked.of_series else str(asked.folder)
            hint = bool(follow) or not (wrong or long or done.mistake)
            hints = progress.note(key, digest, done.passed, hint, first=not follow)
        except EngineError as error:
            return f"Not noted in your progress: {error}"
    if wrong and not (follow and hints):
        return follow or next((_look(line) for line in done.lines if line.kind in _LOOK), "")
    if long:
        return "The goal is met, with more lines than it takes: which of them can stay as they were?"
    solved = asked.solution or (isinstance(asked.subject, Numbers) and asked.subject.solution())
    own = f'lab.solution("{asked.key}")' if solved else ""  # the students' edition has none
    if done.passed:
        times = _times(asked) if asked.of_series else ""
        return " ".join(filter(None, [f"The lab's own: {own}." if own else "", times]))
    if not asked.hints:
        return follow
    due = min(hints, len(asked.hints))
    more = f" There is no other; {own} is the lab's own." if own and due == len(asked.hints) else ""
    return f"{follow}{follow and chr(10)}Hint {due} of {len(asked.hints)}: {asked.hints[due - 1]}{more}"


def _follow(done: Grade) -> str:
    """Of wrong results: the thread to follow, and how; else empty."""
    text = next((line.text for line in done.lines if line.ok is False and line.text.startswith("right\n")), "")
    subject = done.exercise.subject
    if isinstance(subject, InPlaceOf) and (found := _FIRST_OUTPUT.search(text)):
        b, m, h, w = map(int, found.groups())
        layer = next(case.what[0] for case in subject.cases if f"on {case.what[0]}, B" in text)
        launch = variant(subject.name, **subject.options).launches(layer)[-1]
        if b > 0 or not (owner := _owner(launch, layer, m, h, w)):
            return (f"Which thread of which block should store y[{b}, {m}, {h}, {w}]? Follow it through the kernel: "
                    "lab.step(mine, thread=(x, y), block=(x, y)) shows a thread line by line.")
        thread, block = owner
        kernel = f', kernel="{launch.kernel}"' if launch.kernel != "conv" else ""
        return (f"By the starting code's indices, thread {thread} of block {block} computes the first of these. Follow "
                f"it: what should it load and store?\nlab.step(mine, thread={thread}, block={block}, "
                f"layer=lab.{layer!r}{kernel})")
    if found := re.search(r"The first, (\[[\d, ]+\])", text):
        return (f"Which thread should store element {found[1]}, or add to it? Write down blockIdx and threadIdx, and "
                "go through the kernel with these numbers: what does it load, and where does it store?")
    return ""


def _owner(launch: Launch, layer: Layer, m: int, h: int, w: int) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Thread and block of an output of the first image if blocks are tiles of a map or of [M,Ho*Wo]; else None."""
    (x, y, _), n = launch.block, h * layer.Wo + w
    across = tiles(layer.Wo, x)
    if launch.grid[:2] == (across * tiles(layer.Ho, y), layer.M):
        return (w % x, h % y), (h // y * across + w // x, m)
    if launch.grid[:2] == (tiles(layer.Ho * layer.Wo, x), tiles(layer.M, y)):
        return (n % x, m % y), (n // x, m // y)
    return None


def _look(line: Line) -> str:
    shared = line.kind == "out of bounds" and re.search("__shared__ array|dynamic shared memory", line.text)
    return _LOOK_SHARED if shared else _LOOK[line.kind]


def _times(asked: Exercise) -> str:
    """What the goal is worth: recorded times of the start, the solution and the rung; on a GPU, how to measure."""
    subject = asked.subject
    layers = [layer for layer in getattr(subject, "layers", {}).values() if layer in (*LENET86, *LENET72)]
    if not layers:
        return ""
    if device().engine == "gpu":
        return "Now measure yours with lab.bench, beside the rung."
    like, layer, known = variant(subject.name, **subject.options), layers[-1], recorded(_RECORDED)
    base = variant(like.rung.base) if like.rung.base else like  # 03a begins with rung 02
    start = next((each for each in (like, base) if _code(each.source) == _code(asked.start)), like)
    try:
        solved = solution(subject.name, subject.letter)
        before, after, rungs = (known.op_ms(each, layer) for each in (start, solved, like))
    except EngineError:  # not recorded, or without solutions
        return ""
    beside = "" if start is like else f" The kernel of the page, {like.label}: {three(rungs)} ms."
    return (f"On the NVIDIA {_RECORDED}, {layer.name}: {start.label}, where you began, {three(before)} ms; the "
            f"solution {three(after)} ms.{beside}")


def _of_numbers(asked: Exercise, answer: tuple) -> Grade:
    counts = asked.subject.counts(answer)
    reached = tuple(goal.number(counts) for goal in asked.goals)
    untouched = repr(answer) == repr(asked.subject.start)
    mistake = "" if untouched else _mistake(asked, Attempt(repr(answer), counts))
    return Grade(asked, tuple(_goals(asked, reached)), reached, untouched, mistake)


def _on_the_gpu(done: Grade, source: str) -> Grade:
    try:
        check(done.exercise.subject.variant(source), quiet=True)
        line = Line(True, f"right on the {device().name}")
    except CheckFailed as wrong:
        line = Line(False, f"right on the {device().name}: {wrong}")
    at = len(done.lines) - len(done.exercise.goals)
    return replace(done, lines=(*done.lines[:at], line, *done.lines[at:]))


@dataclass(frozen=True)
class Ran:
    """What a child process left behind.

    Attributes
    ----------
    ended : Ended
    events : list of dict
        The grader's marks and the engine's records of launches, in order.
    arrays : list of list of dict
        For each case, for each run of it: the arrays that the kernel wrote, by their names.
    """

    ended: processes.Ended
    events: list[dict]
    arrays: list[list[dict[str, np.ndarray]]]


def of_source(asked: Exercise, source: str) -> Grade:
    """Grade the text of a kernel in a child process of this one, if a report has not done so before."""
    if not asked.of_series:  # its folder is not among what kept grades depend on
        return Grade(asked, *_in_a_child(asked, source)[0])
    name = "grade", asked.number, asked.seed, source
    fields, _ = kept.once(lambda: _in_a_child(asked, source), *name, only=lambda it: it[1])
    return Grade(asked, *fields)


def _in_a_child(asked: Exercise, source: str) -> tuple[tuple, bool]:
    """The fields of a grade, and whether it would be the same on a machine that is less busy."""
    with temporary.folder() as folder:
        command, environment = job(asked, source, folder)
        ended = processes.run(command, environment, ATTEMPT_S, capture=True)
        if ended.interrupted:
            ended.require("grading")
        ran = collect(asked, folder, ended)
        done = judge(asked, source, ran)
        sure = not ended.problem and "endless" not in _marks(ran)
        return (done.lines, done.reached, done.untouched, done.mistake), sure


def job(asked: Exercise, source: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Write the child's input into an empty folder; the command that runs it, and its environment."""
    hand_over(asked, source, folder)
    tools = ",".join(("profile", *TOOLS))
    environment = {"HOSTCUDA_ENGINE": "cpu", "HOSTCUDA_CHECK": tools, "HOSTCUDA_CHECK_OUT": str(folder / "events")}
    return [sys.executable, "-m", _GRADER, str(folder)], environment


def collect(asked: Exercise, folder: Path, ended: processes.Ended) -> Ran:
    """Read what a child has left in its folder."""
    arrays = {}
    for path in folder.glob("*.npy"):
        with contextlib.suppress(ValueError, OSError, EOFError):  # incomplete: the child was stopped while it wrote
            arrays[path.stem] = np.load(path, allow_pickle=False)
    return Ran(ended, processes.lines(folder / "events"), by_case(asked, arrays))


def by_case(asked: Exercise, arrays: Mapping[str, np.ndarray]) -> list[list[dict[str, np.ndarray]]]:
    """The arrays of `Ran`, from those that a child has named "case-run-name" with the numbers of case and run."""
    found: list[dict[int, dict[str, np.ndarray]]] = [{} for _ in asked.subject.cases]
    for label, array in arrays.items():
        case, run, name = label.split("-", 2)
        found[int(case)].setdefault(int(run), {})[name] = array
    return [[runs[run] for run in sorted(runs)] for runs in found]


def judge(asked: Exercise, source: str, ran: Ran) -> Grade:
    """What an attempt is worth, from what its child process left behind."""
    lines = [*_questions(asked, source, ran)]
    counts = {}
    if all(line.ok for line in lines):
        counts = {**_numbers(asked, ran), SOURCE: counts_in(code_only(source))}
    reached = tuple(goal.number(counts) if counts else float("nan") for goal in asked.goals)
    attempt = Attempt(code_only(source), counts, tuple(_kinds(ran)), next((x.text for x in lines if x.ok is False), ""))
    budget = []
    changed = changed_lines(_code(asked.start), _code(source))
    if asked.lines is not None and counts:
        wanted = f"at most {asked.lines}"
        budget = [Line(changed <= asked.lines, f"{_BUDGET}: {changed}, wanted {wanted}", _BUDGET)]
    mistake = _mistake(asked, attempt) if changed else ""
    return Grade(asked, (*lines, *budget, *_goals(asked, reached)), reached, changed == 0, mistake)


def _code(source: str) -> list[str]:
    """The lines of a source that hold code, without comments."""
    return [line for line in code_only(source).splitlines() if line.strip()]


def _goals(asked: Exercise, reached: Sequence[float]) -> Iterator[Line]:
    for goal, got in zip(asked.goals, reached, strict=True):
        if got != got:
            yield Line(None, f"{goal.what}: {_NOT_YET}; wanted {goal.wanted}")
        else:
            yield Line(goal.met(got), f"{goal.what}: {number(got)}, wanted {goal.wanted}")


def _mistake(asked: Exercise, attempt: Attempt) -> str:
    right = [*asked.start.splitlines(), *asked.solution.splitlines()]
    own = (each.sentence for each in asked.mistakes if each.when(attempt))
    return next(itertools.chain(causes(attempt, map(code_only, right)), own), "")


def _marks(ran: Ran) -> dict[str, dict]:
    return {event["mark"]: event for event in ran.events if "mark" in event}


def _records(ran: Ran) -> list[dict]:
    return [event for event in ran.events if "mark" not in event]


def _kinds(ran: Ran) -> list[str]:
    kinds = [finding["kind"] for record in _records(ran) for finding in record["findings"]]
    return [_DIVERGENT] if _DIVERGENT in kinds else kinds


def _questions(asked: Exercise, source: str, ran: Ran) -> Iterator[Line]:
    """Compiles, ends, is clean, is right: up to the first that is answered with no."""
    text, marks = source.splitlines(), _marks(ran)
    if "compile" in marks:
        said = marks["compile"]["text"]
        yield Line(False, f"compiles\n{errors(said, text) or said.strip()}")
        return
    about = marks.get("warnings", {})
    unset = [each for each in messages(about.get("text", ""), text) if "uninitialized" in each.text]
    # What only may be: if the compiler has filled all variables, the results show whether it is.
    doubtful = [each for each in unset if about.get("filled") and "may be used" in each.text]
    if len(unset) > len(doubtful):
        yield Line(False, f"every variable has a value before it is read\n{report(unset, text)}")
        return
    if sums := unset_sums(code_only(source)):
        line = next((n for n, each in enumerate(text, 1) if sums[0] in each), 0)
        message = f"line {line}: it is added to, but nothing sets it to zero: write = {{}}\n    {sums[0]}"
        yield Line(False, f"every variable has a value before it is read\n{message}")
        return
    found = checked(_records(ran), TOOLS, ran.ended)
    if len(found.table):
        first = found.table.sort_values("kind", key=lambda kinds: kinds != _DIVERGENT, kind="stable").iloc[0]
        yield Line(False, f"clean under {', '.join(TOOLS)}\n{_finding(first, text)}", first["kind"])
        return
    if "endless" in marks:
        late = f"on {marks['endless']['case']} it was still running after {RUN_S:.0f} s"
        yield Line(False, f"ends\n{late}: a loop does not end, or prints or "
                   "allocates too much, or threads wait for each other")
        return
    if "failed" in marks:
        failed = marks["failed"]
        yield Line(False, f"{'runs' if failed['fault'] else 'is what the exercise asks for'}\n{failed['text']}")
        return
    if "done" not in marks:
        what = ran.ended.problem or "ended before the grader had finished: a kernel may not call exit"
        yield Line(False, f"runs to its end\nit {what}")
        return
    yield Line(True, f"clean under {', '.join(TOOLS)}")
    for case, runs in zip(asked.subject.cases, ran.arrays, strict=True):
        try:
            asked.subject.compare(source, case, runs)
        except CheckFailed as wrong:
            yield Line(False, "\n".join(filter(None, ["right", _first_wrong(str(wrong)), report(doubtful, text)])))
            return
        except (ValueError, KeyError, IndexError):  # a run has left no array, or a damaged one
            yield Line(False, f"runs to its end\nit left no result for {case.name}: grade it again")
            return
    hidden = sum(not case.counted for case in asked.subject.cases)
    known = [case.name for case in asked.subject.cases if case.counted]
    *others, last = [*([f"{hidden} hidden shape{'s' * (hidden != 1)}"] if hidden else []), *known]
    yield Line(True, f"right on {' and '.join(filter(None, [', '.join(others), last]))}")


def _finding(row: Mapping, text: list[str]) -> str:
    """A finding in words: what, the line of the source, who."""
    place = f"line {row['line']}" if row["line"] else f"in {row['kernel']}"
    lines = [f"{row['kind']}, {place}: {row['message'].removeprefix(row['kind'] + ', ')}"]
    if 1 <= row["line"] <= len(text):
        lines.append(f"    {text[row['line'] - 1].strip()}")
    if isinstance(row["thread"], (tuple, list)):
        block, thread = (", ".join(map(str, row[name])) for name in ("block", "thread"))
        lines.append(f"  thread ({thread}) of block ({block})")
    other = row["other"]
    if isinstance(other, dict) and other.get("line"):
        lines.append(f"  and line {other['line']}: {text[other['line'] - 1].strip()}" if other["line"] <= len(text)
                     else f"  and line {other['line']}")
    return "\n".join(lines)


def _first_wrong(message: str) -> str:
    """A mismatch without all rows of its table but the first two."""
    lines = re.sub(r"(?m)^The first \d+:$", "The first two:", message).splitlines()
    heads = [i for i, line in enumerate(lines) if line.split()[:4] == list("bmhw")]
    return "\n".join(lines[: heads[0] + 3] if heads else lines)


def _numbers(asked: Exercise, ran: Ran) -> dict[str, dict[str, float]]:
    """The counters of each counted case, and what was measured from the results of any."""
    found = _counts(asked, ran.events)
    for case, runs in zip(asked.subject.cases, ran.arrays, strict=True):
        if more := asked.subject.measured(case, runs):
            found.setdefault(case.name, {}).update(more)
    return found


def _counts(asked: Exercise, events: Sequence[dict]) -> dict[str, dict[str, float]]:
    """The counters of each counted case, and of each kernel in it, under their friendly names."""
    counted = {case.name for case in asked.subject.cases if case.counted}
    sums: dict[str, dict[str, float]] = {}
    case = None
    for event in events:
        if event.get("mark") == "case":
            case = event["case"]
        elif "mark" not in event and case in counted:
            for name in (case, f"{case}, {event['kernel']}"):
                mine = sums.setdefault(name, {"launches": 0})
                mine["launches"] += 1
                for friendly, metric in NAMES.items():
                    mine[friendly] = mine.get(friendly, 0) + (event["counts"].get(metric) or 0)
    for mine in sums.values():
        for friendly, parts in SUMS.items():
            mine[friendly] = sum(mine[part] for part in parts)
        for friendly, (over, under) in QUOTIENTS.items():
            mine[friendly] = mine[over] / mine[under] if mine[under] else float("nan")
    return sums
