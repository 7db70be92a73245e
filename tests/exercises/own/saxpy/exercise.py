"""SAXPY: y = a x + y."""

import numpy as np

from labkit.exercises import Case, Exercise, Kernels, Mistake, Output, counted, launch


def saxpy(random: np.random.Generator, n: int, blocks: int):
    """Draw whole numbers, so that every sum is exact."""
    x, y = random.integers(-9, 10, (2, n)).astype(np.float32)
    return launch("saxpy", n, 3.0, x, Output("y", 3 * x + y, before=y), grid=blocks, block=64)


EXERCISE = Exercise(
    title="SAXPY with a grid stride",
    subject=Kernels(
        saxpy,
        (
            Case("1,000 elements in 3 blocks", (1000, 3)),
            Case("50 elements in 2 blocks", (50, 2)),
            Case("2,048 elements", (2048, 4), counted=True),
        ),
        hidden=(range(1, 2000), range(1, 9)),
    ),
    goals=(
        counted(
            "global_load_sectors",
            "2,048 elements",
            per=128,
            what="sectors per load",
            at_most=4,
            least={"unique_bytes": 2 * 4 * 2048},
        ),
    ),
    lines=3,
    hints=("Which elements does a warp load at once?", "The step is the number of all threads."),
    mistakes=(
        Mistake(
            "This stores a x alone: y is an input, too.",
            lambda attempt: (
                attempt.wrong.startswith("right") and "y[i] = a * x[i];" in attempt.source
            ),
        ),
    ),
)
