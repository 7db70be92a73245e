"""Layer times of pipelines: measured for every way to cut and issue a batch, and checked."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from tqdm import tqdm

from labkit import cuda
from labkit.base.errors import LabError
from labkit.ladder.variants import Variant
from labkit.measure.bench import BATCH, SampledImages
from labkit.measure.check import require_verified
from labkit.measure.pipeline import CHUNK, Pipeline, busy_ms, host_arrays, overlap
from labkit.spec.devices import Device, device
from labkit.spec.layers import Layer

SECONDS = 0.15  # spent on the timed runs of a configuration, within
RUNS = (2, 20)  # these limits
FRESH = 3  # runs that begin without buffers on the device
CHECKED_IMAGES = 4


def bench_streams(
    variant: Variant,
    layer: Layer,
    batch: int | None = None,
    chunk=CHUNK,
    streams: int | Iterable[int] = 3,
    pinned: bool | Iterable[bool] = True,
    order: str | Iterable[str] = "depth",
    repeat: int | None = None,
) -> pd.DataFrame:
    """Measure the layer time of pipelines: every combination of the given chunks, streams, memories and orders.

    Two layer times, both on the host's clock. `layer_ms` is the course's: from before the device's buffers and the
    streams are made to after the copy out. `steady_ms` is what every further batch takes when they are kept. Neither
    contains making the host's arrays: `pin_ms` tells what page-locking them took, and `stage_ms` what it takes to
    copy x from ordinary into page-locked memory and y back, for a caller who cannot fill `Pipeline.x` in place.

    Parameters
    ----------
    variant : Variant
        One that `check` has verified.
    layer : Layer
    batch : int, optional
        Images; by default what suits the engine.
    chunk : int, sequence of int, or list of these
        A list of integers are several chunk sizes; a tuple is one sequence of sizes.
    streams, pinned, order
        One value or several.
    repeat : int, optional
        Timed runs of each, after one that is not; by default as many as fit into 0.15 s, from 2 to 20.

    Returns
    -------
    DataFrame
        A row a combination: rung, label, layer, batch, dtype, pinned, streams, order, chunk (images of the largest),
        chunks (how many), sizes ("equal" or "growing"), layer_ms, steady_ms (medians), steady_min_ms, in_ms,
        kernel_ms, out_ms (busy times), overlap, pin_ms, stage_ms, engine, device.

    Raises
    ------
    LabError
        If the variant is not verified, memory does not suffice, or a time is under what the link permits.
    CheckFailed
        If a result is wrong.
    """
    batch = BATCH[device().engine] if batch is None else batch
    chunks = chunk if isinstance(chunk, list) else [chunk]
    others = [list(each) if isinstance(each, Iterable) and not isinstance(each, str) else [each]
              for each in (streams, pinned, order)]  # fmt: skip
    names = ("chunk", "streams", "pinned", "order")
    cases = [dict(zip(names, case, strict=True)) for case in itertools.product(chunks, *others)]
    return bench_cases(variant, layer, batch, cases, repeat)


def bench_cases(
    variant: Variant, layer: Layer, batch: int, cases: Sequence[dict], repeat: int | None = None
) -> pd.DataFrame:
    """`bench_streams` for a list of configurations: mappings with chunk, streams, pinned and order."""
    require_verified(variant)
    if repeat is not None and repeat < 1:
        raise LabError(f"repeat = {repeat}: at least one run has to be timed")
    rows = [None] * len(cases)
    with tqdm(total=len(cases), desc="measuring", delay=2, leave=False, file=sys.stdout) as progress:
        for memory in dict.fromkeys(case["pinned"] for case in cases):
            watch = _Watch(variant, layer, batch, memory)
            for i, case in enumerate(cases):
                if case["pinned"] == memory:
                    rows[i] = _bench_case(variant, layer, batch, case, repeat, watch)
                    progress.update()
            watch.close()
    table = pd.DataFrame(rows)
    table.attrs["note"] = device().note
    return table


class _Watch:
    """The host's arrays of a measurement, and whether what came back into them is right."""

    def __init__(self, variant, layer, batch, pinned):
        rng = np.random.default_rng(2)
        self.variant, dtype = variant, variant.io_dtype
        start = time.perf_counter()
        self.host = x, y = host_arrays(layer, batch, dtype, pinned)
        self.pin_ms = 1e3 * (time.perf_counter() - start) if pinned else 0.0
        images = rng.random(layer.x_shape(min(batch, 1000)), dtype=np.float32).astype(dtype)
        for first in range(0, batch, len(images)):  # shifted, so that no two images are alike
            part = x[first : first + len(images)]
            np.copyto(part, np.roll(images, first // len(images) + 1, axis=-1)[: len(part)])
        self.k = (rng.random(layer.k_shape, dtype=np.float32) - np.float32(0.25)).astype(dtype)
        self.stage_ms = self._staging() if pinned else 0.0
        self.spots = SampledImages(layer, batch, {dtype: (x, self.k)}, rng, CHECKED_IMAGES)
        self.sample = y.reshape(batch, -1)[:, :: max(1, y[0].size // 16)]  # of every image

    def _staging(self):
        """The host's own copies: x from ordinary into page-locked memory, y out of it [ms]."""
        x, y = self.host
        total = 0.0
        for target, source in ((x, x.copy()), (np.ones_like(y), y)):
            start = time.perf_counter()
            np.copyto(target, source)
            total += time.perf_counter() - start
        return 1e3 * total

    def poison(self):
        self.sample[...] = np.nan
        self.host[1][self.spots.images] = np.nan

    def check(self, when):
        missing = np.flatnonzero(np.isnan(self.sample).any(axis=1))
        self.spots.check(self.variant, when, self.host[1][self.spots.images], missing)

    def close(self):
        self.host = self.sample = None


def _bench_case(variant, layer, batch, case, repeat, watch) -> dict:
    """The row of one configuration."""
    fresh, steady = [], []
    for run in range(FRESH + 1):  # the first one warms up
        cuda.driver.Context.synchronize()
        if run == FRESH:
            watch.poison()
        start = time.perf_counter()
        with Pipeline(variant, layer, batch, **case, host=watch.host) as pipeline:
            pipeline.run(k=watch.k, events=False)
            fresh.append(1e3 * (time.perf_counter() - start))
    watch.check("before timing")
    layer_ms = float(np.median(fresh[1:]))
    runs = repeat or int(np.clip(1e3 * SECONDS / layer_ms, *RUNS))
    with Pipeline(variant, layer, batch, **case, host=watch.host) as pipeline:
        pipeline.run(k=watch.k)
        for run in range(runs):
            if run == runs - 1:
                watch.poison()
            start = time.perf_counter()
            pipeline.run(k=watch.k, events=False)
            steady.append(1e3 * (time.perf_counter() - start))
        watch.check("after timing")
        pipeline.run(k=watch.k)
        timeline, sizes = pipeline.timeline, pipeline.chunks
    refuse_impossible(variant, layer, batch, min(fresh + steady), device())
    busy = busy_ms(timeline)
    return {
        "rung": variant.rung.number,
        "label": variant.label,
        "layer": layer.name,
        "batch": batch,
        "dtype": variant.io_dtype.name,
        "pinned": case["pinned"],
        "streams": case["streams"],
        "order": case["order"],
        "chunk": max(sizes),
        "chunks": len(sizes),
        "sizes": "equal" if np.ndim(case["chunk"]) == 0 else "growing",
        "layer_ms": layer_ms,
        "steady_ms": float(np.median(steady)),
        "steady_min_ms": min(steady),
        "in_ms": busy["copy in"],
        "kernel_ms": busy["kernel"],
        "out_ms": busy["copy out"],
        "overlap": overlap(timeline),
        "pin_ms": watch.pin_ms,
        "stage_ms": watch.stage_ms,
        "engine": device().engine,
        "device": device().name,
    }


def refuse_impossible(variant: Variant, layer: Layer, batch: int, layer_ms: float, on: Device) -> None:
    """Refuse a layer time that the link's theoretical rate does not permit.

    Raises
    ------
    LabError
        If `layer_ms` is under the shortest possible time, or no number.
    """
    size = variant.io_dtype.itemsize
    largest = max(int(np.prod(shape, dtype=np.int64)) for shape in (layer.x_shape(batch), layer.y_shape(batch)))
    shortest = 1e3 * size * largest / on.peak_link
    if not layer_ms >= shortest or not layer_ms > 0:
        raise LabError(
            f"{variant.label} on {layer}, B = {batch}: a layer time of {layer_ms:.4g} ms, but the link of {on.name} "
            f"takes {shortest:.4g} ms at least. That is a bug in the measurement: is all of y copied back, and does "
            "the clock stop after it?"
        )
