"""Records of kernels, copies and driver calls, with their times, from the CPU engine's own trace.

It has the same two functions as :mod:`hostcuda.gpu.cupti`; `hostcuda.activity` is the module of the
engine in use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from hostcuda.runtime import abi, native

# Function of `native` -> the CUDA driver's name for it; "{}" is filled with the first argument.
_TRACED = {
    "mem_alloc": "cuMemAlloc",
    "mem_free": "cuMemFree",
    "memcpy": "cuMemcpy{}",
    "memset": "cuMemsetD{}",
    "synchronize": "cuCtxSynchronize",
    "stream_create": "cuStreamCreate",
    "stream_synchronize": "cuStreamSynchronize",
    "stream_wait_event": "cuStreamWaitEvent",
    "event_create": "cuEventCreate",
    "event_record": "cuEventRecord",
    "event_synchronize": "cuEventSynchronize",
    "event_query": "cuEventQuery",
    "stream_query": "cuStreamQuery",
    "event_elapsed_ms": "cuEventElapsedTime",
    "module_load": "cuModuleLoad",
    "launch": "cuLaunchKernel",
}
# "s": a fill (memset), by the runtime's letters
_KINDS = {ord("k"): "kernel", ord("c"): "copy", ord("s"): "copy"}
_calls: list[tuple[str, float, float]] = []  # (driver's function, start, duration), in seconds
_untraced = {}  # while a trace is on: name -> function of `native` that `start` has replaced


def start() -> None:
    """Start recording kernels, copies and driver calls; an earlier trace is lost."""
    stop()
    native.library().hc_trace(1)  # the runtime records its operations from now on
    # all callers write native.NAME(...), so replacing the functions there reaches every call
    for name, driver_name in _TRACED.items():
        _untraced[name] = getattr(native, name)
        setattr(native, name, _time_calls(_untraced[name], driver_name))


def stop() -> list[tuple]:
    """Stop recording, and return what was recorded since `start`; empty without a trace.

    Returns
    -------
    list of (kind, name, start, duration, bytes, stream)
        `kind` is "kernel", "copy" (also a fill) or "api" (a driver call); `name` that of the kernel, of
        the copy or of the driver's function; times in seconds on the monotonic clock; `bytes` those of
        a copy, else 0; `stream` the number of its stream, 0 for the default one and for a call.
    """
    native.__dict__.update(_untraced)  # the functions that `start` has replaced
    _untraced.clear()
    records = [
        *_take_device_records(),
        *(("api", name, start, duration, 0, 0) for name, start, duration in _calls),
    ]
    native.library().hc_trace(0)
    _calls.clear()
    return records


def record_call(name: str, start: float, duration: float) -> None:
    """Add a call, such as a compilation, with its start and duration in seconds to the trace, if it is on."""
    if _untraced:  # the functions that `start` has replaced: there are none without a trace
        _calls.append((name, start, duration))


def _take_device_records() -> Iterator[tuple]:
    """Yield the device's operations as tuples of the form that `stop` returns, in the order in which they ended."""
    chunk = (abi.Record * 1024)()
    while count := native.library().hc_trace_take(chunk, len(chunk)):
        for record in chunk[:count]:
            yield (
                _KINDS[record.kind],
                record.name.decode(),
                record.started,
                record.ended - record.started,
                record.bytes,
                record.stream,
            )


def _time_calls(function: Callable, driver_name: str) -> Callable:
    """Return a function that calls `function`, a copy or other call of `native`, and adds the call to the trace.

    `driver_name` is a value of `_TRACED`. Calls that raise an error are recorded, too.
    """

    def call_and_record(*arguments: Any) -> Any:
        start = time.monotonic()
        try:
            return function(*arguments)
        finally:
            duration, name = time.monotonic() - start, driver_name
            # memcpy("HtoD", ..., wait) is cuMemcpyHtoD; memset(4, ..., wait), of 4 bytes, is cuMemsetD32
            if "{}" in name:
                kind_or_width, *_, wait = arguments
                suffix = kind_or_width if name.startswith("cuMemcpy") else 8 * kind_or_width
                name = name.format(suffix) + ("" if wait else "Async")
            _calls.append((name, start, duration))

    return call_and_record
