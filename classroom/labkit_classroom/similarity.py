"""List pairs of hand-ins to an exercise that are alike: for a human reader, and without a verdict.

A text is read as tokens: without comments and white space, with one token for all names that its
author may choose. Two texts are compared by their runs of `RUN` tokens that the starting code does
not have, wherever in the text they stand. (MOSS and Dolos do the same, and keep a sample of the
runs by winnowing; these texts are short.) So another layout or other names change nothing, and
another order of declarations, functions or statements changes little. A run counts less the more
hand-ins have it: all students may have found the same few lines.
"""

from __future__ import annotations

import heapq
import itertools
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hostcuda.source import code_only, tokens
from labkit.base.errors import LabError
from labkit.exercises.exercise import SOURCE_CHARACTERS, by_name
from labkit_classroom.grades import render_page
from labkit_classroom.submissions import Submission

RUN = 8  # tokens: about a statement
LEAST = 24  # runs that the starting code lacks: a text with fewer is too short to be compared
_TITLE = b"<title>Similar hand-ins</title>"  # of the page
_FLOOR = 0.1  # the least likeness of a pair that is listed
_COLUMNS = 4096  # runs at a time: a class of 1,000 takes 33 MB

# with a type before its name
_DEFINED = re.compile(r"(?<!\breturn)(?<!\belse)(?<=[\w*&>])\s+(\w+)\s*\(")
_BRACES = "{}"  # not compared: around a single statement they are a matter of layout
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

    `alike`, from 0 to 1, is the weight of the runs that both have, divided by the weight of all
    runs of the one that has less. `texts` holds the two texts in pieces: (text, whether the other
    hand-in has it, too).
    """

    exercise: str
    students: tuple[str, str]
    alike: float
    texts: tuple[list[tuple[str, bool]], list[tuple[str, bool]]]


def _list_words(source: str) -> Iterator[tuple[str, int, int]]:
    """Yield the tokens of a source as (text, begin, end), as in ``source[begin:end]``.

    Of a literal in quotation marks only the two marks are tokens.
    """
    for token in tokens(source):
        if token.kind == "text":
            yield token.text[0], token.start, token.start + 1
            yield token.text[-1], token.end - 1, token.end
        else:
            yield token.text, token.start, token.end


def tokenize(source: str) -> list[tuple[str, int, int]]:
    """Return the tokens of a source as (word, begin, end), the place ``source[begin:end]``, to compare sources.

    A name that the author has chosen becomes "name", and braces are left out, so that sources with
    other names are still alike.
    """
    code = code_only(source)
    defined = set(_DEFINED.findall(code))
    words = []
    for word, begin, end in _list_words(source):
        if word in _BRACES:
            continue
        member = word in "xyzw" and code[begin - 1 : begin] == "."  # threadIdx.x is not threadIdx.y
        # a name that may be the author's; _KEPT has C++'s and CUDA's, such as "for" and "threadIdx"
        if (word[0].isalpha() or word[0] == "_") and not (
            member or word in _KEPT or word.startswith("__")
        ):
            # a function that the source calls and does not define is CUDA's or C++'s
            is_library = word not in defined and code[end : end + 4].lstrip().startswith("(")
            word = word if is_library else "name"
        words.append((word, begin, end))
    return words


def _find_runs(source: str) -> dict[Run, list[tuple[int, int]]]:
    """Return a dict: each run of `RUN` tokens in a source to its places, (begin, end) as in ``source[begin:end]``."""
    places = defaultdict(list)
    words = tokenize(source)
    for at in range(len(words) - RUN + 1):
        run = words[at : at + RUN]
        places[tuple(word for word, _, _ in run)].append((run[0][1], run[-1][2]))
    return places


def find_pairs(handed_in: Sequence[Submission], most: int = 50) -> list[Pair]:
    """Return the pairs of kernels that are most alike, at most `most` per exercise, the most alike first.

    Both kernels of a pair are answers to the same exercise; the pairs of all exercises are in one list.
    """
    alike = [
        pair for number, texts in _group_texts(handed_in) for pair in _pair_up(number, texts, most)
    ]
    return sorted(alike, key=lambda pair: -pair.alike)


def report_short(handed_in: Sequence[Submission]) -> list[str]:
    """Return a line per exercise: how many hand-ins are too short to compare, and how many of them are equal.

    A hand-in is too short if it has fewer than LEAST runs (RUN tokens in a row) that the starting code lacks.
    """
    lines = []
    for number, by_student in _group_texts(handed_in):
        start = by_name(number).start
        start_runs = _find_runs(start).keys()
        short_texts = [
            text
            for text in by_student.values()
            if len(_find_runs(text).keys() - start_runs) < LEAST
        ]
        # texts with the same words are equal, whatever their layout and comments
        start_words = tuple(word for word, _, _ in _list_words(start))
        short = [tuple(word for word, _, _ in _list_words(text)) for text in short_texts]
        # left out: the starting code, handed in as it was
        count = Counter(words for words in short if words != start_words)
        if count:
            same = sum(copies for copies in count.values() if copies > 1)
            lines.append(
                f"{number}: {count.total()} too short to compare, {same} of them equal to another"
            )
    return lines


def _group_texts(handed_in: Sequence[Submission]) -> list[tuple[str, dict[str, str]]]:
    """Return (exercise, {student: the kernel's text}) for each exercise that has kernels, in order."""
    texts: dict[str, dict[str, str]] = defaultdict(dict)
    for item in handed_in:
        # Not numbers, which are a tuple, nor a text that was cut when it was read, one character
        # behind the limit.
        if (
            isinstance(item.answer, str)
            and not item.problem
            and len(item.answer) <= SOURCE_CHARACTERS
        ):
            texts[item.exercise][item.student] = item.answer
    return sorted(texts.items())


def write_page(path: Path, pairs: Sequence[Pair]) -> Path:
    """Write a page that shows each pair of hand-ins side by side.

    Raises LabError if something other than an earlier page is at the path.
    """
    existing = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    if os.path.lexists(path) and _TITLE not in existing:
        raise LabError(
            f"{path} is there, and is no page of an earlier run: name another file with --out"
        )
    return render_page(path, "similarity.html.j2", pairs=pairs, least=LEAST)


def _pair_up(number: str, texts: dict[str, str], most: int) -> Iterator[Pair]:
    """Yield at most `most` pairs of the exercise's texts (by student), most alike first, ignoring its starting code."""
    start_runs = _find_runs(by_name(number).start).keys()
    runs_of = {student: _find_runs(text).keys() - start_runs for student, text in texts.items()}
    runs_of = {student: runs for student, runs in runs_of.items() if len(runs) >= LEAST}
    students, common, smaller = [*runs_of], *_weigh_common_runs([*runs_of.values()])
    # Above the diagonal alone: each pair once, and no text with itself.
    scores = np.triu(np.divide(common, smaller, out=np.zeros_like(common), where=smaller > 0), 1)
    places = zip(*np.nonzero(scores >= _FLOOR), strict=True)
    for a, b in heapq.nlargest(most, places, key=lambda place: scores[place]):
        both = runs_of[students[a]] & runs_of[students[b]]
        marked = tuple(_mark_pieces(texts[students[row]], both, start_runs) for row in (a, b))
        yield Pair(number, (students[a], students[b]), float(scores[a, b]), marked)


def _weigh_common_runs(runs_by_text: Sequence[set[Run]]) -> tuple[np.ndarray, np.ndarray]:
    """Return two matrices over pairs of texts: the weight of their common runs, and of all runs of the lighter text."""
    texts, count = len(runs_by_text), Counter(run for runs in runs_by_text for run in runs)
    # little if many have it
    weight = {run: math.log((texts + 1) / number) for run, number in count.items()}
    total = np.array([sum(map(weight.__getitem__, runs)) for runs in runs_by_text])
    common = np.zeros((texts, texts))
    shared = [run for run, number in count.items() if number > 1]
    # a slice of the runs at a time, so that it fits in memory
    for begin in range(0, len(shared), _COLUMNS):
        column_of = {run: column for column, run in enumerate(shared[begin : begin + _COLUMNS])}
        roots = np.zeros((texts, len(column_of)))
        for row, runs in enumerate(runs_by_text):
            for run in runs & column_of.keys():
                roots[row, column_of[run]] = math.sqrt(weight[run])
        common += roots @ roots.T  # so that a run of both texts counts with its weight
    return common, np.minimum(total[:, None], total)


def _mark_pieces(text: str, runs: Set[Run], start_runs: Set[Run]) -> list[tuple[str, bool]]:
    """Cut a text into pieces; True marks those that the runs cover and runs of the starting code do not."""
    marks, places = bytearray(len(text)), _find_runs(text)
    for chosen, mark in ((runs, b"\1"), (start_runs, b"\0")):
        for begin, end in (place for run in chosen & places.keys() for place in places[run]):
            marks[begin:end] = mark * (end - begin)
    edges = [0, *(at for at in range(1, len(text)) if marks[at] != marks[at - 1]), len(text)]
    return [
        (text[begin:end], bool(marks[begin]))
        for begin, end in itertools.pairwise(edges)
        if begin < end
    ]
