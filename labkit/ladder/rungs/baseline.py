"""Rung 01: one thread per output."""

from labkit.ladder.options import BLOCK
from labkit.ladder.rung import Call, Rung, tiles

# A block computes a tile of one output map; the grid is (tiles of a map, M, B).
DIRECT = Call(
    grid=lambda s: (tiles(s.Wo, s.block[0]) * tiles(s.Ho, s.block[1]), s.M, s.B),
    block=lambda s: (*s.block, 1),
)

RUNG = Rung(
    number=1,
    name="baseline",
    idea="The loops over images, maps, rows and columns become the grid: one thread computes one output.",
    calls=(DIRECT,),
    options={"block": BLOCK},
    compared=({"block": (32, 8)}, {"block": (256, 1)}, {"block": (1, 256)}),
    solved={"a": {"block": (8, 8)}},
)
