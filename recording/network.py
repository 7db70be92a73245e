"""The forward pass of lenet86, ours and PyTorch's, for data/network/: `labkit.bench_network` on the GPU in use.

PyTorch is measured where it can be imported and can use the GPU: in fp32, tf32 and fp16, its calls one by one; on the
device also as a CUDA graph; from the host also in chunks on streams, as `FusedNetwork.batch` does.

With several GPUs in the machine, the fused network is measured on one, two and all of them, too. New rows replace those
of the same way, batch and images. Nsight Compute's counters of the fused kernel go to data/network/counters/.
"""

from __future__ import annotations

import datetime
import functools
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pandas as pd
from typer import Option

import hostcuda
from hostcuda import processes, temporary
from hostcuda.gpu import nsight
from hostcuda.metrics import MEASURED, RECORDED, STALLED, STALLS
from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.networks.benchmark import bench_network, list_steps
from labkit.networks.fused import PRECISIONS
from labkit.spec.devices import device
from recording import pytorch
from recording.cudnn import describe_software
from recording.keep import merge_rows, record_evidence
from recording.options import Dry, Folder, Repeat
from recording.several import bench_devices

BATCHES = {10_000: True, 1000: False, 100: True}  # batch -> whether torch.compile is measured: it takes a minute
ON_SEVERAL = 40_000  # images over all devices
COUNTERS = (*MEASURED.values(), *RECORDED.values(), *map(STALLED.format, STALLS))
KEY = ["device", "label", "dtype", "batch", "where", "pixels"]
SHOWN = ["label", "dtype", "where", "pixels", "ms", "min_ms", "max_ms", "images_s", "error"]


def write_rows(table: pd.DataFrame, folder: Path | None = None) -> Path:
    """Merge the rows into the device's file."""
    here = device()
    about = {"date": datetime.date.today().isoformat(), "software": _describe_software(table)}
    path = Path(folder or data_dir()) / "network" / f"{here.slug}.csv"
    return merge_rows(path, table.assign(**about), KEY, order=["batch", "where", "dtype"], digits=5)


def _describe_software(table: pd.DataFrame) -> str:
    """Return the device's software, and PyTorch's if it was measured."""
    here = device().software
    if not table["label"].str.startswith("PyTorch").any():
        return here
    import torch  # nothing else in the lab needs it

    return f"{here}, {describe_software(torch)}"


PROGRAM = """
import numpy as np
from labkit import dataset
from labkit.ladder.buffers import Buffers
from labkit.networks.benchmark import list_steps
from labkit.networks.fused import PRECISIONS, FusedNetwork
from labkit.networks.images import cycle

B = {batch}
with Buffers() as memory:
    x, y = memory.copy_in(np.ascontiguousarray(cycle(dataset(size=86), B).images)), memory.new((B, 10))
    for step in list_steps():
        for dtype in PRECISIONS:
            with FusedNetwork(dtype=dtype, step=step) as network:
                network.launch(x, y, B)
                memory.copy_out(y, (B, 10))
"""


def count_fused(batch: int = 10_000) -> pd.DataFrame:
    """Count the fused kernels with ncu, from float images; return a row per kernel and data type.

    Raises
    ------
    LabError
        If ncu cannot profile.
    """
    with temporary.folder() as folder:
        script, log = folder / "program.py", folder / "ncu.csv"
        script.write_text(PROGRAM.format(batch=batch))
        command = nsight.ncu_command(processes.program(str(script), (), "gpu"), log, COUNTERS)
        ended = processes.run(command, {}, capture=True)
        text = log.read_text() if log.is_file() else ""
    launches = [row for row in nsight.read_ncu(text, COUNTERS) if row["kernel"] == "network"]
    cases = [(f"fused, {step}" if step else "fused", dtype) for step in list_steps() for dtype in PRECISIONS]
    if ended.problem or len(launches) != len(cases):
        raise LabError(f"ncu {ended.problem or 'counted other launches'}: {(text + ended.output).strip()[-600:]}")
    return pd.DataFrame([{"label": label, "dtype": dtype, "batch": batch} | {name: row[name] for name in COUNTERS
                                                                             if name in row}
                         for (label, dtype), row in zip(cases, launches, strict=True)])


def network(
    repeat: Repeat = None,
    counted: Annotated[bool, Option("--counters", help="Only Nsight Compute's counters.")] = False,
    several: Annotated[bool, Option("--several", help="Only several GPUs.")] = False,
    dry: Dry = False,
    out: Folder = None,
) -> None:
    """Measure the whole network: data/network/."""
    here = device()
    if here.engine != "gpu":
        raise LabError(f"the network is recorded on a GPU; the engine here is the CPU's ({here.name})")
    hostcuda.ensure_context()
    count = hostcuda.driver.Device.count()
    if several and count < 2:
        raise LabError("this machine has one GPU: leave out --several")
    for table in () if counted else _measure_tables(count, several, repeat):
        print(f"B = {table['batch'].iloc[0]}\n{table[SHOWN].round(4).to_string(index=False)}\n", flush=True)
        if not dry:
            print(f"kept in {write_rows(table, out)}", flush=True)
    if not several and not dry:
        print(f"counters kept in {record_evidence(count_fused(), Path(out or data_dir()) / 'network' / 'counters')}")


def _measure_tables(count: int, several: bool, repeat: int | None) -> Iterator[pd.DataFrame]:
    """Yield each table as soon as it is measured."""
    for batch, compiled in {} if several else BATCHES.items():
        torch = _import_pytorch()
        yield bench_network(batch, repeat, *([functools.partial(pytorch.list_cases, torch, compiled)] if torch else ()))
    if count > 1:
        yield bench_devices(sorted({1, 2, count}), ON_SEVERAL, repeat=repeat or 20)


def _import_pytorch():
    """Return PyTorch's module if it can use the GPU, else None."""
    try:
        torch = importlib.import_module("torch")  # no dependency: nothing else in the lab needs it
    except ModuleNotFoundError:
        return None
    return torch if torch.cuda.is_available() else None
