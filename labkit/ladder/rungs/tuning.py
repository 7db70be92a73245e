"""Rung 07: several rows in several maps per thread, with sizes that a sweep found for each layer."""

from types import SimpleNamespace

from labkit.ladder.options import Option, block_size, count, or_none
from labkit.ladder.rung import Call, Rung, tiles


def _sizes(s) -> SimpleNamespace:
    """The sizes for a scope: those chosen; else the layer's best on record; else what suits most layers."""
    chosen = {name: getattr(s, name) for name in ("rows", "maps", "block", "channels")}
    if None in chosen.values():
        from labkit.records.sweeps import best_on_record

        record = best_on_record(s.C, s.H, s.W, s.M, s.K)
        chosen = {name: record.get(name) if value is None else value for name, value in chosen.items()}
    rows = min(chosen["rows"] or tiles(s.Ho, tiles(s.Ho, 10)), s.Ho)
    maps = chosen["maps"] or min(4, s.M)
    groups = min(4, tiles(s.M, maps))
    columns = s.Wo * tiles(s.Ho, rows)
    block = chosen["block"] or (tiles(columns, tiles(columns, 256 // groups)), groups)
    return SimpleNamespace(rows=rows, maps=maps, block=block, channels=chosen["channels"] or min(4, s.C))


def _maps_per_block(s) -> int:
    sizes = _sizes(s)
    return sizes.maps * sizes.block[1]


def _grid(s) -> tuple[int, int, int]:
    sizes = _sizes(s)
    columns = s.Wo * tiles(s.Ho, sizes.rows)  # of `rows` outputs, one per thread
    return tiles(columns, sizes.block[0]), tiles(s.M, _maps_per_block(s)), s.B


def _shared(s) -> int:
    """The block's masks; in a sub-step its inputs, too."""
    sizes = _sizes(s)
    masks = 0 if s.step == "constant" else 4 * sizes.channels * s.K**2 * _maps_per_block(s)
    rows = (sizes.block[0] + s.Wo - 2) // s.Wo * sizes.rows + sizes.rows + s.K - 1
    return masks + (4 * s.W * min(s.H, rows) if s.step == "shared" else 0)


def _defines(s) -> dict[str, int]:
    sizes = _sizes(s)
    return {
        "FIXED_K": s.K, "FIXED_H": s.H, "FIXED_W": s.W, "ROWS": sizes.rows, "MAPS": sizes.maps,
        "THREADS": sizes.block[0], "GROUPS": sizes.block[1], "CHANNELS": sizes.channels, "UNROLL": s.unroll or s.K,
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
    options={
        "rows": Option(None, "outputs below each other that a thread computes; at most Ho", _SIZE, (1,)),
        "maps": Option(None, "output maps that a thread computes", _SIZE, (1,)),
        "block": Option(None, "threads of a block (x, y): columns of outputs, groups of maps", block_size, ((1, 1),)),
        "channels": Option(None, "input channels whose masks are in shared memory at a time", _SIZE, (1,)),
        "unroll": Option(None, "columns of the mask whose loop is unrolled at a time; all K by default", _SIZE),
    },
    defines=_defines,
    steps={
        "runtime": "H and W are arguments, so one kernel serves images of any size",
        "constant": "the masks come from constant memory",
        "shared": "the inputs come through shared memory",
    },
)
