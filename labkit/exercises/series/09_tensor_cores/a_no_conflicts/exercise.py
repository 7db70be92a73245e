"""Exercise 09a: rows in different banks."""

from labkit.exercises import HIDDEN, LAYER_1, LAYERS, Exercise, InPlaceOf, Mistake, counted

_NARROW = "layer 1 in tiles of 32 x 8"

EXERCISE = Exercise(
    title="Rows in different banks",
    subject=InPlaceOf(
        "tensor_cores",
        "a",
        LAYER_1,
        HIDDEN[1:],
        also={_NARROW: (LAYERS["layer 1"], {"wmma": (32, 8, 16)})},
    ),
    lines=2,
    goals=(
        counted(
            "shared_load_conflicts",
            "layer 1",
            exactly=0,
            least={"shared_load_instructions": 8400},
            # As in the starting code: no tile lies in global memory.
            most={"global_load_requests": 12_904, "global_store_requests": 800},
        ),
        counted(
            "shared_load_conflicts", _NARROW, exactly=0, least={"shared_load_instructions": 8400}
        ),
    ),
    start_reaches=(6400, 0),
    mistakes=(
        Mistake(
            "Where a tile has 8 columns, its rows of 8 halves already lie one behind the other without a conflict. "
            "With 8 more they are 8 words apart, and row 4 begins in the bank of row 0. Which length is right for 8, "
            "16 and 32 columns?",
            lambda attempt: (
                attempt.count("shared_load_conflicts", _NARROW) > 0
                and not attempt.count("shared_load_conflicts", "layer 1")
            ),
        ),
        Mistake(
            "WMMA takes only rows that lie a multiple of 8 halves apart, which is 16 bytes. Which of these "
            "multiples puts eight rows into different banks?",
            lambda attempt: "WMMA needs a multiple" in attempt.wrong,
        ),
        Mistake(
            "With this distance some of eight rows still meet in a bank. Eight rows of 4 words fill all banks if "
            "they lie an odd multiple of 4 words apart.",
            lambda attempt: (
                attempt.count("shared_load_conflicts", "layer 1") > 0
                and "[DEPTH][WN +" in attempt.source
            ),
        ),
        Mistake(
            "More rows do not move a row to another bank; the rows have to be longer.",
            lambda attempt: (
                attempt.count("shared_load_conflicts", "layer 1") > 0
                and "[DEPTH +" in attempt.source
            ),
        ),
        Mistake(
            "The array and the stride of load_matrix_sync do not agree: both have to say how far apart the rows "
            "lie.",
            lambda attempt: (
                attempt.wrong
                and ("[DEPTH][WN];" in attempt.source) != ("[warp][0][0], WN);" in attempt.source)
            ),
        ),
    ),
)
