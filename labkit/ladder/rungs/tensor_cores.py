"""Rung 09: WMMA, a warp multiplies whole tiles."""

from labkit.base.errors import LabError
from labkit.ladder.options import Option, count, warp_count
from labkit.ladder.rung import FLOAT, HALF, Call, Rounding, Rung, Scope, tiles

# a warp walks over the pixels: in the rung and the step with other formats
_WALKING = (None, "convert")
WMMA_SHAPES = ((16, 16, 16), (8, 32, 16), (32, 8, 16))


def _validate_wmma(name, value):
    """Return the value of the option `wmma` as a tuple if it is one of `WMMA_SHAPES`; else raise LabError."""
    if not isinstance(value, (tuple, list)) or tuple(value) not in WMMA_SHAPES:
        raise LabError(
            f"{name}={value!r}: a WMMA in half is one of {', '.join(map(str, WMMA_SHAPES))}"
        )
    return tuple(value)


def _count_rows(s: Scope) -> int:
    """Return the rows of im2col's matrix, one per product of an output, rounded up to whole tiles of a WMMA."""
    return 16 * tiles(s.depth, 16)


def _count_shared_bytes(s: Scope) -> int:
    """Return the bytes of shared memory per block: the kernel's `offset`, its `k_tile`, and per warp tiles of u and y.

    `s` has the layer's dimensions and the options.
    """
    m, n, _ = s.wmma
    # 32 / n parts of 4 more each
    table_bytes = 0 if s.step in ("plain", "row", "pixel") else 4 * (_count_rows(s) + 128 // n)
    # + 8: rows in different banks
    mask_bytes = 2 * m * (_count_rows(s) + 8 if s.step in (*_WALKING, "mask") else 16)
    # halves [16, n], floats [m, n]
    return table_bytes + mask_bytes + s.warps * (2 * 16 * n + 4 * m * n)


RUNG = Rung(
    number=9,
    name="tensor_cores",
    idea="WMMA multiplies 16x16 tiles of halves in one warp-wide operation and sums them in float.",
    calls=(
        Call(
            grid=lambda s: (
                tiles(s.pixels, s.warps * s.wmma[1] * (s.turns if s.step in _WALKING else 1)),
                tiles(s.M, s.wmma[0]),
                s.B,
            ),
            block=lambda s: (32, s.warps, 1),
            shared=_count_shared_bytes,
        ),
    ),
    min_capability=(7, 0),
    path=("plain", "pixel", "table", "mask"),
    options={
        "wmma": Option(
            (16, 16, 16), "maps, pixels and depth of one WMMA", _validate_wmma, WMMA_SHAPES
        ),
        "warps": Option(4, "warps of a block", warp_count, (1,)),
        "turns": Option(8, "tiles of pixels that a warp computes one after the other", count),
    },
    defines=lambda s: {
        "FIXED_K": s.K,
        "WM": s.wmma[0],
        "WN": s.wmma[1],
        "WARPS": s.warps,
        "ROWS": _count_rows(s),
    },
    rounding=lambda options: (
        Rounding(FLOAT, FLOAT, operands=HALF)
        if options["step"] == "convert"
        else Rounding(HALF, FLOAT)
    ),
    steps={
        "plain": "every element's indices are computed where it is loaded",
        "pixel": "a lane's pixel is decoded once, before the loop",
        "table": "where a row of u begins is computed once per block, and looked up",
        "mask": "all columns of the mask are in shared memory from the start: no barrier in the loop",
        "row": "beside pixel: a lane's row is decoded once per step, its pixels one by one",
        "convert": "x, k and y are float, and every lane converts what it loads",
    },
    compared=(
        {"wmma": (8, 32, 16)},
        {"wmma": (32, 8, 16)},
        {"turns": 1},
        {"turns": 2},
        {"turns": 4},
        {"turns": 16},
    ),
)
