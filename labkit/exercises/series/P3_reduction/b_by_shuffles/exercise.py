"""Exercise P3b: a sum by shuffles."""

import re

from labkit.exercises import Case, Exercise, Kernels, Mistake, counted
from labkit.exercises.causes import LOST_WARPS, MORE_WARPS, OWN_SUM_TWICE
from labkit.exercises.practice import ADDITIONS, TOO_LARGE, total, wrong_shares

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

# "for (int i = 0; i < 32; ++i) s += part[i]"
_READS_32 = re.compile(
    r"\bfor \([^;]*; (\w+) < (?:32|warpSize);[^;()]*\)\s*\{?\s*\w+ \+= \w+\[\1\]"
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
        MORE_WARPS,
        OWN_SUM_TWICE,
        LOST_WARPS,
        Mistake(
            "This loop reads the sums of 32 warps, and a block has only blockDim.x / 32 of them: the other places were "
            "never written. Read blockDim.x / 32 sums.",
            lambda attempt: "uninitialized" in attempt.findings and attempt.matches(_READS_32),
        ),
        Mistake(
            "The place of a warp's sum is the number of the warp, threadIdx.x / 32. Its lane 0 has threadIdx.x 0, 32, "
            "64 and so on, and the array has fewer elements.",
            lambda attempt: (
                "out of bounds" in attempt.findings
                and attempt.matches(r"\blane == 0\)\s*\{?\s*\w+\[threadIdx\.x\] = ")
            ),
        ),
        Mistake(
            "All 32 lanes of a warp have its sum, and each of them adds it: only one of them may.",
            lambda attempt: (
                (found := TOO_LARGE.search(attempt.wrong))
                and found[2] == "32"
                and "__shfl_xor_sync" in attempt.source
            ),
        ),
        Mistake(
            "The mask of a shuffle has a bit for each lane that takes part, and here only the lower lanes have one: "
            "all 32 lanes have it in 0xffffffff.",
            lambda attempt: (
                "absent lane" in attempt.wrong and attempt.matches(r"__shfl\w+\(0x[0fF]{1,7},")
            ),
        ),
        Mistake(
            "A block may have fewer warps than the array has places, and in a place of no warp nothing is written. "
            "Only blockDim.x / 32 warps have a sum: for all other places, add 0.",
            lambda attempt: (
                "uninitialized" in attempt.findings
                and "race" not in attempt.findings
                and "__shfl" in attempt.source
            ),
            vague=True,
        ),
        Mistake(
            "All warps store their sums in the same element. The sum of each warp needs a place of its own, with the "
            "number of the warp: threadIdx.x / 32.",
            lambda attempt: "race" in attempt.findings and attempt.matches(_LANES_PLACE),
        ),
        Mistake(
            "__shfl_up_sync hands numbers to higher lanes: the sum of a warp arrives in lane 31, and lane 0 does not "
            "get it. With __shfl_down_sync it arrives in lane 0.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and "__shfl_up_sync" in attempt.source
                and not attempt.matches(r"\b31\b")
            ),
        ),
        Mistake(
            "After __shfl_down_sync lane 0 has the sum of its warp. Lane 31 gets numbers from no other lane.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and "__shfl_down_sync" in attempt.source
                and attempt.matches(r"== 31\b")
            ),
        ),
        Mistake(
            "Between lanes that are 32 apart there is no shuffle: a lane gets its own number back, and adds it a "
            "second time. The first step is 16 lanes.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"= (?:32|warpSize);[^;]*;[^;]*__shfl_down_sync")
            ),
        ),
        Mistake(
            "Each warp of a block adds the sums of all warps, and then adds that to the total: it is as many times too "
            "large as a block has warps. Only the first warp goes on behind the barrier.",
            lambda attempt: (
                (found := TOO_LARGE.search(attempt.wrong))
                and int(found[1]) == 32 * int(found[2])
                and not attempt.matches(
                    r"\bwarp == 0|threadIdx\.x < 32|threadIdx\.x / 32 == 0|!warp\b|threadIdx\.x == 0"
                )
            ),
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
        wrong_shares("sum", "x", 64, "number"),
    ),
)
