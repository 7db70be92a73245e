"""``pycuda.driver`` for the CPU engine: the names that PyCUDA programs use.

In addition there are `trace_calls`, `take_calls`, `trace_device` and `take_device_records`, for traces.
"""

from hostcuda.api import device, kernels, memory, pitched, streams
from hostcuda.api.device import *  # noqa: F403 - this module has all their names
from hostcuda.api.kernels import *  # noqa: F403
from hostcuda.api.memory import *  # noqa: F403
from hostcuda.api.pitched import *  # noqa: F403
from hostcuda.api.streams import *  # noqa: F403
from hostcuda.errors import CompileError, Error, LaunchError, LogicError, MemoryError, RuntimeError
from hostcuda.runtime.native import take_calls, take_device_records, trace_calls, trace_device

__all__ = ["CompileError", "Error", "LaunchError", "LogicError", "MemoryError", "RuntimeError"]
__all__ += ["take_calls", "take_device_records", "trace_calls", "trace_device"]
for _module in (device, kernels, memory, pitched, streams):
    __all__ += _module.__all__
