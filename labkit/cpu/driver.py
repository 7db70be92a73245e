"""``pycuda.driver`` for the CPU engine: the names that the lab and ordinary PyCUDA programs use.

In addition there are `trace_calls`, `take_calls`, `trace_device` and `take_device_records`, for the lab's traces.
"""

from labkit.cpu import device, errors, kernels, memory, streams
from labkit.cpu.device import *  # noqa: F403 - this module has all their names
from labkit.cpu.errors import *  # noqa: F403
from labkit.cpu.kernels import *  # noqa: F403
from labkit.cpu.memory import *  # noqa: F403
from labkit.cpu.native import take_calls, take_device_records, trace_calls, trace_device
from labkit.cpu.streams import *  # noqa: F403

__all__ = ["take_calls", "take_device_records", "trace_calls", "trace_device"]
__all__ += device.__all__ + errors.__all__ + kernels.__all__ + memory.__all__ + streams.__all__
