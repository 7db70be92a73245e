"""The times of the steps that lead from the plain network to the fused one; each step changes one thing."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import numpy as np
import pandas as pd

import hostcuda
from labkit.ladder.buffers import Buffers
from labkit.measure.bench import flushing, require_runs
from labkit.networks.benchmark import (
    BATCH,
    DEVICE,
    HOST,
    PLAIN,
    REPEAT,
    Entry,
    Images,
    make_row,
    measure_cases,
    summarize_times,
)
from labkit.networks.fused import FusedNetwork
from labkit.networks.lenet86 import CLASSES, Network, NetworkBatch, allocate_page_locked
from labkit.spec.devices import device

TENSOR_CORES = "split_floats"  # the convolutions of the step on tensor cores
WHOLE = "all"  # in the column `kernel`: the whole pass


def bench_steps(batch: int | None = None, repeat: int | None = None) -> pd.DataFrame:
    """Measure the forward pass of lenet86 at each step from the plain network to the fused one.

    The runs of all cases alternate. They are timed and checked as those of `labkit.bench_network`.
    Images that are on the device already:

    - "plain": a kernel per layer, with the convolutions of `PLAIN`; all buffers are allocated
      before. Each kernel is also timed by itself, between two events.
    - "plain, on tensor cores": the same with the convolutions of `TENSOR_CORES`.
    - "fused": one kernel, in float and in half. "fused, again" is the same as "fused" in float: how
      much they differ says how much difference needs no cause.

    Images that are copied from the host:

    - "plain": ordinary memory, and a pass allocates its buffers: `Network.forward`.
    - "plain, allocated before".
    - "plain, page-locked": as all that follow, allocated before, in page-locked memory.
    - "plain, on tensor cores, page-locked".
    - "fused, one piece": one copy, one kernel, one copy.
    - "fused": chunks on streams, in float and in half, and from bytes, too.

    Parameters
    ----------
    batch : int, optional
        Images; by default `BATCH` of the engine.
    repeat : int, optional
        Timed runs of each case; by default `REPEAT` of the engine.

    Returns
    -------
    DataFrame
        The columns of `labkit.bench_network`: label, where, ms and more; and `kernel`: "all", the
        whole pass, or the layer that was timed by itself. With few images, the time of a pass of
        many kernels on the device includes the host's time for their launches. `attrs["note"]` says
        so if these are not GPU times.

    Raises
    ------
    LabError
        If the fused network cannot run here.
    CheckFailed
        If probabilities are wrong before or after timing.
    """
    in_use = device()
    repeat = REPEAT[in_use.engine] if repeat is None else repeat
    require_runs(repeat)
    B = BATCH[in_use.engine] if batch is None else batch
    with ExitStack() as stack:
        flush, images = stack.enter_context(flushing()), Images(B)
        ordinary, _, _ = images.forms["float32"]  # the images, in ordinary memory
        networks = {
            "plain": Network(images.weights, PLAIN),
            "plain, on tensor cores": Network(images.weights, TENSOR_CORES),
        }
        # Two batches each: `Images.check` reads the probabilities on the device again when all cases
        # have run, so no other case may write there.
        on_device, from_host = (
            {name: stack.enter_context(net.batch(B)) for name, net in networks.items()}
            for _ in range(2)
        )
        for net_batch in (*on_device.values(), *from_host.values()):
            net_batch.x[...] = ordinary  # page-locked memory
            hostcuda.driver.memcpy_htod(net_batch.device_x, ordinary)
        cases = [
            *_list_on_device(on_device),
            _make_allocating_case(networks["plain"], ordinary),
            _make_host_case(
                "plain, allocated before",
                stack.enter_context(networks["plain"].batch(B, ordinary)),
            ),
            *(_make_host_case(f"{name}, page-locked", each) for name, each in from_host.items()),
            *_list_fused(stack, images),
        ]
        layer_times: dict[str, list[dict[str, float]]] = {name: [] for name in networks}

        def time_all_layers() -> None:
            """Run a pass of each network with a kernel per layer, and keep the times of its layers."""
            for name, net_batch in from_host.items():
                flush()
                flush()  # meanwhile the host issues the launches, as in `Entry.time`
                layer_times[name].append(time_layers(net_batch))

        measure_cases(images, cases, repeat, flush, time_all_layers)
        rows = [make_row(case, B) | {"kernel": WHOLE} for case in cases]
        rows += _make_layer_rows(rows, layer_times)
    table = pd.DataFrame(rows)
    table.attrs["note"] = in_use.note
    return table


def time_layers(batch: NetworkBatch) -> dict[str, float]:
    """Run a pass with an event between any two layers; return the time of each layer's kernels [ms], by its name."""
    events: list = []
    # `launch` calls `mark` before each layer and after the last one
    batch.launch(mark=lambda: events.append(hostcuda.driver.Event().record()))
    events[-1].synchronize()
    return {
        name: start.time_till(end)
        for name, (start, end) in zip(batch.steps, itertools.pairwise(events), strict=True)
    }


def _make_layer_rows(
    rows: list[dict], layer_times: Mapping[str, list[dict[str, float]]]
) -> Iterator[dict]:
    """Yield a row per layer of each network in `layer_times`; it continues that of the pass on the device in `rows`."""
    passes = {row["label"]: row for row in rows if row["where"] == DEVICE}
    for label, times in layer_times.items():
        for name in times[0]:
            layer_ms = [time[name] for time in times]
            yield (
                passes[label] | summarize_times(layer_ms, passes[label]["batch"]) | {"kernel": name}
            )


def _list_on_device(batches: Mapping[str, NetworkBatch]) -> Iterator[Entry]:
    """Yield the cases with a kernel per layer and the images on the device."""
    for name, batch in batches.items():
        shape = len(batch.x), CLASSES
        yield Entry(
            label=name,
            dtype="float32",
            where=DEVICE,
            pixels="float32",
            bound="float32",
            run=batch.launch,
            result=lambda numbers, y=batch.device_y, shape=shape: Buffers.copy_out(y, shape)[
                numbers
            ],
            before=functools.partial(_spoil, batch.device_y, len(batch.x)),
        )


def _spoil(y: object, B: int) -> None:
    """Set the probabilities of B images in device buffer y to NaN."""
    hostcuda.driver.memset_d8(y, 0xFF, 4 * CLASSES * B)


def _make_allocating_case(network: Network, images: np.ndarray) -> Entry:
    """Return the case of `Network.forward`, which allocates and frees its buffers."""
    last_run: dict[str, np.ndarray] = {}
    return Entry(
        label="plain",
        dtype="float32",
        where=HOST,
        pixels="float32",
        bound="float32",
        run=lambda: last_run.update(y=network.forward(images)),
        result=lambda numbers: last_run["y"][numbers],
        before=last_run.clear,
    )


def _make_host_case(label: str, batch: NetworkBatch) -> Entry:
    """Return the case of a kernel per layer from host memory, with all buffers allocated before."""
    return Entry(
        label=label,
        dtype="float32",
        where=HOST,
        pixels="float32",
        bound="float32",
        run=batch.run,
        result=lambda numbers: batch.y[numbers],
        before=lambda: batch.y.fill(np.nan),
    )


def _list_fused(stack: ExitStack, images: Images) -> Iterator[Entry]:
    """Yield the cases of the fused network; `stack` closes what they use."""
    memory, B = stack.enter_context(Buffers()), images.count
    floats, _, _ = images.forms["float32"]
    x = memory.copy_in(floats)
    # form of the images -> (page-locked array, height and width of bytes, the value that stands for 1)
    arrays = {}
    for pixels in ("float32", "uint8 86x86"):
        array, source, white = images.forms[pixels]
        arrays[pixels] = allocate_page_locked(array.shape, array.dtype), source, white
        arrays[pixels][0][...] = array
    for dtype in ("float32", "float16"):
        network = stack.enter_context(FusedNetwork(images.weights, dtype))
        for label in ("fused", "fused, again") if dtype == "float32" else ("fused",):
            # a buffer for each case: `Images.check` reads it again when all cases have run
            y = memory.new((B, CLASSES))
            yield Entry(
                label=label,
                dtype=dtype,
                where=DEVICE,
                pixels="float32",
                bound=dtype,
                run=functools.partial(network.launch, x, y, B),
                result=lambda numbers, y=y: memory.copy_out(y, (B, CLASSES))[numbers],
                before=functools.partial(_spoil, y, B),
            )
        for label, pixels, pieces in (
            ("fused, one piece", "float32", {"chunk": B, "streams": 1}),
            ("fused", "float32", {}),
            ("fused", "uint8 86x86", {}),
        ):
            array, source, white = arrays[pixels]
            batch = stack.enter_context(network.batch(B, source, white, array, **pieces))
            yield Entry(
                label=label,
                dtype=dtype,
                where=HOST,
                pixels=pixels,
                bound=dtype,
                run=batch.run,
                result=lambda numbers, batch=batch: batch.y[numbers],
                before=lambda batch=batch: batch.y.fill(np.nan),
            )
