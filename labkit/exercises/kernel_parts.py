"""The parts of a kernel's text that its small changes are made from: its body, its parameters, its names."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from hostcuda.source import find_pairs

FIRST = -1  # rank of a change that comes first also if it is in no suspected line
NAME = re.compile(r"\b[A-Za-z_]\w*\b(?!\.)")
# "const int tx = threadIdx.x, ty = threadIdx.y;"
DECLARATION = re.compile(r"\b(?:int|unsigned|float|half|size_t) (\w+ = [^;{}]{0,300});")
DECLARED = re.compile(r"(?:^|, *)(\w+) = ")
_KERNEL = re.compile(r"\b__global__\s+(?:void\s+)?\w+\s*\(")
_INTEGERS = re.compile(r"\b(?:int|unsigned|size_t) (\w+)\s*(?:,|$)")
_MOST_BOUNDS = 4  # parameters with which an index is compared


class KernelPart(NamedTuple):
    """A kernel in the code: the positions of its body's braces, and the names of its first integer parameters."""

    begin: int
    end: int
    integers: Sequence[str]


def list_kernels(code: str) -> list[KernelPart]:
    """Return the kernels that are defined in the code."""
    heads = {begin: end for begin, end, _ in find_pairs(code, "()")}
    bodies = {begin: end for begin, end, _ in find_pairs(code, "{}")}
    found = []
    for match in _KERNEL.finditer(code):
        opening = match.end() - 1
        begin = code.find("{", heads.get(opening, len(code)))
        if begin in bodies and not code[heads[opening] + 1 : begin].strip():
            integers = _INTEGERS.findall(code[opening + 1 : heads[opening]])[:_MOST_BOUNDS]
            found.append(KernelPart(begin, bodies[begin], integers))
    return found
