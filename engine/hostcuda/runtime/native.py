"""The engine's runtime library: load it once per process, and wrap its calls.

The wrappers stand for functions of the CUDA driver, raise PyCUDA's exceptions, and check for Ctrl-C
while they wait. ``runtime/abi.h`` defines the library's interface, and `hostcuda.runtime.abi` reads
that.
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
import weakref
from collections.abc import Callable
from ctypes import byref, c_double, c_size_t, c_uint, c_void_p, create_string_buffer
from dataclasses import dataclass, field
from pathlib import Path

from hostcuda import settings
from hostcuda.check import mode as checkmode
from hostcuda.check import records
from hostcuda.errors import Interrupted, LaunchError, LogicError, MemoryError, RuntimeError
from hostcuda.host import toolchain
from hostcuda.runtime import abi, layout
from hostcuda.runtime.building import build_library

OK, NOT_READY, LAUNCH_FAILED, INVALID, OUT_OF_MEMORY, NOT_FOUND = range(6)
_POLL_S = 0.1  # seconds between checks for Ctrl-C in a waiting call
_LONG_S = 60  # a call that has waited for so many seconds says what may be the reason
_LONG_IN_NOTEBOOK_S = 5  # there somebody looks at a cell that does not end
_EXCEPTIONS = {
    NOT_READY: RuntimeError,
    LAUNCH_FAILED: LaunchError,
    INVALID: LogicError,
    OUT_OF_MEMORY: MemoryError,
    NOT_FOUND: LogicError,
}


# --------------------------------------------------------------------------------------------------
# Loading

_library = None
_loading = threading.Lock()
_finished = False


def library() -> ctypes.CDLL:
    """Return the runtime library; the first call builds, loads and starts it."""
    global _library
    if _library is None:
        with _loading:
            if _library is None:  # no other thread has loaded it meanwhile
                _library = _load()
    return _library


def _load() -> ctypes.CDLL:
    """Build, load and start the runtime library; return it. The end of the process stops it."""
    path = build_library()
    try:
        lib = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)  # kernels' files find its functions
    except OSError as error:
        raise RuntimeError(
            f"cuInit failed: what {' '.join(toolchain.find())} has made of the CPU engine cannot be "
            f"loaded ({error}): set CXX to another C++ compiler, such as g++, or HOSTCUDA_CACHE_DIR "
            "to a folder that may hold programs"
        ) from None
    abi.declare(lib)
    workers = _read_number("HOSTCUDA_WORKERS", "the number of worker threads of the CPU engine")
    lib.hc_mem_limit(_read_number("HOSTCUDA_MEMORY_MB", "the device memory in megabytes") << 20)
    if checkmode.TOOLS:
        records.attach(lib)
        workers = 1  # check mode runs one block after the other
    if (status := lib.hc_start(workers)) != OK:
        kind = MemoryError if status == OUT_OF_MEMORY else RuntimeError
        raise kind(f"cuInit failed: {lib.hc_error().decode('utf-8', 'replace')}")
    atexit.register(_finish)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
    return lib


def _read_number(name: str, meaning: str) -> int:
    """Return the number in the environment variable `name`, 0 if it is not set; `meaning` explains it in an error."""
    text = os.environ.get(name, "0")
    if not text.isdecimal():
        raise LogicError(f"{name}={text!r} is not a number: give {meaning}, or leave it unset")
    return int(text)


def _finish() -> None:
    """Stop the engine at the end of the process; print kernels' output and faults that no call has raised."""
    global _finished
    if _finished:
        return
    # the last launches of a program are checked, too; otherwise they are dropped
    if checkmode.TOOLS:
        with contextlib.suppress(KeyboardInterrupt):
            while _library.hc_synchronize(_POLL_S) == NOT_READY:
                pass
    _library.hc_abort()  # drops what is queued
    _wait_quietly()
    _show_printf()
    records.take()  # writes the last launches to HOSTCUDA_CHECK_OUT
    _finished = True  # from here on, destructors of streams, memory and modules do nothing
    for sentence in [] if checkmode.TOOLS else _deferred:  # in check mode a record has it
        print(
            f"hostcuda: no call has waited for the device since this fault: {sentence}",
            file=sys.stderr,
        )
    _library.hc_stop()


class _Forked:
    """Replaces the library in a forked child, which has no worker threads."""

    def __getattr__(self, name):
        """Raise a LogicError for each function of the library that is looked up."""
        raise LogicError(
            "the CPU engine was started before this process was forked, and its worker threads were not "
            "copied: start child processes with multiprocessing's 'spawn' or 'forkserver' method"
        )


def _after_fork() -> None:
    """In a forked child: replace the library, and let the end of the process stop nothing."""
    global _library, _finished
    _library, _finished = _Forked(), True


# --------------------------------------------------------------------------------------------------
# Errors, waiting, printf

# faults found where nothing can be raised (in a destructor), as sentences: the next `_wait` raises one
_deferred = []


def _read_error() -> str:
    """Return the library's sentence about the last error in this thread."""
    return _library.hc_error().decode("utf-8", "replace")


def check(status: int, call: str) -> None:
    """Raise the exception for the runtime library's `status`, if not OK; `call`, CUDA's name, begins its message."""
    if status != OK:
        raise _EXCEPTIONS.get(status, LogicError)(f"{call} failed: {_read_error()}")


def _wait(call, function, *arguments) -> None:
    """Repeat the library's ``function(*arguments, seconds)`` until it is ready, then print kernels' output.

    Raise the error of its status, or an earlier fault that could not be raised, with `call` first
    in the message. Ctrl-C abandons the device's work and raises Interrupted.
    """
    patience = _choose_patience()
    say_at = time.monotonic() + patience
    try:
        while (status := function(*arguments, _POLL_S)) == NOT_READY:
            records.take()  # in check mode, moves what the runtime has found to Python and its file
            if time.monotonic() > say_at:
                say_at = math.inf  # once is enough
                print(_describe_wait(call, patience), file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        _library.hc_abort()
        raise Interrupted(
            f"{call} was stopped, and with it all that the device had not finished"
        ) from None
    finally:
        _show_printf()
        records.take()
    if _deferred:  # the oldest fault is raised first, this call's own by a later one
        if status != OK:
            _deferred.append(_read_error())
        raise LaunchError(f"{call} failed: {_deferred.pop(0)}")
    check(status, call)


def _choose_patience() -> float:
    """Return after how many seconds a call that waits says so: soon in a notebook, if progress is to be shown."""
    is_shown = settings.in_notebook() and not os.environ.get("TQDM_DISABLE")
    return _LONG_IN_NOTEBOOK_S if is_shown else _LONG_S


def _describe_wait(call: str, seconds: float) -> str:
    """Return sentences that say that a call has waited for `seconds`, what may be the reason, and what ends it."""
    last = f" The last launch was that of {_last_kernel}." if _last_kernel else ""
    return (
        f"{call} has waited for {seconds} s.{last} A kernel whose loop does not end is ended by an interrupt: the "
        "button ■ of a notebook, Ctrl-C elsewhere. So is one that waits for another block in a loop, and may never "
        "end on the CPU engine, which runs one block per worker at a time."
    )


def _is_done(call: str, status: int) -> bool:
    """Return False if the status of a query is NOT_READY, True if it is OK; raise the exception for any other.

    `call` is the CUDA function's name, for the message.
    """
    if status != NOT_READY:
        check(status, call)
    return status != NOT_READY


def _wait_quietly() -> None:
    """Wait for the device in a destructor, where nothing can be raised: the next call that waits raises a fault."""
    try:
        while (status := _library.hc_synchronize(_POLL_S)) == NOT_READY:
            pass
        if status != OK:
            _deferred.append(_read_error())
    except KeyboardInterrupt:
        _library.hc_abort()
        # Send the signal again after the destructor, where the interrupt can be caught.
        threading.Timer(
            0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)
        ).start()


_printf_buffer = ctypes.create_string_buffer(1 << 16)
# a character may be split between two buffers
_printf_decoder = codecs.getincrementaldecoder("utf-8")("replace")
_printing = threading.Lock()


def _show_printf() -> None:
    """Write the output of kernels' printf to Python's stdout, so that notebooks show it."""
    with _printing:
        while count := _library.hc_printf_take(_printf_buffer, len(_printf_buffer)):
            sys.stdout.write(_printf_decoder.decode(_printf_buffer.raw[:count]))


# --------------------------------------------------------------------------------------------------
# Objects that asynchronous work still needs


class _KeepAlive:
    """Keeps arrays alive until a stream has done the work that uses them: an event follows each full batch of them."""

    BATCH = 32  # calls of `add` in a full batch

    def __init__(self, stream):
        self.stream = stream  # a handle, or None
        self.batch = []  # objects of the current batch
        self.full = []  # (event's handle, objects) of each full batch

    def add(self, *objects):
        """Keep objects until the work queued so far on the stream is done; release full batches whose work is done."""
        self.batch.append(objects)
        if len(self.batch) >= self.BATCH:
            event = c_void_p()  # not by `event_create`: a trace has only the program's events
            check(_library.hc_event_create(byref(event)), "cuEventCreate")
            check(_library.hc_event_record(event, self.stream), "cuEventRecord")
            self.full.append((event, self.batch))  # the event follows the work of this batch
            self.batch = []
            while self.full and (status := _library.hc_event_query(self.full[0][0])) != NOT_READY:
                # the query has taken a kernel's fault, which the next call that waits raises
                if status != OK:
                    _deferred.append(_read_error())
                _library.hc_event_destroy(self.full.pop(0)[0])

    def clear(self):
        """Release all objects: the stream has no work left."""
        for event, _ in self.full:
            _library.hc_event_destroy(event)
        self.batch, self.full = [], []


_kept = {}  # stream handle or None -> _KeepAlive


def keep_alive(stream: int | None, *objects: object) -> None:
    """Keep `objects` until the work queued so far on `stream` (a handle; None: the default stream) is done."""
    _kept.setdefault(stream, _KeepAlive(stream)).add(*objects)


# --------------------------------------------------------------------------------------------------
# The driver's calls


def map_host_memory(address: int, size: int) -> None:
    """Tell check mode that kernels may use `size` bytes of page-locked host memory at an address.

    `size` 0: they may no longer use the memory there. Without check mode nothing happens.
    """
    if checkmode.TOOLS and not _finished:  # _finished: at Python's exit the engine has stopped
        library().hc_mem_mapped(address, size)


def is_host_memory(address: int, size: int, writes: bool) -> bool:
    """Return whether this process can read `size` bytes of host memory at an address or, with `writes`, write them."""
    return library().hc_host_memory(address, size, int(writes)) == OK


def mem_alloc(size: int) -> int:
    """Allocate `size` bytes of device memory; return their address, or raise `MemoryError`."""
    address = c_void_p()
    status = library().hc_mem_alloc(size, byref(address))
    if status == OUT_OF_MEMORY:
        free, total = mem_info()
        raise MemoryError(
            f"cuMemAlloc failed: out of memory: {format_bytes(size)} requested, {format_bytes(free)} of "
            f"{format_bytes(total)} free. Use a smaller batch, or free() what is no longer needed."
        )
    check(status, "cuMemAlloc")
    return address.value


def mem_free(address: int) -> None:
    """Wait for the device and free an allocation; LaunchError if a kernel faulted, or wrote beyond either end of it."""
    try:
        _wait("cuMemFree", _library.hc_synchronize)
    finally:
        status = _library.hc_mem_free(address)
    if status != OK:
        raise LaunchError(f"cuMemFree failed: {_read_error()}")


def mem_release(address: int) -> None:
    """Wait for the device and free an allocation, for a destructor: the next call that waits raises a fault."""
    if _finished:  # at Python's exit the engine has stopped, and its memory is gone
        return
    _wait_quietly()
    if _library.hc_mem_free(address) != OK:
        _deferred.append(_read_error())  # for that next call


def mem_info() -> tuple[int, int]:
    """Return (free, total) bytes of device memory."""
    free, total = c_size_t(), c_size_t()
    check(library().hc_mem_info(byref(free), byref(total)), "cuMemGetInfo")
    return free.value, total.value


def mem_range(address: int) -> tuple[int, int] | None:
    """Return (base address, size in bytes) of the allocation that contains `address`, or None."""
    base, size = c_void_p(), c_size_t()
    return (
        (base.value, size.value)
        if library().hc_mem_range(address, byref(base), byref(size)) == OK
        else None
    )


def find_written(address: int, size: int) -> bytes | None:
    """Return a byte per byte of device memory: 0 if nothing has set it, else > 0; None without the tool initcheck."""
    marks = create_string_buffer(size)
    return marks.raw if library().hc_mem_written(address, size, marks) == OK else None


def memcpy(kind: str, to: int, source: int, size: int, stream: int | None, wait: bool) -> None:
    """Queue a copy of `size` bytes on a stream (a handle, or None for the default stream), and `wait` for it.

    `kind` is "HtoD", "DtoH" or "DtoD"; `to` and `source` are addresses.
    """
    call = f"cuMemcpy{kind}"
    # the program's line, for check mode's findings
    _record_call_site("a copy to the host" if kind == "DtoH" else "a copy")
    # the argument 0: the library does not wait; `_wait` does, which Ctrl-C can end
    check(library().hc_memcpy(to, source, size, stream, 0, kind.encode()), call)
    if wait:
        _wait(call, _library.hc_stream_synchronize, stream)


def _record_call_site(operation: str) -> None:
    """In check mode, tell the runtime which line of the Python program makes the next operation, e.g. "a copy"."""
    frame = sys._getframe(1) if checkmode.TOOLS else None
    # skip the frames of this package
    while frame and frame.f_code.co_filename.startswith((str(toolchain.RUNTIME.parent), "<frozen")):
        frame = frame.f_back
    if frame:
        _library.hc_copy_place(
            operation.encode(), os.fsencode(frame.f_code.co_filename), frame.f_lineno
        )


def memset(width: int, to: int, value: int, count: int, stream: int | None, wait: bool) -> None:
    """Queue a fill on a stream (a handle, or None for the default stream), and `wait` for it.

    `count` elements of `width` (1, 2 or 4) bytes become `value`; the first is at the address `to`.
    """
    call = f"cuMemsetD{8 * width}"
    _record_call_site("a fill")  # the program's line, for check mode's findings
    check(library().hc_memset(to, value, width, count, stream, 0), call)  # 0: it does not wait
    if wait:
        _wait(call, _library.hc_stream_synchronize, stream)


def synchronize() -> None:
    """Wait for all streams, and raise what went wrong; else release the objects that `keep_alive` has kept."""
    if _library is None:  # the engine was not started: there is no work
        return
    _wait("cuCtxSynchronize", _library.hc_synchronize)
    for kept in _kept.values():
        kept.clear()


def wait_or_pause() -> None:
    """Wait for all streams; in check mode also return if a kernel itself waits for the host.

    Such a kernel is then paused until the next call that waits, so that the host can do its part.
    """
    _wait("cuCtxSynchronize", _library.hc_wait_or_pause)


def stream_create(non_blocking: bool) -> int:
    """Return a new stream's handle; a `non_blocking` one does not wait for the default stream."""
    handle = c_void_p()
    check(library().hc_stream_create(int(non_blocking), byref(handle)), "cuStreamCreate")
    return handle.value


def stream_destroy(handle: int) -> None:
    """Destroy a stream; its queued work still completes."""
    kept = _kept.pop(handle, None)
    if not _finished:  # at Python's exit the engine has stopped, and its streams are gone
        _library.hc_stream_destroy(handle)
        # queued work may still use the arrays that were kept for it: the default stream keeps them now
        if kept and (kept.batch or kept.full):
            keep_alive(None, kept)


def stream_synchronize(handle: int | None) -> None:
    """Wait for one stream (None: the default stream), and release what `keep_alive` has kept for its work."""
    _wait("cuStreamSynchronize", _library.hc_stream_synchronize, handle)
    if handle in _kept:
        _kept[handle].clear()


def stream_query(handle: int | None) -> bool:
    """Return whether a stream (None: the default stream) has no work left."""
    return _is_done("cuStreamQuery", _library.hc_stream_query(handle))


def stream_wait_event(handle: int | None, event: int) -> None:
    """Make later work of the stream wait for the last record of the event; both are handles."""
    check(_library.hc_stream_wait_event(handle, event), "cuStreamWaitEvent")


def event_create() -> int:
    """Return a new event's handle."""
    handle = c_void_p()
    check(library().hc_event_create(byref(handle)), "cuEventCreate")
    return handle.value


def event_destroy(handle: int) -> None:
    """Destroy an event, given by its handle."""
    if not _finished:  # at Python's exit the engine has stopped, and its events are gone
        _library.hc_event_destroy(handle)


def event_record(handle: int, stream: int | None) -> None:
    """Record the event after the stream's work so far; both are handles."""
    check(_library.hc_event_record(handle, stream), "cuEventRecord")


def event_synchronize(handle: int) -> None:
    """Wait until the event's stream has reached it."""
    _wait("cuEventSynchronize", _library.hc_event_synchronize, handle)


def event_query(handle: int) -> bool:
    """Return whether the event's stream has reached it."""
    return _is_done("cuEventQuery", _library.hc_event_query(handle))


def event_elapsed_ms(start: int, end: int) -> float:
    """Return the milliseconds between two recorded events (handles)."""
    milliseconds = c_double()
    check(_library.hc_event_elapsed_ms(start, end, byref(milliseconds)), "cuEventElapsedTime")
    return milliseconds.value


# A function of a module's path and number of kernels, which is called before the module is loaded.
# hostcuda.untrusted sets it, to refuse some by an exception.
before_load = None


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel of a loaded module."""

    handle: int
    name: str  # as written in the source
    symbol: str  # as mangled by the compiler
    parameters: list  # of ``hc_parameter``: kind, size, align, offset
    packed_bytes: int  # the size of its packed arguments
    max_threads: int  # per block: that of its ``__launch_bounds__``, else 1024
    own_shared: int  # bytes of the static shared arrays that it declares
    common_shared: int  # bytes of those outside of functions
    execution_mode: str  # "loops" or "fibers"
    why_fibers: str  # the reason, if loops were wanted
    function: int  # its address


@dataclass
class LoadedModule:
    """A loaded module; `_modules` keeps it until it is unloaded, because the runtime reads parts of its layout."""

    handle: int
    layout: layout.Layout
    kernels: list[LoadedKernel]  # those that are registered
    # (address, bytes) of each variable that `variable` has returned, for `variable_range`
    asked: set[tuple[int, int]] = field(default_factory=set)

    def kernel(self, name: str) -> LoadedKernel | None:
        """Return the kernel with this name (spaces do not count) or symbol, or None."""
        name = name.replace(" ", "")
        return next((k for k in self.kernels if name in (k.symbol, k.name.replace(" ", ""))), None)

    def variable(self, name: str) -> tuple[int, int] | None:
        """Return (address, bytes) of a ``__constant__`` or ``__device__`` variable, or None.

        From then on, copies may use its memory, and `variable_range` finds it.
        """
        variables = self.layout.variables
        # "_ZL4mask" is the symbol of a static variable "mask"
        span = variables.get(name) or variables.get(f"_ZL{len(name.encode())}{name}")
        if span:
            _library.hc_module_variable(self.handle, *span)
            self.asked.add(span)
        return span


_modules = {}  # handle -> LoadedModule


def module_load(path: str | os.PathLike, registered: int | None = None) -> LoadedModule:
    """Load a compiled file, and return its kernels and the places of its variables.

    `registered` is the number of its kernels, where it is known; only `before_load` uses it. LogicError
    if the file cannot be loaded or read.
    """
    if before_load:  # for untrusted code: it raises an error to refuse the file
        before_load(path, registered)
    handle, base = c_void_p(), c_size_t()
    check(library().hc_module_load(os.fsencode(path), byref(handle), byref(base)), "cuModuleLoad")
    try:
        module = _modules[handle.value] = _place_variables(path, handle, base.value)
    except LogicError as error:
        _library.hc_module_unload(handle)
        raise LogicError(f"cuModuleLoad failed: cannot read {path}: {error}") from None
    return module


def _place_variables(path, module: c_void_p, base: int) -> LoadedModule:
    """Tell the runtime where the variables of the module (a handle), loaded from `path` at the address `base`, are.

    Return the module with its kernels: a kernel may have two versions, on fibers and as loops over
    its threads.
    """
    infos = []  # (handle, struct) of each kernel
    kernel, info = c_void_p(), abi.KernelInfo()  # those of the next one
    while _library.hc_module_kernel(module, len(infos), byref(kernel), byref(info)) == OK:
        infos.append((kernel.value, info))
        info = abi.KernelInfo()
    functions = [address for _, info in infos for address in (info.function, info.loops) if address]
    places = layout.layout(path, base, functions)
    patches = (abi.Patch * len(places.patches))(*places.patches)
    watched = (abi.Variable * len(places.watched))(*places.watched)
    status = _library.hc_module_place(
        module, *places.text, patches, len(patches), watched, len(watched)
    )
    if status != OK:
        raise LogicError(_read_error())
    kernels = []
    for handle, info in infos:
        symbol = places.functions[info.function]
        # its shared memory: places; bytes declared in it, and outside
        static, own, common = places.statics[symbol]
        static_of_loops = places.statics[places.functions[info.loops]][0] if info.loops else static
        _library.hc_kernel_place(handle, byref(static), byref(static_of_loops))
        kernels.append(
            LoadedKernel(
                handle,
                info.name.decode(),
                symbol,
                info.parameters[: info.parameter_count],
                info.packed_bytes,
                info.max_threads,
                own,
                common,
                "loops" if info.loops else "fibers",
                (info.why_fibers or b"").decode(),
                info.function,
            )
        )
    return LoadedModule(module.value, places, kernels)


def module_unload(handle: int, copy: Path | None = None) -> None:
    """Unload a module when its kernels are done, and remove the file `copy` that only it used."""
    if not _finished:  # at Python's exit the engine has stopped, and its modules are gone
        _wait_quietly()
        _library.hc_module_unload(handle)
        _modules.pop(handle)
        if copy:
            copy.unlink(missing_ok=True)


def module_callers(module: int) -> list[int]:
    """Return this thread's return addresses in a module's code, as offsets from its base: the innermost call first."""
    offsets = (c_size_t * 16)()  # more frames are not needed to find a line
    return offsets[: library().hc_module_callers(module, offsets, len(offsets))]


def variable_at(address: int) -> str | None:
    """Return the name, as declared, of the variable of any loaded module that contains an address, or None."""
    return next(
        (
            layout.demangle(symbol)
            for module in [*_modules.values()]  # a list: another thread may load a module
            for symbol, (base, size) in module.layout.variables.items()
            if base <= address < base + size
        ),
        None,
    )


def variable_range(address: int) -> tuple[int, int] | None:
    """Return (base, bytes) of the variable that contains an address, of those that `LoadedModule.variable` gave."""
    return next(
        (
            (base, size)
            for module in [*_modules.values()]  # a list: another thread may load a module
            for base, size in [*module.asked]
            if base <= address < base + size
        ),
        None,
    )


_last_kernel = ""  # the name of the kernel that was launched last


def launch(
    name: str,
    kernel: int,
    grid: Dim3,
    block: Dim3,
    shared: int,
    packed: bytes,
    stream: int | None,
    cooperative: bool = False,
    cluster: tuple[int, int, int] = (0, 0, 0),
    programmatic: bool = False,
) -> None:
    """Queue a kernel on a stream, both given by their handles (None: the default stream); LogicError if it is refused.

    `name` is the kernel's, for a message if the program waits long. `grid` and `block` hold three numbers (x, y, z).
    `shared` is the dynamic shared memory per block in bytes. `packed` are the bytes of the arguments, each at its
    parameter's offset. `cooperative`: blocks may wait for each other. `cluster` has the blocks of a cluster along each
    axis, or zeros for those that the kernel declares. `programmatic`: the kernel may begin before the preceding launch
    of the stream has ended.
    """
    global _last_kernel
    _last_kernel = name
    _record_call_site("a launch")  # the program's line, for check mode's findings
    check(
        _library.hc_launch(
            kernel,
            grid,
            block,
            shared,
            packed,
            len(packed),
            stream,
            cooperative,
            Dim3(*cluster),
            programmatic,
        ),
        "cuLaunchKernel",
    )


Dim3 = c_uint * 3


def format_bytes(size: int) -> str:
    """Return a number of bytes as text: "1.5 GiB", "12 bytes"."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"


def finalize_with(owner: object, release: Callable, *arguments: object) -> weakref.finalize:
    """Call ``release(*arguments)`` when `owner` is collected, but not at interpreter exit; return the finalizer."""
    finalizer = weakref.finalize(owner, release, *arguments)
    finalizer.atexit = False  # `_finish` stops the engine before that
    return finalizer
