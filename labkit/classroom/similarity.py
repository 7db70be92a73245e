"""Which hand-ins to an exercise are alike: a list of pairs for a human reader, and no verdict.

A text is read as tokens: without comments and white space, with one token for all names that its author may choose.
What is compared are its runs of `RUN` tokens that the starting code does not have, wherever in the text they stand.
(That is what MOSS and Dolos do, without winnowing, which keeps a sample of the runs: these texts are short.) So another
layout changes nothing, other names nothing, and another order of declarations, functions or statements little. A run
counts less the more hand-ins have it: all may have found the same few lines.
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hostcuda.source import code_only
from labkit.classroom.grades import page
from labkit.classroom.submissions import Submission
from labkit.exercises.exercise import SOURCE_CHARACTERS, by_name

RUN = 8  # tokens: about a statement
LEAST = 24  # runs of one's own: a text with fewer is too short to be compared
_FLOOR = 0.1  # of what is alike in a pair that is listed
_COLUMNS = 4096  # runs at a time: a class of 1,000 takes 33 MB

_TOKEN = re.compile(r"[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*|<<=|>>=|[-+*/%&|^!=<>]=|&&|\|\||\+\+|--|->|::|<<|>>|\S")
_DEFINED = re.compile(r"(?<!\breturn)(?<!\belse)(?<=[\w*&>])\s+(\w+)\s*\(")  # with a type before its name
_BRACES = "{}"  # of a block with one statement they are a matter of layout
_WORDS = """
auto bool break case char const constexpr continue default do double else enum extern float for if inline int long
return short signed sizeof static struct switch template typedef typename union unsigned using void volatile while
threadIdx blockIdx blockDim gridDim warpSize define include
"""
_KEPT = frozenset(_WORDS.split())
Run = tuple[str, ...]


@dataclass(frozen=True)
class Pair:
    """Two hand-ins to an exercise.

    `alike` is the weight of the runs that both have, of all runs of the one that has less: 0 to 1. `texts` has for each
    its text in pieces, (text, whether the other one has it, too).
    """

    exercise: str
    students: tuple[str, str]
    alike: float
    texts: tuple[list[tuple[str, bool]], list[tuple[str, bool]]]


def tokens(source: str) -> list[tuple[str, int, int]]:
    """The tokens of a source, with "name" for a name that its author has chosen; where each begins and ends."""
    code = code_only(source)
    own = set(_DEFINED.findall(code))
    found = []
    for match in _TOKEN.finditer(code):
        word, begin, end = match[0], *match.span()
        if word in _BRACES:
            continue
        member = word in "xyzw" and code[begin - 1 : begin] == "."  # threadIdx.x is not threadIdx.y
        if (word[0].isalpha() or word[0] == "_") and not (member or word in _KEPT or word.startswith("__")):
            called = word not in own and code[end : end + 4].lstrip().startswith("(")  # a function of CUDA or C++
            word = word if called else "name"
        found.append((word, begin, end))
    return found


def _runs(source: str) -> dict[Run, list[tuple[int, int]]]:
    """The runs of tokens of a source, and where each stands."""
    found = defaultdict(list)
    read = tokens(source)
    for at in range(len(read) - RUN + 1):
        part = read[at : at + RUN]
        found[tuple(word for word, _, _ in part)].append((part[0][1], part[-1][2]))
    return found


def pairs(handed_in: Sequence[Submission], most: int = 50) -> list[Pair]:
    """The pairs of kernels for the same exercise that are most alike, at most so many of each, the most alike first."""
    found = [pair for number, of in _texts(handed_in) for pair in _of_exercise(number, of, most)]
    return sorted(found, key=lambda pair: -pair.alike)


def short(handed_in: Sequence[Submission]) -> list[str]:
    """How many hand-ins to an exercise are too short to be compared, and how many of them another one equals."""
    found = []
    for number, of in _texts(handed_in):
        given = _runs(start := by_name(number).start).keys()
        own = [text for text in of.values() if len(_runs(text).keys() - given) < LEAST]
        start, *own = ((*_TOKEN.findall(code_only(text)),) for text in (start, *own))
        count = Counter(each for each in own if each != start)
        if count:
            same = sum(often for often in count.values() if often > 1)
            found.append(f"{number}: {count.total()} too short to compare, {same} of them equal to another")
    return found


def _texts(handed_in: Sequence[Submission]) -> list[tuple[str, dict[str, str]]]:
    """The kernels of each exercise, by the student."""
    texts: dict[str, dict[str, str]] = defaultdict(dict)
    for each in handed_in:
        if isinstance(each.answer, str) and not each.problem and len(each.answer) <= SOURCE_CHARACTERS:
            texts[each.exercise][each.student] = each.answer
    return sorted(texts.items())


def write_page(path: Path, found: Sequence[Pair]) -> Path:
    """Write a page with the pairs side by side."""
    return page(path, "similarity.html.j2", pairs=found, least=LEAST)


def _of_exercise(number: str, texts: dict[str, str], most: int) -> Iterator[Pair]:
    given = _runs(by_name(number).start).keys()
    own = {student: _runs(text).keys() - given for student, text in texts.items()}
    own = {student: runs for student, runs in own.items() if len(runs) >= LEAST}
    students, common, smaller = [*own], *_alike([*own.values()])
    scores = np.triu(np.divide(common, smaller, out=np.zeros_like(common), where=smaller > 0), 1)
    places = zip(*np.nonzero(scores >= _FLOOR), strict=True)
    for a, b in heapq.nlargest(most, places, key=lambda place: scores[place]):
        both = own[students[a]] & own[students[b]]
        marked = tuple(_marked(texts[students[each]], both, given) for each in (a, b))
        yield Pair(number, (students[a], students[b]), float(scores[a, b]), marked)


def _alike(own: Sequence[set[Run]]) -> tuple[np.ndarray, np.ndarray]:
    """For each two the weight of their common runs, and of all runs of the one that has less."""
    having = Counter(run for runs in own for run in runs)
    weight = {run: math.log((len(own) + 1) / count) for run, count in having.items()}
    total = np.array([sum(map(weight.__getitem__, runs)) for runs in own])
    common = np.zeros((len(own), len(own)))
    shared = [run for run, count in having.items() if count > 1]
    for begin in range(0, len(shared), _COLUMNS):
        place = {run: column for column, run in enumerate(shared[begin : begin + _COLUMNS])}
        part = np.zeros((len(own), len(place)))
        for row, runs in enumerate(own):
            for run in runs & place.keys():
                part[row, place[run]] = math.sqrt(weight[run])
        common += part @ part.T
    return common, np.minimum(total[:, None], total)


def _marked(text: str, runs: Set[Run], given: Set[Run]) -> list[tuple[str, bool]]:
    """A text in pieces, marked what the runs cover and those of the starting code do not."""
    covered, places = bytearray(len(text)), _runs(text)
    for which, mark in ((runs, b"\1"), (given, b"\0")):
        for begin, end in (place for run in which & places.keys() for place in places[run]):
            covered[begin:end] = mark * (end - begin)
    edges = [0, *(at for at in range(1, len(text)) if covered[at] != covered[at - 1]), len(text)]
    return [(text[begin:end], bool(covered[begin])) for begin, end in itertools.pairwise(edges) if begin < end]
