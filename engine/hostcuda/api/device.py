"""Device, Context and the enumerations around them.

The engine has one device of compute capability 9.0 with a GPU's limits, so that a kernel that runs
here is within the limits of a GPU. Name, memory and the number of multiprocessors (worker threads)
are the host's.
"""

from __future__ import annotations

import enum
from operator import index
from typing import Any, SupportsIndex

from hostcuda import limits, processor
from hostcuda.errors import LogicError
from hostcuda.runtime import native

__all__ = [
    "Context",
    "Device",
    "ctx_flags",
    "device_attribute",
    "func_cache",
    "get_driver_version",
    "get_version",
    "init",
    "limit",
    "mem_get_address_range",
    "mem_get_info",
    "shared_config",
    "start_profiler",
    "stop_profiler",
]

COMPUTE_CAPABILITY = (9, 0)
_CUDA_VERSION = (12, 0)

# The attributes of a device: the names of ``CUdevice_attribute``, by the number of the first of
# each run.
_ATTRIBUTES = {
    1: "MAX_THREADS_PER_BLOCK MAX_BLOCK_DIM_X MAX_BLOCK_DIM_Y MAX_BLOCK_DIM_Z MAX_GRID_DIM_X MAX_GRID_DIM_Y "
    "MAX_GRID_DIM_Z MAX_SHARED_MEMORY_PER_BLOCK TOTAL_CONSTANT_MEMORY WARP_SIZE MAX_PITCH MAX_REGISTERS_PER_BLOCK "
    "CLOCK_RATE TEXTURE_ALIGNMENT GPU_OVERLAP MULTIPROCESSOR_COUNT KERNEL_EXEC_TIMEOUT INTEGRATED "
    "CAN_MAP_HOST_MEMORY COMPUTE_MODE",
    31: "CONCURRENT_KERNELS ECC_ENABLED PCI_BUS_ID PCI_DEVICE_ID TCC_DRIVER MEMORY_CLOCK_RATE "
    "GLOBAL_MEMORY_BUS_WIDTH L2_CACHE_SIZE MAX_THREADS_PER_MULTIPROCESSOR ASYNC_ENGINE_COUNT UNIFIED_ADDRESSING",
    50: "PCI_DOMAIN_ID",
    75: "COMPUTE_CAPABILITY_MAJOR COMPUTE_CAPABILITY_MINOR",
    78: "STREAM_PRIORITIES_SUPPORTED GLOBAL_L1_CACHE_SUPPORTED LOCAL_L1_CACHE_SUPPORTED "
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR MAX_REGISTERS_PER_MULTIPROCESSOR MANAGED_MEMORY MULTI_GPU_BOARD "
    "MULTI_GPU_BOARD_GROUP_ID",
    87: "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO PAGEABLE_MEMORY_ACCESS CONCURRENT_MANAGED_ACCESS",
    97: "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    106: "MAX_BLOCKS_PER_MULTIPROCESSOR",
    111: "RESERVED_SHARED_MEMORY_PER_BLOCK",
}  # other numbers are not in PyCUDA's enumeration, or without use here
device_attribute: Any = enum.IntEnum(  # Any: a type checker cannot see its members
    "device_attribute",
    {
        name: number
        for first, names in _ATTRIBUTES.items()
        for number, name in enumerate(names.split(), first)
    },
)


# Accepted by `Device.make_context`, ``set_cache_config`` and ``set_shared_config``, without effect
# here.
ctx_flags = enum.IntFlag(
    "ctx_flags",
    {
        "SCHED_AUTO": 0,
        "SCHED_SPIN": 1,
        "SCHED_YIELD": 2,
        "SCHED_BLOCKING_SYNC": 4,
        "MAP_HOST": 8,
        "LMEM_RESIZE_TO_MAX": 16,
    },
)
func_cache = enum.IntEnum("func_cache", "PREFER_NONE PREFER_SHARED PREFER_L1 PREFER_EQUAL", start=0)
shared_config = enum.IntEnum(
    "shared_config", "DEFAULT_BANK_SIZE FOUR_BYTE_BANK_SIZE EIGHT_BYTE_BANK_SIZE", start=0
)


def _list_attributes() -> dict[Any, int]:
    """Return the value of each attribute, in CUDA's units: limits of the architecture, and facts of this machine."""
    a, sm = device_attribute, limits.MULTIPROCESSOR["sm_{}{}".format(*COMPUTE_CAPABILITY)]
    return dict.fromkeys(a, 0) | {
        a.MAX_THREADS_PER_BLOCK: limits.MAX_THREADS,
        **dict(
            zip(
                (a.MAX_BLOCK_DIM_X, a.MAX_BLOCK_DIM_Y, a.MAX_BLOCK_DIM_Z),
                limits.MAX_BLOCK,
                strict=True,
            )
        ),
        **dict(
            zip(
                (a.MAX_GRID_DIM_X, a.MAX_GRID_DIM_Y, a.MAX_GRID_DIM_Z), limits.MAX_GRID, strict=True
            )
        ),
        a.MAX_SHARED_MEMORY_PER_BLOCK: limits.SHARED_BYTES,
        a.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: limits.SHARED_OPT_IN_BYTES,
        a.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: sm["shared"],
        a.RESERVED_SHARED_MEMORY_PER_BLOCK: limits.DRIVER_BYTES,
        a.TOTAL_CONSTANT_MEMORY: limits.CONSTANT_BYTES,
        a.WARP_SIZE: limits.WARP,
        a.MAX_PITCH: 2**31 - 1,
        a.MAX_REGISTERS_PER_BLOCK: sm["registers"],
        a.MAX_REGISTERS_PER_MULTIPROCESSOR: sm["registers"],
        a.MAX_THREADS_PER_MULTIPROCESSOR: sm["warps"] * limits.WARP,
        a.MAX_BLOCKS_PER_MULTIPROCESSOR: sm["blocks"],
        a.CLOCK_RATE: int(processor.clock_hz() / 1000),  # kHz
        # Linux's index 2 is mostly the L2 cache
        a.L2_CACHE_SIZE: processor.cache_bytes().get(2, 0),
        a.TEXTURE_ALIGNMENT: 512,  # bytes
        a.GPU_OVERLAP: 1,
        a.ASYNC_ENGINE_COUNT: 1,
        a.CONCURRENT_KERNELS: 1,
        a.MULTIPROCESSOR_COUNT: native.library().hc_workers(),
        a.INTEGRATED: 1,
        a.CAN_MAP_HOST_MEMORY: 1,
        a.UNIFIED_ADDRESSING: 1,
        a.MANAGED_MEMORY: 1,
        a.CONCURRENT_MANAGED_ACCESS: 1,
        a.COMPUTE_CAPABILITY_MAJOR: COMPUTE_CAPABILITY[0],
        a.COMPUTE_CAPABILITY_MINOR: COMPUTE_CAPABILITY[1],
        a.SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: 2,
    }


class Device:
    """The engine's one device.

    Parameters
    ----------
    number : int
        0.
    """

    def __init__(self, number: int):
        if number != 0:
            raise LogicError(
                "cuDeviceGet failed: invalid device ordinal: the CPU engine has device 0 only, not "
                f"{number!r}"
            )

    @staticmethod
    def count() -> int:
        """Return the number of devices: 1, the CPU engine."""
        return 1

    def name(self) -> str:
        """Return the host processor's name, marked as the CPU engine."""
        return f"CPU engine ({processor.name()})"

    def compute_capability(self) -> tuple[int, int]:
        """Return the compute capability, (9, 0): the engine has the limits of this architecture."""
        return COMPUTE_CAPABILITY

    def total_memory(self) -> int:
        """Return how many bytes of the host's memory kernels may use."""
        return native.mem_info()[1]  # of (free, in all)

    def pci_bus_id(self) -> str:
        """Return a placeholder, because the engine is on no PCI bus."""
        return "0000:00:00.0"

    def get_attribute(self, attribute: int) -> int:
        """Return the value of one `device_attribute`, 0 for what a CPU does not have; ValueError for another number."""
        return _list_attributes()[device_attribute(attribute)]

    def get_attributes(self) -> dict[Any, int]:
        """Return a dict of all attributes: `device_attribute` -> value."""
        return _list_attributes()

    def __getattr__(self, name: str) -> int:
        """Return the attribute of this name in any case, as PyCUDA does: ``device.warp_size``."""
        try:
            attribute = device_attribute[name.upper()]
        except KeyError:
            raise AttributeError(f"a Device has no attribute {name!r}") from None
        return self.get_attribute(attribute)

    def make_context(self, flags: int = ctx_flags.SCHED_AUTO) -> Context:
        """Start the engine and return its only context; the flags have no effect."""
        del flags
        native.library()
        return _context

    retain_primary_context = make_context

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device)

    def __hash__(self) -> int:
        return 0


# The limits that `Context.set_limit` sets, in bytes.
limit = enum.IntEnum("limit", "STACK_SIZE PRINTF_FIFO_SIZE MALLOC_HEAP_SIZE", start=0)


def _do_nothing(*_: object) -> None:
    """Do nothing: on the CPU engine this call has no effect."""


class Context:
    """The engine's only context, which is always current.

    Pushing, popping and detaching it have no effect.
    """

    @staticmethod
    def synchronize() -> None:
        """Wait for all launches and copies, of all streams.

        Raises
        ------
        LaunchError
            A kernel faulted since the last synchronization.
        """
        native.synchronize()

    @staticmethod
    def get_device() -> Device:
        """Return the device of the current context: the only one."""
        return Device(0)

    @staticmethod
    def get_current() -> Context:
        """Return the current context."""
        return _context

    pop = push = detach = set_cache_config = set_shared_config = staticmethod(_do_nothing)

    @staticmethod
    def get_api_version() -> int:
        """Return the version of the emulated driver, as CUDA's number: 12000 is 12.0."""
        return _CUDA_VERSION[0] * 1000 + _CUDA_VERSION[1] * 10

    get_cache_config = staticmethod(lambda: func_cache.PREFER_NONE)
    get_shared_config = staticmethod(lambda: shared_config.FOUR_BYTE_BANK_SIZE)

    @staticmethod
    def set_limit(limit: int, value: int) -> None:
        """Set a limit, of the enumeration ``driver.limit``, to a number of bytes.

        Only MALLOC_HEAP_SIZE, the memory of ``malloc`` in kernels, has an effect. LogicError for an
        unknown limit or a value that is no integer from 0.
        """
        if limit not in _limits or not isinstance(value, int) or value < 0:
            raise LogicError(f"cuCtxSetLimit failed: invalid argument: {limit!r} = {value!r}")
        _limits[limit] = value
        if limit == 2:  # limit.MALLOC_HEAP_SIZE: the parameter's name hides the enumeration
            native.library().hc_heap_limit(value)

    @staticmethod
    def get_limit(limit: int) -> int:
        """Return a limit, of the enumeration ``driver.limit``, in bytes: CUDA's default, or what `set_limit` has set.

        LogicError for an unknown limit.
        """
        if limit not in _limits:
            raise LogicError(f"cuCtxGetLimit failed: invalid argument: {limit!r}")
        return _limits[limit]


_context = Context()
_limits = {
    **dict.fromkeys(range(3, 7), 0),  # cudaLimit has these, too: PyCUDA does not name them
    limit.STACK_SIZE: 1 << 10,
    limit.PRINTF_FIFO_SIZE: 1 << 20,
    limit.MALLOC_HEAP_SIZE: 8 << 20,
}


def init(flags: int = 0) -> None:
    """Start the engine; the first call on a machine compiles its runtime library. The flags have no effect."""
    del flags
    native.library()


def get_version() -> tuple[int, int, int]:
    """Return the emulated CUDA version as (major, minor, 0)."""
    return (*_CUDA_VERSION, 0)


def mem_get_address_range(pointer: SupportsIndex) -> tuple[int, int]:
    """Return (base address, size in bytes) of the allocation that a device pointer points into; LogicError if none."""
    if (span := native.mem_range(index(pointer))) is None:
        raise LogicError(f"cuMemGetAddressRange failed: {index(pointer):#x} is no device memory")
    return span


mem_get_info, get_driver_version = native.mem_info, Context.get_api_version
start_profiler = stop_profiler = _do_nothing
