"""What can be said of a program's launches without counters: event times, and what the compiler decided.

``python -m labkit.evidence.launches FILE SCRIPT [ARGS]`` runs a program that uses `labkit.cuda` on a GPU and writes a JSON line a
launch to FILE: kernel, grid, block, time between two events, registers, shared and local memory, occupancy. It needs
no permission. With ``--count`` in front of FILE it writes an empty line a launch and touches nothing else.
"""

from __future__ import annotations

import atexit
import json
import math
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path

from labkit.base.limits import REGISTER_UNIT, SHARED_UNIT, WARP, WARP_UNIT, of_capability


def occupancy(threads: int, registers: int, shared: int, limits: Mapping[str, int]) -> float:
    """The share of a multiprocessor's warps that can be resident, 0 to 1, after CUDA's occupancy calculator.

    Parameters
    ----------
    threads : int
        Of a block.
    registers : int
        Of a thread.
    shared : int
        Bytes of a block, static and dynamic.
    limits : mapping
        Of a multiprocessor: ``warps``, ``blocks``, ``registers``, ``shared`` and, of each block, ``drivers`` [bytes].
    """
    warps = math.ceil(threads / WARP)
    a_warp = math.ceil(registers * WARP / REGISTER_UNIT) * REGISTER_UNIT
    with_registers = limits["registers"] // a_warp // WARP_UNIT * WARP_UNIT if registers else limits["warps"]
    a_block = math.ceil((shared + limits["drivers"]) / SHARED_UNIT) * SHARED_UNIT
    blocks = min(
        limits["blocks"],
        min(limits["warps"], with_registers) // warps,
        limits["shared"] // max(a_block, 1),
    )
    return blocks * warps / limits["warps"]


def limits(device) -> dict[str, int]:
    """A multiprocessor's limits, from PyCUDA's device."""
    from pycuda.driver import device_attribute as a

    return {
        "warps": device.get_attribute(a.MAX_THREADS_PER_MULTIPROCESSOR) // WARP,
        "registers": device.get_attribute(a.MAX_REGISTERS_PER_MULTIPROCESSOR),
        "shared": device.get_attribute(a.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
        **of_capability(*device.compute_capability()),
    }


def watch(path: str) -> None:
    """From now on write every launch through PyCUDA to a file."""
    import pycuda.driver as driver

    pending: list = []
    log = open(path, "w", buffering=1)  # noqa: SIM115 - it lives as long as the process
    find, launch = driver.Module.get_function, driver.Function._launch_kernel

    def named(module, name):
        function = find(module, name)
        function._labkit_name = name
        return function

    def timed(function, grid, block, arguments, shared, stream):
        start, end = driver.Event(), driver.Event()
        start.record(stream)
        launch(function, grid, block, arguments, shared, stream)
        end.record(stream)
        pending.append((function, grid, block, shared, start, end))
        flush(wait=len(pending) >= 256)

    def flush(wait):
        while pending and (wait or pending[0][-1].query()):  # what is done is kept, whatever comes next
            function, grid, block, shared, start, end = pending.pop(0)
            end.synchronize()
            total = function.shared_size_bytes + shared
            row = {
                "kernel": getattr(function, "_labkit_name", "kernel"),
                "grid": [*grid, 1, 1][:3],
                "block": [*block, 1, 1][:3],
                "time_ns": round(1e6 * start.time_till(end)),
                "registers": function.num_regs,
                "shared_bytes": total,
                "local_bytes": function.local_size_bytes,
            }
            share = occupancy(math.prod(block), function.num_regs, total, limits(driver.Context.get_device()))
            log.write(json.dumps({**row, "occupancy_pct": round(100 * share, 1)}) + "\n")

    def finish():
        try:
            flush(wait=True)
        except driver.Error:  # the context died: what was written stays
            pending.clear()

    driver.Module.get_function, driver.Function._launch_kernel = named, timed
    atexit.register(finish)


def count(path: str) -> None:
    """From now on write a line to a file for every launch through PyCUDA."""
    import pycuda.driver as driver

    log = open(path, "a", buffering=1)  # noqa: SIM115 - it lives as long as the process
    launch = driver.Function._launch_kernel

    def counted(function, *arguments):
        launch(function, *arguments)
        log.write("\n")

    driver.Function._launch_kernel = counted


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    if sys.argv[0] == "--count":
        sys.argv = sys.argv[1:]
        count(sys.argv[0])
    else:
        import labkit.cuda

        labkit.cuda.ensure_context()
        watch(sys.argv[0])
    sys.argv = sys.argv[1:]
    if sys.argv[0] == "-m":
        sys.argv = sys.argv[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(sys.argv[0]).resolve().parent)  # where a program's own modules are
        runpy.run_path(sys.argv[0], run_name="__main__")
