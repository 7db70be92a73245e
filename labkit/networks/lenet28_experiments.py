"""The experiments on lenet28: which kernels a step launches, from which files, with how many threads.

The files are in cuda_src/training/lenet28. Each has only the kernels that its experiment replaces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from labkit.ladder.rung import tiles
from labkit.networks.reference.lenet28 import Sizes


class Threads(NamedTuple):
    """The threads of a kernel: how many, how many per block, and how many rows the grid has."""

    threads: Callable[[Sizes], int]  # of a row
    block: Callable[[Sizes], int] = lambda s: 128
    rows: str = "B"  # "B": a row per image; "rows": at most MOST_ROWS of them; "1": one


def _warp_per_sum(count: Callable[[Sizes], int]) -> Threads:
    """Return the threads of a kernel that computes `count(sizes)` sums, with a warp of 32 threads for each."""
    return Threads(lambda s: 32 * count(s))


def _blocks_of(
    count: Callable[[Sizes], int], block: Callable[[Sizes], int], rows: str = "B"
) -> Threads:
    """Return the threads of a kernel with `count(sizes)` blocks of `block(sizes)` threads in each row of the grid."""
    return Threads(lambda s: count(s) * block(s), block, rows)


def _count_c1(s: Sizes) -> int:
    """Return the number of gradients of c1: one per weight and bias."""
    return s.maps * (s.K**2 + 1)


def _count_s1(s: Sizes) -> int:
    """Return the number of gradients of s1: one per weight of its filter, and one for its bias."""
    return s.pool**2 + 1


def _count_f(s: Sizes) -> int:
    """Return the number of gradients of f: one per weight and bias."""
    return s.classes * (s.features + 1)


def _choose_map_block(s: Sizes) -> int:
    """Return the threads of a block with a thread per position of a map of c1: whole warps, at most 1024."""
    return min(1024, 32 * tiles(s.c1**2, 32))


# one thread per output of c1, of s1 and of f, with the attributes of `Sizes`
_OUTPUTS = Threads(lambda s: s.outputs)
_FEATURES = Threads(lambda s: s.features)
_CLASSES = Threads(lambda s: s.classes)

# The kernels of each file. All experiments begin with those of "loops"; later files replace some:
# see `Experiment`.
FILES: dict[str, dict[str, Threads]] = {
    "loops": {
        "fp_c1": _OUTPUTS,
        "fp_s1": _FEATURES,
        "fp_f": _CLASSES,
        "bp_weight_f": Threads(_count_f, rows="1"),
        "bp_s1": _FEATURES,
        "bp_weight_s1": Threads(_count_s1, rows="1"),
        "bp_c1": _OUTPUTS,
        "bp_weight_c1": Threads(_count_c1, rows="1"),
        "update": Threads(lambda s: _count_c1(s) + _count_s1(s) + _count_f(s), rows="1"),
    },
    "atomics": {
        "fp_start": _OUTPUTS,
        "fp_c1": Threads(lambda s: s.K**2 * s.outputs),
        "activate_c1": _OUTPUTS,
        "fp_s1": _OUTPUTS,
        "activate_s1": _FEATURES,
        "fp_f": Threads(lambda s: s.classes * s.features),
        "activate_f": _CLASSES,
        "bp_weight_f": Threads(_count_f),
        "bp_s1": Threads(lambda s: s.classes * s.features),
        "bp_weight_s1": Threads(lambda s: _count_s1(s) * s.features),
        "bp_weight_c1": Threads(lambda s: _count_c1(s) * s.c1**2),
    },
    "shared_c1": {"fp_s1": _blocks_of(lambda s: 1, lambda s: 256)},
    "shared_s1": {"fp_f": _blocks_of(lambda s: 1, lambda s: 256)},
    "shared_mask": {"fp_c1": _OUTPUTS},
    "shared_input": {"fp_c1": _OUTPUTS},
    "constant_input": {"fp_c1": _OUTPUTS},
    "shuffle": {
        "fp_f": _warp_per_sum(lambda s: s.classes),
        "bp_weight_s1": _warp_per_sum(_count_s1),
        "bp_weight_c1": _warp_per_sum(_count_c1),
    },
    "shared_sum": {
        "bp_weight_s1": _blocks_of(_count_s1, lambda s: 128),
        "bp_weight_c1": _blocks_of(_count_c1, lambda s: 128),
    },
    "together": {
        "fp_c1_s1": _blocks_of(lambda s: s.maps, _choose_map_block),
        "bp_f": Threads(lambda s: max(s.features, s.classes)),
        "bp_s1_c1": _blocks_of(lambda s: s.maps, lambda s: 32 * _count_s1(s)),
    },
    "minibatch": {
        "bp_weight_f": Threads(_count_f, rows="rows"),
        "bp_s1_c1": _blocks_of(lambda s: 1, lambda s: 32 * _count_s1(s), "rows"),
        "bp_weight_c1": _blocks_of(lambda s: s.maps, lambda s: 192, "rows"),
    },
    "one_launch": {"train": _blocks_of(lambda s: 1, lambda s: 1024, "1")},
}
_LOOPS = FILES["loops"]
FILES["register"] = {name: _LOOPS[name] for name in _LOOPS if name not in ("bp_c1", "update")}
FILES["unrolled"] = {name: _LOOPS[name] for name in FILES["register"] if name != "bp_weight_f"}
FILES["deterministic"] = FILES["minibatch"]

ARGUMENTS = {  # each kernel's, as names; `order`, `rate`, `B` and `parts` belong to the step
    "fp_start": "weights values",
    "fp_c1": "images order weights values",
    "fp_s1": "weights values",
    "fp_f": "labels order weights values",
    "fp_c1_s1": "images order weights values",
    "activate_c1": "values",
    "activate_s1": "values",
    "activate_f": "labels order values",
    "bp_f": "weights values gradient",
    "bp_weight_f": "values gradient B",
    "bp_s1": "weights values",
    "bp_weight_s1": "values gradient B",
    "bp_c1": "weights values",
    "bp_s1_c1": "weights values gradient B",
    "bp_weight_c1": "images order values gradient B",
    "update": "weights gradient rate parts",
    "train": "images labels order weights values rate B",
}
TYPES = {"rate": "f", "B": "i", "parts": "i"}  # the others are pointers
WRITES = {  # the kernels that write an array; `comparisons` names the last of them
    "c1": ("fp_c1", "activate_c1", "fp_c1_s1"),
    "s1": ("fp_s1", "activate_s1", "fp_c1_s1"),
    "f": ("fp_f", "activate_f"),
    "d_f": ("fp_f", "activate_f"),
    "d_s1": ("bp_s1", "bp_f"),
    "d_c1": ("bp_c1", "bp_s1_c1"),
    "gradient c1": ("bp_weight_c1",),
    "gradient c1_bias": ("bp_weight_c1",),
    "gradient s1": ("bp_weight_s1", "bp_s1_c1"),
    "gradient s1_bias": ("bp_weight_s1", "bp_s1_c1"),
    "gradient f": ("bp_weight_f", "bp_f"),
    "gradient f_bias": ("bp_weight_f", "bp_f"),
}


class Experiment(NamedTuple):
    """An experiment: its idea, and where its kernels come from."""

    about: str  # the idea, in a few words
    files: tuple[str, ...]  # a kernel comes from the last of these that has it
    kernels: tuple[str, ...] = tuple(_LOOPS)  # in the order of their launches
    batches: bool = True  # whether it takes mini-batches


_UNROLLED = ("loops", "register", "unrolled")
_REDUCED = (*_UNROLLED, "shuffle", "together")  # sums by warps
_MINIBATCH_KERNELS = (
    "fp_c1_s1",
    "fp_f",
    "bp_weight_f",
    "bp_s1",
    "bp_s1_c1",
    "bp_weight_c1",
    "update",
)
EXPERIMENTS: dict[str, Experiment] = {
    "loops": Experiment("one thread per sum, partial sums in memory", ("loops",)),
    "atomics": Experiment(
        "one thread per product, atomicAdd",
        ("loops", "atomics"),
        (
            "fp_start",
            "fp_c1",
            "activate_c1",
            "fp_s1",
            "activate_s1",
            "fp_f",
            "activate_f",
            "bp_weight_f",
            "bp_s1",
            "bp_weight_s1",
            "bp_c1",
            "bp_weight_c1",
            "update",
        ),
    ),
    "register": Experiment("sums in a register", ("loops", "register")),
    "unrolled": Experiment("loops unrolled", ("loops", "register", "unrolled")),
    "shared_c1": Experiment(
        "6 maps of 24 x 24 in shared memory", ("loops", "register", "shared_c1")
    ),
    "shared_s1": Experiment("6 maps of 6 x 6 in shared memory", ("loops", "register", "shared_s1")),
    "shared_mask": Experiment("masks in shared memory", (*_UNROLLED, "shared_mask")),
    "shared_input": Experiment("masks and image in shared memory", (*_UNROLLED, "shared_input")),
    "constant_input": Experiment(
        "image in constant memory", (*_UNROLLED, "constant_input"), batches=False
    ),
    "shuffle": Experiment("a warp per sum", (*_UNROLLED, "shuffle")),
    "shared_sum": Experiment("a block per sum", (*_UNROLLED, "shuffle", "shared_sum")),
    "together": Experiment(
        "what won, in six launches",
        ("loops", "shuffle", "together"),
        ("fp_c1_s1", "fp_f", "bp_f", "bp_s1_c1", "bp_weight_c1", "update"),
    ),
    "minibatch": Experiment("mini-batches, atomics", (*_REDUCED, "minibatch"), _MINIBATCH_KERNELS),
    "deterministic": Experiment(
        "mini-batches, no atomics", (*_REDUCED, "deterministic"), _MINIBATCH_KERNELS
    ),
    "one_launch": Experiment(
        "one block, one image after the other", ("loops", "one_launch"), ("train",), False
    ),
}


def find_file(experiment: str, kernel: str) -> str:
    """Return the name of the file from which an experiment takes a kernel: the last of its files that has it.

    An experiment is a version of the training; its files replace some kernels of the ones before.
    """
    return next(name for name in reversed(EXPERIMENTS[experiment].files) if kernel in FILES[name])
