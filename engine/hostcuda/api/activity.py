"""Records of kernels, copies and driver calls, with their times, from the CPU engine's own trace.

It has the same two functions as :mod:`hostcuda.gpu.cupti`; `hostcuda.activity` is the module of the engine in use.
"""

from hostcuda.api import driver

_KINDS = {ord("k"): "kernel", ord("c"): "copy", ord("s"): "copy"}


def start() -> None:
    """Start recording kernels, copies and driver calls."""
    driver.take_device_records()
    driver.take_calls()
    driver.trace_device(True)
    driver.trace_calls(True)


def stop() -> list[tuple]:
    """Stop recording.

    Returns
    -------
    list of (kind, name, start, duration, bytes, stream)
        `kind` is "kernel", "copy" or "api"; times in seconds on the monotonic clock.
    """
    driver.trace_calls(False)
    device_records = driver.take_device_records()  # before the trace is switched off, which discards them
    driver.trace_device(False)
    records = [
        (_KINDS[int(r["kind"])], r["name"].decode(), r["started"], r["ended"] - r["started"], r["bytes"], r["stream"])
        for r in device_records
    ]
    return records + [("api", name, start, duration, 0, 0) for name, start, duration in driver.take_calls()]
