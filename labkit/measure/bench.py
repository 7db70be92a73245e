"""The one way this lab measures time: checked before, checked after, and refused if it cannot be true."""

from __future__ import annotations

import functools
import re
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack, contextmanager
from itertools import pairwise

import numpy as np
import pandas as pd
from tqdm import tqdm

from labkit import cuda
from labkit.base.errors import LabError
from labkit.ladder.buffers import images_with_nan
from labkit.ladder.plan import Plan
from labkit.ladder.variants import Variant, as_variants
from labkit.measure.check import CheckFailed, compare, poison, require_verified, tolerance
from labkit.spec.devices import Device, device
from labkit.spec.layers import Layer
from labkit.spec.reference import conv_float64, error_scale

BATCH = {"gpu": 1000, "cpu": 10}  # images that take milliseconds on either
SECONDS = 0.5  # spent on the timed runs of a variant, within
RUNS = (3, 50)  # these limits
PART_RUNS = 5  # at most, besides: of a variant with several kernels, each of them timed apart
LAYER_RUNS = 3  # after one to warm up; fewer if one takes long
WARM_UP_S = 0.05  # a GPU raises its clock in that time
CHECKED_IMAGES = 8

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_UNITS = {  # how a source that uses the unit can be recognized, the fastest first; every other source computes in FP32
    "tensor cores": re.compile(r"\b(wmma|wgmma|mma|mma_sync|tcgen05|cutlass|cute)\b"),
    "half2": re.compile(r"half|bfloat16|f16"),
}


def bench(
    variants: Variant | int | Iterable[Variant | int],
    layer: Layer | Iterable[Layer],
    batch: int | Iterable[int] | None = None,
    repeat: int | None = None,
    layer_time: bool = True,
) -> pd.DataFrame:
    """Measure op time and layer time of variants that `check` has verified.

    The op time is that of the kernels alone, between two events, the median of `repeat` runs. Runs of all
    variants alternate, so that a drifting clock meets them alike. Before each run the output is filled with
    NaN and, on a GPU, the L2 cache with something else. The layer time is the host's, for what a caller sees
    who has the images in ordinary memory: allocate, copy in, compute, copy back.

    Parameters
    ----------
    variants : Variant, rung number, or iterable of these
    layer : Layer or iterable of Layer
        `LENET86[1]`, or `LENET86` for its layers one after the other.
    batch : int or iterable of int, optional
        Images; by default what suits the engine, see `BATCH`.
    repeat : int, optional
        Timed runs; by default as many as fit into half a second, from 3 to 50.
    layer_time : bool
        Measure it, too; otherwise it is missing from the rows, and a large batch is done sooner.

    Returns
    -------
    DataFrame
        A row a layer, batch and variant: rung, label, layer, batch, dtype (of x, k and y), op_ms (median),
        op_min_ms and op_max_ms, layer_ms (median), gflop_s (direct convolution's operations over op time),
        gb_s (bytes moved once over op time), x_reference (op time over `Layer.reference_ms`), images_s (batch over
        op time), engine, device, options, repeat, kernels_ms (of a variant with several kernels, the time of each,
        see `kernel_times`). `attrs["note"]` says so where these are not GPU times.

    Raises
    ------
    LabError
        If a variant is not verified, the device's memory does not suffice, or a time is impossible
        (`refuse_impossible`).
    CheckFailed
        If a result is wrong before or after timing.
    """
    with inputs_kept():
        return measure(variants, layer, batch, repeat, layer_time)


@contextmanager
def inputs_kept():
    """Until its end, `measure` finds the inputs of its last call again: they may be half a gigabyte."""
    try:
        yield
    finally:
        _inputs.cache_clear()


def measure(variants, layer, batch=None, repeat=None, layer_time=True) -> pd.DataFrame:
    """What `bench` does, within `inputs_kept`; a sweep comes back for the same inputs, variant after variant."""
    variants = as_variants(variants)
    batches = as_list(BATCH[device().engine] if batch is None else batch)
    if repeat is not None and repeat < 1:
        raise LabError(f"repeat = {repeat}: at least one run has to be timed")
    for variant in variants:
        require_verified(variant)
    cases = [(each, B) for each in as_list(layer) for B in batches]
    rows = []
    # On standard output: notebooks show the other one in red.
    length = len(cases) * len(variants)
    with tqdm(total=length, desc="measuring", delay=2, leave=False, file=sys.stdout) as progress:
        for case in cases:
            rows += _bench_case(variants, *case, repeat, layer_time, progress)
    table = pd.DataFrame(rows)
    table.attrs["note"] = device().note
    return table


def as_list(one_or_many) -> list:
    """The things, of one or of several."""
    return list(one_or_many) if isinstance(one_or_many, Iterable) else [one_or_many]


def _bench_case(variants, layer: Layer, batch: int, repeat: int | None, layer_time: bool, progress: tqdm):
    """The rows of one layer and batch."""
    inputs, spots = _inputs(layer, batch, frozenset(each.io_dtype for each in variants))
    try:
        op_ms, parts = _op_times(variants, layer, batch, repeat, inputs, spots, progress)
        layer_ms = [_layer_time(each, layer, batch, *inputs[each.io_dtype]) if layer_time else np.nan
                    for each in variants]  # fmt: skip
    except cuda.driver.MemoryError as error:
        size = layer.bytes(batch, max(inputs, key=lambda dtype: dtype.itemsize)) / 1e9
        raise LabError(
            f"{layer} at B = {batch} takes {size:.2f} GB and more on the device, which does not have it: "
            f"take a smaller batch ({error})"
        ) from error
    return [_row(*each, layer, batch) for each in zip(variants, op_ms, parts, layer_ms, strict=True)]


@functools.lru_cache(maxsize=1)
def _inputs(layer: Layer, batch: int, dtypes: frozenset[np.dtype]) -> tuple[dict, SampledImages]:
    """x and k in each data type, and the images to check."""
    rng = np.random.default_rng(2)
    x = rng.random(layer.x_shape(batch), dtype=np.float32)
    k = rng.random(layer.k_shape, dtype=np.float32) - np.float32(0.25)
    inputs = {dtype: (x.astype(dtype), k.astype(dtype)) for dtype in dtypes}
    return inputs, SampledImages(layer, batch, inputs, rng)


def _op_times(variants, layer, batch, repeat, inputs, spots, progress) -> tuple[list, list]:
    """Of each variant the op times of its runs [ms], checked before and after, and the time of each kernel [ms]."""
    with ExitStack() as stack:
        flush = _Flush(device())
        stack.callback(flush.close)
        plans, first = [], {}
        for variant in variants:
            # Variants of one data type share x and y: comparing them takes no more memory than one of them.
            shared = first.get(variant.io_dtype)
            plan = variant.plan(layer, batch, *((shared.x, shared.y) if shared else ()))
            plans.append(stack.enter_context(plan))
            first.setdefault(variant.io_dtype, plan)
            plan.load(*inputs[variant.io_dtype])

        estimates = []
        for variant, plan in zip(variants, plans, strict=True):
            poison(plan, layer, batch, variant.io_dtype)
            plan.run()
            _check_on_device(spots, plan, variant, "before timing")
            estimates.append(_warm_up(plan))
        runs = [repeat or int(np.clip(SECONDS / (ms / 1e3), *RUNS)) for ms in estimates]

        times, parts = [[] for _ in variants], [[] for _ in variants]
        for run in range(max(runs)):
            for i, (variant, plan) in enumerate(zip(variants, plans, strict=True)):
                if run >= runs[i]:
                    continue
                poison(plan, layer, batch, variant.io_dtype)
                flush()
                times[i].append(_timed(plan))
                if run == runs[i] - 1:  # the output of the last timed run itself
                    _check_on_device(spots, plan, variant, "after timing")
                    progress.update()
                if run < PART_RUNS and len({launch.kernel for launch in plan.launches}) > 1:
                    flush()
                    parts[i].append(_timed_apart(plan))
    medians = [{kernel: np.median([run[kernel] for run in each]) for kernel in each[0]} if each else {}
               for each in parts]  # fmt: skip
    return [np.array(each) for each in times], medians


def _timed(plan: Plan) -> float:
    """One run, between two events [ms]."""
    start, end = cuda.driver.Event(), cuda.driver.Event()
    start.record()
    plan.run()
    end.record()
    end.synchronize()
    return start.time_till(end)


def _timed_apart(plan: Plan) -> dict[str, float]:
    """One run with an event between any two launches: of each kernel the time of all its launches [ms]."""
    events, spent = [], {}
    plan.run(mark=lambda: events.append(cuda.driver.Event().record()))
    events[-1].synchronize()
    for launch, (start, end) in zip(plan.launches, pairwise(events), strict=True):
        spent[launch.kernel] = spent.get(launch.kernel, 0.0) + start.time_till(end)
    return spent


def _warm_up(plan: Plan) -> float:
    """Run for a while; the shortest of the times [ms]."""
    started, shortest = time.perf_counter(), np.inf
    while shortest == np.inf or time.perf_counter() - started < WARM_UP_S:
        shortest = min(shortest, _timed(plan))
    return max(shortest, 1e-3)


def _layer_time(variant: Variant, layer: Layer, batch: int, x: np.ndarray, k: np.ndarray) -> float:
    """Allocate, copy in, compute, copy back: median of the host's clock [ms]. Everything is compiled by now."""
    y = np.zeros(layer.y_shape(batch), variant.io_dtype)
    y.fill(0)  # the pages exist before the clock runs
    times = []
    while len(times) < 2 or (len(times) <= LAYER_RUNS and sum(times) < 1e3 * SECONDS):
        cuda.driver.Context.synchronize()
        start = time.perf_counter()
        with variant.plan(layer, batch) as plan:
            plan.load(x, k)
            plan.run()
            cuda.driver.memcpy_dtoh(y, plan.y)
            times.append(1e3 * (time.perf_counter() - start))
    return float(np.median(times[1:]))


class SampledImages:
    """Some images of a batch, the first and the last among them, and what they have to become.

    Parameters
    ----------
    layer : Layer
    batch : int
    inputs : mapping of dtype to (x, k)
        Of the whole batch.
    rng : numpy.random.Generator
        Draws the images.
    count : int
        How many, or all of a batch that has fewer.
    """

    def __init__(self, layer, batch, inputs, rng, count=CHECKED_IMAGES):
        ends = {0, batch - 1}
        inner = rng.permutation(np.arange(1, batch - 1))[: count - len(ends)]
        self.images = np.array(sorted({*ends, *inner.tolist()}))
        self.layer, self.batch = layer, batch
        self.inputs = {dtype: (x[self.images], k) for dtype, (x, k) in inputs.items()}
        self.expected = {dtype: conv_float64(*each) for dtype, each in self.inputs.items()}
        self.scale = {dtype: error_scale(*each) for dtype, each in self.inputs.items()}

    def check(self, variant, when, y, missing):
        """Hold y, the output of these images, against the reference; `missing`: which of all images have a NaN.

        Raises
        ------
        CheckFailed
        """
        dtype = variant.io_dtype
        title = f"{variant.label} is wrong {when}, on {self.layer}, B = {self.batch}"
        allowed = tolerance(variant.rounding, self.scale[dtype], self.layer.terms)
        compare(y, self.expected[dtype], allowed, dtype, title, self.inputs[dtype])
        if len(missing):
            raise CheckFailed(f"{title}: NaN in {len(missing)} images, {missing[0]} to {missing[-1]}")


def _check_on_device(spots, plan, variant, when):
    """Copy the spots back and hold them against the reference; all other images stay on the device."""
    dtype, shape = variant.io_dtype, spots.layer.y_shape(spots.batch)
    y = np.empty((len(spots.images), *shape[1:]), dtype)
    for i, image in enumerate(spots.images.tolist()):
        cuda.driver.memcpy_dtoh(y[i], int(plan.y) + image * y[i].nbytes)
    spots.check(variant, when, y, images_with_nan(plan.y, shape, dtype))


class _Flush:
    """Empties a GPU's L2 cache by writing twice its size; does nothing on a CPU."""

    def __init__(self, device: Device):
        self.bytes = 2 * device.l2_bytes if device.engine == "gpu" else 0
        self.buffer = None

    def __call__(self):
        if self.bytes:
            if self.buffer is None:
                self.buffer = cuda.driver.mem_alloc(self.bytes)
            cuda.driver.memset_d8(self.buffer, 0, self.bytes)

    def close(self):
        if self.buffer is not None:
            self.buffer.free()


def _row(variant: Variant, op_ms: np.ndarray, parts: dict, layer_ms: float, layer: Layer, batch: int) -> dict:
    here, dtype = device(), variant.io_dtype
    refuse_impossible(variant, layer, batch, op_ms.min(), here)
    median = float(np.median(op_ms))
    return {
        "rung": variant.rung.number,
        "label": variant.label,
        "layer": layer.name,
        "batch": batch,
        "dtype": dtype.name,
        "op_ms": median,
        "op_min_ms": float(op_ms.min()),
        "op_max_ms": float(op_ms.max()),
        "layer_ms": layer_ms,
        **rates(layer, batch, dtype, median, here),
        "engine": here.engine,
        "device": here.name,
        "options": variant.options_on(layer),
        "code": variant.code,
        "repeat": len(op_ms),
        "kernels_ms": " ".join(f"{kernel}={ms:.5g}" for kernel, ms in parts.items()),
    }


def rates(layer: Layer, batch: int, dtype, op_ms: float, on: Device | str) -> dict[str, float]:
    """What an op time amounts to, in the columns of `bench`: gflop_s, gb_s, x_reference, images_s."""
    return {
        "gflop_s": layer.flops(batch) / op_ms / 1e6,
        "gb_s": layer.bytes(batch, dtype) / op_ms / 1e6,
        "x_reference": op_ms / layer.reference_ms(batch, dtype, on),
        "images_s": batch / op_ms * 1e3,
    }


def kernel_times(table: pd.DataFrame) -> pd.DataFrame:
    """The times of each kernel of variants that have several.

    They were timed with an event between any two launches, in runs besides the op time's, so their sum is not the
    op time to the last digit.

    Parameters
    ----------
    table : DataFrame
        As `bench` returns it, or rows of recorded results.

    Returns
    -------
    DataFrame
        A row a kernel: label, layer, batch, kernel, op_ms (of all its launches together), share (of the sum over the
        variant's kernels), device. `attrs["note"]` as `bench` gives it.

    Raises
    ------
    LabError
        If no row has the times of its kernels.
    """
    rows = []
    for row in table.to_dict("records"):
        text = row.get("kernels_ms")
        parts = dict(each.split("=") for each in text.split()) if isinstance(text, str) else {}
        total = sum(map(float, parts.values()))
        about = {name: row[name] for name in ("label", "layer", "batch", "device")}
        rows += [{**about, "kernel": kernel, "op_ms": float(ms), "share": float(ms) / total}
                 for kernel, ms in parts.items()]  # fmt: skip
    if not rows:
        known = ", ".join(dict.fromkeys(table["label"])) or "no variant"
        raise LabError(f"no times kernel by kernel: the table has {known}, and only rung 05 has several kernels")
    found = pd.DataFrame(rows)[["label", "layer", "batch", "kernel", "op_ms", "share", "device"]]
    found.attrs["note"] = table.attrs.get("note", "")
    return found


def fastest_unit(variant: Variant) -> str:
    """The fastest unit that a variant's source uses, by its instructions: "tensor cores", "half2" or "FP32"."""
    if variant.library:  # cuBLAS chooses its kernel
        return "tensor cores"
    code = _COMMENT.sub(" ", "\n".join([variant.source, *variant.headers]))
    return next((unit for unit, instruction in _UNITS.items() if instruction.search(code)), "FP32")


def refuse_impossible(variant: Variant, layer: Layer, batch: int, op_ms: float, on: Device) -> None:
    """Refuse a time under the floor: bytes moved once, or a direct convolution's products on the kernel's fastest unit.

    Both are at the theoretical peaks of the device. A time under the reference time is not refused. The floor assumes
    all products of a direct convolution; it is not one for an algorithm with fewer (Winograd, FFT).

    Raises
    ------
    LabError
        If `op_ms` is under the floor, or is not a number.
    """
    size, unit = variant.io_dtype.itemsize, fastest_unit(variant)
    written = int(np.prod(layer.y_shape(batch), dtype=np.int64)) * size
    read = layer.bytes(batch, variant.io_dtype) - written
    shortest = 1e3 * on.shortest_s(read, written, layer.flops(batch), unit)
    if not op_ms >= shortest:
        raise LabError(
            f"{variant.label} on {layer}, B = {batch}: {op_ms:.4g} ms, but {on.name} cannot move the bytes and compute "
            f"the products ({unit}, the fastest unit in the source) in less than {shortest:.4g} ms. The measurement is "
            "wrong: check that the kernel runs and that the clock stops after it"
        )
