"""Rung 07: several rows in several maps per thread, with sizes that a sweep found for each layer."""

from labkit.ladder.options import Option, block_size, count, or_none
from labkit.ladder.rung import Call, Rung, tiles

_TILED = ("rows", "maps", "masks")  # sub-steps whose blocks are tiles of a map, as in rung 03


def _sizes(s) -> dict:
    """The sizes for a scope: those chosen; else the layer's best on record; else what suits most layers."""
    best = {}
    if None in (s.rows, s.maps, s.block, s.channels):
        from labkit.records.sweeps import best_on_record

        best = best_on_record(s.C, s.H, s.W, s.M, s.K)
    rows = min(s.rows or best.get("rows") or tiles(s.Ho, tiles(s.Ho, 10)), s.Ho)
    below = tiles(s.Ho, rows)  # threads that cover a column of a map
    maps = 1 if s.step == "rows" else s.maps or best.get("maps") or min(4, s.M)
    channels = 1 if s.step in ("masks", "columns") else s.channels or best.get("channels") or min(4, s.C)
    if s.step in _TILED:
        block, groups = s.block or (16, tiles(below, tiles(below, 16))), 1
    else:
        groups = min(4, tiles(s.M, maps))
        columns = (tiles(s.Wo * below, tiles(s.Wo * below, 256 // groups)), groups)
        block = s.block or best.get("block") or columns
        groups = block[1]
    return {"rows": rows, "maps": maps, "block": block, "channels": channels, "unroll": s.unroll or s.K,
            "groups": groups, "below": below}  # fmt: skip


def _grid(s) -> tuple[int, int, int]:
    x, y = s.block
    blocks = tiles(s.Wo, x) * tiles(s.below, y) if s.step in _TILED else tiles(s.Wo * s.below, x)
    return blocks, tiles(s.M, s.maps * s.groups), s.B


def _shared(s) -> int:
    """The block's masks; in a sub-step its inputs, too."""
    masks = 0 if s.step in ("rows", "maps", "constant") else 4 * s.channels * s.K**2 * s.maps * s.groups
    rows = (s.block[0] + s.Wo - 2) // s.Wo * s.rows + s.rows + s.K - 1
    return masks + (4 * s.W * min(s.H, rows) if s.step == "shared" else 0)


_SIZE = or_none(count)

RUNG = Rung(
    number=7,
    name="tuning",
    title="Tuning: several outputs per thread, and a kernel for each layer",
    idea="A thread computes several rows in several maps from registers; how many is swept, layer by layer.",
    calls=(
        Call(
            kernel="conv",
            buffers=("x", "k", "y"),
            grid=_grid,
            block=lambda s: (*s.block, 1),
            shared=_shared,
        ),
    ),
    base="registers",
    path=("rows", "maps", "masks", "columns", "runtime"),
    options={
        "rows": Option(None, "outputs below each other that a thread computes; at most Ho", _SIZE, (1,)),
        "maps": Option(None, "output maps that a thread computes", _SIZE, (1,)),
        "block": Option(None, "threads of a block (x, y): columns of outputs, groups of maps", block_size, ((1, 1),)),
        "channels": Option(None, "input channels whose masks are in shared memory at a time", _SIZE, (1,)),
        "unroll": Option(None, "columns of the mask whose loop is unrolled at a time; all K by default", _SIZE),
    },
    sizes=_sizes,
    defines=lambda s: {
        "FIXED_K": s.K, "FIXED_H": s.H, "FIXED_W": s.W, "ROWS": s.rows, "MAPS": s.maps,
        "THREADS": s.block[0], "GROUPS": s.groups, "CHANNELS": s.channels, "UNROLL": s.unroll,
    },
    steps={
        "rows": "A thread computes several rows of a map: an input serves up to K of them, a mask element all.",
        "maps": "A thread computes its rows in several maps: an input in a register serves all of them.",
        "masks": "The masks are in shared memory, one channel at a time: one load reads those of four maps.",
        "columns": "The threads of a block count columns of outputs, so only the last block extends beyond the map.",
        "runtime": "The masks of several channels at a time. H and W are arguments: one kernel for images of any size.",
        "constant": "The rung with its masks in constant memory.",
        "shared": "The rung with its inputs in shared memory, too.",
    },
)  # fmt: skip
