"""Exercise P1a: a transpose from an empty cell."""

import re

from labkit.exercises import Attempt, Exercise, Mistake, counted
from labkit.exercises.practice import TRANSPOSE
from labkit.exercises.text import find_line

_SHAPE = "a matrix of 64 x 96"
_LOADS = 64 * 96 / 32  # of all warps, if each element is loaded once
_MOVED = {"unique_bytes": 2 * 4 * 64 * 96}  # in and out
_OTHER_LENGTH = re.compile(
    # not "e % columns * rows"
    r"\bin\[[^];]*(?:\* *rows|(?<![%/] )\brows *\*)|\bout\[[^];]*(?:\* *columns|(?<![%/] )\bcolumns *\*)"
)

# "if (row >= rows && column >= columns) return;", and the condition of a copy with || in it
_LEAVES_TOO_FEW = re.compile(
    r"\bif \((?:\w+ >= rows && \w+ >= columns|\w+ >= columns && \w+ >= rows)\)\s*\{?\s*return\b"
)
_COPIES_TOO_MANY = re.compile(
    r"\bif \((?:\w+ < rows \|\| \w+ < columns|\w+ < columns \|\| \w+ < rows)\)\s*\{?\s*out\["
)

_BYTES = 4 * 64 * 96  # of `in`


def _find_unused(attempt: Attempt) -> str:
    """Return the index of the blocks, "blockIdx.y", that an attempt does not use; "" if it uses both, or none."""
    unused = [name for name in ("blockIdx.x", "blockIdx.y") if name not in attempt.source]
    return unused[0] if len(unused) == 1 else ""


def _explain_guard(attempt: Attempt) -> str:
    """Return which line joins the conditions for the row and the column by the wrong operator, or ""."""
    for guard, sentence in (
        (
            _LEAVES_TOO_FEW,
            "a thread returns only if its row and its column are both outside. One of them is enough: || for &&.",
        ),
        (
            _COPIES_TOO_MANY,
            "a thread copies if its row or its column is inside. Both have to be: && for ||.",
        ),
    ):
        if match := guard.search(attempt.source):
            line = find_line(attempt.source, match.start())
            return f"Line {line}: {sentence}"
    return ""


EXERCISE = Exercise(
    title="Rows in",
    subject=TRANSPOSE,
    goals=(
        counted(
            "global_load_sectors",
            _SHAPE,
            per=_LOADS,
            what="sectors per load",
            at_most=4,
            least=_MOVED,
        ),
        counted("global_load_requests", _SHAPE, at_most=192, least=_MOVED),
    ),
    mistakes=(
        Mistake(
            _explain_guard,
            lambda attempt: "out of bounds" in attempt.findings and _explain_guard(attempt),
        ),
        Mistake(
            "Rows and columns are exchanged: blockIdx.x counts blocks along a row of `in`, so it belongs to the "
            "column, and blockIdx.y to the row. The grid is too short the other way round.",
            # Of 33 x 70 elements those in the columns from 64 on are left: the grid has two blocks
            # in y.
            lambda attempt: "198 of 2310 elements" in attempt.wrong,
        ),
        Mistake(
            "The rows of the two matrices differ in length: a row of `in` has `columns` elements, a row of `out` "
            "has `rows`. So the element goes from in[row * columns + column] to out[column * rows + row].",
            lambda attempt: attempt.runs_wrong and attempt.matches(_OTHER_LENGTH),
        ),
        Mistake(
            lambda attempt: (
                f"No index depends on {_find_unused(attempt)}: blocks that differ in it alone copy the same elements, "
                "and others are left out."
            ),
            lambda attempt: attempt.runs_wrong and _find_unused(attempt),
        ),
        Mistake(
            lambda attempt: (
                f"All of `in` is loaded {attempt.count('global_load_bytes', _SHAPE) / _BYTES:.0f} times: a thread has "
                "a loop over many elements, and others load the same ones. The grid has a thread for each element: "
                "none needs a loop."
            ),
            lambda attempt: (
                attempt.count("global_load_bytes", _SHAPE) >= 2 * _BYTES
                and attempt.matches(r"\b(?:for|while)\b")
            ),
        ),
        Mistake(
            "Right, but the lanes of a warp load down a column: threadIdx.x should count along a row of `in`.",
            lambda attempt: attempt.count("sectors_per_load", _SHAPE) >= 16,
        ),
    ),
)
