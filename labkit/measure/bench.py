"""Measure time, in the one way that this lab uses.

A kernel is checked before it is timed and after it, and a time that the device cannot reach is
refused.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike
from tqdm import tqdm

import hostcuda
from hostcuda.errors import Interrupted
from hostcuda.source import without_comments
from labkit.base.errors import CheckFailed, LabError
from labkit.base.progress import show_progress
from labkit.ladder.buffers import images_with_nan
from labkit.ladder.plan import LayerKernel, Plan, draw_inputs
from labkit.ladder.tables import parse_kernel_times
from labkit.ladder.variants import Variant, as_variants
from labkit.measure.check import require_verified
from labkit.measure.compare import compare, poison, tolerance
from labkit.spec.devices import Device, device
from labkit.spec.layers import Layer, as_layers
from labkit.spec.reference import conv_float64, error_scale

BATCH = {"gpu": 1000, "cpu": 10}  # images by default: a kernel takes milliseconds on either engine
SECONDS = 0.5  # for the timed runs of a variant
RUNS = (3, 50)  # the least and the most timed runs of a variant
KERNEL_RUNS = 5  # the most further runs that time each kernel of a variant with several kernels
LAYER_RUNS = 3  # after a warm-up run; fewer if one takes long
WARM_UP_S = 0.05  # in this time a GPU raises its clock
CHECKED_IMAGES = 8

# words by which a source that uses the unit is recognized, the fastest first; other sources compute
# in FP32
_UNITS = {
    "tensor cores": re.compile(r"\b(wmma|wgmma|mma|mma_sync|tcgen05|cutlass|cute)\b"),
    "half2": re.compile(r"half|bfloat16|f16"),
}


def bench(
    variants: Variant | int | Iterable[Variant | int],
    layer: Layer | str | Iterable[Layer | str],
    batch: int | Iterable[int] | None = None,
    repeat: int | None = None,
    layer_time: bool = True,
) -> pd.DataFrame:
    """Measure op time and layer time of variants that `check` has verified.

    The op time is the time of the kernels between two events: the median of `repeat` runs. The runs
    of the variants alternate, in random order, so that a changing clock rate affects all of them
    alike. Before each run the output is filled with NaN and, on a GPU, the L2 cache is overwritten.
    The layer time is measured with the host's clock, for a caller who has the images in ordinary
    (pageable) memory: allocate, copy in, compute, copy back.

    Parameters
    ----------
    variants : Variant, rung number, or iterable of these
    layer : Layer, its name, or iterable of these
        `LENET86[1]`, or `LENET86` for its layers one after the other.
    batch : int or iterable of int, optional
        Images; by default `BATCH` of the engine.
    repeat : int, optional
        Timed runs; by default as many as fit into half a second, from 3 to 50.
    layer_time : bool
        Measure the layer time, too. False saves time with large batches; layer_ms is then NaN.

    Returns
    -------
    DataFrame
        A row per layer, batch and variant: rung, label, layer, batch, dtype (of x, k and y), op_ms
        (median), op_min_ms, op_q1_ms, op_q3_ms and op_max_ms (least, quartiles, largest), layer_ms
        (median), gflop_s (direct convolution's operations over op time), gb_s (bytes moved once
        over op time), x_reference (op time over `Layer.reference_ms`), images_s (batch over op
        time), engine, device, options, repeat, kernels_ms (the time of each kernel, if the variant
        has several; see `kernel_times`). `attrs["note"]` says so if these are not GPU times.

    Raises
    ------
    LabError
        If a variant is not verified, the device's memory does not suffice, or a time is impossible
        (`refuse_impossible`).
    CheckFailed
        If a result is wrong before or after timing.
    """
    with keep_inputs():
        return measure(variants, layer, batch, repeat, layer_time)


@contextmanager
def keep_inputs() -> Iterator[None]:
    """Let the calls of `measure` in the block share inputs, perhaps half a gigabyte, and free these at its end."""
    try:
        yield
    finally:
        _inputs.cache_clear()


def measure(
    variants: Variant | int | Iterable[Variant | int],
    layer: Layer | str | Iterable[Layer | str],
    batch: int | Iterable[int] | None = None,
    repeat: int | None = None,
    layer_time: bool = True,
) -> pd.DataFrame:
    """Measure as `bench` does, with its parameters, and return its table; inputs are kept for the next call.

    The caller is inside of `keep_inputs`, which frees them at its end.
    """
    variants, layers = as_variants(variants), as_layers(layer)
    batches = as_list(BATCH[device().engine] if batch is None else batch)
    require_runs(repeat)
    cases = [(one_layer, B) for one_layer in layers for B in batches]
    rows, length, progress = [], len(cases) * len(variants), None
    try:
        for variant in variants:
            require_verified(variant)  # which may check it, for seconds
        with show_progress(length) as progress:
            for case in cases:
                rows += _bench_case(variants, *case, repeat, layer_time, progress)
    except KeyboardInterrupt:
        measured = progress.n if progress else 0
        raise Interrupted(f"bench was stopped after {measured} of {length} measurements") from None
    table = pd.DataFrame(rows)
    table.attrs["note"] = device().note
    return table


def require_runs(repeat: int | None) -> None:
    """Raise LabError for a number of timed runs under one; None, by which the measurement chooses it, is allowed."""
    if repeat is not None and repeat < 1:
        raise LabError(f"repeat = {repeat}: at least one run has to be timed")


def as_list(one_or_many: Any) -> list:
    """Return the items of an iterable as a list; a single item, also a text, becomes a list of one."""
    many = isinstance(one_or_many, Iterable) and not isinstance(one_or_many, str)
    return list(one_or_many) if many else [one_or_many]


def _bench_case(
    variants: list[Variant],
    layer: Layer,
    batch: int,
    repeat: int | None,
    layer_time: bool,
    progress: tqdm,
) -> list[dict]:
    """Measure variants on one layer and batch; return their rows of the table of `bench`, as dicts.

    `repeat` is the number of timed runs, None to choose it; without `layer_time`, layer times are
    NaN. `progress` advances by one for each variant.
    """
    kernels = [variant.on(layer) for variant in variants]
    try:
        inputs, sampled = _inputs(layer, batch, frozenset(variant.io_dtype for variant in variants))
    except MemoryError as error:
        raise LabError(f"a batch of {batch}: {error}. Take a smaller one") from None
    try:
        op_ms, kernel_medians = _measure_op(kernels, batch, repeat, inputs, sampled, progress)
        layer_ms = [
            _measure_layer(kernel, batch, *inputs[kernel.variant.io_dtype])
            if layer_time
            else np.nan
            for kernel in kernels
        ]
    except hostcuda.driver.MemoryError as error:
        size = layer.bytes(batch, max(inputs, key=lambda dtype: dtype.itemsize)) / 1e9
        raise LabError(
            f"{layer} at B = {batch} needs more than {size:.2f} GB on the device, which does not have that "
            f"much: take a smaller batch ({error})"
        ) from error
    return [
        _make_row(*values, batch)
        for values in zip(kernels, op_ms, kernel_medians, layer_ms, strict=True)
    ]


@functools.lru_cache(maxsize=1)
def _inputs(layer: Layer, batch: int, dtypes: frozenset[np.dtype]) -> tuple[dict, SampledImages]:
    """Return ({data type: (x, k)}, random inputs of a batch; those of its images to check); keep the last call's."""
    rng = np.random.default_rng(2)
    x = np.empty(layer.x_shape(batch), np.float32)
    k = draw_inputs(x, layer, rng)
    inputs = {dtype: (x.astype(dtype), k.astype(dtype)) for dtype in dtypes}
    return inputs, SampledImages(layer, batch, inputs, rng)


def _measure_op(
    kernels: list[LayerKernel],
    batch: int,
    repeat: int | None,
    inputs: dict,
    sampled: SampledImages,
    progress: tqdm,
) -> tuple[list[np.ndarray], list[dict[str, float]]]:
    """Return two lists, per variant its op times [ms] and a dict of each kernel's median time [ms] if it has several.

    `inputs` maps a data type to (x, k). The first and the last output are checked; `progress`
    advances by a variant. The runs of all variants alternate, so all their plans exist at the same
    time.
    """
    with ExitStack() as stack:
        flush = stack.enter_context(flushing())
        plans, warm_up_ms = _load_plans(stack, kernels, batch, inputs), []
        for plan in plans:
            # y becomes NaN: an output that is not written is found
            poison(plan)
            plan.run()
            _check_on_device(sampled, plan, "before timing")
            warm_up_ms.append(_warm_up(plan))
        runs = [repeat or int(np.clip(SECONDS / (ms / 1e3), *RUNS)) for ms in warm_up_ms]

        op_ms = [[] for _ in plans]
        kernel_runs = [[] for _ in plans]
        rng = np.random.default_rng(0)
        for run in range(max(runs)):
            # see `bench`: a changing clock affects all variants alike
            for i in rng.permutation(len(plans)):
                if run >= runs[i]:
                    continue
                plan = plans[i]
                poison(plan)
                flush()
                op_ms[i].append(time_run(plan.run))
                if run == runs[i] - 1:  # the output of the last timed run itself
                    _check_on_device(sampled, plan, "after timing")
                    progress.update()
                if run < KERNEL_RUNS and len({launch.kernel for launch in plan.launches}) > 1:
                    flush()
                    kernel_runs[i].append(_time_kernels(plan))
    return [np.array(series) for series in op_ms], [
        pd.DataFrame(series).median().to_dict() for series in kernel_runs
    ]


def _load_plans(
    stack: ExitStack, kernels: list[LayerKernel], batch: int, inputs: dict
) -> list[Plan]:
    """Return a plan per kernel, with its inputs, which `stack` closes.

    Plans of one data type share x and y.
    """
    # data type -> the plan that owns x and y: several plans take no more memory
    plans, first_plans = ([], {})
    for kernel in kernels:
        dtype = kernel.variant.io_dtype
        shared = first_plans.get(dtype)
        # else it makes its own
        plan = kernel.plan(batch, *((shared.x, shared.y) if shared else ()))
        plans.append(stack.enter_context(plan))
        first_plans.setdefault(dtype, plan)
        plan.load(*inputs[dtype])
    return plans


def time_run(run: Callable[[], object], stream: object = None) -> float:
    """Return the time of `run()` between two events on a stream [ms]; waits for the second one."""
    start, end = hostcuda.driver.Event(), hostcuda.driver.Event()
    start.record(stream)
    run()
    end.record(stream)
    end.synchronize()
    return start.time_till(end)


def _time_kernels(plan: Plan) -> dict[str, float]:
    """Run once with an event between any two launches; return a dict: kernel to the total time of its launches [ms]."""
    events, times = [], {}
    # before each launch and after the last
    plan.run(mark=lambda: events.append(hostcuda.driver.Event().record()))
    events[-1].synchronize()
    for launch, (start, end) in zip(plan.launches, pairwise(events), strict=True):
        times[launch.kernel] = times.get(launch.kernel, 0.0) + start.time_till(end)
    return times


def _warm_up(plan: Plan) -> float:
    """Run a plan again and again for `WARM_UP_S`; return the shortest time of a run [ms]."""
    start, shortest = time.perf_counter(), np.inf
    while shortest == np.inf or time.perf_counter() - start < WARM_UP_S:
        shortest = min(shortest, time_run(plan.run))
    return max(shortest, 1e-3)  # a clock may show 0, by which the caller divides


def _measure_layer(kernel: LayerKernel, batch: int, x: np.ndarray, k: np.ndarray) -> float:
    """Return the median time [ms] to allocate, copy in, compute and copy back, with kernels compiled already."""
    y = np.empty(kernel.layer.y_shape(batch), kernel.variant.io_dtype)
    y.fill(0)  # allocates its pages, before the clock runs
    times = []
    while len(times) < 2 or (len(times) <= LAYER_RUNS and sum(times) < 1e3 * SECONDS):
        hostcuda.driver.Context.synchronize()
        start = time.perf_counter()
        with kernel.plan(batch) as plan:
            plan.load(x, k)
            plan.run()
            hostcuda.driver.memcpy_dtoh(y, plan.y)
            times.append(1e3 * (time.perf_counter() - start))
    return float(np.median(times[1:]))  # the first run is a warm-up


class SampledImages:
    """Some images of a batch, the first and the last among them, with the expected outputs.

    `inputs` are x and k of the whole batch in each data type. A batch of fewer than `count` images
    is taken whole.
    """

    def __init__(
        self,
        layer: Layer,
        batch: int,
        inputs: Mapping[np.dtype, tuple[np.ndarray, np.ndarray]],
        rng: np.random.Generator,
        count: int = CHECKED_IMAGES,
    ):
        """Choose the images at random, and compute their outputs in float64."""
        ends = {0, batch - 1}
        inner = rng.permutation(np.arange(1, batch - 1))[: count - len(ends)]
        self.images = np.array(sorted({*ends, *inner.tolist()}))
        self.layer, self.batch = layer, batch
        self.inputs = {dtype: (x[self.images], k) for dtype, (x, k) in inputs.items()}
        self.expected = {dtype: conv_float64(*pair) for dtype, pair in self.inputs.items()}
        self.scale = {dtype: error_scale(*pair) for dtype, pair in self.inputs.items()}

    def check(self, variant: Variant, when: str, y: np.ndarray, with_nan: np.ndarray) -> None:
        """Compare y [images, M, Ho, Wo], the output for some images of the batch, with the reference.

        `with_nan` are the indices of all images of the batch whose output has a NaN. Raises
        CheckFailed if an output is wrong or an image has a NaN; the message says `when`, such as
        "before timing".
        """
        dtype = variant.io_dtype
        title = f"{variant.label} is wrong {when}, on {self.layer}, B = {self.batch}"
        # `inputs`, and what follows from them, are kept for each data type to which they are rounded
        allowed = tolerance(variant.rounding, self.scale[dtype], self.layer.terms)
        compare(y, self.expected[dtype], allowed, dtype, title, self.inputs[dtype])
        if len(with_nan):
            raise CheckFailed(
                f"{title}: NaN in {len(with_nan)} images, {with_nan[0]} to {with_nan[-1]}"
            )


def _check_on_device(sampled: SampledImages, plan: Plan, when: str) -> None:
    """Copy the outputs of the sampled images back and check them; search those of all images for NaN on the device.

    Raises CheckFailed, with `when` ("before timing") in the message, if one is wrong.
    """
    dtype, shape = plan.variant.io_dtype, sampled.layer.y_shape(sampled.batch)
    y = np.empty((len(sampled.images), *shape[1:]), dtype)
    for i, image in enumerate(sampled.images.tolist()):
        # from the image's address
        hostcuda.driver.memcpy_dtoh(y[i], int(plan.y) + image * y[i].nbytes)
    sampled.check(plan.variant, when, y, images_with_nan(plan.y, shape, dtype))


@contextmanager
def flushing() -> Iterator[Callable[[], None]]:
    """Yield a function that empties a GPU's L2 cache by writing twice its size; it does nothing on the CPU engine."""
    if device().engine == "cpu":
        yield lambda: None
        return
    size = 2 * device().l2_bytes
    buffer = hostcuda.driver.mem_alloc(size)
    try:
        yield lambda: hostcuda.driver.memset_d8(buffer, 0, size)
    finally:
        buffer.free()


def _make_row(
    kernel: LayerKernel, op_ms: np.ndarray, medians: dict, layer_ms: float, batch: int
) -> dict:
    """Return a row of the table of `bench`, a dict; LabError for an op time that the device cannot reach.

    `op_ms` are the times of all runs, `medians` maps each kernel to its median time [ms]; it may be
    empty.
    """
    variant, layer, in_use = kernel.variant, kernel.layer, device()
    dtype = variant.io_dtype
    refuse_impossible(variant, layer, batch, op_ms.min(), in_use)
    op_times = quartiles(op_ms)
    median = op_times.pop("median_ms")
    return {
        "rung": variant.rung.number,
        "label": variant.label,
        "layer": layer.name,
        "batch": batch,
        "dtype": dtype.name,
        "op_ms": median,
        **{f"op_{name}": ms for name, ms in op_times.items()},
        "layer_ms": layer_ms,
        **compute_rates(layer, batch, dtype, median, in_use, variant.rung.products),
        "engine": in_use.engine,
        "device": in_use.name,
        "options": kernel.options_text,
        "code": variant.code,
        "repeat": len(op_ms),
        # "im2col=1.2 gemm=3.4"
        "kernels_ms": " ".join(f"{kernel}={ms:.5g}" for kernel, ms in medians.items()),
    }


def quartiles(ms: np.ndarray) -> dict[str, float]:
    """Return a dict with the least of some times, their quartiles and the largest, by the names below."""
    names = ("min_ms", "q1_ms", "median_ms", "q3_ms", "max_ms")
    return dict(zip(names, np.quantile(ms, np.arange(5) / 4).tolist(), strict=True))


def compute_rates(
    layer: Layer, batch: int, dtype: DTypeLike, op_ms: float, on: Device | str, products: str = ""
) -> dict[str, float]:
    """Return a dict of the rates that follow from an op time on the device `on`, named as in the table of `bench`.

    `op_ms` [ms] is the time of the layer's kernels for the batch. `dtype` is that of x and y;
    `products` says how tensor cores multiply floats, "3×FP16" (as three products of halves), or is "".
    """
    return {  # / 1e6: from operations or bytes per millisecond to 10^9 per second
        "gflop_s": layer.flops(batch) / op_ms / 1e6,
        "gb_s": layer.bytes(batch, dtype) / op_ms / 1e6,
        "x_reference": op_ms / layer.reference_ms(batch, dtype, on, products),
        "images_s": batch / op_ms * 1e3,
    }


def kernel_times(table: pd.DataFrame) -> pd.DataFrame:
    """Return the time of each kernel of the variants that have several kernels.

    The kernels were timed in runs of their own, with an event between any two launches, so their
    sum differs slightly from the op time.

    Parameters
    ----------
    table : DataFrame
        As returned by `bench`, or rows of recorded results.

    Returns
    -------
    DataFrame
        A row per kernel: label, layer, batch, kernel, op_ms (sum over its launches), share (of the
        sum over the variant's kernels), device. `attrs["note"]` is the note of `bench`.

    Raises
    ------
    LabError
        If no row has the times of several kernels.
    """
    rows = []
    for row in table.to_dict("records"):
        # {"im2col": 1.2, "gemm": 3.4}; {} for one kernel
        kernel_medians = parse_kernel_times(row.get("kernels_ms", ""))
        total = sum(kernel_medians.values())
        variant_columns = {name: row[name] for name in ("label", "layer", "batch", "device")}
        rows += [
            {**variant_columns, "kernel": kernel, "op_ms": ms, "share": ms / total}
            for kernel, ms in kernel_medians.items()
        ]
    if not rows:
        labels = ", ".join(dict.fromkeys(table["label"])) or "no variant"
        raise LabError(
            f"no times of single kernels: the table has {labels}, and each of these has one kernel"
        )
    times = pd.DataFrame(
        rows, columns=["label", "layer", "batch", "kernel", "op_ms", "share", "device"]
    )
    times.attrs["note"] = table.attrs.get("note", "")
    return times


def fastest_unit(variant: Variant) -> str:
    """Return the fastest unit that a variant's source uses: "tensor cores", "half2" or "FP32"."""
    # cuBLAS chooses its kernel: assume the fastest, because `refuse_impossible` needs a floor
    if variant.library:
        return "tensor cores"
    code = without_comments("\n".join([variant.source, *variant.headers]))
    # the fastest unit is first
    return next((unit for unit, words in _UNITS.items() if words.search(code)), "FP32")


def refuse_impossible(variant: Variant, layer: Layer, batch: int, op_ms: float, on: Device) -> None:
    """Raise LabError if `op_ms` is less than any kernel can take on the device `on`, or NaN.

    That floor is the time for the bytes moved once, or for a direct convolution's products on the
    fastest unit that the source uses, whichever is longer, at the theoretical peaks. An algorithm
    with fewer products (Winograd, FFT) can be faster; such a time is refused, too. The reference
    time, by rates near what programs reach, is longer: a time under it is not refused.
    """
    size, unit = variant.io_dtype.itemsize, fastest_unit(variant)
    written = int(np.prod(layer.y_shape(batch), dtype=np.int64)) * size
    read = layer.bytes(batch, variant.io_dtype) - written
    shortest = 1e3 * on.shortest_s(read, written, layer.flops(batch), unit)
    if not op_ms >= shortest:  # also for NaN
        raise LabError(
            f"{variant.label} on {layer}, B = {batch}: {op_ms:.4g} ms, but {on.name} cannot move the bytes "
            f"and compute the products ({unit}, the fastest unit in the source) in less than {shortest:.4g} "
            "ms. The measurement is wrong: check that the kernel runs and that the clock stops after it"
        )
