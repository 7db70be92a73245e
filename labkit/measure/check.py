"""The checker: does a variant of the convolution compute the convolution?

Every test shape is checked twice over. First with small integers, where each product and each partial sum is
exact in any of the number formats used here, whatever the order of summation: not a single bit may differ,
so a missing tap, a swapped axis or a shift cannot hide behind a tolerance. Then with real numbers, within
the rounding error that the variant's own number formats permit.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike

from labkit import cuda
from labkit.base.errors import Interrupted, LabError
from labkit.ladder.plan import Plan
from labkit.ladder.rung import Rounding
from labkit.ladder.variants import Variant
from labkit.spec.devices import device
from labkit.spec.layers import Layer
from labkit.spec.reference import conv_float64, error_scale

# The largest relative error of one rounding to nearest, and the error of a result among half's subnormals.
_ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11}
_HALF_UNDERFLOW = 2.0**-25
# Tensor cores add in FP32, but truncate, and align a group of products to the largest of them (Fasi, Higham,
# Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 7:e330, 2021).
_TENSOR_ROUNDOFF = 2.0**-22
_EXACT_INTEGERS = {"float32": 2**24, "float16": 2**11}  # up to here every integer is exact
_SHOWN = 8  # mismatches in a message
PATIENCE_S = 10  # with a shape


class CheckFailed(LabError, AssertionError):
    """A variant that does not compute the convolution. The message shows where, what it got and what was
    expected."""


def tolerance(rounding: Rounding, scale: np.ndarray, terms: int) -> np.ndarray:
    """The largest error that a correct kernel can make in each output.

    A sum of n products, in any order, with unit roundoff u, is off by at most n u sum |x| |k| (Jeannerod and
    Rump, SIAM J. Matrix Anal. Appl. 34(2), 2013: Higham's gamma_n without its denominator). Rounding partial
    sums, their total and the output one after the other multiplies the growth. The inputs add nothing: the
    reference starts from x and k as they are stored.

    Parameters
    ----------
    rounding : labkit.ladder.rung.Rounding
        The number formats that the kernel keeps its data and its sums in.
    scale : array
        sum |x| |k| of each output: `labkit.spec.reference.error_scale`.
    terms : int
        Products summed into one output: `Layer.terms`.
    """
    half = np.dtype(rounding.storage) == np.float16
    growth = 1.0
    if rounding.part is not None:
        growth *= 1 + min(rounding.part_terms, terms) * _ROUNDOFF[np.dtype(rounding.part).name]
        terms = -(-terms // rounding.part_terms)
    # Sums of half products in float32 may be a tensor core's.
    wide = half and np.dtype(rounding.accumulate) == np.float32
    growth *= 1 + terms * (_TENSOR_ROUNDOFF if wide else _ROUNDOFF[np.dtype(rounding.accumulate).name])
    growth *= 1 + _ROUNDOFF[np.dtype(rounding.storage).name]
    return (growth - 1) * scale + (_HALF_UNDERFLOW if half else 0.0)


def largest_exact_integer(rounding: Rounding) -> int:
    """Integers up to this one, and their sums up to it, are exact in every format that `rounding` names."""
    formats = (rounding.storage, rounding.accumulate, rounding.part)
    return min(_EXACT_INTEGERS[np.dtype(each).name] for each in formats if each is not None)


def _shape(about: str, B: int, C: int, H: int, W: int, M: int, K: int) -> tuple[Layer, int]:
    return Layer(about, C, H, W, M, K), B


TEST_SHAPES: tuple[tuple[Layer, int], ...] = (
    #                            B   C   H   W   M  K
    _shape("small and odd",      2,  3,  9, 12,  4, 3),
    _shape("one pixel",          1,  1,  1,  1,  1, 1),
    _shape("one window",         3,  2,  5,  6,  4, 5),
    _shape("one row",            2,  1,  3, 40,  5, 3),
    _shape("one column",         2,  3, 37,  2,  6, 2),
    _shape("pointwise",          2,  5,  9, 13,  3, 1),
    _shape("whole tiles",        2,  1, 22, 38, 16, 7),
    _shape("one past a tile",    1,  2, 23, 39, 17, 7),
    _shape("one short of a tile", 3, 4, 18, 34, 15, 4),
    _shape("wide",               1,  1, 10, 75,  3, 6),
    _shape("tall",               1,  3, 71,  9,  2, 5),
    _shape("many maps",          2,  2,  8, 11, 33, 3),
    _shape("many channels",      2, 19,  9, 12,  5, 3),
    _shape("many images",       37,  1,  6,  8,  2, 3),
    _shape("long sums",          1, 12, 17, 13, 24, 7),
)  # fmt: skip
"""Shapes to be right on, apart from the layers that are timed: odd, not square, C != M, with tails for every
tile."""


def random_shapes(count: int, seed: int = 0) -> list[tuple[Layer, int]]:
    """Random layers and batches for `check`, K from 1 to 7, no two dimensions tied to each other."""
    rng = np.random.default_rng(seed)
    shapes = []
    for index in range(count):
        B, C, M, K, extra_h, extra_w = (int(rng.integers(1, most)) for most in (5, 7, 20, 8, 30, 40))
        shapes.append((Layer(f"random {index}", C, K - 1 + extra_h, K - 1 + extra_w, M, K), B))
    return shapes


@dataclass(frozen=True, repr=False)
class CheckReport:
    """What `check` saw. Prints as its PASS line; `table` has one row a shape."""

    label: str
    table: pd.DataFrame
    refused: tuple[str, ...] = ()

    @property
    def worst(self) -> float:
        """The largest error, as a part of what is allowed."""
        return max(self.table["worst_of_allowed"])

    def __repr__(self) -> str:
        shapes = f"{len(self.table)} shape{'s' * (len(self.table) != 1)}"
        line = f"PASS {self.label}: {shapes}, exact on integers, within rounding on reals"
        return line + (f"; {len(self.refused)} shapes refused" if self.refused else "")

    def _ipython_display_(self):
        """`check` has printed the line already: a cell that ends with it shows it once."""


def check(
    variant: Variant,
    layers: Layer | Iterable[Layer | tuple[Layer, int]] = TEST_SHAPES,
    seed: int = 1,
    quiet: bool = False,
) -> CheckReport:
    """Check a variant, print one PASS line, and remember it as verified, so that `bench` will time it.

    On each shape, one plan runs on fresh random inputs, first integers, then reals, then the same reals
    again, the output full of NaN before each run: stale outputs, sums that are not reset and elements nobody
    writes show.

    Parameters
    ----------
    variant : Variant
        As `labkit.variant` makes it.
    layers : Layer, or iterable of Layer or (Layer, batch)
        The shapes; a batch of 3 where none is given. Shapes that `variant.supports` refuses are counted as
        refused.
    seed : int
        Of the random inputs.
    quiet : bool
        Print nothing.

    Returns
    -------
    CheckReport

    Raises
    ------
    CheckFailed
        At the first shape that is wrong, with the first mismatches and what they look like; or that faults.
    LabError
        If the variant refuses every shape.
    """
    shapes, refused = {}, []
    for index, shape in enumerate([layers] if isinstance(layers, Layer) else layers):
        layer, batch = shape if isinstance(shape, tuple) else (shape, 3)
        try:
            variant.supports(layer)
            shapes[index] = layer, batch
        except LabError as refusal:
            refused.append(f"{layer}: {refusal}")
    if len(shapes) > 1:  # a single one's plan compiles it
        with suppress(cuda.driver.CompileError):  # the plan will say so
            variant.precompile(*(layer for layer, _ in shapes.values()))
    rows = [_check_shape(variant, layer, batch, np.random.default_rng([seed, index]))
            for index, (layer, batch) in shapes.items()]  # fmt: skip
    if not rows:
        first = refused[0] if refused else "none was given"
        raise LabError(f"{variant.label} takes none of the shapes; the first: {first}")
    report = CheckReport(variant.label, pd.DataFrame(rows), tuple(refused))
    _verified.add(_key(variant))
    if not quiet:
        print(report)
    return report


def _check_shape(variant: Variant, layer: Layer, batch: int, rng: np.random.Generator) -> dict:
    """The row of one shape."""
    plan = variant.plan(layer, batch)  # a kernel that does not compile is not wrong: it says so itself
    follow = (f"\nNext: lab.sanitize({_name(variant)}, lab.{layer!r}, {batch}) looks for bad addresses, races and "
              "unset memory, line by line.")  # fmt: skip
    try:
        with _patience(f"{variant.label} on {layer}, B = {batch}"), plan:
            worst = _worst_of_runs(plan, variant, layer, batch, rng)
    except CheckFailed as wrong:
        raise CheckFailed(f"{wrong}{follow}") from None
    except cuda.driver.Error as fault:
        # Freeing the buffers may bring to light that the kernel wrote past them, after it was found wrong.
        wrong = fault.__context__ if isinstance(fault.__context__, CheckFailed) else None
        message = f"{wrong}\nAnd it faults" if wrong else f"{variant.label} faults on {layer}, B = {batch}"
        raise CheckFailed(f"{message}: {fault}{follow}") from fault
    return {
        "shape": layer.name,
        **dict(zip("BCHWMK", (batch, layer.C, layer.H, layer.W, layer.M, layer.K), strict=True)),
        "terms": layer.terms,
        "worst_of_allowed": worst,
    }


def _name(variant: Variant) -> str:
    """What the reader's program calls a variant."""
    known = tuple(vars(sys.modules["__main__"]).items())
    return next((name for name, value in known if value is variant and not name.startswith("_")), "variant")


@contextmanager
def _patience(what: str):
    """Say after a while what is running: of a kernel that does not end nothing else is heard."""
    end = "interrupt it to stop it" if device().engine == "cpu" else "if it does not end, restart Python"
    late = threading.Timer(PATIENCE_S, print, (f"{what} has been running for {PATIENCE_S} s: {end}",))
    late.daemon = True
    late.start()
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"{what} was stopped") from None
    finally:
        late.cancel()


def _worst_of_runs(plan: Plan, variant: Variant, layer: Layer, batch: int, rng: np.random.Generator) -> float:
    """The largest error of all runs, as a part of what is allowed."""
    worst = 0.0
    for kind, times in (("integers, which have to be exact", 1), ("real numbers, within rounding", 2)):
        if kind.startswith("integers"):
            x, k = draw_integers(variant, layer, batch, rng)
            allowed = 0.0
        else:
            x, k = draw_reals(variant, layer, batch, rng)
            allowed = tolerance(variant.rounding, error_scale(x, k), layer.terms)
        expected = conv_float64(x, k)
        plan.load(x, k)
        for _ in range(times):
            poison(plan, layer, batch, variant.io_dtype)
            plan.run()
            title = f"{variant.label} is wrong on {layer}, B = {batch} ({kind})"
            worst = max(worst, compare(plan.result(), expected, allowed, variant.io_dtype, title, (x, k)))
    return worst


def draw_integers(variant: Variant, layer: Layer, batch: int, rng: np.random.Generator):
    """x and k of non-zero integers, so small that every partial sum, in whatever order, is exact."""
    limit = largest_exact_integer(variant.rounding)
    for largest in (8, 4, 2, 1):
        x, k = (
            (rng.integers(1, largest, shape, endpoint=True) * rng.choice([-1, 1], shape)).astype(np.float32)
            for shape in (layer.x_shape(batch), layer.k_shape)
        )
        if error_scale(x, k).max() <= limit:
            return x, k
    # Sums that are too long even for ones: keep a part of the products.
    return x, k * (rng.random(layer.k_shape) < limit / (2 * layer.terms))


def draw_reals(variant: Variant, layer: Layer, batch: int, rng: np.random.Generator):
    """x and k of real numbers, as the variant's data type has them."""
    # Images are not negative, masks have both signs; nothing is so small that a product would underflow in
    # half.
    x = rng.uniform(0.25, 1, layer.x_shape(batch))
    k = rng.uniform(0.25, 1, layer.k_shape) * rng.choice([-1, 1, 1], layer.k_shape)
    # What the device gets are these numbers in its own format, so the reference starts from there, too.
    return tuple(each.astype(variant.io_dtype).astype(np.float32) for each in (x, k))


def poison(plan: Plan, layer: Layer, batch: int, dtype) -> None:
    """Fill a plan's output with NaN: 0xFF bytes are one in float32 and in float16."""
    cuda.driver.memset_d8(plan.y, 0xFF, int(np.prod(layer.y_shape(batch))) * np.dtype(dtype).itemsize)


def compare(
    y: np.ndarray,
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
        What was computed.
    expected : array [B, M, Ho, Wo] of float64
        What it should be.
    allowed : float or array
        The largest error permitted, for each element; 0 asks for equality.
    dtype : dtype
        That y has to have.
    title : str
        First line of the message.
    inputs : (x, k), optional
        To try out which well-known mistake the result looks like.

    Returns
    -------
    float
        The largest error as a part of what is allowed; 0 if everything is equal.

    Raises
    ------
    CheckFailed
        If shape or dtype differ, or any element is not within what is allowed; NaN never is.
    """
    y = np.asarray(y)
    if y.shape != expected.shape:
        raise CheckFailed(f"{title}: its shape is {y.shape}, but [B, M, Ho, Wo] is {expected.shape}")
    if y.dtype != np.dtype(dtype):
        raise CheckFailed(f"{title}: its dtype is {y.dtype}, but {np.dtype(dtype)} was promised")
    allowed = np.broadcast_to(np.asarray(allowed, np.float64), expected.shape)
    with np.errstate(invalid="ignore"):
        error = np.abs(y.astype(np.float64) - expected)
        right = error <= allowed  # false for NaN, as it has to be
    if not right.all():
        raise CheckFailed(_message(title, y, expected, error, allowed, ~right, inputs))
    return float(np.max(error[allowed > 0] / allowed[allowed > 0], initial=0.0))


def _message(title, y, expected, error, allowed, wrong, inputs) -> str:
    where = np.argwhere(wrong)
    first = [tuple(index) for index in where[:_SHOWN]]
    table = pd.DataFrame(
        {
            **{name: [index[axis] for index in first] for axis, name in enumerate("bmhw")},
            "got": [y[index] for index in first],
            "expected": [expected[index] for index in first],
            "error": [error[index] for index in first],
            "allowed": [allowed[index] for index in first],
        }
    )
    ranges = ", ".join(
        f"{name} {low}" if low == high else f"{name} {low} to {high}"
        for name, low, high in zip("bmhw", where.min(axis=0), where.max(axis=0), strict=True)
    )
    lines = [f"{title}: {len(where)} of {y.size} outputs, at {ranges}"]
    lines += [f"It looks as if {hint}." for hint in _hints(y, expected, allowed.max(), inputs)]
    shown = f"The first {len(first)}:" if len(where) > len(first) else "These:"
    return "\n".join([*lines, shown, table.to_string(index=False, float_format=lambda v: f"{v:.6g}")])


def _hints(y, expected, slack, inputs):
    """Which well-known mistakes the result looks like."""

    def like(result, other):
        return bool((np.abs(result - other) <= slack).all())

    if like(y, expected):  # then it is also like what differs from that by less
        return
    unwritten = int(np.isnan(y).sum())
    if unwritten:
        share = "nothing was" if unwritten == y.size else f"{unwritten} outputs were not"
        yield f"{share} written: NaN is what the output held before, or what it was computed from"
    if not y.any():
        yield "the outputs were set to zero and never summed"
    for a, b in itertools.combinations(range(4), 2):
        if like(y.ravel(), expected.swapaxes(a, b).ravel()):
            yield f"y was written with its axes {'bmhw'[a]} and {'bmhw'[b]} swapped"
    for axis, name in enumerate("bmhw"):
        ys, es = np.moveaxis(y, axis, 0), np.moveaxis(expected, axis, 0)
        if len(ys) > 2 and (like(ys[1:], es[:-1]) or like(ys[:-1], es[1:])):
            yield f"y is shifted by one along {name}"
    if inputs is not None:
        x, k = inputs
        if like(y, conv_float64(x, k[:, :, ::-1, ::-1])):
            yield "the mask was flipped, which this convolution does not do"
        if like(y, conv_float64(x, k.swapaxes(2, 3))):
            yield "the rows and columns of the mask were swapped"


_verified: set[tuple[str, str]] = set()  # (engine, identity of the variant)


def require_verified(variant: Variant) -> None:
    """Refuse to time what was not checked.

    Raises
    ------
    LabError
        If `check` has not passed this very variant in this session.
    """
    if not is_verified(variant):
        raise LabError(
            f"{variant.label} is not verified in this session: a wrong kernel's time means nothing. "
            "Run labkit.check on this very variant first"
        )


def is_verified(variant: Variant) -> bool:
    """Whether `check` has passed this very variant, source and options, on this engine in this process."""
    return _key(variant) in _verified


def _key(variant: Variant) -> tuple[str, str]:
    return device().engine, variant.identity
