"""Exercise P5a: softmax from an empty cell."""

import re

from labkit.exercises import Attempt, Case, Exercise, Kernels, Mistake, counted
from labkit.exercises.causes import FEW_REGISTERS, TWO_INFINITE, UNSTORED_COLUMNS
from labkit.exercises.practice import NO_LARGEST, OTHER_LARGEST, softmax
from labkit.exercises.text import find_line

_ROWS = "8 rows of 256"


def _begins_at_zero(source: str) -> bool:
    """Return whether a variable that takes the larger one of itself and others begins with 0."""
    return any(
        re.search(rf"\b{name} = 0(?:\.0*)?f?\s*[,;]", source)
        for name in re.findall(r"\b(\w+) = f?maxf?\([^;]*\b\1\b", source)
    )


# "float largest = in[lane];"
_FIRST_OF_LANE = re.compile(
    r"\bfloat \w+ = \w+\[(?:lane|threadIdx\.x|\w+ \* columns \+ (?:lane|threadIdx\.x))\];"
)


def _explain_first(attempt: Attempt) -> str:
    """Return which line begins the largest number with one that a lane need not have, or ""."""
    first = _FIRST_OF_LANE.search(attempt.source)
    line = find_line(attempt.source, first.start()) if first else 0
    if f"out of bounds, line {line}:" not in attempt.wrong:
        return ""
    return (
        f"Line {line} begins with the number of the lane, and a row may have fewer than 32 numbers: then the last "
        "lanes have none. Begin with -INFINITY, which is below all numbers."
    )


EXERCISE = Exercise(
    title="A row per warp",
    subject=Kernels(
        softmax,
        (
            Case("5 rows of 100", (5, 100, 1)),
            Case("2 rows of 7", (2, 7, 1)),
            Case("9 rows of 1", (9, 1, 1)),
            Case("3 rows of numbers up to 2,000", (3, 40, 2000)),
            Case("3 rows of numbers up to -2,000", (3, 50, -2000)),
            Case(_ROWS, (8, 256, 1), counted=True),
        ),
        hidden=(range(1, 10), range(1, 300), range(-3000, 3001)),
    ),
    goals=(
        # more loads than needed miss the next goal, not this one
        counted(
            "global_load_sectors",
            _ROWS,
            per="global_load_requests",
            what="sectors per load",
            at_most=4,
            least={"unique_bytes": 2 * 4 * 2048},
        ),
        counted("global_load_requests", _ROWS, what="load requests", at_most=3 * 64),
        counted("global_store_requests", _ROWS, what="store requests", at_most=64),
        counted("barriers", _ROWS, exactly=0, most={"named_barriers": 0}),
    ),
    mistakes=(
        Mistake(_explain_first, _explain_first),
        TWO_INFINITE,
        NO_LARGEST,
        OTHER_LARGEST,
        FEW_REGISTERS,
        Mistake(
            "After __shfl_down_sync only lane 0 has the result. __shfl_xor_sync gives it to all lanes.",
            lambda attempt: (
                attempt.runs_wrong
                and "__shfl_down_sync" in attempt.source
                and "__shfl_sync" not in attempt.source
                and "__shared__" not in attempt.source
            ),
        ),
        Mistake(
            "The largest number starts at 0 here, and all numbers of a row may be below that: begin with "
            "-INFINITY.",
            lambda attempt: attempt.runs_wrong and _begins_at_zero(attempt.source),
        ),
        Mistake(
            "Numerator and sum need the same exponentials: subtract the largest number of the row in both.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and len(
                    {" - " in power for power in re.findall(r"\bexpf\(([^;]*)", attempt.source)}
                )
                > 1
            ),
        ),
        Mistake(
            "A row belongs to the 32 lanes of one warp. With a step of 128 they take only every fourth group of 32 "
            "numbers.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"\w+ \+= (?:128|blockDim\.x \* blockDim\.y)\)")
            ),
        ),
        Mistake(
            "A row may have more numbers than a warp has lanes: in each pass lane l takes the numbers l, "
            "l + 32, l + 64 and so on, up to `columns`.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and len(
                    re.findall(
                        r"\b(?:for|while) *\((?:[^;(){}]*;)?[^;(){}]*\bcolumns\b", attempt.source
                    )
                )
                < 2
            ),
            vague=True,
        ),
        Mistake(
            "A shuffle alone replaces a lane's number by its partner's. Keep the larger one of the two, with "
            "fmaxf.",
            lambda attempt: (
                attempt.runs_wrong and attempt.matches(r"\b(\w+) = __shfl_xor_sync\(\w+, \1,")
            ),
        ),
        Mistake(
            "Each lane subtracts the largest of its own numbers: the lanes of a row have to subtract the same one, the "
            "largest of the row.",
            lambda attempt: (
                attempt.runs_wrong
                and attempt.source.count("__shfl") == 1
                and attempt.matches(r"\+=[^;]*__shfl")
                and "__device__" not in attempt.source
            ),
        ),
        Mistake(
            "Each lane has the sum of its own numbers only: add those of the warp by shuffles.",
            lambda attempt: (
                attempt.runs_wrong
                and attempt.source.count("__shfl") < 2
                and not attempt.matches(r"\+=[^;]*__shfl")
                and "__device__" not in attempt.source
            ),
        ),
        Mistake(
            "A row belongs to one warp. Shuffles exchange numbers within it, and __syncwarp orders its lanes: nothing "
            "has to wait for the other warps of the block.",
            lambda attempt: attempt.count("barriers", _ROWS) > 0,
        ),
        Mistake(
            "The lanes of a warp load the same numbers. Let lane l take the numbers l, l + 32 and so on, and bring the "
            "results of the lanes together by shuffles.",
            lambda attempt: (
                attempt.count("global_load_requests", _ROWS) > 3 * 64
                and attempt.count("global_load_bytes", _ROWS)
                > 2 * 32 * attempt.count("global_load_sectors", _ROWS)
            ),
        ),
        Mistake(
            "Right, but neighbouring lanes load numbers that lie apart: let lane l take the numbers l, l + 32 and "
            "so on.",
            lambda attempt: attempt.count("sectors_per_load", _ROWS) > 4,
        ),
        UNSTORED_COLUMNS,
    ),
)
