"""Rung 06: the matrix product reads x itself; im2col's matrix is never written."""

from dataclasses import replace

from labkit.ladder.options import TILE
from labkit.ladder.rung import Call, Rung, Scope, tiles
from labkit.ladder.rungs.unroll_gemm import GEMM


def _unrolls(s: Scope) -> bool:
    """Return whether u, the matrix of all windows, is written: in one sub-step im2col is still a kernel of its own."""
    return s.step == "elements"


RUNG = Rung(
    number=6,
    name="fusion",
    idea="The matrix product computes im2col's indices while it fills its tile, and reads x itself.",
    calls=(
        Call(
            kernel="im2col",
            buffers=("x", "k", "u"),
            used=_unrolls,
            grid=lambda s: (tiles(s.pixels, 256), s.depth, s.B),
            block=lambda s: (256, 1, 1),
        ),
        # this rung has no option gemm="cublas"
        replace(GEMM, used=_unrolls, library=lambda s: False),
        replace(
            GEMM,
            kernel="conv",
            buffers=("x", "k", "y"),
            used=lambda s: not _unrolls(s),
            library=lambda s: False,
            # two arrays of floats
            shared=lambda s: 8 * s.tile * (s.depth if s.step == "whole" else s.tile),
        ),
    ),
    base="unroll_gemm",
    path=("elements",),
    options={"tile": TILE},
    defines=lambda s: {
        "FIXED_K": s.K,
        "TILE": s.tile,
        **({"DEPTH": s.depth} if s.step == "whole" else {}),
    },
    scratch=lambda s: 4 * s.depth * s.pixels if _unrolls(s) else 0,
    steps={
        "elements": "im2col computes every element of u by itself, from its row and its column.",
        "divide": "K is known at run time only: what the divisions by it cost.",
        "skip": "Warps without an output skip the product.",
        "whole": "The mask and all rows of u are in shared memory at once: one barrier, and fewer blocks.",
    },
    compared=({"tile": 8}, {"tile": 32}),
)
