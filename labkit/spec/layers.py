"""Convolution layers: their shapes, the bytes and operations that they need, and their reference times.

The convolution of this lab has stride 1, no padding, no bias and no flip, in NCHW order:

    y[b, m, h, w] = sum over c, p, q of  x[b, c, h+p, w+q] * k[m, c, p, q]

with x [B, C, H, W], k [M, C, K, K], y [B, M, Ho, Wo], Ho = H-K+1 and Wo = W-K+1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from hostcuda.errors import type_of
from labkit.base.errors import LabError
from labkit.base.numerals import is_whole
from labkit.spec import devices
from labkit.spec.devices import Device


@dataclass(frozen=True)
class Layer:
    """One convolution layer.

    Parameters
    ----------
    name : str
        As it appears in tables, e.g. "lenet86 layer 1".
    C, H, W : int
        Input channels, rows and columns.
    M : int
        Output maps.
    K : int
        Side of the square mask.

    Raises
    ------
    LabError
        If a dimension is not a positive integer, or the mask is larger than the image.
    """

    name: str
    C: int
    H: int
    W: int
    M: int
    K: int

    def __post_init__(self):
        """Turn the sizes into Python's int; LabError if one is no positive integer, or the mask does not fit."""
        for dimension in "CHWMK":
            value = getattr(self, dimension)
            if not is_whole(value):
                raise LabError(
                    f"layer {self.name!r}: {dimension} = {value!r} has to be a positive integer"
                )
            # int: one of NumPy's 32-bit integers could overflow in products
            object.__setattr__(self, dimension, int(value))
        if min(self.H, self.W) < self.K:
            raise LabError(
                f"layer {self.name!r}: a mask of {self.K}x{self.K} does not fit into an image of "
                f"{self.H}x{self.W}; take K <= {min(self.H, self.W)}"
            )

    @property
    def Ho(self) -> int:
        """Output rows: the places of a mask of K rows in H rows, because there is no padding."""
        return self.H - self.K + 1

    @property
    def Wo(self) -> int:
        """Output columns: the places of a mask of K columns in W columns, because there is no padding."""
        return self.W - self.K + 1

    @property
    def terms(self) -> int:
        """Products summed into one output, C K²: the length of the reduction."""
        return self.C * self.K * self.K

    def x_shape(self, B: int) -> tuple[int, int, int, int]:
        """Return the shape of the input of `B` images, [B, C, H, W]."""
        return _require_batch(B), self.C, self.H, self.W

    @property
    def k_shape(self) -> tuple[int, int, int, int]:
        """Shape of the masks, [M, C, K, K]: for each output map one mask per input channel."""
        return self.M, self.C, self.K, self.K

    def y_shape(self, B: int) -> tuple[int, int, int, int]:
        """Return the shape of the output of `B` images, [B, M, Ho, Wo]."""
        return _require_batch(B), self.M, self.Ho, self.Wo

    def macs(self, B: int) -> int:
        """Return the multiply-adds of the direct convolution of `B` images."""
        return _require_batch(B) * self.M * self.Ho * self.Wo * self.terms

    def flops(self, B: int) -> int:
        """Return the floating-point operations of `B` images: two per multiply-add."""
        return 2 * self.macs(B)

    def bytes(self, B: int, dtype: DTypeLike = np.float32) -> int:
        """Return the bytes of input x, masks k and output y together: the traffic if each is moved exactly once."""
        elements = sum(
            int(np.prod(shape)) for shape in (self.x_shape(B), self.k_shape, self.y_shape(B))
        )
        return elements * np.dtype(dtype).itemsize

    def intensity(self, dtype: DTypeLike = np.float32, B: int = 1000) -> float:
        """Return the operations per byte if everything is moved once [FLOP/B]: the layer's place on the roofline."""
        return self.flops(B) / self.bytes(B, dtype)

    def reference_ms(
        self,
        B: int,
        dtype: DTypeLike = np.float32,
        device: Device | str | None = None,
        products: str = "",
    ) -> float:
        """Return the reference time: the bytes moved once, or the operations, whichever takes longer [ms].

        It assumes the reference rates of `device`, see `Device.reference_s`: a yardstick, and a
        kernel can take less.

        Parameters
        ----------
        B : int
            Images.
        dtype : dtype
            Of the input, masks and output in memory. In float32 the rate is that of the FP32 units, in
            float16 on a GPU that of a matrix product on the tensor cores.
        device : Device or str, optional
            A `Device`, or the name of a device of `data/devices.toml` ("H200"); by default the one
            in use.
        products : {"", "TF32", "3×FP16"}
            How a kernel multiplies floats on tensor cores, see `Device.reference_s`; "" if it does not.
        """
        work = self.bytes(B, dtype), self.flops(B)
        return 1e3 * devices.device(device).reference_s(*work, dtype, products)

    def link_ms(
        self,
        B: int,
        dtype: DTypeLike = np.float32,
        device: Device | str | None = None,
        pinned: bool = True,
    ) -> tuple[float, float]:
        """Return the times of the copies of input x and masks k to the device, and of output y back: (ms, ms).

        They follow from the measured rates of large copies from and to page-locked (`pinned`) or
        ordinary memory. LabError if the link of `device` was not measured.
        """
        # the numbers of elements
        x, k, y = (
            int(np.prod(shape)) for shape in (self.x_shape(B), self.k_shape, self.y_shape(B))
        )
        element_bytes = np.dtype(dtype).itemsize
        there, back = devices.device(device).link(pinned)  # [B/s]
        return 1e3 * (x + k) * element_bytes / there, 1e3 * y * element_bytes / back

    def link_reference_ms(
        self, B: int, dtype: DTypeLike = np.float32, device: Device | str | None = None
    ) -> float:
        """Return the reference of a layer time [ms]: the longer one of the two times of `link_ms`, page-locked.

        A layer time includes the copies from and to host memory. The link carries both directions at once,
        so that x can come in while y goes back. LabError as for `link_ms`.
        """
        return max(self.link_ms(B, dtype, device))

    @property
    def network(self) -> str:
        """The network's name, if the layer belongs to a preset: "lenet86" of "lenet86 layer 1"; else ""."""
        # the separator is "" if the name does not contain it, as in a reader's own layer
        network, separator, number = self.name.rpartition(" layer ")
        return network if separator and number.isdigit() else ""

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.C}x{self.H}x{self.W} -> {self.M}x{self.Ho}x{self.Wo}, K = {self.K}"
        )


def _require_batch(B: int) -> int:
    """Return a number of images as an int; LabError if it is none from 1 to 2^31 - 1."""
    if not is_whole(B) or B >= 1 << 31:  # kernels take it as an int
        raise LabError(
            f"a batch of {B!r}: the number of images has to be a positive integer below 2^31"
        )
    return int(B)


@dataclass(frozen=True)
class Preset:
    """The convolution layers of one network.

    It indexes and iterates like a tuple: LENET86[0] is layer 1.
    """

    name: str
    layers: tuple[Layer, ...]

    def __getitem__(self, index: int) -> Layer:
        """Return the layer with this index, from 0; IndexError, with how many there are, if there is none."""
        try:
            return self.layers[index]
        except IndexError:
            raise IndexError(
                f"{self.name} has {len(self.layers)} layer(s): [0] to [{len(self.layers) - 1}], not "
                f"[{index}]"
            ) from None

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def __str__(self) -> str:
        return "\n".join(str(layer) for layer in self.layers)


def _make_preset(name: str, *sizes: tuple[int, int, int, int, int]) -> Preset:
    """Return the preset `name` with a layer per tuple (C, H, W, M, K), named "lenet86 layer 1" and so on."""
    return Preset(name, tuple(Layer(f"{name} layer {i}", *size) for i, size in enumerate(sizes, 1)))


#                                  C   H   W   M  K
LENET86 = _make_preset("lenet86", (1, 86, 86, 4, 7), (4, 40, 40, 16, 7))  # reports 000, 003
LENET72 = _make_preset("lenet72", (1, 72, 72, 12, 7), (12, 33, 33, 24, 7))  # reports 002, 004
# report 001; its second stage, a filter that moves by 4, is none
LENET28 = _make_preset("lenet28", (1, 28, 28, 6, 5))
PRESETS = {preset.name: preset for preset in (LENET86, LENET72, LENET28)}


def as_layer(which: Layer | str) -> Layer:
    """Return a layer, given as itself or by its name; LabError, which says what a layer is, if it is neither."""
    if isinstance(which, str):
        return layer(which)
    if not isinstance(which, Layer):
        problem = "no layer is given" if which is None else f"{type_of(which)} is not a layer"
        raise LabError(
            f'{problem}: take labkit.LENET86[0], its name "lenet86 layer 1", or '
            "labkit.Layer(name, C, H, W, M, K)"
        )
    return which


def as_layers(which: Layer | str | Iterable[Layer | str]) -> list[Layer]:
    """Return layers, given as one or as several, each as itself or by its name; LabError as `as_layer`."""
    if isinstance(which, str) or not isinstance(which, Iterable):
        return [as_layer(which)]
    return [*map(as_layer, which)]


def layer(network: str, number: int | None = None) -> Layer:
    """Return a layer by its name: `layer("lenet86", 1)` or, as tables write it, `layer("lenet86 layer 1")`.

    Raises LabError if there is no such network or layer; the message lists the layers.
    """
    for preset in PRESETS.values():
        for index, candidate in enumerate(preset, 1):
            if candidate.name == network or (preset.name == network and index == number):
                return candidate
    wanted = network if number is None else f"{network} layer {number}"
    names = ", ".join(candidate.name for preset in PRESETS.values() for candidate in preset)
    raise LabError(f"there is no {wanted!r}; the lab's layers are {names}")
