"""The product of a matrix and a vector, a warp per row."""

import numpy as np

from labkit.exercises import Case, Exercise, Kernels, Mistake, Output, counted, launch


def matvec(random: np.random.Generator, rows: int, columns: int):
    """Draw real numbers: y has to be right within the rounding of its sums."""
    a = random.uniform(-1, 1, (rows, columns)).astype(np.float32)
    x = random.uniform(-1, 1, columns).astype(np.float32)
    exact = a.astype(np.float64) @ x
    scale = np.abs(a).astype(np.float64) @ np.abs(x)
    y = Output("y", exact.astype(np.float32), allowed=columns * 2.0**-23 * scale)
    return launch("matvec", a, x, y, rows, columns, grid=-(-rows // 4), block=(32, 4))


EXERCISE = Exercise(
    title="A warp per row",
    subject=Kernels(
        matvec,
        (
            Case("a matrix of 5 x 7", (5, 7)),
            Case("a matrix of 13 x 100", (13, 100)),
            Case("a matrix of 64 x 256", (64, 256), counted=True),
        ),
    ),
    goals=(
        counted(
            "global_load_sectors",
            "a matrix of 64 x 256",
            per=64 * 256 / 8,
            what="sectors per sector of A",
            at_most=2.1,
        ),
        counted("global_store_requests", "a matrix of 64 x 256", at_most=64),
    ),
    hints=(
        "The 32 lanes of a warp share a row: which elements does each of them take?",
        "__shfl_down_sync(0xffffffff, sum, 16) gives a lane the sum of the one 16 lanes above.",
    ),
    mistakes=(
        Mistake(
            "Every lane stores its own part: add the parts of the warp first.",
            lambda attempt: bool(attempt.wrong) and "__shfl" not in attempt.source,
        ),
    ),
)
