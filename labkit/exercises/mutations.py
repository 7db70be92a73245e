"""Small changes of a kernel, one of which may undo a slip: another comparison, a number more, a barrier.

They need no solution: a run shows which of them makes a wrong kernel right.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from hostcuda.source import code_only
from labkit.exercises.differences import WORD, Difference
from labkit.exercises.text import find_line

_MOST = 120  # changes of a text that are listed
_NEAR = 3  # lines before and behind a suspected one that get a barrier
_LARGEST = 1024  # number that gets a neighbor, its double and its half
# what a word is mistaken for
_OTHERS = {
    "<": ["<="],
    "<=": ["<"],
    ">": [">="],
    ">=": [">"],
    "==": ["!="],
    "!=": ["=="],
    "&&": ["||"],
    "||": ["&&"],
    "/": ["%"],
    "%": ["/"],
    "+=": ["="],
    "signed": ["unsigned"],
    "char": ["unsigned char"],
}
# names that are exchanged easily
_NAMES = {
    "h": ["w"],
    "w": ["h"],
    "H": ["Ho", "W"],
    "W": ["Wo", "H"],
    "Ho": ["H", "Wo"],
    "Wo": ["W", "Ho"],
    "p": ["q"],
    "q": ["p"],
    "row": ["column"],
    "column": ["row"],
    "rows": ["columns"],
    "columns": ["rows"],
    "M": ["C"],
    "C": ["M"],
}
# "const int tx = threadIdx.x, ty = threadIdx.y;"
_DECLARATION = re.compile(r"\b(?:int|unsigned|float|half|size_t) (\w+ = [^;{}]{0,300});")
_DECLARED = re.compile(r"(?:^|, *)(\w+) = ")
_TYPES = {"int", "unsigned", "float", "double", "half", "const"}  # before a name: it is declared
_INDICES = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
_STATEMENT_END = re.compile(r"[;{}] *$", re.MULTILINE)


def list_mutations(source: str, suspects: Collection[int] = ()) -> list[Difference]:
    """Return small changes of a kernel, those in suspected lines first, then the likelier ones first.

    Parameters
    ----------
    source : str
    suspects : collection of int
        The numbers of the lines that a finding names. Barriers are added near them alone.
    """
    code = code_only(source)
    begin = code.find("{", max(code.find("__global__"), 0))
    found = [*_exchange_words(code), *_drop_conditions(code), *_add_barriers(code, suspects)]
    # (rank, 0 is the likeliest; change), without those before the first kernel's body
    ranked = [(rank, change) for rank, change in found if change.begin > begin]
    ranked.sort(key=lambda each: (each[1].first not in suspects, each[0]))
    return [change for _, change in ranked[:_MOST]]


def _exchange_words(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield changes of a word or two, each with its rank: comparisons have 0, numbers 3."""
    matches = [*WORD.finditer(code)]
    words = ["", "", *(match[0] for match in matches), "", ""]
    names = {name: [*others] for name, others in _NAMES.items()}
    for declaration in _DECLARATION.finditer(code):
        siblings = _DECLARED.findall(declaration[1])
        for name in siblings:
            names[name] = [*names.get(name, []), *(each for each in siblings if each != name)]
    for place, match in enumerate(matches):
        line = find_line(code, match.start())
        for rank, right, count in _list_others(words, place + 2, names):
            end = matches[place + count - 1].end()
            yield rank, Difference(match.start(), end, right, line, line)


def _list_others(
    words: Sequence[str], place: int, names: Mapping[str, Sequence[str]]
) -> Iterator[tuple[int, str, int]]:
    """Yield what may belong in place of a word: (rank, text, number of words that it replaces)."""
    before_last, before, word, behind, second = words[place - 2 : place + 3]
    if word in _OTHERS:
        for other in _OTHERS[word]:
            yield 0, other, 1
    elif word == "=" and before_last not in _TYPES and before != ",":
        yield 1, "+=", 1
    elif word in ("x", "y") and before == "." and before_last in _INDICES:
        yield 1, "y" if word == "x" else "x", 1
    elif word in names and before not in (".", "->", *_TYPES) and behind != "=":
        for other in names[word]:
            if other in words:
                yield 1, other, 1
    elif word in ("+", "-") and behind == "1" and second != ".":
        yield 2, "", 2
    elif word.isdigit() and int(word) <= _LARGEST and "." not in (before, behind):
        for number in {2 * int(word), int(word) // 2, int(word) + 1, int(word) - 1} - {int(word)}:
            yield 3, str(number), 1


def _drop_conditions(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield for each && and || the text without its left side, and without its right one."""
    for operator in re.finditer(r"&&|\|\|", code):
        line = find_line(code, operator.start())
        left, right = _find_sides(code, operator.start(), operator.end())
        yield 0, Difference(operator.start(), right, "", line, line)
        yield 0, Difference(left, operator.end(), "", line, line)


def _find_sides(code: str, begin: int, end: int) -> tuple[int, int]:
    """Return where the left side of the operator at `begin` begins, and where its right side ends."""
    sides = []
    for place, step, opening in ((begin - 1, -1, ")"), (end, 1, "(")):
        depth = 0
        while 0 <= place < len(code):
            sign = code[place]
            if sign in "()[]":
                depth += 1 if sign in (opening, "]" if step < 0 else "[") else -1
            if depth < 0 or (not depth and sign in "&|?:,;={}"):
                break
            place += step
        sides.append(place + 1 if step < 0 else place)
    return sides[0], sides[1]


def _add_barriers(code: str, suspects: Collection[int]) -> Iterator[tuple[int, Difference]]:
    """Yield a barrier behind each statement near the suspected lines."""
    for end in _STATEMENT_END.finditer(code):
        line = find_line(code, end.start())
        if any(abs(line - suspect) <= _NEAR for suspect in suspects):
            yield 0, Difference(end.end(), end.end(), "\n__syncthreads();", line, line)
