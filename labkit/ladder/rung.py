"""What a rung of the ladder is: its kernels with their launch geometry, its options, limits and sub-steps, as data.

The kernel files hold no host code. What the host has to know about them is in `labkit.ladder.rungs`, one file per rung.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from labkit.base.errors import LabError
from labkit.base.paths import cuda_src
from labkit.ladder.options import Option
from labkit.spec.layers import Layer

HALF, FLOAT = np.dtype(np.float16), np.dtype(np.float32)


def tiles(length: int, tile: int) -> int:
    """The number of tiles that cover `length`; the last one may stick out."""
    return -(-length // tile)


@dataclass(frozen=True)
class Call:
    """One kernel of a rung, and how it is launched."""

    kernel: str  # its name in the rung's file
    # its three pointers: "x", "k", "y", "u" (the rung's scratch buffer) or "a" (the arranged mask)
    buffers: tuple[str, str, str]
    grid: Callable  # of the scope of a launch (`Rung.scope`); so are the next two
    block: Callable
    shared: Callable = lambda s: 0  # bytes of a block's shared memory
    static: int = 0  # bytes of shared memory that a kernel declares besides those of its launch, as nvcc counts them
    # of the options: whether the variant launches this kernel; for a sub-step with other kernels than the rung's
    used: Callable = lambda s: True
    # of the options: whether cuBLAS computes this call, a product of u and k, instead of the kernel
    library: Callable = lambda s: False


@dataclass(frozen=True)
class Rounding:
    """How a kernel rounds, for the checker's error bound."""

    storage: np.dtype = FLOAT  # of x, k and y: inputs are rounded to it before the kernel runs, outputs after
    accumulate: np.dtype = FLOAT  # of the running sum
    part: np.dtype | None = None  # of the partial sums of `part_terms` products each, where a kernel sums in two levels
    part_terms: int = 0
    operands: np.dtype | None = None  # of the factors, where the op itself rounds x and k before it multiplies them
    # Numbers of that type whose sum stands for a factor: 1, or 2. Of the products of two parts, that of the low ones is
    # left out.
    parts: int = 1


@dataclass(frozen=True)
class Rung:
    """One rung of the ladder."""

    number: int  # the kernel file is `NN_name.cu`
    name: str  # what is kept on disk is keyed by it
    title: str  # for headings
    idea: str  # one sentence
    calls: tuple[Call, ...]  # the kernels, in the order of their launches
    base: str | None = None  # the rung that the diffs begin from; None: a new program, whose page shows the kernel
    # The sub-steps that lead from the base to the rung, one idea each, in order. The other sub-steps are experiments
    # beside the path.
    path: tuple[str, ...] = ()
    options: dict[str, Option] = field(default_factory=dict)
    # Of the scope: the values of options that are None, for they depend on the layer, and other sizes that follow. They
    # become part of the scope.
    sizes: Callable = lambda s: {}
    # Of the options: the text of the measured sizes that `sizes` chooses from, if it does. It is part of the code.
    recorded: Callable = lambda options: ""
    # of the scope: the compile-time parameters, passed to the compiler as -DNAME=value
    defines: Callable = lambda s: {}
    rounding: Callable = lambda options: Rounding()  # of the options: the `Rounding` of a variant
    constant: str | None = None  # the __constant__ array that holds the mask
    scratch: Callable = lambda s: 0  # of the scope: the bytes of the buffer "u" for one image
    # of the scope: the most images per launch; None if only the grid and the scratch buffer limit them
    images: Callable = lambda s: None
    # of the scope: the bytes of the buffer "a", the mask as one kernel arranges it for the next
    arranged: Callable = lambda s: 0
    limit: Callable = lambda s: ""  # of the scope: why the rung cannot compute the layer; "" if it can
    min_capability: tuple[int, int] = (5, 0)  # the compute capability that its instructions need
    # The sub-steps: name and sentence. Each is a kernel file `steps/<rung>/<step>.cu` and is chosen by the option
    # `step`. The scope has it as `s.step`; that is None for the rung itself.
    steps: dict[str, str] = field(default_factory=dict)
    # Options that the rung's page compares with the defaults and the sub-steps. Their times are recorded, too.
    compared: tuple[dict, ...] = ()
    # by the letter of an exercise: the options that its solution is written for, if these are not the defaults
    solved: dict[str, dict] = field(default_factory=dict)

    def __post_init__(self):
        if self.steps:
            about = "a sub-step in place of the rung: " + ", ".join(self.steps)
            object.__setattr__(self, "options", {**self.options, "step": Option(None, about, self._step_option)})

    def _step_option(self, name, value):
        if value is not None and value not in tuple(self.steps):  # a tuple: the value may not be hashable
            raise LabError(f"{name}={value!r}: {self.label} has the steps {', '.join(self.steps)}")
        return value

    def scope(self, layer: Layer, images: int, options: Mapping[str, object]) -> SimpleNamespace:
        """What the geometry of a launch may depend on.

        Returns
        -------
        SimpleNamespace
            C, H, W, M, K, Ho, Wo of the layer; B, the images; pixels = Ho Wo; depth = C K K; the options; the `sizes`.
        """
        images = layer.x_shape(images)[0]  # raises if it is not a number of images
        dimensions = {name: getattr(layer, name) for name in ("C", "H", "W", "M", "K", "Ho", "Wo")}
        s = SimpleNamespace(**dimensions, B=images, pixels=layer.Ho * layer.Wo, depth=layer.terms, **options)
        vars(s).update(self.sizes(s))
        return s

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
