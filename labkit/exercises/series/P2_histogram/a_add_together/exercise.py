"""Exercise P2a: a histogram from an empty cell."""

from labkit.exercises import Case, Exercise, Kernels, Mistake, counted
from labkit.exercises.practice import NIGHT, histogram

_PIXELS = "4,096 pixels"

EXERCISE = Exercise(
    title="Add together",
    subject=Kernels(
        histogram,
        (
            Case("1,000 pixels in 3 blocks", (1000, 3, 128, 30)),
            Case("100 pixels in 4 blocks", (100, 4, 128, 30)),
            Case("1 pixel in a block", (1, 1, 128, 30)),
            NIGHT,
            Case(_PIXELS, (4096, 4, 128, 30), counted=True),
        ),
        hidden=(range(1, 3000), range(1, 6), [128], [30]),
    ),
    goals=(
        counted(
            "global_load_sectors",
            _PIXELS,
            per=128,  # loads of warps
            what="sectors per load",
            at_most=1,
            least={"unique_bytes": 4096},
        ),
        counted("global_load_requests", _PIXELS, what="load requests", at_most=128),
        counted("reduction_requests", _PIXELS, what="atomic requests", at_most=128),
        counted(
            "busiest_warp", _PIXELS, what="memory instructions of the busiest warp", at_most=96
        ),
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
