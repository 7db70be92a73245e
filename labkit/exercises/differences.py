"""Compare an attempt with the solution, word by word, and make some of their differences as in the solution."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from hostcuda.source import without_comments
from labkit.exercises.text import find_line

# a word of C++; a string is one word
WORD = re.compile(r'"(?:[^"\\\n]|\\.)*"|\w+|[-+*/%&|^<>=!]=|&&|\|\||<<|>>|\+\+|--|->|::|\S')
_ENDLESS = re.compile(r"while \((?:true|1)\)|for \(;;\)")
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
    phrase : str
        What is said of the change, "with lines 5 and 6 the other way round"; "" if its words tell.
    """

    begin: int
    end: int
    right: str
    first: int
    last: int
    phrase: str = ""


Changes = Sequence[Difference]


def list_differences(source: str, solution: str) -> list[Difference]:
    """Return the places where an attempt is not as the solution, in order; names and comments do not count."""
    source, solution = without_comments(source), without_comments(solution)
    if endless := _ENDLESS.search(source):  # `for (;;)` for `while (true)` is no difference
        solution = _ENDLESS.sub(endless[0], solution)
    found = _compare(source, solution)
    # Names do not count, so those of the solution are replaced by the attempt's first.
    # (a name that only the solution has, a name that stands for it in the attempt) -> how often
    own_names, right_names = {*WORD.findall(source)}, {*WORD.findall(solution)}
    pairs = Counter(
        (right, own)
        for each in found
        if (right := each.right.strip()).isidentifier()
        and (own := source[each.begin : each.end].strip()).isidentifier()
        and right not in own_names
        and not {right, own} & _NO_NAMES
    )
    names = {  # of several pairs for a name the last one stays: the most common
        right: own
        for (right, own), times in reversed(pairs.most_common())
        # a name that the solution has, too, may mean something else there: one such pair is not enough
        if times > 1 or own not in right_names
    }
    if not names:
        return found
    return _compare(source, re.sub(r"\b\w+\b", lambda name: names.get(name[0], name[0]), solution))


def apply(source: str, changes: Changes) -> str:
    """Return the attempt with these differences made as in the solution."""
    # from the last one on, so that the places of the others stay
    for each in sorted(changes, reverse=True):
        before, right, behind = source[: each.begin], each.right, source[each.end :]
        # a blank, so that two words do not become one
        if right and behind and re.match(r"\w\w", right[-1] + behind[0]):
            right += " "
        elif not right and re.match(r"\w\w", before[-1:] + behind[:1]):
            right = " "
        source = before + right + behind
    return source


def list_lines(changes: Changes) -> list[int]:
    """Return the numbers of the attempt's lines that these changes touch, in ascending order."""
    return sorted({line for each in changes for line in range(each.first, each.last + 1)})


def is_balanced(text: str) -> bool:
    """Return whether a text has a closing bracket for each opening one, behind it; their kind does not matter."""
    depth = 0
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        if depth < 0:
            return False
    return not depth


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
    return _join_brackets(source, found)


def _join_brackets(source: str, differences: Iterable[Difference]) -> list[Difference]:
    """Return differences of which none has one bracket of a pair alone: ``sum[`` and ``][0]`` of a line are one."""
    joined: list[Difference] = []
    for each in differences:
        before = joined[-1] if joined else None
        is_part = before and not (
            is_balanced(source[before.begin : before.end]) and is_balanced(before.right)
        )
        if is_part and before.last == each.first and ";" not in source[before.end : each.begin]:
            right = f"{before.right}{source[before.end : each.begin]}{each.right}"
            joined[-1] = Difference(before.begin, each.end, right, before.first, each.last)
        else:
            joined.append(each)
    return joined


def _read_lines(source: str) -> list[list[_Word]]:
    """Return the words of each line that has any."""
    words = [
        _Word(match[0], find_line(source, match.start()), match.end())
        for match in WORD.finditer(source)
    ]
    return [list(line) for _, line in groupby(words, lambda word: word.line)]


def _list_texts(words: Iterable[_Word]) -> tuple[str, ...]:
    """Return the texts of words."""
    return tuple(word.text for word in words)


def _match(own: Sequence, right: Sequence) -> list[tuple[int, int, int, int]]:
    """Return the spans (begin, end, begin in `right`, end in `right`) in which two sequences differ."""
    matcher = SequenceMatcher(None, own, right, autojunk=False)
    return [tuple(spans) for kind, *spans in matcher.get_opcodes() if kind != "equal"]
