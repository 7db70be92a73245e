"""Run a whole program in CUDA C++ on the CPU engine.

``python -m hostcuda.programs.program [--options=...] [--seconds=...] FILE.cu [ARGUMENT ...]`` is what ``hostcuda
run`` starts. The program is compiled as a module, and its ``main`` is called in this process.
CUDA's runtime API in it (``include/hostcuda/host.h``) calls `_Runtime`, whose methods have the
API's names and return its error numbers. What went wrong is also said in a sentence on the standard
error output, because many programs do not look at the numbers.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import signal
import struct
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from hostcuda import errors
from hostcuda.api import compiler, device
from hostcuda.api.kernels import Function
from hostcuda.build.options import SOURCE
from hostcuda.check import mode as checkmode
from hostcuda.check import records
from hostcuda.errors import EngineError
from hostcuda.programs.calls import (
    ASSERT,
    COOPERATIVE_TOO_LARGE,
    ILLEGAL_ADDRESS,
    INVALID_DEVICE,
    INVALID_FUNCTION,
    INVALID_VALUE,
    LAUNCH_FAILURE,
    MISALIGNED,
    NOT_READY,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    SUCCESS,
    Refused,
    require_host_memory,
    require_size,
    reword_for_cuda,
    variable_at,
    write_bytes,
)
from hostcuda.programs.memory import Memory
from hostcuda.programs.streams import Streams
from hostcuda.runtime import native

# a part of a fault's message -> CUDA's number for it; the first one that fits counts
_FAULT_NUMBERS = {
    "assertion": ASSERT,
    "exist": ILLEGAL_ADDRESS,
    "misaligned": MISALIGNED,
    "address": ILLEGAL_ADDRESS,
    "allocation": ILLEGAL_ADDRESS,
    "null pointer": ILLEGAL_ADDRESS,
}
# Calls whose error is an answer: programs use them to ask what a device can do.
_QUERIES = ("answer", "cudaSetDevice")
# the method cudaMemset is for cudaMemsetAsync, too
_VARIANT = re.compile("(?:Async|WithFlags|WithPriority)$")
# Further answers of cudaDeviceGetAttribute: the largest textures of one, two and three dimensions;
# the alignments of surfaces and of a texture's rows, atomic operations of the host, cooperative
# launches, registered memory, memory pools and clusters.
_ATTRIBUTES = {
    21: 131072,
    22: 131072,
    23: 65536,
    24: 16384,
    25: 16384,
    26: 16384,
    30: 512,
    51: 32,
    86: 1,
    95: 1,
    99: 1,
    115: 1,
    120: 1,
}
_LARGE_CLUSTERS = 14  # cudaFuncAttributeNonPortableClusterSizeAllowed
_libc = ctypes.CDLL(None)


def _make_constant_getter(value: int) -> Callable[[_Runtime, int], None]:
    """Make a method of `_Runtime` that writes a constant to the program's int variable at an address."""

    def write_constant(self, result_address: int) -> None:
        """Write the constant."""
        variable_at(result_address, ctypes.c_int).value = value

    return write_constant


class _Runtime(Memory, Streams):
    """CUDA's runtime API for one program.

    Methods have the API's names; their arguments are 64-bit signed integers.

    Pointers arrive as addresses: a result is written to the program's variable at `result_address`.
    A method returns nothing or an error number, or raises an exception for which `_call_method`
    returns the number. Methods with other names (launch, refuse, exit, device_name) are called by
    functions in ``include/hostcuda/host.h``.
    """

    def __init__(self, module: compiler.Module):
        Memory.__init__(self)
        Streams.__init__(self)
        self.module = module
        self.functions = {}  # address of a kernel's host function -> `Function`
        for kernel in module.kernels():
            self.functions.setdefault(kernel.function, Function(module, kernel))
        # the last error number; a kernel's fault, which all later calls return
        self.last = self.sticky = SUCCESS
        # the sentence of the first failure since the program last asked for an error
        self.unread = ""
        # the sentences of refused calls: since the program last asked for an error, and before that by
        # their numbers, and the numbers of whose texts it has asked for
        self.refused, self.asked, self.reported = [], [], set()
        self.callbacks: tuple = ()
        # (function, parameter's index, pointer) that `_warn_of_host_pointers` has looked at
        self.checked = set()
        self.warned = set()  # (function, parameter's index) of which it has warned
        self.large_clusters = {}  # by kernel: whether its clusters may have more than 8 blocks
        self.next = {}  # attributes of the next launch of each thread of the host (next_launch)

    def call(self, name: bytes, arguments: Sequence[int]) -> int:
        """Call a function of the API by its `name`, and return its error number; the program calls this.

        `arguments` is a ctypes pointer to 64-bit integers.
        """
        method = name.decode()
        # frequent, and they touch no memory
        if method in ("cudaGetLastError", "cudaPeekAtLastError"):
            return self._call_method(method, arguments)
        # The host may access device memory during a call; after it that is a fault again, but for a
        # launch: its kernel needs the memory, which is hidden after the next call that leaves no
        # work.
        native.library().hc_host_calls(True, False)  # begins, hides
        number = self._call_method(method, arguments)
        native.library().hc_host_calls(False, method != "launch")
        return number

    def _call_method(self, name: str, arguments: Sequence[int]) -> int:
        """Run the method of an API call; return CUDA's error number, also for an exception, which is reported."""
        try:
            method = getattr(self, name, None) or getattr(self, _VARIANT.sub("", name), None)
            if method is None:
                raise Refused(NOT_SUPPORTED, f"the CPU engine has no {name}")
            # `arguments` has no length; - 1: self
            parameter_count = method.__func__.__code__.co_argcount - 1
            # As on a GPU, after a kernel's fault every call returns its number, and does nothing.
            if self.sticky and name not in (
                "exit",
                "cudaGetLastError",
                "cudaPeekAtLastError",
                "cudaDeviceReset",
            ):
                return self.sticky
            return method(*arguments[:parameter_count]) or SUCCESS
        except KeyboardInterrupt:
            _leave(128 + signal.SIGINT)
        except Refused as refusal:
            number, reason = refusal.number, str(refusal)
            if reason.startswith("failed: "):
                reason = f"{name} {reason}"
        except errors.LaunchError as error:
            number = next(
                (number for words, number in _FAULT_NUMBERS.items() if words in str(error)),
                LAUNCH_FAILURE,
            )
            self.sticky, reason = number, str(error)
        except errors.MemoryError as error:
            number, reason = OUT_OF_MEMORY, str(error)
        except (MemoryError, OverflowError) as error:
            number, reason = OUT_OF_MEMORY, f"{name} failed: out of memory: {error}"
        except Exception as error:  # what a wrong argument leads to: no program sees a traceback
            number, reason = (
                INVALID_VALUE,
                str(error) if isinstance(error, errors.Error) else f"{name} failed: {error}",
            )
        self.last = number
        if number == NOT_READY:  # a query's answer, not a failure
            return number
        reason = reword_for_cuda(reason, "the launch" if name == "launch" else name)
        event_kind = "failed" if self.sticky or number == OUT_OF_MEMORY else "refused"
        reason = self._report(event_kind if name not in _QUERIES else "", reason)
        if name not in _QUERIES:
            self.unread = self.unread or reason
            self.refused += [(number, reason)] if event_kind == "refused" else []
        return number

    def _report(self, event_kind: str, sentence: str) -> str:
        """Print a sentence with the host code's line, record it as an event unless the kind is "", and return it."""
        file, line = records.find_place(
            str(self.module._path), native.module_callers(self.module._handle)
        )
        # a kernel's fault has a place of its own
        sentence += f" ({file}:{line})" if file and not self.sticky else ""
        _say(sentence)
        if event_kind:
            records.record_event(event_kind, sentence, file=file, line=line)
        return sentence

    # -- launches

    def launch(
        self,
        function: int,
        gx: int,
        gy: int,
        gz: int,
        bx: int,
        by: int,
        bz: int,
        shared: int,
        stream: int,
        packed: int,
        size: int,
    ) -> None:
        """Queue a kernel, for <<<>>>, with the grid (gx, gy, gz), the block (bx, by, bz) and `shared` dynamic bytes.

        `function` is the address of its host function; its `size` bytes of arguments are at the address
        `packed`.
        """
        self._launch(function, (gx, gy, gz), (bx, by, bz), shared, stream, packed, size)

    def next_launch(self, x: int, y: int, z: int, programmatic: int) -> None:
        """Keep attributes for this thread's next launch: a cluster's size in blocks (x, y, z), and `programmatic`.

        Zeros: no cluster is given. `programmatic` is not 0 if the kernel may begin before the one in front of
        it has ended.
        """
        self.next[threading.get_ident()] = {
            "cluster": (x, y, z),
            "programmatic": bool(programmatic),
        }

    def _launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        stream: int,
        packed: int,
        size: int,
        cooperative: bool = False,
    ) -> None:
        """Queue a kernel as `launch` does; if `cooperative`, its blocks may wait for each other."""
        attributes = self.next.pop(threading.get_ident(), {})
        kernel = self._find_kernel(function)
        # the members of dim3 are unsigned: -1 is 4,294,967,295, and no negative number
        sizes = [number & 0xFFFFFFFF for number in (*grid, *block)]
        if cooperative and (problem := kernel.describe_surplus(sizes[:3], sizes[3:], shared)):
            raise Refused(COOPERATIVE_TOO_LARGE, f"cudaLaunchCooperativeKernel failed: {problem}")
        try:
            arguments = ctypes.string_at(packed, size)
            self._warn_of_host_pointers(function, kernel, arguments)
            kernel._launch(
                tuple(sizes[:3]),
                tuple(sizes[3:]),
                arguments,
                shared,
                self.streams.get(self._find_stream(stream)),
                cooperative,
                **attributes,
            )
        except errors.LogicError as error:  # too much shared memory, or a wrong grid or block
            raise Refused(INVALID_VALUE, error) from None
        if checkmode.TOOLS:  # the host's accesses must not fall among the kernel's
            native.wait_or_pause()

    def _warn_of_host_pointers(self, function: int, kernel: Function, arguments: bytes) -> None:
        """Print a warning, once per parameter, if the packed `arguments` of a launch have a pointer to host memory."""
        if checkmode.TOOLS:  # it finds each access
            return
        for i, parameter in enumerate(kernel._parameters):
            if parameter.kind != "P":  # no pointer
                continue
            value = int.from_bytes(arguments[parameter.offset : parameter.offset + 8], "little")
            if not value or (function, i, value) in self.checked:
                continue
            self.checked.add((function, i, value))  # `function` is the kernel's address
            if (function, i) not in self.warned and self._is_host_pointer(value):
                self.warned.add((function, i))
                _say(
                    f"kernel {kernel._name}: {parameter} was given {value:#x}, a pointer to memory of the host. Where "
                    "it is used, a GPU reports an illegal address: copy the data to memory of cudaMalloc"
                )

    def launch_pointers(
        self,
        function: int,
        gx: int,
        gy: int,
        gz: int,
        bx: int,
        by: int,
        bz: int,
        shared: int,
        stream: int,
        pointers: int,
    ) -> None:
        """Queue a kernel, for cudaLaunchKernel: at the address `pointers` is an array of the arguments' addresses.

        For the other parameters see `launch`.
        """
        self._launch_pointers(function, (gx, gy, gz), (bx, by, bz), shared, stream, pointers)

    def launch_cooperative(
        self,
        function: int,
        gx: int,
        gy: int,
        gz: int,
        bx: int,
        by: int,
        bz: int,
        shared: int,
        stream: int,
        pointers: int,
    ) -> None:
        """Launch as `launch_pointers` does, but so that the blocks may wait for each other."""
        self._launch_pointers(function, (gx, gy, gz), (bx, by, bz), shared, stream, pointers, True)

    def _launch_pointers(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        stream: int,
        pointers: int,
        cooperative: bool = False,
    ) -> None:
        """Copy the arguments, whose addresses are an array at the address `pointers`, and queue the kernel."""
        kernel = self._find_kernel(function)
        # + 1: without arguments it has no address
        packed = ctypes.create_string_buffer(kernel._packed_bytes + 1)
        for i, parameter in enumerate(kernel._parameters):
            address = variable_at(pointers + 8 * i).value or 0
            require_host_memory(f"argument {i} of {kernel._name}", address, parameter.size, False)
            packed[parameter.offset : parameter.offset + parameter.size] = ctypes.string_at(
                address, parameter.size
            )
        at = ctypes.addressof(packed)
        size = kernel._packed_bytes
        self._launch(function, grid, block, shared, stream, at, size, cooperative)

    def _find_kernel(self, function: int) -> Function:
        """Return the kernel whose host function is at this address, or raise `Refused`."""
        if function not in self.functions:
            raise Refused(
                INVALID_FUNCTION,
                "the launch names no kernel that the CPU engine has registered: "
                "launch it by its name, or instantiate the template explicitly",
            )
        return self.functions[function]

    def cudaFuncSetAttribute(self, function: int, attribute: int, value: int) -> None:
        """Set an attribute, a number of cudaFuncAttribute, of the kernel whose host function is `function`."""
        kernel = self._find_kernel(function)
        # clusters of more than 8 blocks run in any case; `cudaOccupancyMaxPotentialClusterSize` asks for it
        if attribute == _LARGE_CLUSTERS:
            self.large_clusters[function] = bool(value)
        else:
            kernel.set_attribute(attribute, value)

    def cudaOccupancyMaxPotentialClusterSize(
        self, result_address: int, function: int, threads: int, shared: int
    ) -> None:
        """Write the largest number of blocks in a cluster of the kernel `function`; 0 if no block fits.

        A block has `threads` threads and `shared` bytes of dynamic shared memory.
        """
        fits = self._find_kernel(function).count_resident_blocks(threads, require_size(shared))
        # as on compute capability 9.0, where 16 needs the attribute cudaFuncAttributeNonPortableClusterSizeAllowed
        most = 16 if self.large_clusters.get(function) else 8
        variable_at(result_address, ctypes.c_int).value = most if fits else 0

    def cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        self, result_address: int, function: int, threads: int, shared: int
    ) -> None:
        """Write how many blocks of the kernel `function` a multiprocessor holds at once to `result_address`.

        A block has `threads` threads and `shared` bytes of dynamic shared memory.
        """
        kernel = self._find_kernel(function)
        variable_at(result_address, ctypes.c_int).value = kernel.count_resident_blocks(
            threads, require_size(shared)
        )

    def cudaFuncGetAttributes(self, result_address: int, function: int) -> None:
        """Write the struct cudaFuncAttributes: three size_t, then six int, in the order of their members."""
        kernel = self._find_kernel(function)
        # Members that are unknown here (local memory, registers) are 0. PTX and machine code are
        # of version 9.0 (90). The member before the last says whether L1 caches loads.
        local_bytes = registers = caches_loads = 0
        sizes = kernel.shared_size_bytes, kernel.const_size_bytes, local_bytes
        numbers = (
            *(kernel.max_threads_per_block, registers, 90, 90),
            *(caches_loads, kernel._max_dynamic),
        )
        write_bytes(result_address, struct.pack("3N6i", *sizes, *numbers))

    # -- errors and the end

    def cudaGetLastError(self) -> int:
        """Return the last error number and reset it; a kernel's fault stays, as on a GPU."""
        last, self.last = self.cudaPeekAtLastError(), SUCCESS
        return last

    def cudaPeekAtLastError(self) -> int:
        """Return the last error number: the program has then seen it, and its end does not name it."""
        self.unread = ""
        self.asked += self.refused
        self.refused = []
        return self.sticky or self.last

    def last_error(self) -> int:
        """Return the last error number to the engine's own headers: the program has not asked for it."""
        return self.sticky or self.last

    def reports(self, number: int) -> None:
        """Note that the program has asked for the text of an error number, most likely to print it."""
        self.reported.add(number)

    def refuse(self, number: int, sentence: int) -> NoReturn:
        """Fail with an error that ``host.h`` has found; `sentence` is the address of a C string."""
        raise Refused(number, ctypes.string_at(sentence).decode())

    answer = refuse  # for `_QUERIES`: the error is the answer that the program has asked for

    def exit(self, status: int) -> NoReturn:
        """End the program with a status.

        If that is 0, the refused calls whose error it has asked for are recorded as "handled", but not those
        whose text it has asked for, most likely to print it.
        """
        low_byte = status & 0xFF  # all that Linux keeps of it
        if low_byte == 0:
            for number, sentence in self.asked:
                if number not in self.reported:
                    records.record_event("handled", sentence)
        _leave(low_byte, self.unread)

    # -- the device

    cudaGetDeviceCount = _make_constant_getter(1)
    cudaGetDevice = cudaChooseDevice = cudaDeviceCanAccessPeer = cudaStreamGetPriority = (
        _make_constant_getter(0)
    )

    def cudaSetDevice(self, number: int) -> None:
        """Raise `Refused` for any device but the only one, 0."""
        if number:
            raise Refused(INVALID_DEVICE, f"failed: the CPU engine has device 0 only, not {number}")

    def device_name(self, result_address: int, size: int) -> None:
        """Write the device's name into a buffer of `size` bytes: cudaGetDeviceProperties calls this."""
        # no 0 at the end: the program has zeroed the struct
        write_bytes(result_address, device.Device(0).name().encode()[: size - 1])

    def cudaDeviceGetAttribute(self, result_address: int, attribute: int, number: int) -> None:
        """Write one attribute (a number of cudaDeviceAttr) of device `number`; 0 for what a CPU does not have."""
        self.cudaSetDevice(number)  # only because it refuses any number but 0
        attributes = device.Device(0).get_attributes() | _ATTRIBUTES
        variable_at(result_address, ctypes.c_int).value = attributes.get(attribute, 0)

    def cudaDeviceGetLimit(self, result_address: int, limit: int) -> None:
        """Write the bytes of a limit, a number of cudaLimit."""
        variable_at(result_address, ctypes.c_size_t).value = device.Context.get_limit(limit)

    def cudaDeviceSetLimit(self, limit: int, value: int) -> None:
        """Set a limit, a number of cudaLimit, to a number of bytes."""
        device.Context.set_limit(limit, require_size(value))

    def cudaDeviceGetPCIBusId(self, result_address: int, size: int, number: int) -> None:
        """Write the bus of device `number` as a C string into a buffer of `size` bytes."""
        self.cudaSetDevice(number)  # only because it refuses any number but 0
        write_bytes(
            result_address, device.Device(0).pci_bus_id().encode()[: max(size - 1, 0)] + b"\0"
        )

    def cudaDeviceSynchronize(self) -> None:
        """Wait for all work of the device."""
        native.synchronize()

    cudaThreadSynchronize = cudaDeviceReset = cudaThreadExit = cudaDeviceSynchronize

    def cudaMemGetInfo(self, free: int, total: int) -> None:
        """Write the bytes of free and of all device memory to the variables at two addresses."""
        free_bytes, total_bytes = native.mem_info()
        variable_at(free, ctypes.c_size_t).value = free_bytes
        variable_at(total, ctypes.c_size_t).value = total_bytes

    cudaDriverGetVersion = cudaRuntimeGetVersion = _make_constant_getter(
        device.get_driver_version()
    )


def _say(sentence: str) -> None:
    """Print a sentence of the engine to stderr, after what the program has printed so far."""
    _libc.fflush(None)
    print(f"hostcuda: {sentence}", file=sys.stderr, flush=True)


class _Output:
    """The file that kernels' printf writes to: the C library's buffer, in order with what the host prints."""

    def __init__(self):
        self._file = ctypes.c_void_p.in_dll(_libc, "stdout")

    def write(self, text: str) -> None:
        """Print a text through C's stdout."""
        data = text.encode("utf-8", "surrogateescape")
        _libc.fwrite(data, ctypes.c_size_t(1), ctypes.c_size_t(len(data)), self._file)

    def flush(self) -> None:
        """Write what C's stdout has buffered."""
        _libc.fflush(self._file)


def _leave(status: int, unread: str = "") -> NoReturn:
    """Finish the device's work and exit through the C library, which runs the program's atexit functions.

    A program that ignores its errors ends with its own status, as on a GPU; the last line names the
    first of them, `unread`. With HOSTCUDA_STRICT=1 the status is then 1.
    """
    # no longer hide device memory from the host: the kernels need it
    native.library().hc_host_calls(True, False)
    try:
        native.synchronize()
    except errors.Error as error:
        unread = unread or reword_for_cuda(str(error), "the last work")
        records.record_event("failed", unread)
    native._finish()
    if unread and not status:
        _say(f"the program ended with status 0 although this failed: {unread}")
        status = int(os.environ.get("HOSTCUDA_STRICT") == "1")
    _libc.fflush(None)
    sys.stderr.flush()
    _libc.exit(status)
    raise SystemExit(status)  # not reached


def _compile_file(path: Path, options: list[str]) -> compiler.Module:
    """Compile the program in a file of CUDA C++ with nvcc's options, and load it.

    EngineError if a file is missing, CompileError if the program does not compile.
    """
    try:
        source = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}") from None
    for option in options:
        # another file of the program, such as "util.cpp"
        if SOURCE.search(option) and not Path(option).is_file():
            raise EngineError(f"{option}, one of the options, is no file")
    name = (
        str(path.resolve() if ".." in path.parts else path)
        .replace("\\", "\\\\")
        .replace('"', '\\"')
    )
    return compiler.compile_program(f'#line 1 "{name}"\n{source}', options, [path.parent])


def connect(module: compiler.Module) -> _Runtime:
    """Let a compiled program call the engine's CUDA runtime API; return the object with the API's functions.

    Keep it as long as the program can run: C++ has the addresses of its functions.
    """
    # The program calls `runtime.call` for each function of the API, and `fault` if its host code
    # faults.
    runtime = _Runtime(module)
    callback = ctypes.CFUNCTYPE(
        ctypes.c_longlong, ctypes.c_char_p, ctypes.POINTER(ctypes.c_longlong)
    )(runtime.call)
    # the program's variable hostcuda_host becomes the address of the callback; get_global returns
    # (address, bytes)
    variable_at(module.get_global("hostcuda_host")[0]).value = ctypes.cast(
        callback, ctypes.c_void_p
    ).value
    fault = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(
        lambda sentence: runtime._report("host fault", sentence.decode())
    )
    native.library().hc_host_faults(module._handle, fault)
    runtime.callbacks = callback, fault  # C++ has their addresses
    return runtime


def find_entry(module: compiler.Module) -> int:
    """Return the address of the function by which a compiled program is entered: ``main``, or another host function."""
    # not by `variable_at`, which wants to write: once the module is loaded, the variable is read-only;
    # [0]: its address
    return ctypes.c_size_t.from_address(module.get_global("hostcuda_main")[0]).value


def main(arguments: list[str]) -> NoReturn:
    """Compile and run a CUDA program, and end the process with the program's status.

    `arguments` are the engine's own ("--options=-O2", "--seconds=60"), the .cu file, and those of
    the program.
    """
    own = {}  # the engine's own arguments: {"--options": "-O2", "--seconds": "60"}
    while arguments[0].startswith(("--options=", "--seconds=")):
        name, _, value = arguments.pop(0).partition("=")
        own[name] = value
    options = shlex.split(own.get("--options", ""))
    # warnings without Python's file and line, which are the engine's own
    warnings.showwarning = lambda message, *_: _say(f"warning: {message}")
    try:
        module = _compile_file(Path(arguments[0]), options)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)  # as a shell says that a signal ended a program
    except (EngineError, errors.Error, PermissionError) as error:
        # other errors are about the options, or the engine's start
        of_source = isinstance(error, errors.CompileError)
        text = error.msg if of_source else str(error)
        records.record_event("compile error" if of_source else "refused", text)
        sys.exit(f"hostcuda: {text}")
    runtime = connect(module)
    start = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(find_entry(module))
    words = [os.fsencode(word) for word in arguments]
    # main's second parameter: the words, and a null pointer behind them
    argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    sys.stdout = _Output()  # C's stdout, so that texts of kernels and of the host stay in order
    if not checkmode.TOOLS:  # in check mode, records are written before Ctrl-C ends the process
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if "--seconds" in own:
        records.interrupt_after(float(own["--seconds"]))
    # the program's main; a call of exit() goes to `_Runtime.exit`
    runtime.exit(start(len(words), argv))


if __name__ == "__main__":
    main(sys.argv[1:])
