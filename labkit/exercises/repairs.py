"""Find the lines that make an attempt wrong: parts of it become as in the solution, and it is run again.

This is delta debugging between the attempt and the solution (Zeller and Hildebrandt, "Simplifying
and Isolating Failure-Inducing Input", 2002): what is said of a line is shown by a run.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from hostcuda.source import code_only, kernel_names, without_comments
from labkit.exercises.exercise import join_words
from labkit.exercises.text import BARRIER, describe_slip, find_other_lines

_SECONDS = 20.0  # for all trials; one that has begun may end later
_WORKERS = min(4, os.cpu_count() or 1)
_MOST_PARTS = 16  # of an attempt that differ from the solution: with more, it goes another way
_MOST_LINES = 3  # that are named
_STATEMENTS = {
    "for": "a loop",
    "while": "a loop",
    "if": "a condition",
    "{": "a brace",
    "}": "a brace",
}
_CHANGE = "with a change"  # where it stands in is not known
_QUOTED = 60  # characters of a line that are quoted
# a word of C++; a string is one word
_WORD = re.compile(r'"(?:[^"\\\n]|\\.)*"|\w+|[-+*/%&|^<>=!]=|&&|\|\||<<|>>|\+\+|--|->|::|\S')
# "sum[i] +=": the name, and the operator before =
_TARGET = re.compile(r"(\w+)(?:\[[^=;]*\])?(?:\.\w+)? *([-+*/%&|^]|<<|>>)?=(?!=)")
_NO_NAMES = {"char", "short", "int", "unsigned", "half", "float", "double", "const", "constexpr"}


class Difference(NamedTuple):
    """A place where an attempt is not as the solution.

    Attributes
    ----------
    begin, end : int
        Its span in the attempt; they are equal where the solution has something in addition.
    right : str
        The solution's text for it.
    first, last : int
        The numbers of its lines in the attempt; if the span is empty, of the line before it.
    """

    begin: int
    end: int
    right: str
    first: int
    last: int


Changes = Sequence[Difference]


def find_repair(source: str, solution: str, is_right: Callable[[str], bool]) -> Changes:
    """Return the fewest differences found that, made as in the solution, make a wrong attempt right; () if none are.

    They are those of one part of the attempt, if one is enough. Else they are all that the solution
    cannot do without, if these are in at most `_MOST_LINES` lines.

    Parameters
    ----------
    source, solution : str
        Their positions and lines are those without comments, too.
    is_right : callable
        Runs a text, and returns whether it is right. Several threads call it.
    """
    differences = list_differences(source, solution)
    parts = _part_by_lines(differences)
    if not 0 < len(parts) <= _MOST_PARTS:
        return ()
    deadline = time.monotonic() + _SECONDS

    def is_enough(changes: Changes) -> bool:
        """Return whether the attempt is right with these changes; False if the time is over."""
        return time.monotonic() < deadline and is_right(apply(source, changes))

    def find_first(choices: Sequence[Changes]) -> Changes:
        """Return the first of the choices that is enough, or ()."""
        results = pool.map(is_enough, choices)
        return next((choice for choice, ok in zip(choices, results, strict=True) if ok), ())

    with ThreadPoolExecutor(_WORKERS) as pool:
        try:
            if alone := find_first(parts):
                return (len(alone) > 1 and find_first([(each,) for each in alone])) or alone
            # without a part, the solution is still right: the attempt may keep that part
            others = [[each for each in differences if each not in part] for part in parts]
            needless = list(pool.map(is_enough, others))
            needed = [
                each
                for part, is_needless in zip(parts, needless, strict=True)
                for each in part
                if not is_needless
            ]
            lines = {line for each in needed for line in range(each.first, each.last + 1)}
            if len(lines) <= _MOST_LINES and is_enough(needed):
                return needed
        finally:
            deadline = 0.0  # trials that have not begun do not begin
    return ()


def list_differences(source: str, solution: str) -> list[Difference]:
    """Return the places where an attempt is not as the solution, in order; names and comments do not count."""
    source, solution = without_comments(source), without_comments(solution)
    found = _compare(source, solution)
    # (a name that only the solution has, a name that stands for it in the attempt) -> how often
    own_names, right_names = {*_WORD.findall(source)}, {*_WORD.findall(solution)}
    pairs = Counter(
        (right, own)
        for each in found
        if (right := each.right.strip()).isidentifier()
        and (own := source[each.begin : each.end].strip()).isidentifier()
        and right not in own_names
        and not {right, own} & _NO_NAMES
    )
    names = {
        right: own
        for (right, own), times in reversed(pairs.most_common())
        # the attempt's name may stand for something else in the solution
        if times > 1 or own not in right_names
    }
    if not names:
        return found
    return _compare(source, re.sub(r"\b\w+\b", lambda name: names.get(name[0], name[0]), solution))


def apply(source: str, changes: Changes) -> str:
    """Return the attempt with these differences made as in the solution."""
    for each in sorted(changes, reverse=True):
        before, right, behind = source[: each.begin], each.right, source[each.end :]
        # words must not grow together
        if right and behind and re.match(r"\w\w", right[-1] + behind[0]):
            right += " "
        elif not right and re.match(r"\w\w", before[-1:] + behind[:1]):
            right = " "
        source = before + right + behind
    return source


def describe_repair(source: str, changes: Changes, outcome: str) -> str:
    """Return the sentences on what has to change in an attempt, after which `outcome` is true; "" without changes.

    `outcome` is the end of a sentence, such as "the kernel is right".
    """
    if not changes:
        return ""
    code, repaired = code_only(source), code_only(apply(source, changes))
    slips = [
        f"Line {number} {slip}"
        for number, words, right in find_other_lines(code, repaired)
        if (slip := describe_slip(words, right))
    ]
    # (phrase, place) of each change; "a change" in a line says less than another phrase of it
    begun = Counter(each.first for each in changes)
    phrases = dict.fromkeys(
        _describe_change(code, each, is_alone=begun[each.first] == 1) for each in changes
    )
    told = {place for phrase, place in phrases if phrase != _CHANGE}
    what = join_words(
        [f"{phrase} {place}" for phrase, place in phrases if phrase != _CHANGE or place not in told]
    )
    return " ".join(
        [*slips, f"{what[0].upper()}{what[1:]}, {outcome}: nothing else has to change."]
    )


def _describe_change(code: str, change: Difference, is_alone: bool) -> tuple[str, str]:
    """Return what has to change, and where: ("with another condition", "in line 5"), ("without `c = 0;`", "in ...").

    `is_alone` says whether no other change begins in its line.
    """
    right, own = change.right.strip(), " ".join(code[change.begin : change.end].split())
    line = f"line{'s' * (change.last > change.first)} {change.first}"
    if change.last > change.first:
        line += f" to {change.last}"
    if not own and "\n" in change.right:
        return f"with {_name_statement(right, code)}", f"behind {line}"
    if not right and is_alone and all(own.count(a) == own.count(b) for a, b in ("()", "{}", "[]")):
        return (
            f"without `{own if len(own) <= _QUOTED else own[: _QUOTED - 4] + ' ...'}`",
            f"in {line}",
        )
    start = change.end - len(code[change.begin : change.end].lstrip())  # without white space
    before = code[code.rfind("\n", 0, start) + 1 : start]
    return f"with {_name_role(before, code)}", f"in {line}"


def _name_statement(text: str, code: str) -> str:
    """Return what a text adds: "a barrier", "a loop that changes `sum`"; it names only what the code names."""
    if BARRIER.search(text):
        return "a barrier"
    kind = _STATEMENTS.get(_WORD.findall(text)[0], "a statement")
    targets = [each for each in _TARGET.finditer(text) if re.search(rf"\b{each[1]}\b", code)]
    if not targets or kind == "a brace":
        return kind
    return f"{kind} that {'changes' if targets[-1][2] else 'sets'} `{targets[-1][1]}`"


def _name_role(before: str, code: str) -> str:
    """Return what a change stands in, by the text before it in its line of the code: "another condition"."""
    opened = []  # the positions of the brackets that are open where the change is
    for place, sign in enumerate(before):
        if sign in "([{":
            opened.append(place)
        elif sign in ")]}" and opened:
            opened.pop()
    for place in reversed(opened):
        name = re.search(r"(\w+) *(?:\[[^\[\]]*\])*$", before[:place])
        if not name:
            continue
        if before[place] == "[":
            is_array = re.search(r"\b(?:__shared__|half|int|float4?) +$", before[: name.start()])
            return f"another {'size' if is_array else 'index'} of `{name[1]}`"
        if name[1] == "for":
            parts = ("another first value", "another condition", "another step")
            return parts[min(before.count(";", place), 2)]
        if name[1] in ("if", "while"):
            return "another condition"
        is_kernel = name[1] in kernel_names(code)
        return f"other {'parameters' if is_kernel else 'arguments'} of `{name[1]}`"
    targets = _TARGET.findall(re.split(r"[;{}]", before)[-1])
    return f"another value for `{targets[-1][0]}`" if targets else _CHANGE.removeprefix("with ")


def _part_by_lines(differences: Iterable[Difference]) -> list[Changes]:
    """Return the differences in parts: those of one line, and of lines that one of them joins, are together."""
    parts: list[list[Difference]] = []
    for each in differences:
        if parts and each.first <= parts[-1][-1].last:
            parts[-1].append(each)
        else:
            parts.append([each])
    return parts


class _Word(NamedTuple):
    """A word of a source, the number of its line from 1, and the position behind it."""

    text: str
    line: int
    end: int


def _compare(source: str, solution: str) -> list[Difference]:
    """Return the places where two sources differ: word by word, in those lines that differ."""
    own, right = _read_lines(source), _read_lines(solution)
    found: list[Difference] = []
    for begin, end, right_begin, right_end in _match(
        [_list_texts(line) for line in own], [_list_texts(line) for line in right]
    ):
        words = [word for line in own[begin:end] for word in line]
        right_words = [word for line in right[right_begin:right_end] for word in line]
        # the words before the two blocks
        before = own[begin - 1][-1] if begin else _Word("", 1, 0)
        right_before = right[right_begin - 1][-1] if right_begin else _Word("", 1, 0)
        ends = [before, *words]
        right_ends = [right_before, *right_words]
        for first, last, right_first, right_last in _match(
            _list_texts(words), _list_texts(right_words)
        ):
            lines = [word.line for word in words[first:last]] or [ends[first].line]
            text = solution[right_ends[right_first].end : right_ends[right_last].end]
            found.append(Difference(ends[first].end, ends[last].end, text, min(lines), max(lines)))
    return found


def _read_lines(source: str) -> list[list[_Word]]:
    """Return the words of each line that has any."""
    words = [
        _Word(match[0], source.count("\n", 0, match.start()) + 1, match.end())
        for match in _WORD.finditer(source)
    ]
    return [list(line) for _, line in groupby(words, lambda word: word.line)]


def _list_texts(words: Iterable[_Word]) -> tuple[str, ...]:
    """Return the texts of words."""
    return tuple(word.text for word in words)


def _match(own: Sequence, right: Sequence) -> list[tuple[int, int, int, int]]:
    """Return the spans (begin, end, begin in `right`, end in `right`) in which two sequences differ."""
    matcher = SequenceMatcher(None, own, right, autojunk=False)
    return [tuple(spans) for kind, *spans in matcher.get_opcodes() if kind != "equal"]
