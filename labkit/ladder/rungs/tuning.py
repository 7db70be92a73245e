"""Rung 07: several rows in several maps per thread, with sizes that a sweep found for each layer."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

from labkit.ladder.options import Option, block_size, count, or_none
from labkit.ladder.rung import Call, Extent, Rung, Scope, tiles

_TILED = ("rows", "maps", "masks")  # sub-steps whose blocks are tiles of a map, as in rung 03

# The fastest sizes of each layer in a recorded sweep, by C, H, W, M and K, as `recording.sweep`
# writes them: {"1x86x86 4x7": {"rows": 10, "maps": 4, "block": [128, 1], "channels": 1, "unroll":
# 7}, ...}, of one device.
TUNED_FILE = Path(__file__).with_suffix(".toml")
TUNED_DEVICE, TUNED = tomllib.loads(TUNED_FILE.read_text()).values()


def _is_tuned(options: Mapping) -> bool:
    """Return whether a size comes from the file: whether the options leave one open."""
    return None in [options[name] for name in ("rows", "maps", "block", "channels")]


def _choose_sizes(s: Scope) -> dict:
    """Return the sizes of the launch by name: those of the options, else the tuned ones, else what suits most layers.

    `s` has the layer's dimensions and the options; one that is None is chosen here. A thread
    computes `rows` outputs of a column in `maps` maps, and `below` threads cover a column. A block
    computes `groups` times `maps` maps. The masks of `channels` channels are in shared memory at a
    time; `unroll` columns of the mask are unrolled at a time.
    """
    tuned = TUNED.get(f"{s.C}x{s.H}x{s.W} {s.M}x{s.K}", {}) if _is_tuned(vars(s)) else {}
    # equal shares of at most 10
    rows = min(s.rows or tuned.get("rows") or tiles(s.Ho, tiles(s.Ho, 10)), s.Ho)
    below = tiles(s.Ho, rows)  # threads that cover a column of a map
    maps = 1 if s.step == "rows" else s.maps or tuned.get("maps") or min(4, s.M)
    channels = (
        1 if s.step in ("masks", "columns") else s.channels or tuned.get("channels") or min(4, s.C)
    )
    if s.step in _TILED:
        block, groups = s.block or (16, tiles(below, tiles(below, 16))), 1
    else:
        groups = min(4, tiles(s.M, maps))  # of `maps` maps per block
        # equal blocks of at most 256
        columns = (tiles(s.Wo * below, tiles(s.Wo * below, 256 // groups)), groups)
        block = tuple(s.block or tuned.get("block") or columns)
        groups = block[1]
    unroll = s.unroll or tuned.get("unroll") or s.K
    return {
        "rows": rows,
        "maps": maps,
        "block": block,
        "channels": channels,
        "unroll": unroll,
        "groups": groups,
        "below": below,
    }


def _compute_grid(s: Scope) -> Extent:
    """Return the grid (x, y, z) in blocks, from the layer's dimensions and the sizes in `s`."""
    x, y = s.block
    blocks = tiles(s.Wo, x) * tiles(s.below, y) if s.step in _TILED else tiles(s.Wo * s.below, x)
    return blocks, tiles(s.M, s.maps * s.groups), s.B


def _count_shared_bytes(s: Scope) -> int:
    """Return the bytes of shared memory per block: floats of its masks, and in the sub-step "shared" of its inputs."""
    masks = (
        0 if s.step in ("rows", "maps", "constant") else 4 * s.channels * s.K**2 * s.maps * s.groups
    )
    # Threads side by side have the columns of a strip of `s.rows` rows, then those of the strip
    # below: so many strips below that of its first thread does a block reach, at most.
    lower_strips = (s.block[0] + s.Wo - 2) // s.Wo
    rows = lower_strips * s.rows + s.rows + s.K - 1
    return masks + (4 * s.W * min(s.H, rows) if s.step == "shared" else 0)


_SIZE = or_none(count)

RUNG = Rung(
    number=7,
    name="tuning",
    idea="A thread computes several rows in several maps from registers; how many is swept, layer by layer.",
    calls=(Call(grid=_compute_grid, block=lambda s: (*s.block, 1), shared=_count_shared_bytes),),
    base="registers",
    path=("rows", "maps", "masks", "columns", "runtime"),
    options={
        "rows": Option(None, "outputs of a column that a thread computes; at most Ho", _SIZE, (1,)),
        "maps": Option(None, "output maps that a thread computes", _SIZE, (1,)),
        "block": Option(
            None,
            "threads of a block (x, y): columns of outputs, groups of maps",
            block_size,
            ((1, 1),),
        ),
        "channels": Option(
            None, "input channels whose masks are in shared memory at a time", _SIZE, (1,)
        ),
        "unroll": Option(
            None, "columns of the mask whose loop is unrolled at a time; all K by default", _SIZE
        ),
    },
    sizes=_choose_sizes,
    recorded=lambda options: json.dumps(TUNED) if _is_tuned(options) else "",
    defines=lambda s: {
        "FIXED_K": s.K,
        "FIXED_H": s.H,
        "FIXED_W": s.W,
        "ROWS": s.rows,
        "MAPS": s.maps,
        "THREADS": s.block[0],
        "GROUPS": s.groups,
        "CHANNELS": s.channels,
        "UNROLL": s.unroll,
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
    solved={"a": {"step": "maps"}},
)
