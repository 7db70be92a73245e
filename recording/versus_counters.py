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
from hostcuda.metrics import COUNTED, MEASURED, RECORDED, STALLED, STALLS
from labkit import Layer
from labkit.base.paths import data_dir
from labkit.records.store import read_as_stored
from labkit.spec import devices
from recording import jobs, libraries, versus
from recording.counters import run_ncu
from recording.gpu import describe_torch, require_gpu, require_torch
from recording.keep import record_table, stamp
from recording.libraries import Given
from recording.options import Dry, Folder, Layers, choose_layers

BATCH = 10_000
NAMES = ("cudnn", "triton", "cutlass")  # torch.compile chose kernels of these
# Only what runs between the profiler's start and stop is counted, and a kernel has the name of the
# NVTX range that it was launched in.
OPTIONS = ("--profile-from-start", "off", "--nvtx", "--print-nvtx-rename", "kernel")
METRICS = (
    *COUNTED.values(),
    *MEASURED.values(),
    *RECORDED.values(),
    *(STALLED.format(reason) for reason in STALLS),
)


def read_sizes(layer: Layer) -> dict[str, tuple[int, ...]]:
    """Return label -> the sizes that `recording.versus` found fastest on this device, for BATCH images of the layer."""
    table = read_as_stored(data_dir() / "versus" / f"{devices.device().slug}.csv")
    rows = table[
        (table["network"] == layer.network)
        & (table["layer"] == int(layer.name[-1]))
        & (table["batch"] == BATCH)
        & table["how"].str.contains("searched", na=False)
    ]
    # "256 pixels, 32 terms, 4 warps, 1 stages, the fastest of 20 searched"; CUTLASS's 32 maps are no choice
    return {
        row.label: tuple(
            map(int, re.findall(r"(\d+) (?:pixels|terms|warps|stages|channels)", row.how))
        )
        for row in rows.itertuples()
    }


def launch_all(layer: Layer) -> None:
    """Launch each contestant on the layer twice; the second time is for Nsight Compute."""
    torch, rng = require_torch(), np.random.default_rng(7)
    hostcuda.ensure_context()
    inputs = [rng.random(layer.x_shape(BATCH), dtype=np.float32)]
    k = rng.random(layer.k_shape, dtype=np.float32) - np.float32(0.25)
    given = Given(torch, layer, inputs, k, sizes=read_sizes(layer))
    with ExitStack() as stack:
        contestants = list(versus.list_own(stack, layer, inputs, k))
        for name in NAMES:
            contestants += libraries.LIBRARIES[name](given)
        for contestant in contestants:
            contestant.run(0)
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_push(f"{contestant.label}, {contestant.layout}")
            torch.cuda.cudart().cudaProfilerStart()
            contestant.run(0)
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()
            torch.cuda.nvtx.range_pop()


def count(layer: Layer) -> pd.DataFrame:
    """Return a row per kernel of each contestant: network, layer, batch, label, layout, and ncu's counters."""
    program = [sys.executable, "-m", "recording.versus_counters", layer.name]
    rows = []
    for row in run_ncu(program, METRICS, OPTIONS):
        label, _, layout = row["kernel"].strip('"').rpartition(", ")
        columns = {
            "network": layer.network,
            "layer": int(layer.name[-1]),
            "batch": BATCH,
            "label": label,
            "layout": layout,
        }
        rows.append(columns | {name: row[name] for name in METRICS if name in row})
    return pd.DataFrame(rows)


def versus_counters(only: Layers = None, dry: Dry = False, out: Folder = None) -> None:
    """Count what ours and others do: data/versus/counters/."""
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
