"""The twin of ``pycuda.driver``: the names that the lab and ordinary PyCUDA programs use, on the CPU engine.

Besides PyCUDA's names there are `trace_calls`, `take_calls`, `trace_device` and `take_device_records`, from which the
lab tells what a program's time goes to.
"""

from labkit.cpu.device import (
    Context,
    Device,
    ctx_flags,
    device_attribute,
    func_cache,
    get_driver_version,
    get_version,
    init,
    mem_get_info,
    shared_config,
    start_profiler,
    stop_profiler,
)
from labkit.cpu.errors import CompileError, Error, LaunchError, LogicError, MemoryError, RuntimeError
from labkit.cpu.kernels import Function, Module, function_attribute, module_from_buffer, module_from_file
from labkit.cpu.memory import (
    ArgumentHandler,
    DeviceAllocation,
    HostAllocation,
    In,
    InOut,
    Out,
    PagelockedHostAllocation,
    RegisteredHostMemory,
    aligned_empty,
    aligned_empty_like,
    aligned_zeros,
    aligned_zeros_like,
    from_device,
    from_device_like,
    host_alloc_flags,
    mem_alloc,
    mem_alloc_like,
    mem_host_register_flags,
    memcpy_dtod,
    memcpy_dtod_async,
    memcpy_dtoh,
    memcpy_dtoh_async,
    memcpy_htod,
    memcpy_htod_async,
    memset_d8,
    memset_d8_async,
    memset_d16,
    memset_d16_async,
    memset_d32,
    memset_d32_async,
    pagelocked_empty,
    pagelocked_empty_like,
    pagelocked_zeros,
    pagelocked_zeros_like,
    register_host_memory,
    to_device,
)
from labkit.cpu.native import take_calls, take_device_records, trace_calls, trace_device
from labkit.cpu.streams import Event, Stream, event_flags

__all__ = [
    "ArgumentHandler", "CompileError", "Context", "Device", "DeviceAllocation", "Error", "Event", "Function",
    "HostAllocation", "In", "InOut", "LaunchError", "LogicError", "MemoryError", "Module", "Out",
    "PagelockedHostAllocation", "RegisteredHostMemory", "RuntimeError", "Stream", "aligned_empty",
    "aligned_empty_like", "aligned_zeros", "aligned_zeros_like", "ctx_flags", "device_attribute", "event_flags",
    "from_device", "from_device_like", "func_cache", "function_attribute", "get_driver_version", "get_version",
    "host_alloc_flags", "init", "mem_alloc", "mem_alloc_like", "mem_get_info", "mem_host_register_flags",
    "memcpy_dtod", "memcpy_dtod_async", "memcpy_dtoh", "memcpy_dtoh_async", "memcpy_htod", "memcpy_htod_async",
    "memset_d16", "memset_d16_async", "memset_d32", "memset_d32_async", "memset_d8", "memset_d8_async",
    "module_from_buffer", "module_from_file", "pagelocked_empty", "pagelocked_empty_like", "pagelocked_zeros",
    "pagelocked_zeros_like", "register_host_memory", "shared_config", "start_profiler", "stop_profiler", "take_calls",
    "take_device_records", "to_device", "trace_calls", "trace_device",
]  # fmt: skip
