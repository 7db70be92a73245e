"""Check whether a variant computes the convolution, and a model its forward and backward pass.

Every test shape is checked in three ways. First with small integers: every product and partial sum
is exact in all number formats used here, in any order of summation, so no bit may differ, and no
tolerance can hide a missing tap, a swapped axis or a shift. Then with real numbers: an error may be
as large as the roundings of the variant's own number formats permit. Last with integers whose sums
fill those formats: they are exact where the variant promises sums in float, and no longer where it
keeps them in half, which the bound for real numbers may hide.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from tqdm import tqdm

import hostcuda
from hostcuda.errors import EngineError, Interrupted
from hostcuda.source import warnings_about
from labkit.base.errors import CheckFailed, LabError
from labkit.base.progress import show_progress
from labkit.evidence import orders
from labkit.evidence import profile as profiler
from labkit.evidence import sanitize as sanitizer
from labkit.ladder.messages import parse_messages
from labkit.ladder.plan import LayerKernel, Plan
from labkit.ladder.variants import Variant, as_variants
from labkit.ladder.variants import variant as build_variant
from labkit.measure import compare
from labkit.spec.devices import device
from labkit.spec.layers import LENET86, Layer, as_layer
from labkit.spec.reference import conv_float64, error_scale

# g++'s warnings of a kernel whose result need not be the same the next time: "'sum' is used
# uninitialized".
_UNDEFINED = r"uninitialized|array bounds"
# products in all shapes, up to which a reader's own kernel takes longer to optimize than to run
_QUICK_MACS = 2e7
_MUCH_MORE = 1.25  # times the waste of the rung's own kernel
SANITIZER_S = 60  # to find the cause of a failed check


class Compared(NamedTuple):
    """An array that a kernel wrote, with the true one.

    Attributes
    ----------
    kernel : str
        The name of the kernel, and of the array if it writes several: "bp_f, gradient of f_bias".
    result : ndarray
        What the kernel wrote.
    expected : ndarray of float64
        The true values for the kernel's own inputs, in float64.
    bound : ndarray of float64
        The largest error of a correct kernel, for each element: from the number of its summands, as
        in `tolerance`.
    """

    kernel: str
    result: np.ndarray
    expected: np.ndarray
    bound: np.ndarray


@runtime_checkable
class Comparable(Protocol):
    """A network that compares each of its kernels with a reference; `check` takes it in place of a convolution."""

    def comparisons(self, seed: int) -> Iterable[Compared]:
        """Run the kernels on random inputs; yield every array that they write, with the true one and an error bound.

        This is done for each of the model's shapes. `labkit.Lenet28` is such a model: it yields the gradient
        that a kernel wrote, for example, and the one that NumPy computes in float64.
        """
        ...


def _shape(about: str, B: int, C: int, H: int, W: int, M: int, K: int) -> tuple[Layer, int]:
    """Return a test shape, (layer with the name `about`, batch)."""
    return Layer(about, C, H, W, M, K), B


# Five values of K: most rungs compile K in, so each one more is a compilation of each kernel.
TEST_SHAPES: tuple[tuple[Layer, int], ...] = (
    #                            B   C   H   W   M  K
    _shape("small and odd", 2, 3, 9, 12, 4, 3),
    _shape("one pixel", 1, 1, 1, 1, 1, 1),
    _shape("one window", 3, 2, 5, 6, 4, 5),
    _shape("one row", 2, 1, 3, 40, 5, 3),
    _shape("one column", 2, 3, 38, 3, 6, 3),
    _shape("pointwise", 2, 5, 9, 13, 3, 1),
    _shape("whole tiles", 1, 1, 70, 70, 16, 7),
    _shape("one past a tile", 1, 2, 23, 39, 17, 7),
    _shape("one short of a tile", 3, 4, 18, 34, 15, 4),
    _shape("wide", 1, 1, 10, 75, 3, 7),
    _shape("tall", 1, 3, 71, 9, 2, 5),
    _shape("many maps", 2, 2, 8, 11, 33, 3),
    _shape("many channels", 2, 19, 9, 12, 5, 3),
    _shape("many images", 37, 1, 6, 8, 2, 3),
    _shape("long sums", 1, 12, 17, 13, 24, 7),
)
"""Shapes for the check, other than the layers that are timed: odd, not square, C != M, with tails for every tile."""
_LARGER = next(shape for shape in TEST_SHAPES if shape[0].name == "whole tiles")


@dataclass(frozen=True, repr=False)
class CheckReport:
    """The result of `check`. Prints as its PASS line; `table` has one row per shape."""

    label: str
    table: pd.DataFrame
    refused: tuple[str, ...] = ()  # why the variant does not support the other shapes
    tools: tuple[str, ...] = ()  # the sanitizer's tools, which found nothing
    sanitized: str = ""  # the shape that it looked at
    # the compiler's, about a reader's own kernel whose result may be right by luck
    warning: str = ""
    own: bool = False  # whether the kernel is a reader's own
    slow: str = ""  # what it wastes most, of memory accesses, with its line

    @property
    def worst(self) -> float:
        """The largest error, as a fraction of the allowed one."""
        return float(np.max(self.table["worst_of_allowed"]))

    def __repr__(self) -> str:
        shapes = f"{len(self.table)} shape{'s' * (len(self.table) != 1)}"
        line = f"PASS {self.label}: {shapes}, exact on integers, within rounding on reals"
        line += f", clean on {self.sanitized} under {', '.join(self.tools)}" if self.tools else ""
        line += "; races were not looked for: lab.sanitize" if self.own and not self.tools else ""
        refused = len(self.refused)
        line += f"; {refused} shape{'s' * (refused != 1)} refused" if refused else ""
        line += f", but the compiler warns: {self.warning}" if self.warning else ""
        return f"{line}\n{self.slow}" if self.slow else line

    def _ipython_display_(self) -> None:
        """Show nothing: `check` has printed the line already."""


@dataclass(frozen=True, repr=False)
class ModelReport(CheckReport):
    """The result of `check` for a model; `table` has one row per array compared."""

    def __repr__(self) -> str:
        arrays = f"{len(self.table)} array{'s' * (len(self.table) != 1)}"
        return f"PASS {self.label}: {arrays} of {self.table['kernel'].nunique()} kernels, within rounding"


def check(
    variant: Variant | int | str | Comparable,
    layers: Layer | str | Iterable[Layer | str | tuple[Layer | str, int]] = TEST_SHAPES,
    seed: int = 1,
    quiet: bool = False,
    sanitize: bool = False,
) -> CheckReport:
    """Check a variant, print one PASS line, and record it as verified, so that `bench` will time it.

    On each shape one plan runs on new random inputs: small integers, real numbers, and large
    integers. Before each run the output is filled with NaN. That exposes stale outputs, sums that
    are not reset and elements that are not written. A model, such as a network with its backward
    pass, is checked by its own `comparisons`, array by array.

    Parameters
    ----------
    variant : Variant, number or name of a rung, or a model with `comparisons`
    layers : Layer, its name, or iterable of these or of pairs (layer, batch)
        The shapes; the default batch is 3. Shapes that `variant.supports` refuses are counted as
        refused. A model has its own shapes.
    seed : int
        For the random inputs.
    quiet : bool
        Print nothing.
    sanitize : bool
        Search for invalid addresses, races, uninitialized memory and divergent barriers, too:
        mistakes that need not make the result wrong. Say with its line what a reader's own kernel
        wastes most of its memory accesses, if the rung's kernel wastes less. It takes some seconds,
        and is done on one of the shapes, which the PASS line names: the smallest that has several
        tiles each way and several channels, so that a kernel uses its tile again.

    Returns
    -------
    CheckReport
        If the compiler warns that a reader's own kernel reads a variable without a value or beyond
        an array, the PASS line ends with that warning: the result may be right by luck.

    Raises
    ------
    CheckFailed
        At the first shape with a fault or a wrong result; the message shows the first mismatches
        and the mistake that they look like. Or the findings of the sanitizer.
    LabError
        If the variant refuses every shape, a model compares nothing, or a launch before the check
        has failed.
    """
    if isinstance(variant, Comparable):
        if layers is not TEST_SHAPES:
            raise LabError(
                f"{_label(variant)} is a model, which has its own shapes: check it without `layers`"
            )
        if sanitize:
            raise LabError(
                f"{_label(variant)} is a model: for its program there is hostcuda.sanitize.sanitize_script"
            )
        _raise_pending_fault(_label(variant))
        return _check_model(variant, seed, quiet)
    (variant,) = as_variants(variant)
    _raise_pending_fault(variant.label)
    shapes, refused = _choose_shapes(
        variant, [layers] if isinstance(layers, (Layer, str)) else layers
    )
    if not shapes:
        first_refusal = refused[0] if refused else "none was given"
        raise LabError(f"{variant.label} takes none of the shapes; the first: {first_refusal}")
    # a reader's kernel on small shapes is hardly optimized: that compiles faster
    quick = (
        variant.own
        and sum(kernel.layer.macs(batch) for kernel, batch in shapes.values()) <= _QUICK_MACS
    )
    # the compiler looks for warnings meanwhile
    with ThreadPoolExecutor(1) as pool:
        warning = pool.submit(_compiler_warning, variant, [kernel for kernel, _ in shapes.values()])
        rows = _check_shapes(variant, shapes, seed, quick)
    sanitized = ((), "")  # (the sanitizer's tools, the shape that it looked at)
    slow = ""  # a sentence on what a reader's own kernel wastes most
    if sanitize:
        layer, batch = _choose_sanitized((kernel.layer, batch) for kernel, batch in shapes.values())
        sanitized = _sanitize_one(variant, layer, batch)
        slow = _find_slow(variant, layer, batch) if variant.own else ""
    report = CheckReport(
        variant.label,
        pd.DataFrame(rows),
        tuple(refused),
        *sanitized,
        warning.result(),
        variant.own,
        slow,
    )
    # For `require_verified`, which `bench` and `bench_streams` call first: None if the variant was
    # checked as it is timed, now or before; else what to check it on once more, fully optimized.
    # `shapes` for one that was not checked before: anything but None
    in_full_before = _verified.get(_key(variant), shapes) is None
    in_full = not quick or device().engine != "cpu" or in_full_before
    _verified[_key(variant)] = None if in_full else (shapes, seed)
    if not quiet:
        print(report)
    return report


def _check_shapes(
    variant: Variant, shapes: dict[int, tuple[LayerKernel, int]], seed: int, quick: bool
) -> list[dict]:
    """Check a variant on shapes; return the rows of the report, a dict per shape.

    `shapes` maps a shape's place among all that were asked for to (kernel, batch), see
    `_choose_shapes`. With `quick` the CPU engine optimizes the kernel less, which compiles faster.
    Raises CheckFailed at the first fault or wrong result.
    """
    # the CPU engine gives advice itself
    advice = "if it does not end, restart Python" if device().engine == "gpu" else ""
    with show_progress(len(shapes), f"compiling {variant.label}", advice=advice) as progress:
        if len(shapes) > 1:  # for a single shape, the plan compiles the kernel
            with suppress(hostcuda.driver.CompileError):  # the plan raises it again
                variant.precompile(*(kernel.defines for kernel, _ in shapes.values()), quick=quick)
        # With its place in the seed, a shape has the same random inputs whether others are refused
        # or not.
        return [
            _check_shape(kernel, batch, np.random.default_rng([seed, index]), progress, quick)
            for index, (kernel, batch) in shapes.items()
        ]


def _choose_shapes(
    variant: Variant, layers: Iterable[Layer | str | tuple[Layer | str, int]]
) -> tuple[dict[int, tuple[LayerKernel, int]], list[str]]:
    """Return ({place in `layers`: (kernel, batch)} of what a variant supports, its reasons to refuse the others)."""
    shapes, refused = {}, []
    for place, shape in enumerate(layers):
        layer, batch = shape if isinstance(shape, tuple) else (shape, 3)
        layer = as_layer(layer)
        try:
            shapes[place] = variant.on(layer), batch
        except EngineError as refusal:
            refused.append(f"{layer}: {refusal}")
    return shapes, refused


def _raise_pending_fault(label: str) -> None:
    """Raise the fault that an earlier launch of the reader left behind."""
    hostcuda.ensure_context()
    try:
        hostcuda.driver.Context.synchronize()
    except hostcuda.driver.Error as fault:
        raise LabError(
            f"{label} was not checked: there is a fault from an earlier launch: {fault}"
        ) from fault


def _compiler_warning(variant: Variant, kernels: list[LayerKernel]) -> str:
    """Return the compiler's first warning of a variable without a value or an index outside of an array, or "".

    It is asked about the compile-time parameters of lenet86 if a kernel has them, which a cell's
    warnings are about, else about those of the first one.
    """
    if not variant.own:
        return ""
    all_defines = [kernel.defines for kernel in kernels]
    usual = variant.defines(LENET86[0])
    defines = usual if usual in all_defines else all_defines[0]
    output = warnings_about(**variant.compiler_arguments(defines))
    warnings = [
        message
        for message in parse_messages(output, variant.source.splitlines())
        if re.search(_UNDEFINED, message.text)
    ]
    return f"line {warnings[0].line}: {warnings[0].text}" if warnings else ""


def _choose_sanitized(shapes: Iterable[tuple[Layer, int]]) -> tuple[Layer, int]:
    """Return the shape to sanitize, a pair (layer, batch): the cheapest with several tiles and several channels.

    If no shape has both, it is the cheapest with several tiles, or else with several channels.
    """

    def preference(shape):
        """Return a sort key: first several tiles of 16 outputs each way, then several channels, then few products."""
        layer, batch = shape
        # False sorts before True
        return (min(layer.Ho, layer.Wo) <= 16, layer.C == 1, layer.macs(batch))

    return min(shapes, key=preference)


def _sanitize_one(variant: Variant, layer: Layer, batch: int) -> tuple[tuple[str, ...], str]:
    """Sanitize a variant on a shape; return (tools, name of the shape), or raise CheckFailed."""
    findings = sanitizer.sanitize(variant, layer, batch)
    if not findings.clean:
        raise CheckFailed(
            f"{variant.label} computes what it should, but on {layer}, B = {batch}:\n{findings}"
        )
    return findings.tools, layer.name


def _find_slow(variant: Variant, layer: Layer, batch: int) -> str:
    """Return what a reader's kernel wastes most, if that is more than the rung's own kernel wastes; else ""."""
    chosen = {name: value for name, value in variant.options.items() if value is not None}
    lab_kernel = build_variant(variant.rung.name, **chosen)
    try:
        counted = profiler.profile([variant, lab_kernel], layer, batch, engine="cpu")
    except EngineError:  # the CPU engine cannot count one of them
        return ""
    own, lab = counted.waste(variant.label), counted.waste(lab_kernel.label)
    is_more = own and (lab is None or own.units > _MUCH_MORE * lab.units)
    return counted.describe_waste() if is_more else ""


def _label(model: Comparable) -> str:
    """Return a model's name in messages: its attribute `label`, or else the name of its class."""
    return str(getattr(model, "label", type(model).__name__))


def _check_model(model: Comparable, seed: int, quiet: bool) -> ModelReport:
    """Compare every array of `model.comparisons(seed)`; print the report unless `quiet`, and return it.

    Raises CheckFailed at the first wrong array, LabError if there is none to compare.
    """
    label = _label(model)
    rows = []
    # `comparisons` yields as it computes, so the block contains all launches
    with _name_stopped(label), show_progress(None, f"checking {label}") as progress:
        # `kernel` is "bp_f, gradient of f_bias": the kernel, then its array.
        for kernel, result, expected, bound in model.comparisons(seed):
            progress.set_description_str(f"checking {label}: {kernel}", refresh=False)
            worst = compare.compare_array(f"{label}: {kernel}", result, expected, bound)
            rows.append(
                {
                    "kernel": kernel.split(",")[0],
                    "array": kernel,
                    "elements": np.size(result),
                    "worst_of_allowed": worst,
                }
            )
    if not rows:
        raise LabError(f"{label} compares nothing: its `comparisons` yields no array")
    report = ModelReport(label, pd.DataFrame(rows))
    if not quiet:
        print(report)
    return report


def _plan(kernel: LayerKernel, batch: int, quick: bool) -> Plan:
    """Return the kernel made ready for a batch; with `quick` the CPU engine optimizes it less, to compile faster."""
    if not quick:
        return kernel.plan(batch)
    return kernel.plan(batch, module=kernel.module(quick=True))


def _check_shape(
    kernel: LayerKernel, batch: int, rng: np.random.Generator, progress: tqdm, quick: bool
) -> dict:
    """Check a variant on one shape; return its row of the report, a dict.

    With `quick` the CPU engine optimizes the kernel less, which compiles faster. Raises CheckFailed,
    also for a fault. The line of `progress` says what is being done.
    """
    variant, layer = kernel.variant, kernel.layer
    progress.set_description_str(f"checking {variant.label}: {layer.name}", refresh=False)
    # a kernel that does not compile is not wrong: its error is raised as it is
    plan = _plan(kernel, batch, quick)
    try:
        with _name_stopped(f"{variant.label} on {layer}, B = {batch}"), plan:
            worst = _run_inputs(plan, rng)
    except CheckFailed as wrong:
        progress.set_description_str(
            f"{variant.label} is wrong: looking for the cause", refresh=False
        )
        raise CheckFailed(f"{wrong}{_explain(variant, layer, batch, str(wrong))}") from None
    except hostcuda.driver.Error as fault:
        # Freeing the buffers may find that the kernel wrote past them, after its result was found
        # wrong.
        wrong = fault.__context__ if isinstance(fault.__context__, CheckFailed) else None
        message = (
            f"{wrong}\nAnd it faults"
            if wrong
            else f"{variant.label} faults on {layer}, B = {batch}"
        )
        progress.set_description_str(
            f"{variant.label} faults: looking for the cause", refresh=False
        )
        raise CheckFailed(
            f"{message}: {fault}{_explain(variant, layer, batch, message)}"
        ) from fault
    progress.update()
    dimensions = dict(
        zip("BCHWMK", (batch, layer.C, layer.H, layer.W, layer.M, layer.K), strict=True)
    )
    return {"shape": layer.name, **dimensions, "terms": layer.terms, "worst_of_allowed": worst}


def _explain(variant: Variant, layer: Layer, batch: int, message: str) -> str:
    """Return the end of a failed check's message: the right order of the parameters, findings, or what to do next.

    A kernel with parameters of its own names may take them in another order. A kernel that reads
    what nobody wrote, or races, gives wrong numbers that look like wrong arithmetic. The sanitizer
    runs on the CPU engine, in a process of its own. The end is empty for a kernel of the lab.
    `message` is the message so far.
    """
    if not variant.own:
        return ""
    name = _find_name(variant)
    try:
        if order := orders.find_order(variant):
            own_names, passed = orders.list_names(variant), ", ".join(orders.NAMES)
            right = ", ".join(own_names[order.index(name)] for name in orders.NAMES)
            return (
                f"\nIt would be right if its parameters ({', '.join(own_names)}) got ({', '.join(order)}), but "
                f"{variant.rung.label} passes ({passed}): put them in this order, ({right})."
            )
        findings = sanitizer.sanitize(variant, layer, batch, engine="cpu", timeout=SANITIZER_S)
    except (EngineError, Interrupted):
        return (
            f"\nNext: lab.sanitize({name}, lab.{layer!r}, {batch}) looks for invalid addresses, races "
            "and uninitialized memory."
        )
    if not findings.rows:
        return _describe_larger(variant, layer, message) + (
            "\nThe sanitizer finds no invalid address, race or uninitialized memory on this shape, so the kernel "
            f"computes something else than the convolution.\nNext: lab.step({name}, layer=lab.{layer!r}) "
            "shows what one thread reads and computes, line by line."
        )
    return f"\nThe sanitizer says why:\n{findings}"


def _describe_larger(variant: Variant, layer: Layer, message: str) -> str:
    """Return what a wrong result looks like on a layer of several blocks each way, as more of a message; or "".

    On a layer as small as a block, a result that is shifted by a block is not written at all. What
    `message` says of the small layer, but for its numbers, is not said again.
    """
    larger, batch = _LARGER
    if min(layer.Ho, layer.Wo) >= min(larger.Ho, larger.Wo):
        return ""
    try:
        # hardly optimized in any case: it runs once, and only describes what another build got wrong
        with _plan(variant.on(larger), batch, quick=True) as plan:
            _run_inputs(plan, np.random.default_rng(1))
    except CheckFailed as wrong:
        first, *lines = str(wrong).splitlines()
        known = re.sub(r"\d+", "", message)
        hints = [
            line
            for line in lines
            if line.startswith(compare.LOOKS) and re.sub(r"\d+", "", line) not in known
        ]
        return "\n".join(["", first, *hints]) if hints else ""
    except (EngineError, hostcuda.driver.Error):  # it takes no such layer, or faults there
        pass
    return ""


def _find_name(variant: Variant) -> str:
    """Return the name of the global variable of the reader's program that holds a variant, else "variant"."""
    # a notebook's cells run in this module, too
    variables = tuple(vars(sys.modules["__main__"]).items())
    return next(
        (name for name, value in variables if value is variant and not name.startswith("_")),
        "variant",
    )


@contextmanager
def _name_stopped(task: str) -> Iterator[None]:
    """Turn Ctrl-C in the block into Interrupted, which says that `task` was stopped."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"{task} was stopped") from None


def _run_inputs(plan: Plan, rng: np.random.Generator) -> float:
    """Run a plan on each kind of inputs; return the largest error, as a fraction of its bound, or raise CheckFailed."""
    variant, layer, batch, worst = plan.variant, plan.layer, plan.batch, 0.0
    for about, draw in _INPUTS.items():
        x, k = draw(variant, layer, batch, rng)
        expected = conv_float64(x, k)
        if draw is compare.draw_reals:
            allowed = compare.tolerance(variant.rounding, error_scale(x, k), layer.terms)
        else:
            allowed = 0.0
            # the output is rounded once
            expected = expected.astype(variant.io_dtype).astype(np.float64)
        plan.load(x, k)
        compare.poison(plan)
        plan.run()
        title = f"{variant.label} is wrong on {layer}, B = {batch} ({about})"
        y = plan.result()
        try:
            worst = max(
                worst, compare.compare(y, expected, allowed, variant.io_dtype, title, (x, k))
            )
        except CheckFailed as wrong:
            # y += ... without y = 0 before makes NaN of the poison; with zeros there, it would go
            # unnoticed.
            if np.isnan(y).any() and _is_right_after_zeros(plan, expected, allowed):
                hint = (
                    "With zeros in y before, it is right: the kernel adds to y without setting it."
                )
                raise CheckFailed(f"{wrong}\n{hint}") from None
            raise
    return worst


def _is_right_after_zeros(plan: Plan, expected: np.ndarray, allowed: float | np.ndarray) -> bool:
    """Run the plan again with zeros in its output before; return whether the result is then right."""
    compare.poison(plan, with_zeros=True)
    plan.run()
    return bool((np.abs(plan.result() - expected) <= allowed).all())


_INPUTS = {
    "integers, which must be exact": compare.draw_integers,
    "real numbers, within rounding": compare.draw_reals,
    "large integers, whose sums must be exact": compare.draw_large_integers,
}


# (engine, identity of a variant that has passed `check`) -> shapes and seed of a check for which it
# was hardly optimized; else None
_verified: dict[tuple[str, str], tuple[dict[int, tuple[LayerKernel, int]], int] | None] = {}


def require_verified(variant: Variant) -> None:
    """Raise LabError if a variant, with its present source and options, has not passed `check` in this process.

    If it was hardly optimized for that check, check it once as it is compiled to be timed: raises
    CheckFailed if it is then wrong.
    """
    if not is_verified(variant):
        raise LabError(
            f"{variant.label} is not verified in this session: the time of a wrong kernel means nothing. "
            "Run labkit.check on this variant first"
        )
    # what it was checked on while hardly optimized, or None
    if checked_quickly := _verified[_key(variant)]:
        _check_shapes(variant, *checked_quickly, quick=False)
        _verified[_key(variant)] = None


def is_verified(variant: Variant) -> bool:
    """Return whether this variant has passed `check`, with this source, options and engine, in this process."""
    return _key(variant) in _verified


def _key(variant: Variant) -> tuple[str, str]:
    """Return a variant's key in `_verified`: (engine in use, digest of its source and options)."""
    return device().engine, variant.identity
