"""Exercise 00a: all threads at work."""

import re

import numpy as np

from labkit.exercises import (
    Attempt,
    Case,
    Exercise,
    Kernels,
    Mistake,
    Output,
    counted,
    draw_floats,
    launch,
)
from labkit.exercises.arithmetic import describe_shares
from labkit.exercises.text import find_line


def add(random: np.random.Generator, n: int, blocks: int, threads: int):
    """Return the launch on two vectors of n numbers, whose sums are rounded once, on every device alike."""
    a, b = draw_floats(random, (2, n))
    return launch("add", a, b, Output("sum", a + b), n, grid=blocks, block=threads)


def _make_case(*what: int) -> Case:
    """Return the case with these arguments of `add`: elements, blocks and threads per block."""
    return Case("{:,} elements in {} blocks of {}".format(*what), what)


_COUNTED = "1,000 elements"


# "rounds = n / all": the quotient is rounded down; groups: its name, the quotient, the divisor
_ROUNDED_DOWN = re.compile(r"\b(\w+) = (n / (\([^;()]{1,80}\)|\w+)) *[,;]")
_ALL = r"(?:gridDim\.x \* blockDim\.x|blockDim\.x \* gridDim\.x)"  # the number of all threads
_LEFT_OUT = 777 % (3 * 64)


def _explain_rounds(attempt: Attempt) -> str:
    """Return which line rounds the number of rounds down, so that the last elements are left out; or ""."""
    quotient = _ROUNDED_DOWN.search(attempt.source)
    if (
        not quotient
        or not attempt.wrong.startswith("right")
        or not attempt.matches(rf"< {quotient[1]}\b")
        or attempt.matches(r"\bn %")
        or not attempt.matches(
            rf"n / \({_ALL}\)" if quotient[3][0] == "(" else rf"\b{quotient[3]} = {_ALL} *[,;]"
        )
        or f"is wrong: {_LEFT_OUT} of 777 elements" not in attempt.wrong
    ):
        return ""
    return (
        f"Line {find_line(attempt.source, quotient.start())}: `{quotient[2]}` is rounded down, so the elements behind "
        f"the last whole round are left out. {_describe_shares(attempt)} Go on as long as i < n."
    )


def _describe_shares(attempt: Attempt) -> str:
    """Return which element is not added by one thread, on the first case."""
    return describe_shares(attempt.source, "add", "a", 777, 3, 64, "element")


_EVEN_SHARE = 3 * 4  # two loads and a store for each of 1,000 / (4 * 64) elements, rounded up

EXERCISE = Exercise(
    title="All threads at work",
    # Grids with fewer threads than elements, as many, and more.
    subject=Kernels(
        add,
        (
            _make_case(777, 3, 64),
            _make_case(256, 4, 64),
            _make_case(50, 2, 64),
            _make_case(2, 3, 32),
            _make_case(1001, 5, 33),
            Case(_COUNTED, (1000, 4, 64), counted=True),
        ),
        hidden=(range(1, 1500), range(1, 6), [64]),
    ),
    lines=4,
    goals=(
        counted("global_load_requests", _COUNTED, at_most=64, least={"unique_bytes": 3 * 4000}),
        counted(
            "busiest_warp",
            _COUNTED,
            what="memory instructions of the busiest warp",
            at_most=_EVEN_SHARE,
        ),
    ),
    start_reaches=(2000, 3000),
    mistakes=(
        Mistake(_explain_rounds, _explain_rounds),
        Mistake(
            lambda attempt: (
                f"The sums are right, but several threads compute each of them. {_describe_shares(attempt)} Every "
                "thread needs a first element of its own, and a step over the elements of all other threads."
            ),
            lambda attempt: (
                # more than once each of two times 1,000 elements
                attempt.count("global_load_bytes", _COUNTED) > 8000
                and attempt.count("global_store_requests", _COUNTED) > 32
            ),
        ),
        Mistake(
            "Each request brings one element, as if one thread of a warp worked at a time. A request serves all 32 "
            "lanes of a warp if each of them has an element.",
            # each element is stored once, by a request of its own
            lambda attempt: attempt.count("global_store_requests", _COUNTED) == 1000,
        ),
        Mistake(
            "The elements are not shared among all threads: some warps add none or few, and the busiest one does their "
            "work. The grid has 4 blocks of 64 threads here, so no thread needs more than 4 of the 1,000 elements.",
            # with so few requests in all, an even share is enough
            lambda attempt: (
                attempt.count("busiest_warp", _COUNTED) > _EVEN_SHARE
                and attempt.count("global_load_requests", _COUNTED) <= 64
                and attempt.count("global_store_requests", _COUNTED) <= 32
            ),
        ),
        Mistake(
            "A return is left that takes blocks out of the work: whatever is their share, nobody adds it.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and "gridDim" in attempt.source
                and attempt.matches(
                    r"\bif \(blockIdx\.x (?:>|!=) 0\)\s*return;|\bif \(blockIdx\.x\)\s*return;"
                )
            ),
        ),
        Mistake(
            "All blocks add the same elements here, because nothing depends on blockIdx. The number of a thread in the "
            "grid is blockIdx.x * blockDim.x + threadIdx.x.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and "blockIdx" not in attempt.source
                and "gridDim" in attempt.source
            ),
        ),
        Mistake(
            "A thread has to add more than one element: here the grid has fewer threads than there are elements.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and "no thread has stored" in attempt.wrong
                and not attempt.matches(r"\b(?:for|while|do|goto)\b")
            ),
        ),
        Mistake(
            "There may be more threads than elements, and this kernel compares no index with n: a thread whose number "
            "is n or more has nothing to add.",
            lambda attempt: (
                "out of bounds" in attempt.findings
                and not attempt.matches(r"\b(?:for|while)\b")
                and not attempt.matches(r"[<>]=? *n\b|\bn *(?:[<>]|- *\w+ *[<>])|\bmin\b")
            ),
        ),
        Mistake(
            _describe_shares,
            lambda attempt: attempt.runs_wrong and _describe_shares(attempt),
            vague=True,
        ),
    ),
)
