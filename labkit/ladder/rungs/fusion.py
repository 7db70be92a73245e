"""Rung 06: the matrix product reads x itself, im2col's matrix is never written."""

from labkit.ladder.options import TILE
from labkit.ladder.rung import Call, Rung, tiles

RUNG = Rung(
    number=6,
    name="fusion",
    title="Fusion: the matrix that is never written",
    idea="The matrix product computes im2col's indices while it fills its tile, and reads x itself.",
    calls=(
        Call(
            kernel="conv",
            buffers=("x", "k", "y"),
            grid=lambda s: (tiles(s.pixels, s.tile), tiles(s.M, s.tile), s.B),
            block=lambda s: (s.tile, s.tile, 1),
            shared=lambda s: 8 * s.tile**2,
        ),
    ),
    base="unroll_gemm",
    options={"tile": TILE},
    defines=lambda s: {"FIXED_K": s.K, "TILE": s.tile},
    steps={
        "divide": "K is known at run time only: what the divisions by it cost.",
        "skip": "Warps without an output skip the product.",
    },
    compared=({"tile": 8}, {"tile": 32}),
)
