"""Rung 08: half storage, and half2 arithmetic on two pixels per thread."""

from collections.abc import Mapping
from dataclasses import replace

from labkit.ladder.options import TILE
from labkit.ladder.rung import FLOAT, HALF, Call, Extent, Rounding, Rung, Scope, tiles

_DIRECT = ("direct", "mul_add", "mul_add_rn", "convert")  # sub-steps with rung 03's kernel in half


def _compute_grid(s: Scope) -> Extent:
    """Return the grid (x, y, z) in blocks for a layer's dimensions and the options, the attributes of `s`."""
    if s.step in _DIRECT:
        return tiles(s.Wo, s.tile) * tiles(s.Ho, s.tile), s.M, s.B
    pixels_per_thread = 1 if s.step in ("storage", "half_sum") else 2
    return tiles(s.pixels, pixels_per_thread * s.tile), tiles(s.M, s.tile), s.B


def _count_shared_bytes(s: Scope) -> int:
    """Return the bytes of a block's two tiles: of float, of half or, for two pixels each, of half and half2."""
    return (
        0 if s.step in _DIRECT else {"storage": 8, "half_sum": 4}.get(s.step or "", 6) * s.tile**2
    )


def _converts(s: Scope) -> bool:
    """Return whether x, k and y are float, and a kernel of the op converts x."""
    return s.step == "convert"


def _choose_rounding(options: Mapping) -> Rounding:
    """Return the number formats in which the rung, or the sub-step in `options`, stores and adds."""
    if options["step"] == "convert":
        return Rounding(storage=FLOAT, accumulate=HALF, operands=HALF)
    if options["step"] in ("half_sum", "half2", *_DIRECT):
        return Rounding(storage=HALF, accumulate=HALF)
    if options["step"] == "storage":
        return Rounding(storage=HALF, accumulate=FLOAT)
    # the rung: half in a tile
    return Rounding(storage=HALF, accumulate=FLOAT, part=HALF, part_terms=options["tile"])


_CONV = Call(grid=_compute_grid, block=lambda s: (s.tile, s.tile, 1), shared=_count_shared_bytes)

RUNG = Rung(
    number=8,
    name="fp16",
    idea="x, k and y are stored as half, and one half2 instruction multiplies and adds for two pixels.",
    calls=(
        Call(
            kernel="to_half",
            buffers=("x", "k", "u"),
            used=_converts,
            grid=lambda s: (tiles(s.C * s.H * s.W, 256), 1, s.B),
            block=lambda s: (256, 1, 1),
        ),
        replace(_CONV, used=lambda s: not _converts(s)),
        replace(_CONV, buffers=("u", "k", "y"), used=_converts),
    ),
    base="fusion",
    path=("storage", "half_sum", "half2"),
    min_capability=(5, 3),
    options={"tile": TILE},
    defines=lambda s: {"FIXED_K": s.K, "TILE": s.tile},
    scratch=lambda s: 2 * s.C * s.H * s.W if _converts(s) else 0,
    rounding=_choose_rounding,
    steps={
        "storage": "x, k and y are half; the tiles and the arithmetic stay float",
        "half_sum": "tiles, products and sums are half, one product per instruction",
        "half2": "two pixels share a half2: two products per instruction",
        "direct": "rung 03 in half: no matrix product, one product per instruction",
        "mul_add": "the direct kernel with __hmul and __hadd in place of __hfma",
        "mul_add_rn": "the same, and the compiler may not join the two",
        "convert": "the direct kernel with float in and out: a kernel of the op converts x",
    },
    compared=({"tile": 8}, {"tile": 32}),
)
