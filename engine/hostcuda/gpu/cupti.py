"""Records of kernels, copies and driver calls, with their times, from NVIDIA's CUPTI.

It has the same two functions as :mod:`hostcuda.api.activity`; `hostcuda.activity` is the module of
the engine in use. CUPTI's activity interface needs no permission for performance counters, only its
library and NVIDIA's Python bindings (``pip install cupti-python``, of the CUDA toolkit's major
version).
"""

from __future__ import annotations

import importlib
import re
from types import ModuleType
from typing import Any

from hostcuda.errors import EngineError

_BUFFER_BYTES = 8 << 20
_COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}  # CUpti_ActivityMemcpyKind
_PACKAGES = {"elftools": "pyelftools"}  # module -> package, if the names differ
_records: list[tuple] = []
_registered = False  # whether CUPTI knows the two callbacks


def _import_cupti() -> ModuleType:
    """Return NVIDIA's module ``cupti.cupti``; EngineError, with what to install, if it does not import."""
    try:
        return importlib.import_module("cupti.cupti")
    except ImportError as error:
        missing = (error.name or "cupti").partition(".")[0]
        remedy = f"install it: pip install {_PACKAGES.get(missing, missing)}"
        if missing == "cupti":
            remedy = "install the release for your CUDA toolkit, for CUDA 13: pip install 'cupti-python~=13.0'"
        raise EngineError(
            f"tracing on a GPU needs NVIDIA's CUPTI bindings, and {missing} does not import ({error}): "
            f"{remedy}"
        ) from None


def _list_kinds(cupti: ModuleType) -> list[Any]:
    """Return the kinds of activities to record: kernels, copies, fills, calls of the driver."""
    kind = cupti.ActivityKind
    return [kind.CONCURRENT_KERNEL, kind.MEMCPY, kind.MEMSET, kind.DRIVER]


def _add_records(activities: list) -> None:
    """Append CUPTI's activities to `_records`: (kind, name, start [s], duration [s], bytes, stream).

    CUPTI calls it with the activities in each of its buffers.
    """
    cupti = _import_cupti()
    kind = cupti.ActivityKind
    for activity in activities:
        start = activity.start * 1e-9  # from nanoseconds
        duration = (activity.end - activity.start) * 1e-9
        if activity.kind == kind.DRIVER:
            name = cupti.get_callback_name(cupti.CallbackDomain.DRIVER_API, activity.cbid)
            # cuMemcpyHtoD for cuMemcpyHtoD_v2
            documented = re.sub(r"(_v\d+)?(_ptds|_ptsz)?$", "", name)
            _records.append(("api", documented, start, duration, 0, 0))
            continue
        stream = activity.stream_id
        if activity.kind == kind.MEMCPY:
            direction = _COPIES.get(activity.copy_kind, "copy")
            _records.append(("copy", direction, start, duration, activity.bytes, stream))
        elif activity.kind == kind.MEMSET:
            _records.append(("copy", "memset", start, duration, activity.bytes, stream))
        else:
            _records.append(("kernel", activity.name, start, duration, 0, stream))


def start() -> None:
    """Start recording kernels, copies and driver calls; `stop` returns what was recorded.

    Raises EngineError if the CUPTI bindings are missing, or another profiler uses CUPTI.
    """
    global _registered
    cupti = _import_cupti()
    try:
        if not _registered:  # CUPTI keeps the callbacks after `stop`
            # 0: a buffer gets as many records as it holds
            cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), _add_records)
            _registered = True
        for kind in _list_kinds(cupti):
            cupti.activity_enable(kind)
    except cupti.cuptiError as error:
        raise EngineError(
            f"CUPTI cannot trace ({error}): run this process without another profiler (Nsight Systems, "
            "ncu)"
        ) from None
    _records.clear()


def stop() -> list[tuple]:
    """Stop recording, and return what was recorded since `start`.

    Returns
    -------
    list of (kind, name, start, duration, bytes, stream)
        `kind` is "kernel", "copy" (also a fill) or "api" (a driver call). `name` is that of the kernel or
        of the driver's function; for a copy "HtoD", "DtoH", "DtoD", "PtoP" or "copy", for a fill "memset".
        `start` and `duration` are in seconds, `start` on CUPTI's clock. `bytes` are those of a copy or
        fill, else 0. `stream` is the number of the stream, 0 for a driver call.
    """
    cupti = _import_cupti()
    cupti.activity_flush_all(1)  # 1: also buffers that are not full
    for kind in _list_kinds(cupti):
        cupti.activity_disable(kind)
    records = list(_records)
    _records.clear()
    return records
