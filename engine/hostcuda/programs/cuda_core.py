"""Stand in for ``cuda.core``: ``Program``, ``launch`` and what they need, on the CPU engine."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hostcuda.api import driver
from hostcuda.errors import EngineError
from hostcuda.programs import cupy, raw

_MODULES = ("cuda.core", "cuda.core.experimental")
_NAMES = (
    "Buffer",
    "Device",
    "Event",
    "Kernel",
    "LaunchConfig",
    "ObjectCode",
    "Program",
    "ProgramOptions",
    "Stream",
    "launch",
)


class ComputeCapability(NamedTuple):
    """The version of an architecture."""

    major: int
    minor: int


class Event:
    """A mark in a stream, with the time at which the stream reaches it; the options have no effect."""

    def __init__(self, options: Any = None):
        self._event = driver.Event()

    def sync(self) -> None:
        """Wait until the stream has reached the event."""
        self._event.synchronize()

    @property
    def is_done(self) -> bool:
        """Whether the stream has reached the event."""
        return self._event.query()

    def __sub__(self, other: Event) -> float:
        """Return the milliseconds from the event `other` to this one; LogicError if one was not recorded."""
        return self._event.time_since(other._event)

    def close(self) -> None:
        """Do nothing: the event is destroyed with this object."""


class Stream:
    """A queue of work that runs in order: a stream of the driver, or None for the default stream."""

    def __init__(self, stream: driver.Stream | None):
        self._stream = stream
        if stream is not None:
            cupy.register_stream(stream)

    @property
    def handle(self) -> int:
        """The stream's number; 0 is the default stream."""
        return 0 if self._stream is None else self._stream.handle

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return (version of this protocol, the stream's number), by which other packages take a stream."""
        return 0, self.handle

    def sync(self) -> None:
        """Wait for all work of the stream; on the default stream, for all work of the device."""
        if self._stream is None:
            driver.Context.synchronize()
        else:
            self._stream.synchronize()

    def record(self, event: Event | None = None, options: Any = None) -> Event:
        """Put an event, by default a new one, after the stream's work so far, and return it.

        The options are those of a new event.
        """
        event = event or Event(options)
        event._event.record(self._stream)
        return event

    def wait(self, event_or_stream: Event | Stream) -> None:
        """Let later work of this stream wait for an event, or for the work that a stream has now.

        On the default stream, the host waits for it now.
        """
        event = event_or_stream
        if isinstance(event, Stream):
            event = event.record()
        if self._stream is None:
            event.sync()
        else:
            self._stream.wait_for_event(event._event)

    def close(self) -> None:
        """Do nothing: the stream is destroyed with this object."""


class Buffer:
    """Device memory of `size` bytes, which nothing has set."""

    def __init__(self, size: int):
        self._memory, self.size = driver.mem_alloc(max(1, int(size))), int(size)

    @property
    def handle(self) -> int:
        """The device address of the buffer's first byte."""
        return int(self._memory)

    def copy_to(self, dst: Buffer | None = None, *, stream: Stream | None = None) -> Buffer:
        """Queue a copy of this buffer to `dst`, by default to a new buffer; return that buffer.

        Without a stream it is queued in the default stream.
        """
        dst = dst or Buffer(self.size)
        driver_stream = stream._stream if stream else None  # None: the default stream
        driver.memcpy_dtod_async(dst.handle, self.handle, self.size, driver_stream)
        return dst

    def copy_from(self, src: Buffer, *, stream: Stream | None = None) -> None:
        """Queue a copy of all bytes of the buffer `src` to this one, in the default stream if none is given."""
        src.copy_to(self, stream=stream)

    def close(self, stream: Stream | None = None) -> None:
        """Wait for the device and free the memory; the stream has no effect."""
        self._memory.free()


class _Properties:
    """The attributes of a device, in lower case: ``multiprocessor_count``."""

    def __getattr__(self, name: str) -> int:
        """Return the attribute of this name; AttributeError if CUDA has none."""
        try:
            attribute = getattr(driver.device_attribute, name.upper())
        except AttributeError:
            raise AttributeError(f"the CPU engine's device has no property {name}") from None
        return driver.Device(0).get_attribute(attribute)


class Device:
    """The engine's device, whose number is 0; another number raises LogicError."""

    def __init__(self, device_id: int | None = None):
        self.device_id = int(device_id or 0)
        self._device = driver.Device(self.device_id)
        self.name, self.properties = self._device.name(), _Properties()
        self.compute_capability = ComputeCapability(*self._device.compute_capability())
        self.arch = "{}{}".format(*self.compute_capability)
        self.default_stream = Stream(None)

    def set_current(self, ctx: Any = None) -> None:
        """Do nothing: the device is the only one, and always current."""

    def create_stream(self, obj: Any = None, options: Any = None) -> Stream:
        """Return a new stream, or the stream of `obj`, another package's object with ``__cuda_stream__``.

        The options have no effect.
        """
        if obj is None:
            return Stream(driver.Stream(1))  # the flag 1: it does not wait for the default stream
        # __cuda_stream__() returns (version of the protocol, handle of the stream)
        return Stream(cupy.find_stream(obj.__cuda_stream__()[1]))

    def create_event(self, options: Any = None) -> Event:
        """Return a new event; the options have no effect."""
        return Event(options)

    def allocate(self, size: int, stream: Stream | None = None) -> Buffer:
        """Return a new buffer of `size` bytes in device memory, which is not initialized; the stream has no effect."""
        return Buffer(size)

    def sync(self) -> None:
        """Wait for all work of the device."""
        driver.Context.synchronize()


class ProgramOptions:
    """Options of the compiler, by the names of cuda.core.

    ``std``, ``arch``, ``include_path``, ``define_macro`` and ``use_fast_math`` have an effect; others are
    accepted without.
    """

    def __init__(self, **options: Any):
        self.options = options

    def as_words(self) -> list[str]:
        """Return the options as nvcc's words, such as ["-std=c++17", "-DN=4"]."""
        words = []
        for name, prefix in (("std", "-std="), ("arch", "-arch=")):
            if self.options.get(name):
                words.append(f"{prefix}{self.options[name]}")
        for path in _as_list(self.options.get("include_path")):
            words.append(f"-I{path}")
        for macro in _as_list(self.options.get("define_macro")):
            # "N", or the pair ("N", 4)
            words.append("-D" + (macro if isinstance(macro, str) else "=".join(map(str, macro))))
        if self.options.get("use_fast_math"):
            words.append("--use_fast_math")
        return words


def _as_list(value: Any) -> list:
    """Return the values of an option as a list: [] for None, [value] for a single value, or the list itself."""
    return [] if value is None else value if isinstance(value, list) else [value]


class Program:
    """A source in CUDA C++; EngineError if `code_type` is anything else."""

    def __init__(self, code: str, code_type: str = "c++", options: ProgramOptions | None = None):
        if str(code_type).lower() != "c++":
            raise EngineError(f"the CPU engine compiles CUDA C++, and no {code_type}")
        self._code, self._options = code, (options or ProgramOptions()).as_words()
        self.backend = "NVRTC"

    def compile(
        self, target_type: str = "cubin", name_expressions: Sequence[str] = (), logs: Any = None
    ) -> ObjectCode:
        """Compile the source, and return the result; CompileError if it does not compile.

        `name_expressions` are the instances of templates that `ObjectCode.get_kernel` is to find, such
        as "scale<float>". `target_type` and `logs` have no effect.
        """
        names = tuple(name_expressions)
        return ObjectCode(raw.compile_module(self._code, self._options, names), names)

    def close(self) -> None:
        """Do nothing: a source holds no resources."""


class ObjectCode:
    """A compiled source: its module, and the names of the instances of templates that were asked for."""

    def __init__(self, module: Any, names: tuple[str, ...]):
        self._module, self._names = module, names

    def get_kernel(self, name: str) -> Kernel:
        """Return a kernel by its name, or an instance of a template by the name that `Program.compile` was given.

        LogicError if there is no such kernel.
        """
        return Kernel(raw.find_function(self._module, name, self._names))


class Kernel:
    """A kernel to launch."""

    def __init__(self, function: Any):
        self._function, self.attributes = function, _KernelAttributes(function)


class _KernelAttributes:
    """The attributes of a kernel, as functions: ``max_threads_per_block()``."""

    def __init__(self, function: Any):
        self._function = function

    def __getattr__(self, name: str) -> Callable[..., int]:
        """Return a function that returns this attribute of the kernel; its argument, a device, has no effect."""
        value = getattr(self._function, name)
        return lambda device_id=None: value


@dataclass
class LaunchConfig:
    """The geometry of a launch; EngineError if it has a cluster."""

    grid: int | tuple = ()
    block: int | tuple = ()
    cluster: Any = None
    shmem_size: int = 0  # bytes of dynamic shared memory per block
    cooperative_launch: bool = False
    # the older name of `cooperative_launch`
    is_cooperative: bool = False

    def __post_init__(self) -> None:
        """Raise an EngineError if a cluster is given."""
        if self.cluster is not None:
            raise EngineError(
                "the CPU engine launches clusters from cuda.core only if the kernel declares them: write "
                "__cluster_dims__(...) in front of it, and launch without cluster"
            )


def launch(stream: Any, config: LaunchConfig, kernel: Kernel, *kernel_args: Any) -> None:
    """Launch a kernel in a stream of this module, or in an object of another package that stands for a stream.

    A `Buffer` among the arguments is passed by its address.
    """
    if not isinstance(stream, Stream):
        stream = Device().create_stream(stream)
    raw.launch(
        kernel._function,
        config.grid,
        config.block,
        [arg.handle if isinstance(arg, Buffer) else arg for arg in kernel_args],
        config.shmem_size,
        stream._stream,
        config.cooperative_launch or config.is_cooperative,  # two names of one option
    )


def install() -> None:
    """Let this process import this module, which stands in for cuda.core, under its names: change `sys.modules`.

    The names are ``cuda.core`` and ``cuda.core.experimental``.
    """
    driver.Device(0).make_context()  # starts the engine
    # ``import cuda.core`` needs a package "cuda" around it; an empty `__path__` makes a module a package
    if "cuda" not in sys.modules and not importlib.util.find_spec("cuda"):
        sys.modules["cuda"] = types.ModuleType("cuda")
        sys.modules["cuda"].__path__ = []
    for module_name in _MODULES:
        module: Any = types.ModuleType(module_name, __doc__)
        module.__path__, module.__version__ = [], "0.4.0"  # the cuda.core that this module follows
        for name in _NAMES:
            setattr(module, name, globals()[name])
        sys.modules[module_name] = module
    core: Any = sys.modules["cuda.core"]
    core.experimental = sys.modules["cuda.core.experimental"]
