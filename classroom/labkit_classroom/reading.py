"""Read what a student has handed in, in a child process with limits: no text of it holds the grader for long."""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import signal
import struct
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

READ_S = 20  # of processor time, for all files of a student
_WAIT_S = 5 * READ_S  # on a busy machine
_MEMORY = 1 << 30  # bytes, more than the grader itself has
_MOST = 128 << 20  # bytes of what is read
_LENGTH = struct.Struct("<Q")

Item, Result = TypeVar("Item"), TypeVar("Result")


def read_limited(
    items: Sequence[Item], read: Callable[[Item], Result], seconds: int = READ_S
) -> list[Result | None]:
    """Return ``read(item)`` of each item, computed in a child process with limits; None for items after a limit.

    Students' files may need too much time or memory. The child writes each result to a pipe, with
    its length in front, so that the results before a limit are kept. Without `os.fork`, this
    process reads, without limits.

    Parameters
    ----------
    items : sequence
    read : callable
        It raises nothing, and its results can be pickled.
    seconds : int
        Processor time for all items; five times as much may pass on a busy machine.
    """
    if not hasattr(os, "fork"):  # there is no sandbox either
        return [*map(read, items)]
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            _limit_process(seconds)
            for item in items:
                data = pickle.dumps(read(item))
                _write(writer, _LENGTH.pack(len(data)) + data)
        finally:
            os._exit(0)  # also after an error, such as no memory; without the parent's cleanup
    os.close(writer)
    try:
        data = _receive(reader, time.monotonic() + seconds * _WAIT_S / READ_S)
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    results: list[Result | None] = []
    while len(data) >= _LENGTH.size:
        end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        if len(data) < end:  # the limit came while this result was written
            break
        results.append(pickle.loads(data[_LENGTH.size : end]))
        data = data[end:]
    return results + [None] * (len(items) - len(results))


def _limit_process(seconds: int) -> None:
    """Set the limits of this process: processor time, memory beyond what it has, and no files."""
    import resource  # on Unix

    with open("/proc/self/statm", encoding="ascii") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    for limit, value in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, size + _MEMORY),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))


def _write(pipe: int, data: bytes) -> None:
    """Write all of the data to a pipe."""
    left = memoryview(data)
    while left:
        left = left[os.write(pipe, left) :]


def _receive(pipe: int, until: float) -> memoryview:
    """Return what a pipe has until its end, a time on the monotonic clock, or the most that is read."""
    data = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0 and len(data) < _MOST:
            if selector.select(left):
                if not (piece := os.read(pipe, 1 << 20)):  # the pipe's end
                    break
                data += piece
    return memoryview(data)
