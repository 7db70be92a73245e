"""Experiments with one thing to vary each, for data/experiments/: what a reader meets who measures by hand.

Each function returns rows for the table: experiment, kernel, x (what was varied), ms (a median of
times), rate, series.
"""

import time
from pathlib import Path

import numpy as np
import pandas as pd

import hostcuda
from labkit import LENET86, variant
from labkit.ladder.buffers import Buffers
from labkit.ladder.source import module_arguments
from labkit.ladder.variants import Variant
from labkit.measure.bench import time_run
from recording.gpu import require_gpu
from recording.keep import record_table, stamp
from recording.options import Folder

SOURCE = Path(__file__).with_suffix(".cu")
REPEAT, IDLE_S, BATCH = 9, 1.0, 10_000
KERNELS = ((7, None), (10, "warpgroups"))  # rung, step: one on the FP32 units, one on tensor cores
SHARED_BYTES = 120 << 10  # of a block: two of them do not fit into a multiprocessor


def measure_waves(module, multiprocessors: int, most: int = 5, times: int = 20_000) -> list[dict]:
    """Time a kernel with more and more blocks, up to `most` per multiprocessor, to show the waves of blocks.

    A multiprocessor holds one block at a time, because a block uses SHARED_BYTES of shared memory.
    `module` is experiments.cu, compiled. `times` is the length of the kernel's loop. Returns a row
    per number of blocks (x), with the median time (ms).
    """
    # "Pi": its arguments are a pointer and an int
    compute, threads = module.get_function("compute").prepare("Pi"), 256
    compute.set_attribute(
        hostcuda.driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, SHARED_BYTES
    )
    step = multiprocessors // 4  # four counts per wave, and those with one block more
    # one block more than fills all multiprocessors begins another wave
    counts = sorted(
        {
            blocks + more
            for blocks in range(step, most * multiprocessors + 1, step)
            for more in (0, 1)
        }
    )
    rows = []
    with Buffers() as memory:
        y = memory.new(threads * counts[-1])  # each thread writes a value
        for blocks in counts:
            ms = [
                time_run(
                    lambda blocks=blocks: compute.prepared_call(
                        (blocks, 1), (threads, 1, 1), int(y), times, shared_size=SHARED_BYTES
                    )
                )
                for _ in range(REPEAT)
            ]
            rows.append(
                {"experiment": "waves", "kernel": "compute", "x": blocks, "ms": np.median(ms)}
            )
    return rows


def measure_latency(
    module, multiprocessors: int, places: int = 1 << 25, times: int = 200
) -> list[dict]:
    """Measure how many loads per microsecond complete with 1 to 64 warps per multiprocessor, to show latency.

    Each lane makes `times` loads, one after the other: the value of a load is the address of the
    next one, in an array of `places` int32. `module` is experiments.cu, compiled. Returns a row per
    number of warps (x), with the median time (ms) and the loads per microsecond (rate).
    """
    # "PPi": its arguments are two pointers and an int
    chase, rows = module.get_function("chase").prepare("PPi"), []
    # by default 128 MiB of them, more than the L2 cache holds
    order = np.random.default_rng(0).permutation(places).astype(np.int32)
    following = np.empty_like(order)
    following[order] = np.roll(order, -1)  # one cycle through all places
    with Buffers() as memory:
        # a multiprocessor holds at most 2048 threads; each writes a value to y
        chain, y = (memory.copy_in(following), memory.new(2048 * multiprocessors))
        for warps in (1, 2, 4, 8, 16, 24, 32, 48, 64):
            # a block has 32 warps at most
            blocks, threads = (2, 16 * warps) if warps > 32 else (1, 32 * warps)
            grid = (blocks * multiprocessors, 1)
            ms = [
                time_run(
                    lambda grid=grid, threads=threads: chase.prepared_call(
                        grid, (threads, 1, 1), int(y), int(chain), times
                    )
                )
                for _ in range(REPEAT)
            ]
            rows.append(
                {
                    "experiment": "latency",
                    "kernel": "chase",
                    "x": warps,
                    "ms": np.median(ms),
                    # loads per ms, / 1e3: per µs
                    "rate": grid[0] * threads * times / np.median(ms) / 1e3,
                }
            )
    return rows


def measure_clock(
    module, kernel: Variant, for_ms: float = 400, launches: int = 10, spin_ns: int = 50_000
) -> list[dict]:
    """Launch a kernel again and again on an idle GPU, to show how its time and the GPU's clock change.

    Returns a row per `launches` launches, for about `for_ms` milliseconds in all: the time since
    the first launch (x, ms), the time of one launch (ms), and the clock (rate, MHz). After these
    launches a kernel of experiments.cu (`module`) counts the cycles of about `spin_ns` nanoseconds.
    """
    # "Pii": its arguments are a pointer and two ints
    clocks = module.get_function("clocks").prepare("Pii")
    with Buffers() as memory, kernel.plan(LENET86[1], BATCH) as plan:
        plan.load_random()
        shortest = min(time_run(plan.run) for _ in range(3))
        slots = int(for_ms / (launches * shortest)) + 1  # rows of the result
        cycles = memory.new(2 * slots, np.int64)
        marks = [[hostcuda.driver.Event() for _ in range(2)] for _ in range(slots)]
        time.sleep(IDLE_S)
        for slot, (start, end) in enumerate(marks):
            start.record()
            for _ in range(launches):
                plan.run()
            end.record()
            clocks.prepared_call((1, 1), (1, 1, 1), int(cycles), slot, spin_ns)
        hostcuda.driver.Context.synchronize()
        # per row: the cycles that the kernel counted, and the nanoseconds that they took
        counted = memory.copy_out(cycles, (slots, 2), np.int64)
        return [
            {
                "experiment": "clock",
                "kernel": kernel.label,
                "x": marks[0][0].time_till(start),
                "ms": start.time_till(end) / launches,
                "rate": 1e3 * ticks / ns,  # cycles per ns are GHz
            }
            for (start, end), (ticks, ns) in zip(marks, counted, strict=True)
        ]


def compare_orders(kernel: Variant, runs: int = 200) -> list[dict]:
    """Compare a kernel with itself, to show that two kernels should be timed in turns.

    "A" and "B" are the same kernel. Each is timed `runs` times: first all of A, then all of B; and
    in turns, A B A B. Returns a row per order and name (series), with the median (ms) and the
    difference of the quartiles (rate, in ms).
    """
    rows = []
    with kernel.plan(LENET86[1], BATCH) as plan:
        plan.load_random()
        plan.run()
        for how, names in (
            ("one after the other", "A" * runs + "B" * runs),
            ("in turns", "AB" * runs),
        ):
            hostcuda.driver.Context.synchronize()
            time.sleep(IDLE_S)  # so that both begin with the clock of an idle GPU
            ms = np.array([time_run(plan.run) for _ in names])
            for name in "AB":
                own = ms[np.array(list(names)) == name]
                rows.append(
                    {
                        "experiment": "order",
                        "kernel": kernel.label,
                        "series": f"{how}: {name}",
                        "ms": np.median(own),
                        "rate": np.subtract(*np.quantile(own, (0.75, 0.25))),
                    }
                )
    return rows


def experiments(out: Folder = None) -> None:
    """Measure one change at a time: data/experiments/.

    These are the waves of blocks, the latency of loads, the clock of a GPU that was idle, and the
    order of measurements: what a reader meets who measures by hand.
    """
    here = require_gpu("experiments are measured on a GPU")
    hostcuda.ensure_context()
    module = hostcuda.compiler.SourceModule(**module_arguments(SOURCE.read_text(), SOURCE))
    # KERNELS: (number of a rung, a step of it or None)
    kernels = [variant(number, **({"step": step} if step else {})) for number, step in KERNELS]
    rows = [
        *measure_waves(module, here.multiprocessors),
        *measure_latency(module, here.multiprocessors),
    ]
    for kernel in kernels:
        rows += [*measure_clock(module, kernel), *compare_orders(kernel)]
    table = stamp(pd.DataFrame(rows))
    print(
        f"{table.to_string()}\n\nkept in {record_table(table, 'experiments', out, ['device', 'experiment'])}"
    )
