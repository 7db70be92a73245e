"""Compare results as `labkit.measure.check` does, word for word, but without NumPy: for the playground.

Arrays are flat sequences of numbers with a shape.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from labkit.base.errors import CheckFailed
from labkit.measure.symptoms import (
    Products,
    describe_array,
    describe_places,
    find_mistake,
    sample,
)

_CODES = {"float64": "d", "float32": "f", "float16": "e", "int32": "i", "uint32": "I", "uint8": "B"}
_LARGEST = {"float32": "3.40282e+38", "float16": "65504"}
# as `labkit.measure.compare.unwritten`, for each size
_UNWRITTEN = {2: b"\x5d\x7e", 4: b"\xed\x5e\xc0\x7f"}
_SHOWN = 8  # mismatches in a message
_BLOCKS = (8, 16, 32, 64, 128, 256)  # sides of blocks


def numbers(data: bytes, dtype: str) -> Sequence[float]:
    """Return the numbers in little-endian bytes; `dtype` is NumPy's name, such as "float16"."""
    code = _CODES[dtype]
    return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)


def size(dtype: str) -> int:
    """Return the number of bytes of one number of a dtype, such as 2 for "float16"."""
    return struct.calcsize(_CODES[dtype])


@dataclass
class Array:
    """An array that a kernel has written, with the expected values.

    Attributes
    ----------
    data : bytes
        What the kernel has written, little-endian.
    dtype : str
        NumPy's name of the type.
    shape : tuple of int
    expected : sequence of float
        In C order, as long as the array.
    allowed : sequence of float
        The largest error of each element, or one number for all.
    """

    data: bytes
    dtype: str
    shape: tuple[int, ...]
    expected: Sequence[float]
    allowed: Sequence[float]

    def __post_init__(self):
        """Read the numbers from the bytes, and repeat a bound that holds for all elements."""
        self.values = numbers(self.data, self.dtype)
        if len(self.allowed) == 1:
            self.allowed = list(self.allowed) * len(self.expected)

    def wrong(self) -> list[int]:
        """Return the places, flat indices, of the elements whose error is too large, or that are NaN."""
        rows = zip(self.values, self.expected, self.allowed, strict=True)
        # "not <=" instead of ">", which is false for NaN
        return [i for i, (got, wanted, most) in enumerate(rows) if not abs(got - wanted) <= most]

    def index(self, place: int) -> tuple[int, ...]:
        """Return the index along each axis of the element at a place, a flat index in C order."""
        index = []  # the last axis first
        for extent in reversed(self.shape):
            place, i = divmod(place, extent)
            index.append(i)
        return tuple(reversed(index))


def compare_array(title: str, array: Array) -> None:
    """Raise CheckFailed if an array has wrong elements.

    The message begins with `title`, and has their number and the first of them.
    """
    if wrong := array.wrong():
        first = wrong[0]
        got, wanted, most = array.values[first], array.expected[first], array.allowed[first]
        message = (
            f"{title} is wrong: {len(wrong)} of {len(array.values)} elements. The first, "
            f"[{', '.join(map(str, array.index(first)))}]: {got:.6g}, expected {wanted:.6g}, error "
            f"{abs(got - wanted):.3g}, bound {most:.3g}"
        )
        symptoms = describe_array(wrong, array.values, array.expected, array.allowed, array.shape)
        raise CheckFailed("\n".join([message, *symptoms]))


def compare(array: Array, title: str, products: Products) -> None:
    """Raise CheckFailed if an array [b, m, h, w], the output of a convolution, has wrong elements.

    The message begins with `title`, and has where they are, why it may be, and the first of them.
    `products` has the convolution's inputs x and k, to find which mistake gives such results.
    """
    if not (wrong := array.wrong()):
        return
    indices = [array.index(place) for place in wrong]
    along = [set(axis) for axis in zip(*indices, strict=True)]  # the wrong indices of each axis
    ranges = []  # "b 0", "m 0 to 3"
    for name, places in zip("bmhw", along, strict=True):
        least, most = min(places), max(places)
        ranges.append(f"{name} {least}" if least == most else f"{name} {least} to {most}")
    lines = [f"{title}: {len(wrong)} of {len(array.values)} outputs, at {', '.join(ranges)}"]
    lines += describe_places(along, array.shape, "bmhw")
    hints = [*_find_hints(array, products)]
    if not any(array.values):  # why is not known: nothing was added, or each sum was rounded to 0
        lines.append("All outputs are 0.")
    elif not hints:
        # `sample` takes the same elements of both lists, which are equally long
        mistake = find_mistake(
            sample(indices),
            [array.values[place] for place in sample(wrong)],
            max(array.allowed),
            array.dtype,
            products,
        )
        hints += [mistake] if mistake else []
    lines += [f"It looks as if {hint}." for hint in hints]
    first = wrong[:_SHOWN]
    lines.append(f"The first {len(first)}:" if len(wrong) > len(first) else "These:")
    rows = []
    for place, index in zip(first, indices, strict=False):  # `first` may be shorter
        got, wanted = array.values[place], array.expected[place]
        figures = (got, wanted, abs(got - wanted), array.allowed[place])
        rows.append(
            [*map(str, index), *("NaN" if value != value else f"{value:.6g}" for value in figures)]
        )
    heads = ("b", "m", "h", "w", "got", "expected", "error", "allowed")
    raise CheckFailed("\n".join([*lines, *_format_table(heads, rows)]))


def _format_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table with right-aligned cells, as pandas writes a DataFrame without its index."""
    widths = [max(len(head) + 1, *(len(row[i]) for row in rows)) for i, head in enumerate(heads)]
    for row in (heads, *rows):
        yield " ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def _turn(
    products: Products, turned: Callable[[int, int, int], tuple[int, int]]
) -> Iterator[float]:
    """Yield all outputs, in C order, if the element (r, s) = `turned(p, q, K)` of the K×K mask stood at (p, q)."""
    x, k, (B, C, H, W), (M, _, K, _) = products
    taps = [(p, q, *turned(p, q, K)) for p in range(K) for q in range(K)]
    for b, m, h, w in itertools.product(range(B), range(M), range(H - K + 1), range(W - K + 1)):
        total = 0.0
        for c in range(C):
            image, mask = ((b * C + c) * H + h) * W + w, (m * C + c) * K * K
            for p, q, r, s in taps:
                total += x[image + p * W + q] * k[mask + r * K + s]
        yield total


def _find_hints(array: Array, products: Products) -> Iterator[str]:
    """Yield common mistakes that give the same output, as clauses after "It looks as if": "the mask was flipped"."""
    values, expected, shape, slack = array.values, array.expected, array.shape, max(array.allowed)

    def like(some, others):
        """Return whether all pairs of numbers are equal, within the largest allowed error."""
        return all(abs(a - b) <= slack for a, b in zip(some, others, strict=True))

    # the errors are small: every output is about right, and so no mistake below gives it
    if like(values, expected):
        return
    width = size(array.dtype)
    unset = _UNWRITTEN[width]
    unwritten = sum(array.data[at : at + width] == unset for at in range(0, len(array.data), width))
    computed = sum(value != value for value in values) - unwritten  # the other NaNs
    infinite = sum(map(math.isinf, values))
    if unwritten == len(values):
        yield "nothing was written, or only added to what the output held before: NaN"
    elif unwritten:
        yield f"{unwritten} outputs were not written (the output held NaN before)"
    if computed:
        yield (
            f"{computed} outputs became NaN in the kernel: by memory that it read before anything was "
            "written there, by 0 / 0 or by inf - inf"
        )
    if infinite:
        yield f"{infinite} outputs are infinite: larger than {_LARGEST[array.dtype]}, the largest {array.dtype}"
    for a, b in itertools.combinations(range(4), 2):
        if like(values, (expected[place] for place in _swap_axes(shape, a, b))):
            yield f"y was written with its axes {'bmhw'[a]} and {'bmhw'[b]} swapped"
    for axis, name in enumerate("bmhw"):
        step, extent = math.prod(shape[axis + 1 :]), shape[axis]
        for by in range(1, extent - 1):
            # the places whose index along the axis is at least `by`: i - by * step has one less by `by`
            inner = [i for i in range(len(values)) if i // step % extent >= by]
            if like((values[i] for i in inner), (expected[i - by * step] for i in inner)) or like(
                (values[i - by * step] for i in inner), (expected[i] for i in inner)
            ):
                of_block = ", as by a block" * (by in _BLOCKS)
                yield f"y is shifted by {'one' if by == 1 else by} along {name}{of_block}"
                break
    if factor := _find_factor(values, expected):
        yield f"each output is {factor:.4g} times the right one"
    if like(values, _turn(products, lambda p, q, K: (K - 1 - p, K - 1 - q))):
        yield "the mask was flipped; this convolution does not flip it"
    if like(values, _turn(products, lambda p, q, K: (q, p))):
        yield "the rows and columns of the mask were swapped"


def _find_factor(wrong: Sequence[float], right: Sequence[float]) -> float:
    """Return the factor by which all outputs differ from the right ones.

    Returns 0 if there is none other than 1, within a thousandth; if there are fewer than three
    outputs; or if one is NaN or infinite.
    """
    if len(right) < 3 or not (all(map(math.isfinite, wrong)) and any(wrong) and any(right)):
        return 0.0
    pairs = [*zip(wrong, right, strict=True)]
    factor = sum(a * b for a, b in pairs) / sum(b * b for b in right)  # that of least squares
    slack = 1e-3 * sum(map(abs, wrong)) / len(wrong)
    close = all(abs(a - factor * b) <= slack + 1e-3 * abs(factor * b) for a, b in pairs)
    return factor if close and abs(factor - 1) > 0.01 else 0.0


def _swap_axes(shape: Sequence[int], a: int, b: int) -> Iterator[int]:
    """Yield the places, flat indices, of an array's elements in the order of the array with axes a and b swapped."""
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    order = list(range(len(shape)))
    order[a], order[b] = b, a
    for index in itertools.product(*(range(shape[axis]) for axis in order)):
        yield sum(i * steps[axis] for i, axis in zip(index, order, strict=True))
