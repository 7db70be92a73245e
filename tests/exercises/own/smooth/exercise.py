"""A running mean; its width and the block are drawn for each student."""

import numpy as np

from labkit.exercises import Case, Exercise, Kernels, Output, counted, drawn, launch

K = drawn("K", 3, 5, 9)
BLOCK = drawn("BLOCK", 64, 128, 256)
N = 8 * BLOCK  # of the counted case: whole blocks


def smooth(n: int):
    """Multiples of K, so that every mean is exact."""
    x = K * (np.arange(n + K - 1, dtype=np.float32) % 13)
    sums = np.lib.stride_tricks.sliding_window_view(x, K).sum(axis=1)
    return launch("smooth", x, Output("y", sums / K, allowed=1e-4), n, grid=-(-n // BLOCK), block=BLOCK)


EXERCISE = Exercise(
    title="Each input once",
    subject=Kernels(smooth, (Case("100 elements", (100,)), Case("8 blocks", (N,), counted=True))),
    goals=(counted("global_load_requests", "8 blocks", at_most=N // 32 + 8),),  # a warp's 32 inputs, and a block's rest
    hints=("How many threads of a block load the same element?", "Load a block's inputs into shared memory first."),
)
