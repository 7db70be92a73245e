"""Measure the CPU engine: the ladder's kernels against a plain C++ loop nest, compile times, launch latency.

    python benchmarks/engine.py                                              print the tables
    python benchmarks/engine.py | python -m recording readme engine   write them into engine/docs/performance.md

Everything is one interleaved run: each round times the loop nest and every kernel once, on one
worker and on two, so that other load on the machine affects all of them alike. One worker and the
loop nest are compared by processor time, two workers and one by wall time. Kernels with barriers
run in both of the engine's modes, as thread loops and on fibers (engine/docs/execution.md).

These are times of this machine's CPU; they do not say anything about a GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import statistics
import subprocess
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np

from hostcuda import processor
from labkit.ladder.rungs import LADDER
from labkit.ladder.variants import Variant, variant
from labkit.measure.compare import tolerance
from labkit.spec.layers import LENET86, Layer
from labkit.spec.reference import conv_float64, error_scale

HERE = Path(__file__).resolve().parent
BATCH = 4
FLAGS = (  # a kernel's flags: hostcuda/build/options.py
    "-std=gnu++17",
    "-O3",
    "-march=native",
    "-fPIC",
    "-fno-strict-aliasing",
    "-fno-math-errno",
    "-fno-trapping-math",
)
WALL, PROCESSOR = 0, 1  # the two clocks
LAUNCHES = (1, 1), (200, 1), (1, 1000)  # rounds, launches in each
EMPTY = 'extern "C" __global__ void empty() {}'


def inputs(layer: Layer) -> tuple[np.ndarray, np.ndarray]:
    """Return x [B,C,H,W] in 0 to 1 and k [M,C,K,K] in -1 to 1, float32, the same in every process."""
    rng = np.random.default_rng(86)
    x, k = rng.uniform(0, 1, layer.x_shape(BATCH)), rng.uniform(-1, 1, layer.k_shape)
    return x.astype(np.float32), k.astype(np.float32)


def verify(name: str, layer: Layer, y: np.ndarray, like: Variant) -> None:
    """End the program unless y is right within the rounding of the variant `like`."""
    x, k = (array.astype(like.io_dtype) for array in inputs(layer))
    error = np.abs(y - conv_float64(x, k))
    if not (error <= tolerance(like.rounding, error_scale(x, k), layer.terms)).all():
        raise SystemExit(f"{name} is wrong on {layer}: run labkit.check on it")


def clocks() -> tuple[float, float]:
    """Return the wall time and the processor time of this process, in seconds."""
    return time.perf_counter(), time.process_time()


def since(start: tuple[float, float]) -> tuple[float, float]:
    """Return the wall time and the processor time since `start`, which `clocks` has returned, in seconds."""
    return tuple(now - then for now, then in zip(clocks(), start, strict=True))


# --------------------------------------------------------------------------------- what is measured
class LoopNest:
    """benchmarks/loop_nest.cpp, compiled with the flags of a kernel."""

    def __init__(self, folder: Path):
        from hostcuda.host import toolchain

        library = folder / "loop_nest.so"
        command = [
            *toolchain.find(),
            *FLAGS,
            "-shared",
            "-o",
            str(library),
            str(HERE / "loop_nest.cpp"),
        ]
        subprocess.run(command, check=True)
        self.conv = ctypes.CDLL(str(library)).conv
        self.arrays = [
            (*inputs(layer), np.empty(layer.y_shape(BATCH), np.float32)) for layer in LENET86
        ]
        for index, layer in enumerate(LENET86):
            self(index)
            verify("the loop nest", layer, self.arrays[index][2], variant(3))

    def __call__(self, index: int) -> tuple[float, float]:
        """Run BATCH images of a layer; return the wall and processor seconds."""
        layer = LENET86[index]
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in self.arrays[index]]
        start = clocks()
        self.conv(*pointers, BATCH, layer.C, layer.H, layer.W, layer.M, layer.K)
        return since(start)


class Worker:
    """The engine in a process of its own: its number of workers, its cache folder and its mode are fixed."""

    def __init__(self, workers: int, cache: Path, mode: str = "loops"):
        changed = {
            "HOSTCUDA_ENGINE": "cpu",
            "HOSTCUDA_WORKERS": str(workers),
            "HOSTCUDA_CACHE_DIR": str(cache),
            "HOSTCUDA_EXECUTION_MODE": mode,
        }
        before = {name: os.environ.get(name) for name in changed}
        os.environ.update(changed)
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), daemon=True)
        self.process.start()
        other.close()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})

    def __call__(self, *request):
        """Send a request; return the answer, or end the program if the process fails."""
        self.pipe.send(request)
        try:
            status, answer = self.pipe.recv()
        except EOFError:
            raise SystemExit(f"the engine's process ended at {request}") from None
        if status != "done":
            raise SystemExit(f"the engine failed at {request}: {answer}")
        return answer

    def stop(self):
        """End the worker's process."""
        self.pipe.close()
        self.process.join(10)


def _serve(pipe):
    engine = _Engine()
    while True:
        try:
            what, *arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(("done", getattr(engine, what)(*arguments)))
        except Exception as error:
            pipe.send(("failed", f"{type(error).__name__}: {error}"))


class _Engine:
    """The requests that a worker process answers."""

    def __init__(self):
        self.plans = {}

    def start(self):
        """Return the seconds until a fresh installation's first kernel is compiled, with the runtime and header."""
        start = time.perf_counter()
        import hostcuda.autoinit  # noqa: F401
        from hostcuda import driver
        from hostcuda.compiler import SourceModule

        self.driver = driver
        self.empty = SourceModule(EMPTY, no_extern_c=True).get_function("empty").prepare("")
        return time.perf_counter() - start

    def compile(self, number):
        """Compile a rung's file for lenet86; return the seconds."""
        start = time.perf_counter()
        variant(number).on(LENET86[0]).module()
        return time.perf_counter() - start

    def modes(self, number):
        """Return the modes of a rung's kernels: "loops", "fibers" or both."""
        module = variant(number).on(LENET86[0]).module()
        return " and ".join(
            sorted({module.get_function(name).execution_mode for name in variant(number).kernels})
        )

    def prepare(self, number):
        """Make the plans of a rung ready, and check their results."""
        for index, layer in enumerate(LENET86):
            chosen = variant(number)
            plan = self.plans[number, index] = chosen.plan(layer, BATCH)
            plan.load(*inputs(layer))
            plan.run()
            verify(chosen.label, layer, plan.result(), chosen)

    def time(self, number, index):
        """Return wall and processor seconds for BATCH images of a layer: launches and synchronization."""
        plan = self.plans[number, index]
        plan.run()  # wakes the workers, which slept while other processes were timed
        self.driver.Context.synchronize()
        start = clocks()
        plan.run()
        self.driver.Context.synchronize()
        return since(start)

    def latency(self, times, launches):
        """Return the seconds per launch: `times` times `launches` of them and a synchronization."""
        one = (1, 1), (1, 1, 1)
        start = time.perf_counter()
        for _ in range(times):
            for _ in range(launches):
                self.empty.prepared_call(*one)
            self.driver.Context.synchronize()
        return (time.perf_counter() - start) / (times * launches)


# ------------------------------------------------------------------------------------------- tables
def measure(rounds: int) -> str:
    """Measure the CPU engine's speed, beside a loop nest in C++; return the table and sentences as Markdown.

    Each kernel is timed `rounds` times, with one worker, with two, and on fibers; so are launches.
    """
    processors = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    )
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="labkit-bench-") as folder:
        folder = Path(folder)
        engines = {1: Worker(1, folder / "cache")}
        first = engines[1]("start")
        engines["fibers"] = Worker(1, folder / "cache", "fibers")
        engines["fibers"]("start")
        compiled = {
            (rung.number, how): engines[how]("compile", rung.number)
            for rung in LADDER
            for how in engines
        }
        engines[2] = Worker(2, folder / "cache")
        engines[2]("start")
        modes = {rung.number: engines[1]("modes", rung.number) for rung in LADDER}
        nest = LoopNest(folder)
        for rung in LADDER:
            for engine in engines.values():
                engine("prepare", rung.number)

        times: dict[tuple, list[tuple[float, float]]] = {}
        latencies: dict[tuple, list[float]] = {}
        for _ in range(rounds):
            for index in range(len(LENET86)):
                times.setdefault(("nest", index), []).append(nest(index))
                for rung in LADDER:
                    for workers, engine in engines.items():
                        seconds = engine("time", rung.number, index)
                        times.setdefault((rung.number, index, workers), []).append(seconds)
            for how in LAUNCHES:  # the first wakes a worker that slept since the last round
                latencies.setdefault((how, 2), []).append(engines[2]("latency", *how))
        for engine in engines.values():
            engine.stop()

    text = [
        f"{processor.name()}, {processors} processors, {compiler_name()}, {date.today():%Y-%m-%d}. Each "
        f"figure is the median of {rounds} measurements with {BATCH} images. The kernels took turns.",
        "",
        "| kernel | execution mode | "
        + " | ".join(
            f"{layer.name}: MMAC/s, × loop nest | × fibers | two workers" for layer in LENET86
        )
        + " | compile, s | on fibers |",
        "|---|---|" + "---:|" * 3 * len(LENET86) + "---:|---:|",
    ]
    row = ["C++ loop nest, one thread", ""]
    for index, layer in enumerate(LENET86):
        row += [f"{rate(layer, times['nest', index]):.0f}, 1.00", "", ""]
    text.append("| " + " | ".join([*row, "", ""]) + " |")
    for rung in LADDER:
        row = [rung.label, modes[rung.number]]
        for index, layer in enumerate(LENET86):
            one, two = times[rung.number, index, 1], times[rung.number, index, 2]
            row.append(f"{rate(layer, one):.0f}, {ratio(times['nest', index], one, PROCESSOR)}")
            row.append(f"× {ratio(times[rung.number, index, 'fibers'], one, PROCESSOR)}")
            row.append(f"× {ratio(one, two, WALL)}")
        row += [f"{compiled[rung.number, how]:.2f}" for how in (1, "fibers")]
        text.append("| " + " | ".join(row) + " |")
    rested, alone, queued = (1e6 * statistics.median(latencies[how, 2]) for how in LAUNCHES)
    text += [
        "",
        f"After a pause, a launch of an empty kernel and a synchronization together take {rested:.1f} µs. In a row of "
        f"200 launches with a synchronization after each, a launch and its synchronization take {alone:.1f} µs. In a "
        f"row of 1000 launches with one synchronization at the end, each launch takes {queued:.1f} µs. With an empty "
        f"cache, the first program also compiles the engine's runtime library, which takes {first:.1f} s.",
    ]
    if load > processors / 4:
        text += [
            "",
            "Other processes slowed the measurements down: the load average (how many threads run or wait for a "
            f"processor) was {load:.1f} before the first measurement.",
        ]
    return "\n".join(text)


def rate(layer: Layer, seconds: list[tuple[float, float]]) -> float:
    """Return the millions of multiply-adds of a layer per second of processor time, by the median of the times."""
    return layer.macs(BATCH) / statistics.median(spent[PROCESSOR] for spent in seconds) / 1e6


def ratio(slow: list[tuple[float, float]], fast: list[tuple[float, float]], clock: int) -> str:
    """Return how many times as fast `fast` is as `slow`: the median over the rounds of the ratio within each round."""
    return f"{statistics.median(a[clock] / b[clock] for a, b in zip(slow, fast, strict=True)):.2f}"


def compiler_name() -> str:
    """Return the first line of the compiler's version."""
    from hostcuda.host import toolchain

    return toolchain.run([*toolchain.find(), "--version"])[1].splitlines()[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="how often everything is timed (15)")
    options = parser.parse_args()
    print(measure(options.rounds))
