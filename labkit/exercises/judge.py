"""Judge what an attempt is worth, from what its child process left behind.

The playground judges with it, too, so nothing here imports NumPy; only the subject's own comparison
may.
"""

from __future__ import annotations

import html
import inspect
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hostcuda import findings
from hostcuda.metrics import NAMES, QUOTIENTS, SUMS
from hostcuda.source import code_only
from labkit.base.errors import CheckFailed
from labkit.exercises.exercise import RUN_S, SOURCE, Attempt, Exercise, LastLaunch, join_words
from labkit.exercises.misses import explain_miss
from labkit.exercises.text import (
    count_features,
    explain_race,
    find_unset_sums,
    is_explained,
    list_causes,
    list_slips,
    list_unused,
)
from labkit.ladder.messages import Message, format_errors, format_messages, parse_messages
from labkit.ladder.source import LINE, changed_lines, count_lines

if TYPE_CHECKING:
    import numpy as np

    from hostcuda.processes import Ended

# the sanitizer's tools that look at an attempt
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_MARKS = {True: "✓", False: "✗", None: "–"}
_DIVERGENT = "divergent barrier"
# The indices in the first row of the table of wrong outputs, below its heading: "  b  m  h  w  …\n
# 0  2  5  7  …".
_FIRST_OUTPUT = re.compile(r"\n *b +m +h +w .*\n +(\d+) +(\d+) +(\d+) +(\d+) ")
# A question that helps to find the cause, by the kind of the sanitizer's finding.
_LOOK = {
    "race": "Two threads use the same place, and nothing orders them: is a barrier missing between these lines, or do "
    "two threads compute the same index?",
    "race with a copy": "A copy in the background is complete when its own thread has waited for it: does the wait "
    "stand before the barrier, and for all groups but those that may still be under way?",
    "race between blocks": "Threads of different blocks use the same place: does an index leave out the block, or "
    "exchange two of its factors?",
    "lost update": "Two threads read a place and write it back, and one change is lost: should it be an atomic?",
    "uninitialized": "It is read before it is written: is a barrier missing, a zero at the beginning, or an element "
    "that no thread fills?",
    "out of bounds": "Put this thread's and this block's numbers into the index: which element of the array is that? "
    "If the thread has nothing to do here, its guard is missing or lets it through. If "
    "it has, the index is wrong.",
    "misaligned": "A vector access needs an address that is a multiple of its size: for which rows is it one?",
    _DIVERGENT: "All threads of a block have to reach the barrier: does a thread return, or skip it, before?",
    "caller outside its mask": "The mask of a shuffle names each lane that executes it: 0xffffffff names all 32.",
    "absent lane": "A lane gets a number only from a lane that executes the same shuffle: which lanes do, and from "
    "which one does this lane read?",
    "uninitialized variable": "It is read before it has a value: what should it be at the beginning?",
    "constant memory": "A kernel only reads constant memory: where should this value go instead?",
    "stale texture": "A texture may keep what it has read before: read what this kernel writes from its array.",
    "freed memory": "This memory was given back: which pointer still leads there?",
    "host pointer": "A kernel cannot read the host's memory: did this argument get what cudaMalloc returned?",
    "local memory of another thread": "A local variable is its thread's alone: hand others its value by shared memory, "
    "or by a shuffle.",
    "deadlock": "All threads wait: compare how many have to arrive at this barrier, and which bytes it expects, with "
    "what comes. Which thread should make the next step?",
    "partial warpgroup": "All four warps of a warpgroup execute setmaxnreg: does a branch in front of it part them?",
    "copy that is not awaited": "The block ends while this copy is under way: who waits for it?",
    "early access": "The kernel before this one may still run: does griddepcontrol.wait stand before this access?",
    "ended block": "This block's shared memory ends with the block: what lets it wait until its neighbors are done?",
    "missing proxy fence": "A bulk copy does not see ordinary stores of its own accord: does a fence.proxy.async stand "
    "between the store and the barrier behind it?",
    "race with a product": "A wgmma goes on in the background: does its warpgroup wait before it uses the sums or "
    "writes over the operands?",
    "other swizzle": "The tile was copied with another swizzle than the one that this descriptor names: which one has "
    "its tensor map?",
    "null pointer": "This address is no element of an array that the kernel got: where does the pointer come from?",
}
_LOOK_SHARED = (
    "Does the array in shared memory have an element for each index? Compare its size with the "
    "largest index of any thread."
)
BUDGET = "changed lines"
WRONG = "not right yet"
UNTOUCHED = "goal missed: this is the starting code"


@dataclass(frozen=True)
class GradeLine:
    """One line of a grade: ✓, ✗, or – for what was not looked at.

    `ok` is True, False or None in turn. `kind` is the kind of the sanitizer's finding, or `BUDGET`.
    `case` is the name of the case that a ✗ is about, if it is about one.
    """

    ok: bool | None
    text: str
    kind: str = ""
    case: str = ""

    def __str__(self) -> str:
        return f"{_MARKS[self.ok]} {self.text}".replace("\n", "\n  ")


@dataclass(frozen=True, repr=False)
class Grade:
    """The answer to an attempt. Prints as its verdict, a line per question, and a hint.

    Attributes
    ----------
    exercise : Exercise
    lines : tuple of GradeLine
    reached : tuple of float
        The number reached for each goal; NaN where nothing was counted.
    untouched : bool
        Whether the attempt is the starting code.
    mistake : str
        The sentence for a typical mistake, if the attempt makes one; else empty.
    is_vague : bool
        Whether that sentence fits attempts of many kinds.
    place : str
        Where the number of a missed goal comes from: `labkit.exercises.misses`; of a race, where no
        barrier stands; or empty.
    advice : str
        The last paragraph: a hint, or what to do next.
    """

    exercise: Exercise
    lines: tuple[GradeLine, ...]
    reached: tuple[float, ...] = ()
    untouched: bool = False
    mistake: str = ""
    is_vague: bool = False
    place: str = ""
    advice: str = ""

    @property
    def passed(self) -> bool:
        """Whether every line is ✓, and the attempt is not the starting code."""
        return all(line.ok for line in self.lines) and not self.untouched

    @property
    def verdict(self) -> str:
        """The first line: "goal met", "goal missed", "not right yet", or `UNTOUCHED` for the starting code."""
        if self.passed:
            return "goal met"
        if self.untouched:
            return UNTOUCHED
        # the last lines are the goals'
        before_goals = self.lines[: len(self.lines) - len(self.exercise.goals)]
        # `BUDGET`: more changed lines than permitted are not wrong
        wrong = any(line.ok is False and line.kind != BUDGET for line in before_goals)
        return WRONG if wrong else "goal missed"

    @property
    def long(self) -> bool:
        """Whether all goals are met, but with more changed lines than the exercise permits."""
        # a kernel that is wrong in another way has no ✓ at its goals: they are not counted
        goals = self.lines[len(self.lines) - len(self.exercise.goals) :]  # the last lines
        return not self.passed and all(line.ok for line in goals)

    @property
    def thread_advice(self) -> str:
        """A sentence about wrong results without a known cause: which thread to follow, and how; else ""."""
        return "" if self.mistake else _suggest_thread(self)

    @property
    def wants_hint(self) -> bool:
        """Whether the attempt unlocks a hint: the grade does not say what to do, or only which thread to follow."""
        return bool(self.thread_advice) or not (self.verdict == WRONG or self.long or self.mistake)

    def __repr__(self) -> str:
        head = f"{self.exercise.number} {self.exercise.title}: {self.verdict}"
        return "\n".join(
            [head, *map(str, self.lines), *filter(None, [self.mistake or self.advice])]
        )

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"

    def _ipython_display_(self) -> None:
        """Show nothing: `grade` has printed it already."""


@dataclass(frozen=True)
class ChildResult:
    """The results that a child process has left behind."""

    # its exit status; `problem` is "failed with exit status 1" or the like, as the end of a
    # sentence
    ended: Ended
    # Marks of `labkit.exercises.grader`, {"mark": "case", "case": "layer 1"}, and the engine's
    # records of launches, {"kernel": "conv", "counts": {metric: number}, "findings": [{"kind":
    # "race", "line": 12, ...}], ...}, in order.
    events: list[dict]
    # For every case of the exercise and each of its runs, the arrays that the kernel wrote, by
    # their names.
    arrays: list[list[dict[str, np.ndarray]]]


def judge(exercise: Exercise, source: str, result: ChildResult) -> Grade:
    """Return the grade of an attempt with this source text, from what its child process left behind."""
    # whether it compiles, ends, is clean under the sanitizer and is right, up to the first ✗
    lines = _answer_questions(exercise, source, result)
    counts = {}
    if all(line.ok for line in lines):  # else the kernel is wrong: its counts mean nothing
        # of each case, and of the text itself: {"layer 1": {...}, SOURCE: {"floats": 2, ...}}
        counts = {**_collect_numbers(exercise, result), SOURCE: count_features(code_only(source))}
    reached = tuple(goal.number(counts) if counts else float("nan") for goal in exercise.goals)
    failed = next((line.text for line in lines if line.ok is False), "")
    attempt = Attempt(code_only(source), counts, _list_kinds(result), failed)
    budget = []
    changed = changed_lines(code_lines(exercise.start), code_lines(source))
    if exercise.lines is not None and counts:
        text = f"{BUDGET}: {changed}, wanted at most {exercise.lines}"
        if changed > exercise.lines and any(count_lines(line) > 1 for line in code_lines(source)):
            text += f"; a line counts once per {LINE} characters"
        budget = [GradeLine(changed <= exercise.lines, text, BUDGET)]
    lines += [*budget, *list_goal_lines(exercise, reached)]
    if not changed:
        return Grade(exercise, tuple(lines), reached, untouched=True)
    # the sentence for a typical mistake, and whether it fits attempts of many kinds
    mistake, is_vague = next(_list_mistakes(exercise, attempt, lines), ("", False))
    place = ""  # else sentences about the lines from which a missed goal, or a race, comes
    if not mistake:
        race = next((line.text for line in lines if line.kind == "race"), "")
        place = (
            explain_miss(exercise, source, result.events, counts, reached)
            if counts
            else explain_race(race, source)
        )
    return Grade(exercise, tuple(lines), reached, mistake=mistake, is_vague=is_vague, place=place)


def judge_numbers(exercise: Exercise, answer: tuple) -> Grade:
    """Return the grade of an answer to an exercise whose subject is `Numbers`: nothing is run."""
    counts = exercise.subject.counts(answer)
    reached = tuple(goal.number(counts) for goal in exercise.goals)
    untouched = repr(answer) == repr(exercise.subject.start)
    lines = tuple(list_goal_lines(exercise, reached))
    # without a text: the mistakes of numbers look at the counts alone
    mistake = "" if untouched else find_mistake(exercise, Attempt("", counts), lines)
    # The solution reversed; but one that reads the same both ways is right.
    if not untouched and len(answer) > 1 and answer[::-1] == exercise.subject.solution() != answer:
        names = ", ".join(inspect.signature(exercise.subject.count).parameters)
        mistake = f"These are the right numbers in the other order: the answer is {names}."
    return Grade(exercise, lines, reached, untouched, mistake)


def code_lines(source: str) -> list[str]:
    """Return the lines of a source that hold code, without comments."""
    return [line for line in code_only(source).splitlines() if line.strip()]


def list_goal_lines(exercise: Exercise, reached: Sequence[float]) -> Iterator[GradeLine]:
    """Yield the grade's line for each goal; `reached` has a number per goal, NaN for one that was not counted."""
    for goal, got in zip(exercise.goals, reached, strict=True):
        if math.isnan(got):
            yield GradeLine(  # None: neither ✓ nor ✗
                None, f"{goal.what}: not counted, because of the above; wanted {goal.wanted}"
            )
        # a goal returns infinity, of the sign that misses it, for an attempt that does other work
        elif math.isinf(got) and not goal.met(got):
            why = f"not counted, because the work takes {goal.least}, and this code does not"
            yield GradeLine(False, f"{goal.what}: {why}; wanted {goal.wanted}")
        else:
            yield GradeLine(
                goal.met(got), f"{goal.what}: {goal.describe(got)}, wanted {goal.wanted}"
            )


def find_mistake(exercise: Exercise, attempt: Attempt, lines: Sequence[GradeLine]) -> str:
    """Return the sentence for the first typical mistake that the attempt makes, or "".

    `lines` are those of its grade. "" also if nothing in them is missed, or the number of changed lines
    alone; or if the text, or a statement of it, is very long.
    """
    return next((sentence for sentence, _ in _list_mistakes(exercise, attempt, lines)), "")


def _list_mistakes(
    exercise: Exercise, attempt: Attempt, lines: Sequence[GradeLine]
) -> Iterator[tuple[str, bool]]:
    """Yield (sentence, whether it fits attempts of many kinds) of each mistake of the attempt: first those that do not.

    The parameters are those of `find_mistake`.
    """
    if all(line.ok or line.kind == BUDGET for line in lines) or not is_explained(attempt.source):
        return
    start, solution = map(code_only, (exercise.start, exercise.solution))
    right_lines = [*start.splitlines(), *solution.splitlines()]

    def describe_own(vague: bool) -> Iterator[str]:
        """Yield the sentences of the exercise's own mistakes that fit, vague ones or the others."""
        return (
            mistake.describe(attempt)
            for mistake in exercise.mistakes
            if mistake.vague == vague and mistake.when(attempt)
        )

    for sentence in itertools.chain(
        list_causes(attempt, right_lines),
        describe_own(vague=False),
        list_unused(attempt, right_lines),
        list_slips(attempt, solution),
    ):
        yield sentence, False
    for sentence in describe_own(vague=True):
        yield sentence, True


def collect_marks(result: ChildResult) -> dict[str, dict]:
    """Map the name of each mark of the child process, "compile", "case" or "done", to its last event, a dict."""
    return {event["mark"]: event for event in result.events if "mark" in event}


def _list_kinds(result: ChildResult) -> tuple[str, ...]:
    """Return the kinds of the sanitizer's findings; only a divergent barrier if there is one, as it causes others."""
    kinds = tuple(
        finding["kind"] for record in list_records(result) for finding in record["findings"]
    )
    return (_DIVERGENT,) if _DIVERGENT in kinds else kinds


def list_records(result: ChildResult) -> list[dict]:
    """Return the engine's records of the launches: events that are not marks of the grader."""
    return [event for event in result.events if "mark" not in event]


def _answer_questions(exercise: Exercise, source: str, result: ChildResult) -> list[GradeLine]:
    """Return the grade's lines up to the first ✗: whether the attempt compiles, ends, is clean and is right."""
    text = source.splitlines()
    # The mark has the compiler's output, "text", and "filled": whether it can fill unset variables
    # with a pattern.
    host_warnings = collect_marks(result).get("warnings", {})
    messages = parse_messages(host_warnings.get("text", ""), text)
    unset = [message for message in messages if "uninitialized" in message.text]
    # "may be used uninitialized" is a guess: with the pattern, a wrong result shows whether the
    # variable was read.
    is_doubtful = host_warnings.get("filled") and all(
        "may be used" in warning.text for warning in unset
    )
    if problem := _find_problem(source, result, [] if is_doubtful else unset):
        return [replace(problem, case=collect_marks(result).get("case", {}).get("case", ""))]
    clean_line = GradeLine(True, f"clean under {', '.join(TOOLS)}")
    for case, runs in zip(exercise.subject.cases, result.arrays, strict=True):
        try:
            exercise.subject.compare(source, case, runs)
        except CheckFailed as wrong:
            texts = filter(None, ["right", _shorten(str(wrong)), format_messages(unset, text)])
            return [clean_line, GradeLine(False, "\n".join(texts), case=case.name)]
        except (ValueError, KeyError, IndexError):  # a run has left no array, or a damaged one
            return [
                clean_line,
                GradeLine(
                    False, f"runs to its end\nit left no result for {case.name}: grade it again"
                ),
            ]
    hidden = sum(not case.counted for case in exercise.subject.cases)
    counted = [case.name for case in exercise.subject.cases if case.counted]
    hidden_shapes = [f"{hidden} hidden shape{'s' * (hidden != 1)}"] if hidden else []
    return [clean_line, GradeLine(True, f"right on {join_words([*hidden_shapes, *counted])}")]


def _find_problem(source: str, result: ChildResult, unset: Sequence[Message]) -> GradeLine | None:
    """Return the grade's line for the first fault before results are compared, or None.

    `unset` are the compiler's warnings about variables without a value. The child process leaves
    the mark "compile" if the compiler refuses the text, "endless" after the time limit of a case,
    "failed" after an error, else "done".
    """
    text, notes = source.splitlines(), collect_marks(result)
    if "compile" in notes:
        output = notes["compile"]["text"]
        return GradeLine(False, f"compiles\n{format_errors(output, text) or output.strip()}")
    if unset:
        return GradeLine(
            False, f"every variable has a value before it is read\n{format_messages(unset, text)}"
        )
    if sums := find_unset_sums(code_only(source)):
        line = next((n for n, row in enumerate(text, 1) if sums[0] in row), 0)
        message = (
            f"line {line}: it is added to, but nothing sets it to zero: write = {{}}\n    {sums[0]}"
        )
        return GradeLine(False, f"every variable has a value before it is read\n{message}")
    if all_findings := findings.list_findings(list_records(result)):
        # a divergent barrier first, it causes others: False is less than True
        finding = min(all_findings, key=lambda candidate: candidate["kind"] != _DIVERGENT)
        finding["line"] = finding["line"] or 0  # None where the place in the source is not known
        return GradeLine(
            False,
            f"clean under {', '.join(TOOLS)}\n{_describe_finding(finding, text)}",
            finding["kind"],
        )
    if "endless" in notes:
        where = f"on {notes['endless']['case']} it was still running after {RUN_S:.0f} s"
        return GradeLine(
            False,
            f"ends\n{where}: a loop does not end, or prints or "
            "allocates too much, or threads wait for each other",
        )
    if "failed" in notes:
        # "fault": a kernel or the driver failed; else the lab has refused the attempt
        failed = notes["failed"]
        return GradeLine(
            False,
            f"{'runs' if failed['fault'] else 'is what the exercise asks for'}\n{failed['text']}",
        )
    if "done" not in notes:
        problem = (
            result.ended.problem
            or "ended before the grader had finished: a kernel may not call exit"
        )
        return GradeLine(False, f"runs to its end\nit {problem}")
    return None


def _describe_finding(finding: Mapping, text: list[str]) -> str:
    """Return a sanitizer's finding as text: kind, line, message, code, thread; `text` lists the lines of the source."""
    place = f"line {finding['line']}" if finding["line"] else f"in {finding['kernel']}"
    lines = [
        f"{finding['kind']}, {place}: {finding['message'].removeprefix(finding['kind'] + ', ')}"
    ]
    if 1 <= finding["line"] <= len(text):
        lines.append(f"    {text[finding['line'] - 1].strip()}")
    if isinstance(finding["thread"], (tuple, list)):
        block, thread = (", ".join(map(str, finding[name])) for name in ("block", "thread"))
        lines.append(f"  thread ({thread}) of block ({block})")
    other_access = finding["other"]  # of a race
    if isinstance(other_access, dict) and (line := other_access.get("line")):
        lines.append(
            f"  and line {line}: {text[line - 1].strip()}"
            if line <= len(text)
            else f"  and line {line}"
        )
    return "\n".join(lines)


def _shorten(message: str) -> str:
    """Return the message about wrong outputs with only the first two rows of its table, if it has one.

    The message of `compare` ends "The first 8:", then the table's heading, "b  m  h  w  got ...", and a row per output.
    """
    lines = re.sub(r"(?m)^The first \d+:$", "The first two:", message).splitlines()
    heads = [i for i, line in enumerate(lines) if line.split()[:4] == ["b", "m", "h", "w"]]
    return "\n".join(lines[: heads[0] + 3] if heads else lines)


def _collect_numbers(exercise: Exercise, result: ChildResult) -> dict[str, dict[str, float]]:
    """Map the name of each case to its numbers by name: `_sum_counters`, and what the subject measures from results."""
    numbers = _sum_counters(exercise, result.events)
    for case, runs in zip(exercise.subject.cases, result.arrays, strict=True):
        if measured := exercise.subject.measure(case, runs):
            numbers.setdefault(case.name, {}).update(measured)
    return numbers


def _sum_counters(exercise: Exercise, events: Sequence[dict]) -> dict[str, dict[str, float]]:
    """Sum the counters of each counted case, and of each of its kernels, over the launches.

    Returns "layer 1" and "layer 1, gemm" -> friendly name of a counter -> sum. `events` has a mark
    before the launches of each case. NAMES maps a friendly name to the metric in an event's
    "counts", SUMS to the counters that it adds up, QUOTIENTS to (dividend, divisor).
    """
    counted = {case.name for case in exercise.subject.cases if case.counted}
    sums: dict[str, dict[str, float]] = {}
    case = None
    for event in events:
        if event.get("mark") == "case":
            case = event["case"]
        elif "mark" not in event and case in counted:  # the record of a launch
            for key in (case, f"{case}, {event['kernel']}"):
                counters = sums.setdefault(key, {"launches": 0})
                counters["launches"] += 1
                for name, metric in NAMES.items():
                    counters[name] = counters.get(name, 0) + (event["counts"].get(metric) or 0)
    for counters in sums.values():
        for name, summands in SUMS.items():
            counters[name] = sum(counters[summand] for summand in summands)
        _add_atomics(counters)
        for name, (dividend, divisor) in QUOTIENTS.items():
            counters[name] = (
                counters[dividend] / counters[divisor] if counters[divisor] else float("nan")
            )
    return sums


def _add_atomics(counters: dict[str, float]) -> None:
    """Count atomics as loads and stores, too, so that ``atomicAdd(p, 0)`` meets no goal for loads; change `counters`.

    On global memory, an atomic is a store, and also a load if its old value is used; it always
    counts as a reduction. On shared memory, an atomic is a load and a store.
    """
    for figure in ("requests", "sectors", "lines"):
        with_result, without_result = counters[f"atomic_{figure}"], counters[f"reduction_{figure}"]
        counters[f"global_load_{figure}"] += with_result
        counters[f"global_store_{figure}"] += with_result + without_result
        counters[f"reduction_{figure}"] += with_result
    requests, wavefronts = counters["shared_atomic_requests"], counters["shared_atomic_wavefronts"]
    for kind in ("load", "store"):
        counters[f"shared_{kind}_bytes"] += counters["shared_atomic_bytes"]
    for kind in ("shared", "shared_load", "shared_store"):
        counters[f"{kind}_instructions"] += requests
        counters[f"{kind}_wavefronts"] += wavefronts
        counters[f"{kind}_conflicts"] += wavefronts - requests


def write_advice(grade: Grade, due_hint: int, solution_call: str, times: str) -> str:
    """Return the last paragraph of a grade: a hint, or what to do next; "" if there is nothing to say.

    Parameters
    ----------
    grade : Grade
    due_hint : int
        The number of the hint that is due, from 1; 0 if none is due, as for the first wrong result
        whose thread the reader can follow.
    solution_call : str
        The call that shows the lab's own solution, 'lab.solution("04a")', or "".
    times : str
        A sentence with recorded times, for an attempt that has reached the goal; or "".
    """
    exercise, to_follow = grade.exercise, grade.thread_advice
    if grade.untouched:
        return ""
    # What is wrong gets no hint, but a thread to follow or a question about the finding. Hints
    # follow when a result is wrong again, and its thread was shown before.
    if grade.verdict == WRONG and not (to_follow and due_hint):
        return to_follow or ask_about_finding(grade)
    if grade.long:
        return (
            "The goal is met, with more lines than it takes: which of them can stay as they were?"
        )
    if grade.passed:
        return " ".join(
            filter(None, [f"The lab's own: {solution_call}." if solution_call else "", times])
        )
    # The goal is missed, or a result is wrong again: the next hint, at last the last one. Before it
    # stands what is known of this attempt.
    known = grade.place or to_follow
    if not exercise.hints:
        return known
    due, count = min(due_hint, len(exercise.hints)), len(exercise.hints)
    end = (
        f" There is no other; {solution_call} is the lab's own."
        if solution_call and due == count
        else ""
    )
    hint = f"Hint {due} of {count}: {exercise.hints[due - 1]}{end}"
    return f"{known}\n{hint}" if known else hint


def ask_about_finding(grade: Grade) -> str:
    """Return what is known of the place of a finding, or a question that helps to find its cause; "" without one."""
    # `_LOOK`: kind of a finding of the sanitizer, "race" -> a question about it
    return next(
        (grade.place or _choose_question(line) for line in grade.lines if line.kind in _LOOK), ""
    )


def _suggest_thread(grade: Grade) -> str:
    """Return advice for wrong results: which thread or element to follow, and how; "" for any other grade."""
    # Below "right", such a line has the message of the subject's comparison: a table of outputs b,
    # m, h, w for a kernel in place of a rung's; "y, 3 rows of 100, is wrong: 4 of 300 elements. The
    # first, [2, 31]: nan" for others.
    text = next(
        (line.text for line in grade.lines if line.ok is False and line.text.startswith("right\n")),
        "",
    )
    if match := _FIRST_OUTPUT.search(text):
        b, m, h, w = map(int, match.groups())
        launch = grade.exercise.subject.last_launch(text)
        # An image beyond the first, or another mapping than the starting code's: the thread is not
        # known.
        if b > 0 or grade.exercise.subject.moves or not (owner := _find_owner(launch, m, h, w)):
            return (
                f"Which thread of which block should store y[{b}, {m}, {h}, {w}]? Follow it through the kernel: "
                "lab.step(mine, thread=(x, y), block=(x, y)) shows a thread line by line."
            )
        thread, block = owner
        kernel = f', kernel="{launch.kernel}"' if launch.kernel != "conv" else ""
        return (
            f"By the starting code's indices, thread {thread} of block {block} computes the first of these. Follow "
            f"it: what should it load and store?\nlab.step(mine, thread={thread}, block={block}, "
            f"layer=lab.{launch.layer}{kernel})"
        )
    if "1 of 1 elements" in text and "no thread has stored" not in text:  # a sum of all inputs
        return (
            "Which threads take part in this one result, and which inputs does each of them take? Try it with a "
            "few inputs more than there are threads: is each input taken exactly once?"
        )
    if times := re.search(r"each wrong one is (\d+) times the right one", text):
        return (
            f"What belongs to such an element is added {times[1]} times: do {times[1]} threads, warps or blocks take "
            "the same, or does a loop repeat it?"
        )
    match = re.search(r"The first, (\[[\d, ]+\]): ([-\w.]+)", text)
    if match and match[2] in ("nan", "inf", "-inf") and "no thread has stored" not in text:
        return (
            f"A thread stores {match[2]} to element {match[1]}. x / 0 and exp of a large number are inf; 0 / 0, "
            "inf - inf and inf / inf are nan. Go through the kernel for this element: which number is the first "
            "that is 0, inf or nan and should not be?"
        )
    if match and "It looks as if" not in text:
        return (
            f"Which thread should store element {match[1]}, or add to it? Write down blockIdx and threadIdx, and "
            "go through the kernel with these numbers: what does it load, and where does it store?"
        )
    return ""


def _find_owner(
    launch: LastLaunch, m: int, h: int, w: int
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return (thread, block), each as (x, y), of the output m, h, w of the first image.

    The mapping is recognized by the size of the grid. None if it is neither of these two: a block
    is a tile of a map, with the tiles side by side in blockIdx.x; or a tile of the matrix
    [M,Ho*Wo].
    """
    (x, y, _), (M, Ho, Wo), pixel = launch.block, launch.outputs, h * launch.outputs[2] + w
    blocks_across = -(-Wo // x)  # rounded up
    if tuple(launch.grid[:2]) == (blocks_across * -(-Ho // y), M):
        return (w % x, h % y), (h // y * blocks_across + w // x, m)
    if tuple(launch.grid[:2]) == (-(-Ho * Wo // x), -(-M // y)):
        return (pixel % x, m % y), (pixel // x, m // y)
    return None


def _choose_question(line: GradeLine) -> str:
    """Return the question that helps to find the cause of a line's finding; shared memory has one of its own."""
    shared = line.kind == "out of bounds" and re.search(
        "__shared__ array|dynamic shared memory", line.text
    )
    return _LOOK_SHARED if shared else _LOOK[line.kind]
