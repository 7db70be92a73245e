"""The sizes of the steps `warpgroups` of rungs 10 and 11: four warps multiply, with 64 windows of the image at once."""

from labkit.ladder.rung import Extent, Scope, tiles
from labkit.spec.devices import count_blocks_at_once

COLUMNS = 48  # of a product, at most: the outputs of a window
SUMS = 80  # registers of a thread that hold sums, at most
LARGEST = 16  # bytes of `largest` in rung 11, as nvcc rounds them
OVERHEAD_ROWS = 3  # rows of windows whose products take as long as all else that a unit does


def _count_units(s: Scope, down: int, tall: int) -> int:
    """Return how many products there are with 64 windows of `down` x 2 outputs, `tall` of them stacked vertically."""
    return tiles(tiles(s.Ho, down * tall) * tiles(s.Wo, 2), 64)


def _find_sizes(s: Scope, parts: int, down: int, groups: int, outs: int = 1, images: int = 2, stages: int = 1) -> dict:
    """Return the sizes with windows `down` outputs high, `groups` of maps, and `outs` buffers for a stage's maps."""
    window = s.K + down - 1
    together = 2 if s.C > 1 and window % 2 else 1  # two channels share a step for their last rows
    steps, turns = tiles(together * window, 2), tiles(s.C, together)
    maps = 4 // down * tiles(tiles(s.M, groups), 4 // down)
    highest = min(tiles(s.Ho, down), 12, SUMS // (down * maps))
    tall = min(range(1, highest + 1), key=lambda tall: _count_units(s, down, tall) * (tall + OVERHEAD_ROWS))
    rows = down * tall * tiles(s.Ho, down * tall) - down + window
    pixels = ((turns * together - 1) * s.H + rows) * s.W
    if parts == 1:
        words = 1 + s.W % 2  # of shared memory, for two pixels
        image, out = tiles(pixels * words // 2 + 4 * words, 4), tiles(maps * s.pixels, 8)
    else:
        image, out = (pixels + 11) // 4, tiles(maps // stages * s.pixels, 4)
    shared = 16 * (parts * turns * steps * 4 * down * maps + images * image + outs * out) + 4 * maps * (parts - 1)
    room = count_blocks_at_once(shared, s.shared_opt_in, most=3 - parts)
    units = _count_units(s, down, tall)
    compute, store = (min(units, 2), images) if parts == 2 else (1 if room == 2 else tiles(units, tiles(units, 3)), 1)
    fetch = 4 - store if parts == 2 or s.W % 2 or down == room == 2 else 1
    return {"parts": parts, "down": down, "maps": maps, "groups": groups, "turns": turns, "steps": steps, "tall": tall,
            "warps": 4 * compute, "fetch": fetch, "store": store, "outs": outs, "images": images, "stages": stages,
            "room": room, "at_once": units == compute, "shared": shared}


def _fits(s: Scope, sizes: dict) -> bool:
    return sizes["shared"] <= s.shared_opt_in - LARGEST * (sizes["parts"] - 1)


def sizes(s: Scope, parts: int) -> dict:
    """Return the sizes for a scope, if `parts` halves stand for a number: 1 in rung 10, 2 in rung 11.

    They kept an H200 busiest: two blocks per multiprocessor rather than two buffers for maps, those rather
    than one, and in rung 11 all maps in one block, stored in few stages, rather than two images.
    """
    down = 2 if parts == 1 and s.C == 1 else 1  # of two channels, windows of an odd height waste less
    for groups in range(tiles(s.M, COLUMNS // (2 * down)), s.M + 1):
        one = _find_sizes(s, parts, down, groups)
        if _fits(s, one) or one["maps"] == 4 // down:
            break
        for stages in range(2, 7 if parts == 2 and one["at_once"] else 2):
            staged = _find_sizes(s, parts, down, groups, outs=2, images=1, stages=stages)
            if staged["maps"] % (4 * stages) == 0 and _fits(s, staged):
                return staged
    two = _find_sizes(s, parts, down, groups, outs=2)
    return two if parts == 1 and _fits(s, two) and two["room"] == one["room"] else one


def defines(s: Scope) -> dict:
    """Return the compile-time parameters, besides the layer's."""
    both = {"MAPS": s.maps, "TALL": s.tall, "COMPUTE": s.warps, "FETCH": s.fetch, "STORE": s.store, "OUTS": s.outs}
    return both | ({"DOWN": s.down, "ROOM": s.room} if s.parts == 1 else {"IMAGES": s.images, "STAGES": s.stages})


def grid(s: Scope, multiprocessors: int) -> Extent:
    """Return a grid of as many blocks as there is room for, equally many per group of maps."""
    return s.groups * min(s.B, max(1, multiprocessors * s.room // s.groups)), 1, 1


def arranged(s: Scope) -> int:
    """Return the bytes of the arranged mask: 16 for each column and half of a step."""
    return 64 * s.parts * s.groups * s.turns * s.steps * s.down * s.maps
