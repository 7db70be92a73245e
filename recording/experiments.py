"""Experiments with one thing to vary each, for data/experiments/: what a reader meets who measures by hand.

- `measure_waves`: a kernel with one block per multiprocessor at a time, by the number of blocks.
- `measure_latency`: dependent loads from device memory, by the warps per multiprocessor: loads per microsecond.
- `measure_clock`: a kernel launched again and again on an idle GPU: its time and clock rate, by the time since then.
- `compare_orders`: a kernel and the same kernel, one after the other, or in turns: what they seem to differ by.
"""

from __future__ import annotations

import datetime
import time
from pathlib import Path

import numpy as np
import pandas as pd

import hostcuda
from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.ladder.buffers import Buffers
from labkit.ladder.source import module_arguments
from labkit.ladder.variants import variant
from labkit.measure.bench import time_run
from labkit.spec.devices import device
from labkit.spec.layers import LENET86
from recording.keep import merge_rows
from recording.options import Dry, Folder

SOURCE = Path(__file__).with_suffix(".cu")
REPEAT, IDLE_S, BATCH = 9, 1.0, 10_000
KERNELS = ((7, None), (10, "warpgroups"))  # FP32 units, tensor cores


def measure_waves(module, multiprocessors: int, most: int = 5, times: int = 20_000) -> list[dict]:
    """Return the time of a kernel by its blocks: up to `most` per multiprocessor, one of them resident at a time."""
    compute, threads, shared = module.get_function("compute").prepare("Pi"), 256, 120 << 10
    compute.set_attribute(hostcuda.driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
    per = multiprocessors // 4
    counts = sorted({blocks + more for blocks in range(per, most * multiprocessors + 1, per) for more in (0, 1)})
    rows = []
    with Buffers() as memory:
        y = memory.new(threads * counts[-1])
        for blocks in counts:
            ms = [time_run(lambda blocks=blocks: compute.prepared_call((blocks, 1), (threads, 1, 1), int(y), times,
                                                                    shared_size=shared)) for _ in range(REPEAT)]
            rows.append({"experiment": "waves", "kernel": "compute", "x": blocks, "ms": np.median(ms)})
    return rows


def measure_latency(module, multiprocessors: int, places: int = 1 << 25, times: int = 200) -> list[dict]:
    """Return the loads per microsecond by the warps per multiprocessor, each lane with a chain of dependent loads."""
    chase, rows = module.get_function("chase").prepare("PPi"), []
    order = np.random.default_rng(0).permutation(places).astype(np.int32)
    following = np.empty_like(order)
    following[order] = np.roll(order, -1)  # one cycle through all places
    with Buffers() as memory:
        chain, y = memory.copy_in(following), memory.new(2048 * multiprocessors)
        for warps in (1, 2, 4, 8, 16, 24, 32, 48, 64):
            blocks, threads = (2, 16 * warps) if warps > 32 else (1, 32 * warps)
            grid = (blocks * multiprocessors, 1)
            ms = [time_run(lambda grid=grid, threads=threads: chase.prepared_call(
                grid, (threads, 1, 1), int(y), int(chain), times)) for _ in range(REPEAT)]
            loads = grid[0] * threads * times
            rows.append({"experiment": "latency", "kernel": "chase", "x": warps, "ms": np.median(ms),
                         "rate": loads / np.median(ms) / 1e3})
    return rows


def measure_clock(module, kernel, for_ms: float = 400, each: int = 10, spin_ns: int = 50_000) -> list[dict]:
    """Return a kernel's time and the clock rate [MHz] by the time since the first launch: a row per `each` launches."""
    clocks = module.get_function("clocks").prepare("Pii")
    with Buffers() as memory, kernel.plan(LENET86[1], BATCH) as plan:
        _load_random_inputs(plan, kernel)
        shortest = min(time_run(plan.run) for _ in range(3))
        slots = int(for_ms / (each * shortest)) + 1
        cycles = memory.new(2 * slots, np.int64)
        marks = [[hostcuda.driver.Event() for _ in range(2)] for _ in range(slots)]
        time.sleep(IDLE_S)
        for slot, (start, end) in enumerate(marks):
            start.record()
            for _ in range(each):
                plan.run()
            end.record()
            clocks.prepared_call((1, 1), (1, 1, 1), int(cycles), slot, spin_ns)
        hostcuda.driver.Context.synchronize()
        counted = memory.copy_out(cycles, (slots, 2), np.int64)
        return [{"experiment": "clock", "kernel": kernel.label, "x": marks[0][0].time_till(start),
                 "ms": start.time_till(end) / each, "rate": 1e3 * ticks / ns}
                for (start, end), (ticks, ns) in zip(marks, counted, strict=True)]


def compare_orders(kernel, runs: int = 200) -> list[dict]:
    """Return the median times of a kernel "A" and the same kernel "B": one after the other, and in turns."""
    rows = []
    with kernel.plan(LENET86[1], BATCH) as plan:
        _load_random_inputs(plan, kernel)
        plan.run()
        for how, names in (("one after the other", "A" * runs + "B" * runs), ("in turns", "AB" * runs)):
            hostcuda.driver.Context.synchronize()
            time.sleep(IDLE_S)
            ms = np.array([time_run(plan.run) for _ in names])
            for name in "AB":
                own = ms[np.array(list(names)) == name]
                rows.append({"experiment": "order", "kernel": kernel.label, "series": f"{how}: {name}",
                             "ms": np.median(own), "rate": np.subtract(*np.quantile(own, (0.75, 0.25)))})
    return rows


def _load_random_inputs(plan, kernel) -> None:
    rng, layer = np.random.default_rng(0), LENET86[1]
    plan.load(*(rng.random(shape, np.float32).astype(kernel.io_dtype)
                for shape in (layer.x_shape(BATCH), layer.k_shape)))


def experiments(dry: Dry = False, out: Folder = None) -> None:
    """Vary one thing at a time: data/experiments/."""
    here = device()
    if here.engine != "gpu":
        raise LabError(f"experiments are measured on a GPU; the engine here is the CPU's ({here.name})")
    hostcuda.ensure_context()
    module = hostcuda.compiler.SourceModule(**module_arguments(SOURCE.read_text(), SOURCE))
    kernels = [variant(number, **({"step": step} if step else {})) for number, step in KERNELS]
    rows = [*measure_waves(module, here.multiprocessors), *measure_latency(module, here.multiprocessors)]
    for kernel in kernels:
        rows += [*measure_clock(module, kernel), *compare_orders(kernel)]
    about = {"date": datetime.date.today().isoformat(), "device": here.name}
    table = pd.DataFrame([about | row for row in rows])
    print(table.to_string())
    if not dry:
        path = Path(out or data_dir()) / "experiments" / f"{here.slug}.csv"
        print(f"\nkept in {merge_rows(path, table, None, digits=5)}")
