"""The fastest kernels of the ladder and cuDNN in all its modes, interleaved in one run, for data/versus/.

Every contestant computes one of two inputs in turn. It is checked before and after; in between, each round times each
contestant once, in an order that moves on from round to round, after four times the size of the L2 cache was written.
cuDNN is measured through PyTorch in two layouts, with its autotuner on (`recording.cudnn`).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import hostcuda
from hostcuda import files
from labkit.base.errors import LabError
from labkit.base.numerals import three
from labkit.base.paths import data_dir
from labkit.ladder.variants import variant
from labkit.measure.compare import tolerance
from labkit.spec.devices import device
from labkit.spec.layers import LENET72, LENET86, Layer
from labkit.spec.reference import conv_float64, error_scale
from recording.cudnn import BATCHES, LAYOUTS, MODES, software
from recording.options import Dry, Folder, Repeat

OURS = tuple((number, step) for number, step in ((7, None), (10, None), (10, "warpgroups"), (11, None),
                                                 (11, "warpgroups")))
INPUTS, CHECKED, REPEAT, WARM_UP = 2, 4, 20, 3


@dataclass
class Contestant:
    """What is timed: `run(i)` computes input i, `result(i)` gives the first images of y."""

    label: str
    layout: str
    run: Callable[[int], None]
    result: Callable[[int], np.ndarray]
    half: bool
    allowed: Callable[[np.ndarray], np.ndarray]  # the largest error, of sum |x| |k|


def _ours(stack: ExitStack, layer: Layer, inputs: list[np.ndarray], k: np.ndarray) -> Iterator[Contestant]:
    for number, step in OURS:
        kernel = variant(number, **({"step": step} if step else {}))
        dtype, batch = kernel.io_dtype, len(inputs[0])
        plans = [stack.enter_context(kernel.plan(layer, batch)) for _ in inputs]
        for plan, x in zip(plans, inputs, strict=True):
            plan.load(x.astype(dtype), k.astype(dtype))

        def result(i, plans=plans, dtype=dtype):
            y = np.empty((CHECKED, *layer.y_shape(1)[1:]), dtype)
            hostcuda.driver.memcpy_dtoh(y, plans[i].y)
            return y

        yield Contestant(kernel.label, "NCHW", lambda i, plans=plans: plans[i].run(), result, dtype == np.float16,
                         lambda scale, kernel=kernel: tolerance(kernel.rounding, scale, layer.terms))


def _cudnn(torch, layer: Layer, inputs: list[np.ndarray], k: np.ndarray) -> Iterator[Contestant]:
    torch.backends.cudnn.benchmark = True
    for mode, allowed in MODES.items():
        for layout in LAYOUTS:
            dtype = torch.float16 if mode == "fp16" else torch.float32
            order = torch.contiguous_format if layout == "NCHW" else torch.channels_last
            on_gpu = [torch.from_numpy(each).to("cuda", dtype, memory_format=order) for each in (*inputs, k)]

            def conv(i, mode=mode, on_gpu=on_gpu):
                torch.backends.cudnn.allow_tf32 = mode == "tf32"
                return torch.nn.functional.conv2d(on_gpu[i], on_gpu[-1])

            yield Contestant(f"cuDNN {mode.upper()}", layout, conv,
                             lambda i, conv=conv: conv(i)[:CHECKED].float().cpu().numpy(), mode == "fp16",
                             lambda scale, allowed=allowed: allowed * scale)


def _check(several: list[Contestant], layer: Layer, inputs: list[np.ndarray], k: np.ndarray, when: str) -> None:
    for half in (False, True):
        exact = []
        for x in inputs:
            some, mask = (each.astype(np.float16) if half else each for each in (x[:CHECKED], k))
            exact.append((conv_float64(some, mask), error_scale(some, mask)))
        for each in several:
            for i, (y, scale) in enumerate(exact if each.half == half else ()):
                each.run(i)
                if not (np.abs(each.result(i) - y) <= each.allowed(scale)).all():
                    raise LabError(f"{each.label}, {each.layout}, on {layer}: wrong {when} the timed runs")


def measure(torch, layer: Layer, batch: int, repeat: int) -> pd.DataFrame:
    """A row per contestant: median, least and largest of `repeat` times in milliseconds.

    Raises
    ------
    LabError
        If a result is wrong, before or after.
    """
    rng = np.random.default_rng(7)
    inputs = [rng.random(layer.x_shape(batch), dtype=np.float32) for _ in range(INPUTS)]
    k = rng.random(layer.k_shape, dtype=np.float32) - np.float32(0.25)
    flushed = torch.empty(2 * torch.cuda.get_device_properties(0).L2_cache_size, dtype=torch.uint8, device="cuda")
    with ExitStack() as stack:
        several = [*_ours(stack, layer, inputs, k), *_cudnn(torch, layer, inputs, k)]
        _check(several, layer, inputs, k, "before")
        times = np.empty((len(several), repeat))
        for turn in range(-WARM_UP, repeat):
            for n in np.roll(np.arange(len(several)), turn):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                flushed.zero_()
                flushed.zero_()  # long enough for the launches to be in the queue when it ends
                start.record()
                several[n].run(turn % INPUTS)
                end.record()
                end.synchronize()
                times[n, max(turn, 0)] = start.elapsed_time(end)  # those of the warm-up are overwritten
        _check(several, layer, inputs, k, "after")
    about = {"network": layer.network, "layer": int(layer.name[-1]), "batch": batch}
    rows = [{**about, "label": each.label, "layout": each.layout, "median_ms": np.median(mine), "min_ms": mine.min(),
             "max_ms": mine.max(), "repeat": repeat} for each, mine in zip(several, times, strict=True)]
    return pd.DataFrame(rows)


def summary(table: pd.DataFrame) -> str:
    """The best layout of each contestant, in milliseconds."""
    best = table.groupby(["label", "network", "layer", "batch"], sort=False)["median_ms"].min()
    return best.unstack(["network", "layer", "batch"]).to_string(float_format="{:.4g}".format)


def markdown(table: pd.DataFrame) -> str:
    """The same for the README: milliseconds with each batch, in bold the fastest in float and in half."""
    best = table.groupby(["label", "network", "layer", "batch"], sort=False)["median_ms"].min()
    half = best.index.get_level_values("label").str.match("10 |.*FP16")
    fastest = best.groupby([half, best.index.get_level_values("network"), best.index.get_level_values("layer"),
                            best.index.get_level_values("batch")]).transform("min")
    shown = best.map(three).where(best > fastest, "**" + best.map(three) + "**")
    cells = shown.groupby(["label", "network", "layer"], sort=False).agg(" · ".join).unstack(["network", "layer"])
    batches = " · ".join(f"{batch:,}" for batch in table["batch"].unique())
    lines = [
        f"Op time in milliseconds with {batches} images, {table['device'].iloc[0]}, {table['date'].iloc[0]}, one "
        f"interleaved run: medians of {table['repeat'].iloc[0]} times, of cuDNN the faster of two layouts, every "
        f"contestant checked before and after (PyTorch{table['software'].iloc[0].partition('PyTorch')[2]}). Bold: the "
        "fastest in float and in half. 10 and cuDNN FP16 read and write halves, the others floats, which TF32 "
        "rounds.\n",
        "| | " + " | ".join(f"{network} layer {layer}" for network, layer in cells.columns) + " |",
        "|---|" + "---:|" * len(cells.columns),
    ]
    return "\n".join([*lines, *(f"| {label} | {' | '.join(row)} |" for label, *row in cells.itertuples())])


def versus(repeat: Repeat = None, dry: Dry = False, out: Folder = None) -> None:
    """Measure ours and cuDNN in one run: data/versus/."""
    try:
        import torch  # nothing else in the lab needs it
    except ModuleNotFoundError:
        raise LabError("cuDNN is measured through PyTorch: https://pytorch.org/get-started/locally") from None
    here = device()
    if here.engine != "gpu" or not torch.cuda.is_available():
        raise LabError(f"this comparison needs an NVIDIA GPU that PyCUDA and PyTorch can use; here is {here.name}")
    hostcuda.ensure_context()
    tables = []
    for layer in (*LENET86, *LENET72):
        for batch in BATCHES:
            tables.append(measure(torch, layer, batch, repeat or REPEAT))
            torch.cuda.empty_cache()
        print(f"{layer.name}: measured", flush=True)
    table = pd.concat(tables, ignore_index=True)
    print(f"\n{summary(table)}")
    table.insert(0, "date", datetime.date.today().isoformat())
    table.insert(1, "device", here.name)
    table.insert(2, "software", f"{here.software}, {software(torch)}")
    if not dry:
        path = Path(out or data_dir()) / "versus" / f"{here.slug}.csv"
        files.write(path, table.to_csv(index=False, float_format="%.5g", lineterminator="\n"))
        print(f"\nkept in {path}; `python -m recording pictures` puts it into docs/results.md")
