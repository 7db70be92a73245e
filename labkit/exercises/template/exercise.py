"""What the grader needs to know.

The text, the starting code and the solution are in the .cu file beside this one.
"""

import numpy as np

from labkit.exercises import Case, Exercise, Kernels, Mistake, Output, counted, launch


def clamp(random: np.random.Generator, n: int, blocks: int):
    """Return the launch on n numbers: pass the arguments in the kernel's order, with the output's expected values.

    Draw all inputs from `random`: they differ in each grading, so that no kernel can know them.
    """
    x = random.uniform(-2, 2, n).astype(np.float32)
    return launch("clamp", x, Output("y", np.clip(x, -1, 1)), n, grid=blocks, block=128)


EXERCISE = Exercise(
    title="Every thread its share",
    # Hidden shapes first, then what goals are counted on: few and many numbers, with a rest, with
    # idle threads.
    subject=Kernels(
        clamp,
        (
            Case("1,000 numbers in 3 blocks", (1000, 3)),
            Case("77 numbers in 2 blocks", (77, 2)),
            Case("4,096 numbers", (4096, 8), counted=True),
        ),
        hidden=(range(1, 2000), range(1, 9)),
    ),
    # Counters of `labkit.profile`, which are the same on every machine; `per` divides by a number,
    # and `least` is what the work takes at least: here 4,096 numbers are read and written, by 128
    # requests of 4 sectors each.
    goals=(
        counted(
            "global_load_sectors",
            "4,096 numbers",
            per=128,
            what="sectors per load",
            at_most=4,
            least={"unique_bytes": 2 * 4 * 4096},
        ),
        counted("global_load_requests", "4,096 numbers", at_most=128),
        counted(
            "busiest_warp",
            "4,096 numbers",
            what="memory instructions of the busiest warp",
            at_most=16,
        ),
    ),
    lines=4,  # at most so many may change; None for as many as it takes
    # sentences for typical mistakes, in place of the next hint; the first that fits is said
    mistakes=(
        Mistake(
            "Each block does all the work: blockIdx.x is missing from a thread's number.",
            lambda attempt: attempt.runs_wrong and "blockIdx" not in attempt.source,
        ),
    ),
)
