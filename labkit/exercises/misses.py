"""Say what makes a right kernel miss a goal: the lines in which the goal's number is counted, and how often.

All that is said follows from the engine's counts of this attempt, so it holds for any kernel.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hostcuda.metrics import COUNTERS, SUMS
from hostcuda.source import code_only
from labkit.exercises.exercise import (
    SOURCE,
    Bound,
    Counts,
    Exercise,
    Goal,
    format_number,
    join_words,
    name_counter,
)
from labkit.exercises.text import EXPLAINED, count_features, find_condition_slip, find_other_lines

_WARP, _SECTOR = 32, 32  # threads; bytes
_MOST_LINES = 3  # of the attempt that are named
_MOST_TRIED = 20  # lines that are taken out of a text: a hand-in may have a thousand
_LEAST_SHARE = 0.1  # of the number: lines with less are not named
_NEAR = 1.05  # times the least units per request: up to it an access is called as good as possible
# Atomic operations count as loads and stores, too: see `labkit.exercises.judge`.
_OPERATIONS = {
    ("global", "ld"): {"ld", "atom"},
    ("global", "st"): {"st", "atom", "red"},
    ("global", "red"): {"red", "atom"},
    ("shared", "ld"): {"ld", "atom"},
    ("shared", "st"): {"st", "atom"},
}
_UNITS = {"global": "sectors", "shared": "wavefronts", "constant": "wavefronts"}
_ACCESSES = {"ld": "load", "st": "store", "atom": "atomic operation", "red": "atomic operation"}
_BARRIERS = {"barriers", "block_barriers", "named_barriers"}
_BARRIER = re.compile(r"__sync\w*\(|\bbar(?:rier)?\.(?:cta\.)?\w+|\bsync(?:_\w+)?\(")
_COUNTERS = {counter.name: counter for counter in COUNTERS}


@dataclass
class _LineCount:
    """What the accesses of one line add to a number, and what they take: all sums over the launches."""

    number: float = 0
    requests: float = 0
    units: float = 0
    least_units: float = 0
    bytes: float = 0
    sector_bytes: float = 0  # of global memory
    access: str = ""


def explain_miss(
    exercise: Exercise,
    source: str,
    events: Sequence[Mapping],
    counts: Mapping[str, Counts],
    reached: Sequence[float],
) -> str:
    """Return sentences about the first goal that is not met: where its number comes from; or "".

    "" also of a very long text, in which patterns could search for hours.

    Parameters
    ----------
    exercise : Exercise
    source : str
        The attempt.
    events : sequence of mapping
        The grader's marks and the engine's records of launches, as `labkit.exercises.judge` gets
        them.
    counts : mapping of str to counts
        The counts of each case.
    reached : sequence of float
        The number for each goal.
    """
    if len(source) > EXPLAINED:
        return ""
    # the numbers that the starting code reaches, None where nothing could be counted
    starts = exercise.start_reaches or (None,) * len(exercise.goals)
    for goal, number, start in zip(exercise.goals, reached, starts, strict=True):
        if goal.met(number) or math.isnan(number):
            continue
        sentences = [*_compare_with_start(goal, number, start)]
        if math.isinf(number):  # the attempt does other work than the exercise asks for
            broken = [bound for bound in goal.bounds if not bound.holds(counts[goal.on])]
            # the first limit alone: the others may follow from it
            sentences += [
                _describe_bound(bound, goal.on, counts, source, events) for bound in broken[:1]
            ]
        elif goal.at_least is None:  # lines can be named for what is too much, not for what lacks
            is_too_much = goal.at_most is not None or number > goal.exactly
            sentences += _name_lines(goal, source, events, counts) if is_too_much else []
        sentences += _compare_with_solution(exercise, source)
        return " ".join(sentences)
    return ""


def _compare_with_start(goal: Goal, number: float, start: float | None) -> Iterator[str]:
    """Yield a sentence if the number is not nearer to the goal than `start`, that of the starting code."""
    if start is None or math.isinf(number):
        return
    if math.isclose(number, start, rel_tol=1e-6):
        yield "The starting code reaches the same number: your change does not alter it."
        return
    if goal.exactly is not None:
        is_worse = abs(number - goal.exactly) > abs(start - goal.exactly)
    else:
        is_worse = number < start if goal.at_least is not None else number > start
    if is_worse:
        yield f"The starting code reaches {format_number(start)}: your change makes this number worse."


def _compare_with_solution(exercise: Exercise, source: str) -> Iterator[str]:
    """Yield a sentence if the attempt is the solution but for one or two lines that the reader has written."""
    others = find_other_lines(code_only(source), code_only(exercise.solution))
    start = {"".join(line.split()) for line in code_only(exercise.start).splitlines()}
    if others and not any("".join(words) in start for _, words, _ in others):
        where = " and ".join(str(number) for number, *_ in others)
        which = f"lines {where} are" if others[1:] else f"line {where} is"
        yield f"Only {which} not as in a solution."
        if not others[1:] and (slip := find_condition_slip(*others[0][1:])):
            yield f"It {slip}"


def _describe_bound(
    bound: Bound,
    on: str,
    counts: Mapping[str, Counts],
    source: str,
    events: Sequence[Mapping],
) -> str:
    """Return the sentence for a limit that the attempt does not keep to."""
    number = counts[on].get(bound.counter, 0.0)
    made = f"your kernel makes {format_number(number) if number else 'none'}"
    if bound.of:
        made += f", and {format_number(counts[on].get(bound.of, 0.0))} {name_counter(bound.of)}"
    sentence = f"The work takes {bound}; {made}."
    lines = "" if bound.is_least else _list_lines((bound.counter,), on, source, events)
    return f"{sentence} {lines}".strip()


def _name_lines(
    goal: Goal, source: str, events: Sequence[Mapping], counts: Mapping[str, Counts]
) -> Iterator[str]:
    """Yield the sentence that names the lines in which the number of a goal is counted."""
    if _BARRIERS & {*goal.counters}:
        yield from _name_barriers(source)
    elif lines := _list_lines(goal.counters, goal.on, source, events):
        yield lines
    elif goal.on == SOURCE:
        yield from _name_features(goal, source, counts)


def _list_lines(counters: Sequence[str], on: str, source: str, events: Sequence[Mapping]) -> str:
    """Return a sentence with the lines that add most to counters, or "" if no line is known."""
    names = [name for counter in counters for name in SUMS.get(counter, (counter,))]
    text, lines = source.splitlines(), defaultdict(_LineCount)
    launches = [*_list_launches(events, on)]
    for event in launches:
        for site in event.get("sites", ()):
            for name in names:
                _add_site(lines[_find_line(site, len(text))], site, name)
    total = sum(line.number for line in lines.values())
    named = sorted(
        (
            (count.number, number)
            for number, count in lines.items()
            if number and count.number and count.number >= _LEAST_SHARE * total
        ),
        reverse=True,
    )[:_MOST_LINES]
    if not named:
        return ""
    what = f"{' and '.join(dict.fromkeys(map(name_counter, counters)))} of {on}"
    number, line = named[0]
    figure = _COUNTERS[names[0]].figure if names[0] in _COUNTERS else ""
    warps = sum(
        math.prod(event["grid"]) * math.ceil(math.prod(event["block"]) / _WARP)
        for event in launches
    )
    if number == total:
        return f"Line {line} makes all {format_number(total)} {what}{_describe(lines[line], figure, warps)}."
    parts = [
        f"line {line} makes {format_number(number)}{_describe(lines[line], figure, warps)}"
        for number, line in named
    ]
    return f"Of the {format_number(total)} {what}, {join_words(parts)}."


def _list_launches(events: Sequence[Mapping], on: str) -> Iterator[Mapping]:
    """Yield the engine's records of the launches of a case, or of one kernel of it: "layer 1, gemm"."""
    case = None
    for event in events:
        if event.get("mark") == "case":
            case = event["case"]
        elif "mark" not in event and on in (case, f"{case}, {event['kernel']}"):
            yield event


def _find_line(site: Mapping, lines: int) -> int:
    """Return the number of an access's line in the attempt; 0 if it is in a header, or not known."""
    line, file = site.get("line") or 0, site.get("file") or ""
    return line if 0 < line <= lines and not file.endswith((".cuh", ".h")) else 0


def _add_site(line: _LineCount, site: Mapping, name: str) -> None:
    """Add an access to the count of its line, if it is one of those that the counter `name` counts."""
    counter = _COUNTERS.get(name)
    if counter is None or counter.space != site["space"]:
        return
    operations = _OPERATIONS.get((counter.space, counter.op), {counter.op} if counter.op else None)
    if operations and site["op"] not in operations:
        return
    units = site.get(_UNITS.get(counter.space, "requests"), site["requests"])
    number = {"units": units, "extra": site.get("conflicts", 0)}.get(
        counter.figure, site.get(counter.figure, 0)
    )
    line.number += number
    line.requests += site["requests"]
    line.units += units
    line.bytes += site["bytes"]
    line.access = _ACCESSES[site["op"]]
    if counter.space == "global":
        # a request takes a sector per 32 bytes of its lanes, and at least one
        line.least_units += max(site["requests"], site["bytes"] / _SECTOR)
        line.sector_bytes += units * _SECTOR
    else:
        line.least_units += units - site.get("conflicts", 0)


def _describe(line: _LineCount, figure: str, warps: int) -> str:
    """Return, in parentheses, how often a warp makes an access of a line, or how far it is from the best one.

    `figure` is what is counted, see `hostcuda.metrics`; "" if there is nothing to say.
    """
    if not line.requests:
        return ""
    if figure == "requests":
        # less than half as many sectors as its lanes' bytes fill
        is_shared = 0 < 2 * line.sector_bytes < line.bytes
        same = "; several lanes load the same numbers" if is_shared else ""
        return f" ({format_number(line.requests / warps)} per warp{same})"
    if line.units <= _NEAR * line.least_units:
        return ""
    units, least = line.units / line.requests, line.least_units / line.requests
    return f" ({format_number(units)} per {line.access}, where {format_number(least)} is possible)"


def _name_barriers(source: str) -> Iterator[str]:
    """Yield a sentence with the lines of the barriers in the attempt."""
    lines = [
        str(number)
        for number, line in enumerate(code_only(source).splitlines(), 1)
        if _BARRIER.search(line)
    ]
    if lines:
        verb = "Barriers are in lines" if lines[1:] else "The barrier is in line"
        yield f"{verb} {join_words(lines)}."


def _name_features(goal: Goal, source: str, counts: Mapping[str, Counts]) -> Iterator[str]:
    """Yield a sentence with the lines that have what is counted, and without which the text would count less."""
    lines = code_only(source).splitlines()
    feature = goal.counters[0]
    total = counts[SOURCE][feature]
    with_feature = [
        place
        for place, line in enumerate(lines)
        if count_features(f"for (;;) {{\n{line}\n}}")[feature]
    ]
    blamed = []
    for place in with_feature[:_MOST_TRIED]:
        braces = re.sub(r"[^{}]", " ", lines[place])  # they stay, so that loops end where they did
        others = "\n".join([*lines[:place], braces, *lines[place + 1 :]])
        if count_features(others)[feature] < total:
            blamed.append(str(place + 1))
    if blamed:
        others = ["others"] if blamed[_MOST_LINES:] else []
        verb = "are lines" if blamed[1:] else "is line"
        yield f"Counted {verb} {join_words([*blamed[:_MOST_LINES], *others])}."
