"""Measure and check the layer times of pipelines, for each way to cut a batch and to issue its chunks."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

import hostcuda
from hostcuda.registered import registered
from labkit.base.errors import LabError
from labkit.base.progress import show_progress
from labkit.ladder.plan import draw_inputs
from labkit.ladder.variants import Variant
from labkit.measure.bench import BATCH, SampledImages, as_list, require_runs
from labkit.measure.check import require_verified
from labkit.measure.pipeline import CHUNK, Pipeline, busy_ms, host_arrays, overlap
from labkit.spec.devices import Device, device
from labkit.spec.layers import Layer, as_layer

SECONDS = 0.15  # for the timed runs of a configuration
RUNS = (2, 20)  # the least and the most timed runs of a configuration
FRESH = 3  # timed runs that allocate their buffers on the device
CHECKED_IMAGES = 4


def bench_streams(
    variant: Variant,
    layer: Layer | str,
    batch: int | None = None,
    chunk: int | Sequence[int] | list = CHUNK,
    streams: int | Iterable[int] = 3,
    pinned: bool | Iterable[bool] = True,
    repeat: int | None = None,
) -> pd.DataFrame:
    """Measure the layer time of pipelines: every combination of the given chunks, streams and memories.

    There are two layer times, both on the host's clock. `layer_ms` is that of `labkit.bench`, too: it
    includes making the streams and the device's buffers. `steady_ms` is the time of each further
    batch with the same streams and buffers. Neither includes making the host's arrays. `pin_ms` is
    the time to allocate them page-locked, `register_ms` the time to page-lock filled arrays of the
    same size (cudaHostRegister), and `stage_ms` the time to copy x from ordinary into page-locked
    memory and y back, for a caller who cannot fill `Pipeline.x` in place.

    Parameters
    ----------
    variant : Variant
        A variant that `check` has verified.
    layer : Layer or its name
    batch : int, optional
        Images; by default `BATCH` of the engine.
    chunk : int, tuple of int, or list of these
        As `Pipeline` takes it, or a list of several.
    streams, pinned
        As `Pipeline` takes them, or several of each.
    repeat : int, optional
        Timed runs of each combination after a warm-up run; by default as many as fit into 0.15 s,
        from 2 to 20.

    Returns
    -------
    DataFrame
        A row per combination: rung, label, layer, batch, dtype, pinned, streams, order, chunk
        (images in the largest), chunks (their number), sizes ("equal" or "growing"), layer_ms,
        steady_ms (medians), steady_min_ms, in_ms, kernel_ms, out_ms (busy times), overlap, pin_ms,
        register_ms, stage_ms, engine, device.

    Raises
    ------
    LabError
        If the variant is not verified, memory does not suffice, or a time is impossible
        (`refuse_impossible`).
    CheckFailed
        If a result is wrong.
    """
    batch = BATCH[device().engine] if batch is None else batch
    # a tuple is a single case: the sizes of all its chunks
    chunks = chunk if isinstance(chunk, list) else [chunk]
    names = ("chunk", "streams", "pinned")  # parameters of `Pipeline`
    cases = [
        {**dict(zip(names, case, strict=True)), "order": "depth"}
        for case in itertools.product(chunks, *map(as_list, (streams, pinned)))
    ]
    return bench_cases(variant, as_layer(layer), batch, cases, repeat)


def bench_cases(
    variant: Variant, layer: Layer, batch: int, cases: Sequence[dict], repeat: int | None = None
) -> pd.DataFrame:
    """Measure a variant on one layer and batch; return a row with the columns of `bench_streams` per configuration.

    `cases` are the configurations: dicts with chunk, streams, pinned and order. `repeat` is the
    number of timed runs; None chooses it. Raises LabError if the variant has not passed `check`.
    """
    require_verified(variant)
    require_runs(repeat)
    rows: dict[int, dict] = {}  # by the place of the case in `cases`, whose order the table has
    with show_progress(len(cases)) as progress:
        # the host's arrays are made once in page-locked and once in ordinary memory, not per case
        for pinned in dict.fromkeys(case["pinned"] for case in cases):
            host = _Host(variant, layer, batch, pinned)
            for i, case in enumerate(cases):
                if case["pinned"] == pinned:
                    rows[i] = _bench_case(variant, layer, batch, case, repeat, host)
                    progress.update()
            del host  # frees its arrays, which may be gigabytes, before the next ones are allocated
    table = pd.DataFrame([rows[i] for i in range(len(cases))])
    table.attrs["note"] = device().note
    return table


class _Host:
    """The arrays x, k and y in host memory, the times to make them, and the check of y.

    `pin_ms`, `register_ms` and `stage_ms` are the columns of `bench_streams`; 0 for arrays that are
    not page-locked. `check` compares some images of y (`sampled`), and searches about 16 elements
    of each image (`nan_sample`, a view of y) for NaN.
    """

    def __init__(self, variant: Variant, layer: Layer, batch: int, pinned: bool):
        """Make the arrays, fill x and k with random numbers, and time what page-locked arrays cost."""
        rng, dtype = np.random.default_rng(2), variant.io_dtype
        start = time.perf_counter()
        self.x, self.y = host_arrays(layer, batch, dtype, pinned)
        self.pin_ms = 1e3 * (time.perf_counter() - start) if pinned else 0.0
        self.register_ms = _time_registration(self.x, self.y) if pinned else 0.0
        self.k = draw_inputs(self.x, layer, rng)
        self.stage_ms = (
            _time_copy(self.x, self.x.copy()) + _time_copy(np.ones_like(self.y), self.y)
            if pinned
            else 0.0
        )
        self.variant = variant
        self.sampled = SampledImages(layer, batch, {dtype: (self.x, self.k)}, rng, CHECKED_IMAGES)
        # about 16 per image
        self.nan_sample = self.y.reshape(batch, -1)[:, :: max(1, self.y[0].size // 16)]

    def poison(self) -> None:
        """Fill the elements of y that `check` looks at with NaN, so that it notices outputs that were not written."""
        self.nan_sample[...] = np.nan
        self.y[self.sampled.images] = np.nan

    def check(self, when: str) -> None:
        """Raise CheckFailed if y is wrong in a sampled image, or has a NaN in `nan_sample`; the message says `when`."""
        # the indices of such images
        with_nan = np.flatnonzero(np.isnan(self.nan_sample).any(axis=1))
        self.sampled.check(self.variant, when, self.y[self.sampled.images], with_nan)


def _time_registration(*models: np.ndarray) -> float:
    """Return the time to page-lock filled arrays of the shapes and types of the `models`, which do not change [ms]."""
    arrays = [hostcuda.driver.aligned_empty(model.shape, model.dtype) for model in models]
    for array in arrays:
        array.fill(1)  # allocates the pages
    start = time.perf_counter()
    with registered(*arrays):
        return 1e3 * (time.perf_counter() - start)


def _time_copy(target: np.ndarray, source: np.ndarray) -> float:
    """Copy an array in host memory to another; return the time [ms]."""
    start = time.perf_counter()
    np.copyto(target, source)
    return 1e3 * (time.perf_counter() - start)


def _bench_case(
    variant: Variant, layer: Layer, batch: int, case: dict, repeat: int | None, host: _Host
) -> dict:
    """Measure one configuration; return its row of the table of `bench_streams`, a dict.

    `case` has the arguments chunk, streams, pinned and order of `Pipeline`.
    """
    first_batch_ms = _time_first_batches(variant, layer, batch, case, host)
    layer_ms, further_batch_ms = float(np.median(first_batch_ms[1:])), []
    runs = repeat or int(np.clip(1e3 * SECONDS / layer_ms, *RUNS))
    with Pipeline(variant, layer, batch, **case, host=(host.x, host.y)) as pipeline:
        pipeline.run(k=host.k)
        for run in range(runs):
            if run == runs - 1:  # the output of the last run is checked
                host.poison()
            start = time.perf_counter()
            pipeline.run(k=host.k, events=False)
            further_batch_ms.append(1e3 * (time.perf_counter() - start))
        host.check("after timing")
        pipeline.run(k=host.k)  # with events, which the timed runs do without
        timeline, sizes = pipeline.timeline, pipeline.chunks
    refuse_impossible(variant, layer, batch, min(first_batch_ms + further_batch_ms), device())
    return {
        "rung": variant.rung.number,
        "label": variant.label,
        "layer": layer.name,
        "batch": batch,
        "dtype": variant.io_dtype.name,
        **{name: case[name] for name in ("pinned", "streams", "order")},
        "chunk": max(sizes),
        "chunks": len(sizes),
        "sizes": "equal" if np.ndim(case["chunk"]) == 0 else "growing",
        "layer_ms": layer_ms,
        "steady_ms": float(np.median(further_batch_ms)),
        "steady_min_ms": min(further_batch_ms),
        # `busy_ms` has the steps in this order: copy in, kernel, copy out.
        **dict(zip(("in_ms", "kernel_ms", "out_ms"), busy_ms(timeline), strict=True)),
        "overlap": overlap(timeline),
        "pin_ms": host.pin_ms,
        "register_ms": host.register_ms,
        "stage_ms": host.stage_ms,
        "engine": device().engine,
        "device": device().name,
    }


def _time_first_batches(
    variant: Variant, layer: Layer, batch: int, case: dict, host: _Host
) -> list[float]:
    """Return `FRESH` + 1 layer times [ms], each with a new pipeline; the first is a warm-up.

    Check the last output.
    """
    times = []
    for run in range(FRESH + 1):
        hostcuda.driver.Context.synchronize()
        if run == FRESH:
            host.poison()
        start = time.perf_counter()
        with Pipeline(variant, layer, batch, **case, host=(host.x, host.y)) as pipeline:
            pipeline.run(k=host.k, events=False)
            times.append(1e3 * (time.perf_counter() - start))
    host.check("before timing")  # before that of further batches
    return times


def refuse_impossible(
    variant: Variant, layer: Layer, batch: int, layer_ms: float, on: Device
) -> None:
    """Raise LabError if `layer_ms` is NaN, or too short for the link of the device `on` at its theoretical rate.

    The link carries both directions at once, so the larger of x and y gives the shortest possible
    time.
    """
    size = variant.io_dtype.itemsize
    largest = max(
        int(np.prod(shape, dtype=np.int64))
        for shape in (layer.x_shape(batch), layer.y_shape(batch))
    )
    shortest = 1e3 * size * largest / on.peak_link
    # `not ... >=`, because a NaN is refused, too; `> 0`, because `shortest` is 0 for an unknown link
    if not layer_ms >= shortest or not layer_ms > 0:
        raise LabError(
            f"{variant.label} on {layer}, B = {batch}: a layer time of {layer_ms:.4g} ms, but the link of "
            f"{on.name} takes at least {shortest:.4g} ms. The measurement is wrong: check that all of y is "
            "copied back and that the clock stops after it"
        )
