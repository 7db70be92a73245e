"""lenet86 on several GPUs of one host: a batch is split, and each device has a context and a thread of its own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike

import hostcuda
from labkit.base.errors import LabError
from labkit.networks.benchmark import HOST, Entry, Images, make_row
from labkit.networks.fused import CHUNK, STREAMS, Batch, FusedNetwork


class SplitBatch:
    """A batch on several devices, with all memory that it needs. A context manager: at its end all is freed.

    Nothing is exchanged between the devices: each takes its own images from host memory over its own link.

    Parameters
    ----------
    devices : sequence of int
        Numbers of the devices, as CUDA counts them. One may occur twice: then two threads share it.
    B : int
        Images, at least one per device.
    weights, dtype
        As for `FusedNetwork`.
    source, white, chunk, streams
        As for `FusedNetwork.batch`.

    Attributes
    ----------
    x : list of ndarray
        Page-locked, the images of each device. Fill them in place before `run`.

    Raises
    ------
    LabError
        If there is no such device, or fewer images than devices.
    """

    def __init__(self, devices: Sequence[int], B: int, weights: str | Path | dict = "digits",
                 dtype: DTypeLike = "float32", source: tuple[int, int] | None = None, white: float = 255.0,
                 chunk: int = CHUNK, streams: int = STREAMS):
        hostcuda.ensure_context()  # chooses the engine, here and not in a thread
        count = hostcuda.driver.Device.count()
        if not devices or not all(0 <= number < count for number in devices):
            raise LabError(f"devices {list(devices)}: this machine has {count}, numbered from 0")
        if len(devices) > B:
            raise LabError(f"{B} images cannot be split over {len(devices)} devices")
        sizes = [B // len(devices) + (i < B % len(devices)) for i in range(len(devices))]
        self._threads = [ThreadPoolExecutor(1) for _ in devices]
        self._stacks = [ExitStack() for _ in devices]
        self._batches: list[list[Batch]] = [[] for _ in devices]  # each device's one batch; its thread empties the list
        self.x: list[np.ndarray] = []
        try:
            opening = [thread.submit(_open, stack, batches, device, size, weights, dtype, source, white, chunk, streams)
                       for thread, stack, batches, device, size in zip(
                           self._threads, self._stacks, self._batches, devices, sizes, strict=True)]
            for future in opening:
                future.result()
        except BaseException:
            self.close()
            raise
        self.x = [batch.x for (batch,) in self._batches]

    def load(self, images: np.ndarray) -> None:
        """Copy images into the devices' page-locked arrays."""
        first = 0
        for x in self.x:
            x[...] = images[first : first + len(x)]
            first += len(x)

    def run(self) -> np.ndarray:
        """Compute the probabilities on all devices at once, and wait: float32 [B, 10]."""
        running = [thread.submit(batch.run) for thread, (batch,) in zip(self._threads, self._batches, strict=True)]
        return np.concatenate([future.result() for future in running])

    def close(self) -> None:
        """Free everything, each device's in its own thread; a second call does nothing."""
        self.x = []
        for thread, stack in zip(self._threads, self._stacks, strict=True):
            thread.submit(stack.close).result()
            thread.shutdown()
        self._threads, self._stacks = [], []

    def __enter__(self) -> SplitBatch:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _open(stack, batches, device, B, weights, dtype, source, white, chunk, streams):
    """Open a device's context, network and batch in its thread. `stack` frees them while the context is current."""
    context = hostcuda.driver.Device(device).retain_primary_context()
    context.push()
    stack.callback(context.pop)
    stack.callback(batches.clear)
    network = stack.enter_context(FusedNetwork(weights, dtype))
    batches.append(stack.enter_context(network.batch(B, source, white, chunk=chunk, streams=streams)))


def bench_devices(counts: Sequence[int], batch: int, pixels: Sequence[str] = ("float32", "uint8 86x86", "uint8 8x8"),
                  dtypes: Sequence[str] = ("float32", "float16"), repeat: int = 20) -> pd.DataFrame:
    """Measure the forward pass from page-locked host memory on the first devices of the host.

    Parameters
    ----------
    counts : sequence of int
        Numbers of devices: (1, 2).
    batch : int
        Images in all.
    pixels : sequence of str
        As in the column of `labkit.bench_network`.
    dtypes : sequence of str
    repeat : int
        Timed runs; those of the counts alternate.

    Returns
    -------
    DataFrame
        The columns of `labkit.bench_network`; the label has the number of devices.

    Raises
    ------
    LabError
        As for `SplitBatch`.
    CheckFailed
        If probabilities are wrong.
    """
    images, rows = Images(batch), []
    for dtype, form in itertools.product(dtypes, pixels):
        array, source, white = images.forms[form]
        cases = []
        with ExitStack() as stack:
            for count in counts:
                split = stack.enter_context(SplitBatch(range(count), batch, images.weights, dtype, source, white))
                split.load(array)
                latest = {}
                cases.append(Entry(f"fused on {count} GPU{'s' * (count > 1)}", dtype, HOST, form, dtype,
                                   lambda split=split, latest=latest: latest.update(y=split.run()),
                                   lambda some, latest=latest: latest["y"][some], latest.clear))
            for case in cases:
                images.check(case, "before timing")
            for _ in range(repeat):
                for case in cases:
                    case.times.append(case.time())
            for case in cases:
                images.check(case, "after timing", again=False)
        rows += [make_row(case, batch) for case in cases]
    return pd.DataFrame(rows)
