"""Exercise P3b: a sum by shuffles."""

import re

from labkit.exercises import Case, Exercise, Kernels, Mistake, counted
from labkit.exercises.practice import ADDITIONS, total

_NUMBERS = "16,384 numbers"
_WARPS = 8 * 8
# Lane 0 of each warp stores at the place with its own number, which is 0.
_LANES_PLACE = re.compile(r"== 0\)\s*\{?\s*\w+\[(?:lane|threadIdx\.x % 32|threadIdx\.x & 31)\] = ")
# "sum += __shfl", and later "if (lane < blockDim.x / 32) sum = sums[lane];", with no other value for the other
# lanes before 32 lanes are added up.
_KEEPS_OLD_SUMS = re.compile(
    r"\b(\w+) \+= __shfl(?:(?!\b\1 = )[\s\S]){1,600}?\bif \((?:lane|threadIdx\.x) < (?!32\)|warpSize)[^;{}]*\)\s*\{?\s*"
    r"\1 = \w+\[(?:lane|threadIdx\.x)\];\s*\}?(?!\s*else)(?:(?!\b\1 = )[^;]){0,80}= 16;[^;]*;[^;]*\b\1 \+= __shfl"
)

EXERCISE = Exercise(
    title="By shuffles",
    subject=Kernels(
        total,
        (
            Case("1,000 numbers in 3 blocks of 64", (1000, 3, 64)),
            Case("100 numbers in 2 blocks of 32", (100, 2, 32)),
            Case("777 numbers in a block of 128", (777, 1, 128)),
            # a block may have more threads than there are numbers
            Case("20 numbers in 2 blocks of 64", (20, 2, 64)),
            Case(_NUMBERS, (16384, 8, 256), counted=True),
        ),
        hidden=(range(1, 3000), range(1, 6), [32, 64, 128, 256]),
    ),
    goals=(
        counted(
            "global_load_requests",
            _NUMBERS,
            what="load requests",
            at_most=512,
            least={"unique_bytes": 4 * 16384},
        ),
        counted(
            "barriers",
            _NUMBERS,
            per=_WARPS,
            what="barriers per warp",
            at_most=1,
            most={"named_barriers": 0},
        ),
        counted(
            "shared_store_bytes",
            _NUMBERS,
            per=_WARPS,
            what="bytes per warp stored to shared memory",
            at_most=4,
        ),
        counted("global_store_sectors", _NUMBERS, what=ADDITIONS, at_most=8),
        counted(
            "busiest_warp", _NUMBERS, what="memory instructions of the busiest warp", at_most=64
        ),
    ),
    mistakes=(
        Mistake(
            "Lanes of the first warp for which there is no other warp have nothing to load: they add 0.",
            lambda attempt: (
                "uninitialized" in attempt.findings
                and "race" not in attempt.findings
                and "__shfl" in attempt.source
            ),
        ),
        Mistake(
            "All warps store their sums in the same element. The sum of each warp needs a place of its own, with the "
            "number of the warp: threadIdx.x / 32.",
            lambda attempt: "race" in attempt.findings and attempt.matches(_LANES_PLACE),
        ),
        Mistake(
            "In the second level, the lanes for which there is no warp still hold their sums of the first, and these "
            "are added again: they have to hold 0.",
            lambda attempt: attempt.wrong.startswith("right") and attempt.matches(_KEEPS_OLD_SUMS),
        ),
        Mistake(
            "Each number has to be added exactly once, and there are more numbers than threads: of T threads in "
            "the grid, thread t adds the numbers t, t + T, t + 2T and so on. T is gridDim.x * blockDim.x.",
            lambda attempt: attempt.wrong.startswith("right") and "gridDim" not in attempt.source,
        ),
        Mistake(
            "One atomic addition per warp is left: bring the sums of the warps together, too.",
            lambda attempt: 8 < attempt.count("reduction_requests", _NUMBERS) <= _WARPS,
        ),
        Mistake(
            "The tree still goes through shared memory: below 32 threads, and before that, a shuffle takes its "
            "place.",
            lambda attempt: attempt.counts and "__shfl" not in attempt.source,
        ),
    ),
)
