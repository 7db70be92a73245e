"""A rung of the ladder as data: its kernels with their launch geometry, its options, limits and sub-steps.

The kernel files hold no host code. All that the host needs to launch them is in
`labkit.ladder.rungs`, a file per rung.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TypeAlias

import numpy as np

from labkit.base.errors import LabError
from labkit.base.paths import cuda_src
from labkit.ladder.options import Option
from labkit.spec.devices import read_launch_limits
from labkit.spec.layers import Layer

HALF, FLOAT = np.dtype(np.float16), np.dtype(np.float32)
Extent: TypeAlias = tuple[int, int, int]  # of a grid or a block: x, y, z


class Scope(SimpleNamespace):
    """What a launch of a rung depends on; `Rung.scope` makes one.

    The rung's options and sizes are attributes, too.
    """

    B: int  # images of the launch; only its grid may depend on them
    C: int  # channels of the input
    H: int  # its rows
    W: int  # its columns
    M: int  # output maps
    K: int  # side of the mask
    Ho: int  # rows of the output
    Wo: int  # its columns
    pixels: int  # outputs per map: Ho Wo
    depth: int  # products per output: C K K
    step: str | None  # the sub-step in place of the rung
    multiprocessors: int  # of the GPU that the launch is for
    shared_opt_in: int  # bytes of shared memory that a block can have there


def tiles(length: int, tile: int) -> int:
    """Return how many tiles cover `length`; the last one may extend beyond it."""
    return -(-length // tile)


@dataclass(frozen=True)
class Call:
    """One kernel of a rung, and how it is launched."""

    grid: Callable[[Scope], Extent]  # blocks
    block: Callable[[Scope], Extent]  # threads
    kernel: str = "conv"  # its name in the rung's file
    # its three pointers: "x", "k", "y", "u" (the rung's scratch buffer) or "a" (the arranged mask)
    buffers: tuple[str, str, str] = ("x", "k", "y")
    shared: Callable[[Scope], int] = lambda s: 0  # bytes of shared memory per block
    # bytes of shared memory that a kernel declares besides those of its launch, as nvcc counts them
    static: int = 0
    # whether the variant launches this kernel, by its options: a sub-step may have other kernels
    # than the rung
    used: Callable[[Scope], bool] = lambda options: True
    # whether cuBLAS computes this call, a product of u and k, instead of the kernel; by the options
    library: Callable[[Scope], bool] = lambda options: False


@dataclass(frozen=True)
class Rounding:
    """How a kernel rounds, for the checker's error bound."""

    # of x, k and y: inputs are rounded to it before the kernel runs, outputs after
    storage: np.dtype = FLOAT
    accumulate: np.dtype = FLOAT  # type of the running sum
    # type of the partial sums of `part_terms` products each, if it sums in two levels
    part: np.dtype | None = None
    part_terms: int = 0
    # type of the factors, if the op itself rounds x and k before it multiplies them
    operands: np.dtype | None = None
    # How many numbers of that type add up to a factor, 1 or 2. With 2, the product of the two low
    # parts is left out.
    parts: int = 1


@dataclass(frozen=True)
class Rung:
    """One rung of the ladder."""

    number: int  # the kernel file is `NN_name.cu`
    name: str  # key of the records in `data/`
    idea: str  # one sentence
    calls: tuple[Call, ...]  # the kernels, in the order of their launches
    # the rung that the diffs begin from; None: a new program, whose page shows the kernel
    base: str | None = None
    # The sub-steps that lead from the base to the rung, one idea each, in order. The other
    # sub-steps are experiments beside the path.
    path: tuple[str, ...] = ()
    options: dict[str, Option] = field(default_factory=dict)  # by their names
    # The values of options that are None because they depend on the layer, and sizes that follow.
    # They join the scope. A value that differs from a reader's option makes `Variant.on`
    # refuse that option for the layer or step.
    sizes: Callable[[Scope], dict] = lambda s: {}
    # The table of measured sizes, as text, if `sizes` chooses from it with these options; else "".
    # The digest `Variant.code` covers it.
    recorded: Callable[[Mapping], str] = lambda options: ""
    # compile-time parameters: -DNAME=value
    defines: Callable[[Scope], dict[str, int]] = lambda s: {}
    rounding: Callable[[Mapping], Rounding] = lambda options: Rounding()  # with these options
    # what its tensor cores compute for a product of floats, for its reference time:
    # `Device.reference_s`
    products: str = ""
    constant: str | None = None  # the __constant__ array that holds the mask
    scratch: Callable[[Scope], int] = lambda s: 0  # bytes of the buffer "u" per image
    # the most images per launch; None if only the grid and the scratch buffer limit them
    images: Callable[[Scope], int | None] = lambda s: None
    arranged: Callable[[Scope], int] = lambda s: 0  # bytes of the buffer "a", the arranged mask
    # why the rung cannot compute the layer; "" if it can
    limit: Callable[[Scope], str] = lambda s: ""
    min_capability: tuple[int, int] = (5, 0)  # the compute capability that its instructions need
    # The sub-steps: name and sentence. Each is a kernel file `steps/<rung>/<step>.cu` and is chosen
    # by the option `step`. The scope has it as `s.step`; that is None for the rung itself.
    steps: dict[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()  # those that the table of the ladder shows beside the rung
    # Options that the rung's page compares with the defaults and the sub-steps. Their times are
    # recorded, too.
    compared: tuple[dict, ...] = ()
    # letter of an exercise -> the options that its solution is written for, if these are not the
    # defaults
    solved: dict[str, dict] = field(default_factory=dict)

    def __post_init__(self):
        """Add the option `step` to a rung with sub-steps, whose file does not list it."""
        if self.steps:
            about = "a sub-step in place of the rung: " + ", ".join(self.steps)
            object.__setattr__(
                self, "options", {**self.options, "step": Option(None, about, self._validate_step)}
            )

    def _validate_step(self, name, value):
        """Return the value of the option `step` if it is a sub-step of the rung or None; else raise LabError."""
        # a tuple: the value may not be hashable
        if value is not None and value not in tuple(self.steps):
            raise LabError(f"{name}={value!r}: {self.label} has the steps {', '.join(self.steps)}")
        return value

    def scope(self, layer: Layer, options: Mapping[str, object]) -> Scope:
        """Return the sizes from which a launch's grid and block are computed, as attributes of one object: `s.Ho`.

        The attributes are the layer's dimensions without the number of images, all options of the rung,
        the device's number of multiprocessors and shared memory per block, and the rung's `sizes`,
        which replace options that are None.
        """
        dimensions = {name: getattr(layer, name) for name in ("C", "H", "W", "M", "K", "Ho", "Wo")}
        multiprocessors, shared_opt_in = read_launch_limits()
        s = Scope(
            **dimensions,
            pixels=layer.Ho * layer.Wo,
            depth=layer.terms,
            multiprocessors=multiprocessors,
            shared_opt_in=shared_opt_in,
            **options,
        )
        vars(s).update(self.sizes(s))
        return s

    @property
    def label(self) -> str:
        """The rung as tables and plots write it: "01 baseline"."""
        return f"{self.number:02d} {self.name.replace('_', ' ')}"

    @property
    def file(self) -> Path:
        """The path of the rung's kernel file, such as cuda_src/01_baseline.cu."""
        return cuda_src() / f"{self.number:02d}_{self.name}.cu"

    def step_file(self, step: str) -> Path:
        """Return the path of the kernel file of a sub-step, a kernel on the way to the rung: "sum" for rung 03."""
        return cuda_src() / "steps" / self.name / f"{step}.cu"

    @property
    def source(self) -> str:
        """The text of the rung's kernel file."""
        return self.file.read_text()

    def __repr__(self) -> str:
        return f"{self.label}: {self.idea}"
