"""Exercise 09b: a tile for all maps."""

from labkit.exercises import HIDDEN, LAYER_1, Exercise, InPlaceOf, Mistake, counted
from labkit.spec.layers import LENET72

_MAPS = "layer 2 of lenet72"  # 24 maps
_LOADS = "global_load_requests"


EXERCISE = Exercise(
    title="A tile for all maps",
    subject=InPlaceOf("tensor_cores", "b", {_MAPS: LENET72[1], **LAYER_1}, HIDDEN[1:]),
    lines=22,
    goals=(counted(_LOADS, _MAPS, at_most=14_900), counted(_LOADS, "layer 1", at_most=12_904)),
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
            lambda attempt: attempt.count(_LOADS, _MAPS) > 20_000 and "[2 * WM]" in attempt.source,
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
)
