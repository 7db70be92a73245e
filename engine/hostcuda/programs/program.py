"""Run a whole program in CUDA C++ on the CPU engine.

``python -m hostcuda.programs.program [--options=...] FILE.cu [ARGUMENT ...]`` is what ``hostcuda
run`` starts. The program is compiled as a module, and its ``main`` is called in this process.
CUDA's runtime API in it (``include/hostcuda/host.h``) calls `_Runtime`, whose methods have the
API's names and return its error numbers. What went wrong is also said in a sentence on the standard
error output, because many programs do not look at the numbers.
"""

import ctypes
import os
import re
import shlex
import signal
import struct
import sys
import warnings
from pathlib import Path
from typing import NoReturn

from hostcuda import errors
from hostcuda.api import compiler, device
from hostcuda.api.kernels import Function
from hostcuda.api.pitched import PITCH
from hostcuda.api.streams import Event, Stream
from hostcuda.build.options import SOURCE
from hostcuda.check import mode as checkmode
from hostcuda.check import records
from hostcuda.errors import EngineError, Interrupted
from hostcuda.runtime import native

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_CONFIGURATION, INVALID_SYMBOL = 0, 1, 2, 9, 13
INVALID_DIRECTION, INVALID_FUNCTION, INVALID_DEVICE, INVALID_HANDLE, NOT_READY = (
    21,
    98,
    101,
    400,
    600,
)
INVALID_PITCH, NOT_REGISTERED, NOT_SUPPORTED = 12, 713, 801
ILLEGAL_ADDRESS, ASSERT, MISALIGNED, LAUNCH_FAILURE = 700, 710, 716, 719
# a part of a fault's message -> CUDA's number for it; the first one that fits counts
_FAULT_NUMBERS = {
    "assertion": ASSERT,
    "exist": ILLEGAL_ADDRESS,
    "misaligned": MISALIGNED,
    "address": ILLEGAL_ADDRESS,
    "allocation": ILLEGAL_ADDRESS,
    "null pointer": ILLEGAL_ADDRESS,
}
_TO_DEVICE, _TO_HOST, _ON_DEVICE, _BY_ADDRESS = 1, 2, 3, 4  # cudaMemcpyKind; 0 is from host to host
# Calls whose error is an answer: programs use them to ask what a device can do.
_QUERIES = ("answer", "cudaSetDevice")
# the method cudaMemset is for cudaMemsetAsync, too
_VARIANT = re.compile("(?:Async|WithFlags|WithPriority)$")
# Further answers of cudaDeviceGetAttribute: the largest textures of one, two and three dimensions;
# the alignments of surfaces and of a texture's rows, atomic operations of the host, registered
# memory and memory pools.
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
    99: 1,
    115: 1,
}
_IN_CUDA = {  # remedies in messages of `hostcuda.api` -> those of a program in CUDA C++
    "function.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes)": (
        "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)"
    ),
    "or free() what": "or cudaFree what",
    "event_flags.DISABLE_TIMING": "cudaEventDisableTiming",
}
# "cuMemAlloc failed: ", and "kernel " before a fault
_DRIVER_CALL = re.compile(r"\bcu[A-Z]\w* failed: (kernel )?")
_libc = ctypes.CDLL(None)


def _reword_for_cuda(sentence: str, call: str) -> str:
    """Reword a message of PyCUDA's API for CUDA C++: its remedies, and `call` instead of the driver's function."""
    for remedy, remedy_in_cuda in _IN_CUDA.items():
        sentence = sentence.replace(remedy, remedy_in_cuda)
    return _DRIVER_CALL.sub(lambda match: match[1] or f"{call} failed: ", sentence)


class _Refused(Exception):
    """A call that fails: its error number, and the reason; one with "failed: " in front follows the call's name."""

    def __init__(self, number, reason):
        super().__init__(reason)
        self.number = number


_PAGE = 4096  # bytes
_UNSIGNED = (
    1 << 64
) - 1  # `x & _UNSIGNED` is a signed 64-bit argument as the size_t or pointer that the program gave


def _require_host_memory(what: str, address: int, size: int, writes: bool) -> None:
    """Raise `_Refused` if the host cannot read (`writes`: write) `size` bytes there; `what` begins the message."""
    if not native.is_host_memory(address & _UNSIGNED, size, writes):
        why = "a null pointer" if not address else "never allocated, freed, or shorter"
        span = f"{size & _UNSIGNED} bytes at {address & _UNSIGNED:#x}"
        raise _Refused(
            INVALID_VALUE, f"{what}: {span} cannot be {'written' if writes else 'read'}: {why}"
        )


def _variable_at(address: int, kind: type = ctypes.c_void_p):
    """Return the program's variable at an address as a `kind` of ctypes, to read or write its `value`."""
    _require_host_memory(
        "failed: the address of a result or a list", address, ctypes.sizeof(kind), True
    )
    # device memory is hidden from this access: a fault, as on a GPU
    native.library().hc_write_result(address)
    return kind.from_address(address)


def _write(address: int, data: bytes) -> None:
    _variable_at(address, ctypes.c_char * len(data)).raw = data


def _require_size(number: int) -> int:
    """Return a number of bytes; MemoryError if it is negative: a program's size_t of 2**63 bytes or more."""
    if number < 0:
        raise MemoryError(f"{number & _UNSIGNED} bytes were asked for")
    return number


def _make_constant_getter(value: int):
    """Make a method of `_Runtime` that writes a constant to the program's int variable at an address."""

    def write_constant(self, result_address):
        _variable_at(result_address, ctypes.c_int).value = value

    return write_constant


class _Runtime:
    """CUDA's runtime API for one program.

    Methods have the API's names; their arguments are 64-bit signed integers.

    Pointers arrive as addresses: a result is written to the program's variable at `result_address`.
    A method returns nothing or an error number, or raises an exception for which `_call_method`
    returns the number. Methods with other names (launch, refuse, exit, device_name) are called by
    functions in ``include/hostcuda/host.h``.
    """

    def __init__(self, module: compiler.Module):
        self.module = module
        self.functions = {}  # address of a kernel's host function -> `Function`
        for kernel in module.kernels():
            self.functions.setdefault(kernel.function, Function(module, kernel))
        self.last = self.sticky = (
            SUCCESS  # the last error number; a kernel's fault, which all later calls return
        )
        self.unread = (
            ""  # the sentence of the first failure since the program last asked for an error
        )
        self.pinned = {}  # address -> ctypes buffer that holds the memory
        self.managed = set()  # addresses from cudaMallocManaged
        # address of a device variable that cudaGetSymbolAddress has returned -> its bytes
        self.symbols = {}
        self.streams, self.events = {}, {}  # handle -> `Stream`, `Event`
        self.registered = {}  # address -> bytes of cudaHostRegister
        # (function, parameter's index, pointer) that `_warn_of_host_pointers` has looked at
        self.checked = set()
        self.warned = set()  # (function, parameter's index) of which it has warned

    def call(self, name: bytes, arguments) -> int:
        """Call a function of the API for the program; `arguments` is a ctypes pointer.

        Return its error number.
        """
        name = name.decode()
        # frequent, and they touch no memory
        if name in (
            "cudaGetLastError",
            "cudaPeekAtLastError",
        ):
            return self._call_method(name, arguments)
        # The host may access device memory during a call; after it that is a fault again, but for a
        # launch: its kernel needs the memory, which is hidden after the next call that leaves no
        # work.
        native.library().hc_host_calls(True, False)  # begins, hides
        number = self._call_method(name, arguments)
        native.library().hc_host_calls(False, name != "launch")
        return number

    def _call_method(self, name: str, arguments) -> int:
        """Run the method of an API call; return CUDA's error number, also for an exception, which is reported."""
        try:
            method = getattr(self, name, None) or getattr(self, _VARIANT.sub("", name), None)
            if method is None:
                raise _Refused(NOT_SUPPORTED, f"the CPU engine has no {name}")
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
        except _Refused as refusal:
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
        reason = _reword_for_cuda(reason, "the launch" if name == "launch" else name)
        event_kind = "failed" if self.sticky or number == OUT_OF_MEMORY else "refused"
        reason = self._report(event_kind if name not in _QUERIES else "", reason)
        if name not in _QUERIES:
            self.unread = self.unread or reason
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

    def launch(self, function, gx, gy, gz, bx, by, bz, shared, stream, packed, size):
        """Queue the kernel at address `function`, for <<<>>>; its `size` bytes of arguments are at address `packed`."""
        kernel = self._find_kernel(function)
        # dim3 has unsigned members
        sizes = [number & 0xFFFFFFFF for number in (gx, gy, gz, bx, by, bz)]
        try:
            arguments = ctypes.string_at(packed, size)
            self._warn_of_host_pointers(function, kernel, arguments)
            kernel._launch(
                tuple(sizes[:3]),
                tuple(sizes[3:]),
                arguments,
                shared,
                self.streams.get(self._find_stream(stream)),
            )
        except (
            errors.LogicError
        ) as error:  # too much dynamic shared memory, by its message, or a wrong grid or block
            raise _Refused(
                INVALID_VALUE if "shared" in str(error) else INVALID_CONFIGURATION, error
            ) from None
        if checkmode.TOOLS:  # the host's accesses must not fall among the kernel's
            native.synchronize()

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

    def _is_host_pointer(self, address):
        """Return whether an address is certainly in the host's heap or this thread's stack: False if in doubt."""
        # A pointer just past the end of device memory is no host pointer.
        if self._is_pinned(address) or any(map(native.mem_range, (address, address - 1))):
            return False
        return bool(
            native.library().hc_host_block(address) or native.library().hc_on_stack(address)
        )

    def launch_pointers(self, function, gx, gy, gz, bx, by, bz, shared, stream, pointers):
        """Launch as cudaLaunchKernel does: at address `pointers` is an array with the address of each argument."""
        kernel = self._find_kernel(function)
        # + 1: without arguments it has no address
        packed = ctypes.create_string_buffer(kernel._packed_bytes + 1)
        for i, parameter in enumerate(kernel._parameters):
            address = _variable_at(pointers + 8 * i).value or 0
            _require_host_memory(f"argument {i} of {kernel._name}", address, parameter.size, False)
            packed[parameter.offset : parameter.offset + parameter.size] = ctypes.string_at(
                address, parameter.size
            )
        at = ctypes.addressof(packed)
        self.launch(function, gx, gy, gz, bx, by, bz, shared, stream, at, kernel._packed_bytes)

    def _find_kernel(self, function: int) -> Function:
        """Return the kernel whose host function is at this address, or raise `_Refused`."""
        if function not in self.functions:
            raise _Refused(
                INVALID_FUNCTION,
                "the launch names no kernel that the CPU engine has registered: "
                "launch it by its name, or instantiate the template explicitly",
            )
        return self.functions[function]

    def cudaFuncSetAttribute(self, function, attribute, value):
        self._find_kernel(function).set_attribute(attribute, value)

    def cudaFuncGetAttributes(self, result_address, function):
        """Write the struct cudaFuncAttributes: three size_t, then six int, in the order of their members."""
        kernel = self._find_kernel(function)
        sizes = (
            kernel.shared_size_bytes,
            kernel.const_size_bytes,
            0,
        )  # size_t; 0: local memory, which is unknown here
        # Threads; registers (unknown), the versions of PTX and machine code (9.0), whether L1
        # caches loads; bytes.
        numbers = kernel.max_threads_per_block, 0, 90, 90, 0, kernel._max_dynamic
        _write(result_address, struct.pack("3N6i", *sizes, *numbers))

    # -- errors and the end

    def cudaGetLastError(self):
        """Return the last error number and reset it; a kernel's fault stays, as on a GPU."""
        last, self.last = self.cudaPeekAtLastError(), SUCCESS
        return last

    def cudaPeekAtLastError(self):
        """Return the last error number: the program has then seen it, and its end does not name it."""
        self.unread = ""
        return self.sticky or self.last

    def refuse(self, number, sentence):
        """Fail with an error that ``host.h`` has found; `sentence` is the address of a C string."""
        raise _Refused(number, ctypes.string_at(sentence).decode())

    answer = refuse  # for `_QUERIES`: the error is the answer that the program has asked for

    def exit(self, status):
        _leave(status & 0xFF, self.unread)

    # -- the device

    cudaGetDeviceCount = _make_constant_getter(1)
    cudaGetDevice = cudaChooseDevice = cudaDeviceCanAccessPeer = cudaStreamGetPriority = (
        _make_constant_getter(0)
    )

    def cudaSetDevice(self, number):
        if number:
            raise _Refused(
                INVALID_DEVICE, f"failed: the CPU engine has device 0 only, not {number}"
            )

    def device_name(self, result_address, size):
        # the program has zeroed the struct
        _write(result_address, device.Device(0).name().encode()[: size - 1])

    def cudaDeviceGetAttribute(self, result_address, attribute, number):
        """Write one attribute (a number of cudaDeviceAttr) of device `number`; 0 for what a CPU does not have."""
        self.cudaSetDevice(number)  # only because it refuses any number but 0
        attributes = device.Device(0).get_attributes() | _ATTRIBUTES
        _variable_at(result_address, ctypes.c_int).value = attributes.get(attribute, 0)

    def cudaDeviceGetLimit(self, result_address, limit):
        _variable_at(result_address, ctypes.c_size_t).value = device.Context.get_limit(limit)

    def cudaDeviceSetLimit(self, limit, value):
        device.Context.set_limit(limit, _require_size(value))

    def cudaDeviceGetPCIBusId(self, result_address, size, number):
        """Write the bus of device `number` as a C string into a buffer of `size` bytes."""
        self.cudaSetDevice(number)  # as above
        _write(result_address, device.Device(0).pci_bus_id().encode()[: max(size - 1, 0)] + b"\0")

    def cudaDeviceSynchronize(self):
        native.synchronize()

    cudaThreadSynchronize = cudaDeviceReset = cudaThreadExit = cudaDeviceSynchronize

    def cudaMemGetInfo(self, free, total):
        _variable_at(free, ctypes.c_size_t).value, _variable_at(total, ctypes.c_size_t).value = (
            native.mem_info()
        )

    cudaDriverGetVersion = cudaRuntimeGetVersion = _make_constant_getter(
        device.get_driver_version()
    )

    # -- memory

    def cudaMalloc(self, result_address, size):
        """Write the address of `size` bytes that the program's host code cannot access; null for 0 bytes."""
        variable = _variable_at(result_address)
        variable.value = native.mem_alloc(_require_size(size)) if size else None
        if size:
            # between calls of the API it is hidden from the host
            native.library().hc_mem_of_device(variable.value)

    def cudaMallocManaged(self, result_address, size):
        """Write the address of `size` bytes that both sides may access.

        They are zero, as on a GPU.
        """
        if not size:
            raise _Refused(INVALID_VALUE, "failed: 0 bytes were requested")
        variable = _variable_at(result_address)
        variable.value = address = native.mem_alloc(_require_size(size))
        # so it counts as set: initcheck does not see the host write it
        native.memset(1, address, 0, size, None, True)
        self.managed.add(address)

    def cudaMallocPitch(self, result_address, pitch_address, width, height):
        """Allocate `height` rows; write the address, and the bytes from row to row: `width` rounded up."""
        row_bytes = -(-_require_size(width) // PITCH) * PITCH
        _variable_at(pitch_address, ctypes.c_size_t).value = row_bytes
        self.cudaMalloc(result_address, row_bytes * _require_size(height))

    def cudaFree(self, address):
        """Wait for the device and free an allocation; refuse what is none.

        A null pointer has no effect.
        """
        if not address:
            return
        span = native.mem_range(address & _UNSIGNED)  # (base, bytes)
        if not span or span[0] != address:
            raise _Refused(
                INVALID_VALUE, f"failed: cudaMalloc gave no {address:#x}, or it was freed"
            )
        self.managed.discard(address)
        native.mem_free(address)

    def cudaFreeAsync(self, address, stream):
        """Free as `cudaFree`.

        In check mode, racecheck sees a write on the stream: use by others is a race.
        """
        if span := checkmode.TOOLS and native.mem_range(address & _UNSIGNED):
            native.memset(1, span[0], 0, span[1], self._find_stream(stream), False)
        self.cudaFree(address)

    def cudaMallocHost(self, result_address, size):
        """Write the address of `size` bytes of host memory, at the beginning of a page."""
        variable = _variable_at(result_address)
        try:
            # [1]: in all
            if _require_size(size) > native.mem_info()[1] - sum(map(len, self.pinned.values())):
                raise MemoryError  # else Linux may end a process for lack of memory
            storage = ctypes.create_string_buffer(size + _PAGE)
        except (MemoryError, OverflowError, ValueError):
            raise _Refused(
                OUT_OF_MEMORY, f"failed: the host has no {native.format_bytes(size)}"
            ) from None
        address = -(-ctypes.addressof(storage) // _PAGE) * _PAGE
        self.pinned[address] = storage
        native.map_host_memory(address, size)
        variable.value = address

    cudaHostAlloc = cudaMallocHost

    def cudaFreeHost(self, address):
        """Wait for the device and free memory of cudaMallocHost.

        A null pointer has no effect but the wait.
        """
        if address and address not in self.pinned:
            raise _Refused(
                INVALID_VALUE, f"failed: {address:#x} is no allocation of cudaMallocHost"
            )
        native.synchronize()
        if self.pinned.pop(address, None):
            native.map_host_memory(address, 0)  # 0: kernels may no longer use it

    def cudaHostRegister(self, address, size):
        """Note that `size` bytes of the program's memory are page-locked, which it must be able to write."""
        if not size:
            raise _Refused(INVALID_VALUE, "failed: 0 bytes were given")
        _require_host_memory("failed: the memory", address, _require_size(size), True)
        self.registered[address] = size
        native.map_host_memory(address, size)

    def cudaHostUnregister(self, address):
        if not self.registered.pop(address, None):
            raise _Refused(NOT_REGISTERED, f"failed: {address & _UNSIGNED:#x} is not registered")
        native.map_host_memory(address, 0)  # 0: kernels may no longer use it

    def cudaPointerGetAttributes(self, result_address, address):
        """Write the struct cudaPointerAttributes: kind of memory, device 0, device pointer, host pointer or null."""
        span = native.mem_range(address)
        # cudaMemoryType: 3 managed, 2 device, 1 host, 0 unregistered
        kind = (
            3
            if span and span[0] in self.managed
            else 2
            if span
            else 1
            if address in self.pinned
            else 0
        )
        _write(result_address, struct.pack("2i2N", kind, 0, address, address if kind != 2 else 0))

    # `host.h` puts a 0 after a call's arguments: a call without a stream gets it as its stream, the
    # default one.

    def cudaMemcpy(self, to, source, size, kind, to_capacity, source_capacity):
        self._copy(to, source, size, kind, 0, True, to_capacity, source_capacity)

    def cudaMemcpyAsync(self, to, source, size, kind, stream, to_capacity, source_capacity):
        """Copy as `_copy`, which explains the capacities; between the device and memory that is not pinned, wait."""
        waits = kind in (_TO_DEVICE, _TO_HOST) and not (
            self._is_pinned(source) or self._is_pinned(to)
        )
        self._copy(to, source, size, kind, stream, waits, to_capacity, source_capacity)

    def cudaMemcpy2D(self, to, to_pitch, source, source_pitch, width, height, kind, stream):
        """Copy `height` rows of `width` bytes, which are a pitch apart; also for cudaMemcpy2DAsync.

        Wait as `_copy`.
        """
        if min(width, height, to_pitch, source_pitch) < 0:
            raise _Refused(INVALID_VALUE, "failed: no rows have so many bytes")
        if width > to_pitch or width > source_pitch:
            raise _Refused(INVALID_PITCH, f"failed: a row of {width} bytes is wider than the pitch")
        for row in range(height):
            is_last = row == height - 1  # its copy waits for all: they run in order
            self._copy(
                to + row * to_pitch, source + row * source_pitch, width, kind, stream, is_last
            )

    def _copy(self, to, source, size, kind, stream, wait, to_capacity=-1, source_capacity=-1):
        """Copy `size` bytes between two addresses in the direction `kind` (cudaMemcpyKind), or raise `_Refused`."""
        # The capacities are the bytes that the compiler (__builtin_object_size) knows to be at an
        # end; -1: none known.
        if not size:
            return
        # a __device__ variable is memory of this process
        if self._find_variable(to) or self._find_variable(source):
            self._copy_variable(to, source, size)
            return
        if kind == _BY_ADDRESS:  # cudaMemcpyDefault
            is_from_device = native.mem_range(source) is not None
            kind = (
                (_ON_DEVICE if is_from_device else _TO_DEVICE)
                if native.mem_range(to)
                else (_TO_HOST if is_from_device else 0)
            )
        if kind not in (0, _TO_DEVICE, _TO_HOST, _ON_DEVICE):
            raise _Refused(INVALID_DIRECTION, f"failed: {kind} is no direction of a copy")
        if kind in (_TO_DEVICE, _ON_DEVICE):
            self._require_device_memory("destination", to, size)
        if kind in (_TO_HOST, _ON_DEVICE):
            self._require_device_memory("source", source, size)
        if kind in (0, _TO_DEVICE):
            self._require_host_end("source", source, size, False, source_capacity)
        if kind in (0, _TO_HOST):
            self._require_host_end("destination", to, size, True, to_capacity)
        # the runtime copies from host to host as "HtoD"
        name = ("HtoD", "HtoD", "DtoH", "DtoD")[kind]
        # As on a GPU, a copy on the device never waits.
        native.memcpy(
            name, to, source, size, self._find_stream(stream), wait and kind != _ON_DEVICE
        )

    def _require_host_end(self, which, address, size, writes, declared_capacity):
        """Refuse a copy whose `which` ("source", "destination"), in host memory, cannot be accessed or is too small."""
        _require_host_memory(f"failed: its {which}", address, size, writes)
        heap_bytes = native.library().hc_host_block(address)  # 0: the address is not malloc's
        capacity = heap_bytes or max(declared_capacity, 0)
        if not capacity or size <= capacity:
            return
        origin = ", from malloc or new" if heap_bytes else ""
        sentence = f"its {which} has {capacity} bytes{origin}, and {size} were asked for"
        if writes:
            raise _Refused(INVALID_VALUE, f"failed: {sentence}")
        # reading does no damage
        self._report("warning", f"cudaMemcpy: {sentence}: what follows it is copied, too")

    def _find_variable(self, address):
        """Return the (address, bytes) of the variable in `symbols` that contains an address, or None."""
        return next(
            (
                (start, size)
                for start, size in self.symbols.items()
                if start <= address < start + size
            ),
            None,
        )

    def _require_device_memory(self, which, address, size):
        """Refuse a copy whose `which` ("source", "destination") is not `size` bytes of device or pinned memory."""
        span = native.mem_range(address) or self._find_variable(address)  # (base, bytes)
        if not span:
            if self._is_pinned(address):
                return
            what = f"failed: its {which} {address & _UNSIGNED:#x} is no device memory"
            if name := native.variable_at(address):
                use = (
                    f"cudaMemcpyToSymbol({name},"
                    if which == "destination"
                    else f"cudaMemcpyFromSymbol(..., {name},"
                )
                raise _Refused(
                    INVALID_VALUE,
                    f"{what} but the variable {name}: if it is __constant__ or __device__, "
                    f"use {use} ...)",
                )
            why = "a host pointer, never allocated, or freed"
            raise _Refused(INVALID_VALUE, f"{what} ({why}), or the direction of the copy is wrong")
        bytes_left = sum(span) - address
        if size > bytes_left:
            raise _Refused(
                INVALID_VALUE,
                f"failed: {size} bytes were asked for, and its {which} has {bytes_left}",
            )

    def _is_pinned(self, address):
        """Return whether an address is in memory of cudaMallocHost or cudaHostRegister."""
        sizes = self.registered | {start: len(storage) for start, storage in self.pinned.items()}
        return any(start <= address < start + size for start, size in sizes.items())

    def cudaMemset(self, address, value, size, stream):
        """Queue a fill with the low byte of `value`; a variable, which is memory of this process, is filled at once."""
        if size:
            self._require_device_memory("destination", address, size)
            if native.mem_range(address) or self._is_pinned(address):
                native.memset(1, address, value & 0xFF, size, self._find_stream(stream), False)
            else:
                native.synchronize()
                ctypes.memset(address, value & 0xFF, size)

    def cudaMemset2D(self, address, pitch, value, width, height, stream):
        """Queue a fill of `height` rows of `width` bytes, which are a pitch apart, as `cudaMemset`."""
        if min(width, height, pitch) < 0:
            raise _Refused(INVALID_VALUE, "failed: no rows have so many bytes")
        for row in range(height):
            self.cudaMemset(address + row * pitch, value, width, stream)

    def cudaGetSymbolAddress(self, result_address, symbol, size):
        """Write a variable's address, which `symbol` is here; from now on copies may use its `size` bytes."""
        self.symbols[symbol] = size
        _variable_at(result_address).value = symbol

    def cudaMemcpyToSymbol(self, symbol, symbol_bytes, source, size, offset):
        """Copy `size` bytes to byte `offset` of the variable at the address `symbol`, which has `symbol_bytes`."""
        self._require_in_variable(symbol, symbol_bytes, size, offset, True)
        self._copy_variable(symbol + offset, source, size)

    def cudaMemcpyFromSymbol(self, to, symbol, symbol_bytes, size, offset):
        """Copy `size` bytes from byte `offset` of the variable at the address `symbol`, which has `symbol_bytes`."""
        self._require_in_variable(symbol, symbol_bytes, size, offset, False)
        self._copy_variable(to, symbol + offset, size)

    @staticmethod
    def _copy_variable(to, source, size):
        """Wait for the device, and copy to or from a device variable: both ends are memory of this process."""
        native.synchronize()
        _require_host_memory("failed: its source", source, size, False)
        _require_host_memory("failed: its destination", to, size, True)
        ctypes.memmove(to, source, size)

    def _require_in_variable(self, symbol, symbol_bytes, size, offset, writes):
        """Refuse a copy of `size` bytes at `offset` that leaves a device variable, or whose `symbol` is none."""
        address = symbol & _UNSIGNED
        # A name in quotes is a string literal, which cannot be written.
        is_quoted = (
            writes
            and not native.variable_at(symbol)
            and not native.is_host_memory(address, 1, True)
        )
        if is_quoted or self._is_host_pointer(address):
            raise _Refused(
                INVALID_SYMBOL,
                "failed: its symbol is no __device__ or __constant__ variable: pass the "
                "variable itself, not its name in quotes, and no pointer of the host",
            )
        if _require_size(offset) + _require_size(size) > symbol_bytes:
            raise _Refused(
                INVALID_VALUE,
                f"failed: {size} bytes at offset {offset} of a variable that has {symbol_bytes}",
            )

    # -- streams and events

    def _find_stream(self, stream: int) -> int | None:
        """Return the runtime's handle of a cudaStream_t, None for the default stream, or raise `_Refused`."""
        if stream in (0, 1, 2):  # the null stream, cudaStreamLegacy, cudaStreamPerThread
            return None
        if stream not in self.streams:
            raise _Refused(
                INVALID_HANDLE,
                f"{stream:#x} is no stream: create it, and destroy it after its last use",
            )
        return stream

    def cudaStreamCreate(self, result_address, flags):
        # `_variable_at` first: it may refuse
        variable, stream = (
            _variable_at(result_address),
            Stream(flags),
        )
        variable.value = stream.handle
        self.streams[stream.handle] = stream

    def cudaStreamDestroy(self, stream):
        self.streams.pop(self._find_stream(stream), None)

    def cudaStreamSynchronize(self, stream):
        native.stream_synchronize(self._find_stream(stream))

    def cudaStreamQuery(self, stream):
        if not native.stream_query(self._find_stream(stream)):
            raise _Refused(NOT_READY, "")

    def cudaStreamWaitEvent(self, stream, event):
        native.stream_wait_event(self._find_stream(stream), self._find_event(event).handle)

    def _find_event(self, event: int) -> Event:
        """Return the event of a cudaEvent_t, or raise `_Refused`."""
        if event not in self.events:
            raise _Refused(
                INVALID_HANDLE,
                f"{event:#x} is no event: create it, and destroy it after its last use",
            )
        return self.events[event]

    def cudaEventCreate(self, result_address, flags):
        variable, event = _variable_at(result_address), Event(flags)
        variable.value = event.handle
        self.events[event.handle] = event

    def cudaEventDestroy(self, event):
        del self.events[self._find_event(event).handle]

    def cudaEventRecord(self, event, stream):
        native.event_record(self._find_event(event).handle, self._find_stream(stream))

    def cudaEventSynchronize(self, event):
        self._find_event(event).synchronize()

    def cudaEventQuery(self, event):
        if not self._find_event(event).query():
            raise _Refused(NOT_READY, "")

    def cudaEventElapsedTime(self, result_address, start, end):
        try:
            milliseconds = self._find_event(end).time_since(self._find_event(start))
        except errors.LogicError as error:  # an event was made without a time, or never recorded
            raise _Refused(INVALID_HANDLE, error) from None
        _variable_at(result_address, ctypes.c_float).value = milliseconds


def _say(sentence):
    """Print a sentence of the engine to stderr, after what the program has printed so far."""
    _libc.fflush(None)
    print(f"hostcuda: {sentence}", file=sys.stderr, flush=True)


class _Output:
    """The file that kernels' printf writes to: the C library's buffer, in order with what the host prints."""

    def __init__(self):
        self._file = ctypes.c_void_p.in_dll(_libc, "stdout")

    def write(self, text):
        """Print a text through C's stdout."""
        data = text.encode("utf-8", "surrogateescape")
        _libc.fwrite(data, ctypes.c_size_t(1), ctypes.c_size_t(len(data)), self._file)

    def flush(self):
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
        unread = unread or _reword_for_cuda(str(error), "the last work")
        records.record_event("failed", unread)
    native._finish()
    if unread and not status:
        _say(f"the program ended with status 0 although this failed: {unread}")
        status = int(os.environ.get("HOSTCUDA_STRICT") == "1")
    _libc.fflush(None)
    sys.stderr.flush()
    _libc.exit(status)


def _compile_file(path: Path, options: list[str]) -> compiler.Module:
    """Compile the program in a file of CUDA C++ with nvcc's options, and load it; `EngineError`: a file is missing."""
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


def main(arguments: list[str]) -> NoReturn:
    """Compile and run a program, and end the process with its status: ``[--options=...] FILE.cu [ARGUMENT ...]``."""
    options = (
        shlex.split(arguments.pop(0).partition("=")[2])
        if arguments[0].startswith("--options=")
        else []
    )
    # the line of Python is the engine's own
    warnings.showwarning = lambda message, *_: _say(f"warning: {message}")
    try:
        module = _compile_file(Path(arguments[0]), options)
    except Interrupted:
        sys.exit(128 + signal.SIGINT)
    except (EngineError, errors.Error, PermissionError) as error:
        # else of the options, or of the engine's start
        of_source = isinstance(error, errors.CompileError)
        text = error.msg if of_source else str(error)
        records.record_event("compile error" if of_source else "refused", text)
        sys.exit(f"hostcuda: {text}")
    # the program calls its `call` for the API, and `fault` for faults of its host code
    runtime = _Runtime(module)
    callback = ctypes.CFUNCTYPE(
        ctypes.c_longlong, ctypes.c_char_p, ctypes.POINTER(ctypes.c_longlong)
    )(runtime.call)
    # Two variables of the compiled program: where it finds the function for API calls, and the
    # address of its main.
    _variable_at(module.get_global("hostcuda_host")[0]).value = ctypes.cast(
        callback, ctypes.c_void_p
    ).value
    fault = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(
        lambda sentence: runtime._report("host fault", sentence.decode())
    )
    native.library().hc_host_faults(module._handle, fault)
    entry = _variable_at(module.get_global("hostcuda_main")[0]).value
    start = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(entry)
    words = [os.fsencode(word) for word in arguments]
    argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    sys.stdout = _Output()
    if not checkmode.TOOLS:  # in check mode, records are written before Ctrl-C ends the process
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # the program's main; a call of exit() goes to `_Runtime.exit`
    status = start(len(words), argv) & 0xFF
    _leave(status, runtime.unread)


if __name__ == "__main__":
    main(sys.argv[1:])
