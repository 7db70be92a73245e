"""Rung 04: the inputs of a tile, with their halo, in shared memory."""

from labkit.ladder.options import TILE, Option, count, or_none
from labkit.ladder.rung import Call, Rung, Scope, tiles

_SEVERAL = ("maps", "weights")  # sub-steps whose blocks compute several maps


def _count_maps(s: Scope) -> int:
    """Return the output maps per block."""
    return s.maps or 4 if s.step in _SEVERAL else 1


def _count_shared_bytes(s: Scope) -> int:
    """Return the bytes of shared memory per block: the input tile of floats with its halo, in a sub-step the masks."""
    if s.step == "barrier":
        return 0
    return 4 * (s.tile + s.K - 1) ** 2 + (4 * _count_maps(s) * s.K**2 if s.step == "weights" else 0)


RUNG = Rung(
    number=4,
    name="tiling",
    idea="A block loads its inputs once, tile and halo, and reads them up to K*K times from shared memory.",
    calls=(
        Call(
            grid=lambda s: (
                tiles(s.Wo, s.tile) * tiles(s.Ho, s.tile),
                tiles(s.M, _count_maps(s)),
                s.B,
            ),
            block=lambda s: (s.tile, s.tile, 1),
            shared=_count_shared_bytes,
        ),
    ),
    base="registers",
    options={
        "tile": TILE,
        "maps": Option(
            None,
            "output maps per block, in the steps maps and weights; 4 by default",
            or_none(count),
        ),
    },
    defines=lambda s: {
        "FIXED_K": s.K,
        "TILE": s.tile,
        **({"MAPS": _count_maps(s)} if s.step in _SEVERAL else {}),
    },
    constant="mask",
    steps={
        "columns": "The tile is loaded in column order: what the order of the loads gains.",
        "skip": "Threads without an output skip the sum.",
        "barrier": "Rung 03 with one barrier per channel and no tile: what keeping the warps together gains.",
        "maps": "A block computes four output maps from each tile that it has loaded.",
        "weights": "Four maps per tile, with their weights in shared memory, too: one wide load reads all four.",
    },
    compared=({"tile": 8}, {"tile": 27}, {"tile": 32}, {"step": "weights", "maps": 1}),
    solved={"b": {"step": "weights"}},
)
