"""Times of kernels that the estimates were not fitted to, for data/estimates/: edits of the rungs, and whole programs.

`edits/edits.csv` has a row per edit: its file, the rung that it replaces, its options, its layers, and its idea.
`programs/` has programs that are not convolutions; each checks its result and prints its time.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, NamedTuple

import pandas as pd
from typer import Option

from hostcuda import processes
from hostcuda.errors import EngineError
from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.ladder import tables
from labkit.ladder.variants import Variant, variant
from labkit.records import store
from labkit.spec.devices import device
from labkit.spec.layers import LENET86, Layer, as_layer
from recording import jobs
from recording.keep import merge_rows
from recording.options import Dry, Folder, Repeat
from recording.times import bench_all, check_kernels

EDITS, PROGRAMS = (Path(__file__).parent / name for name in ("edits", "programs"))
KEPT = ["label", "options", "code", "layer", "batch", "dtype", "op_ms", "op_min_ms", "op_max_ms", "repeat"]
PATIENCE_S = 300  # the longest time of a program
# Sizes of the programs that are not convolutions: so small that the CPU engine counts them in seconds.
SIZES = {
    "sgemm": 512, "transpose": 4096, "stencil": 4096, "stencil3d": 256, "matvec": 4096, "mandelbrot": 2048,
    "maxpool": 4096, "bilinear": 2048, "special": 1 << 21, "horner": 1 << 21, "conv1d": 1 << 22, "gather": 1 << 22,
    "strided": 1 << 22,
}
_OTHERWISE = 1 << 24
_LINE = re.compile(r"(\w+),(\d+),(\w+),([\d.e+-]+)")


class Edit(NamedTuple):
    """A kernel that replaces a rung's: the variant, the rung with the same options, the edit's layers, and its idea."""

    variant: Variant
    start: Variant
    layers: tuple[Layer, ...]
    idea: str


def read_edits(folder: Path = EDITS) -> list[Edit]:
    """Return the edits of `edits.csv` in its order. An edit whose row names no layers is for both layers of lenet86."""
    found_edits = []
    for row in store.read_as_stored(folder / "edits.csv", keep_default_na=False).itertuples():
        options = tables.as_options(row.options)
        layers = tuple(map(as_layer, row.layers.split(" + "))) if row.layers else (*LENET86,)
        edited = variant(row.rung, folder / row.file, **options)
        found_edits.append(Edit(edited, variant(row.rung, **options), layers, row.idea))
    return found_edits


def every_program() -> list[Path]:
    """Return the paths of the programs."""
    return sorted(PROGRAMS.glob("*.cu"))


def size_of(program: str) -> int:
    """Return the size at which a program is estimated, and at which it is timed for comparison."""
    return SIZES.get(program, SIZES.get(program.partition("_")[0], _OTHERWISE))


def run_program(path: Path, on: str, *arguments: str) -> dict[str, str | int | float]:
    """Run a program on an engine; return its name, size and kernel's name, and the median time of a launch [ms].

    Raises
    ------
    EngineError
        It does not compile, or fails.
    LabError
        It prints another line.
    """
    ended = processes.run(processes.program(str(path), arguments, on), {}, PATIENCE_S, capture=True)
    ended.require(path.name)
    if not (line := _LINE.fullmatch(ended.output.strip())) or not (ms := float(line[4])) > 0:
        raise LabError(f"{path.name} has to print one line, name,size,kernel,ms; it printed:\n{ended.last_lines}")
    return {"name": line[1], "size": int(line[2]), "kernel": line[3], "ms": ms}


def time_edits(batch: int, repeat: int | None) -> pd.DataFrame:
    """Check the edits and the rungs they begin from, and measure them side by side, layer by layer."""
    shapes: dict[Variant, dict[Layer, None]] = {}
    for edit in read_edits():
        for kernel in (edit.start, edit.variant):
            shapes.setdefault(kernel, {}).update(dict.fromkeys(edit.layers))
    jobs.compile_all(jobs.make_job(kernel, layer) for kernel, layers in shapes.items() for layer in layers)
    passed = [kernel for kernel, layers in shapes.items() if check_kernels([kernel], [(layer, 2) for layer in layers])]
    measured = []
    for layer in dict.fromkeys(layer for layers in shapes.values() for layer in layers):
        several = [kernel for kernel in passed if layer in shapes[kernel]]
        if several:
            measured += bench_all(several, layer, batch, repeat=repeat, layer_time=False)
        print(f"{layer.name}: {len(several)} kernels", flush=True)
    return pd.concat(measured, ignore_index=True)[KEPT] if measured else pd.DataFrame(columns=KEPT)


def time_programs(names: Collection[str] = ()) -> pd.DataFrame:
    """Run the programs, or those named, each at its own size and at that of its estimate. What fails is printed."""
    rows, paths = [], [path for path in every_program() if not names or path.stem in names]
    for path, counted in itertools.product(paths, (False, True)):
        try:
            rows.append(run_program(path, "gpu", *([str(size_of(path.stem)), "20"] if counted else [])))
        except EngineError as error:
            print(f"FAILED {error}", flush=True)
    return pd.DataFrame(rows, columns=["name", "size", "kernel", "ms"])


def write_rows(table: pd.DataFrame, name: str, key: list[str], folder: Path | None = None) -> Path:
    """Merge rows into a file of data/estimates/; on a device, a new row replaces the old one with the same key."""
    table = store.remove_numbers(table)
    table.insert(0, "date", datetime.date.today().isoformat())
    table.insert(1, "device", device().name)
    read = functools.partial(store.read_as_stored, dtype={"code": str})
    return merge_rows((folder or data_dir() / "estimates") / f"{name}.csv", table, ["device", *key], read=read)


def edits(
    batch: Annotated[int, Option(help="Images.")] = 10_000,
    repeat: Repeat = None,
    program: Annotated[list[str] | None, Option(help="Only these programs, and no edits.")] = None,
    folder: Folder = None,
    dry: Dry = False,
) -> None:
    """Time what no estimate has seen: data/estimates/.

    These are edits of the rungs, beside the rungs with the same options, and programs that are no convolutions.
    """
    if (here := device()).engine != "gpu":
        raise LabError(f"edits are timed on a GPU, and nothing was written; the engine here is the CPU's ({here.name})")
    if not program:
        table = time_edits(batch, repeat)
        print(table.to_string(index=False))
        if not dry and len(table):
            print(f"kept in {write_rows(table, 'edits', ['label', 'layer', 'batch'], folder)}", flush=True)
    table = time_programs(program or ())
    print(table.to_string(index=False))
    if not dry and len(table):
        print(f"kept in {write_rows(table, 'programs', ['name', 'size', 'kernel'], folder)}")
