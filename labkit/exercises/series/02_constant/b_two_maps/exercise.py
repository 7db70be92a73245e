"""Exercise 02b: two maps per thread."""

import re

from labkit.exercises import LAYER_1, Attempt, Exercise, InPlaceOf, Mistake, counted


def _count(attempt: Attempt, name: str) -> float:
    """Return the counter `name` of an attempt on layer 1; 0 if it was not counted."""
    return attempt.count(name, "layer 1")


_BYTES = 19_600 * 32 * 4  # a load of four words per lane is one request, too

# Memory instructions of a warp without those for the mask: 49 loads and a store per map.
_OF_ONE_MAP, _OF_TWO_MAPS = 50, 100

EXERCISE = Exercise(
    title="Two maps per thread",
    subject=InPlaceOf("constant", "b", LAYER_1, moves=True),
    lines=12,
    goals=(
        counted("global_store_requests", "layer 1", what="store requests", at_most=800),
        # loads of inputs that are kept in shared memory count, too
        counted(
            ("global_load_requests", "shared_load_instructions"),
            "layer 1",
            what="load requests",
            at_most=19_600,
            most={"global_load_bytes": _BYTES, "shared_load_bytes": _BYTES, "lane_exchanges": 0},
        ),
        counted("constant_requests", "layer 1", what="reads of constant memory", at_most=39_200),
    ),
    start_reaches=(40000, 39200, 39200),
    mistakes=(
        Mistake(
            "[… + 1] is the next element of the same map. The mask of map m + 1 begins C * K * K elements behind "
            "that of map m, and its outputs Ho * Wo elements behind.",
            lambda attempt: attempt.runs_wrong and attempt.matches(r"\b[qw] \+ 1\]"),
        ),
        Mistake(
            "The mask of map m + 1 begins C * K * K elements behind that of map m. K * K elements behind an element of "
            "a mask is the same element for the next channel.",
            lambda attempt: "with the first one's weights of the next channel" in attempt.wrong,
        ),
        Mistake(
            "Blocks with an even m return, and the others compute m and m + 1: nobody computes map 0. Let the blocks "
            "with an odd m return.",
            lambda attempt: (
                attempt.runs_wrong
                and attempt.matches(r"\bm % 2 == 0\) return;|!\(m % 2\)\) return;")
            ),
        ),
        Mistake(
            "m goes up in twos now, and the grid still has a block for every map: in the last blocks m is M or more. "
            "These have to return.",
            lambda attempt: (
                "out of bounds" in attempt.findings
                and attempt.matches(r"\bint m = (?:2 \* blockIdx\.y|blockIdx\.y \* 2);")
                and not attempt.matches(r"\bm (?:>=|<) M\b")
            ),
        ),
        Mistake(
            "The outputs of map m + 1 begin Ho * Wo elements behind those of map m: its output (h, w) is "
            "y[(Ho + h) * Wo + w].",
            lambda attempt: (
                attempt.runs_wrong and attempt.matches(r"\by\[h \* Wo \+ w \+ (?:[HW]o?|M)\] =")
            ),
        ),
        Mistake(
            "With an odd number of maps the last one has no partner: compare m + 1 with M before anything is "
            "stored there.",
            lambda attempt: (
                {"out of bounds", "race", "race between blocks"} & {*attempt.findings}
                and not attempt.matches(r"<=? *M\b|\bM *(?:>|-)|M *% *2")
            ),
        ),
        Mistake(
            "The last of an odd number of maps has no partner, and has to be computed all the same. Which "
            "block does it?",
            lambda attempt: (
                re.search(r"in the last of \d*[13579] maps", attempt.wrong)
                and "were not written" in attempt.wrong
            ),
        ),
        Mistake(
            "The sums still live in y: add the products to local variables, and store them below the loops.",
            lambda attempt: _count(attempt, "global_store_requests") > 2000,
        ),
        Mistake(
            "Each map but the first is computed twice, by its own block and by that of the map before: blocks with "
            "an odd m have nothing to do.",
            lambda attempt: (
                # of four maps, three twice; or the last one twice as well
                _count(attempt, "global_store_requests") in (1400, 1600)
                and not attempt.matches(r"% *2|& *1\b|\by\[h \* Wo \+ w\] = 0|2 \*|\* 2")
            ),
        ),
        Mistake(
            "The stores are gone, and each input is still loaded for every map: let a thread compute two maps.",
            lambda attempt: (
                _count(attempt, "global_load_requests") == 39_200
                and _count(attempt, "busiest_warp") == _OF_ONE_MAP
            ),
        ),
        Mistake(
            "A thread computes two maps now, and still loads an input for each product. The two products with the same "
            "input belong side by side in one loop: then one load into a local variable serves both.",
            lambda attempt: (
                _count(attempt, "global_load_requests") == 39_200
                and _count(attempt, "global_store_requests") == 800
                and _count(attempt, "busiest_warp") == _OF_TWO_MAPS
            ),
        ),
    ),
)
