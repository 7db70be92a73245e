"""Exercise 05b: no product without a map."""

import re

from labkit.exercises import LAYER_1, Attempt, Exercise, InPlaceOf, Mistake, counted
from labkit.exercises.text import find_line

_GEMM, _WARPS = "layer 1, gemm", 8 * 400  # a block has 8
_PRODUCT = counted(
    "shared_load_instructions",
    _GEMM,
    per=_WARPS,
    what="shared loads per warp",
    at_most=32,
    least={"shared_load_instructions": 12 * _WARPS},
    # The tiles are loaded once, as in the starting code: 13,200, and 13,600 as the sandbox compiles it.
    most={"global_load_requests": 14_000, "lane_exchanges": 0},
)


def _count_loads(attempt):
    """Return the shared loads per warp; 0 if nothing was counted."""
    return _PRODUCT.number(attempt.counts) if attempt.counts else 0


# A condition other than m < M before the loop over i.
_CONDITION = re.compile(
    r"\bif \(((?!m < M\))[^;{}]{1,100})\)\s*\{?\s*(?:#pragma unroll\s*)?for \(int i\b"
)

# the loop over the terms of a tile, cut at the number of maps
_CUT_AT_MAPS = re.compile(r"\bfor \(int i = 0; i < (?:min\((?:TILE, *M|M, *TILE)\)|M);")


def _explain_cut(attempt: Attempt) -> str:
    """Return which line lets the loop over the terms of a tile end at the number of maps, or ""."""
    cut = _CUT_AT_MAPS.search(attempt.source)
    return cut and (
        f"Line {find_line(attempt.source, cut.start())} ends at M. `i` counts the terms of a sum there, not maps, so "
        "where M is below TILE terms are lost. Let the loop as it was run only for threads whose map exists."
    )


EXERCISE = Exercise(
    title="No product without a map",
    subject=InPlaceOf("unroll_gemm", "b", LAYER_1),
    lines=3,
    goals=(_PRODUCT,),
    start_reaches=(128,),
    mistakes=(
        Mistake(_explain_cut, lambda attempt: attempt.runs_wrong and _explain_cut(attempt)),
        Mistake(
            "Threads without a map load parts of the tiles for the others, and all threads of a block have to "
            "reach both barriers: put the condition before the loop over i, and nowhere else.",
            lambda attempt: (
                "divergent barrier" in attempt.findings
                or (
                    attempt.findings
                    and attempt.matches(
                        r"\bm >= M\)[^;]*(?:return|continue)|\bif \(m < M\)\s*[ku]_tile\["
                    )
                )
            ),
        ),
        Mistake(
            lambda attempt: (
                f"`if ({_CONDITION.search(attempt.source)[1]})` decides which threads multiply. These have to be all "
                "with m < M: the last line of the kernel says which threads have an output."
            ),
            lambda attempt: attempt.wrong.startswith("right") and _CONDITION.search(attempt.source),
            vague=True,
        ),
        Mistake(
            "Layer 1 has 400 tiles of 16 pixels, so all its pixels exist. What does not exist are the maps.",
            lambda attempt: (
                _count_loads(attempt) == 128
                and "if (n < pixels)" in attempt.source.rpartition("__syncthreads")[0]
            ),
        ),
        Mistake(
            "m < M || n < pixels is true for each thread with a pixel, and on layer 1 all have one. What does not "
            "exist are the maps: m < M alone.",
            lambda attempt: (
                _count_loads(attempt) == 128
                and attempt.matches(
                    r"\bm < M \|\| n < pixels\)|\bn < pixels \|\| m < M\)\s*(?:\{|#|for)"
                )
            ),
        ),
        Mistake(
            "This leaves out the products beyond `depth`, which are in the last step alone. In all other steps the "
            "threads without a map still multiply: these have to leave out the loop over i.",
            # 49 of 64 products per warp
            lambda attempt: (
                _count_loads(attempt) == 98 and attempt.matches(r"\bstep \+ i < depth\b")
            ),
        ),
        Mistake(
            "blockIdx.y * TILE is the first map of a block, and every block has one. What may not exist is the map of "
            "a thread: m.",
            lambda attempt: (
                _count_loads(attempt) == 128
                and attempt.matches(r"\bif \(blockIdx\.y \* TILE < M\)")
            ),
        ),
        Mistake(
            "The condition reads k_tile to find out whether the weight is 0, and so each thread still loads it. m < M "
            "says the same without a load.",
            lambda attempt: (
                _count_loads(attempt) > 32
                and attempt.matches(r"\bif \(k_tile\[[^;{}()\n]{1,60}\] (?:!=|>) 0")
            ),
        ),
        Mistake(
            lambda attempt: (
                f"It looks as if {_count_loads(attempt) / 16:.0f} of the 8 warps of a block multiply, where 2 are "
                "enough. The maps are 0 to M - 1, and warp i has the rows 2 i and 2 i + 1 of a tile."
            ),
            # a warp has 128; a condition on one of two factors alone gives other numbers, too
            lambda attempt: (
                32 < _count_loads(attempt) < 128
                and _count_loads(attempt) % 16 == 0
                and "?" not in attempt.source.rpartition("__syncthreads")[0].rpartition("__sync")[2]
            ),
        ),
        Mistake(
            "The condition chooses between a product and zero, but one of the two factors is still loaded by all "
            "threads. Put the whole loop over i behind the condition.",
            lambda attempt: (
                32 < _count_loads(attempt) < 128
                and "?" in attempt.source.rpartition("__syncthreads")[0].rpartition("__sync")[2]
            ),
        ),
    ),
)
