"""Variants that compute with NumPy, right or wrong in a chosen way, to test the checker and the bench."""

import itertools
import time
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from hostcuda import driver, ensure_context
from labkit.base.errors import LabError
from labkit.ladder.rung import Rounding
from labkit.measure.compare import unwritten  # noqa: F401 (tests take it from here)
from labkit.spec.layers import Layer
from labkit.spec.reference import conv_float64

_numbers = itertools.count()
HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)


def correct(x, k, state):
    """Return the convolution, rounded once to the type of x."""
    return conv_float64(x, k).astype(x.dtype)


def random_shapes(count: int, seed: int = 0) -> list[tuple[Layer, int]]:
    """Draw layers and batches for `check`: K from 1 to 7, all dimensions independent."""
    rng = np.random.default_rng(seed)
    shapes = []
    for index in range(count):
        B, C, M, K, extra_h, extra_w = (
            int(rng.integers(1, most)) for most in (5, 7, 20, 8, 30, 40)
        )
        shapes.append((Layer(f"random {index}", C, K - 1 + extra_h, K - 1 + extra_w, M, K), B))
    return shapes


class FakeVariant:
    """A stand-in for a `Variant`: `compute(x, k, state)` returns what the kernel leaves in y; None leaves y alone."""

    def __init__(
        self,
        compute=correct,
        label="99 fake",
        rounding=None,
        refuses=lambda layer: False,
        takes_s=0.0,
        kernels=None,
        source="",
    ):
        self.compute, self.label, self.refuses = compute, label, refuses
        self.rounding = rounding or Rounding()
        self.io_dtype = np.dtype(self.rounding.storage)
        self.rung = SimpleNamespace(number=99, products="")
        self.kernels = kernels or {"fake": takes_s}  # how long each takes [s]
        self.identity = f"fake {next(_numbers)}"
        self.code = self.identity
        self.source, self.headers, self.library, self.own = source, [], False, False
        self.plans = 0

    def on(self, layer):
        """Return the kernel on a layer; LabError if it refuses the layer."""
        if self.refuses(layer):
            raise LabError(f"no room for {layer.name}")
        return FakeKernel(self, layer)

    supports = on

    def precompile(self, *all_defines, quick=False, tools=()):
        """Do nothing: there is nothing to compile."""

    def plan(self, layer, batch):
        return self.on(layer).plan(batch)


@dataclass
class FakeKernel:
    """A stand-in for a `LayerKernel`."""

    variant: FakeVariant
    layer: Layer
    options_text: str = "block=16x16"

    @property
    def defines(self):
        return {"FIXED_K": self.layer.K}

    def module(self, quick=False):
        return None

    def plan(self, batch, x=None, y=None, module=None):
        self.variant.plans += 1
        return FakePlan(self.variant, self.layer, batch, y)


class FakePlan:
    """A plan of a FakeVariant: its kernels sleep, and its result is computed on the host."""

    def __init__(self, variant, layer, batch, y):
        ensure_context()
        self.variant, self.layer, self.batch = variant, layer, batch
        self.shape = layer.y_shape(batch)
        self.size = int(np.prod(self.shape)) * variant.io_dtype.itemsize
        self.own = y is None
        self.y = driver.mem_alloc(self.size) if self.own else y
        self.x = self
        self.launches = [SimpleNamespace(kernel=name) for name in variant.kernels]
        self.state = {}  # what a kernel could remember from one run to the next

    def load(self, x=None, k=None):
        self.inputs = tuple(np.asarray(array, self.variant.io_dtype) for array in (x, k))

    def run(self, stream=None, mark=None):
        """Take the kernels' times, then write what `compute` returns; `mark` is called around each kernel."""
        for takes_s in self.variant.kernels.values():
            if mark:
                mark()
            # this op runs on the host: an event before it has to have its stamp first
            driver.Context.synchronize()
            time.sleep(takes_s)
        self.state["before"] = self.result()
        y = self.variant.compute(*self.inputs, self.state)
        if y is not None:
            driver.memcpy_htod(self.y, np.ascontiguousarray(y, self.variant.io_dtype))
        if mark:
            mark()

    def result(self):
        """Return y."""
        y = np.empty(self.shape, self.variant.io_dtype)
        driver.memcpy_dtoh(y, self.y)
        return y

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.own:
            self.y.free()
