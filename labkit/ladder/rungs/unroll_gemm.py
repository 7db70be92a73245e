"""Rung 05: im2col, then a matrix product."""

from labkit.base.errors import LabError
from labkit.ladder.options import TILE, Option, count, or_none, thread_count
from labkit.ladder.rung import Call, Rung, tiles


def _validate_gemm(name, value):
    """Return the value of the option `gemm` if it is "cublas" or None; else raise LabError."""
    if value not in (None, "cublas"):
        raise LabError(
            f'{name}={value!r}: it is "cublas" for NVIDIA\'s library, or None for the kernel of the rung'
        )
    return value


GEMM = Call(
    kernel="gemm",
    buffers=("u", "k", "y"),
    grid=lambda s: (tiles(s.pixels, s.tile), tiles(s.M, s.tile), s.B),
    block=lambda s: (s.tile, s.tile, 1),
    shared=lambda s: 8 * s.tile**2,  # two tiles of floats
    library=lambda s: s.gemm == "cublas",
)

RUNG = Rung(
    number=5,
    name="unroll_gemm",
    idea="im2col copies each output pixel's inputs into a column of a matrix; a matrix product does the rest.",
    calls=(
        Call(
            kernel="im2col",
            buffers=("x", "k", "u"),
            grid=lambda s: (tiles(s.pixels, s.block), s.C, s.B),
            block=lambda s: (s.block, 1, 1),
        ),
        GEMM,
    ),
    options={
        "tile": TILE,
        "block": Option(256, "threads of a block of im2col", thread_count),
        "images": Option(
            None, "images per launch at most; as many as u has room for by default", or_none(count)
        ),
        "gemm": Option(
            None, '"cublas": NVIDIA\'s library computes the product, on a GPU', _validate_gemm
        ),
    },
    defines=lambda s: {"FIXED_K": s.K, "TILE": s.tile},
    scratch=lambda s: 4 * s.depth * s.pixels,
    images=lambda s: s.images,
    steps={"skip": "Warps without an output skip the product: what a partly filled tile costs."},
    compared=(
        *(
            {"tile": tile, "block": block}
            for tile in (16, 32)
            for block in (64, 128, 256, 512)
            if (tile, block) != (16, 256)
        ),
        {"images": 1},
        {"gemm": "cublas"},
    ),
)
