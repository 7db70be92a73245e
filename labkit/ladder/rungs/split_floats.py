"""Rung 11: float results from tensor cores, as sums of products of halves."""

import itertools
from math import ceil

from labkit.ladder import warpgroups
from labkit.ladder.options import Option, count, or_none, warp_count
from labkit.ladder.rung import FLOAT, HALF, Call, Rounding, Rung, Scope, tiles

ROUNDED = "one"  # the step with one product: floats rounded to halves
FINISHED = (None, "teams", "no_teams", "background")  # the rung, and steps that do all that it does
WITHOUT_TEAMS = ("no_teams", "background")  # the steps whose warps do all jobs of a block
LARGEST = 16  # bytes of the kernel's `largest`, as nvcc rounds them

# The 16 rows of a product are 8 / DOWN maps times DOWN rows and 2 columns of outputs; its 8 columns
# are eight places in the map. A warp computes TALL products, one above the other, in turns of one
# or two channels, each in k-steps.


def _plan_turn(s: Scope, down: int) -> tuple[int, int]:
    """Return (channels, k-steps) of a turn, if a product covers `down` rows of outputs; a k-step takes two rows."""
    window = s.K + down - 1  # rows of inputs
    # two channels fill the last step of an odd window
    channels = 2 if s.C > 1 and window % 2 else 1
    return channels, tiles(channels * window, 2)


def _count_products(s: Scope, down: int) -> float:
    """Return the products per image and row of outputs for one place along it, if a product covers `down` rows."""
    channels, steps = _plan_turn(s, down)
    return tiles(s.M, 8 // down) * tiles(s.C, channels) * steps / down


def _count_column_tiles(s: Scope, down: int, tall: int) -> int:
    """Return how many times a group of maps needs the eight columns of a product."""
    return tiles(tiles(s.Ho, down * tall) * tiles(s.Wo, 2), 8)


def _choose_buffers(s: Scope, sizes: dict) -> dict:
    """Return {"images": buffers for images in shared memory, "store": warps that store maps}: the first that fit.

    `s` has the layer's dimensions and the options, `sizes` what `_choose_sizes` has chosen before.
    """
    # where rows of y are aligned, warps store their own sums
    stores = (2, 0) if s.Wo % 4 and s.step in FINISHED else (0,)
    for store, images in itertools.product(stores, (2, 1)):
        buffers = {"images": images, "store": store}
        if _count_shared_bytes(Scope(**vars(s) | sizes | buffers)) + LARGEST <= s.shared_opt_in:
            break
    return buffers


def _share_jobs(s: Scope, sizes: dict) -> dict:
    """Return the sizes of a step without teams: as many warps as in all teams, or those of the option."""
    teams = sizes["warps"] + sizes["fetch"] + sizes["store"]
    images = 1 if s.step == "no_teams" else sizes["images"]
    return {**sizes, "warps": s.warps or teams, "fetch": 0, "images": images}


def _choose_sizes(s: Scope) -> dict:
    """Return a dict of the launch's sizes, for the layer's dimensions and the options in `s`.

    Options that are None are chosen here, with the constants that kept an H200 busiest. A product
    covers `down` rows of outputs, a warp computes `tall` of them, stacked, in `turns` over the
    channels, each of `steps` k-steps.
    """
    if s.step == "warpgroups":
        return {"blocks": s.blocks or s.multiprocessors, **warpgroups.sizes(s, parts=2)}
    # rows of outputs of a product
    down = min((1, 2), key=lambda rows: (_count_products(s, rows), rows))
    channels, steps = _plan_turn(s, down)
    tallest = max(1, min(11, tiles(s.Ho, down)))
    # The fewest products, some of which lie beyond the map's edge; then the tallest stack.
    tall = s.tall or min(
        range(min(4, tallest), tallest + 1),
        key=lambda height: (_count_column_tiles(s, down, height) * height, -height),
    )
    column_tiles = _count_column_tiles(s, down, tall)
    groups = tiles(s.M, 8 // down)
    turns = tiles(s.C, channels)
    # more warps with more weights would need too many registers
    rounds = tiles(column_tiles, 13 if s.C == 1 else 8)
    warps = s.warps or tiles(column_tiles, rounds)
    # of all windows
    input_rows = down * tall * (tiles(s.Ho, down * tall) - 1) + down * (tall - 1) + s.K + down - 1
    # an image in groups of four pixels
    fours = ((turns * channels - 1) * s.H * s.W + input_rows * s.W + 11) // 4
    sizes = {
        "down": down,
        "tall": tall,
        "warps": warps,
        "steps": steps,
        "turns": turns,
        "groups": groups,
        "fours": fours,
        "blocks": s.blocks or s.multiprocessors,
    }
    sizes |= _choose_buffers(s, sizes)
    # per image: they hide the fetching of the next one
    products = 3 * groups * turns * steps * column_tiles * tall
    fetch = max(1, min(3, 16 - warps - sizes["store"], ceil(1.3 * s.C * s.H * s.W / products)))
    sizes["fetch"] = fetch  # warps that fetch images; `store`: those that store maps
    return _share_jobs(s, sizes) if s.step in WITHOUT_TEAMS else sizes


def _count_shared_bytes(s: Scope) -> int:
    """Return the bytes of shared memory per block: the kernel's `largest`, its `images`, with STORE warps its `out`."""
    # of a product. `largest`: int [2], an image: float4 [fours], `out`: float [places, maps, stride]
    maps, stride = 8 // s.down, s.pixels + (4 if s.step in FINISHED and s.pixels % 4 == 0 else 0)
    places = 1 if s.step == "no_teams" else 2
    return 8 + 16 * s.images * s.fours + (4 * places * maps * stride if s.store else 0)


def _make_block(s: Scope) -> tuple[int, int, int]:
    """Return the block's dimensions: 32 lanes, and the warps of all teams."""
    return 32, s.warps + (0 if s.step in WITHOUT_TEAMS else s.fetch + s.store), 1


def _make_defines(s: Scope) -> dict:
    """Return the compile-time parameters, name to value, for a layer and the sizes in `s`."""
    layer = {"FIXED_C": s.C, "FIXED_M": s.M, "FIXED_H": s.H, "FIXED_W": s.W, "FIXED_K": s.K}
    if s.step == "warpgroups":
        return {**layer, **warpgroups.defines(s)}
    staged = {"STAGED": int(s.store > 0)}
    if s.step in WITHOUT_TEAMS:
        sizes = {"DOWN": s.down, "TALL": s.tall, "WARPS": s.warps, "IMAGES": s.images}
        return {**layer, **sizes, **staged}
    return {
        **layer,
        "DOWN": s.down,
        "TALL": s.tall,
        "COMPUTE": s.warps,
        "FETCH": s.fetch,
        "STORE": s.store,
        "IMAGES": s.images,
        **(staged if s.step == "teams" else {}),
    }


def _count_arranged_bytes(s: Scope) -> int:
    """Return the bytes of the buffer that `arrange` fills: both parts of the weights, an int per map, the mask."""
    if s.step == "warpgroups":
        return 0
    weights = 2 * 32 * 16 * s.groups * s.turns * s.steps  # 2 parts, 32 lanes, 16 bytes of each lane
    return weights + 4 * (8 // s.down) * s.groups + 4 * s.M * s.depth


RUNG = Rung(
    number=11,
    name="split_floats",
    idea="A float is the sum of two halves: three products of halves on the tensor cores make one of floats.",
    products="3×FP16",
    calls=(
        Call(
            kernel="arrange",
            buffers=("x", "k", "a"),
            grid=lambda s: (s.turns, s.groups, 1),
            block=lambda s: (32, s.steps, 1),
            used=lambda options: options.step != "warpgroups",
        ),
        Call(
            buffers=("x", "a", "y"),
            shared=_count_shared_bytes,
            static=LARGEST,
            grid=lambda s: (min(s.B, s.blocks), 1, 1),
            block=_make_block,
            used=lambda options: options.step != "warpgroups",
        ),
        Call(
            shared=lambda s: s.shared,
            static=warpgroups.STATIC,
            grid=lambda s: warpgroups.grid(s, s.blocks),
            block=warpgroups.block,
            used=lambda options: options.step == "warpgroups",
        ),
    ),
    path=("one", "three", "images", "maps", "finite"),
    options={
        "tall": Option(
            None, "products, stacked vertically, that a warp computes", or_none(count), (1,)
        ),
        "warps": Option(None, "warps of a block that compute", or_none(warp_count)),
        "blocks": Option(
            None,
            "blocks, each of which computes many images; one per multiprocessor by default",
            or_none(count),
        ),
    },
    sizes=_choose_sizes,
    defines=_make_defines,
    min_capability=(8, 0),
    rounding=lambda options: Rounding(
        FLOAT, FLOAT, operands=HALF, parts=1 if options["step"] == ROUNDED else 2
    ),
    arranged=_count_arranged_bytes,
    limit=lambda s: "" if s.K <= 7 else "its windows are 8 inputs wide, for K up to 7",
    steps={
        "one": "Floats are rounded to halves by warps of their own, while others multiply.",
        "three": "A float is the sum of two halves: three products.",
        "images": "A power of two per image keeps the low parts of the pixels in the range of halves.",
        "maps": "A power of two per map does the same for the weights.",
        "finite": "An image or a mask that is not finite is computed without the tensor cores.",
        "teams": "The rung, with its jobs as functions.",
        "no_teams": "Beside teams: all warps do each job, one after the other.",
        "background": "Beside teams: all warps do each job, and images and maps are copied in the background.",
        "warpgroups": "Products of four warps, wgmma, whose weights stay in shared memory.",
    },
    beside=("warpgroups",),
    compared=(
        {"tall": 4},
        {"tall": 7},
        {"tall": 10},
        {"blocks": 264},
        {"step": "no_teams", "warps": 8, "blocks": 264},
    ),
)
