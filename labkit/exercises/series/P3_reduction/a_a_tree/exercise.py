"""Exercise P3a: a sum from an empty cell."""

from labkit.exercises import Case, Exercise, Kernels, Mistake, counted
from labkit.exercises.causes import LOST_REST, MORE_WARPS, OWN_SUM_TWICE
from labkit.exercises.practice import ADDITIONS, TOO_LARGE, total, wrong_shares

_NUMBERS = "16,384 numbers"
_READ = {"unique_bytes": 4 * 16384}


EXERCISE = Exercise(
    title="A tree",
    subject=Kernels(
        total,
        (
            Case("1,000 numbers in 3 blocks of 64", (1000, 3, 64)),
            Case("100 numbers in 2 blocks of 32", (100, 2, 32)),
            Case("50 numbers in 3 blocks of 8", (50, 3, 8)),
            Case("3 numbers in a block of 1", (3, 1, 1)),
            # a block may have more threads than there are numbers
            Case("20 numbers in 2 blocks of 64", (20, 2, 64)),
            Case(_NUMBERS, (16384, 8, 256), counted=True),
        ),
        hidden=(range(1, 3000), range(1, 6), [32, 64, 128, 256]),
    ),
    goals=(
        counted(
            "global_load_sectors",
            _NUMBERS,
            per=512,
            what="sectors per load",
            at_most=4,
            least=_READ,
        ),
        counted("global_load_requests", _NUMBERS, what="load requests", at_most=512, least=_READ),
        counted("global_store_sectors", _NUMBERS, what=ADDITIONS, at_most=8),
        counted(
            "shared_conflicts",
            _NUMBERS,
            what="bank conflicts",
            exactly=0,
            least={"shared_instructions": 64},
        ),
        counted(
            "shared_atomic_requests", _NUMBERS, what="atomic requests to shared memory", exactly=0
        ),
        counted(
            "busiest_warp", _NUMBERS, what="memory instructions of the busiest warp", at_most=64
        ),
    ),
    mistakes=(
        LOST_REST,
        MORE_WARPS,
        OWN_SUM_TWICE,
        Mistake(
            "A block may have one thread: then nobody stores number 1 in shared memory, and there is nothing to add to "
            "number 0. End the tree with a sum in number 0 alone.",
            lambda attempt: (
                "uninitialized" in attempt.findings
                and " at element 1 of " in attempt.wrong
                and attempt.matches(r"\b(\w+)\[0\] \+ \1\[1\]")
            ),
        ),
        Mistake(
            "If there are fewer numbers than threads, the threads without a number store nothing, and the tree adds "
            "what stands at their places. What should stand there?",
            lambda attempt: (
                "uninitialized" in attempt.findings
                and attempt.matches(r"if \((?:i|\w+) < n\)\s*\{?\s*\w+\[threadIdx\.x\] *=(?!=)")
            ),
        ),
        Mistake(
            "Each thread of a block adds the block's sum to the total, which is as many times too large as a block has "
            "threads. One of them adds it: if (threadIdx.x == 0).",
            lambda attempt: (
                (found := TOO_LARGE.search(attempt.wrong)) and found[1] == found[2] != "1"
            ),
        ),
        Mistake(
            "Behind the tree the sum of the block is in the first element, part[0]: the others have sums of some "
            "threads.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"\(threadIdx\.x < half\)")
                and attempt.matches(r"\batomicAdd\(total, \w+\[(?!0\])")
            ),
        ),
        Mistake(
            "All threads add here, so the upper half changes sums while the lower half reads them. Only threads below "
            "`half` add in a step; the barrier stays outside of the if.",
            lambda attempt: (
                "race" in attempt.findings
                and attempt.matches(r"[;{)]\s*(\w+)\[threadIdx\.x\] \+= \1\[threadIdx\.x \+ \w+\];")
                and not attempt.matches(r"\bif \([^;{}]*\)\s*\{?\s*(\w+)\[threadIdx\.x\] \+= ")
            ),
        ),
        Mistake(
            "Blocks add to one total at the same time: only atomicAdd keeps all of their sums.",
            lambda attempt: attempt.runs_wrong and "atomicAdd" not in attempt.source,
        ),
        Mistake(
            "Each number has to be added exactly once, and there are more numbers than threads: of T threads in "
            "the grid, thread t adds the numbers t, t + T, t + 2T and so on. T is gridDim.x * blockDim.x.",
            lambda attempt: attempt.wrong.startswith("right") and "gridDim" not in attempt.source,
        ),
        Mistake(
            lambda attempt: (
                f"Eight blocks add to the total by {int(attempt.count('reduction_requests', _NUMBERS))} requests: "
                "first bring the sums of a block together, then add once."
            ),
            lambda attempt: attempt.count("reduction_requests", _NUMBERS) > 8,
        ),
        Mistake(
            "Threads of a warp meet in one bank: the words that they use at the same time do not lie side by side. "
            "Which word may thread t add to its own, so that neighbouring threads use neighbouring words in each step?",
            lambda attempt: attempt.count("shared_conflicts", _NUMBERS) > 0,
            vague=True,
        ),
        Mistake(
            "One thread adds up the sums of all threads of its block, one after the other, and the others wait. In a "
            "tree half of the threads add in the first step, a quarter in the second, and so on.",
            lambda attempt: (
                attempt.count("busiest_warp", _NUMBERS) > 256
                and attempt.matches(
                    r"\bif \((?:threadIdx\.x == 0|!threadIdx\.x)\)\s*\{[^}]*\bfor \("
                )
            ),
        ),
        wrong_shares("sum", "x", 64, "number"),
    ),
)
