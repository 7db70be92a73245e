"""Exercise 00b: neighbours read neighbours."""

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
from labkit.exercises.arithmetic import describe_shares, list_taken
from labkit.exercises.text import find_line


def add(random: np.random.Generator, n: int, threads: int):
    """Return the launch on two vectors of n numbers, with a thread per four elements, up to whole blocks."""
    a, b = draw_floats(random, (2, n))
    return launch("add", a, b, Output("sum", a + b), n, grid=-(-n // (4 * threads)), block=threads)


_LAUNCHES = (1001, 4, 64), (512, 1, 128)  # elements, blocks, threads


def _describe_shares(attempt: Attempt) -> str:
    """Return which element is not added by one thread, on the first case."""
    return describe_shares(attempt.source, "add", "a", *_LAUNCHES[0], "element")


def _describe_lanes(attempt: Attempt) -> str:
    """Return which elements the first three lanes load at j = 0; "" if they are neighbours, or not known."""
    taken = [
        list_taken(attempt.source, "add", "a", {"n": 4096, "threadIdx.x": lane, "blockIdx.x": 0})[
            :1
        ]
        for lane in range(3)
    ]
    first = [element for elements in taken for element in elements]
    if len(first) < 3 or abs(first[1] - first[0]) <= 1:
        return ""
    return (
        f"At j = 0, lanes 0, 1 and 2 of a warp load elements {first[0]}, {first[1]} and {first[2]}. They should load "
        "neighbours, at each j."
    )


# A thread's index that counts whole warps and adds threadIdx.x, not its lane.
_NOT_THE_LANE = re.compile(
    r"\bint i = [^;\n]{0,80}\bthread / 32\b[^;\n]{0,80}\+ (threadIdx\.x)(?= *[+;])"
)


def _describe_lost_lane(attempt: Attempt) -> str:
    """Return the sentence if the lane in place of threadIdx.x lets one thread add each element; or ""."""
    found = _NOT_THE_LANE.search(attempt.source)
    if not found or not (shared := _describe_shares(attempt)):
        return ""
    begin, end = found.span(1)
    repaired = f"{attempt.source[:begin]}(threadIdx.x % 32){attempt.source[end:]}"
    if any(describe_shares(repaired, "add", "a", *case, "element") for case in _LAUNCHES):
        return ""
    line = find_line(attempt.source, begin)
    return (
        f"{shared} In line {line}, thread / 32 counts the warps already, and threadIdx.x goes on counting from one "
        "warp of a block to the next. Only the lane may be added: threadIdx.x % 32."
    )


EXERCISE = Exercise(
    title="Neighbours read neighbours",
    subject=Kernels(
        add,
        (
            Case("1,001 elements in blocks of 64", (1001, 64)),
            Case("127 elements in blocks of 32", (127, 32)),
            Case("3 elements in blocks of 32", (3, 32)),
            Case("4,096 elements", (4096, 128), counted=True),
        ),
        hidden=(range(1, 1500), range(32, 160, 32)),
    ),
    lines=2,
    goals=(
        counted(
            "global_load_sectors",
            "4,096 elements",
            at_most=1024,
            least={"unique_bytes": 3 * 4 * 4096},
        ),
        counted("global_store_sectors", "4,096 elements", at_most=512),
    ),
    start_reaches=(4096, 2048),
    mistakes=(
        Mistake(
            "The threads of a block now lie side by side, but all blocks take the same elements: count the blocks "
            "before this one, too.",
            # Of the first 1,001 elements those of one block are stored: 4 * 64.
            lambda attempt: (
                "[256]: nan" in attempt.wrong
                and "745 of its elements" in attempt.wrong
                and attempt.matches(r"\bint i = [^;]*\bthreadIdx\b")
                and not attempt.matches(r"\bint i = [^;]*(?:\bthread\b|\bblockIdx\b)")
            ),
        ),
        Mistake(
            "Blocks overlap now. The elements of a thread lie one block apart, but so do the first elements of "
            "neighbouring blocks: the second element of a thread is the first one of a thread in the next block.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(
                    r"\bi = (?:thread \+ j \* blockDim\.x|j \* blockDim\.x \+ thread|thread \+ blockDim\.x \* j)\s*;"
                )
            ),
        ),
        Mistake(
            "Threads overlap now: with a step this small, the second element of a thread is the first one of another "
            "thread. How many threads have a first element, and so how far away is the first free one?",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(
                    r"\bi = (?:thread \+ j|j \+ thread|thread \+ [1-4] \* j|thread \+ j \* [1-4]|[1-4] \* j \+ thread|"
                    r"j \* [1-4] \+ thread)\s*;"
                )
            ),
        ),
        Mistake(
            "n / 4 drops a remainder, and the grid may have more threads than n / 4. A step between a thread's "
            "elements that fits is the number of threads in the grid.",
            lambda attempt: (
                attempt.wrong.startswith("right") and attempt.matches(r"\bi = [^;]*\bn / 4\b")
            ),
        ),
        Mistake(
            "A rotation changes the order of a thread's four elements. At each j, a lane still loads one of its own "
            "four, so a load of a warp touches all 16 sectors of its 128 elements, where 4 are enough.",
            lambda attempt: (
                attempt.count("global_load_sectors", "4,096 elements") == 4096
                and attempt.matches(r"\bi = 4 \* thread \+ \([^;]*\bj\b[^;]*\) (?:% 4|& 3)\s*;")
            ),
        ),
        Mistake(
            "Neighbouring lanes are two elements apart now, so a warp still uses only half of each sector that it "
            "loads: at j = 0 its lanes load elements 0, 2, 4 and so on. Neighbours should load neighbours.",
            lambda attempt: (
                attempt.count("global_load_sectors", "4,096 elements") == 2048
                and attempt.matches(
                    r"\bi = (?:(?!\bthread)[^;])*\b(?:2 \* thread|thread \* 2)\b(?:(?!\bthread)[^;])*;"
                )
            ),
        ),
        Mistake(
            _describe_lanes,
            lambda attempt: (
                attempt.count("global_load_sectors", "4,096 elements") > 1024
                and _describe_lanes(attempt)
            ),
        ),
        Mistake(
            _describe_lost_lane,
            lambda attempt: attempt.runs_wrong and _describe_lost_lane(attempt),
        ),
        Mistake(
            _describe_shares,
            lambda attempt: attempt.runs_wrong and _describe_shares(attempt),
            vague=True,
        ),
    ),
)
