"""Measure what the CPU engine adds to a kernel on fibers: thread starts, barriers, warp meetings, launches.

    python benchmarks/engine_switch.py

One worker; the shortest of several tries, in processor time for what happens inside a launch and in wall time for the
launch itself. The costs are per thread: a barrier of a block of 256 threads takes 256 times the number in the table.
"""

import os
import time

os.environ["HOSTCUDA_WORKERS"] = "1"
os.environ["HOSTCUDA_GEAR"] = "fibers"

import numpy as np

from hostcuda.api import driver
from hostcuda.api.compiler import SourceModule

SOURCE = """
extern "C" {
__global__ void empty() {}
__global__ void barriers(int n) { for (int i = 0; i < n; ++i) __syncthreads(); }
__global__ void pairs(int n) { for (int i = 0; i < n; ++i) { __syncthreads(); __syncthreads(); } }
__global__ void meetings(int n) { for (int i = 0; i < n; ++i) __syncwarp(); }
__global__ void shuffles(int n, int *out)
{
    int value = threadIdx.x;
    for (int i = 0; i < n; ++i) value = __shfl_xor_sync(0xffffffffu, value, 1 + i % 31);
    if (value < 0) *out = value;
}
}
"""
SWITCHES = 400_000  # per try: long in comparison with the clock's steps


def least(run, clock, tries=7):
    """Return the seconds of the fastest of `tries` runs."""
    times = []
    for _ in range(tries):
        start = clock()
        run()
        times.append(clock() - start)
    return min(times)


def inside(kernel, threads, blocks, events, *arguments):
    """Return the nanoseconds of processor time per event; each thread makes `events` of them."""

    def run():
        kernel(*arguments, grid=(blocks, 1), block=(threads, 1, 1))
        driver.Context.synchronize()

    run()
    return least(run, time.process_time) / (threads * blocks * events) * 1e9


def main():
    """Print the tables."""
    module = SourceModule(SOURCE, no_extern_c=True)
    kernel = {name: module.get_function(name) for name in ("empty", "barriers", "pairs", "meetings", "shuffles")}
    out = driver.mem_alloc(4)
    print("| threads per block | start and end | barrier | two barriers in turn, each | __syncwarp | shuffle |")
    print("|---:|---:|---:|---:|---:|---:|")
    for threads in (32, 64, 128, 256, 512, 1024):
        n = SWITCHES // threads
        row = [
            inside(kernel["empty"], threads, n, 1),
            inside(kernel["barriers"], threads, 1, n, np.int32(n)),
            inside(kernel["pairs"], threads, 1, n, np.int32(n // 2)),
            inside(kernel["meetings"], threads, 1, n, np.int32(n)),
            inside(kernel["shuffles"], threads, 1, n, np.int32(n), out),
        ]
        print(f"| {threads} | " + " | ".join(f"{ns:.1f} ns" for ns in row) + " |")

    launch = kernel["empty"].prepare("")

    def once():
        launch.prepared_call((1, 1), (1, 1, 1))
        driver.Context.synchronize()

    def queued(launches=1000):
        for _ in range(launches):
            launch.prepared_call((1, 1), (1, 1, 1))
        driver.Context.synchronize()

    once()
    print(f"\nlaunch and synchronize: {least(once, time.perf_counter, 3000) * 1e6:.1f} µs; "
          f"a launch in a queue of 1000: {least(queued, time.perf_counter) * 1e3:.1f} µs")


if __name__ == "__main__":
    main()
