"""The sizes of the steps `warpgroups` of rungs 10 and 11: products of four warps, 64 windows times 2 `maps` columns."""

from labkit.base.limits import DRIVER_BYTES, SHARED_OPT_IN_BYTES
from labkit.ladder.rung import tiles

MAPS = 24  # that a product has columns for
SUMS = 80  # registers of a thread


def _units(s, tall: int) -> int:
    """Products with 64 windows of 1 x 2 outputs, `tall` of them below each other."""
    return tiles(tiles(s.Ho, tall) * tiles(s.Wo, 2), 64)


def sizes(s, parts: int) -> dict:
    """The sizes for a scope, if `parts` halves stand for a number: 1 in rung 10, 2 in rung 11."""
    together = 2 if s.C > 1 and s.K % 2 else 1  # two channels share a step for their last rows
    steps, turns = tiles(together * s.K, 2), tiles(s.C, together)
    pitch = s.W + s.W % 2 if parts == 1 else s.W
    groups = tiles(s.M, MAPS)
    while True:
        maps = 4 * tiles(tiles(s.M, groups), 4)
        highest = min(s.Ho, 12, SUMS // maps)
        tall = min(range(1, highest + 1), key=lambda tall: (_units(s, tall) * tall, -tall))
        rows = tall * (tiles(s.Ho, tall) - 1) + tall + s.K - 1
        if parts == 1:
            image, out = tiles(((turns * together - 1) * s.H + rows) * pitch + 8, 8), 2 * tiles(maps * s.pixels, 8)
        else:
            image, out = (((turns * together - 1) * s.H + rows) * pitch + 11) // 4, tiles(maps * s.pixels, 4)
        shared = 16 * (parts * turns * steps * 4 * maps + 2 * image + out)
        if shared <= SHARED_OPT_IN_BYTES - DRIVER_BYTES or maps == 4:
            break
        groups += 1
    room = 2 if parts == 1 and 2 * (shared + DRIVER_BYTES) <= SHARED_OPT_IN_BYTES else 1
    compute = 4 if room == 2 or _units(s, tall) == 1 else 8
    fetch, store = (2, 2) if parts == 2 else (3 if s.W % 2 else 1, 1)
    return {"maps": maps, "groups": groups, "turns": turns, "steps": steps, "tall": tall, "warps": compute,
            "fetch": fetch, "store": store, "room": room, "shared": shared + 8 * (parts - 1)}  # fmt: skip


def defines(s) -> dict:
    """The compile-time parameters, besides the layer's."""
    return {"MAPS": s.maps, "TALL": s.tall, "COMPUTE": s.warps, "FETCH": s.fetch, "STORE": s.store, "ROOM": s.room}


def grid(s, multiprocessors: int) -> tuple[int, int, int]:
    """As many blocks as there is room for, equally many of each group of maps."""
    return s.groups * min(s.B, max(1, multiprocessors * s.room // s.groups)), 1, 1


def arranged(s, parts: int) -> int:
    """The bytes of the arranged mask."""
    return 64 * parts * s.groups * s.turns * s.steps * s.maps
