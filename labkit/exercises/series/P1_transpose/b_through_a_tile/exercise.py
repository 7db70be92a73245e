"""Exercise P1b: a transpose through a tile of shared memory."""

import re

from labkit.exercises import Case, Exercise, Kernels, Mistake, counted
from labkit.exercises.practice import transpose

_SHAPE = "a matrix of 64 x 96"
_LOADS = 64 * 96 / 32  # of all warps, if each element is loaded once
_MOVED = {"unique_bytes": 2 * 4 * 64 * 96}  # in and out


EXERCISE = Exercise(
    title="Through a tile",
    subject=Kernels(transpose, (
        Case("a matrix of 33 x 70", (33, 70)),
        Case("a matrix of 5 x 40", (5, 40)),
        Case("a matrix of 70 x 33", (70, 33)),
        Case(_SHAPE, (64, 96), counted=True),
    ), hidden=(range(1, 100), range(1, 100))),
    goals=(
        counted("global_load_sectors", _SHAPE, per=_LOADS, what="sectors per load", at_most=4, least=_MOVED),
        counted("global_store_sectors", _SHAPE, per=_LOADS, what="sectors per store", at_most=4, least=_MOVED),
        counted("shared_conflicts", _SHAPE, what="bank conflicts", exactly=0, least={"shared_instructions": 96}),
    ),
    mistakes=(
        Mistake(
            "A thread that returns before the barrier, or skips it, hands nothing over: guard the load and the store, "
            "not the barrier.",
            lambda attempt: attempt.runs_wrong
            and bool(re.search(r"\breturn\b|\bif \([^{}]*\) *\{[^}]*__syncthreads", attempt.source)),
        ),
        Mistake(
            "A row of `out` has `rows` elements, not `columns`.",
            lambda attempt: attempt.runs_wrong
            and bool(re.search(r"\bout\[[^]]*(?:\* *columns|\bcolumns *\*)", attempt.source)),
        ),
        Mistake(
            "The block goes to its place in `out`, but the tile is not turned: a thread stores "
            "tile[threadIdx.y][threadIdx.x] and reads tile[threadIdx.x][threadIdx.y].",
            lambda attempt: attempt.runs_wrong and attempt.source.count("[threadIdx.y][threadIdx.x]") == 2,
        ),
        Mistake(
            "The tile is turned, but the tiles are not: the block at (blockIdx.x, blockIdx.y) of `in` belongs to "
            "(blockIdx.y, blockIdx.x) of `out`, and its guard compares with the size of `out`.",
            lambda attempt: attempt.runs_wrong and "__syncthreads" in attempt.source and "race" not in attempt.findings
            and not re.search(r"blockIdx\.y \* (?:32|blockDim\.[xy]) \+ threadIdx\.x", attempt.source),
        ),
        Mistake(
            "Lanes that go down a column of this tile lie a row apart, and some of them meet in one bank. With rows of "
            "an odd number of words, 33, they are in 32 different banks.",
            lambda attempt: attempt.count("shared_conflicts", _SHAPE) > 0,
        ),
        Mistake(
            "The tile is there, but the stores still go down a column: a warp has to read a column of the tile, and "
            "store a row of `out`.",
            lambda attempt: attempt.count("sectors_per_store", _SHAPE) > 4
            and attempt.count("shared_instructions", _SHAPE) > 0,
        ),
    ),
)
