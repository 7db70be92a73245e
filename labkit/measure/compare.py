"""Compare results with the reference: random inputs, errors that rounding permits, and signs of common mistakes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

import hostcuda
from labkit.base.errors import CheckFailed, LabError
from labkit.ladder.plan import Plan
from labkit.ladder.rung import Rounding, tiles
from labkit.ladder.variants import Variant
from labkit.measure.symptoms import (
    ROUNDOFF,
    Products,
    describe_array,
    describe_places,
    find_mistake,
    sample,
)
from labkit.spec.layers import Layer
from labkit.spec.reference import conv_float64, error_scale

# The largest error of a subnormal result in half.
_HALF_UNDERFLOW = 2.0**-25
# Tensor cores add in FP32, but they truncate, and align a group of products to the largest one
# (Fasi, Higham, Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ Computer
# Science 7:e330, 2021).
_TENSOR_ROUNDOFF = 2.0**-22
_EXACT_INTEGERS = {"float32": 2**24, "float16": 2**11}  # up to these, every integer is exact
_SHOWN_MISMATCHES = 8  # in a message
LOOKS = "It looks as if"  # begins a line of a message
_BLOCKS = (8, 16, 32, 64, 128, 256)  # sides of blocks


def tolerance(rounding: Rounding, scale: np.ndarray, terms: float) -> np.ndarray:
    """Return the largest error that a correct kernel can make in each output.

    The error of a sum of n products with unit roundoff u, in any order, is at most n u sum |x| |k|
    (Jeannerod and Rump, SIAM J. Matrix Anal. Appl. 34(2), 2013: Higham's gamma_n without its
    denominator). The factors of successive roundings, of partial sums, of their total and of the
    output, are multiplied. The inputs add no error, because the reference uses x and k as they are
    stored, unless the kernel itself rounds them (`Rounding.operands`). A factor in two parts has an
    error of at most u^2 |x|. Its products are three, with magnitudes of at most (1 + u)^4 |x| |k|
    together; the one left out is at most u^2 |x| |k|.

    Parameters
    ----------
    rounding : labkit.ladder.rung.Rounding
        The number formats of the kernel's data and sums.
    scale : array
        sum |x| |k| for each output: `labkit.spec.reference.error_scale`.
    terms : int
        Products per output: `Layer.terms`.
    """
    is_half = np.dtype(rounding.storage) == np.float16
    growth = 1.0
    factor_type = np.dtype(rounding.operands or rounding.storage)
    if rounding.parts == 2:
        terms *= 3 * (1 + ROUNDOFF[factor_type.name]) ** 4
    if rounding.part is not None:
        growth *= 1 + min(rounding.part_terms, terms) * ROUNDOFF[np.dtype(rounding.part).name]
        terms = tiles(math.ceil(terms), rounding.part_terms)  # partial sums, which are added next
    # Products of half values summed in float32: the sums may be those of tensor cores.
    half_into_float = factor_type == np.float16 and np.dtype(rounding.accumulate) == np.float32
    growth *= 1 + terms * (
        _TENSOR_ROUNDOFF if half_into_float else ROUNDOFF[np.dtype(rounding.accumulate).name]
    )
    growth *= 1 + ROUNDOFF[np.dtype(rounding.storage).name]
    # The roundings of x and k. In two parts, the product of two low parts is left out: a third one.
    if rounding.operands is not None:
        growth *= (1 + ROUNDOFF[factor_type.name] ** rounding.parts) ** (1 + rounding.parts)
    return (growth - 1) * scale + (_HALF_UNDERFLOW if is_half else 0.0)


def largest_exact_integer(rounding: Rounding) -> int:
    """Return the largest integer up to which all integers are exact in every format of `rounding`."""
    formats = (rounding.storage, rounding.accumulate, rounding.part)
    return min(
        _EXACT_INTEGERS[np.dtype(number_format).name]
        for number_format in formats
        if number_format is not None
    )


def draw_integers(
    variant: Variant, layer: Layer, batch: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return random x and k [float32] of nonzero integers, so small that every partial sum is exact in any order."""
    limit = largest_exact_integer(variant.rounding)
    for largest in (8, 4, 2, 1):  # -largest to largest, without 0
        x, k = (
            (rng.integers(1, largest, shape, endpoint=True) * rng.choice([-1, 1], shape)).astype(
                np.float32
            )
            for shape in (layer.x_shape(batch), layer.k_shape)
        )
        if error_scale(x, k).max() <= limit:
            return x, k
    # Too many terms even for ones: some of the products are zero, so that a sum has about limit / 2.
    return x, k * (rng.random(layer.k_shape) < limit / (2 * layer.terms))


def draw_large_integers(
    variant: Variant, layer: Layer, batch: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return random x and k [float32] of integers as large as exact sums permit, mostly of one sign for large sums.

    Every product and sum is exact in the formats that the variant promises for them, and the output
    is rounded once.
    """
    factors = find_largest_factors(variant.rounding, layer.terms)
    if min(factors) < 2:  # there are too many terms
        return draw_integers(variant, layer, batch, rng)
    # if one may be larger, chance decides whether it is of x or of k
    largest_x, largest_k = factors if factors[0] == factors[1] else rng.permuted(factors)
    x = rng.integers(1, largest_x, layer.x_shape(batch), endpoint=True)
    k = rng.integers(1, largest_k, layer.k_shape, endpoint=True) * rng.choice(
        [-1, 1, 1, 1], layer.k_shape
    )
    return x.astype(np.float32), k.astype(np.float32)


def find_largest_factors(rounding: Rounding, terms: int) -> tuple[int, int]:
    """Return the largest integers for the two factors of `terms` products whose sums are exact in all formats.

    Which of the two is x and which is k does not matter. One below 2 says that there are too many
    terms.
    """
    # The largest product with which the sums of one format are exact: `accumulate` is the format of a
    # sum, `storage` that of the output, `part` that of partial sums of `part_terms` products, if any.
    product_limits = [_EXACT_INTEGERS[np.dtype(rounding.accumulate).name] // terms]
    product_limits.append(int(np.finfo(rounding.storage).max) // terms)  # and the output finite
    if rounding.part is not None:
        product_limits.append(
            _EXACT_INTEGERS[np.dtype(rounding.part).name] // min(terms, rounding.part_terms)
        )
    # parts == 2: the kernel keeps an operand as the sum of a high and a low part, each in `operands`
    largest_factor = _EXACT_INTEGERS[np.dtype(rounding.operands or rounding.storage).name]
    largest = min(math.isqrt(min(product_limits)), largest_factor)
    if largest >= 2 and rounding.parts == 2 and min(product_limits) // 4 > largest_factor:
        # There is room for a factor, half of this limit or more, that needs both of its parts. Such
        # kernels leave the product of two low parts out, so the other factor is at most 2: its low
        # part is 0.
        return min(min(product_limits) // 2, int(np.finfo(rounding.operands).max)), 2
    return largest, largest


def draw_reals(
    variant: Variant, layer: Layer, batch: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return random x and k [float32] of real numbers that are exact in the variant's data type."""
    # Images are positive, masks have both signs; no number is so small that a product underflows in
    # half.
    x = rng.uniform(0.25, 1, layer.x_shape(batch))
    k = rng.uniform(0.25, 1, layer.k_shape) * rng.choice([-1, 1, 1], layer.k_shape)
    # The device gets these numbers in its own format, so the reference uses them, too.
    x, k = (array.astype(variant.io_dtype).astype(np.float32) for array in (x, k))
    return x, k


# a NaN by its bits, for each size of a number
_UNWRITTEN = {2: np.uint16(0x7E5D), 4: np.uint32(0x7FC05EED)}


def unwritten(dtype: DTypeLike) -> np.ndarray:
    """Return the NaN that outputs hold before a kernel runs, as an array of this type without dimensions.

    No operation on numbers gives this NaN, and neither fresh memory nor shared memory of the CPU
    engine holds it: their bytes are 0xFF. So it tells which outputs a kernel did not write.
    """
    return np.array(_UNWRITTEN[np.dtype(dtype).itemsize]).view(dtype)


def poison(plan: Plan, with_zeros: bool = False) -> None:
    """Fill a plan's output on the device with the NaN of `unwritten`, so that outputs not written are wrong.

    `with_zeros` fills it with zeros, to tell a mistake: a kernel whose outputs are right only then adds
    to y without setting it first.
    """
    size = plan.variant.io_dtype.itemsize
    bits = np.uint32(0) if with_zeros else _UNWRITTEN[size]
    fill = hostcuda.driver.memset_d16 if size == 2 else hostcuda.driver.memset_d32
    fill(plan.y, int(bits), int(np.prod(plan.layer.y_shape(plan.batch))))


def _find_unwritten(y: np.ndarray) -> np.ndarray:
    """Return a bool array: which elements of y still hold the NaN of `poison`."""
    bits = _UNWRITTEN[y.dtype.itemsize]
    return np.ascontiguousarray(y).view(bits.dtype) == bits


def compare(
    y: ArrayLike,
    expected: np.ndarray,
    allowed: float | np.ndarray = 0.0,
    dtype: DTypeLike = np.float32,
    title: str = "the result is wrong",
    inputs: tuple[np.ndarray, np.ndarray] | None = None,
) -> float:
    """Compare an output with the reference, element by element.

    Parameters
    ----------
    y : array [B, M, Ho, Wo]
        The output.
    expected : array [B, M, Ho, Wo] of float64
        The reference.
    allowed : float or array
        The largest error allowed per element; 0 requires equality.
    dtype : dtype
        The data type required of y.
    title : str
        First line of the message.
    inputs : (x, k), optional
        With these, the message says which common mistake gives the same output.

    Returns
    -------
    float
        The largest error as a fraction of the allowed one; 0 if all elements are equal.

    Raises
    ------
    CheckFailed
        If shape or dtype differ, or the error of an element is larger than allowed, or NaN.
    """
    y = np.asarray(y)
    if y.shape != expected.shape:
        raise CheckFailed(
            f"{title}: its shape is {y.shape}, but [B, M, Ho, Wo] is {expected.shape}"
        )
    if y.dtype != np.dtype(dtype):
        raise CheckFailed(f"{title}: its dtype is {y.dtype}, but it must be {np.dtype(dtype)}")
    allowed = np.broadcast_to(np.asarray(allowed, np.float64), expected.shape)
    with np.errstate(invalid="ignore"):
        error = np.abs(y.astype(np.float64) - expected)
        within_bound = error <= allowed  # false for NaN, as it must be
    if not within_bound.all():
        raise CheckFailed(
            _describe_mismatch(title, y, expected, error, allowed, ~within_bound, inputs)
        )
    # where the error has to be 0, it is
    return float(np.max(error[allowed > 0] / allowed[allowed > 0], initial=0.0))


def _describe_mismatch(title: str, y, expected, error, allowed, wrong, inputs) -> str:
    """Return a message: the title, where mismatches are, the mistakes that they look like, the first ones as a table.

    All arrays have the shape [B, M, Ho, Wo]; `wrong` is True at a mismatch. `inputs` are (x, k) or
    None.
    """
    import pandas as pd  # takes half a second, and a grader imports this module

    indices = np.argwhere(wrong)
    shown = [tuple(index) for index in indices[:_SHOWN_MISMATCHES]]
    table = pd.DataFrame(
        {
            **{name: [index[axis] for index in shown] for axis, name in enumerate("bmhw")},
            "got": [y[index] for index in shown],
            "expected": [expected[index] for index in shown],
            "error": [error[index] for index in shown],
            "allowed": [allowed[index] for index in shown],
        }
    )
    ranges = ", ".join(
        f"{name} {low}" if low == high else f"{name} {low} to {high}"
        for name, low, high in zip("bmhw", indices.min(axis=0), indices.max(axis=0), strict=True)
    )
    lines = [f"{title}: {len(indices)} of {y.size} outputs, at {ranges}"]
    lines += describe_places([set(axis.tolist()) for axis in indices.T], y.shape, "bmhw")
    hints = [*_find_hints(y, expected, allowed.max(), inputs)]
    if not y.any():  # why is not known: nothing was added, or each sum was rounded to 0
        lines.append("All outputs are 0.")
    elif inputs is not None and not hints:
        places = [tuple(index) for index in sample(indices.tolist())]
        mistake = find_mistake(
            places,
            [float(y[place]) for place in places],
            float(allowed.max()),
            y.dtype.name,
            Products(*(part.ravel().tolist() for part in inputs), *(part.shape for part in inputs)),
        )
        hints += [mistake] if mistake else []
    lines += [f"{LOOKS} {hint}." for hint in hints]
    heading = f"The first {len(shown)}:" if len(indices) > len(shown) else "These:"
    return "\n".join(
        [*lines, heading, table.to_string(index=False, float_format=lambda v: f"{v:.6g}")]
    )


def _find_hints(y, expected, allowed, inputs) -> Iterator[str]:
    """Yield clauses that follow "it looks as if": the common mistakes that give the output y.

    `allowed` is the largest error of equal numbers; `inputs` are (x, k), or None: the mask is then
    not looked at. Before the kernel ran, `poison` filled y with a NaN that no operation gives.
    """

    def equals(result, other):
        """Return whether two arrays of one shape agree within `allowed`; a NaN agrees with nothing."""
        return bool((np.abs(result - other) <= allowed).all())

    # so small an error shows no mistake: `allowed` is the largest one of all elements
    if equals(y, expected):
        return
    unwritten_count = int(_find_unwritten(y).sum())
    new_nans = int(np.isnan(y).sum()) - unwritten_count
    infinite = int(np.isinf(y).sum())
    if unwritten_count == y.size:
        yield "nothing was written, or only added to what the output held before: NaN"
    elif unwritten_count:
        yield f"{unwritten_count} outputs were not written (the output held NaN before)"
    if new_nans:
        yield (
            f"{new_nans} outputs became NaN in the kernel: by memory that it read before anything was written "
            "there, by 0 / 0 or by inf - inf"
        )
    if infinite:
        yield f"{infinite} outputs are infinite: larger than {np.finfo(y.dtype).max:.6g}, the largest {y.dtype}"
    for a, b in itertools.combinations(range(4), 2):  # flat: the shapes differ
        if equals(y.ravel(), expected.swapaxes(a, b).ravel()):
            yield f"y was written with its axes {'bmhw'[a]} and {'bmhw'[b]} swapped"
    for axis, name in enumerate("bmhw"):
        moved_y, moved_expected = np.moveaxis(y, axis, 0), np.moveaxis(expected, axis, 0)
        # Of one or two planes, one pair that agrees would say little; the nearest shift is named.
        for by in range(1, y.shape[axis] - 1):
            if equals(moved_y[by:], moved_expected[:-by]) or equals(
                moved_y[:-by], moved_expected[by:]
            ):
                by_block = ", as by a block" * (by in _BLOCKS)
                yield f"y is shifted by {'one' if by == 1 else by} along {name}{by_block}"
                break
    if factor := _find_factor(y, expected):
        yield f"each output is {factor:.4g} times the right one"
    if inputs is not None:
        x, k = inputs
        if equals(y, conv_float64(x, k[:, :, ::-1, ::-1])):
            yield "the mask was flipped; this convolution does not flip it"
        if equals(y, conv_float64(x, k.swapaxes(2, 3))):
            yield "the rows and columns of the mask were swapped"


def _find_factor(y: np.ndarray, expected: np.ndarray) -> float:
    """Return the number by which y's outputs, three or more, are larger than the right ones; 0 if there is none."""
    wrong, right = y.ravel().astype(np.float64), expected.ravel()
    if right.size < 3 or not (np.isfinite(wrong).all() and wrong.any() and right.any()):
        return 0.0
    factor = float(wrong @ right / (right @ right))  # of least squares
    close = np.allclose(wrong, factor * right, rtol=1e-3, atol=1e-3 * np.abs(wrong).mean())
    return factor if close and abs(factor - 1) > 0.01 else 0.0


def compare_array(title: str, result: ArrayLike, expected: np.ndarray, bound: np.ndarray) -> float:
    """Compare an array of any shape with the true one, element by element; `title` begins the message.

    Returns
    -------
    float
        The largest error as a fraction of its bound; 0 if all elements are equal.

    Raises
    ------
    CheckFailed
        If the shape differs, or the error of an element is larger than its bound, or NaN. The
        message names the first such element, its result, the expected one and the bound.
    LabError
        If a bound is negative, infinite or NaN: such a comparison says nothing.
    """
    result, expected = np.asarray(result), np.asarray(expected, np.float64)
    if result.shape != expected.shape:
        raise CheckFailed(f"{title}: its shape is {result.shape}, but {expected.shape} is expected")
    bound = np.broadcast_to(np.asarray(bound, np.float64), expected.shape)
    if not (np.isfinite(bound) & (bound >= 0)).all():
        raise LabError(
            f"{title}: a bound is negative, infinite or NaN; give every element a number"
        )
    with np.errstate(invalid="ignore"):
        error = np.abs(result.astype(np.float64) - expected)
        within_bound = error <= bound  # false for NaN, as it must be
    if not within_bound.all():
        wrong = np.argwhere(~within_bound)
        index = tuple(map(int, wrong[0]))
        got, right, most = (array.ravel().tolist() for array in (result, expected, bound))
        places = np.flatnonzero(~within_bound).tolist()
        message = (
            f"{title} is wrong: {len(wrong)} of {result.size} elements. The first, "
            f"[{', '.join(map(str, index))}]: {result[index]:.6g}, expected {expected[index]:.6g}, error "
            f"{error[index]:.3g}, bound {bound[index]:.3g}"
        )
        raise CheckFailed(
            "\n".join([message, *describe_array(places, got, right, most, result.shape)])
        )
    # where the bound is 0, so is the error
    return float(np.max(error[bound > 0] / bound[bound > 0], initial=0.0))
