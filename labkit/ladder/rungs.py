"""The ladder as data: each rung's kernel file, its kernels with their launch geometry, its options and its limits.

The kernel files hold no host code; what the host has to know about them is here. `labkit.ladder.variants` makes variants and
plans of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from labkit.base.errors import LabError
from labkit.base.paths import cuda_src
from labkit.spec.layers import Layer

# A CUDA device's limits, which the CPU engine keeps: CUDA C++ Programming Guide, "Compute Capabilities".
MAX_THREADS = 1024  # a block
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_OFFSET = 2**31 - 1  # the kernels count inside one image with 32-bit integers
CONSTANT_BYTES = 64 * 1024
SHARED_BYTES = 48 * 1024  # static


_FP16 = np.dtype(np.float16)
_FP32 = np.dtype(np.float32)


# --------------------------------------------------------------------------------------------------- geometry
def tiles(length: int, tile: int) -> int:
    """How many tiles cover `length`: the last one may stick out."""
    return -(-length // tile)


def scope(layer: Layer, images: int, options) -> SimpleNamespace:
    """What a call's geometry may depend on: the layer's dimensions, B images, the variant's options."""
    images = layer.x_shape(images)[0]  # refuses a number of images that is none
    dimensions = {name: getattr(layer, name) for name in ("C", "H", "W", "M", "K", "Ho", "Wo")}
    return SimpleNamespace(**dimensions, B=images, pixels=layer.Ho * layer.Wo, depth=layer.terms, **options)


@dataclass(frozen=True)
class Call:
    """One kernel of a rung, and how to launch it.

    Attributes
    ----------
    kernel : str
        Its name in the rung's file.
    buffers : tuple of str
        What it gets for its three pointers: "x", "k", "y", "u", the rung's scratch, or "a", the arranged mask.
    grid, block, shared : callable
        Of the scope `s`: C, H, W, M, K, Ho, Wo, B (images of this launch), pixels = Ho Wo, depth = C K K, and
        the variant's options by name. `shared` is the block's shared memory in bytes.
    library : callable
        Of the scope: whether cuBLAS computes this call, a product of u and k, in the kernel's place.
    """

    kernel: str
    buffers: tuple[str, str, str]
    grid: Callable
    block: Callable
    shared: Callable = lambda s: 0
    library: Callable = lambda s: False


@dataclass(frozen=True)
class Rounding:
    """How a kernel rounds, for the checker's error bound.

    Attributes
    ----------
    storage : dtype
        Of x, k and y: the inputs are rounded to it before the kernel runs, the output after.
    accumulate : dtype
        Of the running sum.
    part : dtype, optional
        Of the partial sums of `part_terms` products each, where a kernel sums in two levels.
    part_terms : int
    """

    storage: np.dtype = _FP32
    accumulate: np.dtype = _FP32
    part: np.dtype | None = None
    part_terms: int = 0


# ---------------------------------------------------------------------------------------------------- options
def _positive(value) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value > 0


def _block_option(name, value):
    """A block of threads (x, y)."""
    if not (isinstance(value, (tuple, list)) and len(value) == 2 and all(map(_positive, value))):
        raise LabError(f"{name}={value!r}: a block is a pair of positive integers (x, y), such as (32, 8)")
    value = tuple(map(int, value))
    if value[0] * value[1] > MAX_THREADS:
        raise LabError(f"{name}={value} has {value[0] * value[1]} threads; a block has at most {MAX_THREADS}")
    return value


def _threads_option(name, value):
    """A number of threads."""
    if not _positive(value) or value > MAX_THREADS:
        raise LabError(f"{name}={value!r}: the threads of a block, an integer from 1 to {MAX_THREADS}")
    return int(value)


def _tile_option(name, value):
    """The side of a square tile, a thread an element."""
    if not _positive(value):
        raise LabError(f"{name}={value!r}: the side of a tile is a positive integer, for example 16")
    if value * value > MAX_THREADS:
        raise LabError(
            f"{name}={value} makes a block of {value}x{value} = {value * value} threads; a block has at most "
            f"{MAX_THREADS}: take {name} <= 32"
        )
    return int(value)


def _warps_option(name, value):
    if not _positive(value) or value > MAX_THREADS // 32:
        raise LabError(f"{name}={value!r}: the warps of a block, an integer from 1 to {MAX_THREADS // 32}")
    return int(value)


def _warps_or_none(name, value):
    return None if value is None else _warps_option(name, value)


def _size_option(name, value):
    """A number of things; None leaves the choice to the lab."""
    if value is not None and not _positive(value):
        raise LabError(f"{name}={value!r}: {name} are a positive integer, or None for the lab's choice")
    return value if value is None else int(value)


def _gemm_option(name, value):
    """Who multiplies."""
    if value not in (None, "cublas"):
        raise LabError(f'{name}={value!r}: "cublas" has the library multiply; leave it out for the rung\'s own kernel')
    return value


def _count_option(name, value):
    if not _positive(value):
        raise LabError(f"{name}={value!r}: a positive integer")
    return int(value)


WMMA_SHAPES = ((16, 16, 16), (8, 32, 16), (32, 8, 16))


def _wmma_option(name, value):
    if not isinstance(value, (tuple, list)) or tuple(value) not in WMMA_SHAPES:
        raise LabError(f"{name}={value!r}: a WMMA in half is one of {', '.join(map(str, WMMA_SHAPES))}")
    return tuple(value)


@dataclass(frozen=True)
class Option:
    """A choice the reader has: its default, what it means, the function that validates a value, and the values among
    which is the one that takes the least shared memory."""

    default: object
    about: str
    validate: Callable
    least: tuple = ()


def short(value) -> str:
    """An option's value as labels and results write it: a pair is "32x8"."""
    return "x".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


# ------------------------------------------------------------------------------------------------------ rungs
@dataclass(frozen=True)
class Rung:
    """One rung of the ladder.

    Attributes
    ----------
    number, name : int, str
        Shared by the kernel file `NN_name.cu`, the notebook, the table row and the plot label.
    title, idea : str
        For headings; the idea is one sentence.
    calls : tuple of Call
        The kernels, in the order of their launches.
    options : mapping of str to Option
    defines : callable
        Of the scope: the compile-time parameters, handed to the compiler as -DNAME=value.
    rounding : callable
        Of the options: the `Rounding` of a variant.
    constant : str or None
        The __constant__ array that holds the mask.
    scratch : callable
        Of the scope: bytes of the buffer "u" for one image.
    arranged : callable
        Of the scope: bytes of the buffer "a", the mask as one kernel arranges it for the next.
    limit : callable
        Of the scope: why the rung cannot compute the layer; "" if it can.
    steps : mapping of str to str
        The sub-steps on the way to this rung, or beside it: a name and a sentence. Each is a kernel file of its own,
        `steps/NN_name.cu`, and is chosen by the option `step`; the scope has it as `s.step`, None for the rung itself.
    base : int, optional
        The rung that the diff begins from; by default the one before.
    compared : tuple of dict
        Options that the rung's page compares, besides the defaults and the steps: their times are recorded, too.
    solved : mapping of str to dict
        By exercise ("04b"), the options that its solution is written for, where these are not the defaults.
    """

    number: int
    name: str
    title: str
    idea: str
    calls: tuple[Call, ...]
    options: dict[str, Option] = field(default_factory=dict)
    defines: Callable = lambda s: {}
    rounding: Callable = lambda options: Rounding()
    constant: str | None = None
    scratch: Callable = lambda s: 0
    arranged: Callable = lambda s: 0
    limit: Callable = lambda s: ""
    steps: dict[str, str] = field(default_factory=dict)
    base: int | None = None
    compared: tuple[dict, ...] = ()
    solved: dict[str, dict] = field(default_factory=dict)

    def __post_init__(self):
        if self.base is None:
            object.__setattr__(self, "base", self.number - 1)
        if self.steps:
            about = "a sub-step in the rung's place: " + ", ".join(self.steps)
            object.__setattr__(self, "options", {**self.options, "step": Option(None, about, self._step_option)})

    def _step_option(self, name, value):
        if value is not None and value not in tuple(self.steps):  # what is no key is no step
            raise LabError(f"{name}={value!r}: {self.label} has the steps {', '.join(self.steps)}")
        return value

    @property
    def label(self) -> str:
        """As tables and plots write it: "01 baseline"."""
        return f"{self.number:02d} {self.name.replace('_', ' ')}"

    @property
    def file(self) -> Path:
        """The kernel file."""
        return cuda_src() / f"{self.number:02d}_{self.name}.cu"

    def step_file(self, step: str) -> Path:
        """The kernel file of a sub-step."""
        return cuda_src() / "steps" / self.name / f"{step}.cu"

    @property
    def source(self) -> str:
        """The text of the kernel file."""
        return self.file.read_text()

    def __repr__(self) -> str:
        return f"{self.label}: {self.idea}"


def less_shared(rung: Rung, layer: Layer, options) -> str:
    """What to do where a block needs more shared memory than it may have."""

    def shared(**changed):
        s = scope(layer, 1, {**options, **changed})
        return max(call.shared(s) for call in rung.calls)

    least = {name: min(option.least, key=lambda value: shared(**{name: value}))
             for name, option in rung.options.items() if option.least}  # fmt: skip
    helping = {name: value for name, value in least.items() if shared(**{name: value}) < shared()}
    if shared(**helping) > SHARED_BYTES:
        return "take a rung that needs less, such as 1"
    return f"take a smaller {' or '.join(helping)}"


# ------------------------------------------------------------------------------------------------ sizes of 07
def _tuned(s) -> SimpleNamespace:
    """The sizes of rung 07 for a scope: those chosen; of the others the layer's best on record, or what may do."""
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


def _columns(s) -> int:
    """Columns of `rows` outputs in a map, one a thread."""
    return s.Wo * tiles(s.Ho, _tuned(s).rows)


def _maps_per_block(s) -> int:
    return _tuned(s).maps * _tuned(s).block[1]


def _shared_of_07(s) -> int:
    """Bytes a block: its masks; in a sub-step its inputs, too."""
    sizes = _tuned(s)
    masks = 0 if s.step == "constant" else 4 * sizes.channels * s.K**2 * _maps_per_block(s)
    rows = (sizes.block[0] + s.Wo - 2) // s.Wo * sizes.rows + sizes.rows + s.K - 1
    return masks + (4 * s.W * min(s.H, rows) if s.step == "shared" else 0)


_BLOCK = Option((16, 16), "threads of a block (x, y): the outputs of a tile", _block_option)
_TILE = Option(16, "side of a square tile; a block has tile x tile threads", _tile_option, (1,))

# 01 to 04: a block computes a tile of one output map, the grid is (tiles of a map, M, B).
_DIRECT = Call(
    kernel="conv",
    buffers=("x", "k", "y"),
    grid=lambda s: (tiles(s.Wo, s.block[0]) * tiles(s.Ho, s.block[1]), s.M, s.B),
    block=lambda s: (*s.block, 1),
)


def _maps(s) -> int:
    """Output maps of a block of 04."""
    return 4 if s.step in ("maps", "weights") else 1


# Of 02, to part the lanes of a warp: neighbours in x work on different maps.
_DIVERGENT = ("divergent", "divergent_global")
_MAPS_ACROSS = Call(
    kernel="conv",
    buffers=("x", "k", "y"),
    grid=lambda s: (tiles(s.pixels, s.block[1]), tiles(s.M, s.block[0]), s.B),
    block=lambda s: (*s.block, 1),
)


def _pixels_per_thread(s) -> int:
    """Of 08: a half2 holds two."""
    return 1 if s.step in ("storage", "half_sum") else 2


def _rows(s) -> int:
    """Of u in 09: its depth in whole tiles of a WMMA."""
    return 16 * tiles(s.depth, 16)


# ---------------------------------------------------------------------------------------------- geometry of 11
def _squares(s) -> SimpleNamespace:
    """Of rung 10 for a scope: its sizes, those not chosen by what kept an H200 busiest; and what follows from them."""
    below, across = tiles(s.Ho, 2), tiles(s.Wo, 2)  # squares of 2 x 2 outputs
    pairs = s.pairs or min(range(min(4, below), 12), key=lambda pairs: (tiles(below, pairs) * pairs, pairs))
    groups = s.groups or (2 if s.M % 8 == 0 else 1)
    fours = tiles(s.M, 4 * groups) * groups  # of maps, in whole groups
    products = tiles(tiles(below, pairs) * across, 8)  # of eight columns of squares
    warps = s.warps or tiles(products, tiles(products, 8 // groups))
    steps = (s.K + 2) // 2
    rows = max(2 * (tiles(below, pairs) * pairs + steps - 1), s.H + s.H % 2)
    image = 2 * s.C * rows * (s.W + s.W % 2) + 16
    out = 0 if s.step else 2 if s.Wo % 4 == 0 else 8 * groups * s.pixels
    shared = tiles(image, 16) * 16 + out
    return SimpleNamespace(pairs=pairs, groups=groups, fours=fours, warps=warps, steps=steps, shared=shared)


LADDER = (
    Rung(
        1, "baseline", "Baseline: one thread an output",
        "The loops over images, maps, rows and columns become the grid: one thread computes one output.",
        calls=(_DIRECT,),
        options={"block": _BLOCK},
        compared=({"block": (32, 8)}, {"block": (256, 1)}, {"block": (1, 256)}),
    ),
    Rung(
        2, "constant", "Constant memory: the mask beside the cores",
        "All threads of a warp read the same mask element at a time: constant memory serves that at once.",
        calls=(
            Call(
                kernel="conv",
                buffers=("x", "k", "y"),
                grid=lambda s: (_MAPS_ACROSS if s.step in _DIVERGENT else _DIRECT).grid(s),
                block=_DIRECT.block,
            ),
        ),
        options={"block": _BLOCK},
        constant="mask",
        steps={
            "global": "The sum in a register, the mask in global memory: what 02 gains when no store hides it.",
            "divergent": "The lanes of a warp work on different maps, and each asks for a mask element of its own.",
            "divergent_global": "The same lanes, the mask in global memory.",
        },
        compared=tuple(
            {"step": step, "block": (maps, 256 // maps)} for step in _DIVERGENT for maps in (1, 2, 4)
        ),
    ),
    Rung(
        3, "registers", "Registers and unrolling: let the compiler see the loops",
        "The sum stays in a register, and with K known at compile time the inner loops unroll.",
        calls=(_DIRECT,),
        options={"block": _BLOCK},
        defines=lambda s: {"FIXED_K": s.K},
        constant="mask",
        steps={
            "sum": "The sum in a register, stored once.",
            "restrict": "And the compiler may assume that the arrays do not overlap.",
            "fixed_k": "And K known at compile time, the unrolling left to the compiler.",
            "rolled": "The rung with its loops kept: what unrolling is worth.",
        },
    ),
    Rung(
        4, "tiling", "Tiling: share what the neighbours need",
        "A block loads its inputs once, tile and halo, and reads them up to K*K times from shared memory.",
        calls=(
            Call(
                kernel="conv",
                buffers=("x", "k", "y"),
                grid=lambda s: (tiles(s.Wo, s.tile) * tiles(s.Ho, s.tile), tiles(s.M, _maps(s)), s.B),
                block=lambda s: (s.tile, s.tile, 1),
                shared=lambda s: 0 if s.step == "barrier"
                else 4 * (s.tile + s.K - 1) ** 2 + (16 * s.K**2 if s.step == "weights" else 0),
            ),
        ),
        options={"tile": _TILE},
        defines=lambda s: {"FIXED_K": s.K, "TILE": s.tile, **({"MAPS": _maps(s)} if _maps(s) > 1 else {})},
        constant="mask",
        steps={
            "columns": "The tile is loaded in column order: what the load order is worth.",
            "skip": "Threads without an output leave the sum out.",
            "barrier": "Rung 03 with a barrier a channel and no tile: what keeping the warps together is worth.",
            "maps": "A block computes four output maps from each tile that it has loaded.",
            "weights": "Four maps a tile, and their weights in shared memory, too: a wide load brings all four.",
        },
        compared=({"tile": 8}, {"tile": 27}, {"tile": 32}),
        solved={"04b": {"step": "weights"}},
    ),
    Rung(
        5, "unroll_gemm", "Unroll and GEMM: a convolution is a matrix product",
        "im2col copies each output pixel's inputs into a column of a matrix; a matrix product does the rest.",
        calls=(
            Call(
                kernel="im2col",
                buffers=("x", "k", "u"),
                grid=lambda s: (tiles(s.pixels, s.block), s.C, s.B),
                block=lambda s: (s.block, 1, 1),
            ),
            Call(
                kernel="gemm",
                buffers=("u", "k", "y"),
                grid=lambda s: (tiles(s.pixels, s.tile), tiles(s.M, s.tile), s.B),
                block=lambda s: (s.tile, s.tile, 1),
                shared=lambda s: 8 * s.tile**2,
                library=lambda s: s.gemm == "cublas",
            ),
        ),
        options={
            "tile": _TILE,
            "block": Option(256, "threads of a block of im2col", _threads_option),
            "gemm": Option(None, "cublas has NVIDIA's library multiply, on a GPU", _gemm_option),
        },
        defines=lambda s: {"FIXED_K": s.K, "TILE": s.tile},
        scratch=lambda s: 4 * s.depth * s.pixels,
        steps={"skip": "Warps without an output leave the product out: what a tile that is not full costs."},
        compared=(
            *({"tile": tile, "block": block} for tile in (16, 32) for block in (64, 128, 256, 512)
              if (tile, block) != (16, 256)),
            {"gemm": "cublas"},
        ),
    ),
    Rung(
        6, "fusion", "Fusion: the matrix that is never written",
        "The matrix product computes im2col's indices while it fills its tile, and reads x itself.",
        calls=(
            Call(
                kernel="conv",
                buffers=("x", "k", "y"),
                grid=lambda s: (tiles(s.pixels, s.tile), tiles(s.M, s.tile), s.B),
                block=lambda s: (s.tile, s.tile, 1),
                shared=lambda s: 8 * s.tile**2,
            ),
        ),
        options={"tile": _TILE},
        defines=lambda s: {"FIXED_K": s.K, "TILE": s.tile},
        steps={
            "divide": "K is known at run time alone: what the divisions by it cost.",
            "skip": "Warps without an output leave the product out.",
        },
        compared=({"tile": 8}, {"tile": 32}),
    ),
    Rung(
        7, "tuning", "Tuning: outputs a thread, and a kernel for each layer",
        "A thread computes several rows in several maps from registers; how many is swept, layer by layer.",
        calls=(
            Call(
                kernel="conv",
                buffers=("x", "k", "y"),
                grid=lambda s: (tiles(_columns(s), _tuned(s).block[0]), tiles(s.M, _maps_per_block(s)), s.B),
                block=lambda s: (*_tuned(s).block, 1),
                shared=_shared_of_07,
            ),
        ),
        options={
            "rows": Option(None, "outputs below each other that a thread computes; at most Ho", _size_option, (1,)),
            "maps": Option(None, "output maps that a thread computes", _size_option, (1,)),
            "block": Option(
                None, "threads of a block (x, y): columns of outputs, groups of maps", _block_option, ((1, 1),)
            ),
            "channels": Option(None, "input channels whose masks are in shared memory at a time", _size_option, (1,)),
            "unroll": Option(None, "columns of the mask whose loop is unrolled at a time; all K of them", _size_option),
        },
        defines=lambda s: {
            "FIXED_K": s.K, "FIXED_H": s.H, "FIXED_W": s.W, "ROWS": _tuned(s).rows, "MAPS": _tuned(s).maps,
            "THREADS": _tuned(s).block[0], "GROUPS": _tuned(s).block[1], "CHANNELS": _tuned(s).channels,
            "UNROLL": s.unroll or s.K,
        },
        steps={
            "runtime": "H and W are arguments, so one kernel serves images of any size",
            "constant": "the masks come from constant memory",
            "shared": "the inputs come through shared memory",
        },
        base=3,
    ),
    Rung(
        8, "fp16", "FP16: half the bytes, two products an instruction",
        "x, k and y are stored as half, and one half2 instruction multiplies and adds for two pixels.",
        calls=(
            Call(
                kernel="conv",
                buffers=("x", "k", "y"),
                grid=lambda s: (tiles(s.pixels, _pixels_per_thread(s) * s.tile), tiles(s.M, s.tile), s.B),
                block=lambda s: (s.tile, s.tile, 1),
                shared=lambda s: {"storage": 8, "half_sum": 4}.get(s.step, 6) * s.tile**2,
            ),
        ),
        options={"tile": _TILE},
        defines=lambda s: {"FIXED_K": s.K, "TILE": s.tile},
        rounding=lambda options: {
            "storage": Rounding(_FP16, _FP32),
            "half_sum": Rounding(_FP16, _FP16),
            "half2": Rounding(_FP16, _FP16),
        }.get(options["step"], Rounding(_FP16, _FP32, part=_FP16, part_terms=options["tile"])),
        steps={
            "storage": "x, k and y are half, the tiles and the arithmetic stay float",
            "half_sum": "tiles, products and sums are half, one product an instruction",
            "half2": "two pixels share a half2: two products an instruction",
        },
        compared=({"tile": 8}, {"tile": 32}),
        base=6,
    ),
    Rung(
        9, "tensor_cores", "Tensor cores: a warp multiplies whole tiles",
        "WMMA multiplies 16x16 tiles of halves in one warp-wide operation and sums them in float.",
        calls=(
            Call(
                kernel="conv",
                buffers=("x", "k", "y"),
                grid=lambda s: (
                    tiles(s.pixels, s.warps * s.wmma[1] * (1 if s.step else s.turns)), tiles(s.M, s.wmma[0]), s.B,
                ),
                block=lambda s: (32, s.warps, 1),
                shared=lambda s: {"plain": 0, "pixel": 0}.get(s.step, 4 * (_rows(s) + 128 // s.wmma[1]))
                + 2 * s.wmma[0] * (16 if s.step else _rows(s) + 8)
                + s.warps * (32 * s.wmma[1] + 4 * s.wmma[0] * s.wmma[1]),
            ),
        ),
        options={
            "wmma": Option((16, 16, 16), "maps, pixels and depth of one WMMA", _wmma_option, WMMA_SHAPES),
            "warps": Option(4, "warps of a block", _warps_option, (1,)),
            "turns": Option(8, "tiles of pixels that a warp computes one after the other", _count_option),
        },
        defines=lambda s: {
            "FIXED_K": s.K, "WM": s.wmma[0], "WN": s.wmma[1], "WARPS": s.warps, "ROWS": _rows(s),
        },
        rounding=lambda options: Rounding(_FP16, _FP32),
        steps={
            "plain": "every element's indices are computed where it is loaded",
            "pixel": "a lane's pixel is decoded once, before the loop",
            "table": "where a row of u begins is computed once for a block, and looked up",
        },
        compared=(
            {"wmma": (8, 32, 16)}, {"wmma": (32, 8, 16)}, {"turns": 1}, {"turns": 2}, {"turns": 4}, {"turns": 16},
        ),
        base=8,
    ),
    Rung(
        10, "speed_of_light", "Speed of light: the image is the matrix",
        "Rows of tensor core products are squares of outputs, so that a lane's terms are words of the image.",
        calls=(
            Call(
                kernel="arrange",
                buffers=("x", "k", "a"),
                grid=lambda s: (s.C, _squares(s).fours, 1),
                block=lambda s: (32, _squares(s).steps, 1),
            ),
            Call(
                kernel="conv",
                buffers=("x", "a", "y"),
                grid=lambda s: (min(s.B, s.blocks), 1, 1),
                block=lambda s: (32, _squares(s).warps, 1),
                shared=lambda s: _squares(s).shared,
            ),
        ),
        options={
            "pairs": Option(None, "squares of 2 x 2 outputs below each other that a warp computes", _size_option, (1,)),
            "groups": Option(None, "groups of four maps that a warp computes at once", _size_option, (1,)),
            "warps": Option(None, "warps of a block", _warps_or_none),
            "blocks": Option(
                528, "blocks, which walk over the images: four a multiprocessor of an H200", _count_option
            ),
        },
        defines=lambda s: {
            "FIXED_C": s.C, "FIXED_M": s.M, "FIXED_H": s.H, "FIXED_W": s.W, "FIXED_K": s.K,
            "PAIRS": _squares(s).pairs, "GROUPS": _squares(s).groups, "WARPS": _squares(s).warps,
        },
        rounding=lambda options: Rounding(_FP16, _FP32),
        arranged=lambda s: 512 * _squares(s).fours * s.C * _squares(s).steps,
        limit=lambda s: "" if s.K <= 7 else "its windows are 8 inputs wide, for K up to 7",
        steps={"scattered": "a lane stores its own outputs, two at a time"},
        compared=(
            *({"pairs": pairs} for pairs in (1, 2, 4, 8)), {"groups": 1},
            *({"blocks": blocks} for blocks in (132, 264, 1000)),
        ),
        base=9,
    ),
)  # fmt: skip


def rung(number: int) -> Rung:
    """The rung with this number.

    Raises
    ------
    LabError
        If there is none; the message lists those there are.
    """
    for each in LADDER:
        if each.number == number and not isinstance(number, bool):
            return each
    raise LabError(f"there is no rung {number!r}; the ladder has {', '.join(each.label for each in LADDER)}")
