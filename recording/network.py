"""The forward pass of lenet86, ours and PyTorch's: its times for data/network/, and how exact it is.

The times are those of `labkit.bench_network`, with PyTorch's (`recording.pytorch`) where it can use
the GPU. With several GPUs in the machine, the fused network is measured on one, two and all of
them, too. The steps from the plain network to the fused one are a run of their own,
`labkit.networks.steps.bench_steps`, for data/network/steps/. Nsight Compute counts the program
`python -m recording.network BATCH`, which launches each fused kernel once, for
data/network/counters/.
"""

import functools
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from typer import Option

import hostcuda
from hostcuda.metrics import MEASURED, RECORDED, STALLED, STALLS
from labkit import FusedNetwork, LabError, Network, bench_network, dataset, device
from labkit.base.paths import data_dir
from labkit.ladder.buffers import Buffers
from labkit.networks.benchmark import HOST, Entry, Images, list_steps, make_row
from labkit.networks.fused import KERNELS, PRECISIONS, Batch
from labkit.networks.images import cycle
from labkit.networks.lenet86 import load_weights
from labkit.networks.reference.lenet86 import forward_numpy
from labkit.networks.steps import bench_steps
from labkit.spec.reference import conv_float64
from recording import pytorch
from recording.counters import run_ncu
from recording.gpu import describe_torch, find_torch, require_gpu
from recording.keep import record_evidence, record_table, stamp
from recording.options import Folder, Repeat
from recording.truncation import NAMES, measure_parts

# batch -> whether torch.compile is measured: it takes a minute
BATCHES = {10_000: True, 1000: False, 100: True}
ON_SEVERAL = 40_000  # images over all devices
COUNTERS = (*MEASURED.values(), *RECORDED.values(), *map(STALLED.format, STALLS))
KEY = ["device", "label", "dtype", "batch", "where", "pixels"]
STEPS_REPEAT = 30  # timed runs of each step by default
CHUNK = 50  # images at a time in float64
SHOWN = ["label", "dtype", "where", "pixels", "ms", "min_ms", "max_ms", "images_s", "error"]


def write_rows(table: pd.DataFrame, folder: Path | None = None) -> Path:
    """Merge times of the whole network, as `bench_network` returns them, into the device's file, and return the file.

    Date and software are added, with PyTorch's if it was measured, too.
    """
    software = device().software
    if table["label"].str.startswith("PyTorch").any():
        software += f", {describe_torch(find_torch())}"
    return record_table(
        stamp(table, software), "network", folder, KEY, order=["batch", "where", "dtype"]
    )


def write_steps(table: pd.DataFrame, folder: Path | None = None) -> Path:
    """Merge the times of the steps from the plain network to the fused one, of `bench_steps`, into the device's file.

    Date and software are added. Returns the file.
    """
    return record_table(
        stamp(table, device().software),
        "network/steps",
        folder,
        [*KEY, "kernel"],
        order=["batch", "kernel", "where"],
    )


def launch_fused(batch: int) -> None:
    """Launch each fused kernel once per data type on that many float images, in the order of `count_fused`.

    The results are not used: `count_fused` runs this under ncu.
    """
    with Buffers() as memory:
        images = np.ascontiguousarray(cycle(dataset(size=86), batch).images)
        x, y = memory.copy_in(images), memory.new((batch, 10))
        for step, dtype in itertools.product(list_steps(), PRECISIONS):
            with FusedNetwork(dtype=dtype, step=step) as network:
                network.launch(x, y, batch)  # y: the probabilities of 10 classes
                memory.copy_out(y, (batch, 10))  # waits for the kernel, and raises its fault


def count_fused(batch: int = 10_000) -> pd.DataFrame:
    """Count the fused kernels with ncu, from float images; return a row per kernel and data type.

    Raises LabError if ncu cannot profile, or counted other launches.
    """
    # the program's main part calls `launch_fused`
    rows = run_ncu([sys.executable, "-m", "recording.network", str(batch)], COUNTERS)
    # "network" is the name of the fused kernel; its steps are its versions, None the last one
    launches = [row for row in rows if row["kernel"] == "network"]
    cases = [*itertools.product(list_steps(), PRECISIONS)]
    if len(launches) != len(cases):
        raise LabError(
            f"ncu counted other launches: {len(launches)} of the fused kernels, not {len(cases)}"
        )
    return pd.DataFrame(
        [
            {"label": f"fused, {step}" if step else "fused", "dtype": dtype, "batch": batch}
            | {name: row[name] for name in COUNTERS if name in row}
            for (step, dtype), row in zip(cases, launches, strict=True)
        ]
    )


def network(
    repeat: Repeat = None,
    counted: Annotated[bool, Option("--counters", help="Only Nsight Compute's counters.")] = False,
    steps: Annotated[
        bool, Option("--steps", help="Only the steps from the plain network to the fused one.")
    ] = False,
    out: Folder = None,
) -> None:
    """Measure the whole network: data/network/.

    These are the times of a forward pass, ours and PyTorch's, the steps from the plain network to the
    fused one, and Nsight Compute's counters of the fused kernels.
    """
    require_gpu("the network is recorded on a GPU")
    hostcuda.ensure_context()
    everything = not (counted or steps)
    for table in _measure_tables(repeat) if everything else ():
        print(
            f"B = {table['batch'].iloc[0]}\n{table[SHOWN].round(4).to_string(index=False)}\n",
            flush=True,
        )
        print(f"kept in {write_rows(table, out)}", flush=True)
    for batch in BATCHES if everything or steps else ():
        table = bench_steps(batch, repeat or STEPS_REPEAT)
        print(table[["kernel", *SHOWN]].round(4).to_string(index=False), flush=True)
        print(f"kept in {write_steps(table, out)}", flush=True)
    if everything or counted:
        path = record_evidence(count_fused(), Path(out or data_dir()) / "network" / "counters")
        print(f"counters kept in {path}")


def _measure_tables(repeat: int | None) -> Iterator[pd.DataFrame]:
    """Yield a table per batch as soon as it is measured, and one of several GPUs; `repeat` is the number of runs."""
    torch, count = find_torch(), hostcuda.driver.Device.count()
    for batch, compiled in BATCHES.items():
        yield bench_network(
            batch,
            repeat,
            *([functools.partial(pytorch.list_cases, torch, compiled)] if torch else ()),
        )
    if count > 1:
        yield bench_devices(sorted({1, 2, count}), ON_SEVERAL, repeat=repeat or 20)


# ------------------------------------------------------------------------------------- several GPUs
@contextmanager
def split_batch(
    devices: Sequence[int],
    images: np.ndarray,
    weights: str | dict,
    dtype: str,
    source: tuple[int, int] | None = None,
    white: float = 255.0,
) -> Iterator[Callable[[], np.ndarray]]:
    """Yield a function that computes the probabilities of images on several GPUs of one host: float32 [B, 10].

    It computes on all at once, and waits. Each device has a context, a thread and page-locked
    images of its own, which it takes over its own link; nothing is exchanged between them.
    `devices` are their numbers, as CUDA counts them; one may occur twice. The rest is as for
    `FusedNetwork` and `FusedNetwork.batch`. All memory is freed at the end.
    """
    hostcuda.ensure_context()  # chooses the engine, here and not in a thread
    threads: list[ThreadPoolExecutor] = []
    batches: list[list[Batch]] = []  # each device's one batch; its thread empties the list

    def open_batch(
        stack: ExitStack, own_batches: list[Batch], device: int, own_images: np.ndarray
    ) -> None:
        """Append the batch of a device, in its thread; `stack` frees it while the context is current."""
        context = hostcuda.driver.Device(device).retain_primary_context()
        context.push()
        stack.callback(context.pop)
        stack.callback(own_batches.clear)
        network = stack.enter_context(FusedNetwork(weights, dtype))
        own_batches.append(stack.enter_context(network.batch(len(own_images), source, white)))
        own_batches[0].x[...] = own_images

    def run() -> np.ndarray:
        """Run all devices' batches side by side, and return their probabilities one after the other."""
        running = [
            thread.submit(batch.run) for thread, (batch,) in zip(threads, batches, strict=True)
        ]
        return np.concatenate([future.result() for future in running])

    with ExitStack() as stack:
        for device, own_images in zip(devices, np.array_split(images, len(devices)), strict=True):
            threads.append(stack.enter_context(ThreadPoolExecutor(1)))
            batches.append([])
            own_stack = ExitStack()
            # closed in the device's thread, where the context is current, before the thread ends
            stack.callback(
                lambda thread=threads[-1], own_stack=own_stack: thread.submit(
                    own_stack.close
                ).result()
            )
            threads[-1].submit(open_batch, own_stack, batches[-1], device, own_images).result()
        yield run


def bench_devices(
    counts: Sequence[int],
    batch: int,
    pixels: Sequence[str] = ("float32", "uint8 86x86", "uint8 8x8"),
    dtypes: Sequence[str] = ("float32", "float16"),
    repeat: int = 20,
) -> pd.DataFrame:
    """Measure the forward pass of `batch` images from page-locked host memory on the first devices of the host.

    Returns the columns of `labkit.bench_network`, with a row per number of devices in `counts`,
    such as (1, 2), per form of the images in `pixels` and data type in `dtypes`. The label has the
    number of devices. Of the `repeat` timed runs, those of the counts alternate. Raises CheckFailed
    if probabilities are wrong.
    """
    images, rows = Images(batch), []
    for dtype, form in itertools.product(dtypes, pixels):
        # the images; of bytes height and width; the byte that stands for 1
        array, source, white = images.forms[form]
        cases = []
        with ExitStack() as stack:
            for count in counts:
                run = stack.enter_context(
                    split_batch(range(count), array, images.weights, dtype, source, white)
                )
                latest = {}  # "y": the probabilities of the last run
                cases.append(
                    Entry(
                        label=f"fused on {count} GPU{'s' * (count > 1)}",
                        dtype=dtype,
                        where=HOST,
                        pixels=form,
                        bound=dtype,  # the data type whose rounding bounds the errors
                        run=lambda run=run, latest=latest: latest.update(y=run()),
                        result=lambda numbers, latest=latest: latest["y"][numbers],
                        before=latest.clear,
                    )
                )
            for case in cases:
                images.check(case, "before timing")
            for _ in range(repeat):
                for case in cases:
                    case.times.append(case.time())
            for case in cases:
                images.check(case, "after timing", run_first=False)
        rows += [make_row(case, batch) for case in cases]
    return pd.DataFrame(rows)


# ---------------------------------------------------------------------------------------- exactness
def errors(
    images: Annotated[int, Option(help="Of each kind: digits and random bytes.")] = 500,
    parts: Annotated[
        bool, Option("--parts", help="Emulate what each part of the fused kernels loses.")
    ] = False,
) -> None:
    """Print how exact the network is in float.

    For each way to compute it: the largest and the mean error of a probability, and how many answers
    differ from those in float64.
    """
    if parts:
        table = measure_parts().pivot(index="kernel", columns="part", values="largest")
        return print(table[[*NAMES, "all"]].to_string(float_format="{:.2e}".format))
    print(device().note)
    weights = {name: array.astype(np.float64) for name, array in load_weights("digits").items()}
    random_bytes = np.random.default_rng(0).integers(0, 256, (images, 1, 86, 86))
    kinds = {
        "digits": np.ascontiguousarray(cycle(dataset(size=86), images).images),
        "random bytes": (random_bytes / np.float32(255)).astype(np.float32),
    }
    rows = []
    with ExitStack() as stack:
        ways = dict(_list_ways(stack))  # name -> function from images to probabilities
        for kind, x in kinds.items():
            exact = np.concatenate(
                [
                    forward_numpy(x[first : first + CHUNK], weights, conv_float64)
                    for first in range(0, images, CHUNK)
                ]
            )
            for way, forward in ways.items():
                probabilities = forward(x)
                error = np.abs(probabilities - exact)
                rows.append(
                    {
                        "images": kind,
                        "way": way,
                        "largest": error.max(),
                        "mean": error.mean(),
                        "other answers": int((probabilities.argmax(1) != exact.argmax(1)).sum()),
                    }
                )
    print(pd.DataFrame(rows).to_string(index=False, float_format="{:.2e}".format))


def _list_ways(stack: ExitStack) -> Iterator[tuple[str, Callable[[np.ndarray], np.ndarray]]]:
    """Yield (name, function of images to probabilities) of each way that this machine has; `stack` frees its memory."""
    yield "page 07", Network().forward
    # None: the CPU engine
    for step in KERNELS if device().compute_capability in (None, (9, 0)) else (None,):
        yield (
            f"fused, {step or 'page 13'}",
            stack.enter_context(FusedNetwork("digits", "float32", step)).forward,
        )
    if torch := find_torch():
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        forward, place = pytorch.build_forward(torch, load_weights("digits"), "fp32", None, 1.0)
        yield (
            "PyTorch FP32",
            lambda images: forward(place(torch.from_numpy(images).to("cuda"))).cpu().numpy(),
        )


if __name__ == "__main__":
    launch_fused(int(sys.argv[1]))
