"""``pycuda.driver`` for the CPU engine: the names that PyCUDA programs use."""

from hostcuda.api import device, kernels, memory, pitched, streams
from hostcuda.api.device import *  # noqa: F403 - this module has all their names
from hostcuda.api.kernels import *  # noqa: F403
from hostcuda.api.memory import *  # noqa: F403
from hostcuda.api.pitched import *  # noqa: F403
from hostcuda.api.streams import *  # noqa: F403
from hostcuda.errors import CompileError, Error, LaunchError, LogicError, MemoryError, RuntimeError

__all__ = ["CompileError", "Error", "LaunchError", "LogicError", "MemoryError", "RuntimeError"]
for _module in (device, kernels, memory, pitched, streams):
    __all__ += _module.__all__
