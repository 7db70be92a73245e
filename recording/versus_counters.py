"""Nsight Compute's counters of the ladder's fastest kernels and of the libraries', for data/versus/counters/.

Each contestant of `recording.versus` computes the same images once under Nsight Compute, which
repeats each kernel and empties the caches before it. Triton's and CUTLASS's kernels have the sizes
that data/versus/ records as the fastest on this device: nothing is searched. A contestant may launch
several kernels; each has a row.
"""

import re
import sys
import time
from contextlib import ExitStack

import numpy as np
import pandas as pd

import hostcuda
from labkit import Layer, recorded
from labkit.base.numerals import times as format_times
from labkit.records.recorded import Recorded
from labkit.spec import devices
from recording import jobs, libraries, versus
from recording.counters import METRICS, run_ncu
from recording.gpu import describe_torch, require_gpu, require_torch
from recording.keep import record_table, stamp
from recording.libraries import Given
from recording.options import LAYERS, Dry, Folder, Layers, choose_layers

BATCH = 10_000
NAMES = ("cudnn", "triton", "cutlass")  # torch.compile chose kernels of these
# Only what runs between the profiler's start and stop is counted. The name of a kernel begins with
# that of the NVTX range that it was launched in: "cuDNN FP16, NHWC/" and its own.
OPTIONS = ("--profile-from-start", "off", "--nvtx", "--print-nvtx-rename", "kernel")


def read_sizes(layer: Layer) -> dict[str, tuple[int, ...]]:
    """Return the tile sizes that were fastest when this device was recorded: {"Triton TF32": (256, 32, 4, 1)}.

    A contestant is one of the compared kernels, the lab's or a library's. The sizes are those for BATCH
    images of the layer; contestants that have no sizes to search are left out.
    """
    table = recorded(devices.device().name).versus(layer, BATCH)
    rows = table[table["how"].str.contains("searched", na=False)]
    # "256 pixels, 32 terms, 4 warps, 1 stages, the fastest of 20 searched"; CUTLASS's 32 maps are no choice
    return {
        row.label: tuple(
            map(int, re.findall(r"(\d+) (?:pixels|terms|warps|stages|channels)", row.how))
        )
        for row in rows.itertuples()
    }


def launch_all(layer: Layer) -> None:
    """Launch each contestant on the layer twice; the profiler is on in the second time alone.

    In the first one PyTorch or a compiler may still choose or compile its kernel.
    The second time is in an NVTX range with the contestant's label and layout, so that Nsight
    Compute can tell whose kernels it counts.
    """
    torch, rng = require_torch(), np.random.default_rng(7)
    hostcuda.ensure_context()
    inputs = [rng.random(layer.x_shape(BATCH), dtype=np.float32)]
    # masks from -0.25 to 0.75: of both signs, so that sums also cancel
    k = rng.random(layer.k_shape, dtype=np.float32) - np.float32(0.25)
    given = Given(torch, layer, inputs, k, sizes=read_sizes(layer))
    with ExitStack() as stack:
        contestants = list(versus.list_own(stack, layer, inputs, k))
        for name in NAMES:
            contestants += libraries.LIBRARIES[name](given)
        for contestant in contestants:
            contestant.run(0)  # on inputs[0]
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_push(f"{contestant.label}, {contestant.layout}")
            torch.cuda.cudart().cudaProfilerStart()
            contestant.run(0)
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()
            torch.cuda.nvtx.range_pop()


def count(layer: Layer) -> pd.DataFrame:
    """Count with Nsight Compute (ncu) what each contestant of a layer launches; return a row per kernel.

    The columns are network, layer, batch, label, layout, kernel, and ncu's counters by their names.
    """
    program = [sys.executable, "-m", "recording.versus_counters", layer.name]
    rows = []
    for row in run_ncu(program, METRICS, OPTIONS):
        # ncu names a kernel after its range, "cuDNN FP32, NHWC/kernel": `launch_all` opens the range
        label, layout, kernel = re.fullmatch(r"(.*?), (NCHW|NHWC)/(.*)", row["kernel"]).groups()
        columns = {
            "network": layer.network,
            "layer": int(layer.name[-1]),  # 1 of "lenet86 layer 1"
            "batch": BATCH,
            "label": label,
            "layout": layout,
            "kernel": kernel,
        }
        rows.append(columns | {name: row[name] for name in METRICS if name in row})
    return pd.DataFrame(rows)


# What the table of docs/results.md has of a kernel, in per cent of the unit's maximum.
BUSY = {
    "L2": "l2_busy_pct",
    "L1 data pipe": "l1_busy_pct",
    "tensor cores": "tensor_busy_pct",
    "issue slots": "issue_slots_pct",
}


def to_markdown(results: Recorded) -> str:
    """Return, in Markdown for docs/results.md, how busy a GPU's units are in the fastest kernel of each layer.

    A row per layer and data type: the kernel's recorded time over the reference time, and the
    counters of the longest of its kernels.
    """
    columns = [
        "kernel",
        "over reference",
        "device memory (TB/s)",
        *(f"{unit} (%)" for unit in BUSY),
    ]
    lines = [f"| | {' | '.join(columns)} |", "|---|---|" + "---:|" * (len(columns) - 1)]
    # the kernels of rungs 10 and 11; 11 computes floats as three products of halves
    for dtype, products, own in (("float16", "", "10 "), ("float32", "3×FP16", "11 ")):
        for layer in LAYERS:
            times = results.versus(layer, BATCH)  # the fastest first
            best = times[times["label"].str.startswith(own)].iloc[0]
            label = best["label"].removesuffix(versus.AGAIN)
            counted = results.versus_counters(layer).query("label == @label")
            row = counted.loc[counted["time_ns"].idxmax()]
            reference_ms = layer.reference_ms(BATCH, dtype, results.device, products)
            cells = [
                label,
                format_times(best["median_ms"] / reference_ms),
                f"{row['dram_bytes'] / row['time_ns'] / 1e3:.2f}",  # bytes per ns are GB/s
                *(f"{row[counter]:.0f}" for counter in BUSY.values()),
            ]
            kind = "half" if dtype == "float16" else "float"
            lines.append(f"| {layer.name}, {kind} | {' | '.join(cells)} |")
    first = results.versus_counters(LAYERS[0]).iloc[0]
    caption = (
        f"The table has the faster version of kernel 10 (half) and of kernel 11 (float) on each layer, with {BATCH:,} "
        f"images, {results.device}. *Over reference* is the op time divided by the "
        "[reference time](glossary.md#reference-time).\n\n"
        f"Nsight Compute measured the columns in TB/s and in %, on {first['date']}. The columns in % say how much of "
        "the time a unit of the GPU is busy. *Device memory* is the number of bytes that device memory moves per "
        "second."
    )
    return "\n".join([caption, "", *lines])


def versus_counters(only: Layers = None, dry: Dry = False, out: Folder = None) -> None:
    """Count what ours and others do: data/versus/counters/.

    Nsight Compute counts how busy the units of a GPU are in the kernels that `versus` measures: the
    lab's fastest and those of libraries.
    """
    here, start = require_gpu("counters are recorded on a GPU"), time.perf_counter()
    software = f"{here.software}, {describe_torch(require_torch())}"
    layers = choose_layers(only)
    jobs.compile_all(
        jobs.make_job(kernel, layer) for kernel in versus.list_kernels() for layer in layers
    )
    for layer in layers:
        table = stamp(count(layer), software)
        if not dry:
            record_table(table, "versus/counters", out, ["network", "layer", "batch"], digits=10)
        print(f"{layer}: {len(table)} kernels, {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    for named in choose_layers(sys.argv[1:]):
        launch_all(named)
