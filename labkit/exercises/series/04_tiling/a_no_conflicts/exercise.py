"""Exercise 04a: rows apart."""

from labkit.exercises import LAYER_1, Exercise, InPlaceOf, Mistake, counted
from labkit.exercises.arithmetic import describe_tile_rows

_WAVEFRONTS = "wavefronts_per_shared_load"


EXERCISE = Exercise(
    title="Rows apart",
    subject=InPlaceOf("tiling", "a", LAYER_1),
    lines=1,
    # The loads of 800 warps, one for each of 49 products.
    goals=(
        counted(
            "shared_load_wavefronts",
            "layer 1",
            per=39_200,
            what="wavefronts per shared load",
            at_most=1.05,
            least={"shared_load_instructions": 19_600},
            # The tile's inputs are loaded once, as in the starting code.
            most={"global_load_requests": 2_200, "lane_exchanges": 0},
        ),
    ),
    start_reaches=(2,),
    mistakes=(
        Mistake(
            "SIDE + 1 is the padding for a column, whose words lie a row apart. Here a warp reads two rows, and "
            "with 23 words per row their banks still overlap.",
            lambda attempt: (
                attempt.count(_WAVEFRONTS, "layer 1") > 1.05
                and "][SIDE + 1]" in attempt.source
                and describe_tile_rows(attempt.source)
            ),
        ),
        Mistake(
            "This gives the tile more rows, and they are as long as before: the second index is the length of a row.",
            lambda attempt: attempt.matches(r"\[SIDE \+ \d+\]\[SIDE\]"),
        ),
        Mistake(
            lambda attempt: describe_tile_rows(attempt.source),
            lambda attempt: (
                attempt.count(_WAVEFRONTS, "layer 1") > 1.05 and describe_tile_rows(attempt.source)
            ),
        ),
        Mistake(
            "A row of the tile holds TILE + K - 1 inputs, its halo included. In a shorter row the last ones are "
            "stored over the beginning of the next row.",
            lambda attempt: (
                attempt.runs_wrong and attempt.matches(r"\btile\[SIDE\]\[(?:TILE|16)\]")
            ),
        ),
    ),
)
