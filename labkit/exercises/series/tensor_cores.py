"""The exercises of page 09."""

from labkit.exercises.exercise import Attempt, Exercise, Mistake, counted
from labkit.exercises.subjects import HIDDEN, LAYERS, InPlaceOf
from labkit.spec.layers import LENET72

_FIRST = {"layer 1": LAYERS["layer 1"]}
_MAPS = "layer 2 of lenet72"  # 24 maps
_LOADS = "global_load_requests"


def _loads(attempt: Attempt) -> float:
    return attempt.counts.get(_MAPS, {}).get(_LOADS, 0)


def _conflicts(attempt: Attempt) -> float:
    return attempt.counts.get("layer 1", {}).get("shared_load_conflicts", 0)


EXERCISES = (
    Exercise(
        number="09a",
        page="tensor_cores",
        title="Rows in different banks",
        subject=InPlaceOf("tensor_cores", "a", _FIRST, HIDDEN[1:]),
        lines=2,
        goals=(counted("shared_load_conflicts", "layer 1", exactly=0),),
        hints=(
            "load_matrix_sync reads eight rows of 16 bytes at a time. In which banks do the rows of u_tile begin, and "
            "in which those of k_tile?",
            "A row of 16 halves has 8 words, so row 4 begins in the bank of row 0. How many words apart do eight rows "
            "of 4 words fill all 32 banks?",
            "The distance of the rows has to be an odd multiple of 4 words, and WMMA asks for a multiple of 8 halves. "
            "Change the array and the stride together.",
        ),
        mistakes=(
            Mistake(
                "With this distance some of eight rows still meet in a bank. WMMA takes a multiple of 8 halves, that "
                "is of 4 words; it has to be an odd one.",
                lambda attempt: _conflicts(attempt) > 0 and "[DEPTH][WN +" in attempt.source,
            ),
            Mistake(
                "More rows do not move a row to another bank; the rows have to be longer.",
                lambda attempt: _conflicts(attempt) > 0 and "[DEPTH +" in attempt.source,
            ),
            Mistake(
                "The array and the stride of load_matrix_sync do not agree: both have to say how far apart the rows "
                "lie.",
                lambda attempt: bool(attempt.wrong)
                and ("[DEPTH][WN];" in attempt.source) != ("[warp][0][0], WN);" in attempt.source),
            ),
        ),
    ),
    Exercise(
        number="09b",
        page="tensor_cores",
        title="A tile for all maps",
        subject=InPlaceOf("tensor_cores", "b", {_MAPS: LENET72[1], **_FIRST}, HIDDEN[1:]),
        lines=22,
        goals=(
            counted(_LOADS, _MAPS, at_most=14_900),
            counted(_LOADS, "layer 1", at_most=12_904),
        ),
        hints=(
            "Two blocks of a grid compute the maps 0 to 15 and 16 to 23 of the same pixels. One of them could do both, "
            "and the other one nothing.",
            "Such a block needs two tiles of the mask in k_tile, two sums, and for each tile of u two products. A "
            "block with an odd blockIdx.y returns at once.",
            "At the end each sum goes through y_tile, one after the other, with a __syncwarp before y_tile is filled "
            "again.",
        ),
        mistakes=(
            Mistake(
                "The block computes all maps now, but those with the other maps work as before: let every second one "
                "return at once.",
                lambda attempt: _loads(attempt) > 20_000 and "[2 * WM]" in attempt.source,
            ),
            Mistake(
                "k_tile has rows for WM maps, and now it gets twice as many.",
                lambda attempt: "out of bounds" in attempt.findings and "k_tile[WM]" in attempt.source,
            ),
            Mistake(
                "Each of the two sums has to begin at zero.",
                lambda attempt: bool(attempt.wrong) and attempt.source.count("fill_fragment(") == 1
                and "fill_fragment(sum[0]" in attempt.source,
            ),
            Mistake(
                "Both products have the same maps: the second tile of the mask begins at row WM of k_tile.",
                lambda attempt: bool(attempt.wrong) and "sum[" in attempt.source
                and "k_tile[WM" not in attempt.source and "* WM][step]" not in attempt.source,
            ),
        ),
    ),
)
