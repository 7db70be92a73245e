"""Rung 10: tensor core products whose operands are words of the image."""

from labkit.ladder import warpgroups
from labkit.ladder.options import Option, count, or_none, warp_count
from labkit.ladder.rung import FLOAT, HALF, Call, Extent, Rounding, Rung, Scope, tiles
from labkit.spec.devices import count_blocks_at_once

BLOCKS = 4  # per multiprocessor, at most: for more there are too few registers


def _choose_sizes(s: Scope) -> dict:
    """Return a dict of the launch's sizes, for the layer's dimensions and the options in `s`.

    Options that are None are chosen here, with the constants that kept an H200 busiest: `pairs`
    squares of 2 x 2 outputs above each other, in `groups` of four maps, that a warp computes at
    once; `warps` of a block; `blocks`.
    """
    if s.step == "warpgroups":
        # The step has no pairs: with None, a value that the reader gives for them is refused.
        return {
            "pairs": None,
            "blocks": s.blocks or BLOCKS * s.multiprocessors,
            **warpgroups.sizes(s, parts=1),
        }
    # squares of 2 x 2 outputs, an even number of them across
    down, across = (tiles(s.Ho, 2), 2 * tiles(s.Wo, 4))
    # The fewest squares beyond the map's edge, then the fewest registers.
    best_pairs = min(
        range(min(4, down), 12), key=lambda height: (tiles(down, height) * height, height)
    )
    pairs = 1 if s.step in ("square", "shared") else s.pairs or best_pairs
    groups = (
        1 if s.step in ("square", "shared", "pairs") else s.groups or (2 if s.M % 8 == 0 else 1)
    )
    strips = tiles(down, pairs)
    products = tiles(strips * across, 8)  # of eight columns
    # equal shares, for at most 8 warps
    warps = s.warps or tiles(products, tiles(products, 8 // groups))
    # strips: as high as `pairs` squares, they cover a map; steps: of a product, with two rows of a
    # window each; fours: groups of four maps
    sizes = {
        "pairs": pairs,
        "groups": groups,
        "warps": warps,
        "strips": strips,
        "steps": (s.K + 2) // 2,
        "fours": tiles(s.M, 4 * groups) * groups,
    }
    at_once = count_blocks_at_once(
        _count_shared_bytes(Scope(**vars(s) | sizes)), s.shared_opt_in, BLOCKS
    )
    return {**sizes, "blocks": s.blocks or at_once * s.multiprocessors}


def _count_shared_bytes(s: Scope) -> int:
    """Return the bytes of shared memory per block: an image, and in the rung the maps that it gathers for wide stores.

    `s` has the layer's dimensions, the options and `_choose_sizes`.
    """
    # `image` and `out` of the kernel: rows of an even number of halves; 16 bytes more for the last
    # window.
    image = 4 * s.C * (s.strips * s.pairs + s.steps - 1) * (s.W + s.W % 2) + 16
    # 2: of an array of one half
    gathered = 0 if s.step else 8 * s.groups * s.pixels if s.Wo % 4 else 2
    return 0 if s.step == "square" else tiles(image, 16) * 16 + gathered


def _compute_grid(s: Scope) -> Extent:
    """Return the grid (x, y, z): in the rung and "persistent" at most `s.blocks`, else a block per image."""
    return min(s.B, s.blocks) if s.step in (None, "persistent") else s.B, 1, 1


def _make_defines(s: Scope) -> dict:
    """Return the compile-time parameters, name to value, for a layer and the sizes in `s`."""
    sizes = {"PAIRS": s.pairs, "GROUPS": s.groups, "WARPS": s.warps}
    layer = {"FIXED_C": s.C, "FIXED_M": s.M, "FIXED_H": s.H, "FIXED_W": s.W, "FIXED_K": s.K}
    return {**layer, **(warpgroups.defines(s) if s.step == "warpgroups" else sizes)}


RUNG = Rung(
    number=10,
    name="speed_of_light",
    idea="Rows of tensor core products are squares of outputs, so that a lane's terms are words of the image.",
    calls=(
        Call(
            kernel="arrange",
            buffers=("x", "k", "a"),
            block=lambda s: (32, s.steps, 1),
            grid=lambda s: (s.C, s.fours, 1),
            used=lambda options: options.step != "warpgroups",
        ),
        Call(
            buffers=("x", "a", "y"),
            grid=_compute_grid,
            shared=_count_shared_bytes,
            block=lambda s: (32, s.warps, 1),
            used=lambda options: options.step != "warpgroups",
        ),
        Call(
            grid=lambda s: warpgroups.grid(s, s.blocks // BLOCKS),
            shared=lambda s: s.shared,
            block=warpgroups.block,
            used=lambda options: options.step == "warpgroups",
        ),
    ),
    path=("square", "shared", "pairs", "groups", "persistent"),
    options={
        "pairs": Option(
            None, "stacked squares of 2 x 2 outputs that a warp computes", or_none(count), (1,)
        ),
        "groups": Option(
            None, "groups of four maps that a warp computes at once", or_none(count), (1,)
        ),
        "warps": Option(None, "warps of a block", or_none(warp_count)),
        "blocks": Option(
            None,
            "blocks, each of which computes many images; up to four per multiprocessor by default",
            or_none(count),
        ),
    },
    sizes=_choose_sizes,
    defines=_make_defines,
    min_capability=(8, 0),
    rounding=lambda options: Rounding(HALF, FLOAT),
    # 16 bytes for each lane of a warp
    arranged=lambda s: 0 if s.step == "warpgroups" else 512 * s.fours * s.C * s.steps,
    limit=lambda s: "" if s.K <= 7 else "its windows are 8 inputs wide, for K up to 7",
    steps={
        "square": "A product is eight squares of outputs in four maps, its terms come from global memory.",
        "shared": "The image is in shared memory: a pair of terms is one word of it.",
        "pairs": "A word in a register serves several squares above each other.",
        "groups": "A word in a register serves several groups of four maps, too.",
        "persistent": "A block computes many images, one after the other.",
        "warpgroups": "Products of four warps, wgmma, whose weights stay in shared memory.",
    },
    beside=("warpgroups",),
    compared=(
        *({"pairs": pairs} for pairs in (1, 2, 4, 8)),
        {"groups": 1},
        *({"blocks": blocks} for blocks in (132, 264, 1000)),
    ),
)
