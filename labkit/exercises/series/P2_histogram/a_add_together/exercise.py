"""Exercise P2a: a histogram from an empty cell."""

import re

from labkit.exercises import Attempt, Case, Exercise, Kernels, Mistake, counted
from labkit.exercises.causes import LOST_REST, SIGNED_PIXEL
from labkit.exercises.practice import NIGHT, histogram, wrong_shares
from labkit.exercises.text import find_line

_PIXELS = "4,096 pixels"

_FIRST_COUNT = re.compile(r"The first, \[\d+\]: (\d+), expected (\d+),")


def _counts_more(attempt: Attempt) -> bool:
    """Return whether the first wrong bin has more than its number of pixels."""
    counts = _FIRST_COUNT.search(attempt.wrong)
    return counts is not None and int(counts[1]) > int(counts[2])


# "unsigned count = bins[...]; ... atomicAdd(&count, 1)"
_LOCAL = re.compile(r"\b(?:unsigned|int) (\w+) = bins\[[^;]{1,100};[\s\S]{0,300}\batomicAdd\(&\1,")

# "for (int k = 0; k < 8; ++k)", and "1,000 pixels in 3 blocks" of a case
_FIXED_LOOP = re.compile(r"\bfor \(int (\w+) = 0; \1 < (\d{1,4}); (?:\+\+\1|\1\+\+|\1 \+= 1)\)")
_PIXELS_AND_BLOCKS = re.compile(r"([\d,]+) pixels (?:of the night )?in (\d|a) block")
_THREADS = 128


def _explain_fixed_loop(attempt: Attempt) -> str:
    """Return which line makes a fixed number of rounds, if they are too few for the case that is wrong; or ""."""
    loops = re.findall(r"\b(?:for|while|goto)\b", attempt.source)
    loop = _FIXED_LOOP.search(attempt.source)
    case = _PIXELS_AND_BLOCKS.search(attempt.wrong)
    added = re.findall(r"\batomicAdd\(&bins\[pixels\[\w+\]\], *1u?\)", attempt.source)
    if not (loop and case and len(loops) == len(added) == attempt.source.count("atomic") == 1):
        return ""
    pixels = int(case[1].replace(",", ""))
    threads = (1 if case[2] == "a" else int(case[2])) * _THREADS
    most = int(loop[2]) * threads
    if most >= pixels:
        return ""
    line = find_line(attempt.source, loop.start())
    return (
        f"The loop in line {line} ends after {loop[2]} rounds, however many pixels there are. In this case {threads} "
        f"threads count at most {most:,} of {pixels:,} pixels: let the loop go on until its pixel is beyond the last."
    )


def _find_common_index(attempt: Attempt) -> str:
    """Return the name that is an index of bins and of pixels; "" if there is none."""
    bins, pixels = (
        {*re.findall(rf"\b{array}\[(\w+)\]", attempt.source)} for array in ("bins", "pixels")
    )
    return next(iter(bins & pixels), "")


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
        SIGNED_PIXEL,
        LOST_REST,
        Mistake(
            "Threads add to one bin at the same time, and all but one of their additions are lost: only atomicAdd "
            "keeps them.",
            lambda attempt: (
                {"race", "race between blocks", "lost update"} & {*attempt.findings}
                and "atomicAdd" not in attempt.source
            ),
        ),
        Mistake(
            lambda attempt: (
                f"`{_find_common_index(attempt)}` numbers the pixels, and here it is the index of a bin, too. The bin "
                "of a pixel is its value, pixels[...], and each pixel adds 1 to it."
            ),
            lambda attempt: attempt.runs_wrong and _find_common_index(attempt),
        ),
        Mistake(
            "A thread counts the pixels of one value here, so it reads all of them, and a value without a thread is "
            "not counted. Deal out the pixels to the threads: each adds 1 to the bin of its pixel, with atomicAdd.",
            lambda attempt: attempt.matches(r"\bpixels\[\w+\] == \w|== pixels\["),
        ),
        Mistake(
            lambda attempt: (
                f"atomicAdd adds to `{_LOCAL.search(attempt.source)[1]}` here, a variable of one thread. Between the "
                "read of the bin and the store, other threads change it, and that is lost: a barrier would not help. "
                "Add to the bin itself, atomicAdd(&bins[...], 1)."
            ),
            lambda attempt: attempt.findings and _LOCAL.search(attempt.source),
        ),
        Mistake(
            "atomicInc begins again at 0 when a bin has reached its second argument. atomicAdd(&bins[...], 1) has no "
            "such end.",
            lambda attempt: attempt.runs_wrong and "atomicInc" in attempt.source,
        ),
        Mistake(
            "atomicExch only makes the store one step: between the read of a bin and this store, other threads add to "
            "it, and that is lost. atomicAdd reads, adds and writes as one step.",
            lambda attempt: attempt.runs_wrong and "atomicExch" in attempt.source,
        ),
        Mistake(
            "Some pixels are not counted: the grid has fewer threads than there are pixels.",
            lambda attempt: attempt.runs_wrong and not attempt.matches(r"\b(?:for|while|goto)\b"),
        ),
        Mistake(
            _explain_fixed_loop,
            lambda attempt: attempt.wrong.startswith("right") and _explain_fixed_loop(attempt),
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
        wrong_shares("histogram", "pixels", 128, "pixel"),
    ),
)
