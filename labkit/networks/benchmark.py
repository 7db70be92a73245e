"""The time of lenet86's whole forward pass: the plain network and the fused one, in one interleaved run."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

import hostcuda
from hostcuda.graphs import Graph
from labkit.base.errors import CheckFailed
from labkit.base.progress import show_progress
from labkit.ladder.buffers import Buffers
from labkit.measure.bench import as_list, flushing, require_runs, time_run
from labkit.networks.fused import KERNELS, PRECISIONS, FusedNetwork, bounded
from labkit.networks.images import cycle, dataset, resize
from labkit.networks.lenet86 import Network, load_weights
from labkit.spec.devices import device

BATCH = {"gpu": 1000, "cpu": 4}  # images by default
REPEAT = {"gpu": 20, "cpu": 2}  # timed runs by default
CHECKED_IMAGES = 6
PLAIN = "tuning"  # the convolutions of the plain network
WHITE = 16.0  # the byte of the digits that stands for 1
DEVICE, HOST = "device", "host"  # where the images are and the probabilities go


@dataclass
class Entry:
    """One way to compute the forward pass.

    `run` computes a forward pass and waits; on the device it only issues one, or several, on
    `stream`. `result` returns the probabilities of the images with the given numbers; `before`, not
    timed, spoils the last result.
    """

    label: str  # "fused", "PyTorch fp16, graph"
    dtype: str  # of the computation: "float32" or "float16"
    where: str  # DEVICE or HOST
    pixels: str  # a key of `Images.forms`
    bound: str  # the data type for `bounded`, which computes the largest error allowed
    run: Callable[[], object]
    result: Callable[[np.ndarray], np.ndarray]
    before: Callable[[], None] = lambda: None
    stream: object = None  # None: the default one
    passes: int = 1  # of one `run`
    times: list[float] = field(default_factory=list)  # of the passes that were timed [ms]
    error: float = 0.0  # the largest so far, of a probability

    def time(self, flush: Callable[[], None] = lambda: None) -> float:
        """Return the time of a pass [ms]: between two events, or by the host's clock if the images are on the host.

        `flush` overwrites the L2 cache. It runs twice: meanwhile the host issues the launches,
        whose cost is not timed.
        """
        self.before()  # spoils the last result, so that a run which writes nothing is noticed
        flush()
        flush()  # long enough for the launches to be in the queue when it ends
        if self.where == HOST:
            hostcuda.driver.Context.synchronize()
            start = time.perf_counter()
            self.run()
            return 1e3 * (time.perf_counter() - start)
        # a run on the device may be a graph of several passes
        return time_run(self.run, self.stream) / self.passes


def bench_network(
    batch: int | Iterable[int] | None = None,
    repeat: int | None = None,
    baselines: Callable[[Images], Iterable[Entry]] = lambda images: (),
) -> pd.DataFrame:
    """Measure the forward pass of lenet86 on the digits: `Network`, `FusedNetwork`, and any other way that is given.

    The runs of all cases alternate, so that a changing clock rate affects all of them. On the
    device the time is that between two events, from images on the device to probabilities on the
    device, after the L2 cache was overwritten. From the host it is that on the host's clock, from
    images to probabilities in host memory, which is page-locked for all but `Network`. All buffers
    are allocated before, except by `Network`. The probabilities of some images are compared with
    float64 before and after timing.

    Parameters
    ----------
    batch : int or iterable of int, optional
        Images; by default `BATCH` of the engine.
    repeat : int, optional
        Timed runs of each case; by default `REPEAT` of the engine.
    baselines : callable, optional
        Returns further cases to measure, for a batch of images.

    Returns
    -------
    DataFrame
        A row per batch and case: label, dtype, batch, where ("device" or "host": the images),
        pixels ("float32", "uint8 86x86", "uint8 8x8"), ms (median), min_ms, max_ms, images_s, error
        (the largest of a probability among the images compared), repeat, engine, device.
        `attrs["note"]` says so if these are not GPU times.

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
    rows = []
    for B in as_list(BATCH[in_use.engine] if batch is None else batch):
        with ExitStack() as stack:
            flush, images = stack.enter_context(flushing()), Images(B)
            # `stack` frees at its end what the lab's own cases use
            cases = [*_list_own_cases(stack, images), *baselines(images)]
            measure_cases(images, cases, repeat, flush)
            rows += [make_row(case, B) for case in cases]
    table = pd.DataFrame(rows)
    table.attrs["note"] = in_use.note
    return table


def measure_cases(
    images: Images,
    cases: Sequence[Entry],
    repeat: int,
    flush: Callable[[], None],
    after_each_round: Callable[[], None] = lambda: None,
) -> None:
    """Check all cases, time them in turn, `repeat` times each, and check what the last runs have left.

    A first run of each warms up: its time is not kept. `flush` overwrites the L2 cache before a
    run. `after_each_round` is called whenever each case has been timed once more. Sets `times`
    and `error` of the cases. Raises CheckFailed if probabilities are wrong.
    """
    for case in cases:
        images.check(case, "before timing")
    for case in cases:
        case.time(flush)
    with show_progress(repeat, f"measuring {images.count} images") as progress:
        for _ in range(repeat):
            for case in cases:
                case.times.append(case.time(flush))
            after_each_round()
            progress.update()
    for case in cases:  # what the last timed run has left
        images.check(case, "after timing", run_first=False)


def make_row(case: Entry, B: int) -> dict:
    """Return a measured case, for B images, as a row of the table of `bench_network`: a dict by column."""
    return {
        "label": case.label,
        "dtype": case.dtype,
        "batch": B,
        "where": case.where,
        "pixels": case.pixels,
        **summarize_times(case.times, B),
        "error": case.error,
        "repeat": len(case.times),
        "engine": device().engine,
        "device": device().name,
    }


def summarize_times(times: list[float], B: int) -> dict[str, float]:
    """Return the columns ms (median), min_ms, max_ms and images_s of the times [ms] of B images."""
    median = float(np.median(times))
    return {"ms": median, "min_ms": min(times), "max_ms": max(times), "images_s": 1e3 * B / median}


class Images:
    """B images in three forms, with the expected probabilities of some of them.

    Attributes
    ----------
    count : int
        B.
    weights : dict of ndarray
    forms : dict
        The name of a form, such as "uint8 8x8" -> (array, height and width of bytes or None, the
        value that stands for 1).
    checked : ndarray of int
        The numbers of the images whose probabilities `check` compares.
    """

    def __init__(self, B: int):
        """Make the images of the digits, which are repeated; the first and the last one are among the checked."""
        self.count, self.weights = B, load_weights("digits")
        floats = cycle(dataset(size=86), B).images
        bytes_8 = np.rint(dataset().images[:, 0] * WHITE).astype(np.uint8)[
            np.arange(B) % len(dataset())
        ]
        bytes_86 = np.rint(floats[:, 0] * 255).astype(np.uint8)
        self.forms = {
            "float32": (np.ascontiguousarray(floats), None, 255.0),
            "uint8 86x86": (bytes_86, (86, 86), 255.0),
            "uint8 8x8": (bytes_8, (8, 8), WHITE),
        }
        between = np.random.default_rng(2).permutation(np.arange(1, max(B - 1, 1)))[
            : CHECKED_IMAGES - 2
        ]
        self.checked, self._expected = np.unique([0, *between, B - 1]), {}

    def check(self, case: Entry, when: str, run_first: bool = True) -> None:
        """Compare the probabilities that a case computes for the images `checked` with a reference in float64.

        The probabilities are those of a new run if `run_first`, and else those of the latest run.
        Sets `case.error`. Raises CheckFailed if an error exceeds its bound; `when` is a part of the
        message.
        """
        if run_first:
            case.before()
            case.run()
        # a key of `forms`, and the data type whose roundings are allowed
        key = case.pixels, case.bound
        if key not in self._expected:  # computed once, for all cases with this key
            # `white`: the value that stands for 1
            images, byte_size, white = self.forms[case.pixels]
            images = images[self.checked]
            if byte_size is not None:  # bytes, which the kernel resizes
                images = resize(images, 86, white)
            # the probabilities, and how far off a correct kernel's may be
            self._expected[key] = bounded(images, self.weights, case.bound)
        expected, bound = self._expected[key]
        error = np.abs(case.result(self.checked) - expected)
        case.error = max(case.error, float(error.max()))
        if not (error <= bound).all():
            raise CheckFailed(
                f"{case.label} in {case.dtype} is wrong {when}: a probability of {len(self.checked)} "
                f"images is off by {error.max():.1e}, and roundings explain {bound.max():.1e}"
            )


def list_steps() -> list[str | None]:
    """Return which kernels of the fused network can be measured here, by their names as `step`.

    None is 13_network.cu. The other kernel, "warpgroups", uses wgmma, which only compute capability
    9.0 has.
    """
    return [*KERNELS] if device().compute_capability == (9, 0) else [None]


def count_passes(B: int) -> int:
    """Return how many forward passes of B images a CUDA graph should hold, so that its launch is little of the time."""
    # As many as take an H200 a millisecond: it computes 5000 images in that time. At most 50, as for 100
    # images: fewer leave multiprocessors idle, and save hardly any time. A pass of the CPU engine takes
    # much longer than its launch.
    return max(1, min(50, 5000 // B)) if hostcuda.engine() == "gpu" else 1


def _list_own_cases(stack: ExitStack, images: Images) -> Iterator[Entry]:
    """Yield the cases of the plain network, from the host, and of the fused one; `stack` closes what they use."""
    memory, floats = stack.enter_context(Buffers()), images.forms["float32"][0]
    plain, last_run = Network(images.weights, conv=PLAIN), {}
    yield Entry(
        label="plain",
        dtype="float32",
        where=HOST,
        pixels="float32",
        bound="float32",
        run=lambda: last_run.update(y=plain.forward(floats)),
        result=lambda numbers: last_run["y"][numbers],
        before=last_run.clear,
    )
    on_device = {name: memory.copy_in(array) for name, (array, _, _) in images.forms.items()}
    for dtype, step in itertools.product(PRECISIONS, list_steps()):
        network = stack.enter_context(FusedNetwork(images.weights, dtype, step))
        for pixels, form in images.forms.items():
            yield from _list_fused_cases(stack, memory, network, pixels, form, on_device[pixels])


def _list_fused_cases(
    stack: ExitStack, memory: Buffers, network: FusedNetwork, pixels: str, form: tuple, x
) -> Iterator[Entry]:
    """Yield the cases of a fused network for one entry (`pixels`, `form`) of `Images.forms`; x has it on the device.

    They are a launch, for float32 pixels a graph of launches, and a batch from the host.
    """
    array, source, white = form
    label, dtype = f"fused, {network.step}" if network.step else "fused", network.dtype.name
    B, y = len(array), memory.new((len(array), 10))
    # NaN before each run
    read = {
        "result": lambda numbers: memory.copy_out(y, (B, 10))[numbers],
        "before": functools.partial(hostcuda.driver.memset_d8, y, 0xFF, 4 * 10 * B),
    }
    launch = functools.partial(network.launch, x, y, B, source, white)
    yield Entry(label, dtype, DEVICE, pixels, dtype, launch, **read)
    if source is None:
        stream, passes = hostcuda.driver.Stream(), count_passes(B)
        graph = Graph(lambda: [launch(stream=stream) for _ in range(passes)], stream)
        stack.enter_context(closing(graph))
        yield Entry(
            f"{label}, graph",
            dtype,
            DEVICE,
            pixels,
            dtype,
            graph.launch,
            **read,
            stream=stream,
            passes=passes,
        )
    batch = stack.enter_context(network.batch(B, source, white))
    batch.x[...] = array
    yield Entry(
        label,
        dtype,
        HOST,
        pixels,
        dtype,
        batch.run,
        result=lambda numbers: batch.y[numbers],
        before=lambda: batch.y.fill(np.nan),
    )
