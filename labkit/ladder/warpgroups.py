"""The sizes of the steps `warpgroups` of rungs 10 and 11: four warps multiply, with 64 windows of the image at once."""

from labkit.ladder.rung import Extent, Scope, tiles
from labkit.spec.devices import count_blocks_at_once

MAX_COLUMNS = 48  # of a product: the outputs of a window
MAX_SUMS, MAX_TALL = 80, 12  # registers of a thread that hold sums; windows that are stacked
WINDOWS_PER_UNIT = 64  # a unit is what four warps multiply at once
# bytes that the kernel of rung 11 declares, `largest` and `partial`, as nvcc rounds them
STATIC = 32
OVERHEAD_ROWS = 3  # rows of windows whose products take as long as all else that a unit does


def _count_units(s: Scope, down: int, tall: int) -> int:
    """Return how many units of work an image needs: a unit is 64 stacks of `tall` windows of `down` x 2 outputs."""
    return tiles(tiles(s.Ho, down * tall) * tiles(s.Wo, 2), WINDOWS_PER_UNIT)


def _count_bytes(s: Scope, sizes: dict) -> int:
    """Return the bytes of shared memory per block: the weights of its maps, images, and maps to be stored.

    They are those of the arrays in the kernels steps/*/warpgroups.cu. `s` has the layer's
    dimensions, `sizes` is what `_find_sizes` chose, and "channels": how many a turn has.
    """
    parts, down, tall, maps = (sizes[name] for name in ("parts", "down", "tall", "maps"))
    window = s.K + down - 1  # rows of inputs
    rows = down * tall * tiles(s.Ho, down * tall) - down + window  # of inputs that all windows need
    # only the last channel is extended
    pixels = ((sizes["turns"] * sizes["channels"] - 1) * s.H + rows) * s.W
    # An image, and the maps of a buffer, in pieces of 16 bytes: eight halves in rung 10, four
    # floats in rung 11.
    if parts == 1:
        # of four bytes for two pixels: if W is odd, each pixel has a word, with the next one
        words = 1 + s.W % 2
        image, out = tiles(pixels * words // 2 + 4 * words, 4), tiles(maps * s.pixels, 8)
    else:  # a gap behind a quarter of the maps of a stage
        between = maps // sizes["stages"] // 4 * s.pixels
        image, out = (pixels + 11) // 4, between + (0 if between % 4 else (8 - between) % 32)
    # 2 halves of a step, 2 x down x maps columns
    weights = parts * sizes["turns"] * sizes["steps"] * 4 * down * maps
    exponents = 4 * maps * (parts - 1)  # one per map in rung 11
    return 16 * (weights + sizes["images"] * image + sizes["outs"] * out) + exponents


def _find_sizes(
    s: Scope, parts: int, down: int, groups: int, outs: int = 1, images: int = 2, stages: int = 1
) -> dict:
    """Return a dict of all sizes that follow from the layer in `s` and from the arguments, which are among them.

    parts                  halves that stand for a number: 1 in rung 10, 2 in rung 11
    down, tall             rows of outputs of a window, which has 2 columns; windows that are stacked for one product
    maps, groups           maps of a block; groups of maps: blocks of different groups share an image
    turns, steps           turns of one or two channels; k-steps of a product in a turn, each of two rows of inputs
    warps, fetch, store    warps of a block that multiply, that fetch the next image, that store maps
    images, outs, stages   buffers for images, and for maps; parts in which a block stores its maps of an image
    room, shared, at_once  blocks per multiprocessor, bytes per block, whether one round of warps covers an image
    """
    window = s.K + down - 1  # rows of inputs
    channels = 2 if s.C > 1 and window % 2 else 1  # of a turn: two share a step for their last rows
    # down x maps is a multiple of 4: 8 columns of a product
    maps = 4 // down * tiles(tiles(s.M, groups), 4 // down)
    tallest = min(tiles(s.Ho, down), MAX_TALL, MAX_SUMS // (down * maps))
    tall = min(  # for the least time: the number of units, times what one takes
        range(1, tallest + 1),
        key=lambda height: _count_units(s, down, height) * (height + OVERHEAD_ROWS),
    )
    chosen = {
        "parts": parts,
        "down": down,
        "maps": maps,
        "groups": groups,
        "turns": tiles(s.C, channels),
        "steps": tiles(channels * window, 2),
        "tall": tall,
        "outs": outs,
        "images": images,
        "stages": stages,
    }
    shared = _count_bytes(s, chosen | {"channels": channels})
    # registers allow 2 of rung 10, 1 of rung 11
    room = count_blocks_at_once(shared, s.shared_opt_in, most=3 - parts)
    units = _count_units(s, down, tall)
    if parts == 2:  # four warps do not multiply; for bulk copies, one that stores is enough
        warpgroups, store = min(units, 2), 1 if s.M % maps == 0 else images
        fetch = 4 - store
    else:  # with room for one block, up to three groups of four warps, equally busy
        warpgroups, store = 1 if room == 2 else tiles(units, tiles(units, 3)), 1
        fetch = 3 if s.W % 2 or down == room == 2 else 1
    return {
        **chosen,
        "warps": 4 * warpgroups,
        "fetch": fetch,
        "store": store,
        "room": room,
        "at_once": units == warpgroups,
        "shared": shared,
    }


def _fits(s: Scope, sizes: dict) -> bool:
    """Return whether a block of these sizes has enough shared memory; rung 11's kernel declares `STATIC` more bytes."""
    return sizes["shared"] <= s.shared_opt_in - STATIC * (sizes["parts"] - 1)


def sizes(s: Scope, parts: int) -> dict:
    """Choose the sizes of the kernel for the layer in `s`; return them all: {"maps": 16, "warps": 4, "fetch": 3, …}.

    A block computes some of the layer's output maps ("maps"). It has "images" buffers for inputs and
    "outs" for maps, which it stores in "stages" parts; "room" is how many blocks fit into a
    multiprocessor. `_find_sizes` computes the others. `parts` is how many halves stand for a number: 1
    in rung 10, 2 in rung 11. The choices are those that kept an H200 busiest. In rung 10, two blocks
    per multiprocessor come first, then two buffers for maps. In rung 11, all maps in one block,
    stored in few stages, come before buffers for two images.
    """
    # Warps compute windows of outputs, `down` rows of 2 columns, by products over two rows of inputs
    # each (k-steps). With one channel, two rows of outputs make the number of rows of inputs even,
    # K + 1. Two channels share the last k-step of an odd number, and waste less with one row.
    down = 2 if parts == 1 and s.C == 1 else 1
    # A block computes one group of the layer's M output maps. The fewest groups whose sizes fit into
    # the GPU are taken. A map has 2 * down outputs in a window: as many columns of a product, which has
    # at most `MAX_COLUMNS`.
    for groups in range(tiles(s.M, MAX_COLUMNS // (2 * down)), s.M + 1):
        one_buffer = _find_sizes(s, parts, down, groups)
        if _fits(s, one_buffer) or one_buffer["maps"] == 4 // down:  # the fewest maps of a block
            break
        # If they do not fit, rung 11 can keep one image, and store its maps in up to six stages, each of a
        # multiple of 4 maps. For that, one round of a block's warps has to cover an image ("at_once").
        most_stages = 6 if parts == 2 and one_buffer["at_once"] else 1
        for stages in range(2, most_stages + 1):
            staged = _find_sizes(s, parts, down, groups, outs=2, images=1, stages=stages)
            if staged["maps"] % (4 * stages) == 0 and _fits(s, staged):
                return staged
    # only if as many blocks fit into a multiprocessor ("room") as with one buffer
    two_buffers = _find_sizes(s, parts, down, groups, outs=2)
    with_room = _fits(s, two_buffers) and two_buffers["room"] == one_buffer["room"]
    return two_buffers if parts == 1 and with_room else one_buffer


def defines(s: Scope) -> dict:
    """Return the compile-time parameters of the kernel for the `sizes` in `s`: {"MAPS": 16, …}.

    Those of the layer are left out. A warp computes windows of outputs, 2 columns by DOWN rows; TALL of
    them, one below the other, are stacked for a product. ROOM is blocks per multiprocessor. COMPUTE, FETCH
    and STORE are warps of a block; OUTS, IMAGES and STAGES say how maps and images are buffered. `s.parts`
    is 1 in rung 10, 2 in rung 11; their kernels have different parameters.
    """
    common = {
        "MAPS": s.maps,
        "TALL": s.tall,
        "COMPUTE": s.warps,
        "FETCH": s.fetch,
        "STORE": s.store,
        "OUTS": s.outs,
    }
    return common | (
        {"DOWN": s.down, "ROOM": s.room}
        if s.parts == 1
        else {"IMAGES": s.images, "STAGES": s.stages}
    )


def grid(s: Scope, multiprocessors: int) -> Extent:
    """Return the grid (x, 1, 1): as many blocks as the GPU can hold at once, equally many per group of output maps.

    `s.groups` is the number of groups of maps, `s.room` how many blocks a multiprocessor can hold, and
    `s.B` the number of images: a group needs no more blocks than there are images.
    """
    blocks_of_group = min(s.B, max(1, multiprocessors * s.room // s.groups))
    return s.groups * blocks_of_group, 1, 1


def block(s: Scope) -> Extent:
    """Return the threads of a block (x, y, z): its warps multiply, fetch images, or store maps."""
    return 32, s.warps + s.fetch + s.store, 1
