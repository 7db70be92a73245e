"""Exercise P2a: a histogram from an empty cell."""

import numpy as np

from labkit.exercises import Case, Exercise, Kernels, Mistake, Output, counted, launch

_PIXELS = "4,096 pixels"


def histogram(random: np.random.Generator, n: int, blocks: int):
    """Pixels of which many are dark, as those of an image are, and bins that are zero."""
    pixels = random.exponential(30, n).clip(0, 255).astype(np.uint8)
    bins = np.bincount(pixels, minlength=256).astype(np.uint32)
    return launch("histogram", pixels, n, Output("bins", bins, before=0), grid=blocks, block=128)


EXERCISE = Exercise(
    title="Add together",
    subject=Kernels(histogram, (
        Case("1,000 pixels in 3 blocks", (1000, 3)),
        Case("100 pixels in 4 blocks", (100, 4)),
        Case("1 pixel in a block", (1, 1)),
        Case(_PIXELS, (4096, 4), counted=True),
    ), hidden=(range(1, 3000), range(1, 6))),
    goals=(
        counted("global_load_sectors", _PIXELS, per="global_load_requests", what="sectors per load", at_most=1),
        counted("global_load_requests", _PIXELS, what="load requests", at_most=128),
        counted("reduction_requests", _PIXELS, what="atomic requests", at_most=128),
    ),
    hints=(
        "The grid has fewer threads than there are pixels: let each take several, one grid apart.",
        "Two threads may have the same pixel value. bins[v] += 1 reads, adds and writes: what if both read first?",
        "atomicAdd(&bins[pixels[i]], 1) reads, adds and writes as one step.",
    ),
    mistakes=(
        Mistake(
            "Threads add to one bin at the same time, and all but one of their additions are lost: only atomicAdd "
            "keeps them.",
            lambda attempt: attempt.runs_wrong and "atomicAdd" not in attempt.source,
        ),
        Mistake(
            "Some pixels are not counted: the grid has fewer threads than there are pixels.",
            lambda attempt: attempt.runs_wrong and "for" not in attempt.source.split(),
        ),
        Mistake(
            "Some pixels are counted more than once: the step is the number of all threads of the grid.",
            lambda attempt: attempt.wrong.startswith("right") and "gridDim" not in attempt.source,
        ),
        Mistake(
            "Right, but the lanes of a warp load from places that lie apart: neighbouring threads should take "
            "neighbouring pixels.",
            lambda attempt: attempt.count("sectors_per_load", _PIXELS) > 1,
        ),
    ),
)
