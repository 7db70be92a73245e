"""``pycuda.driver`` for the CPU engine: the names that the lab and ordinary PyCUDA programs use.

In addition there are `trace_calls`, `take_calls`, `trace_device` and `take_device_records`, for the lab's traces.
"""

from labkit.cpu import device, errors, kernels, memory, pitched, streams
from labkit.cpu.device import *  # noqa: F403 - this module has all their names
from labkit.cpu.errors import *  # noqa: F403
from labkit.cpu.kernels import *  # noqa: F403
from labkit.cpu.memory import *  # noqa: F403
from labkit.cpu.native import take_calls, take_device_records, trace_calls, trace_device
from labkit.cpu.pitched import *  # noqa: F403
from labkit.cpu.streams import *  # noqa: F403

__all__ = ["take_calls", "take_device_records", "trace_calls", "trace_device"]
for _each in (device, errors, kernels, memory, pitched, streams):
    __all__ += _each.__all__
