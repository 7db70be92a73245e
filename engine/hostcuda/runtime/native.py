"""The engine's runtime library: build it once into the cache, load it once per process, and wrap its calls.

The wrappers stand for functions of the CUDA driver, raise PyCUDA's exceptions, and check for Ctrl-C while
they wait. ``runtime/abi.h`` defines the library's interface, and `hostcuda.runtime.abi` reads that.
"""

from __future__ import annotations

import atexit
import codecs
import contextlib
import ctypes
import math
import os
import signal
import sys
import threading
import time
import warnings
import weakref
from ctypes import byref, c_double, c_size_t, c_uint, c_void_p
from dataclasses import dataclass, field
from pathlib import Path

from hostcuda.build.unit import precompile_header
from hostcuda.check import mode as checkmode
from hostcuda.check import records
from hostcuda.errors import CompileError, Interrupted, LaunchError, LogicError, MemoryError, RuntimeError
from hostcuda.host import cache, toolchain
from hostcuda.runtime import abi, layout

OK, NOT_READY, LAUNCH_FAILED, INVALID, OUT_OF_MEMORY, NOT_FOUND = range(6)
_POLL_S = 0.1  # seconds between checks for Ctrl-C in a waiting call
_LONG_S = 60  # a call that has waited for so many seconds warns of what may be the reason
_EXCEPTIONS = {
    NOT_READY: RuntimeError,
    LAUNCH_FAILED: LaunchError,
    INVALID: LogicError,
    OUT_OF_MEMORY: MemoryError,
    NOT_FOUND: LogicError,
}


# ---------------------------------------------------------------------------------------------------------------------
# Building and loading

_library = None
_loading = threading.Lock()
_finished = False


# Runtime files that are compiled as one: half of the time goes into the standard library's headers. With the kernels'
# header, which is compiled beside them, two cores have equal work. No thread of a block waits for `_COLD` code.
_UNITS = {
    "scheduler": ("half", "fibers", "slabs", "warps", "shared", "spins", "scheduler"),
    "pool": ("divide", "faults", "signals", "printf", "heap", "memory", "module", "pool"),
}
_CHECK_UNITS = {  # only in check mode
    "counting": ("counting",),
    "hooks": ("allocations", "requests", "steps", "races", "check", "hooks"),
    "records": ("copies", "ahead", "records"),
}
_COLD = {"pool", "records"}


def build() -> Path:
    """Compile the runtime library if it is not in the cache; return its path."""
    command = toolchain.find()
    flags = ["-std=gnu++17", "-O2", "-march=native", "-fPIC", "-fvisibility=hidden", "-pthread", "-fno-strict-aliasing"]
    if checkmode.TOOLS:
        flags.append("-DHOSTCUDA_CHECK")
    key = cache.digest("runtime", toolchain.fingerprint(command), *flags)

    def compile_runtime(path):
        cache.trim("runtime-*.so")
        units = _UNITS | (_CHECK_UNITS if checkmode.TOOLS else {})
        lines = []
        for name, (*before, last) in units.items():
            line = [*command, *flags, f"-I{toolchain.RUNTIME}", f"-I{toolchain.INCLUDE}", *["-Og"] * (name in _COLD)]
            for source in before:
                line += ["-include", str(toolchain.RUNTIME / f"{source}.cpp")]
            lines.append([*line, "-c", str(toolchain.RUNTIME / f"{last}.cpp"), "-o", str(path.with_name(f"{name}.o"))])
        header = threading.Thread(target=precompile_header)  # the first kernel needs both
        header.start()
        results = [*zip(lines, toolchain.run_all(lines), strict=True)]
        link = [*command, *flags, "-shared", "-o", str(path), *(line[-1] for line in lines), "-ldl"]
        results.append((link, toolchain.run(link)))
        header.join()
        for line, (status, out, err) in results:
            if status:
                reason = "the CPU engine's own runtime library does not compile; set CXX to use another compiler"
                raise CompileError(reason, line, out, err)

    path = cache.obtain(f"runtime-{key[:24]}.so", compile_runtime)
    cache.touch(path)
    return path


def library() -> ctypes.CDLL:
    """Return the runtime library; the first call builds, loads and starts it."""
    global _library
    if _library is None:
        with _loading:
            if _library is None:
                _library = _load()
    return _library


def _load():
    """Build, load and start the runtime library; return it."""
    path = build()
    try:
        lib = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise RuntimeError(
            f"cuInit failed: what {' '.join(toolchain.find())} has made of the CPU engine cannot be loaded ({error}): "
            "set CXX to another C++ compiler, such as g++, or HOSTCUDA_CACHE_DIR to a folder that may hold programs"
        ) from None
    abi.declare(lib)
    workers = _number("HOSTCUDA_WORKERS", "the number of worker threads of the CPU engine")
    lib.hc_mem_limit(_number("HOSTCUDA_MEMORY_MB", "the device memory in megabytes") << 20)
    if checkmode.TOOLS:
        records.attach(lib)
        workers = 1
    if (status := lib.hc_start(workers)) != OK:
        kind = MemoryError if status == OUT_OF_MEMORY else RuntimeError
        raise kind(f"cuInit failed: {lib.hc_error().decode('utf-8', 'replace')}")
    atexit.register(_finish)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
    return lib


def _number(name, what):
    """Return the number in an environment variable; 0 if it is not set."""
    text = os.environ.get(name, "0")
    if not text.isdigit():
        raise LogicError(f"{name}={text!r} is not a number: give {what}, or leave it unset")
    return int(text)


def _finish():
    """Stop the engine at the end of the process, in check mode after the queued launches; take output and records."""
    global _finished
    if not _finished:
        if checkmode.TOOLS:  # the last launches of a program are checked, too
            with contextlib.suppress(KeyboardInterrupt):
                while _library.hc_synchronize(_POLL_S) == NOT_READY:
                    pass
        _library.hc_abort()
        _wait_quietly()
        _show_printf()
        records.take()
        _finished = True
        for sentence in [] if checkmode.TOOLS else _deferred:
            print(f"hostcuda: no call has waited for the device since this fault: {sentence}", file=sys.stderr)
        _library.hc_stop()


class _Forked:
    """Replaces the library in a forked child, which has no worker threads."""

    def __getattr__(self, name):
        raise LogicError(
            "the CPU engine was started before this process was forked, and its worker threads were not copied: "
            "start child processes with multiprocessing's 'spawn' or 'forkserver' method"
        )


def _after_fork():
    global _library, _finished
    _library, _finished = _Forked(), True


# ---------------------------------------------------------------------------------------------------------------------
# Errors, waiting, printf

_deferred = []  # faults found where nothing can be raised (in a destructor)


def check(status, call) -> None:
    """Raise the exception for a `status`; `call` is the CUDA function's name."""
    if status != OK:
        sentence = _library.hc_error().decode("utf-8", "replace")
        raise _EXCEPTIONS.get(status, LogicError)(f"{call} failed: {sentence}")


def _wait(call, function, *arguments):
    """Call ``function(*arguments, timeout)`` until it is ready. Ctrl-C abandons the device's work."""
    long_from = time.monotonic() + _LONG_S
    try:
        while (status := function(*arguments, _POLL_S)) == NOT_READY:
            records.take()
            if time.monotonic() > long_from:
                long_from = math.inf
                warnings.warn(
                    f"{call} has waited for {_LONG_S} s. If a kernel waits for another block in a loop, it may never "
                    "end on the CPU engine, which runs one block per worker at a time. Ctrl-C ends it",
                    stacklevel=4,
                )
    except KeyboardInterrupt:
        _library.hc_abort()
        raise Interrupted(f"{call} was stopped, and with it all that the device had not finished") from None
    finally:
        _show_printf()
        records.take()
    if _deferred:
        if status != OK:
            _deferred.append(_library.hc_error().decode("utf-8", "replace"))
        raise LaunchError(f"{call} failed: {_deferred.pop(0)}")
    check(status, call)


def _is_done(call, status):
    """Return whether a query's status is ready."""
    if status != NOT_READY:
        check(status, call)
    return status != NOT_READY


def _wait_quietly():
    """Wait for the device in a destructor, where nothing can be raised: a fault is raised by a later call."""
    try:
        while (status := _library.hc_synchronize(_POLL_S)) == NOT_READY:
            pass
        if status != OK:
            _deferred.append(_library.hc_error().decode("utf-8", "replace"))
    except KeyboardInterrupt:
        _library.hc_abort()
        again = signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)
        threading.Timer(0.05, *again).start()  # after the destructor, where it can be caught


_printf_buffer = ctypes.create_string_buffer(1 << 16)
_printf_text = codecs.getincrementaldecoder("utf-8")("replace")
_printing = threading.Lock()


def _show_printf():
    """Write the output of kernels' printf to Python's stdout, so that notebooks show it."""
    with _printing:
        while count := _library.hc_printf_take(_printf_buffer, len(_printf_buffer)):
            sys.stdout.write(_printf_text.decode(_printf_buffer.raw[:count]))


# ---------------------------------------------------------------------------------------------------------------------
# Objects that asynchronous work still needs


class _KeepAlive:
    """Keeps arrays alive until the stream has done the work that uses them.

    Objects are collected in batches. A full batch is followed by an event, and released when the event is reached.
    """

    BATCH = 32

    def __init__(self, stream):
        self.stream = stream
        self.open, self.closed = [], []

    def add(self, *objects):
        """Keep objects until an event behind the work queued so far; let go of those whose event has passed."""
        self.open.append(objects)
        if len(self.open) >= self.BATCH:
            event = c_void_p()
            check(_library.hc_event_create(byref(event)), "cuEventCreate")
            check(_library.hc_event_record(event, self.stream), "cuEventRecord")
            self.closed.append((event, self.open))
            self.open = []
            while self.closed and (status := _library.hc_event_query(self.closed[0][0])) != NOT_READY:
                if status != OK:  # the query has taken a kernel's fault, which the next call that waits raises
                    _deferred.append(_library.hc_error().decode("utf-8", "replace"))
                _library.hc_event_destroy(self.closed.pop(0)[0])

    def clear(self):
        for event, _ in self.closed:
            _library.hc_event_destroy(event)
        self.open, self.closed = [], []


_kept = {}  # stream handle or None -> _KeepAlive


def keep_alive(stream, *objects) -> None:
    """Keep `objects` until the work queued so far on `stream` (a handle; None: the default stream) is done."""
    if stream not in _kept:
        _kept[stream] = _KeepAlive(stream)
    _kept[stream].add(*objects)


# ---------------------------------------------------------------------------------------------------------------------
# The driver's calls


def map_host_memory(address, size) -> None:
    """Tell check mode that kernels may use this page-locked memory of the host; no longer if `size` is 0."""
    if checkmode.TOOLS and not _finished:
        library().hc_mem_mapped(address, size)


def is_host_memory(address, size, writes) -> bool:
    """Return whether these bytes of this process can be read, or, with `writes`, also written."""
    return library().hc_host_memory(address, size, int(writes)) == OK


def mem_alloc(size) -> int:
    """Allocate `size` bytes; return their address."""
    address = c_void_p()
    status = library().hc_mem_alloc(size, byref(address))
    if status == OUT_OF_MEMORY:
        free, total = mem_info()
        raise MemoryError(f"cuMemAlloc failed: out of memory: {format_bytes(size)} requested, {format_bytes(free)} of "
                          f"{format_bytes(total)} free. Use a smaller batch, or free() what is no longer needed.")
    check(status, "cuMemAlloc")
    return address.value


def mem_free(address) -> None:
    """Wait for the device and free an allocation; this reports writes beyond its end that no launch has reported."""
    try:
        _wait("cuMemFree", _library.hc_synchronize)
    finally:
        status = _library.hc_mem_free(address)
    if status != OK:
        raise LaunchError(f"cuMemFree failed: {_library.hc_error().decode('utf-8', 'replace')}")


def mem_release(address) -> None:
    """Free an allocation in a destructor, as `mem_free`: the next call that waits raises the fault."""
    if _finished:
        return
    _wait_quietly()
    if _library.hc_mem_free(address) != OK:
        _deferred.append(_library.hc_error().decode("utf-8", "replace"))


def mem_info() -> tuple[int, int]:
    """Return (free, total) bytes of the engine's device memory."""
    free, total = c_size_t(), c_size_t()
    check(library().hc_mem_info(byref(free), byref(total)), "cuMemGetInfo")
    return free.value, total.value


def mem_range(address) -> tuple[int, int] | None:
    """Return the (base, size) of the allocation that contains `address`, or None."""
    base, size = c_void_p(), c_size_t()
    return (base.value, size.value) if library().hc_mem_range(address, byref(base), byref(size)) == OK else None


def memcpy(kind, to, source, size, stream, wait) -> None:
    """Copy; `kind` is "HtoD", "DtoH" or "DtoD"; `stream` a handle or None."""
    call = f"cuMemcpy{kind}"
    _record_call_site("a copy to the host" if kind == "DtoH" else "a copy")
    check(library().hc_memcpy(to, source, size, stream, 0, kind.encode()), call)
    if wait:
        _wait(call, _library.hc_stream_synchronize, stream)


def _record_call_site(call):
    """Tell check mode the file and line of a Python program's call; a whole program's the runtime knows."""
    frame = sys._getframe(1) if checkmode.TOOLS else None
    while frame and frame.f_code.co_filename.startswith((str(toolchain.RUNTIME.parent), "<frozen")):
        frame = frame.f_back
    if frame:
        _library.hc_copy_place(call.encode(), os.fsencode(frame.f_code.co_filename), frame.f_lineno)


def memset(width, to, value, count, stream, wait) -> None:
    """Fill `count` elements of `width` bytes."""
    call = f"cuMemsetD{8 * width}"
    _record_call_site("a fill")
    check(library().hc_memset(to, value, width, count, stream, 0), call)
    if wait:
        _wait(call, _library.hc_stream_synchronize, stream)


def synchronize() -> None:
    """Wait for all streams."""
    if _library is None:
        return
    _wait("cuCtxSynchronize", _library.hc_synchronize)
    for kept in _kept.values():
        kept.clear()


def stream_create(non_blocking) -> int:
    """Return a new stream's handle."""
    handle = c_void_p()
    check(library().hc_stream_create(int(non_blocking), byref(handle)), "cuStreamCreate")
    return handle.value


def stream_destroy(handle) -> None:
    """Destroy a stream; its queued work still completes."""
    kept = _kept.pop(handle, None)
    if not _finished:
        _library.hc_stream_destroy(handle)
        if kept and (kept.open or kept.closed):
            keep_alive(None, kept)


def stream_synchronize(handle) -> None:
    """Wait for one stream."""
    _wait("cuStreamSynchronize", _library.hc_stream_synchronize, handle)
    if handle in _kept:
        _kept[handle].clear()


def stream_query(handle) -> bool:
    """Return whether the stream has no work left."""
    return _is_done("cuStreamQuery", _library.hc_stream_query(handle))


def stream_wait_event(handle, event) -> None:
    """Make the stream wait for the last record of the event."""
    check(_library.hc_stream_wait_event(handle, event), "cuStreamWaitEvent")


def event_create() -> int:
    """Return a new event's handle."""
    handle = c_void_p()
    check(library().hc_event_create(byref(handle)), "cuEventCreate")
    return handle.value


def event_destroy(handle) -> None:
    """Destroy an event."""
    if not _finished:
        _library.hc_event_destroy(handle)


def event_record(handle, stream) -> None:
    """Record the event after the stream's work so far."""
    check(_library.hc_event_record(handle, stream), "cuEventRecord")


def event_synchronize(handle) -> None:
    """Wait for the event."""
    _wait("cuEventSynchronize", _library.hc_event_synchronize, handle)


def event_query(handle) -> bool:
    """Return whether the stream has reached the event."""
    return _is_done("cuEventQuery", _library.hc_event_query(handle))


def event_elapsed_ms(start, end) -> float:
    """Return the milliseconds between two events."""
    milliseconds = c_double()
    check(_library.hc_event_elapsed_ms(start, end, byref(milliseconds)), "cuEventElapsedTime")
    return milliseconds.value


before_load = None  # called with the path of each module; it can raise to refuse it (see hostcuda.untrusted)


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel of a loaded module."""

    handle: int
    name: str  # as written in the source
    symbol: str  # as mangled by the compiler
    parameters: list  # the ``hc_parameter`` of each
    packed_bytes: int  # the size of its packed arguments
    max_threads: int  # per block: that of its ``__launch_bounds__``, else 1024
    own_shared: int  # bytes of the static shared arrays that it declares
    common_shared: int  # bytes of those outside of functions
    gear: str  # "loops" or "fibers"
    why_fibers: str  # the reason, if loops were wanted
    function: int  # its address


@dataclass
class LoadedModule:
    """A loaded module. The runtime reads parts of its layout, which lives as long."""

    handle: int
    layout: layout.Layout
    kernels: list[LoadedKernel]  # those that are registered
    asked: set[tuple[int, int]] = field(default_factory=set)  # variables that may be copied: (address, size)

    def kernel(self, name) -> LoadedKernel | None:
        """Return the kernel with this name or symbol, or None."""
        wanted = name.replace(" ", "")
        return next((k for k in self.kernels if wanted in (k.symbol, k.name.replace(" ", ""))), None)

    def variable(self, name) -> tuple[int, int] | None:
        """Return the (address, size) of a ``__constant__`` or ``__device__`` variable, or None."""
        variables = self.layout.variables
        span = variables.get(name) or variables.get(f"_ZL{len(name.encode())}{name}")  # of a static variable
        if span:
            _library.hc_module_variable(self.handle, *span)
            self.asked.add(span)
        return span


_modules = {}  # handle -> LoadedModule


def module_load(path) -> LoadedModule:
    """Load a compiled kernel file."""
    if before_load:
        before_load(path)
    handle, base = c_void_p(), c_size_t()
    check(library().hc_module_load(os.fsencode(path), byref(handle), byref(base)), "cuModuleLoad")
    try:
        module = _modules[handle.value] = _place(path, handle, base.value)
    except LogicError as error:
        _library.hc_module_unload(handle)
        raise LogicError(f"cuModuleLoad failed: cannot read {path}: {error}") from None
    return module


def _place(path, module, base):
    """Tell the runtime where the variables of a loaded module are; return the `LoadedModule`."""
    infos, kernel, info = [], c_void_p(), abi.KernelInfo()
    while _library.hc_module_kernel(module, len(infos), byref(kernel), byref(info)) == OK:
        infos.append((kernel.value, info))
        info = abi.KernelInfo()
    functions = [address for _, info in infos for address in (info.function, info.loops) if address]
    places = layout.layout(path, base, functions)
    patches = (abi.Patch * len(places.patches))(*places.patches)
    watched = (abi.Variable * len(places.watched))(*places.watched)
    status = _library.hc_module_place(module, *places.text, patches, len(patches), watched, len(watched))
    if status != OK:
        raise LogicError(_library.hc_error().decode("utf-8", "replace"))
    kernels = []
    for handle, info in infos:
        symbol = places.functions[info.function]
        static, own, common = places.statics[symbol]
        loops = places.statics[places.functions[info.loops]][0] if info.loops else static
        _library.hc_kernel_place(handle, byref(static), byref(loops))
        kernels.append(LoadedKernel(handle, info.name.decode(), symbol, info.parameters[: info.parameter_count],
                                    info.packed_bytes, info.max_threads, own, common,
                                    "loops" if info.loops else "fibers", (info.why_fibers or b"").decode(),
                                    info.function))
    return LoadedModule(module.value, places, kernels)


def module_unload(handle, copy=None) -> None:
    """Unload a module when its kernels are done, and remove the file `copy` that only it used."""
    if not _finished:
        _wait_quietly()
        _library.hc_module_unload(handle)
        _modules.pop(handle)
        if copy:
            copy.unlink(missing_ok=True)


def module_callers(module) -> list[int]:
    """Return this thread's return addresses in a module's code, as offsets from its base, the innermost first."""
    offsets = (c_size_t * 16)()
    return offsets[: library().hc_module_callers(module, offsets, len(offsets))]


def variable_at(address) -> str | None:
    """Return the name of the variable of a loaded module at an address, as declared, or None."""
    return next((layout.demangle(symbol) for module in [*_modules.values()]
                 for symbol, (base, size) in module.layout.variables.items() if base <= address < base + size), None)


def variable_range(address) -> tuple[int, int] | None:
    """Return the (base, size) of the variable at an address that `LoadedModule.variable` has returned, or None."""
    return next(((base, size) for module in [*_modules.values()]
                 for base, size in [*module.asked] if base <= address < base + size), None)


def launch(kernel, grid, block, shared, packed, stream) -> None:
    """Queue a kernel; `grid` and `block` are `Dim3` values, `packed` the argument bytes."""
    _record_call_site("a launch")
    check(_library.hc_launch(kernel, grid, block, shared, packed, len(packed), stream), "cuLaunchKernel")


Dim3 = c_uint * 3


def format_bytes(size) -> str:
    """Return a number of bytes in readable units."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"


def finalize_with(owner, release, *arguments) -> weakref.finalize:
    """Call ``release(*arguments)`` when `owner` is collected, but not at interpreter exit."""
    finalizer = weakref.finalize(owner, release, *arguments)
    finalizer.atexit = False
    return finalizer
