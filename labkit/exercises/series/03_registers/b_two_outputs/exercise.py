"""Exercise 03b: two outputs per thread."""

import re

from labkit.exercises import HIDDEN, LAYER_1, Attempt, Exercise, InPlaceOf, Mistake, counted
from labkit.exercises.causes import ROWS_OF_OUTPUTS
from labkit.exercises.text import find_line
from labkit.spec.layers import Layer

_REQUESTS = 800  # of a store of all outputs of layer 1: 4 * 80 * 80 / 32
_BYTES = 19_600 * 32 * 4  # a read of four words per lane is one request, too
_OF_TWO_OUTPUTS = 2 * (49 + 1)  # memory instructions of a warp, without those for the mask
_ODD = (Layer("13 rows of outputs", C=2, H=19, W=12, M=3, K=7), 2)

# In the message about wrong outputs: the rows of a map, and the first and last wrong one.
_ROWS = re.compile(r"-> \d+x(\d+)x\d+,(?s:.*?) h (\d+)(?: to (\d+))?,")

_ONE_FURTHER = {"h": ("row", "h", "Ho"), "w": ("column", "w", "Wo")}


def _find_further(attempt: Attempt) -> str:
    """Return the index, h or w, whose successor an attempt reads inputs for; "" if none."""
    found = re.search(r"\bx\[[^;]*\b([hw]) \+ 1\b", attempt.source)
    return found[1] if found else ""


# "out of bounds, line 31: read of 4 bytes at x["
_READ_BEYOND = re.compile(r"out of bounds, line (\d+): read of \d+ bytes at x\[")
# The second output's store with its condition, and its load without one; the group is the distance of the outputs.
_STORE_IF = re.compile(r"\bif \(h \+ (\w+) < Ho\)\s*y\[\(h \+ \1\) \* Wo \+ w\] =")
_LOAD = r"\w+ \+= x\[\(c \* H \+ h \+ {0} \+ p\) \* W \+ w \+ q\] \* .*"


def _find_bare_load(attempt: Attempt) -> tuple[int, int, str]:
    """Return the lines of the second output's load and store, and their distance, if the store alone has a condition.

    (0, 0, "") if not. The condition is the only one on h + half, so that none holds for the load.
    """
    read, store = _READ_BEYOND.search(attempt.wrong), _STORE_IF.search(attempt.source)
    lines = attempt.source.splitlines()
    if not read or not store or int(read[1]) > len(lines):
        return 0, 0, ""
    half, load = store[1], int(read[1])
    is_upper_half = attempt.matches(rf"\bint {half} = \(Ho \+ 1\) / 2;") and attempt.matches(
        rf"\bif \(h >= {half} \|\| w >= Wo\) return;"
    )
    is_bare = re.fullmatch(_LOAD.format(half), lines[load - 1].strip())
    if (
        not (is_upper_half and is_bare)
        or len(re.findall(rf"\b{half} *[<>]|Ho - ", attempt.source)) > 1
    ):
        return 0, 0, ""
    return load, find_line(attempt.source, store.start()), half


def _describe_bare_load(attempt: Attempt) -> str:
    """Return the sentence for an attempt whose second store alone has a condition."""
    load, store, half = _find_bare_load(attempt)
    return (
        f"In an odd map the middle row has no row half a map below. The store of line {store} asks for that row, "
        f"h + {half} < Ho, and the load of line {load} does not: it needs the same condition."
    )


EXERCISE = Exercise(
    title="Two outputs per thread",
    subject=InPlaceOf("registers", "b", LAYER_1, (*HIDDEN, _ODD), moves=True),
    lines=12,
    goals=(
        # elements of the mask that are kept in shared memory count, too
        counted(
            ("constant_requests", "shared_load_instructions"),
            "layer 1",
            what="reads of constant memory",
            at_most=19_600,
            most={"constant_bytes": _BYTES, "shared_load_bytes": _BYTES, "lane_exchanges": 0},
        ),
        counted("global_load_requests", "layer 1", what="load requests", at_most=39_200),
        counted("global_store_requests", "layer 1", what="store requests", at_most=_REQUESTS),
    ),
    start_reaches=(39200, 39200, 800),
    mistakes=(
        ROWS_OF_OUTPUTS,
        Mistake(
            "Mind the middle row of an odd map: (Ho + 1) / 2 rows are the upper half, and the last of them has no "
            "partner below it.",
            lambda attempt: (
                # Of an odd number of rows the last one is wrong, or the one in the middle.
                (rows := _ROWS.search(attempt.wrong))
                and int(rows[1]) % 2
                and int(rows[2]) in (int(rows[1]) - 1, int(rows[1]) // 2)
                and rows[3] is None
                and attempt.matches(r"\bHo \+ 1\) / 2|\bHo / 2|\bHo >> 1")
            ),
        ),
        Mistake(
            "A thread returns where its second row, h + 1, does not exist. With it the first row is lost, the last one "
            "of a map with an odd number of rows. Return only where h >= Ho, and ask for h + 1 < Ho before the second "
            "output.",
            lambda attempt: (
                (rows := _ROWS.search(attempt.wrong))
                and int(rows[1]) % 2
                and int(rows[2]) == int(rows[1]) - 1
                and attempt.matches(
                    r"\bif \([^;{}]*\bh \+ 1 (?:>= Ho|> Ho - 1)\b[^;{}]*\)\s*\{?\s*return\b"
                )
            ),
        ),
        Mistake(
            lambda attempt: (
                "The second output lies one {0} further, and in the last {0} of a map there is none: its inputs may "
                "lie beyond x. Compare {1} + 1 with {2} before you read them, and before you store.".format(
                    *_ONE_FURTHER[_find_further(attempt)]
                )
            ),
            lambda attempt: "out of bounds" in attempt.findings and _find_further(attempt),
        ),
        Mistake(_describe_bare_load, lambda attempt: any(_find_bare_load(attempt))),
        Mistake(
            "In an odd map the middle row has no partner, and its second output would lie beyond the map. Store the "
            "second output only if there is one.",
            lambda attempt: (
                "out of bounds" in attempt.findings
                and "write of 4 bytes at y[" in attempt.wrong
                and attempt.matches(r"[;}]\s*y\[\(h \+ \w+\) \* Wo \+ w\] =")
                and attempt.matches(r"\(Ho \+ 1\) / 2")
            ),
        ),
        Mistake(
            "In an odd map the middle row has no partner. Here it takes the last row for one, which another thread "
            "stores, too. Store the second output only if there is one.",
            lambda attempt: (
                "race" in attempt.findings
                and attempt.matches(r"\bmin\(h \+ \w+, Ho - 1\)|\bmin\(Ho - 1, h \+ \w+\)")
            ),
        ),
        Mistake(
            "The row half a map below may lie beyond the map: what may a thread without it read and store?",
            lambda attempt: (
                "out of bounds" in attempt.findings
                and attempt.matches(r"\bw (?:>=|<) Wo")
                and not attempt.matches(r"\+ \w+ < Ho\b|Ho *- *\w+\b")
            ),
            vague=True,
        ),
        Mistake(
            "Threads of the lower half still compute outputs, which others compute, too: they have to return.",
            lambda attempt: (
                attempt.count("global_load_requests", "layer 1") > 39_200
                and attempt.count("global_store_requests", "layer 1") > _REQUESTS
            ),
        ),
        Mistake(
            "A thread computes the outputs of two maps now. They share their inputs, but each map has a mask of its "
            "own, so as many elements of masks are read as before. Two outputs of one map share the elements.",
            lambda attempt: (
                attempt.count("constant_requests", "layer 1") == 39_200
                and attempt.count("global_load_requests", "layer 1") == 19_600
                and attempt.count("global_store_requests", "layer 1") == _REQUESTS
            ),
        ),
        Mistake(
            "A thread computes two outputs now, and still reads an element of the mask for each product. Both outputs "
            "need the same element: one read into a local variable serves both.",
            lambda attempt: (
                attempt.count("constant_requests", "layer 1") == 39_200
                and attempt.count("global_store_requests", "layer 1") == _REQUESTS
                and attempt.count("busiest_warp", "layer 1") == _OF_TWO_OUTPUTS
            ),
        ),
    ),
)
