"""The cost of atomicAdd when threads share addresses: a kernel that does nothing else, timed by threads per address."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import numpy as np

import hostcuda
from hostcuda.profile import Profile, watch
from labkit.base.errors import LabError
from labkit.ladder.buffers import Buffers
from labkit.ladder.source import module_arguments

PATTERNS = ("neighbours", "apart")  # where the threads are that share an address
BLOCK = 256
SOURCE = Path(__file__).with_suffix(".cu")


@functools.cache
def _compile_module():
    return hostcuda.compiler.SourceModule(**module_arguments(SOURCE.read_text(), SOURCE))


def measure_contention(pattern: str, share: int, threads: int = 1 << 18, times: int = 16, repeat: int = 5) -> float:
    """Return the time in microseconds that `threads` threads take to add 1 to an address, `times` times each.

    Parameters
    ----------
    pattern : {"neighbours", "apart"}
        The threads that share an address: neighbours, so that the lanes of a warp meet, or as far apart as possible.
    share : int
        Threads per address; it divides `threads`.
    threads : int
        A multiple of 256.
    times : int
    repeat : int
        Launches after the first, which is a warm-up; the median is returned.

    Raises
    ------
    LabError
        For another pattern or number, or if a sum is wrong.
    """
    if pattern not in PATTERNS:
        raise LabError(f"there is no pattern {pattern!r}; there are {', '.join(PATTERNS)}")
    if min(share, threads, times, repeat + 1) < 1 or threads % BLOCK or threads % share:
        raise LabError(f"{threads} threads, {share} per address: threads are a multiple of {BLOCK} and of share, and "
                       "all numbers are positive")
    times_us, addresses = [], threads // share
    with Buffers() as buffers:
        function = _compile_module().get_function(pattern).prepare("Pii")
        x = buffers.copy_in(np.zeros(addresses, np.float32))
        for _ in range(1 + repeat):
            hostcuda.driver.memset_d8(x, 0, 4 * addresses)
            start, end = hostcuda.driver.Event(), hostcuda.driver.Event()
            start.record()
            function.prepared_call((threads // BLOCK, 1), (BLOCK, 1, 1), int(x), share, times)
            end.record()
            end.synchronize()
            times_us.append(start.time_till(end) * 1e3)
        sums = buffers.copy_out(x, (addresses,))
    if not (sums == share * times).all():  # exact in float32 up to 2**24, and then a sum of ones stops growing
        raise LabError(f"{pattern}: the sums are {sums.min():g} to {sums.max():g}; each has to be {share * times}")
    return float(np.median(times_us[1:] or times_us))


def count_requests(pattern: str, share: int, threads: int = 1 << 12) -> Profile:
    """Count requests and sectors of the contention kernel, with one addition per thread, in a process of its own."""
    command = [sys.executable, "-m", "recording.contention", pattern, str(share), str(threads)]
    counted_run = watch(command, timeout=600, capture=True, nvcc=False)
    counted_run.ended.require(f"counting {pattern}")
    return counted_run


if __name__ == "__main__":
    measure_contention(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), times=1, repeat=0)
