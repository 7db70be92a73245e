"""Exercise 01b: the sum in a register."""

from labkit.exercises import LAYERS, Exercise, InPlaceOf, Mistake, counted
from labkit.exercises.causes import ROWS_OF_OUTPUTS


def _count_stores(attempt, layer="layer 1"):
    """Return the store requests of an attempt on a layer; 0 if it was not counted."""
    return attempt.count("global_store_requests", layer)


def _stores_twice(attempt):
    """Return whether an attempt stores each output twice."""
    return _count_stores(attempt) == 1600 and _count_stores(attempt, "layer 2") == 1632


def _find_part(attempt):
    """Return for what of a sum, in the loops, `sum` is declared: "channel"; "" if it is declared before them."""
    loops = attempt.source.partition("for (int c")[2].partition("float sum")
    if not loops[1]:
        return ""
    parts = {"for (int q": "product", "for (int p": "row of the mask"}
    return next((part for loop, part in parts.items() if loop in loops[0]), "channel")


_SETS_ZERO = r"\by\[[^;=]*\] = 0(?:\.0?f?)? *;"
_REPLACES = r"\by\[[^;=]*\] = (?!0(?:\.0?f?)? *;)"
_STORES = ("global_store_requests", "shared_store_instructions")  # shared memory is no register
EXERCISE = Exercise(
    title="The sum in a register",
    subject=InPlaceOf("baseline", "b", LAYERS),
    lines=4,
    goals=(
        counted(_STORES, "layer 1", what="store requests", at_most=800),
        # it has four channels
        counted(_STORES, "layer 2", what="store requests", at_most=816),
        counted("global_load_requests", "layer 1", what="load requests", at_most=78_400),
    ),
    start_reaches=(40000, 160752, 78400),
    mistakes=(
        ROWS_OF_OUTPUTS,
        Mistake(
            "This computes a thread per input, but the grid has threads for the outputs only, and several threads "
            "add to one output. Keep a thread per output.",
            lambda attempt: attempt.runs_wrong and attempt.matches(r"\b(h - p|w - q)\b"),
        ),
        Mistake(
            "`sum` is declared twice. The products are added to the inner one, which ends with its loop, and the outer "
            "one is stored: it is still 0. Declare `sum` once, before the loops.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and "All outputs are 0" in attempt.wrong
                and attempt.source.partition("for (int c")[0].count("float sum = 0") == 1
                and attempt.source.count("float sum = 0") == 2
            ),
        ),
        Mistake(
            lambda attempt: (
                f"The sum begins at zero for every {_find_part(attempt)}, so only the last one is left: it begins once "
                "per output."
            ),
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.source.count("float sum") == 1
                and _find_part(attempt)
                and attempt.matches(r"\] = sum *;")
            ),
        ),
        Mistake(
            "+= adds the sum to what y held before the launch: store the sum with =.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"\by\[[^;]*\+= *sum *;")
                and not attempt.matches(r"\by\[[^;]*\] = 0")
            ),
        ),
        Mistake(
            "The sum begins with what y held before the launch, which may be anything: it begins at 0.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"\bfloat \w+ = y\[")
                and not attempt.matches(r"\by\[[^;]*\] = 0")
            ),
        ),
        Mistake(
            "The promise works: the compiler now keeps the sum in a register by itself, and stores it at first and "
            "after each channel. This exercise asks for the register in the text: a local float, stored once below "
            "the loops.",
            lambda attempt: (
                _count_stores(attempt) > 800
                and "__restrict__" in attempt.source
                and not attempt.matches(r"\bfloat \w+ = 0")
            ),
        ),
        Mistake(
            "This is no register: a reference or a pointer to an element of y is another name of the same place in "
            "memory, so each += still stores there. A local float has a place of its own.",
            lambda attempt: (
                _count_stores(attempt) >= 39_200
                and attempt.matches(r"\bfloat *[&*] *\w+ *= *(?:&? *\(?y\b)")
            ),
        ),
        Mistake(
            "The store still stands inside of a loop: below all three loops it is done once per output.",
            lambda attempt: (
                1600 < _count_stores(attempt) < 40_000
                or (_count_stores(attempt) == 40_000 and attempt.matches(r"\] = sum *;"))
            ),
        ),
        Mistake(
            "One store per channel is left, as layer 2 shows: below all three loops it is done once per output.",
            lambda attempt: (
                # three more stores per output with three more channels
                _count_stores(attempt, "layer 2") / 816 - _count_stores(attempt) / 800 == 3
            ),
        ),
        Mistake(
            "Two stores per output are left: one sets the element of y to zero, and the other adds the sum to it. The "
            "zero is what is added to. Store the sum with = in place of +=: then the zero is not needed.",
            lambda attempt: (
                _stores_twice(attempt)
                and attempt.matches(_SETS_ZERO)
                and attempt.matches(r"\by\[[^;=]*\] *\+=")
            ),
        ),
        Mistake(
            "Two stores per output are left: the zero is not needed any more, as the sum replaces it.",
            lambda attempt: (
                _stores_twice(attempt)
                and attempt.matches(_SETS_ZERO)
                and attempt.matches(_REPLACES)
                # nothing reads y, or has another name for it
                and not attempt.matches(r"\by\[[^;=]*\] *[-+*/]=|=[^;=]*(?<!\.)\by(?:\[| \+)")
            ),
        ),
    ),
)
