"""Small changes of a kernel, one of which may undo a slip: another comparison, a number more, a barrier.

They need no solution: a run shows which of them makes a wrong kernel right.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from hostcuda.source import code_only
from labkit.exercises.differences import WORD, Difference

_MOST = 48  # changes of a text that are listed
_NEAR = 3  # lines before and behind a suspected one that get a barrier
_LARGEST = 64  # number that gets a neighbor
# what a word is mistaken for
_OTHERS = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "&&": "||",
    "||": "&&",
    "/": "%",
    "%": "/",
    "+=": "=",
}
# pairs of names that are exchanged easily
_PAIRS = (
    ("h", "w"),
    ("H", "W"),
    ("Ho", "Wo"),
    ("p", "q"),
    ("i", "j"),
    ("row", "column"),
    ("rows", "columns"),
    ("m", "n"),
    ("M", "C"),
)
_NAMES = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
_TYPES = {"int", "unsigned", "float", "double", "half", "const"}  # before a name: it is declared
_INDICES = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
_STATEMENT_END = re.compile(r"[;{}] *$", re.MULTILINE)


def list_mutations(source: str, suspects: Collection[int] = ()) -> list[Difference]:
    """Return small changes of a kernel, those in suspected lines first, of each kind the most likely ones first.

    Parameters
    ----------
    source : str
    suspects : collection of int
        The numbers of the lines that a finding names. Barriers are added near them alone.
    """
    code = code_only(source)
    begin = code.find("{", max(code.find("__global__"), 0))
    found = [
        *(each for each in _exchange_words(code) if each.begin > begin),
        *_add_barriers(code, suspects),
    ]
    # sorted() keeps the order of those that are equally likely
    return sorted(found, key=lambda each: each.first not in suspects)[:_MOST]


def _exchange_words(code: str) -> Iterator[Difference]:
    """Yield changes of a word or two: comparisons first, then indices, names and numbers."""
    matches = [*WORD.finditer(code)]
    words = ["", "", *(match[0] for match in matches), "", ""]
    found = []
    for place, match in enumerate(matches):
        line = code.count("\n", 0, match.start()) + 1
        for rank, right, count in _list_others(words, place + 2):
            end = matches[place + count - 1].end()
            found.append((rank, Difference(match.start(), end, right, line, line)))
    yield from (change for _, change in sorted(found, key=lambda ranked: ranked[0]))


def _list_others(words: Sequence[str], place: int) -> Iterator[tuple[int, str, int]]:
    """Yield what may belong in place of a word: (rank, 0 is the likeliest; text; number of words that it replaces)."""
    before_last, before, word, behind, second = words[place - 2 : place + 3]
    if word in _OTHERS:
        yield 0, _OTHERS[word], 1
    elif word == "=" and before_last not in _TYPES:
        yield 1, "+=", 1
    elif word in ("x", "y") and before == "." and before_last in _INDICES:
        yield 1, "y" if word == "x" else "x", 1
    elif word in _NAMES and _NAMES[word] in words and before not in (".", "->"):
        yield 2, _NAMES[word], 1
    elif word in ("+", "-") and behind == "1" and second != ".":
        yield 2, "", 2
    elif word.isdigit() and int(word) <= _LARGEST and "." not in (before, behind):
        yield 3, str(int(word) + 1), 1
        yield 3, str(int(word) - 1), 1


def _add_barriers(code: str, suspects: Collection[int]) -> Iterator[Difference]:
    """Yield a barrier behind each statement near the suspected lines."""
    for end in _STATEMENT_END.finditer(code):
        line = code.count("\n", 0, end.start()) + 1
        if any(abs(line - suspect) <= _NEAR for suspect in suspects):
            yield Difference(end.end(), end.end(), "\n__syncthreads();", line, line)
