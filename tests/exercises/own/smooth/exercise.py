"""A running mean."""

import numpy as np

from labkit.exercises import Case, Exercise, Kernels, Output, counted, launch

K, BLOCK = 3, 64
N = 8 * BLOCK  # of the counted case: whole blocks


def smooth(random: np.random.Generator, n: int):
    """Draw multiples of K, so that every mean is exact."""
    x = K * random.integers(-9, 10, n + K - 1).astype(np.float32)
    sums = np.lib.stride_tricks.sliding_window_view(x, K).sum(axis=1)
    return launch(
        "smooth", x, Output("y", sums / K, allowed=1e-4), n, grid=-(-n // BLOCK), block=BLOCK
    )


EXERCISE = Exercise(
    title="Each input once",
    subject=Kernels(
        smooth,
        (Case("100 elements", (100,)), Case("8 blocks", (N,), counted=True)),
        hidden=[range(1, 1000)],
    ),
    # a warp's 32 inputs, and a block's rest
    goals=(counted("global_load_requests", "8 blocks", at_most=N // 32 + 8),),
    hints=(
        "How many threads of a block load the same element?",
        "Load a block's inputs into shared memory first.",
    ),
)
