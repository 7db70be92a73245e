"""Process a batch in chunks on streams, so that copies and kernels of different chunks overlap.

The kernels do not change; the host issues them differently. A `Pipeline` cuts the batch into
chunks, and issues for each chunk a copy in, the kernels and a copy out on one of its streams. The
work of one stream runs in order; the work of different streams overlaps: the link transfers in both
directions while the multiprocessors compute. Only page-locked ("pinned") host memory can be copied
in the background.

    with Pipeline(variant(3), LENET86[0], batch=10_000, chunk=1000, streams=3) as pipeline:
        y = pipeline.run(x, k)
        overlap(pipeline.timeline)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike

import hostcuda
from labkit.base.errors import LabError
from labkit.base.numerals import is_whole, shorten
from labkit.ladder.buffers import Closing
from labkit.ladder.variants import Variant, as_variants
from labkit.spec.devices import Device, device
from labkit.spec.layers import Layer, as_layer

STEPS = ("copy in", "kernel", "copy out")  # of each chunk, in this order
MAX_STREAMS = 32  # a GPU has at most this many hardware queues; more streams would share them
ORDERS = ("depth", "breadth")
CHUNK = 1000


def chunk_sizes(batch: int, chunk: int | Sequence[int]) -> tuple[int, ...]:
    """Return the number of images of each chunk: (4, 4, 2) for a batch of 10 in chunks of 4.

    `chunk` is the size of all chunks but perhaps the last, or the sizes of all. Raises LabError if
    a size is not a positive integer, or the sizes do not add up to the batch.
    """
    sizes = list(chunk) if isinstance(chunk, Iterable) else [chunk]
    for size in sizes or [0]:  # an empty list is refused, too, as a chunk of 0 images
        if not is_whole(size):
            raise LabError(
                f"a chunk of {shorten(size)} images: its size must be an integer of at least 1"
            )
    if not isinstance(chunk, Iterable):
        return tuple(min(chunk, batch - start) for start in range(0, batch, chunk))
    if (images := sum(sizes)) != batch:
        # Python refuses to print integers of more than 4300 digits
        total = f"{images:,}" if images < 1e30 else "far too many"
        raise LabError(
            f"the {len(sizes)} chunks have {total} images in total; the batch has {batch:,}"
        )
    return tuple(map(int, sizes))  # NumPy's integers become Python's


def issue_order(chunks: int, streams: int, order: str = "depth") -> list[tuple[int, str]]:
    """Return the order in which the host issues the steps of all chunks: pairs such as (0, "copy in").

    The steps of a chunk are "copy in", "kernel" and "copy out". Chunk i runs on stream i modulo `streams`.
    Depth first: all steps of a chunk, then the next chunk. Breadth first: for a group of one chunk
    per stream all copies in, then all kernels, then all copies out. Raises LabError for any other
    order.
    """
    if order not in ORDERS:
        raise LabError(f"order={order!r}: the steps are issued {' or '.join(ORDERS)} first")
    if order == "depth":
        return [(chunk, step) for chunk in range(chunks) for step in STEPS]
    groups = (range(start, min(start + streams, chunks)) for start in range(0, chunks, streams))
    return [(chunk, step) for group in groups for step in STEPS for chunk in group]


def _require_stream_count(streams: int) -> int:
    """Return a number of streams as an int; LabError if it is none from 1 to `MAX_STREAMS`."""
    if not is_whole(streams, most=MAX_STREAMS):
        raise LabError(
            f"streams={streams!r}: an integer from 1 to {MAX_STREAMS}; a GPU has no more than {MAX_STREAMS} "
            "queues"
        )
    return int(streams)


def host_arrays(
    layer: Layer | str, batch: int, dtype: DTypeLike = np.float32, pinned: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Return zeroed arrays in host memory, page-locked if `pinned`: inputs x [B,C,H,W], outputs y [B,M,Ho,Wo].

    Page-locked pages stay where they are, so that the device can copy them while the host does
    other work. Locking a gigabyte takes longer than copying it, so lock once and keep the arrays.
    Raises LabError if there is not that much memory.
    """
    hostcuda.ensure_context()
    layer = as_layer(layer)
    empty = hostcuda.driver.pagelocked_empty if pinned else np.empty
    try:
        x, y = (
            empty(shape, np.dtype(dtype)) for shape in (layer.x_shape(batch), layer.y_shape(batch))
        )
    except (hostcuda.driver.MemoryError, hostcuda.driver.LogicError, MemoryError) as error:
        memory = (
            f"{layer.bytes(batch, dtype) / 1e9:.2f} GB of {'page-locked ' if pinned else ''}memory"
        )
        raise LabError(
            f"cannot allocate {memory} for {layer}, B = {batch} ({error}): take a smaller batch"
            + (", or pinned=False" if pinned else "")
        ) from error
    # np.empty only reserves memory: the first write allocates it, here instead of in a timed run
    x.fill(0)
    y.fill(0)
    return x, y


class Pipeline(Closing):
    """A variant that computes a batch in chunks, on streams.

    Parameters
    ----------
    variant : Variant
    layer : Layer
    batch : int
        Images, at least 1.
    chunk : int or sequence of int
        Images per chunk, where the last chunk takes the rest; or the size of each chunk.
    streams : int
        1 to 32. Chunk i goes to stream i modulo `streams`; each stream has device buffers for its
        largest chunk.
    pinned : bool
        Whether the host's arrays are page-locked.
    order : {"depth", "breadth"}
        The order in which the host issues the steps; see `issue_order`.
    host : pair of arrays, optional
        x and y of the caller, as `host_arrays` makes them; by default the pipeline makes them.

    Attributes
    ----------
    x, y : ndarray
        The host's arrays, [B,C,H,W] and [B,M,Ho,Wo], in `variant.io_dtype`. Filling `x` in place
        saves a copy.
    chunks : tuple of int
        Images in each chunk.
    streams : int
        At most the number of chunks.

    Raises
    ------
    LabError
        If the batch, a chunk, the number of streams or the order is invalid, if the variant does
        not support the layer, or if the memory of the host or of the device does not suffice.
    """

    def __init__(
        self,
        variant: Variant | int | str,
        layer: Layer | str,
        batch: int,
        chunk: int | Sequence[int] = CHUNK,
        streams: int = 3,
        pinned: bool = True,
        order: str = "depth",
        host: tuple[np.ndarray, np.ndarray] | None = None,
    ):
        """Choose the order, allocate the host's arrays and the device buffers, and compile."""
        (variant,) = as_variants(variant)
        self._kernel = variant.on(layer)
        self.variant, self.layer, self.pinned = variant, self._kernel.layer, bool(pinned)
        self.batch = self.layer.x_shape(batch)[0]
        self.chunks = chunk_sizes(self.batch, chunk)  # images of each
        self.streams = min(_require_stream_count(streams), len(self.chunks))
        self._order = issue_order(len(self.chunks), self.streams, order)
        self.x, self.y = self._choose_host_arrays(host)
        self._k = None
        self._events = None
        # of each stream: images of a chunk -> plan
        self._plans: list[dict] = [{} for _ in range(self.streams)]
        try:
            self._allocate()
        except BaseException:
            self.close()
            raise

    def _choose_host_arrays(
        self, host: tuple[np.ndarray, np.ndarray] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the caller's x and y, or new ones for None; LabError if the caller's have another shape or type."""
        dtype = self.variant.io_dtype
        if host is None:
            return host_arrays(self.layer, self.batch, dtype, self.pinned)
        for name, array, shape in zip(
            "xy",
            host,
            (self.layer.x_shape(self.batch), self.layer.y_shape(self.batch)),
            strict=True,
        ):
            if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
                raise LabError(
                    f"the host's {name} is {array.dtype} of the shape {array.shape}; {self.layer}, batch "
                    f"{self.batch}, needs {dtype} of {shape} in C order: see host_arrays"
                )
        return host

    def _allocate(self) -> None:
        """Make the streams, and in `_plans` a plan for each size of a stream's chunks.

        The plans of a stream share the buffers of the largest one, and all plans share the mask.
        """
        hostcuda.ensure_context()
        try:
            self._streams = [hostcuda.driver.Stream() for _ in range(self.streams)]
            shared_k = None
            for i, plans_by_size in enumerate(self._plans):
                sizes = sorted(set(self.chunks[i :: self.streams]), reverse=True)
                for images in sizes:
                    largest = plans_by_size.get(sizes[0])  # None at first: this plan is the largest
                    buffers = (largest.x, largest.y) if largest else (None, None)
                    plans_by_size[images] = self._kernel.plan(images, *buffers, k=shared_k)
                    shared_k = plans_by_size[images].k
        except hostcuda.driver.MemoryError as error:
            raise LabError(
                f"{self.streams} streams of {max(self.chunks):,} images need more than "
                f"{self.device_bytes / 1e9:.2f} GB on the device, which does not have that much: take a "
                f"smaller chunk or fewer streams ({error})"
            ) from error

    @property
    def device_bytes(self) -> int:
        """Bytes of the buffers on the device: per stream, x and y of its largest chunk, not of the whole batch."""
        size = self.variant.io_dtype.itemsize
        elements = sum(
            int(np.prod(shape)) for shape in (self.layer.x_shape(1), self.layer.y_shape(1))
        )
        # stream i has every `streams`-th chunk
        return sum(
            size * elements * max(self.chunks[i :: self.streams]) for i in range(self.streams)
        )

    def _load(self, x: np.ndarray | None, k: np.ndarray | None) -> None:
        """Copy x into `self.x`, and keep a copy of k for this and later runs; None leaves either as it was.

        Raises LabError if a shape is not the pipeline's.
        """
        for name, array, shape in (("x", x, self.x.shape), ("k", k, self.layer.k_shape)):
            if array is not None and np.shape(array) != shape:
                raise LabError(
                    f"{name} has the shape {np.shape(array)}; {self.layer}, batch {self.batch}, needs "
                    f"{shape}"
                )
        if x is not None and x is not self.x:
            np.copyto(self.x, x, casting="same_kind")
        if k is not None:
            self._k = np.array(k, self.variant.io_dtype)

    def run(
        self, x: np.ndarray | None = None, k: np.ndarray | None = None, events: bool = True
    ) -> np.ndarray:
        """Compute the layer: copy the masks k to the device, then process all chunks.

        Raises LabError if a shape is not the pipeline's, no k was given yet, or the pipeline is
        closed.

        Parameters
        ----------
        x, k : ndarray, optional
            The inputs [B,C,H,W] and the masks [M,C,K,K], cast to `variant.io_dtype`; by default
            those of the last run.
        events : bool
            Record the events for `timeline`.

        Returns
        -------
        ndarray
            `y`, the host's array itself, into which the next run writes again.
        """
        self._load(x, k)
        if self._k is None:
            raise LabError("this pipeline has no mask yet: pass a k to run")
        if not self._plans:
            raise LabError("this pipeline is closed: make a new one")
        # A plan has the buffers and launches for one stream and one size of chunk.
        # The first plan of the first stream loads the mask that all plans read, on the default
        # stream, so that it is complete before any chunk starts. Each run does so: another plan of
        # the same module may have overwritten it in constant memory.
        next(iter(self._plans[0].values())).load(k=self._k)
        self._events = None  # those of the last run, which `timeline` no longer describes
        step_events = None  # or (chunk, step) -> (event before it, event after it), for `timeline`
        if events:
            step_events = {
                key: (hostcuda.driver.Event(), hostcuda.driver.Event()) for key in self._order
            }
            self._begin_event = hostcuda.driver.Event().record(self._streams[0])
        self.issue(step_events)
        for stream in self._streams:
            stream.synchronize()
        self._events = step_events
        return self.y

    def issue(self, step_events: dict | None = None) -> None:
        """Issue the steps of all chunks, in the order of `issue_order`, without waiting.

        `step_events` maps (chunk, step) to two events to record: one for reaching the step, one for
        its end.
        """
        copy_to_device = hostcuda.driver.memcpy_htod_async
        copy_to_host = hostcuda.driver.memcpy_dtoh_async
        edges = [
            0,
            *itertools.accumulate(self.chunks),
        ]  # chunk i: images edges[i] to edges[i + 1] - 1
        for chunk, step in self._order:
            stream_index = chunk % self.streams
            stream = self._streams[stream_index]
            plan = self._plans[stream_index][self.chunks[chunk]]
            # as many images as the plan is made for
            images = slice(edges[chunk], edges[chunk + 1])
            if step_events:
                step_events[chunk, step][0].record(stream)
            if step == "copy in":
                copy_to_device(plan.x, self.x[images], stream)
            elif step == "kernel":
                plan.run(stream)
            else:
                copy_to_host(self.y[images], plan.y, stream)
            if step_events:
                step_events[chunk, step][1].record(stream)

    @property
    def timeline(self) -> pd.DataFrame:
        """The times of the steps of the last run, from the events on their streams; LabError if it recorded none.

        Returns
        -------
        DataFrame
            A row per chunk and step: stream, what ("copy in", "kernel", "copy out"), chunk, images,
            ready_ms (the stream reaches the step), start_ms, end_ms; milliseconds since the first
            stream began. An event gives the time at which the stream reaches a step, not the time
            at which the step starts. On a GPU a step also waits for earlier copies in the same
            direction, or for earlier kernels, so its start is the end of the step of its kind that
            ended before. The CPU engine runs copies and kernels on the same workers: there a step
            starts when it is ready. `attrs["note"]` says so if these are not GPU times.
        """
        if self._events is None:
            raise LabError("no events were recorded: run the pipeline first, with events=True")
        rows = []
        for i, step in itertools.product(range(len(self.chunks)), STEPS):
            ready, end = (event.time_since(self._begin_event) for event in self._events[i, step])
            rows.append(
                {
                    "stream": i % self.streams,
                    "what": step,
                    "chunk": i,
                    "images": self.chunks[i],
                    "ready_ms": ready,
                    "start_ms": ready,  # on a GPU corrected below
                    "end_ms": end,
                }
            )
        table = pd.DataFrame(rows)
        if device().engine == "gpu":
            one_at_a_time(table)
        table.attrs["note"] = device().note
        return table

    def close(self) -> None:
        """Free the device's buffers and keep the host's arrays. A second call does nothing."""
        # a dict per stream: images of a chunk -> its plan; without plans the pipeline is closed
        while self._plans:
            for plan in self._plans.pop().values():
                plan.close()

    def __repr__(self) -> str:
        memory = "page-locked" if self.pinned else "ordinary"
        return (
            f"<Pipeline {self.variant.label}, {self.layer.name}, batch {self.batch}, {len(self.chunks)} chunks on "
            f"{self.streams} streams, {memory} memory>"
        )


def one_at_a_time(timeline: pd.DataFrame) -> None:
    """Set the column `start_ms` of a timeline, in place, as on a GPU, which runs one step of a kind at a time.

    The kind is the column `what`: "kernel". A step starts when its stream reaches it (`ready_ms`), but not before
    the end of the step of its kind that ended last before it.
    """
    for _, group in timeline.groupby("what"):
        # -inf: the first step of a kind waits for no other
        previous_end = group.sort_values("end_ms")["end_ms"].shift().fillna(-np.inf)
        timeline.loc[group.index, "start_ms"] = np.maximum(
            group["ready_ms"], previous_end.loc[group.index]
        )


def busy_ms(timeline: pd.DataFrame) -> pd.Series:
    """Return a Series: "copy in", "kernel", "copy out" -> the time during which at least one such step ran [ms].

    `timeline` is the table of `Pipeline.timeline` or `schedule`.
    """
    return pd.Series(
        {step: _union_ms(timeline.loc[timeline["what"] == step]) for step in STEPS}, name="busy_ms"
    )


def overlap(timeline: pd.DataFrame) -> float:
    """Return the mean number of engines (copies in, kernels, copies out) that work, while at least one works.

    That is the sum of their busy times, divided by the time during which at least one is busy: 1
    without any overlap, at most 3. `timeline` is the table of `Pipeline.timeline` or `schedule`.
    """
    return sum(busy_ms(timeline)) / _union_ms(timeline)


def span_ms(timeline: pd.DataFrame) -> float:
    """Return the time from the start of the first step to the end of the last step [ms]."""
    return float(np.max(timeline["end_ms"]) - np.min(timeline["start_ms"]))


def _union_ms(timeline: pd.DataFrame) -> float:
    """Return the time during which at least one step ran [ms]: the length of the union of start_ms to end_ms."""
    total, latest_end = 0.0, -np.inf
    for start, end in sorted(zip(timeline["start_ms"], timeline["end_ms"], strict=True)):
        total += max(0.0, end - max(start, latest_end))  # what no earlier interval covers
        latest_end = max(latest_end, end)
    return total


def schedule(
    layer: Layer | str,
    batch: int,
    kernel_ms: float,
    chunk: int | Sequence[int] = CHUNK,
    streams: int = 3,
    pinned: bool = True,
    order: str = "depth",
    dtype: DTypeLike = np.float32,
    on: Device | str | None = None,
) -> pd.DataFrame:
    """Return the timeline that follows from the rates of the link and the kernel.

    Three engines, one per kind of step, take the steps in the order in which the host issues them.
    A step waits for its engine and for its stream; a copy from or to ordinary memory also blocks
    the host. API calls, launches and the latency of copies take no time here, so a measurement with
    small chunks is slower. The table is that of `Pipeline.timeline`. Raises LabError as `Pipeline`
    does, or if the rate of the link was not measured.

    Parameters
    ----------
    layer : Layer
    batch : int
    kernel_ms : float
        Op time of the whole batch; the time of a chunk is proportional to its images.
    chunk, streams, pinned, order
        As for `Pipeline`.
    dtype : dtype
        The data type of x, k and y.
    on : Device or str, optional
        The device whose link is used: "H200". By default the device in use.
    """
    layer = as_layer(layer)
    sizes = chunk_sizes(layer.x_shape(batch)[0], chunk)  # `x_shape` checks the batch
    streams = min(_require_stream_count(streams), len(sizes))
    in_ms, out_ms = layer.link_ms(batch, dtype, on, pinned)
    batch_ms: dict[str, float] = dict(zip(STEPS, (in_ms, kernel_ms, out_ms), strict=True))
    engine_free: dict[str, float] = dict.fromkeys(STEPS, 0.0)
    stream_free, host_free, rows = [0.0] * streams, 0.0, []  # when each is free again [ms]
    for i, step in issue_order(len(sizes), streams, order):
        ready = max(stream_free[i % streams], host_free)
        start = max(ready, engine_free[step])
        end = start + batch_ms[step] * sizes[i] / batch
        engine_free[step] = stream_free[i % streams] = end
        if not pinned and step != "kernel":  # the host waits for such a copy
            host_free = end
        rows.append(
            {
                "stream": i % streams,
                "what": step,
                "chunk": i,
                "images": sizes[i],
                "ready_ms": ready,
                "start_ms": start,
                "end_ms": end,
            }
        )
    table = pd.DataFrame(rows).sort_values(["chunk", "start_ms"], kind="stable", ignore_index=True)
    table.attrs["note"] = (
        ""  # nothing was measured, so there are no times of the CPU engine to warn of
    )
    table.attrs["device"] = device(on).name
    return table


def excess_pct(
    layer: Layer, batch: int, kernel_ms: float, chunk: int | Sequence[int], streams: int, on: str
) -> float:
    """Return by how many per cent the layer time that `schedule` plans is above the link's reference time.

    The reference time is that of the copies alone, between host and device. The parameters are `schedule`'s.
    """
    planned = span_ms(schedule(layer, batch, kernel_ms, chunk, streams, on=on))
    return 100 * (float(planned / layer.link_reference_ms(batch, device=on)) - 1)
