"""Run a kernel in Triton on a processor, program by program, and count what it loads.

`tl` has the functions of ``triton.language`` that page 16 uses, in NumPy. What Triton refuses, they
refuse, too; and an address outside of its array, which on a GPU is any value or a fault.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from numpy.typing import DTypeLike

from labkit.base.errors import LabError
from labkit.spec.layers import Layer

_LEAST = 16  # terms of a product
_MODULUS = 9973  # of checksums: a prime, so that they have at most four digits


class Tile(np.ndarray):
    """A tile: an array whose type `to` changes."""

    def to(self, dtype: DTypeLike) -> "Tile":
        """Return the tile in another type, as `to` of a tile of Triton does: ``image.to(tl.int64)``."""
        return self.astype(dtype).view(Tile)


class _Array:
    """An array in a program's memory, and how many of its elements were loaded."""

    def __init__(self, name: str, values: np.ndarray):
        self.name, self.values, self.loads = name, values.reshape(-1), 0


class Pointer:
    """A tile of pointers into an array, as `Tile` is a tile of values."""

    def __init__(self, array: _Array, places: np.ndarray | int = 0):
        self.array, self.places = array, places
        self.dtype = SimpleNamespace(element_ty=array.values.dtype)

    __array_ufunc__ = None  # so that `offsets + pointer` calls `__radd__`

    def __add__(self, offsets: np.ndarray | int) -> "Pointer":
        return Pointer(self.array, self.places + offsets)

    __radd__ = __add__

    def __sub__(self, offsets: np.ndarray | int) -> "Pointer":
        return self + -offsets

    def select(self, mask: np.ndarray, what: str) -> tuple[np.ndarray, np.ndarray]:
        """Return (places, mask) in one shape: the index in the array to which each pointer leads, and whether it may.

        As in Triton, where the mask is False nothing is accessed. LabError if a place that the mask lets
        through is outside of the array; `what`, "load" or "store", is the function that accesses it.
        """
        places, allowed = np.broadcast_arrays(self.places, mask)
        size = self.array.values.size
        outside = places[allowed & ((places < 0) | (places >= size))]
        if outside.size:
            raise LabError(
                f"tl.{what} takes element {outside[0]} of {self.array.name}, which has elements 0 to {size - 1}: its "
                "mask lets that through"
            )
        return places, allowed


def _arange(first: int, end: int) -> Tile:
    """Return the vector of the integers from `first` to `end` - 1; LabError if they are no power of two."""
    size = end - first
    if size < 1 or size & (size - 1):
        raise LabError(f"tl.arange: the range must be a power of 2, not {size}")
    return np.arange(first, end).view(Tile)


def _load(pointer: Pointer, mask: np.ndarray | bool = True, other: float = 0.0) -> Tile:
    """Return the elements at the pointers that the mask lets through, and `other` in the other places."""
    places, exists = pointer.select(np.asarray(mask), "load")
    pointer.array.loads += int(exists.sum())
    values = pointer.array.values
    return np.where(exists, values[np.where(exists, places, 0)], values.dtype.type(other)).view(
        Tile
    )


def _store(pointer: Pointer, tile: np.ndarray, mask: np.ndarray | bool = True) -> None:
    """Store the elements of a tile that the mask lets through."""
    places, exists = pointer.select(np.asarray(mask), "store")
    pointer.array.values[places[exists]] = np.broadcast_to(tile, places.shape)[exists]


def _dot(a: np.ndarray, b: np.ndarray, sums: np.ndarray, input_precision: str = "ieee") -> Tile:
    """Return sums + a b, in float32; LabError if a row of `a` has too few terms."""
    if a.shape[1] < _LEAST:
        raise LabError(f"tl.dot: it takes at least {_LEAST} terms, not {a.shape[1]}")
    return (sums + a.astype(np.float32) @ b.astype(np.float32)).view(Tile)


# a name for each of ``triton.language``; `run` sets program_id
tl = SimpleNamespace(
    constexpr=int,
    int64=np.int64,
    float32=np.float32,
    arange=_arange,
    zeros=lambda shape, dtype: np.zeros(shape, dtype).view(Tile),
    load=_load,
    store=_store,
    dot=_dot,
    reshape=lambda tile, shape: tile.reshape(shape),
    sum=lambda tile, axis: tile.sum(axis=axis),
    max=lambda tile, axis: tile.max(axis=axis),
    maximum=np.maximum,
    where=lambda condition, x, y: np.where(condition, x, y).view(Tile),
)


@dataclass(frozen=True)
class Run:
    """What a kernel has stored and loaded.

    Attributes
    ----------
    y : ndarray
        Outputs [B, M, rows, columns] in half; NaN where nothing was stored.
    loads : dict of str to int
        How many elements of x and of k the programs loaded; an element counts each time.
    """

    y: np.ndarray
    loads: dict[str, int]


def run(
    kernel: Callable | str,
    x: np.ndarray,
    k: np.ndarray,
    PIXELS: int,
    TERMS: int,
    MAPS: int,
    side: int = 1,
) -> Run:
    """Run a kernel on x [B, C, H, W] and k [M, C, K, K], one program after the other; return a `Run`: y and the loads.

    Parameters
    ----------
    kernel : callable or str
        A function with the parameters of ``recording/implicit_gemm.py``, which takes `tl` for
        ``triton.language``; or a text in Triton that defines one.
    x, k : ndarray
    PIXELS, TERMS, MAPS : int
        The sizes of the tiles: a program computes `PIXELS` pixels of all maps (`MAPS`: M rounded
        up), from `TERMS` products per step.
    side : int
        A pixel is one of a map of Ho / side by Wo / side. It is 2 for a kernel that pools 2 x 2
        outputs.

    Raises
    ------
    LabError
        The kernel does what Triton refuses, or accesses what is outside of an array.
    """
    if isinstance(kernel, str):
        names: dict = {"tl": tl}
        # exec: the text is the lab's, or the reader's own, as a cell of a notebook is. Only what
        # follows the first decorator: `tl` stands for the imports before it.
        exec(kernel.partition("@triton.jit")[2], names)
        kernel = next(value for name, value in names.items() if callable(value) and name != "tl")
    (B, C, H, W), (M, _, K, _) = x.shape, k.shape
    rows, columns = ((size - K + 1) // side for size in (H, W))
    y = np.full((B, M, rows, columns), np.nan, np.float16)
    arrays = [_Array(name, values) for name, values in (("x", x), ("k", k), ("y", y))]
    pixels = B * rows * columns
    for program in range(-(-pixels // PIXELS)):
        tl.program_id = lambda axis, program=program: program
        # "ieee": the precision of products, which half does not need
        kernel(*map(Pointer, arrays), pixels, C, H, W, M, K, PIXELS, TERMS, MAPS, "ieee")
    return Run(y, {array.name: array.loads for array in arrays[:2]})


def make_inputs(layer: Layer, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Return x and k in half: integers from -2 to 2, on every machine alike."""
    shapes = layer.x_shape(batch), layer.k_shape
    # a multiplicative hash of 1, 2, 3, ... for x, and of 100,001, ... for k: no random generator,
    # whose numbers could change with its version. // 2**16: the upper half of 32 bits, mixed best.
    x, k = (
        (np.arange(first, first + np.prod(shape)) * 2654435761 % 2**32 // 2**16 % 5 - 2).reshape(
            shape
        )
        for first, shape in zip((1, 100_001), shapes, strict=True)
    )
    return x.astype(np.float16), k.astype(np.float16)


def compute_checksum(y: np.ndarray) -> int:
    """Return a number of up to four digits that depends on each output, by which a reader compares two results.

    An output that is not stored, a NaN, counts as 0.25, in order to differ from a 0.
    """
    # the outputs are integers, or means of four: four times them are exact integers
    quarters = np.nan_to_num(4 * y.astype(np.float64).ravel(), nan=1).astype(np.int64)
    # weights from 1 to 97, so that right outputs in wrong places give another number
    return int((quarters * (np.arange(y.size) % 97 + 1)).sum() % _MODULUS)
