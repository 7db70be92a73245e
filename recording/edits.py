"""Times of kernels that the estimates were not fitted to, for data/estimates/: edits of the rungs, and whole programs.

`edits/edits.csv` has a row per edit: its file, the rung that it replaces, its options, its layers,
and its idea. `programs/` has programs that are not convolutions; each checks its result and prints
its time.
"""

import functools
import itertools
import re
from pathlib import Path
from typing import Annotated, NamedTuple

import pandas as pd
from typer import Option

from hostcuda import processes
from hostcuda.errors import EngineError
from labkit import LENET86, LabError, Layer, variant
from labkit.base.paths import data_dir
from labkit.ladder import tables
from labkit.ladder.variants import Variant
from labkit.records import store
from labkit.spec.layers import as_layer
from recording import jobs
from recording.gpu import require_gpu
from recording.keep import merge_rows, stamp
from recording.options import Folder, Repeat
from recording.times import bench_all, check_kernels

EDITS, PROGRAMS = (Path(__file__).parent / name for name in ("edits", "programs"))
KEPT = [
    "label",
    "options",
    "code",
    "layer",
    "batch",
    "dtype",
    "op_ms",
    "op_min_ms",
    "op_max_ms",
    "repeat",
]
PATIENCE_S = 300  # the longest time of a program
# Sizes of the programs, or of those that begin with this name: so small that the CPU engine counts
# them in seconds.
SIZES = {
    "sgemm": 512,
    "transpose": 4096,
    "stencil": 4096,
    "stencil3d": 256,
    "matvec": 4096,
    "mandelbrot": 2048,
    "maxpool": 4096,
    "bilinear": 2048,
    "special": 1 << 21,
    "horner": 1 << 21,
    "conv1d": 1 << 22,
    "gather": 1 << 22,
    "strided": 1 << 22,
}
_OTHER_SIZE = 1 << 24
_LINE = re.compile(r"(\w+),(\d+),(\w+),([\d.e+-]+)")  # copy,16777216,copy_float4,0.0312


class Edit(NamedTuple):
    """A kernel that replaces a rung's: the variant, the rung with the same options, the edit's layers, and its idea."""

    variant: Variant
    start: Variant
    layers: tuple[Layer, ...]
    idea: str


def read_edits(folder: Path = EDITS) -> list[Edit]:
    """Return the edits of `edits.csv` in its order.

    An edit whose row names no layers is for both layers of lenet86.
    """
    edits_read = []
    for row in store.read_as_stored(folder / "edits.csv", keep_default_na=False).itertuples():
        options = tables.as_options(row.options)
        layers = tuple(map(as_layer, row.layers.split(" + "))) if row.layers else (*LENET86,)
        edited = variant(row.rung, folder / row.file, **options)
        edits_read.append(Edit(edited, variant(row.rung, **options), layers, row.idea))
    return edits_read


def every_program() -> list[Path]:
    """Return the paths of the programs."""
    return sorted(PROGRAMS.glob("*.cu"))


def size_of(program: str) -> int:
    """Return the size at which a program is estimated, and at which it is timed for comparison."""
    return SIZES.get(program, SIZES.get(program.partition("_")[0], _OTHER_SIZE))


def run_program(path: Path, engine: str, *arguments: str) -> dict[str, str | int | float]:
    """Run a program on an engine; return its name, size and kernel's name, and the median time of a launch [ms].

    Raises EngineError if it does not compile, or fails; LabError if it prints another line.
    """
    ended = processes.run(
        processes.program(str(path), arguments, engine), {}, PATIENCE_S, capture=True
    )
    ended.require(path.name)
    if not (line := _LINE.fullmatch(ended.output.strip())) or not (ms := float(line[4])) > 0:
        raise LabError(
            f"{path.name} has to print one line, name,size,kernel,ms; it printed:\n{ended.last_lines}"
        )
    return {"name": line[1], "size": int(line[2]), "kernel": line[3], "ms": ms}


def time_edits(batch: int, repeat: int | None) -> pd.DataFrame:
    """Check the edits and the rungs they begin from, and measure them side by side, layer by layer.

    Returns a row per kernel and layer, with the columns KEPT of `bench`. What fails is printed and
    left out.
    """
    shapes: dict[Variant, dict[Layer, None]] = {}  # the layers of each kernel, in order
    for edit in read_edits():
        for kernel in (edit.start, edit.variant):  # several edits may begin from one rung
            shapes.setdefault(kernel, {}).update(dict.fromkeys(edit.layers))
    jobs.compile_all(
        jobs.make_job(kernel, layer) for kernel, layers in shapes.items() for layer in layers
    )
    passed = [
        kernel
        for kernel, layers in shapes.items()
        if check_kernels([kernel], [(layer, 2) for layer in layers])
    ]
    measured = [pd.DataFrame(columns=KEPT)]
    for layer in dict.fromkeys(layer for layers in shapes.values() for layer in layers):
        several = [kernel for kernel in passed if layer in shapes[kernel]]
        if several:
            measured += bench_all(several, layer, batch, repeat=repeat, layer_time=False)
        print(f"{layer.name}: {len(several)} kernels", flush=True)
    return pd.concat(measured[1:] or measured, ignore_index=True)[KEPT]


def time_programs() -> pd.DataFrame:
    """Run the programs, each at its own size and at that of its estimate; return a row per run that did not fail.

    The columns are those of `run_program`. What fails is printed.
    """
    rows = []
    for path, is_estimated in itertools.product(every_program(), (False, True)):
        try:  # the arguments are the size and the number of timed launches
            rows.append(
                run_program(path, "gpu", *([str(size_of(path.stem)), "20"] if is_estimated else []))
            )
        except EngineError as error:
            print(f"FAILED {error}", flush=True)
    return pd.DataFrame(rows, columns=["name", "size", "kernel", "ms"])


def edits(
    batch: Annotated[int, Option(help="Images.")] = 10_000,
    repeat: Repeat = None,
    folder: Folder = None,
) -> None:
    """Time what no estimate has seen: data/estimates/.

    These are edits of the rungs, beside the rungs with the same options, and programs that are no
    convolutions.
    """
    require_gpu("edits are timed on a GPU, and nothing was written")
    for name, key in (
        ("edits", ["label", "layer", "batch"]),
        ("programs", ["name", "size", "kernel"]),
    ):
        table = time_edits(batch, repeat) if name == "edits" else time_programs()
        print(table.to_string(index=False))
        if len(table):
            path, rows = (
                (folder or data_dir() / "estimates") / f"{name}.csv",
                stamp(store.remove_numbers(table)),
            )
            # a digest may be all digits
            read = functools.partial(store.read_as_stored, dtype={"code": str})
            print(f"kept in {merge_rows(path, rows, ['device', *key], read=read)}", flush=True)
