"""Stand in for CuPy: its arrays, ``RawKernel`` and ``RawModule``, on the CPU engine.

Kernels that CuPy writes itself (``ElementwiseKernel``, ``fuse``, ``cupyx.jit``) are not here.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hostcuda.api import driver
from hostcuda.api.kernels import Function, Module
from hostcuda.errors import EngineError
from hostcuda.programs import cupy_arrays, raw
from hostcuda.programs.cupy_arrays import (
    NOT_HERE,
    Namespace,
    Pointer,
    current_streams,
    find_function,
)
from hostcuda.runtime import native

# CUDA's names of attributes that are not PyCUDA's words, each with a capital letter
_NAMES_IN_CUDA = {
    "MultiprocessorCount": "MultiProcessorCount",
    "MaxThreadsPerMultiprocessor": "MaxThreadsPerMultiProcessor",
    "MultiGpuBoard": "IsMultiGpuBoard",
    "MultiGpuBoardGroupId": "MultiGpuBoardGroupID",
}

# -- cupy.cuda


class Stream:
    """A stream; ``with stream:`` makes it the current one.

    `null` and `ptds` stand for the default stream. With `non_blocking` it does not wait for the default
    stream. `priority` has no effect.
    """

    null: Stream
    ptds: Stream

    def __init__(
        self,
        null: bool = False,
        non_blocking: bool = False,
        ptds: bool = False,
        priority: int | None = None,
    ):
        self._stream = None if null or ptds else driver.Stream(1 if non_blocking else 0)
        self.ptr = self._stream.handle if self._stream else 0
        _streams[self.ptr] = self._stream

    def synchronize(self) -> None:
        """Wait for all work of the stream; on the default stream, for all work of the device."""
        if self._stream is None:
            driver.Context.synchronize()
        else:
            self._stream.synchronize()

    def use(self) -> Stream:
        """Make this stream the current one, and return it."""
        # a stack: ``with stream:`` pushes one and pops it at the end
        current_streams[-1] = self._stream
        return self

    def __enter__(self) -> Stream:
        current_streams.append(self._stream)
        return self

    def __exit__(self, *error: object) -> None:
        current_streams.pop()

    def record(self, event: Event | None = None) -> Event:
        """Put an event, by default a new one, after the stream's work so far, and return it."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Let later work of this stream wait for an event; on the default stream, the host waits for it now."""
        if self._stream is None:
            event.synchronize()
        else:
            self._stream.wait_for_event(event._event)

    @property
    def done(self) -> bool:
        """Whether all work of the stream is done."""
        # None: the default stream
        return native.stream_query(None) if self._stream is None else self._stream.is_done()


_streams: dict[int, driver.Stream | None] = {}
Stream.null = Stream(null=True)
Stream.ptds = Stream.null


class ExternalStream(Stream):
    """A stream that another package has made, by its handle; an unknown one is the default stream."""

    def __init__(self, ptr: int, device_id: int = -1):
        self._stream, self.ptr = find_stream(ptr), int(ptr)


def find_stream(handle: int) -> driver.Stream | None:
    """Return the stream that has a handle (a number); None, the default stream, for a handle that is not known."""
    return _streams.get(int(handle))


def register_stream(stream: driver.Stream) -> None:
    """Keep a stream of another package, so that `find_stream` finds it by its handle."""
    _streams[stream.handle] = stream


class Event:
    """A mark in a stream, with the time at which the stream reaches it unless `disable_timing`.

    `block` and `interprocess` have no effect.
    """

    def __init__(
        self, block: bool = False, disable_timing: bool = False, interprocess: bool = False
    ):
        self._event = driver.Event(2 if disable_timing else 0)

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark after the work so far of a stream, by default the current one."""
        self._event.record(current_streams[-1] if stream is None else stream._stream)

    def synchronize(self) -> None:
        """Wait until the stream has reached the event."""
        self._event.synchronize()

    @property
    def done(self) -> bool:
        """Whether the stream has reached the event."""
        return self._event.query()


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """Return the milliseconds from `start_event` to `end_event`, both reached; LogicError if one has no time."""
    return end_event._event.time_since(start_event._event)


class Device:
    """The engine's device, whose number is 0; another number raises LogicError."""

    def __init__(self, device: int | None = None):
        self.id = int(device or 0)
        self._device = driver.Device(self.id)
        self.compute_capability = "{}{}".format(*self._device.compute_capability())

    def use(self) -> Device:
        """Return the device, the only one."""
        return self

    __enter__ = use

    def __exit__(self, *error: object) -> None:
        pass

    def synchronize(self) -> None:
        """Wait for all work of the device."""
        driver.Context.synchronize()

    @property
    def attributes(self) -> dict[str, int]:
        """The attributes of the device by CUDA's names without "cudaDevAttr", such as "WarpSize"."""
        attributes = {}
        for attribute, value in self._device.get_attributes().items():
            # MAX_PITCH, PyCUDA's name, becomes MaxPitch
            name = "".join(word.capitalize() for word in attribute.name.split("_"))
            attributes[_NAMES_IN_CUDA.get(name, name)] = value
        return attributes

    @property
    def mem_info(self) -> tuple[int, int]:
        """The pair (free, total) of the device memory in bytes."""
        return driver.mem_get_info()


class _Launchable:
    """A kernel, called as ``kernel(grid, block, arguments)``; the first use gets its function by `find()`."""

    def __init__(self, find: Callable[[], Function]):
        self._find: Callable[[], Function] = find
        self._found: Function | None = None
        self._cooperative = False  # whether the blocks of a launch may wait for each other

    @property
    def _function(self) -> Function:
        """The kernel as a `Function`; the first access compiles the source if that is not done yet."""
        if self._found is None:
            self._found = self._find()
        return self._found

    def __call__(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        stream: Stream | None = None,
        enable_cooperative_groups: bool | None = None,
    ) -> None:
        """Launch the kernel in a stream, by default the current one; `shared_mem` is dynamic, in bytes per block.

        `enable_cooperative_groups`: blocks may wait for each other; None: as the kernel was made.
        """
        chosen = current_streams[-1] if stream is None else stream._stream
        arguments = [raw_argument(argument) for argument in args]
        cooperative = (
            self._cooperative if enable_cooperative_groups is None else enable_cooperative_groups
        )
        raw.launch(self._function, grid, block, arguments, shared_mem, chosen, cooperative)

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """The most dynamic shared memory per block, in bytes, that a launch may ask for; it can be set."""
        return self._function._max_dynamic

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        """Let launches ask for up to `size` bytes of dynamic shared memory; LogicError if a block cannot have these."""
        attribute = driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._function.set_attribute(attribute, size)

    @property
    def attributes(self) -> dict[str, int]:
        """The attributes of the kernel by CuPy's names; sizes are in bytes."""
        function = self._function
        return {
            "max_threads_per_block": function.max_threads_per_block,
            "shared_size_bytes": function.shared_size_bytes,
            "const_size_bytes": function.const_size_bytes,
            "local_size_bytes": function.local_size_bytes,
            "num_regs": function.num_regs,
            "max_dynamic_shared_size_bytes": function._max_dynamic,
        }

    def __getattr__(self, name: str) -> Any:
        """Return one of four attributes; AttributeError, which says what the stand-in has, for another name."""
        if name in ("num_regs", "shared_size_bytes", "local_size_bytes", "const_size_bytes"):
            return getattr(self._function, name)
        raise AttributeError(NOT_HERE.format(f"RawKernel.{name}"))


def raw_argument(argument: Any) -> Any:
    """Return an argument of a kernel as it is passed: the address of a `Pointer`; any other argument as it is.

    Raises TypeError for an array of NumPy, which is not on the device.
    """
    if isinstance(argument, np.ndarray):
        raise TypeError(
            f"an array of NumPy ({argument.dtype}, shape {argument.shape}) is no argument of a kernel: pass "
            "cupy.asarray(array)"
        )
    return argument.ptr if isinstance(argument, Pointer) else argument


class RawKernel(_Launchable):
    """A kernel of a source, which its first launch compiles.

    `name` may be an instance of a template: "scale<float>". `backend`, `translate_cucomplex` and `jitify`
    have no effect.
    """

    def __init__(
        self,
        code: str,
        name: str,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        *,
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        jitify: bool = False,
    ):
        self.code, self.name, self.options, self.backend = code, name, options, backend

        def find() -> Function:
            """Compile the source, and return the kernel."""
            module = raw.compile_module(code, options, [name])
            return raw.find_function(module, name, [name] if "<" in name else ())

        super().__init__(find)
        self._cooperative = enable_cooperative_groups

    def compile(self, log_stream: object = None) -> None:
        """Compile the source now, if that is not done yet; `log_stream` has no effect."""
        _ = self._function  # the first use of this property compiles

    @property
    def kernel(self) -> RawKernel:
        """The object itself: CuPy has its compiled kernel under this name."""
        return self


class RawModule:
    """The kernels and variables of a source, given as text (`code`) or as a file (`path`).

    The first use compiles it. `name_expressions` are the instances of templates to find, such as
    "scale<float>". `backend`, `translate_cucomplex` and `jitify` have no effect.
    """

    def __init__(
        self,
        *,
        code: str | None = None,
        path: str | None = None,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions: Iterable[str] | None = None,
        jitify: bool = False,
    ):
        if (code is None) == (path is None):
            raise TypeError("RawModule takes either code or path")
        self.code = Path(path).read_text() if path is not None else code or ""
        if path is not None and Path(path).suffix not in (".cu", ".cpp", ".cuh", ".h"):
            raise EngineError(f"{path} is compiled for a GPU: give its source as code=")
        self._options, self._names = options, tuple(name_expressions or ())
        self._cooperative, self._loaded = enable_cooperative_groups, None

    @property
    def _module(self) -> Module:
        """The loaded module; the first access compiles the source."""
        if self._loaded is None:
            self._loaded = raw.compile_module(self.code, self._options, self._names)
        return self._loaded

    def compile(self, log_stream: object = None) -> None:
        """Compile the source now, if that is not done yet; `log_stream` has no effect."""
        _ = self._module  # the first use of this property compiles

    def get_function(self, name: str) -> _Launchable:
        """Return a kernel by its name, or an instance of a template by its text in `name_expressions`: "f<float>".

        LogicError if there is no such kernel.
        """
        function = raw.find_function(self._module, name, self._names)
        # given by a lambda, because a RawKernel compiles only when it is first used
        kernel = _Launchable(lambda: function)
        kernel._cooperative = self._cooperative
        return kernel

    def get_global(self, name: str) -> Pointer:
        """Return the address of a ``__constant__`` or ``__device__`` variable; LogicError if there is none."""
        # the pointer keeps this module (`self`) loaded; get_global returns (address, bytes)
        return Pointer(self._module.get_global(name)[0], self)


class _MemoryPointer(Pointer):
    """Memory that ``cupy.cuda.alloc`` has returned."""


def _alloc(size: int) -> _MemoryPointer:
    """Return the address of `size` bytes of new device memory, which the result keeps."""
    memory = driver.mem_alloc(max(1, int(size)))
    return _MemoryPointer(int(memory), memory)


def _make_runtime() -> types.ModuleType:
    """Return the module ``cupy.cuda.runtime``, with the functions that programs use most."""
    runtime: Any = types.ModuleType("cupy.cuda.runtime")
    runtime.getDeviceCount = lambda: 1
    runtime.getDevice = lambda: 0
    runtime.setDevice = lambda device: Device(device) and None  # raises for a number other than 0
    runtime.deviceSynchronize = driver.Context.synchronize
    runtime.memGetInfo = driver.mem_get_info
    runtime.runtimeGetVersion = runtime.driverGetVersion = driver.get_driver_version

    def get_properties(number: int) -> dict:
        """Return some properties of the device of this number by the names of cudaDeviceProp."""
        device = driver.Device(number)
        attribute = driver.device_attribute
        major, minor = device.compute_capability()
        return {
            "name": device.name().encode(),
            "major": major,
            "minor": minor,
            "totalGlobalMem": device.total_memory(),
            "multiProcessorCount": device.get_attribute(attribute.MULTIPROCESSOR_COUNT),
            "warpSize": device.get_attribute(attribute.WARP_SIZE),
            "maxThreadsPerBlock": device.get_attribute(attribute.MAX_THREADS_PER_BLOCK),
            "sharedMemPerBlock": device.get_attribute(attribute.MAX_SHARED_MEMORY_PER_BLOCK),
        }

    runtime.getDeviceProperties = get_properties
    return runtime


# the names of the modules cupy and cupy.cuda
_OF_ARRAYS = (
    "array",
    "asarray",
    "ascontiguousarray",
    "asnumpy",
    "empty",
    "empty_like",
    "get_array_module",
    "get_default_memory_pool",
    "get_default_pinned_memory_pool",
    "ndarray",
)
_OF_KERNELS = ("RawKernel", "RawModule")
_OF_CUDA = ("Device", "Event", "ExternalStream", "Stream", "get_elapsed_time")


def install() -> None:
    """Let this process import this module, which stands in for CuPy, as ``cupy``: change `sys.modules`."""
    driver.Device(0).make_context()  # starts the engine
    module: Any = types.ModuleType("cupy", __doc__)
    for names, found in ((_OF_ARRAYS, vars(cupy_arrays)), (_OF_KERNELS, globals())):
        for name in names:
            setattr(module, name, found[name])
    module.__version__ = "13.0.0"  # the CuPy that this module follows
    module.__path__ = []  # makes it a package, with modules in it
    cuda: Any = types.ModuleType("cupy.cuda")
    for name in _OF_CUDA:
        setattr(cuda, name, globals()[name])
    cuda.alloc, cuda.runtime, cuda.is_available = _alloc, _make_runtime(), lambda: True
    cuda.get_current_stream = _get_current_stream
    cuda.MemoryPointer, cuda.__path__ = _MemoryPointer, []
    cuda.stream, cuda.device = cuda, cuda  # cupy.cuda.stream.Stream is cupy.cuda.Stream, too
    # Namespace: a module of NumPy whose functions take and return arrays of this module
    testing = Namespace(np.testing)
    module.cuda, module.testing = cuda, testing
    module.random, module.linalg, module.fft = map(Namespace, (np.random, np.linalg, np.fft))
    # any other name of ``cupy`` is NumPy's function, for arrays of this module
    module.__getattr__ = lambda name: find_function(np, name)
    sys.modules |= {
        "cupy": module,
        "cupy.cuda": cuda,
        "cupy.cuda.device": cuda,
        "cupy.cuda.runtime": cuda.runtime,
        "cupy.cuda.stream": cuda,
        "cupy.testing": testing,
        "cupy.random": module.random,
        "cupy.linalg": module.linalg,
        "cupy.fft": module.fft,
    }


def _get_current_stream(device_id: int = -1) -> Stream:
    """Return the current stream: the last one that ``with`` or `Stream.use` has chosen; the device has no effect."""
    return (
        Stream.null if current_streams[-1] is None else ExternalStream(current_streams[-1].handle)
    )
