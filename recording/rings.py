"""Sums of long rows with a ring of stages, exercise P10a's solution, beside a double buffer and plain loads.

Every kernel has a block of 128 threads per row, and a row per multiprocessor: so the bytes that a
multiprocessor has under way are those of one block.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import hostcuda
from labkit.base.errors import CheckFailed, LabError
from labkit.exercises.exercise import by_name
from labkit.ladder.buffers import Buffers
from labkit.ladder.source import module_arguments
from labkit.measure.bench import time_run
from recording.gpu import require_gpu
from recording.keep import record_table, stamp
from recording.options import Folder

SOURCE = Path(__file__).with_suffix(".cu")
STAGES = (1, 2, 3, 4, 6, 8, 11)  # of 4 KB: a block has at most 48 KB of static shared memory
COLUMNS, REPEAT = 1 << 20, 15  # a row of 4 MB: together more than L2 holds


def compile_kernels(stages: tuple[int, ...] = STAGES) -> dict[tuple[str, int], object]:
    """Return the kernels to compare, as functions of PyCUDA; a key is (name, tiles that the kernel keeps).

    The keys are ("plain loads", 0), ("double buffer", 2), and ("ring", 4) for each number of
    `stages`. The ring is the solution of exercise P10a; raises LabError if it has no number of
    stages to replace.
    """
    solution = by_name("P10a").solution
    if solution.count("STAGES = 4;") != 1:
        raise LabError(
            "P10a's solution has no STAGES = 4, in whose place other numbers are compiled"
        )
    hostcuda.ensure_context()
    compile_source = hostcuda.compiler.SourceModule
    others = compile_source(**module_arguments(SOURCE.read_text(encoding="utf-8"), SOURCE))
    kernels = {
        ("plain loads", 0): others.get_function("plain_loads"),
        ("double buffer", 2): others.get_function("double_buffer"),
    }
    for count in stages:
        # with extern "C", so that `get_function` finds the kernel by its plain name
        text = solution.replace("STAGES = 4;", f"STAGES = {count};").replace(
            "__global__", 'extern "C" __global__'
        )
        ring = compile_source(**module_arguments(text, f"ring_of_{count}.cu"))
        kernels["ring", count] = ring.get_function("sums")
    return kernels


def measure_rings(kernels: dict, rows: int, columns: int) -> list[dict]:
    """Check kernels that add up the rows of a random array, and time them in turns; return a row for each.

    The array has `rows` rows and `columns` columns. A row of the result has experiment ("ring"), kernel
    (its name), x (the tiles that it keeps), ms (the median) and rate (GB/s).
    `kernels` is what `compile_kernels` returns. Raises CheckFailed if a kernel computes wrong sums.
    """
    numbers = np.random.default_rng(10).integers(-1000, 1000, (rows, columns), np.int32)
    expected = numbers.sum(axis=1, dtype=np.int64).astype(np.int32)
    times = {key: [] for key in kernels}
    with Buffers() as memory:
        x, total = memory.copy_in(numbers), memory.new(rows, np.int32)

        def run(kernel) -> None:
            """Launch a kernel on all rows: a block of 128 threads for each."""
            kernel.prepared_call((rows, 1), (32, 4, 1), int(x), columns, int(total))

        for (name, tiles), kernel in kernels.items():
            kernel.prepare("PiP")  # its arguments: a pointer, an int, a pointer
            hostcuda.driver.memset_d32(total, 0, rows)  # not the right sums of the kernel before
            run(kernel)
            if not np.array_equal(memory.copy_out(total, (rows,), np.int32), expected):
                raise CheckFailed(f"{name}, {tiles} tiles: the sums of the rows are wrong")
        for _ in range(REPEAT):
            for key, kernel in kernels.items():
                times[key].append(time_run(lambda kernel=kernel: run(kernel)))
    return [
        {
            "experiment": "ring",
            "kernel": name,
            "x": tiles,
            "ms": np.median(ms),
            "rate": numbers.nbytes / np.median(ms) / 1e6,  # bytes per ms / 1e6: GB/s
        }
        for (name, tiles), ms in times.items()
    ]


def rings(out: Folder = None) -> None:
    """Measure a ring of stages: data/experiments/.

    A kernel adds up the rows of an array, whose tiles it copies into a ring of several tiles in
    shared memory. It is compared with plain loads and with two tiles.
    """
    here = require_gpu("rings are measured on a GPU")
    if hostcuda.driver.Context.get_device().compute_capability() < (9, 0):
        raise LabError(f"bulk copies need compute capability 9.0, and this is {here.name}")
    # a row per multiprocessor: each block adds up one row
    table = stamp(pd.DataFrame(measure_rings(compile_kernels(), here.multiprocessors, COLUMNS)))
    file = record_table(table, "experiments", out, key=["device", "experiment"])
    print(f"{table.to_string()}\n\nkept in {file}")
