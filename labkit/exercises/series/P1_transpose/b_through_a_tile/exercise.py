"""Exercise P1b: a transpose through a tile of shared memory."""

import math
import re

from labkit.exercises import Attempt, Exercise, Mistake, counted
from labkit.exercises.practice import TRANSPOSE
from labkit.exercises.text import find_line

_SHAPE = "a matrix of 64 x 96"
_LOADS = 64 * 96 / 32  # of all warps, if each element is loaded once
_MOVED = {"unique_bytes": 2 * 4 * 64 * 96}  # in and out
# A row of 32 elements is a line of 128 bytes. A warp that turns 32 x 32 elements in registers has
# the work of 32.
_LINES = [{f"global_{access}_lines": _LOADS, "busiest_warp": 16} for access in ("load", "store")]
# The condition of an if in front of an element: "if (row < rows && column < columns) tile["
_GUARD = re.compile(r"\bif \(([^{};]{1,300}?)\)\s*\{?\s*\w+\[")


# "if (r < rows && c < columns) out[r * rows + c]"
_WRONG_GUARD = re.compile(
    r"\bif \((?:(\w+) < rows && (\w+) < columns\)\s*\{?\s*out\[\1 \* rows \+ \2\]|"
    r"(\w+) < columns && (\w+) < rows\)\s*\{?\s*out\[\4 \* rows \+ \3\])"
)

# "tile[33][32]", "tile[TILE + 1][TILE]": groups: the array, its numbers of rows and of words per row
_ROW_MORE = re.compile(r"\b__shared__ float (\w+)\[(33|(?:32|(\w+)) \+ 1)\]\[(32|\3)\]")


def _explain_row_more(attempt: Attempt) -> str:
    """Return which line gives the tile a row more, where each row needs a word more."""
    tile = _ROW_MORE.search(attempt.source)
    line = find_line(attempt.source, tile.start())
    return (
        f"Line {line} gives the tile a row more, and its rows are as long as before: the words of a column still meet "
        f"in one bank. Each row needs a word more: {tile[1]}[{tile[4]}][{tile[2]}]."
    )


# "tile[32][34]"; groups: the array, the words per row
_TILE = re.compile(r"\b__shared__ float (\w+)\[\w+\]\[(\d{2,3})\]")


def _explain_even_rows(attempt: Attempt) -> str:
    """Return which line gives the rows of a tile an even number of words, or ""."""
    tile = _TILE.search(attempt.source)
    # an index with % or ^ may turn the rows
    if not tile or int(tile[2]) % 2 or attempt.matches("[%^]"):
        return ""
    line = find_line(attempt.source, tile.start())
    return (
        f"Line {line}: a row of `{tile[1]}` has {tile[2]} words, so the 32 words of a column lie in "
        f"{32 // math.gcd(32, int(tile[2]))} of the 32 banks. With rows of an odd number of words, 33, they are in 32 "
        "different banks."
    ).replace("lie in 1 of the 32 banks", "lie in one bank")


def _finds_block_twice(attempt: Attempt) -> bool:
    """Return whether two lines behind the barrier, "r = blockIdx.x * 32 + ...", use one part of blockIdx alone."""
    behind = attempt.source.rpartition("__syncthreads")[2]
    parts = re.findall(r"\bblockIdx\.([xy])", behind)
    return len(parts) == 2 and parts[0] == parts[1]


def _guards_alike(attempt: Attempt) -> bool:
    """Return whether two elements of an attempt have the same guard, so that one asks about the other's place."""
    guards = ["".join(guard.split()) for guard in _GUARD.findall(attempt.source)]
    return len({*guards}) < len(guards)


EXERCISE = Exercise(
    title="Through a tile",
    subject=TRANSPOSE,
    goals=(
        counted(
            "global_load_sectors",
            _SHAPE,
            per=_LOADS,
            what="sectors per load",
            at_most=4,
            least=_MOVED,
            most=_LINES[0],
        ),
        counted(
            "global_store_sectors",
            _SHAPE,
            per=_LOADS,
            what="sectors per store",
            at_most=4,
            least=_MOVED,
            most=_LINES[1],
        ),
        counted(
            "shared_conflicts",
            _SHAPE,
            what="bank conflicts",
            exactly=0,
            least={"shared_instructions": 96},
        ),
    ),
    mistakes=(
        Mistake(
            "Some threads return before the barrier, or skip it. All have to reach it: a thread without an element to "
            "load may have one to store. So guard the load and the store, not the barrier.",
            lambda attempt: (
                attempt.runs_wrong
                and attempt.matches(
                    r"\breturn\b[\s\S]*__syncthreads|\bif \([^{}]*\) *\{[^}]*__syncthreads"
                )
            ),
        ),
        Mistake(
            "A row of `out` has `rows` elements, not `columns`.",
            lambda attempt: (
                attempt.runs_wrong
                and attempt.matches(r"\bout\[[^];]*(?:\* *columns|\bcolumns *\*)")
            ),
        ),
        Mistake(
            "The block goes to its place in `out`, but the tile is not turned: a thread stores "
            "tile[threadIdx.y][threadIdx.x] and reads tile[threadIdx.x][threadIdx.y].",
            lambda attempt: (
                attempt.runs_wrong and attempt.source.count("[threadIdx.y][threadIdx.x]") == 2
            ),
        ),
        Mistake(
            "The tile is not turned: a thread stores and reads at [threadIdx.x][threadIdx.y]. One of the two has to be "
            "[threadIdx.y][threadIdx.x].",
            lambda attempt: (
                attempt.runs_wrong and attempt.source.count("[threadIdx.x][threadIdx.y]") == 2
            ),
        ),
        Mistake(
            "The tile has 32 x 32 elements, and `row` and `column` count in the whole matrix. A place in the tile "
            "follows from threadIdx alone: [threadIdx.y][threadIdx.x].",
            lambda attempt: (
                "out of bounds" in attempt.findings
                and attempt.matches(r"\w\[row\]\[column\]|\w\[column\]\[row\]")
            ),
        ),
        Mistake(
            "The tile is turned, but the tiles are not: the block at (blockIdx.x, blockIdx.y) of `in` belongs to "
            "(blockIdx.y, blockIdx.x) of `out`.",
            lambda attempt: (
                attempt.runs_wrong
                and "__syncthreads" in attempt.source
                and "race" not in attempt.findings
                and attempt.matches(r"\[threadIdx\.x\]\[threadIdx\.y\]")
                and not _finds_block_twice(attempt)
                # each use of blockIdx.y counts rows with threadIdx.y
                and not attempt.matches(
                    r"blockIdx\.y(?! \* (?:32|blockDim\.[xy]) \+ threadIdx\.y\b)"
                )
            ),
        ),
        Mistake(
            "Both indices of the store come from one part of blockIdx. The block at (blockIdx.x, blockIdx.y) of `in` "
            "belongs to (blockIdx.y, blockIdx.x) of `out`: its row there comes from blockIdx.x, its column from "
            "blockIdx.y.",
            lambda attempt: attempt.runs_wrong and _finds_block_twice(attempt),
        ),
        Mistake(
            "The guard of the store is the wrong way round: `out` has `columns` rows, and each of them has `rows` "
            "elements.",
            lambda attempt: attempt.runs_wrong and attempt.matches(_WRONG_GUARD),
        ),
        Mistake(
            "The store has no guard: at the edges of the matrix a thread may have no element of `out` to store, and "
            "its place in the tile is empty.",
            lambda attempt: (
                attempt.findings
                and "race" not in attempt.findings
                and attempt.matches(r"[;{}]\s*out\[")
                and "if" not in re.findall(r"\w+", attempt.source.rpartition("__syncthreads")[2])
            ),
        ),
        Mistake(
            "Load and store have the same guard, but they are at different places: the store asks about the element "
            "that its thread has loaded. It has to compare its own row with `columns`, the rows of `out`, and its "
            "own column with `rows`.",
            lambda attempt: attempt.runs_wrong and _guards_alike(attempt),
        ),
        Mistake(
            _explain_row_more,
            lambda attempt: (
                attempt.count("shared_conflicts", _SHAPE) > 0 and attempt.matches(_ROW_MORE)
            ),
        ),
        Mistake(
            _explain_even_rows,
            lambda attempt: (
                attempt.count("shared_conflicts", _SHAPE) > 0 and _explain_even_rows(attempt)
            ),
        ),
        Mistake(
            "The words of a row are shifted here. Take two lanes of one load or store: in which bank is the word of "
            "each? A column lies in 32 banks if each row shifts its words along the row, by another number.",
            lambda attempt: (
                attempt.count("shared_conflicts", _SHAPE) > 0 and attempt.matches("[%^]")
            ),
            vague=True,
        ),
        Mistake(
            "Lanes that go down a column of this tile lie a row apart, and some of them meet in one bank. With "
            "rows of an odd number of words, 33, they are in 32 different banks.",
            lambda attempt: attempt.count("shared_conflicts", _SHAPE) > 0,
            vague=True,
        ),
        Mistake(
            "The tile is there, but the stores still go down a column: a warp has to read a column of the tile, "
            "and store a row of `out`.",
            lambda attempt: (
                attempt.count("sectors_per_store", _SHAPE) > 4
                and attempt.count("shared_instructions", _SHAPE) > 0
            ),
        ),
    ),
)
