"""A batch in chunks, on streams: copies in, kernels and copies out of different chunks at the same time.

The kernels of the ladder are what they are; this is what the host does around them. A `Pipeline` cuts the batch into
chunks and issues for each of them, on one of its streams, a copy in, the kernels and a copy out. Work of one stream
runs in its order, work of different streams side by side: the link carries both directions at once while the
multiprocessors compute. Only page-locked ("pinned") host memory can be copied in the background.

    with Pipeline(variant(3), LENET86[0], batch=10_000, chunk=1000, streams=3) as pipeline:
        y = pipeline.run(x, k)
        pipeline.timeline, pipeline.overlap
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike

from labkit import cuda
from labkit.base.errors import LabError
from labkit.ladder.variants import Variant
from labkit.spec.devices import Device, device
from labkit.spec.layers import Layer

STEPS: tuple[str, ...] = ("copy in", "kernel", "copy out")  # of a chunk, in this order
MAX_STREAMS = 32  # a GPU has at most that many hardware queues; further streams share them
ORDERS = ("depth", "breadth")
CHUNK = 1000


# ---------------------------------------------------------------------------------------------- chunks and their order
def chunk_sizes(batch: int, chunk: int | Sequence[int]) -> tuple[int, ...]:
    """The images of each chunk.

    Parameters
    ----------
    batch : int
        Images in all.
    chunk : int or sequence of int
        Images a chunk, where the last takes what is left; or the size of every chunk.

    Raises
    ------
    LabError
        If a size is no positive integer, or the sizes do not add up to the batch.
    """
    sizes = list(chunk) if isinstance(chunk, Iterable) else [chunk]
    for size in sizes or [0]:
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise LabError(f"a chunk of {size!r} images: its size has to be an integer of at least 1")
    if not isinstance(chunk, Iterable):
        return tuple(min(int(chunk), batch - first) for first in range(0, batch, int(chunk)))
    if sum(sizes) != batch:
        raise LabError(f"the {len(sizes)} chunks have {sum(sizes):,} images in all; the batch has {batch:,}")
    return tuple(map(int, sizes))


def issue_order(chunks: int, streams: int, order: str = "depth") -> list[tuple[int, str]]:
    """In which order the host issues the steps of all chunks: pairs (chunk, step).

    Parameters
    ----------
    chunks, streams : int
    order : {"depth", "breadth"}
        Depth first: all steps of a chunk, then the next chunk. Breadth first: for as many chunks as there are
        streams all copies in, then all their kernels, then all their copies out.

    Raises
    ------
    LabError
        For an unknown order.
    """
    if order not in ORDERS:
        raise LabError(f"order={order!r}: the steps are issued {' or '.join(ORDERS)} first")
    if order == "depth":
        return [(chunk, step) for chunk in range(chunks) for step in STEPS]
    groups = (range(first, min(first + streams, chunks)) for first in range(0, chunks, streams))
    return [(chunk, step) for group in groups for step in STEPS for chunk in group]


def _stream_count(streams) -> int:
    if isinstance(streams, bool) or not isinstance(streams, (int, np.integer)) or not 1 <= streams <= MAX_STREAMS:
        raise LabError(
            f"streams={streams!r}: an integer from 1 to {MAX_STREAMS}; a GPU has no more than {MAX_STREAMS} queues"
        )
    return int(streams)


# ------------------------------------------------------------------------------------------------------- host memory
def host_arrays(
    layer: Layer, batch: int, dtype: DTypeLike = np.float32, pinned: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Arrays for x [B,C,H,W] and y [B,M,Ho,Wo] in host memory, zeroed.

    Parameters
    ----------
    layer : Layer
    batch : int
    dtype : dtype
    pinned : bool
        Page-locked: the pages stay where they are, so that the device can fetch them while the host does something
        else. Locking a gigabyte takes longer than copying it: lock once and keep it.

    Raises
    ------
    LabError
        If the system does not lock so much memory.
    """
    cuda.ensure_context()
    x, y = layer.x_shape(batch), layer.y_shape(batch)
    if not pinned:
        return _touched(np.empty(x, dtype)), _touched(np.empty(y, dtype))
    try:
        empty = functools.partial(cuda.driver.pagelocked_empty, dtype=np.dtype(dtype))
        return _touched(empty(x)), _touched(empty(y))
    except (cuda.driver.MemoryError, cuda.driver.LogicError, MemoryError) as error:
        size = layer.bytes(batch, dtype) / 1e9
        raise LabError(
            f"{size:.2f} GB of page-locked memory for {layer}, B = {batch}, are not to be had ({error}): take a "
            "smaller batch, or pinned=False"
        ) from error


def _touched(array):
    array.fill(0)  # its pages exist from now on
    return array


# --------------------------------------------------------------------------------------------------------- pipelines
class Pipeline:
    """A variant made ready to compute a batch in chunks, on streams.

    Parameters
    ----------
    variant : Variant
    layer : Layer
    batch : int
        Images, at least 1.
    chunk : int or sequence of int
        Images a chunk, the last takes what is left; or the size of every chunk.
    streams : int
        1 to 32. Chunk i goes to stream i modulo `streams`; each stream has device buffers for its largest chunk.
    pinned : bool
        Whether the host's arrays are page-locked.
    order : {"depth", "breadth"}
        In which order the host issues the steps; see `issue_order`.
    host : pair of arrays, optional
        Arrays of the caller in place of the pipeline's own, as `host_arrays` makes them.

    Attributes
    ----------
    x, y : ndarray
        The host's arrays, [B,C,H,W] and [B,M,Ho,Wo], in `variant.io_dtype`. A caller who can, fills `x` directly.
    chunks : tuple of int
        Images of each.
    streams : int
        No more than there are chunks.
    device_bytes : int
        Of the buffers for x and y on the device: the batch as a whole need not fit.

    Raises
    ------
    LabError
        If the batch, a chunk, the streams or the order are none, if the variant does not support the layer, or if
        the memory of host or device does not suffice.
    """

    def __init__(
        self,
        variant: Variant,
        layer: Layer,
        batch: int,
        chunk: int | Sequence[int] = CHUNK,
        streams: int = 3,
        pinned: bool = True,
        order: str = "depth",
        host: tuple[np.ndarray, np.ndarray] | None = None,
    ):
        variant.supports(layer)
        self.batch = layer.x_shape(batch)[0]
        self.chunks = chunk_sizes(self.batch, chunk)
        self.streams = min(_stream_count(streams), len(self.chunks))
        self.variant, self.layer, self.pinned = variant, layer, bool(pinned)
        self._order = issue_order(len(self.chunks), self.streams, order)
        self.x, self.y = self._host(host)
        self._k = None
        self._marks = None
        self._plans: list[dict] = [{} for _ in range(self.streams)]  # of each stream: images -> plan
        try:
            self._allocate()
        except BaseException:
            self.close()
            raise

    def _host(self, host):
        dtype = self.variant.io_dtype
        if host is None:
            return host_arrays(self.layer, self.batch, dtype, self.pinned)
        for name, array, shape in zip("xy", host, (self.layer.x_shape(self.batch), self.layer.y_shape(self.batch)),
                                      strict=True):  # fmt: skip
            if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
                raise LabError(f"the host's {name} is {array.dtype} of the shape {array.shape}; {self.layer}, batch "
                               f"{self.batch}, takes {dtype} of {shape} in C order: see host_arrays")
        return host

    def _allocate(self):
        cuda.ensure_context()
        try:
            self._streams = [cuda.driver.Stream() for _ in range(self.streams)]
            k = None
            for i, plans in enumerate(self._plans):
                sizes = sorted(set(self.chunks[i :: self.streams]), reverse=True)
                for images in sizes:
                    largest = plans.get(sizes[0])
                    buffers = (largest.x, largest.y) if largest else (None, None)
                    plans[images] = self.variant.plan(self.layer, images, *buffers, k=k)
                    k = plans[images].k
        except cuda.driver.MemoryError as error:
            raise LabError(
                f"{self.streams} streams of {max(self.chunks):,} images take {self.device_bytes / 1e9:.2f} GB and more "
                f"on the device, which does not have it: take a smaller chunk or fewer streams ({error})"
            ) from error

    @property
    def device_bytes(self) -> int:
        size = self.variant.io_dtype.itemsize
        an_image = sum(int(np.prod(shape)) for shape in (self.layer.x_shape(1), self.layer.y_shape(1)))
        return sum(size * an_image * max(self.chunks[i :: self.streams]) for i in range(self.streams))

    def load(self, x: np.ndarray | None = None, k: np.ndarray | None = None) -> None:
        """Copy x into the host's array, cast to `variant.io_dtype`, and k to the device.

        Raises
        ------
        LabError
            If a shape is not the pipeline's.
        """
        for name, array, shape in (("x", x, self.x.shape), ("k", k, self.layer.k_shape)):
            if array is not None and np.shape(array) != shape:
                raise LabError(
                    f"{name} has the shape {np.shape(array)}; {self.layer}, batch {self.batch}, needs {shape}"
                )
        if x is not None and x is not self.x:
            np.copyto(self.x, x, casting="same_kind")
        if k is not None:
            self._k = np.array(k, self.variant.io_dtype)

    def run(self, x: np.ndarray | None = None, k: np.ndarray | None = None, events: bool = True) -> np.ndarray:
        """Compute the layer: k goes to the device, then all chunks go through.

        Parameters
        ----------
        x, k : ndarray, optional
            As for `load`; what is not given is what was there before.
        events : bool
            Record the events of `timeline`.

        Returns
        -------
        ndarray
            `y`, the host's array itself: the next run writes into it again.

        Raises
        ------
        LabError
            If there was never a k, or the pipeline is closed.
        """
        self.load(x, k)
        if self._k is None:
            raise LabError("this pipeline has no mask yet: give run a k")
        if not self._plans:
            raise LabError("this pipeline is closed: make another one")
        # On the default stream, and done before any chunk begins: all streams read the same mask, and another plan of
        # the same module may have put its own into constant memory since.
        next(iter(self._plans[0].values())).load(k=self._k)
        self._marks = None
        marks = {key: (cuda.driver.Event(), cuda.driver.Event()) for key in self._order} if events else None
        if events:
            self._begin = cuda.driver.Event().record(self._streams[0])
        self.issue(marks)
        for stream in self._streams:
            stream.synchronize()
        self._marks = marks
        return self.y

    def issue(self, marks=None) -> None:
        """Put the steps of all chunks into the streams, and wait for none of them.

        `marks`: for each step two events, which note when the stream comes to it
        and when it is done.
        """
        htod, dtoh = cuda.driver.memcpy_htod_async, cuda.driver.memcpy_dtoh_async
        ends = [0, *itertools.accumulate(self.chunks)]
        for chunk, step in self._order:
            lane = chunk % self.streams
            stream, plan = self._streams[lane], self._plans[lane][self.chunks[chunk]]
            images = slice(ends[chunk], ends[chunk + 1])
            if marks:
                marks[chunk, step][0].record(stream)
            if step == "copy in":
                htod(plan.x, self.x[images], stream)
            elif step == "kernel":
                plan.run(stream)
            else:
                dtoh(self.y[images], plan.y, stream)
            if marks:
                marks[chunk, step][1].record(stream)

    @property
    def timeline(self) -> pd.DataFrame:
        """When each step of the last run happened, as the events on its stream say.

        Returns
        -------
        DataFrame
            A row a chunk and step: stream, what ("copy in", "kernel", "copy out"), chunk, images, ready_ms (the
            stream had come to the step), start_ms, end_ms; milliseconds since the first stream began. An event says
            when the stream came to a step, not when the step began: on a GPU a step also waits for the copies of the
            same direction, or the kernels, before it, so it starts when the one before has ended. The CPU engine
            runs copies and kernels on the same workers, and start is ready. `attrs["note"]` says so where these are
            not GPU times.

        Raises
        ------
        LabError
            If the pipeline has not run with events.
        """
        if self._marks is None:
            raise LabError("no events were recorded yet: run the pipeline first, with events=True")
        rows = []
        for i, step in itertools.product(range(len(self.chunks)), STEPS):
            ready, end = (event.time_since(self._begin) for event in self._marks[i, step])
            rows.append({"stream": i % self.streams, "what": step, "chunk": i, "images": self.chunks[i],
                         "ready_ms": ready, "start_ms": ready, "end_ms": end})  # fmt: skip
        table = pd.DataFrame(rows)
        if device().engine == "gpu":
            one_at_a_time(table)
        table.attrs["note"] = device().note
        return table

    @property
    def overlap(self) -> float:
        """How much of the last run happened at the same time; see the function `overlap`."""
        return overlap(self.timeline)

    def close(self) -> None:
        """Free the device's buffers; the host's arrays stay. A second call does nothing."""
        while self._plans:
            for plan in self._plans.pop().values():
                plan.close()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def __repr__(self) -> str:
        memory = "page-locked" if self.pinned else "ordinary"
        return (f"<Pipeline {self.variant.label}, {self.layer.name}, batch {self.batch}, {len(self.chunks)} chunks on "
                f"{self.streams} streams, {memory} memory>")


# --------------------------------------------------------------------------------------------------------- timelines
def one_at_a_time(timeline: pd.DataFrame) -> None:
    """Set `start_ms` as on a GPU: not before the step of the same kind that ended before has ended."""
    for _, group in timeline.groupby("what"):
        ended = group.sort_values("end_ms")["end_ms"].shift().fillna(-np.inf)
        timeline.loc[group.index, "start_ms"] = np.maximum(group["ready_ms"], ended.loc[group.index])


def busy_ms(timeline: pd.DataFrame) -> pd.Series:
    """For each kind of step the time during which at least one of its kind ran [ms]."""
    return pd.Series({what: _union(timeline.query("what == @what")) for what in STEPS}, name="busy_ms")


def overlap(timeline: pd.DataFrame) -> float:
    """How many of the three engines (copies in, kernels, copies out) were at work, on average while any was.

    The sum of their busy times over the length of the union: 1 if nothing happens at the same time, at most 3.
    """
    return sum(busy_ms(timeline)) / _union(timeline)


def span_ms(timeline: pd.DataFrame) -> float:
    """From the beginning of the first step to the end of the last [ms]."""
    return max(timeline["end_ms"]) - min(timeline["start_ms"])


def _union(timeline: pd.DataFrame) -> float:
    """Length of the union of all intervals [ms]."""
    total, reached = 0.0, -np.inf
    for start, end in sorted(zip(timeline["start_ms"], timeline["end_ms"], strict=True)):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def schedule(
    layer: Layer,
    batch: int,
    kernel_ms: float,
    chunk: int | Sequence[int] = CHUNK,
    streams: int = 3,
    pinned: bool = True,
    order: str = "depth",
    dtype: DTypeLike = np.float32,
    on: Device | str | None = None,
) -> pd.DataFrame:
    """The timeline as arithmetic: what the rates of link and kernel make of chunks and streams, nothing else.

    Three engines, one for each kind of step, take the steps in the order in which the host issues them. A step waits
    for its engine and for its stream; a copy from or to ordinary memory also keeps the host from issuing more. Calls,
    launches and short copies cost nothing here, so a measurement of small chunks is slower.

    Parameters
    ----------
    layer : Layer
    batch : int
    kernel_ms : float
        Op time of the whole batch; a chunk takes its share.
    chunk, streams, pinned, order
        As for `Pipeline`.
    dtype : dtype
        Of x, k and y.
    on : Device or str, optional
        Whose link: "H200". By default the device in use.

    Returns
    -------
    DataFrame
        As `Pipeline.timeline`.

    Raises
    ------
    LabError
        As `Pipeline` does, and if the link was not measured.
    """
    sizes = chunk_sizes(layer.x_shape(batch)[0], chunk)
    streams = min(_stream_count(streams), len(sizes))
    into, back = layer.link_ms(batch, dtype, on, pinned)
    whole = dict(zip(STEPS, (into, kernel_ms, back), strict=True))
    engine, stream_free, host, rows = dict.fromkeys(STEPS, 0.0), [0.0] * streams, 0.0, []
    for i, step in issue_order(len(sizes), streams, order):
        ready = max(stream_free[i % streams], host)
        start = max(ready, engine[step])
        end = start + whole[step] * sizes[i] / batch
        engine[step] = stream_free[i % streams] = end
        if not pinned and step != "kernel":
            host = end
        rows.append({"stream": i % streams, "what": step, "chunk": i, "images": sizes[i],
                     "ready_ms": ready, "start_ms": start, "end_ms": end})  # fmt: skip
    table = pd.DataFrame(rows).sort_values(["chunk", "start_ms"], kind="stable", ignore_index=True)
    table.attrs["note"] = ""
    table.attrs["device"] = device(on).name
    return table
