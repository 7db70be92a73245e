"""The common base of trained networks: arrays on the device, weights that can be read and set, the accuracy."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

import hostcuda
from labkit.base.errors import LabError
from labkit.ladder.buffers import Buffers, Closing


@dataclass(frozen=True)
class KernelSource:
    """A kernel's text: `labkit.show` and `labkit.diff` take it."""

    label: str  # "atomics, fp_c1"
    file_name: str
    source: str  # with the comment above it

    @classmethod
    def read(cls, path: Path, head: str, label: str, file_name: str) -> KernelSource:
        """Return the first function of the kernel file `path` that has the text `head` before its body.

        `label` and `file_name` become the result's. Raises LabError if there is no such function.
        """
        # A function begins after a blank line, at the start of a line; before the first one is the
        # comment on the file.
        _file_comment, *functions = re.split(r"\n\n(?=\S)", path.read_text(encoding="utf-8"))
        for function in functions:
            # what stands before the body, without comments
            if head in re.sub(r"^//[^\n]*\n", "", function, flags=re.M).partition("{")[0]:
                return cls(label, file_name, function.rstrip("\n") + "\n")
        raise LabError(f"{path.name} has no function with {head!r} in its head")

    def lines(self, first: str, last: str) -> KernelSource:
        """Return the part from the line with the text `first` to the next one with `last`, without its indentation.

        Raises LabError if there is no such line.
        """
        lines = self.source.splitlines(keepends=True)
        start = next((n for n, line in enumerate(lines) if first in line), len(lines))
        for end in range(start, len(lines)):
            if last in lines[end]:
                part = textwrap.dedent("".join(lines[start : end + 1]))
                return replace(self, source=part)
        raise LabError(f"{self.label} has no lines from {first!r} to {last!r}")


def require_shapes(
    arrays: Mapping[str, ArrayLike], shapes: Mapping[str, tuple[int, ...]], about: str, network: str
) -> dict[str, np.ndarray]:
    """Return the arrays that `shapes` names, as float32 in C order; others are left out.

    Raises LabError if one is missing or of another shape; `about` (a file) and `network` are words
    of the message.
    """
    for name, shape in shapes.items():
        if name not in arrays or np.shape(arrays[name]) != shape:
            state = f"has the shape {np.shape(arrays[name])}" if name in arrays else "is missing"
            raise LabError(f"{about}: {name} {state}; {network} needs {shape}")
    return {name: np.ascontiguousarray(arrays[name], np.float32) for name in shapes}


def as_labels(labels: ArrayLike, count: int) -> np.ndarray:
    """Return labels as an array [count]; LabError if they are not one per image, or there are no images."""
    labels = np.asarray(labels)
    if labels.shape != (count,) or not count:
        raise LabError(
            f"{count} images need as many labels, in one row; there are labels of the shape {labels.shape}"
        )
    return labels


def accuracy(outputs: np.ndarray, labels: ArrayLike) -> float:
    """Return the fraction of the images, 0 to 1, whose largest output is their label's; outputs [N, classes]."""
    return float((outputs.argmax(axis=1) == as_labels(labels, len(outputs))).mean())


class Arrays:
    """Named float32 arrays, one after the other in a device buffer, which `memory` owns.

    `shapes` are in their order in memory. `rows` is how many of each array there are; by default
    one, without a dimension for it. The attribute `size` is the number of elements per row.
    """

    def __init__(
        self, memory: Buffers, shapes: Mapping[str, tuple[int, ...]], rows: int | None = None
    ):
        """Allocate the buffer, of rows × `size` elements; without `rows`, `read` gives arrays no such dimension."""
        self.shapes, self.rows = dict(shapes), rows
        # where each array starts in a row, in elements; then the row's length
        *starts, self.size = np.cumsum(
            [0, *(math.prod(shape) for shape in shapes.values())]
        ).tolist()
        self._starts = dict(zip(shapes, starts, strict=True))
        self.buffer = memory.new((rows or 1, self.size))

    def at(self, name: str) -> int:
        """Return the device address of a named array; of several rows of arrays, of the one in the first."""
        return int(self.buffer) + 4 * self._starts[name]  # 4 bytes per float32

    def fill(self, byte: int) -> None:
        """Set every byte of the buffer to `byte`: 0 makes zeros, 0xFF makes NaN."""
        hostcuda.driver.memset_d8(self.buffer, byte, 4 * self.size * (self.rows or 1))

    def write(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Copy arrays, by name, to the device, one after the other; other names are left out.

        If the buffer has several rows, such as one per image, they are copied into the first one.
        """
        flat = np.concatenate([np.ravel(arrays[name]) for name in self.shapes]).astype(np.float32)
        hostcuda.driver.memcpy_htod(self.buffer, flat)

    def read(self, rows: int | None = None) -> dict[str, np.ndarray]:
        """Return the arrays by name, copied from the device after waiting for it.

        The buffer may hold several rows, such as one per image, each with all arrays. Then a result has the
        shape [rows, *shape], of the first `rows` rows or by default all; else the array's own shape.
        """
        rows = rows or self.rows
        flat = Buffers.copy_out(self.buffer, (rows or 1, self.size))
        first_axis = (rows,) if rows else ()
        arrays = {}
        for name, shape in self.shapes.items():
            start = self._starts[name]
            elements = flat[:, start : start + math.prod(shape)]  # of each row
            arrays[name] = elements.reshape(*first_axis, *shape)
        return arrays


class Model(Closing):
    """A network with its weights on the device.

    A context manager: at its end all device buffers are freed.
    """

    network: str  # its name
    # of images: the last layer's output, float32 [N, classes]
    outputs: Callable[[np.ndarray], np.ndarray]

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]):
        self.memory = Buffers()
        self._weights = Arrays(self.memory, shapes)

    def close(self) -> None:
        """Free the device memory; a second call does nothing."""
        self.memory.close()

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The weights by name, copied from the device, float32. They can be set."""
        return self._weights.read()

    @weights.setter
    def weights(self, arrays: Mapping[str, ArrayLike]) -> None:
        """Copy arrays to the device; LabError if a name or a shape is not the network's."""
        self._weights.write(
            require_shapes(arrays, self._weights.shapes, "the weights", self.network)
        )

    def accuracy(self, images: np.ndarray, labels: np.ndarray) -> float:
        """Return the part of the images that the network classifies correctly, 0 to 1."""
        return accuracy(self.outputs(images), labels)
