"""Exercise 09a: rows in different banks."""

import math
import re

from labkit.exercises import HIDDEN, LAYER_1, LAYERS, Attempt, Exercise, InPlaceOf, Mistake, counted

_NARROW, _WIDE = "layer 1 in tiles of 32 x 8", "layer 1 in tiles of 8 x 32"
_NUMBER = re.compile(r"\bu_tile\[WARPS\]\[DEPTH\]\[(\d{1,3})\]")
_PADDING = re.compile(r"\[DEPTH\]\[WN \+ (\d{1,3})\]")


def _find_distance(attempt: Attempt, columns: int) -> int:
    """Return how many words a row of `columns` halves and its padding has, by "[DEPTH][WN + 16]"; 0 if not known."""
    padding = _PADDING.search(attempt.source)
    return (columns + int(padding[1])) // 2 if padding else 0


def _explain_number(attempt: Attempt) -> str:
    """Return the sentence if the rows of u_tile have a fixed number of halves that is too small for a shape; or ""."""
    number = _NUMBER.search(attempt.source)
    columns = next((columns for columns in (8, 16, 32) if number and int(number[1]) < columns), 0)
    return columns and (
        f"Every row of u_tile has {number[1]} halves now. That is too short where a tile has {columns} columns: the "
        "last ones are stored over the next row. The length has to follow from WN."
    )


def _have_other_rows(attempt: Attempt) -> bool:
    """Return whether u_tile and load_matrix_sync have different expressions of WN for the length of a row."""
    lengths = [
        re.search(pattern, attempt.source)
        for pattern in (r"\[DEPTH\]\[([WN\d+*|() ]+)\];", r"\[warp\]\[0\]\[0\], ([WN\d+*|() ]+)\);")
    ]
    # the operands in any order, without parentheses
    return (
        all(lengths) and len({*(str(sorted(re.findall(r"[\w+*|]+", of[1]))) for of in lengths)}) > 1
    )


def _explain_narrow(attempt: Attempt) -> str:
    """Return the sentence about rows that conflict only where a tile has 8 columns."""
    words = _find_distance(attempt, 8)
    return (
        "Where a tile has 8 columns, its rows of 8 halves already lie one behind the other without a conflict. "
        f"With more they are {words} words apart, and row {32 // math.gcd(32, words)} begins in the bank of row 0. "
        "Which length is right for 8, 16 and 32 columns?"
    )


def _explain_wide(attempt: Attempt) -> str:
    """Return the sentence about rows of 16 halves and their padding that conflict."""
    words = _find_distance(attempt, 16)
    return (
        f"Rows of 16 halves are {words} words apart now, and row {32 // math.gcd(32, words)} begins in the bank of "
        f"row 0. Eight rows of 4 words fill all banks if they lie an odd multiple of 4 words apart; {words} is "
        f"{words // 4} times 4."
    )


EXERCISE = Exercise(
    title="Rows in different banks",
    subject=InPlaceOf(
        "tensor_cores",
        "a",
        LAYER_1,
        HIDDEN[1:],
        also={
            _NARROW: (LAYERS["layer 1"], {"wmma": (32, 8, 16)}),
            _WIDE: (LAYERS["layer 1"], {"wmma": (8, 32, 16)}),
        },
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
        *(
            counted(
                "shared_load_conflicts", tiles, exactly=0, least={"shared_load_instructions": 8400}
            )
            for tiles in (_NARROW, _WIDE)
        ),
    ),
    start_reaches=(6400, 0, 19200),
    mistakes=(
        Mistake(
            _explain_narrow,
            lambda attempt: (
                attempt.count("shared_load_conflicts", _NARROW) > 0
                and not attempt.count("shared_load_conflicts", "layer 1")
                and _find_distance(attempt, 8)
            ),
        ),
        Mistake(
            "The rows of 8 and of 16 halves have no conflicts now, those of 32 have. 32 halves are 16 words, so row 2 "
            "begins in the bank of row 0. Eight rows of 4 words fill all banks if they lie an odd multiple of 4 words "
            "apart.",
            lambda attempt: (
                attempt.count("shared_load_conflicts", _WIDE) > 0
                and not attempt.count("shared_load_conflicts", "layer 1")
                and not attempt.count("shared_load_conflicts", _NARROW)
            ),
        ),
        Mistake(_explain_number, lambda attempt: attempt.runs_wrong and _explain_number(attempt)),
        Mistake(
            "WMMA takes only rows that lie a multiple of 8 halves apart, which is 16 bytes. Which of these "
            "multiples puts eight rows into different banks?",
            lambda attempt: "WMMA needs a multiple" in attempt.wrong,
        ),
        Mistake(
            _explain_wide,
            lambda attempt: (
                attempt.count("shared_load_conflicts", "layer 1") > 0
                and _find_distance(attempt, 16) % 8 == 0 < _find_distance(attempt, 16)
            ),
        ),
        Mistake(
            "u_tile has the rows of u one behind the other, which is row_major: with col_major the fragment gets "
            "rows for columns.",
            lambda attempt: attempt.runs_wrong and attempt.matches(r"matrix_b,[^;]*col_major"),
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
            lambda attempt: attempt.wrong and _have_other_rows(attempt),
        ),
    ),
)
