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
    """One kernel of a rung, and how it is launched.

    Attributes
    ----------
    kernel : str
        Its name in the rung's file.
    buffers : tuple of str
        Its three pointers: "x", "k", "y", "u" (the rung's scratch buffer) or "a" (the arranged mask).
    grid, block, shared : callable
        Of the scope of a launch (`Rung.scope`). `shared` is the shared memory of a block in bytes.
    static : int
        Bytes of shared memory that a kernel declares besides those of its launch, as nvcc counts them.
    used : callable
        Of the options: whether the variant launches this kernel; for a sub-step with other kernels than the rung's.
    library : callable
        Of the options: whether cuBLAS computes this call, a product of u and k, instead of the kernel.
    """

    kernel: str
    buffers: tuple[str, str, str]
    grid: Callable
    block: Callable
    shared: Callable = lambda s: 0
    static: int = 0
    used: Callable = lambda s: True
    library: Callable = lambda s: False


@dataclass(frozen=True)
class Rounding:
    """How a kernel rounds, for the checker's error bound.

    Attributes
    ----------
    storage : dtype
        Of x, k and y: inputs are rounded to it before the kernel runs, outputs after.
    accumulate : dtype
        Of the running sum.
    part : dtype, optional
        Of the partial sums of `part_terms` products each, where a kernel sums in two levels.
    part_terms : int
    operands : dtype, optional
        Of the factors, where the op itself rounds x and k before it multiplies them.
    parts : int
        Numbers of that type whose sum stands for a factor: 1, or 2. Of the products of two parts, that of the low ones
        is left out.
    """

    storage: np.dtype = FLOAT
    accumulate: np.dtype = FLOAT
    part: np.dtype | None = None
    part_terms: int = 0
    operands: np.dtype | None = None
    parts: int = 1


@dataclass(frozen=True)
class Rung:
    """One rung of the ladder.

    Attributes
    ----------
    number, name : int, str
        The kernel file is `NN_name.cu`. What is kept on disk is keyed by the name.
    title, idea : str
        For headings; the idea is one sentence.
    calls : tuple of Call
        The kernels, in the order of their launches.
    base : str or None
        The name of the rung that the diffs begin from. None for a new program: its page shows the kernel instead.
    path : tuple of str
        The sub-steps that lead from the base to the rung, one idea each, in order. The other sub-steps are
        experiments beside the path.
    options : mapping of str to Option
    sizes : callable
        Of the scope: the values of options that are None, for they depend on the layer, and other sizes that follow.
        They become part of the scope.
    recorded : callable
        Of the options: the text of the measured sizes that `sizes` chooses from, if it does. It is part of the code.
    defines : callable
        Of the scope: the compile-time parameters, passed to the compiler as -DNAME=value.
    rounding : callable
        Of the options: the `Rounding` of a variant.
    constant : str or None
        The __constant__ array that holds the mask.
    scratch : callable
        Of the scope: the bytes of the buffer "u" for one image.
    images : callable
        Of the scope: the most images per launch; None if only the grid and the scratch buffer limit them.
    arranged : callable
        Of the scope: the bytes of the buffer "a", the mask as one kernel arranges it for the next.
    limit : callable
        Of the scope: why the rung cannot compute the layer; "" if it can.
    min_capability : tuple of int
        The compute capability that its instructions need.
    steps : mapping of str to str
        The sub-steps: name and sentence. Each is a kernel file `steps/<rung>/<step>.cu` and is chosen by the option
        `step`. The scope has it as `s.step`; that is None for the rung itself.
    compared : tuple of dict
        Options that the rung's page compares with the defaults and the sub-steps. Their times are recorded, too.
    solved : mapping of str to dict
        By the letter of an exercise: the options that its solution is written for, if these are not the defaults.
    """

    number: int
    name: str
    title: str
    idea: str
    calls: tuple[Call, ...]
    base: str | None = None
    path: tuple[str, ...] = ()
    options: dict[str, Option] = field(default_factory=dict)
    sizes: Callable = lambda s: {}
    recorded: Callable = lambda options: ""
    defines: Callable = lambda s: {}
    rounding: Callable = lambda options: Rounding()
    constant: str | None = None
    scratch: Callable = lambda s: 0
    images: Callable = lambda s: None
    arranged: Callable = lambda s: 0
    limit: Callable = lambda s: ""
    min_capability: tuple[int, int] = (5, 0)
    steps: dict[str, str] = field(default_factory=dict)
    compared: tuple[dict, ...] = ()
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
