"""Exercise P2a: a histogram from an empty cell."""

import re

from labkit.exercises import Attempt, Case, Exercise, Kernels, Mistake, counted
from labkit.exercises.practice import NIGHT, histogram

_PIXELS = "4,096 pixels"

_FIRST_COUNT = re.compile(r"The first, \[\d+\]: (\d+), expected (\d+),")


def _counts_more(attempt: Attempt) -> bool:
    """Return whether the first wrong bin has more than its number of pixels."""
    counts = _FIRST_COUNT.search(attempt.wrong)
    return counts is not None and int(counts[1]) > int(counts[2])


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
            lambda attempt: attempt.findings and "atomicAdd" not in attempt.source,
        ),
        Mistake(
            "Some pixels are not counted: the grid has fewer threads than there are pixels.",
            lambda attempt: attempt.runs_wrong and not attempt.matches(r"\b(?:for|while|goto)\b"),
        ),
        Mistake(
            "No index depends on blockIdx, so all blocks take the same pixels. Which pixel is the first one of a "
            "thread, among those of all blocks?",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and "blocks" in attempt.wrong
                and "blockIdx" not in attempt.source
            ),
        ),
        Mistake(
            "Some pixels are counted more than once: the step is the number of all threads of the grid.",
            lambda attempt: _counts_more(attempt) and "gridDim" not in attempt.source,
        ),
        Mistake(
            "Right, but the lanes of a warp load from places that lie apart: neighbouring threads should take "
            "neighbouring pixels.",
            lambda attempt: attempt.count("sectors_per_load", _PIXELS) > 1,
        ),
    ),
)
