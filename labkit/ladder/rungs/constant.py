"""Rung 02: the mask in constant memory."""

from labkit.ladder.options import BLOCK
from labkit.ladder.rung import Call, Extent, Rung, Scope, tiles
from labkit.ladder.rungs.baseline import DIRECT

_DIVERGENT = ("divergent", "divergent_global")


def _compute_grid(s: Scope) -> Extent:
    """Return the grid (x, y, z) in blocks for a layer's dimensions and the options, the attributes of `s`."""
    # threads with neighbouring x compute different maps, those with neighbouring y, pixels
    if s.step in _DIVERGENT:
        return tiles(s.pixels, s.block[1]), tiles(s.M, s.block[0]), s.B
    return DIRECT.grid(s)


RUNG = Rung(
    number=2,
    name="constant",
    idea="All threads of a warp read the same mask element at a time: constant memory serves that at once.",
    calls=(Call(grid=_compute_grid, block=DIRECT.block),),
    base="baseline",
    options={"block": BLOCK},
    constant="mask",
    steps={
        "global": "The sum in a register, the mask in global memory: what 02 gains when no store hides it.",
        "divergent": "The lanes of a warp compute different maps, and each reads a different mask element.",
        "divergent_global": "The same lanes, the mask in global memory.",
    },
    compared=tuple(
        {"step": step, "block": (maps, 256 // maps)} for step in _DIVERGENT for maps in (1, 2, 4)
    ),
)
