"""Grade attempts: say what is right, what is wrong and where, goal by goal."""

import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hostcuda.errors import EngineError
from labkit.base.errors import CheckFailed, LabError
from labkit.base.numerals import format_digits
from labkit.base.progress import show_progress
from labkit.exercises import progress
from labkit.exercises.attempts import grade_source, map_in_parallel, run_texts
from labkit.exercises.differences import apply, list_lines
from labkit.exercises.exercise import Exercise, exercise, format_number
from labkit.exercises.judge import (
    WRONG,
    Grade,
    GradeLine,
    ask_about_finding,
    code_lines,
    judge_numbers,
    write_advice,
)
from labkit.exercises.mutations import list_mutations
from labkit.exercises.repairs import describe_repair, find_repair
from labkit.exercises.subjects import InPlaceOf, Numbers
from labkit.exercises.text import is_explained
from labkit.ladder.variants import solution, variant, variants
from labkit.measure.check import check
from labkit.records.recorded import recorded
from labkit.spec.devices import device
from labkit.spec.layers import LENET72, LENET86

_RECORDED = "H200"  # the device whose times stand in where there is no GPU
# for the search for lines that have to change; if the mistake is known; for one text
_SECONDS, _SECONDS_TOLD, _SECONDS_TEXT = 40.0, 10.0, 30.0
_SECONDS_MISSED = 20.0  # if the results are right, and a goal is missed


def grade(
    which: str | Path,
    *attempt: object,
    quiet: bool = False,
    record: bool = True,
    seed: str = "",
    search: bool = True,
) -> Grade:
    """Grade an attempt at an exercise, print the answer, and note it in the reader's progress.

    The sanitizer's tools look first. Then the results are compared on shapes that the page does not
    name: integers have to be exact, real numbers within their rounding. Then the goals are counted.
    The CPU engine does all of this, on every machine alike. Where there is a GPU, the kernel is
    checked there, too.

    Parameters
    ----------
    which : str or Path
        The number of the exercise on its page, "04a"; or the folder of an added exercise.
    *attempt
        A variant or a module of a kernel cell, the path of a .cu file, or its text. The numbers,
        for an exercise that is answered by numbers.
    quiet : bool
        Print nothing.
    record : bool
        Note it in the progress, and give the hint that is due; if False, give the first hint.
    seed : str
        The seed of the inputs and of a hidden shape, by default from the attempt's text: the same
        text gets the same answer, and no text can hold the results of inputs that follow from it.
    search : bool
        Look for the lines of a wrong kernel that have to change, if no sentence names one: change
        parts of it and run it again, for up to 40 seconds. Ctrl-C ends the search.

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
    task = exercise(which)
    if isinstance(task.subject, Numbers):
        result = judge_numbers(task, attempt)  # it refuses what is no number, and too large ones
        source = repr(attempt)
    else:
        if len(attempt) != 1:
            raise LabError(
                f'exercise {task.number} is answered by one kernel: grade("{task.key}", mine)'
            )
        source = task.attempt(attempt[0])
        result = grade_source(task, source, seed)
        if search:
            result = _add_repair(task, source, result)
        if result.passed and isinstance(task.subject, InPlaceOf) and device().engine == "gpu":
            result = _check_on_gpu(result, source)
    # a passed grade becomes a missed goal if the page asks to predict its number, and the reader has not
    result = _require_prediction(result)
    # if the cell has only a part of the kernel: with which line of the whole kernel it begins
    result = _note_first_line(replace(result, advice=_write_advice(result, source, record)), source)
    if not quiet:
        print(result)
    return result


def _note_first_line(result: Grade, source: str) -> Grade:
    """Return a grade that names lines with the number of the cell's first line, if the cell has only a part.

    A cell with ``--part`` has some functions of the source, and lines are those of the source. Its
    first line is kept as a comment.
    """
    first = next(
        (n for n, line in enumerate(source.splitlines(), 1) if line.startswith("// %%kernel")), 1
    )
    if first == 1 or not _names_line(str(result)):
        return result
    note = f"(Lines are those of the whole kernel: line 1 of your cell is line {first} there.)"
    if result.mistake:
        return replace(result, mistake=f"{result.mistake}\n{note}")
    return replace(result, advice=f"{result.advice}\n{note}".strip())


def _add_repair(exercise: Exercise, source: str, result: Grade) -> Grade:
    """Return a grade with the lines of the attempt that have to change, if they are not named and trials find them.

    The search is shorter where the attempt got a sentence of its own. The grade is unchanged where
    the attempt is right or does not compile, where there is no solution, and after Ctrl-C.
    """
    is_told = result.mistake and not result.is_vague
    is_wrong, wrong = (
        result.verdict == WRONG,
        next((x for x in result.lines if x.ok is False), None),
    )
    if (
        (result.passed or result.untouched or result.long or not exercise.solution)
        or (is_told and (not is_wrong or _names_line(result.mistake)))
        or (is_wrong and (wrong.text.startswith("compiles") or not wrong.case))
        or not is_explained(source)
    ):
        return result
    # "It looks as if the last tile is left out": a cause is known, too. Not so "1700 outputs were not written".
    is_known = is_told or (is_wrong and re.search(r"It looks as if (?!\d|nothing)", wrong.text))
    seconds = _SECONDS if is_wrong else _SECONDS_MISSED
    deadline = time.monotonic() + (_SECONDS_TOLD if is_known else seconds)
    verdicts: dict[str, Grade] = {}  # of the texts that were graded whole

    def is_right(text: str) -> bool:
        """Return whether a text gives right results, or meets the goals, as the attempt does not."""
        if time.monotonic() >= deadline:
            return False
        graded = verdicts[text] = grade_source(exercise, text, limit=_SECONDS_TEXT)
        if graded.untouched:  # the starting code is right, and no step to the goal
            return False
        # beside a sentence, any change that misses the goal may lead away
        if is_wrong and text not in doubtful and not result.mistake:
            return graded.verdict != WRONG
        return graded.passed or graded.long

    def screen(texts: Sequence[str]) -> Iterator[bool]:
        """Yield whether a text may be right: right on the case on which the attempt is wrong; or as `is_right`."""
        if is_wrong:
            return run_texts(result.exercise, wrong.case, texts, deadline)
        return map_in_parallel(is_right, texts)

    failed = " ".join(line.text for line in result.lines if line.ok is False)
    suspects = [
        *map(int, re.findall(r"\d+", " ".join(re.findall(r"lines? (\d+(?:, \d+)*)", failed))))
    ]
    # beside a sentence that is sure, other changes that help would lead away
    mutations = list_mutations(source, suspects, exercise.solution) if not is_told else ()
    # A changed word, of which there is no phrase, may give right results by chance, as by more work: it has to meet
    # the goal, too.
    doubtful = {apply(source, [each]) for each in mutations if not each.phrase}
    with show_progress(None, "looking for the line that has to change"):
        try:
            changes = find_repair(source, exercise.solution, screen, is_right, mutations)
        except KeyboardInterrupt:  # then the answer is what is known up to now
            return result
    # Several lines say less than the next hint about a goal that is missed, or than a sure sentence.
    if not changes or ((is_told or not is_wrong) and len(list_lines(changes)) > 1):
        return result
    graded = verdicts[apply(source, changes)]
    outcome = "the goal is met"
    if is_wrong and not graded.passed:  # `long`: it is met, with more lines than it takes
        outcome = f"the results are right{'' if graded.long else ', but the goal is missed'}"
    sentence = describe_repair(source, changes, outcome)
    if not is_wrong:
        return replace(result, place=f"{result.place} {sentence}".strip())
    known = result.mistake or ask_about_finding(result)
    return replace(result, mistake=f"{known} {sentence}".strip())


def _names_line(sentence: str) -> bool:
    """Return whether a sentence names a line of the attempt."""
    return re.search(r"\b[Ll]ines? \d", sentence) is not None


def _require_prediction(result: Grade) -> Grade:
    """Return a passed grade with ✗ at the first goal whose number the reader should have predicted, and has not.

    `lab.predict(requests=8)` notes predictions, {"requests": 8}, in `progress.predicted`; a goal
    has the name in `goal.predicted`, or "". A grade that is not passed stays as it is.
    """
    goals = [*zip(result.exercise.goals, result.reached, strict=True)]
    # the last lines are the goals'
    for place, (goal, got) in enumerate(goals, len(result.lines) - len(goals)):
        # where no prediction is named or noted, `got` itself: then nothing is asked
        predicted = progress.predicted.get(goal.predicted, got)
        if not result.passed or predicted == got:
            continue
        # the page's cell has `name=...` until the reader writes a number there
        not_shown = predicted is ...
        state = (
            "not shown yet" if not_shown else f"{format_number(got)}, and you predicted {predicted}"
        )
        line = GradeLine(False, f"{goal.what}: {state}; wanted {goal.wanted}")
        remedy = "count before you look" if not_shown else "count again"
        result = replace(
            result,
            lines=(*result.lines[:place], line, *result.lines[place + 1 :]),
            mistake=(
                f"The kernel is right. Now {remedy}, write your number into "
                f"lab.predict({goal.predicted}=...), run that "
                "cell, and grade again."
            ),
        )
    return result


def _write_advice(result: Grade, source: str, record: bool) -> str:
    """Return the last paragraph of a grade; if `record`, note the attempt, whose text is `source`, in the progress."""
    exercise = result.exercise
    if result.untouched:
        return ""
    # the number of the hint that is due; without a record, the first
    hints = 0 if result.thread_advice else 1
    solved = exercise.solution or (
        isinstance(exercise.subject, Numbers) and exercise.subject.solution()
    )
    shown_lines = (
        code_lines(exercise.solution or repr(solved)) if exercise.folder in progress.shown else None
    )
    if record and code_lines(source) == shown_lines:  # `lab.solution` has shown it in this process
        return "This is the lab's own solution: your progress counts what you write yourself."
    if record:
        digest = hashlib.sha256(source.encode()).hexdigest()[:16]
        try:
            key = exercise.number if exercise.of_series else str(exercise.folder)
            # An attempt uses up no hint if its grade says what to do, as in the sentence for a
            # typical mistake.
            hints = progress.note(
                key, digest, result.passed, result.wants_hint, first=not result.thread_advice
            )
        except EngineError as error:
            return f"Not noted in your progress: {error}"
    # the students' edition has none
    solution_call = f'lab.solution("{exercise.key}")' if solved else ""
    return write_advice(
        result, hints, solution_call, describe_times(exercise) if result.passed else ""
    )


def describe_times(exercise: Exercise) -> str:
    """Return a sentence with the recorded times [ms] of the starting code, the solution and the page's kernel.

    On a GPU the sentence says how to measure instead. "" if there are no records for the exercise.
    """
    subject = exercise.subject
    # those with records; only a subject that stands for a page's kernel has layers
    layers = [
        layer for layer in getattr(subject, "layers", {}).values() if layer in (*LENET86, *LENET72)
    ]
    if not layers or not exercise.of_series:
        return ""
    if device().engine == "gpu":
        return "Now measure yours with lab.bench, beside the rung."
    # A rung is a numbered kernel of the lab, on a page of its own. Such an exercise is answered by a
    # kernel in its place: `page` is that rung, `base` the one from which it was developed.
    page, layer, records = variant(subject.name, **subject.options), layers[-1], recorded(_RECORDED)
    base = variant(page.rung.base) if page.rung.base else page  # 03a begins with rung 02
    start = next(  # the kernel whose code is the starting code
        (code for code in (page, base) if code_lines(code.source) == code_lines(exercise.start)),
        page,
    )
    try:
        # the kernel that has the solution's code: one of the rung's, or one for the exercise alone
        kernels = (*variants(subject.name), solution(subject.name, subject.letter))
        solved_kernel = next(
            code for code in kernels if code_lines(code.source) == code_lines(exercise.solution)
        )
        start_ms, solution_ms, rung_ms = (
            records.op_ms(kernel, layer) for kernel in (start, solved_kernel, page)
        )
    except (EngineError, StopIteration):  # not recorded, or the solution is no variant
        return ""
    sentence = (
        ""
        if start is page
        else f" The kernel of the page, {page.label}: {format_digits(rung_ms)} ms."
    )
    return (
        f"On the NVIDIA {_RECORDED}, {layer.name}: {start.label}, where you began, {format_digits(start_ms)} ms; the "
        f"solution {format_digits(solution_ms)} ms.{sentence}"
    )


def _check_on_gpu(result: Grade, source: str) -> Grade:
    """Return the grade with one more line, before those of the goals: whether the kernel is right on this GPU, too."""
    try:
        check(result.exercise.subject.variant(source), quiet=True)
        line = GradeLine(True, f"right on the {device().name}")
    except CheckFailed as wrong:
        line = GradeLine(False, f"right on the {device().name}: {wrong}")
    before_goals = len(result.lines) - len(result.exercise.goals)
    return replace(result, lines=(*result.lines[:before_goals], line, *result.lines[before_goals:]))
