"""The checker: does a variant compute the convolution, a model its forward and backward pass?

Every test shape is checked in three ways. First with small integers: every product and partial sum is exact in all
number formats used here, in any order of summation, so no bit may differ, and no tolerance can hide a missing tap, a
swapped axis or a shift. Then with real numbers: an error may be as large as the roundings of the variant's own number
formats permit. Last with integers whose sums use up those formats: they are still exact where the variant promises
sums in float, and no longer where they are kept in half, which the bound for real numbers may hide.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, DTypeLike

import hostcuda
from hostcuda.errors import EngineError, Interrupted
from hostcuda.source import warnings_about
from labkit.base.errors import CheckFailed, LabError
from labkit.evidence import sanitize as sanitizer
from labkit.ladder.messages import messages
from labkit.ladder.plan import Plan
from labkit.ladder.rung import Rounding
from labkit.ladder.variants import Variant, as_variants
from labkit.spec.devices import device
from labkit.spec.layers import Layer, as_layer
from labkit.spec.reference import conv_float64, error_scale

# The largest relative error of one rounding to nearest, and the largest error of a subnormal result in half.
_ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11}
_HALF_UNDERFLOW = 2.0**-25
# Tensor cores add in FP32, but they truncate, and align a group of products to the largest one (Fasi, Higham, Mikaitis
# and Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 7:e330, 2021).
_TENSOR_ROUNDOFF = 2.0**-22
_EXACT_INTEGERS = {"float32": 2**24, "float16": 2**11}  # up to these, every integer is exact
_SHOWN = 8  # mismatches in a message
_BY_LUCK = r"uninitialized|array bounds"  # warnings of a kernel whose result need not be the same the next time
PATIENCE_S = 10  # for one shape, until a message says what is running


class Compared(NamedTuple):
    """An array that a kernel wrote, beside the true one.

    Attributes
    ----------
    kernel : str
        The name of the kernel, and of the array if it writes several: "bp_f, gradient of f_bias".
    result : ndarray
        What the kernel wrote.
    expected : ndarray of float64
        The same from the kernel's own inputs, in float64.
    bound : ndarray of float64
        The largest error of a correct kernel, for each element: from the number of its summands, as in `tolerance`.
    """

    kernel: str
    result: np.ndarray
    expected: np.ndarray
    bound: np.ndarray


@runtime_checkable
class Model(Protocol):
    """What `check` takes besides convolutions: a network that compares each of its kernels with a reference."""

    def comparisons(self, seed: int) -> Iterable[Compared]:
        """Run the kernels on random inputs; yield every array that they write, all shapes of the model."""


def tolerance(rounding: Rounding, scale: np.ndarray, terms: int) -> np.ndarray:
    """The largest error that a correct kernel can make in each output.

    The error of a sum of n products with unit roundoff u, in any order, is at most n u sum |x| |k| (Jeannerod and Rump,
    SIAM J. Matrix Anal. Appl. 34(2), 2013: Higham's gamma_n without its denominator). The factors of successive
    roundings, of partial sums, of their total and of the output, are multiplied. The inputs add no error, because the
    reference uses x and k as they are stored, unless the kernel itself rounds them (`Rounding.operands`). A factor in
    two parts has an error of at most u^2 |x|. Its products are three, with magnitudes of at most (1 + u)^4 |x| |k|
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
    half = np.dtype(rounding.storage) == np.float16
    growth = 1.0
    factors = np.dtype(rounding.operands or rounding.storage)
    if rounding.parts == 2:
        terms *= 3 * (1 + _ROUNDOFF[factors.name]) ** 4
    if rounding.part is not None:
        growth *= 1 + min(rounding.part_terms, terms) * _ROUNDOFF[np.dtype(rounding.part).name]
        terms = -(-terms // rounding.part_terms)
    # Products of half values summed in float32: the sums may be those of tensor cores.
    wide = factors == np.float16 and np.dtype(rounding.accumulate) == np.float32
    growth *= 1 + terms * (_TENSOR_ROUNDOFF if wide else _ROUNDOFF[np.dtype(rounding.accumulate).name])
    growth *= 1 + _ROUNDOFF[np.dtype(rounding.storage).name]
    if rounding.operands is not None:
        growth *= (1 + _ROUNDOFF[factors.name] ** rounding.parts) ** (1 + rounding.parts)
    return (growth - 1) * scale + (_HALF_UNDERFLOW if half else 0.0)


def largest_exact_integer(rounding: Rounding) -> int:
    """The largest integer up to which all integers are exact in every format of `rounding`."""
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
    _shape("whole tiles",        1,  1, 70, 70, 16, 7),
    _shape("one past a tile",    1,  2, 23, 39, 17, 7),
    _shape("one short of a tile", 3, 4, 18, 34, 15, 4),
    _shape("wide",               1,  1, 10, 75,  3, 6),
    _shape("tall",               1,  3, 71,  9,  2, 5),
    _shape("many maps",          2,  2,  8, 11, 33, 3),
    _shape("many channels",      2, 19,  9, 12,  5, 3),
    _shape("many images",       37,  1,  6,  8,  2, 3),
    _shape("long sums",          1, 12, 17, 13, 24, 7),
)
"""Shapes for the check, other than the layers that are timed: odd, not square, C != M, with tails for every tile."""


@dataclass(frozen=True, repr=False)
class CheckReport:
    """The result of `check`. Prints as its PASS line; `table` has one row per shape."""

    label: str
    table: pd.DataFrame
    refused: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()  # of the sanitizer that found nothing
    sanitized: str = ""  # the shape that it looked at
    warning: str = ""  # of the compiler, about a reader's own kernel whose result may be right by luck

    @property
    def worst(self) -> float:
        """The largest error, as a fraction of the allowed one."""
        return float(np.max(self.table["worst_of_allowed"]))

    def __repr__(self) -> str:
        shapes = f"{len(self.table)} shape{'s' * (len(self.table) != 1)}"
        line = f"PASS {self.label}: {shapes}, exact on integers, within rounding on reals"
        line += f", clean on {self.sanitized} under {', '.join(self.tools)}" if self.tools else ""
        refused = len(self.refused)
        line += f"; {refused} shape{'s' * (refused != 1)} refused" if refused else ""
        return line + (f", but the compiler warns: {self.warning}" if self.warning else "")

    def _ipython_display_(self) -> None:
        """Show nothing: `check` has printed the line already."""


@dataclass(frozen=True, repr=False)
class ModelReport(CheckReport):
    """The result of `check` for a model; `table` has one row per array compared."""

    def __repr__(self) -> str:
        arrays = f"{len(self.table)} array{'s' * (len(self.table) != 1)}"
        return f"PASS {self.label}: {arrays} of {self.table['kernel'].nunique()} kernels, within rounding"


def check(
    variant: Variant | int | str | Model,
    layers: Layer | Iterable[Layer | tuple[Layer, int]] = TEST_SHAPES,
    seed: int = 1,
    quiet: bool = False,
    sanitize: bool = False,
) -> CheckReport:
    """Check a variant, print one PASS line, and record it as verified, so that `bench` will time it.

    On each shape one plan runs on new random inputs: small integers, real numbers, and large integers. Before each run
    the output is filled with NaN. That exposes stale outputs, sums that are not reset and elements that are not
    written. A model, such as a network with its backward pass, is checked by its own `comparisons`, array by array.

    Parameters
    ----------
    variant : Variant, number or name of a rung, or a model with `comparisons`
    layers : Layer, or iterable of Layer or (Layer, batch)
        The shapes; the default batch is 3. Shapes that `variant.supports` refuses are counted as refused. A model has
        its own shapes.
    seed : int
        For the random inputs.
    quiet : bool
        Print nothing.
    sanitize : bool
        Search for invalid addresses, races, uninitialized memory and divergent barriers, too: mistakes that need not
        make the result wrong. It takes some seconds, and is done on one of the shapes, which the PASS line names: the
        smallest that has several tiles each way and several channels, so that a kernel uses its tile again.

    Returns
    -------
    CheckReport
        If the compiler warns that a reader's own kernel reads a variable without a value or beyond an array, the PASS
        line ends with that warning: the result may be right by luck.

    Raises
    ------
    CheckFailed
        At the first shape with a fault or a wrong result; the message shows the first mismatches and the mistake that
        they look like. Or the findings of the sanitizer.
    LabError
        If the variant refuses every shape, a model compares nothing, or a launch before the check has failed.
    """
    if isinstance(variant, Model):
        if layers is not TEST_SHAPES:
            raise LabError(f"{_label(variant)} is a model, which has its own shapes: check it without `layers`")
        if sanitize:
            raise LabError(f"{_label(variant)} is a model: for its program there is hostcuda.sanitize.sanitize_script")
        _settle(_label(variant))
        return _check_model(variant, seed, quiet)
    (variant,) = as_variants(variant)
    _settle(variant.label)
    shapes, refused = {}, []
    for index, shape in enumerate([layers] if isinstance(layers, (Layer, str)) else layers):
        layer, batch = shape if isinstance(shape, tuple) else (as_layer(shape), 3)
        try:
            variant.supports(layer)
            shapes[index] = layer, batch
        except EngineError as refusal:
            refused.append(f"{layer}: {refusal}")
    if len(shapes) > 1:  # for a single shape, the plan compiles the kernel
        with suppress(hostcuda.driver.CompileError):  # the plan raises it again
            variant.precompile(*(layer for layer, _ in shapes.values()))
    if not shapes:
        first = refused[0] if refused else "none was given"
        raise LabError(f"{variant.label} takes none of the shapes; the first: {first}")
    with ThreadPoolExecutor(1) as beside:
        warning = beside.submit(_warning, variant, next(iter(shapes.values()))[0])
        rows = [_check_shape(variant, layer, batch, np.random.default_rng([seed, index]))
                for index, (layer, batch) in shapes.items()]
    clean = _sanitized(variant, shapes.values()) if sanitize else ((), "")
    report = CheckReport(variant.label, pd.DataFrame(rows), tuple(refused), *clean, warning.result())
    _verified.add(_key(variant))
    if not quiet:
        print(report)
    return report


def _settle(label: str) -> None:
    """Tell a fault of the reader's launches before the check: the next call that waits would raise it."""
    hostcuda.ensure_context()
    try:
        hostcuda.driver.Context.synchronize()
    except hostcuda.driver.Error as fault:
        raise LabError(f"{label} was not checked: there is a fault from an earlier launch: {fault}") from fault


def _warning(variant: Variant, layer: Layer) -> str:
    """What the host's compiler says of a variable without a value, or an index outside of an array; else empty."""
    if not variant.own:
        return ""
    said = warnings_about(**variant.compiler_arguments(variant.defines(layer)))
    found = [each for each in messages(said, variant.source.splitlines()) if re.search(_BY_LUCK, each.text)]
    return f"line {found[0].line}: {found[0].text}" if found else ""


def _sanitized(variant: Variant, shapes: Iterable[tuple[Layer, int]]) -> tuple[tuple[str, ...], str]:
    """The tools that found nothing, and the name of the shape."""

    def order(shape):
        layer, batch = shape
        return min(layer.Ho, layer.Wo) <= 16, layer.C == 1, layer.macs(batch)

    layer, batch = min(shapes, key=order)
    found = sanitizer.sanitize(variant, layer, batch)
    if not found.clean:
        raise CheckFailed(f"{variant.label} computes what it should, but on {layer}, B = {batch}:\n{found}")
    return found.tools, layer.name


def _label(model: Model) -> str:
    return str(getattr(model, "label", type(model).__name__))


def _check_model(model: Model, seed: int, quiet: bool) -> ModelReport:
    label = _label(model)
    with _patience(label):
        rows = [
            {"kernel": kernel.split(",")[0], "array": kernel, "elements": np.size(result),
             "worst_of_allowed": compare_array(f"{label}: {kernel}", result, expected, bound)}
            for kernel, result, expected, bound in model.comparisons(seed)
        ]
    if not rows:
        raise LabError(f"{label} compares nothing: its `comparisons` yields no array")
    report = ModelReport(label, pd.DataFrame(rows))
    if not quiet:
        print(report)
    return report


def compare_array(title: str, result: ArrayLike, expected: np.ndarray, bound: np.ndarray) -> float:
    """Compare an array of any shape with the true one.

    Returns
    -------
    float
        The largest error as a fraction of its bound; 0 if all elements are equal.

    Raises
    ------
    CheckFailed
        If the shape differs, or the error of an element is larger than its bound, or NaN. The message names the first
        such element, its result, the expected one and the bound.
    LabError
        If a bound is negative, infinite or NaN: such a comparison says nothing.
    """
    result, expected = np.asarray(result), np.asarray(expected, np.float64)
    if result.shape != expected.shape:
        raise CheckFailed(f"{title}: its shape is {result.shape}, but {expected.shape} is expected")
    bound = np.broadcast_to(np.asarray(bound, np.float64), expected.shape)
    if not (np.isfinite(bound) & (bound >= 0)).all():
        raise LabError(f"{title}: a bound is negative, infinite or NaN; give every element a number")
    with np.errstate(invalid="ignore"):
        error = np.abs(result.astype(np.float64) - expected)
        right = error <= bound  # false for NaN, as it must be
    if not right.all():
        wrong = np.argwhere(~right)
        first = tuple(map(int, wrong[0]))
        raise CheckFailed(
            f"{title} is wrong: {len(wrong)} of {result.size} elements. The first, [{', '.join(map(str, first))}]: "
            f"{result[first]:.6g}, expected {expected[first]:.6g}, error {error[first]:.3g}, bound {bound[first]:.3g}"
        )
    return float(np.max(error[bound > 0] / bound[bound > 0], initial=0.0))


def _check_shape(variant: Variant, layer: Layer, batch: int, rng: np.random.Generator) -> dict:
    """Check one shape: its row."""
    plan = variant.plan(layer, batch)  # a kernel that does not compile is not wrong: its error is raised as it is
    follow = (f"\nNext: lab.sanitize({_name(variant)}, lab.{layer!r}, {batch}) finds invalid addresses, races and "
              "uninitialized memory, line by line.")
    try:
        with _patience(f"{variant.label} on {layer}, B = {batch}"), plan:
            worst = _worst_of_runs(plan, variant, layer, batch, rng)
    except CheckFailed as wrong:
        raise CheckFailed(f"{wrong}{follow}") from None
    except hostcuda.driver.Error as fault:
        # Freeing the buffers may find that the kernel wrote past them, after its result was found wrong.
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
    """The name of a variant in the reader's program."""
    known = tuple(vars(sys.modules["__main__"]).items())
    return next((name for name, value in known if value is variant and not name.startswith("_")), "variant")


@contextmanager
def _patience(what: str) -> Iterator[None]:
    """Print after `PATIENCE_S` what is running: a kernel that does not end prints nothing itself."""
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
    """The largest error of all runs, as a fraction of the allowed one."""
    worst = 0.0
    for kind, draw in _INPUTS.items():
        x, k = draw(variant, layer, batch, rng)
        expected = conv_float64(x, k)
        if draw is draw_reals:
            allowed = tolerance(variant.rounding, error_scale(x, k), layer.terms)
        else:
            allowed = 0.0
            expected = expected.astype(variant.io_dtype).astype(np.float64)  # the output is rounded once
        plan.load(x, k)
        poison(plan, layer, batch, variant.io_dtype)
        plan.run()
        title = f"{variant.label} is wrong on {layer}, B = {batch} ({kind})"
        y = plan.result()
        try:
            worst = max(worst, compare(y, expected, allowed, variant.io_dtype, title, (x, k)))
        except CheckFailed as wrong:
            if np.isnan(y).any() and _right_after_zeros(plan, layer, batch, variant, expected, allowed):
                hint = "With zeros in y before, it is right: the kernel adds to y without setting it."
                raise CheckFailed(f"{wrong}\n{hint}") from None
            raise
    return worst


def _right_after_zeros(plan, layer, batch, variant, expected, allowed) -> bool:
    """Whether the result is right if the output holds zeros before."""
    poison(plan, layer, batch, variant.io_dtype, 0)
    plan.run()
    return bool((np.abs(plan.result() - expected) <= allowed).all())


def draw_integers(
    variant: Variant, layer: Layer, batch: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """x and k of nonzero integers, so small that every partial sum is exact in any order."""
    limit = largest_exact_integer(variant.rounding)
    for largest in (8, 4, 2, 1):
        x, k = (
            (rng.integers(1, largest, shape, endpoint=True) * rng.choice([-1, 1], shape)).astype(np.float32)
            for shape in (layer.x_shape(batch), layer.k_shape)
        )
        if error_scale(x, k).max() <= limit:
            return x, k
    # Too many terms even for ones: some of the products are zero.
    return x, k * (rng.random(layer.k_shape) < limit / (2 * layer.terms))


def draw_large_integers(
    variant: Variant, layer: Layer, batch: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """x and k of integers as large as exact sums permit, most of them of one sign so that the sums are large, too.

    Every product and sum is exact in the formats that the variant promises for them, and the output is rounded once.
    """
    rounding, terms = variant.rounding, layer.terms
    most = [_EXACT_INTEGERS[np.dtype(rounding.accumulate).name] // terms]  # of a product
    most.append(int(np.finfo(rounding.storage).max) // terms)
    if rounding.part is not None:
        most.append(_EXACT_INTEGERS[np.dtype(rounding.part).name] // min(terms, rounding.part_terms))
    factor = _EXACT_INTEGERS[np.dtype(rounding.operands or rounding.storage).name]
    largest = min(math.isqrt(min(most)), factor)
    if largest < 2:
        return draw_integers(variant, layer, batch, rng)
    of_x = of_k = largest
    if rounding.parts == 2 and min(most) // 4 > factor:
        # Only one factor needs both of its parts: the product of two low ones would be missing.
        of_x, of_k = rng.permuted([min(min(most) // 2, int(np.finfo(rounding.operands).max)), 2])
    x = rng.integers(1, of_x, layer.x_shape(batch), endpoint=True)
    k = rng.integers(1, of_k, layer.k_shape, endpoint=True) * rng.choice([-1, 1, 1, 1], layer.k_shape)
    return x.astype(np.float32), k.astype(np.float32)


def draw_reals(variant: Variant, layer: Layer, batch: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """x and k of real numbers, rounded to the variant's data type."""
    # Images are positive, masks have both signs; no number is so small that a product underflows in half.
    x = rng.uniform(0.25, 1, layer.x_shape(batch))
    k = rng.uniform(0.25, 1, layer.k_shape) * rng.choice([-1, 1, 1], layer.k_shape)
    # The device gets these numbers in its own format, so the reference uses them, too.
    x, k = (each.astype(variant.io_dtype).astype(np.float32) for each in (x, k))
    return x, k


_INPUTS = {
    "integers, which must be exact": draw_integers,
    "real numbers, within rounding": draw_reals,
    "large integers, whose sums must be exact": draw_large_integers,
}


def poison(plan: Plan, layer: Layer, batch: int, dtype: DTypeLike, byte: int = 0xFF) -> None:
    """Fill a plan's output with a byte. By default that is NaN: bytes 0xFF are one in float32 and in float16."""
    hostcuda.driver.memset_d8(plan.y, byte, int(np.prod(layer.y_shape(batch))) * np.dtype(dtype).itemsize)


def _poisoned(y: np.ndarray) -> np.ndarray:
    """Which elements hold the NaN of `poison`: no operation on numbers has this one as its result."""
    return (np.ascontiguousarray(y)[..., None].view(np.uint8) == 0xFF).all(axis=-1)


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
        raise CheckFailed(f"{title}: its shape is {y.shape}, but [B, M, Ho, Wo] is {expected.shape}")
    if y.dtype != np.dtype(dtype):
        raise CheckFailed(f"{title}: its dtype is {y.dtype}, but it must be {np.dtype(dtype)}")
    allowed = np.broadcast_to(np.asarray(allowed, np.float64), expected.shape)
    with np.errstate(invalid="ignore"):
        error = np.abs(y.astype(np.float64) - expected)
        right = error <= allowed  # false for NaN, as it must be
    if not right.all():
        raise CheckFailed(_message(title, y, expected, error, allowed, ~right, inputs))
    return float(np.max(error[allowed > 0] / allowed[allowed > 0], initial=0.0))


def _message(title: str, y, expected, error, allowed, wrong, inputs) -> str:
    """The first mismatches as a table, where all of them are, and what they look like."""
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


def _hints(y, expected, slack, inputs) -> Iterator[str]:
    """The common mistakes that give the same output."""

    def like(result, other):
        return bool((np.abs(result - other) <= slack).all())

    if like(y, expected):  # within the slack of a mistake, too
        return
    unwritten = int(_poisoned(y).sum())
    computed = int(np.isnan(y).sum()) - unwritten
    infinite = int(np.isinf(y).sum())
    if unwritten:
        share = "nothing was" if unwritten == y.size else f"{unwritten} outputs were not"
        yield f"{share} written (the output held NaN before)"
    if computed:
        yield f"{computed} outputs became NaN in the kernel, by 0 / 0, inf - inf or a NaN that it read"
    if infinite:
        yield f"{infinite} outputs are infinite: larger than {np.finfo(y.dtype).max:.6g}, the largest {y.dtype}"
    if not y.any():
        yield "the outputs were set to zero, and no product was added"
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
            yield "the mask was flipped; this convolution does not flip it"
        if like(y, conv_float64(x, k.swapaxes(2, 3))):
            yield "the rows and columns of the mask were swapped"


_verified: set[tuple[str, str]] = set()  # (engine, identity of the variant)


def require_verified(variant: Variant) -> None:
    """Refuse to time a variant that was not checked.

    Raises
    ------
    LabError
        If this variant, with the same source and options, has not passed `check` in this session.
    """
    if not is_verified(variant):
        raise LabError(
            f"{variant.label} is not verified in this session: the time of a wrong kernel means nothing. "
            "Run labkit.check on this variant first"
        )


def is_verified(variant: Variant) -> bool:
    """Whether this variant, with the same source and options, has passed `check` on this engine in this process."""
    return _key(variant) in _verified


def _key(variant: Variant) -> tuple[str, str]:
    return device().engine, variant.identity
