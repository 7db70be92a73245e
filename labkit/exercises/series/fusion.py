"""The exercises of page 06."""

import re

from labkit.exercises.exercise import SOURCE, Exercise, Goal, Mistake, counted
from labkit.exercises.subjects import LAYERS, InPlaceOf

_LAYER_2 = {"layer 2": LAYERS["layer 2"]}
# Products of a warp on layer 2, with those that only fill tiles: 73 blocks of 8 warps, 13 steps of 16.
_PER_PRODUCT = counted("shared_load_instructions", "layer 2", per=73 * 8 * 13 * 16, what="shared loads per product",
                       at_most=1.6)


def _loads(attempt):
    return _PER_PRODUCT.number(attempt.counts) if attempt.counts else 0


EXERCISES = (
    Exercise(
        number="06a",
        page="fusion",
        title="Carry",
        subject=InPlaceOf("fusion", "a", _LAYER_2),
        lines=10,
        goals=(
            Goal("divisions and remainders in loops", lambda counts: counts[SOURCE]["divisions_in_loops"], exactly=0),
        ),
        hints=(
            "A clock does not divide to show the next minute. It adds one, and at 60 it carries into the hours. Here "
            "q counts up to K, p up to K, and c counts channels.",
            "TILE rows are DC channels, DP rows of a window and DQ columns: TILE = (DC * K + DP) * K + DQ. These are "
            "constants. Compute (c, p, q) of the first row before the loop, and add them at the end of each step.",
            "First add DQ to q, and DP to p, one more if q has reached K. Then add DC to c, one more if p has reached "
            "K. At last take K off the digits that have reached it.",
        ),
        mistakes=(
            Mistake(
                "The digits have to begin with the thread's own row, threadIdx.y: its c, p and q come from divisions "
                "before the loop.",
                lambda attempt: bool(attempt.wrong) and not _divides_thread_row(attempt.source),
            ),
            Mistake(
                "The digits are not those of the row. Write down (c, p, q) of the rows 0, 16, 32, 48 and 64 for K = 7, "
                "and follow your additions and carries from each to the next.",
                lambda attempt: attempt.wrong.startswith("right"),
            ),
        ),
    ),
    Exercise(
        number="06b",
        page="fusion",
        title="Two outputs per thread",
        subject=InPlaceOf("fusion", "b", _LAYER_2),
        lines=22,
        goals=(_PER_PRODUCT,),
        hints=(
            "A block now computes 2 * TILE columns of the output, with as many threads. What has to be twice as wide, "
            "and what does a thread have two of?",
            "A thread has two pixels, n and n + TILE, with an h and a w each. It fills two places of u_tile, sums "
            "into two sums, and stores each under its own guard.",
            "In the loop over i, load the element of k_tile into a variable and use it for both sums. A block whose "
            "first pixel is beyond the last one returns at once, with all its threads.",
        ),
        mistakes=(
            Mistake(
                "A thread that returns loads nothing for the others and misses the barriers: only a whole block may "
                "return, and blockIdx.x says which.",
                lambda attempt: bool(attempt.wrong and re.search(r"\bif \(n\b[^)]*\) return;", attempt.source)),
            ),
            Mistake(
                "The second pixel has its own row and column: h and w follow from n + TILE, as they do from n.",
                lambda attempt: bool(attempt.wrong) and _one_division(attempt.source),
            ),
            Mistake(
                "Neighbouring blocks compute the same pixels: a block has 2 * TILE of them, so the next one begins "
                "as far away.",
                lambda attempt: _loads(attempt) > 2.5 and "blockIdx.x * TILE" in attempt.source,
            ),
            Mistake(
                "Every second block has no pixel, but it still multiplies zeros: let the whole block return at its "
                "beginning.",
                lambda attempt: _loads(attempt) > 2.5,
            ),
        ),
    ),
)


def _divides_thread_row(code):
    return "threadIdx.y /" in code or "threadIdx.y %" in code


def _one_division(code):
    return "n / Wo" in code and len(re.findall(r"/ Wo\b", code)) == 1
