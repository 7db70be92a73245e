"""Measure a program's launches without counters: event times, and what the compiler decided.

``python -m hostcuda.gpu.launches FILE SCRIPT [ARGS]`` runs a program that uses `hostcuda` on a GPU
and writes a line of JSON per launch to FILE: kernel, grid, block, time between two events,
registers, shared and local memory, occupancy. It needs no permission. With ``--count`` before FILE
it only writes an empty line per launch.
"""

from __future__ import annotations

import atexit
import json
import math
import runpy
import sys
from pathlib import Path

from pycuda import driver

import hostcuda
from hostcuda.limits import WARP, occupancy, of_capability


def limits(device: driver.Device) -> dict[str, int]:
    """Return the limits of a GPU's multiprocessor, from which `hostcuda.limits.occupancy` computes the occupancy.

    For an H200 they are {"warps": 64, "registers": 65536, "shared": 233472, "blocks": 32, "drivers": 1024}:
    what it can hold at once, and the bytes of shared memory that the driver takes per block.
    """
    a = driver.device_attribute
    return {
        "warps": device.get_attribute(a.MAX_THREADS_PER_MULTIPROCESSOR) // WARP,
        "registers": device.get_attribute(a.MAX_REGISTERS_PER_MULTIPROCESSOR),
        "shared": device.get_attribute(a.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
        # "blocks" and "drivers", for which there is no attribute of the device here
        **of_capability(*device.compute_capability()),
    }


def time_launches(path: str) -> None:
    """Time launches: replace PyCUDA's functions so that every further launch writes a line of JSON to the file `path`.

    The line has the kernel, grid, block, time_ns, registers, bytes of shared and local memory, and
    the occupancy.
    """
    # (function, grid, block, shared, start event, end event) of launches without a line yet
    pending: list = []
    log = open(path, "w", buffering=1)  # noqa: SIM115 - open until the process ends
    find, launch = driver.Module.get_function, driver.Function._launch_kernel

    def find_and_name(module, name):
        """Replace `Module.get_function`: PyCUDA's functions do not know their names."""
        function = find(module, name)
        function._hostcuda_name = name
        return function

    def launch_timed(function, grid, block, arguments, shared, stream):
        """Launch between two events, and write the lines of earlier launches that have ended."""
        start, end = driver.Event(), driver.Event()
        start.record(stream)
        launch(function, grid, block, arguments, shared, stream)
        end.record(stream)
        pending.append((function, grid, block, shared, start, end))
        flush(wait=len(pending) >= 256)  # a bound on the events that exist

    def flush(wait):
        """Write the lines of launches that have ended; with `wait`, wait for all launches and write their lines.

        The lines are not kept back to the end: a program that fails later then loses few of them.
        """
        while pending and (wait or pending[0][-1].query()):  # [-1]: the end event
            function, grid, block, shared, start, end = pending.pop(0)
            end.synchronize()
            shared_bytes = function.shared_size_bytes + shared  # static and dynamic
            row = {
                "kernel": getattr(function, "_hostcuda_name", "kernel"),
                # missing sizes are 1
                "grid": [*grid, 1, 1][:3],
                "block": [*block, 1, 1][:3],
                "time_ns": round(1e6 * start.time_till(end)),  # from milliseconds
                "registers": function.num_regs,
                "shared_bytes": shared_bytes,
                "local_bytes": function.local_size_bytes,
            }
            limits_of_device = limits(driver.Context.get_device())
            share = occupancy(math.prod(block), function.num_regs, shared_bytes, limits_of_device)
            log.write(json.dumps({**row, "occupancy_pct": round(100 * share, 1)}) + "\n")

    def finish():
        """At the end of the process, write the lines of the launches that are left."""
        try:
            flush(wait=True)
        except driver.Error:  # the context has failed: the file has the launches before that
            pending.clear()

    driver.Module.get_function, driver.Function._launch_kernel = find_and_name, launch_timed
    atexit.register(finish)


def count_launches(path: str) -> None:
    """Count launches: from now on, write an empty line to the file `path` for every launch through PyCUDA.

    Another process reads it: the file is empty if the program has launched nothing.
    """
    log = open(path, "a", buffering=1)  # noqa: SIM115 - open until the process ends
    launch = driver.Function._launch_kernel

    def launch_counted(function, *arguments):
        """Launch, and write an empty line."""
        launch(function, *arguments)
        log.write("\n")

    driver.Function._launch_kernel = launch_counted


if __name__ == "__main__":
    # each word is removed once it is read: the program then finds its own arguments
    sys.argv = sys.argv[1:]
    if sys.argv[0] == "--count":
        sys.argv = sys.argv[1:]
        count_launches(sys.argv[0])
    else:
        hostcuda.ensure_context()
        time_launches(sys.argv[0])
    sys.argv = sys.argv[1:]
    if sys.argv[0] == "-m":
        sys.argv = sys.argv[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(sys.argv[0]).resolve().parent)  # the program's own modules are there
        runpy.run_path(sys.argv[0], run_name="__main__")
