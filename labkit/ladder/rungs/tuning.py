"""Rung 07: several rows in several maps per thread, with sizes that a sweep found for each layer."""

from types import SimpleNamespace

from labkit.ladder.options import Option, block_size, count, or_none
from labkit.ladder.rung import Call, Rung, tiles

_TILED = ("rows", "maps", "masks")  # sub-steps whose blocks are tiles of one map, as in rung 03


def _sizes(s) -> SimpleNamespace:
    """The sizes for a scope: those chosen; else the layer's best on record; else what suits most layers."""
    chosen = {name: getattr(s, name) for name in ("rows", "maps", "block", "channels")}
    if None in chosen.values():
        from labkit.records.sweeps import best_on_record

        record = best_on_record(s.C, s.H, s.W, s.M, s.K)
        chosen = {name: record.get(name) if value is None else value for name, value in chosen.items()}
    rows = min(chosen["rows"] or tiles(s.Ho, tiles(s.Ho, 10)), s.Ho)
    maps = 1 if s.step == "rows" else chosen["maps"] or min(4, s.M)
    channels = 1 if s.step in ("masks", "columns") else chosen["channels"] or min(4, s.C)
    below = tiles(s.Ho, rows)  # threads that cover a column of a map
    if s.step in _TILED:
        block, groups = s.block or (16, tiles(below, tiles(below, 16))), 1
    else:
        groups = min(4, tiles(s.M, maps))
        block = chosen["block"] or (tiles(s.Wo * below, tiles(s.Wo * below, 256 // groups)), groups)
        groups = block[1]
    return SimpleNamespace(rows=rows, maps=maps, block=block, groups=groups, channels=channels, below=below)


def _grid(s) -> tuple[int, int, int]:
    sizes, (x, y) = _sizes(s), _sizes(s).block
    blocks = tiles(s.Wo, x) * tiles(sizes.below, y) if s.step in _TILED else tiles(s.Wo * sizes.below, x)
    return blocks, tiles(s.M, sizes.maps * sizes.groups), s.B


def _shared(s) -> int:
    """The block's masks; in a sub-step its inputs, too."""
    sizes = _sizes(s)
    masks = 0 if s.step in ("rows", "maps", "constant") else 4 * sizes.channels * s.K**2 * sizes.maps * sizes.groups
    rows = (sizes.block[0] + s.Wo - 2) // s.Wo * sizes.rows + sizes.rows + s.K - 1
    return masks + (4 * s.W * min(s.H, rows) if s.step == "shared" else 0)


def _defines(s) -> dict[str, int]:
    sizes = _sizes(s)
    return {
        "FIXED_K": s.K, "FIXED_H": s.H, "FIXED_W": s.W, "ROWS": sizes.rows, "MAPS": sizes.maps,
        "THREADS": sizes.block[0], "GROUPS": sizes.groups, "CHANNELS": sizes.channels, "UNROLL": s.unroll or s.K,
    }  # fmt: skip


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
            block=lambda s: (*_sizes(s).block, 1),
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
    defines=_defines,
    steps={
        "rows": "A thread computes several rows of one map: an input serves up to K outputs, a weight all of them.",
        "maps": "And in several maps: an input in a register serves all of them.",
        "masks": "The masks in shared memory, one channel at a time: one load reads the weights of four maps.",
        "columns": "Threads count columns of outputs across the map, so that no tile sticks out at its right edge.",
        "runtime": "The masks of several channels at a time. H and W are arguments: one kernel for all image sizes.",
        "constant": "The rung with its masks in constant memory.",
        "shared": "The rung with its inputs in shared memory, too.",
    },
)
