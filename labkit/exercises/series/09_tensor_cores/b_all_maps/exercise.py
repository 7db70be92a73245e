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
    start_reaches=(28120, 12904),
    mistakes=(
        Mistake(
            "The block computes all maps now, but those with the other maps work as before: let every second one "
            "return at once.",
            lambda attempt: (
                attempt.count(_LOADS, _MAPS) > 20_000
                and "[2 * WM]" in attempt.source
                # those of every second one return
                and not attempt.matches(r"\bblockIdx\.y\s*[%&][^;{}]*\breturn\b")
            ),
        ),
        Mistake(
            "k_tile has rows for WM maps, and now it gets twice as many.",
            lambda attempt: "out of bounds" in attempt.findings and "k_tile[WM]" in attempt.source,
        ),
        Mistake(
            "The second sums are stored over the first ones in y_tile, while other lanes still read those. What says "
            "that all lanes of the warp have read them?",
            lambda attempt: (
                "race" in attempt.findings
                and "array y_tile" in attempt.wrong
                and attempt.source.partition("store_matrix_sync")[2].count("__syncwarp") < 2
            ),
        ),
        Mistake(
            "Each of the two sums has to begin at zero.",
            lambda attempt: (
                attempt.wrong
                and attempt.source.count("fill_fragment(") == 1
                and "fill_fragment(sum[0]" in attempt.source
            ),
        ),
        Mistake(
            "Both products have the same maps: the second tile of the mask begins at row WM of k_tile.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and "sum[" in attempt.source
                and "k_tile[WM" not in attempt.source
                and "* WM][step]" not in attempt.source
            ),
        ),
    ),
)
