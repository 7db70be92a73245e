"""Exercise P7a: rows of uneven lengths, dealt out to the blocks of a persistent grid."""

import re

from labkit.exercises import Exercise, Mistake, counted
from labkit.exercises.causes import LOST_WARPS, OWN_SUM_TWICE
from labkit.exercises.practice import make_row_goals, make_uneven_rows

# "int row = blockIdx.x * blockDim.x + threadIdx.x"
_ROW_OF_A_THREAD = re.compile(
    r"\brow = (?:blockIdx\.x \* blockDim\.x \+ threadIdx\.x|threadIdx\.x \+ blockIdx\.x \* blockDim\.x)\b"
)
# "i = begin[row] + threadIdx.x; i < end; i += gridDim.x * blockDim.x"
# "x + r * length" or "x[r * length + i]"
_EQUAL_ROWS = re.compile(
    r"\bx(?: \+ |\[)(?:\w+ \* (?:\w*length|columns|size|\w*count)\b|(?:\w*length|columns|size|\w*count) \* \w+)"
)
_STEP_OF_THE_GRID = re.compile(
    r"\b(\w+) = \w+(?:\[\w+\])? \+ threadIdx\.x; *\1 < [^;]*; *\1 \+= (?:gridDim\.x \* blockDim\.x|"
    r"blockDim\.x \* gridDim\.x)\)"
)


def _is_set_once(source: str) -> bool:
    """Return whether what is added to `total` is set to 0 before the first loop, and nowhere else."""
    added = re.search(r"atomicAdd\(&total\[\w+\], (\w+)\)", source)
    loop = re.search(r"\b(?:for|while)\b", source)
    if not (added and loop):
        return False
    zeros = [zero.start() for zero in re.finditer(rf"\b{added[1]} = 0\b", source)]
    return len(zeros) == 1 and zeros[0] < loop.start()


EXERCISE = Exercise(
    title="Dealt out",
    subject=make_uneven_rows(with_counter=False),
    goals=(
        *make_row_goals(),
        counted(
            "busiest_warp", "48 rows", what="memory instructions of the busiest warp", at_most=128
        ),
    ),
    mistakes=(
        OWN_SUM_TWICE,
        LOST_WARPS,
        Mistake(
            "The sum is set to 0 once, before the loop over the rows: from its second row on, a block adds the "
            "numbers of the rows before, too.",
            lambda attempt: attempt.wrong.startswith("right") and _is_set_once(attempt.source),
        ),
        Mistake(
            "The rows have different lengths, so row r does not begin at r times a length: it begins at begin[r].",
            lambda attempt: attempt.runs_wrong and attempt.matches(_EQUAL_ROWS),
        ),
        Mistake(
            "The threads of one block share a row here, but they step by the number of threads of the whole grid: in a "
            "longer row the numbers between are left out. How many threads share a row?",
            lambda attempt: (
                attempt.wrong.startswith("right") and attempt.matches(_STEP_OF_THE_GRID)
            ),
        ),
        Mistake(
            "A block takes several rows, and here all of them are added to one total, that with the block's number. "
            "Each row has a total of its own.",
            lambda attempt: (
                attempt.wrong.startswith("right") and attempt.matches(r"\btotal\[blockIdx\.x\]")
            ),
        ),
        Mistake(
            "Thread 0 adds its own sum alone, and each of the block's other threads has a sum of other numbers of "
            "the row.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"threadIdx\.x == 0\)\s*\{?\s*atomicAdd\(&total\b")
                and not attempt.matches(r"__shfl|__shared__|__reduce")
            ),
        ),
        Mistake(
            "Each thread has a row of its own here, so the lanes of a warp load from up to 32 rows, and the warp "
            "lasts as long as the longest of them. How can the threads of a block share the numbers of one row?",
            lambda attempt: attempt.counts and attempt.matches(_ROW_OF_A_THREAD),
        ),
        Mistake(
            "Each number costs an atomic addition: let a thread add up its numbers of a row in a register first.",
            lambda attempt: attempt.count("reduction_requests", "48 rows") > 2 * 48,
        ),
    ),
)
