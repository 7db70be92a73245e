"""Rung 08: half storage, and half2 arithmetic on two pixels per thread."""

from labkit.ladder.options import TILE
from labkit.ladder.rung import FLOAT, HALF, Call, Rounding, Rung, tiles


def _pixels_per_thread(s) -> int:
    return 1 if s.step in ("storage", "half_sum") else 2


def _rounding(options) -> Rounding:
    if options["step"] in ("half_sum", "half2"):
        return Rounding(HALF, HALF)
    if options["step"] == "storage":
        return Rounding(HALF, FLOAT)
    return Rounding(HALF, FLOAT, part=HALF, part_terms=options["tile"])


RUNG = Rung(
    number=8,
    name="fp16",
    title="FP16: half the bytes, two products per instruction",
    idea="x, k and y are stored as half, and one half2 instruction multiplies and adds for two pixels.",
    calls=(
        Call(
            kernel="conv",
            buffers=("x", "k", "y"),
            grid=lambda s: (tiles(s.pixels, _pixels_per_thread(s) * s.tile), tiles(s.M, s.tile), s.B),
            block=lambda s: (s.tile, s.tile, 1),
            shared=lambda s: {"storage": 8, "half_sum": 4}.get(s.step, 6) * s.tile**2,
        ),
    ),
    base="fusion",
    path=("storage", "half_sum", "half2"),
    min_capability=(5, 3),
    options={"tile": TILE},
    defines=lambda s: {"FIXED_K": s.K, "TILE": s.tile},
    rounding=_rounding,
    steps={
        "storage": "x, k and y are half; the tiles and the arithmetic stay float",
        "half_sum": "tiles, products and sums are half, one product per instruction",
        "half2": "two pixels share a half2: two products per instruction",
    },
    compared=({"tile": 8}, {"tile": 32}),
)
