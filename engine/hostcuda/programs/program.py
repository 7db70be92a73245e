"""Run a whole program in CUDA C++ on the CPU engine.

``python -m hostcuda.programs.program [--options=...] FILE.cu [ARGUMENT ...]`` is what ``hostcuda run`` starts. The
program is compiled as a module, and its ``main`` is called in this process. CUDA's runtime API in it
(``include/hostcuda/host.h``) calls `_Runtime`, whose methods have the API's names and return its error numbers. What
went wrong is also said in a sentence on the standard error output, because many programs do not look at the numbers.
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
INVALID_DIRECTION, INVALID_FUNCTION, INVALID_DEVICE, INVALID_HANDLE, NOT_READY = 21, 98, 101, 400, 600
NOT_SUPPORTED = 801
ILLEGAL_ADDRESS, ASSERT, MISALIGNED, LAUNCH_FAILURE = 700, 710, 716, 719
_OF_FAULT = {
    "assertion": ASSERT,
    "exist": ILLEGAL_ADDRESS,
    "misaligned": MISALIGNED,
    "address": ILLEGAL_ADDRESS,
    "allocation": ILLEGAL_ADDRESS,
    "null pointer": ILLEGAL_ADDRESS,
}  # by a word of the message
_TO_DEVICE, _TO_HOST, _ON_DEVICE, _BY_ADDRESS = 1, 2, 3, 4  # cudaMemcpyKind
# Calls whose error is an answer: programs use them to ask what a device can do.
_QUESTIONS = ("answer", "cudaSetDevice")
_VARIANT = re.compile("(?:Async|WithFlags|WithPriority)$")  # of a call that it is like
# Further answers of cudaDeviceGetAttribute: the largest textures of one, two and three dimensions; the alignments of
# surfaces and of a texture's rows, atomic operations of the host, registered memory and memory pools.
_TEXTURES = {21: 131072, 22: 131072, 23: 65536, 24: 16384, 25: 16384, 26: 16384}
_ATTRIBUTES = {**_TEXTURES, 30: 512, 51: 32, 86: 1, 99: 1, 115: 1}
_IN_CUDA = {  # remedies of the driver's modules -> those of a program in CUDA C++
    "function.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes)":
        "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)",
    "or free() what": "or cudaFree what", "event_flags.DISABLE_TIMING": "cudaEventDisableTiming",
}
_OF_DRIVER = re.compile(r"\bcu[A-Z]\w* failed: (kernel )?")
_libc = ctypes.CDLL(None)


def _in_cuda(sentence, call):
    """Return a sentence of the driver's modules about a call in the words of CUDA C++."""
    for remedy, own in _IN_CUDA.items():
        sentence = sentence.replace(remedy, own)
    return _OF_DRIVER.sub(lambda match: match[1] or f"{call} failed: ", sentence)


class _Refused(Exception):
    """A call that fails: its error number, and the reason; one with "failed: " in front follows the call's name."""

    def __init__(self, number, reason):
        super().__init__(reason)
        self.number = number


_WORD = (1 << 64) - 1


def _require_host_memory(what, address, size, writes):
    """Refuse `size` bytes that the host cannot read or, if it `writes`, not write; `what` begins the message."""
    if not native.is_host_memory(address & _WORD, size, writes):
        why = "a null pointer" if not address else "never allocated, freed, or shorter"
        cannot = "written" if writes else "read"
        raise _Refused(INVALID_VALUE, f"{what}: {size & _WORD} bytes at {address & _WORD:#x} cannot be {cannot}: {why}")


def _variable_at(address, kind=ctypes.c_void_p):
    """Return the program's variable at an address, to read or write its `value`."""
    _require_host_memory("failed: the address of a result or a list", address, ctypes.sizeof(kind), True)
    native.library().hc_write_result(address)
    return kind.from_address(address)


def _write(out, data):
    """Write bytes to a variable of the program."""
    _variable_at(out, ctypes.c_char * len(data)).raw = data


def _require_size(number):
    """Return a number of bytes; MemoryError if it is negative: a program's size_t of 2**63 bytes or more."""
    if number < 0:
        raise MemoryError(f"{number & _WORD} bytes were asked for")
    return number


def _return_constant(value):
    """Return a method of `_Runtime` that writes a constant integer to the program's variable at `out`."""
    def give(self, out):
        _variable_at(out, ctypes.c_int).value = value

    return give


class _Runtime:
    """CUDA's runtime API for one program; the arguments of each method are its words."""

    def __init__(self, module):
        self.module = module
        self.functions = {}
        for kernel in module.kernels():
            self.functions.setdefault(kernel.function, Function(module, kernel))
        self.last = self.sticky = SUCCESS
        self.unseen = ""  # the first call that failed since the program has last asked for an error
        self.pinned = {}  # address -> its storage
        self.managed = set()
        self.symbols = {}  # address of a variable that the program has asked for -> its bytes
        self.streams, self.events = {}, {}  # handle -> `Stream`, `Event`
        self.registered = {}  # address -> bytes of cudaHostRegister
        self.seen, self.told = set(), set()  # pointers that were looked at; parameters of which was told

    def call(self, name: bytes, arguments) -> int:
        """Call a function of the API; return its error number. Called from the program."""
        name = name.decode()
        if name in ("cudaGetLastError", "cudaPeekAtLastError"):  # frequent, and they touch no memory
            return self._call_method(name, arguments)
        native.library().hc_host_calls(True, False)
        number = self._call_method(name, arguments)
        native.library().hc_host_calls(False, name != "launch")
        return number

    def _call_method(self, name, arguments):
        """Run the method of an API call with its integer arguments; turn exceptions into CUDA's error number."""
        try:
            method = getattr(self, name, None) or getattr(self, _VARIANT.sub("", name), None)
            if method is None:
                raise _Refused(NOT_SUPPORTED, f"the CPU engine has no {name}")
            parameter_count = method.__func__.__code__.co_argcount - 1
            if self.sticky and name not in ("exit", "cudaGetLastError", "cudaPeekAtLastError", "cudaDeviceReset"):
                return self.sticky
            return method(*arguments[:parameter_count]) or SUCCESS
        except KeyboardInterrupt:
            _leave(128 + signal.SIGINT)
        except _Refused as refusal:
            number, reason = refusal.number, str(refusal)
            if reason.startswith("failed: "):
                reason = f"{name} {reason}"
        except errors.LaunchError as error:
            number = next((number for word, number in _OF_FAULT.items() if word in str(error)), LAUNCH_FAILURE)
            self.sticky, reason = number, str(error)
        except errors.MemoryError as error:
            number, reason = OUT_OF_MEMORY, str(error)
        except (MemoryError, OverflowError) as error:
            number, reason = OUT_OF_MEMORY, f"{name} failed: out of memory: {error}"
        except Exception as error:  # what a wrong argument leads to: no program sees a traceback
            number, reason = INVALID_VALUE, str(error) if isinstance(error, errors.Error) else f"{name} failed: {error}"
        self.last = number
        reason = _in_cuda(reason, "the launch" if name == "launch" else name)
        if number != NOT_READY:
            kind = "failed" if self.sticky or number == OUT_OF_MEMORY else "refused"  # it may go on with less
            reason = self._report(kind if name not in _QUESTIONS else "", reason)
            self.unseen = self.unseen or reason * (name not in _QUESTIONS)
        return number

    def _report(self, event_kind, sentence):
        """Print a sentence with the line of the host's code that runs, and record it as an event of this kind."""
        file, line = records.place(str(self.module._path), native.module_callers(self.module._handle))
        sentence += f" ({file}:{line})" if file and not self.sticky else ""  # a kernel's fault has a place of its own
        _say(sentence)
        if event_kind:
            records.record_event(event_kind, sentence, file=file, line=line)
        return sentence

    # -- launches

    def launch(self, function, gx, gy, gz, bx, by, bz, shared, stream, packed, size):
        kernel = self._find_kernel(function)
        sizes = [number & 0xFFFFFFFF for number in (gx, gy, gz, bx, by, bz)]
        try:
            arguments = ctypes.string_at(packed, size)
            self._look_at_pointers(function, kernel, arguments)
            kernel._launch(tuple(sizes[:3]), tuple(sizes[3:]), arguments, shared,
                           self.streams.get(self._find_stream(stream)))
        except errors.LogicError as error:
            raise _Refused(INVALID_CONFIGURATION if "shared" not in str(error) else INVALID_VALUE, error) from None
        if checkmode.TOOLS:  # the host's accesses must not fall among the kernel's
            native.synchronize()

    def _look_at_pointers(self, function, kernel, arguments):
        """Warn of pointers to memory of the host: a GPU ends the launch if it uses them."""
        if checkmode.TOOLS:  # it finds each access
            return
        for i, parameter in enumerate(kernel._parameters):
            if parameter.kind != "P":
                continue
            value = int.from_bytes(arguments[parameter.offset : parameter.offset + 8], "little")
            if not value or (function, i, value) in self.seen:
                continue
            self.seen.add((function, i, value))
            if (function, i) not in self.told and self._is_host_pointer(value):
                self.told.add((function, i))
                _say(f"kernel {kernel._name}: {parameter} was given {value:#x}, a pointer to memory of the host. Where "
                     "it is used, a GPU reports an illegal address: copy the data to memory of cudaMalloc")

    def _is_host_pointer(self, address):
        """Return whether it is certain that this is a pointer to the host's heap or to this thread's stack."""
        if self._is_pinned(address) or any(native.mem_range(near) for near in (address, address - 1)):
            return False
        return bool(native.library().hc_host_block(address) or native.library().hc_on_stack(address))

    def launch_pointers(self, function, gx, gy, gz, bx, by, bz, shared, stream, pointers):
        """Launch with an array that has the address of each argument: cudaLaunchKernel."""
        kernel = self._find_kernel(function)
        packed = bytearray(kernel._packed_bytes)
        for i, parameter in enumerate(kernel._parameters):
            address = _variable_at(pointers + 8 * i).value or 0
            _require_host_memory(f"argument {i} of {kernel._name}", address, parameter.size, False)
            value = ctypes.string_at(address, parameter.size)
            packed[parameter.offset : parameter.offset + parameter.size] = value
        data = ctypes.create_string_buffer(bytes(packed), len(packed) + 1)
        self.launch(function, gx, gy, gz, bx, by, bz, shared, stream, ctypes.addressof(data), len(packed))

    def _find_kernel(self, function):
        if function not in self.functions:
            raise _Refused(INVALID_FUNCTION, "the launch names no kernel that the CPU engine has registered: "
                           "launch it by its name, or instantiate the template explicitly")
        return self.functions[function]

    def cudaFuncSetAttribute(self, function, attribute, value):
        self._find_kernel(function).set_attribute(attribute, value)

    def cudaFuncGetAttributes(self, out, function):
        kernel = self._find_kernel(function)
        sizes = kernel.shared_size_bytes, kernel.const_size_bytes, 0  # then versions: PTX, binary
        _write(out, struct.pack("3N6i", *sizes, kernel.max_threads_per_block, 0, 90, 90, 0, kernel._max_dynamic))

    # -- errors and the end

    def cudaGetLastError(self):
        last, self.last = self.cudaPeekAtLastError(), SUCCESS
        return last

    def cudaPeekAtLastError(self):
        self.unseen = ""
        return self.sticky or self.last

    def refuse(self, number, sentence):
        raise _Refused(number, ctypes.string_at(sentence).decode())

    answer = refuse

    def exit(self, status):
        _leave(status & 0xFF, self.unseen)

    # -- the device

    cudaGetDeviceCount = _return_constant(1)
    cudaGetDevice = cudaChooseDevice = cudaDeviceCanAccessPeer = cudaStreamGetPriority = _return_constant(0)

    def cudaSetDevice(self, number):
        if number:
            raise _Refused(INVALID_DEVICE, f"failed: the CPU engine has device 0 only, not {number}")

    def device_name(self, out, size):
        _write(out, device.Device(0).name().encode()[: size - 1])

    def cudaDeviceGetAttribute(self, out, attribute, number):
        self.cudaSetDevice(number)
        attributes = device.Device(0).get_attributes() | _ATTRIBUTES
        _variable_at(out, ctypes.c_int).value = attributes.get(attribute, 0)

    def cudaDeviceGetLimit(self, out, limit):
        _variable_at(out, ctypes.c_size_t).value = device.Context.get_limit(limit)

    def cudaDeviceSetLimit(self, limit, value):
        device.Context.set_limit(limit, _require_size(value))

    def cudaDeviceGetPCIBusId(self, out, size, number):
        self.cudaSetDevice(number)
        _write(out, device.Device(0).pci_bus_id().encode()[: max(size - 1, 0)] + b"\0")

    def cudaDeviceSynchronize(self):
        native.synchronize()

    cudaThreadSynchronize = cudaDeviceReset = cudaThreadExit = cudaDeviceSynchronize

    def cudaMemGetInfo(self, free, total):
        _variable_at(free, ctypes.c_size_t).value, _variable_at(total, ctypes.c_size_t).value = native.mem_info()

    cudaDriverGetVersion = cudaRuntimeGetVersion = _return_constant(device.get_driver_version())

    # -- memory

    def cudaMalloc(self, out, size):
        place = _variable_at(out)
        place.value = native.mem_alloc(_require_size(size)) if size else None
        if size:
            native.library().hc_mem_of_device(place.value)

    def cudaMallocManaged(self, out, size):
        if not size:
            raise _Refused(INVALID_VALUE, "failed: 0 bytes were requested")
        place = _variable_at(out)
        place.value = address = native.mem_alloc(_require_size(size))
        native.memset(1, address, 0, size, None, True)  # as on a GPU; the host may write it unseen, so it counts as set
        self.managed.add(address)

    def cudaMallocPitch(self, out, pitch, width, height):
        row_bytes = -(-_require_size(width) // PITCH) * PITCH
        _variable_at(pitch, ctypes.c_size_t).value = row_bytes
        self.cudaMalloc(out, row_bytes * _require_size(height))

    def cudaFree(self, address):
        if not address:
            return
        span = native.mem_range(address & _WORD)
        if not span or span[0] != address:
            raise _Refused(INVALID_VALUE, f"failed: cudaMalloc gave no {address:#x}, or it was freed")
        self.managed.discard(address)
        native.mem_free(address)

    def cudaFreeAsync(self, address, stream):
        if span := checkmode.TOOLS and native.mem_range(address & _WORD):  # for racecheck, as if its stream wrote it
            native.memset(1, span[0], 0, span[1], self._find_stream(stream), False)
        self.cudaFree(address)

    def cudaMallocHost(self, out, size):
        place = _variable_at(out)
        try:
            if _require_size(size) > native.mem_info()[1] - sum(map(len, self.pinned.values())):
                raise MemoryError  # before the system ends some process
            storage = ctypes.create_string_buffer(size + 4096)
        except (MemoryError, OverflowError, ValueError):
            raise _Refused(OUT_OF_MEMORY, f"failed: the host has no {native.format_bytes(size)}") from None
        address = -(-ctypes.addressof(storage) // 4096) * 4096
        self.pinned[address] = storage
        native.map_host_memory(address, size)
        place.value = address

    cudaHostAlloc = cudaMallocHost

    def cudaFreeHost(self, address):
        if address and address not in self.pinned:
            raise _Refused(INVALID_VALUE, f"failed: {address:#x} is no allocation of cudaMallocHost")
        native.synchronize()
        if self.pinned.pop(address, None):
            native.map_host_memory(address, 0)

    def cudaHostRegister(self, address, size):
        if not size:
            raise _Refused(INVALID_VALUE, "failed: 0 bytes were given")
        _require_host_memory("failed: the memory", address, _require_size(size), True)
        self.registered[address] = size
        native.map_host_memory(address, size)

    def cudaHostUnregister(self, address):
        if not self.registered.pop(address, None):
            raise _Refused(713, f"failed: {address & _WORD:#x} is not registered")
        native.map_host_memory(address, 0)

    def cudaPointerGetAttributes(self, out, address):
        span = native.mem_range(address)
        kind = 3 if span and span[0] in self.managed else 2 if span else 1 if address in self.pinned else 0
        _write(out, struct.pack("2i2N", kind, 0, address, address if kind != 2 else 0))

    # What takes no stream is given 0, the end of its words: the default stream.

    def cudaMemcpy(self, to, source, size, kind, to_capacity, source_capacity):
        self._copy(to, source, size, kind, 0, True, to_capacity, source_capacity)

    def cudaMemcpyAsync(self, to, source, size, kind, stream, to_capacity, source_capacity):
        waits = kind in (_TO_DEVICE, _TO_HOST) and not (self._is_pinned(source) or self._is_pinned(to))
        self._copy(to, source, size, kind, stream, waits, to_capacity, source_capacity)

    def cudaMemcpy2D(self, to, to_pitch, source, from_pitch, width, height, kind, stream):
        if min(width, height, to_pitch, from_pitch) < 0:
            raise _Refused(INVALID_VALUE, "failed: no rows have so many bytes")
        if width > to_pitch or width > from_pitch:
            raise _Refused(12, f"failed: a row of {width} bytes is wider than the pitch")
        for row in range(height):
            wait = row == height - 1
            self._copy(to + row * to_pitch, source + row * from_pitch, width, kind, stream, wait)

    def _copy(self, to, source, size, kind, stream, wait, to_capacity=-1, source_capacity=-1):
        """Copy `size` bytes in the direction `kind`; the capacities are the bytes at each end, -1 if not known."""
        if not size:
            return
        if any(base <= end < base + length for base, length in self.symbols.items() for end in (to, source)):
            self._copy_variable(to, source, size)
            return
        if kind == _BY_ADDRESS:
            kind = (_ON_DEVICE if native.mem_range(source) else _TO_DEVICE) if native.mem_range(to) else (
                _TO_HOST if native.mem_range(source) else 0)
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
        name = ("HtoD", "HtoD", "DtoH", "DtoD")[kind]
        native.memcpy(name, to, source, size, self._find_stream(stream), wait and kind != _ON_DEVICE)

    def _require_host_end(self, which, address, size, writes, declared_capacity):
        """Refuse a copy's end on the host (`which`) that cannot be accessed, or has fewer than `size` bytes."""
        _require_host_memory(f"failed: its {which}", address, size, writes)
        block = native.library().hc_host_block(address)
        capacity = block or max(declared_capacity, 0)
        if not capacity or size <= capacity:
            return
        sentence = f"its {which} has {capacity} bytes{', from malloc or new' * bool(block)}, and {size} were asked for"
        if writes:
            raise _Refused(INVALID_VALUE, f"failed: {sentence}")
        self._report("warning", f"cudaMemcpy: {sentence}: what follows it is copied, too")

    def _require_device_memory(self, which, address, size):
        """Refuse a copy's end (`which`) that is no device memory, or has fewer than `size` bytes left."""
        variables = ((start, bytes_) for start, bytes_ in self.symbols.items() if start <= address < start + bytes_)
        span = native.mem_range(address) or next(variables, None)
        if not span:
            if self._is_pinned(address):
                return
            what = f"failed: its {which} {address & _WORD:#x} is no device memory"
            if name := native.variable_at(address):
                use = f"cudaMemcpyToSymbol({name}," if which == "destination" else f"cudaMemcpyFromSymbol(..., {name},"
                raise _Refused(INVALID_VALUE, f"{what} but the variable {name}: if it is __constant__ or __device__, "
                               f"use {use} ...)")
            why = "a host pointer, never allocated, or freed"
            raise _Refused(INVALID_VALUE, f"{what} ({why}), or the direction of the copy is wrong")
        bytes_left = span[0] + span[1] - address
        if size > bytes_left:
            raise _Refused(INVALID_VALUE, f"failed: {size} bytes were asked for, and its {which} has {bytes_left}")

    def _is_pinned(self, address):
        pinned = any(start <= address < start + len(storage) for start, storage in self.pinned.items())
        return pinned or any(start <= address < start + size for start, size in self.registered.items())

    def cudaMemset(self, address, value, size, stream):
        if size:
            self._require_device_memory("destination", address, size)
            if native.mem_range(address) or self._is_pinned(address):
                native.memset(1, address, value & 0xFF, size, self._find_stream(stream), False)
            else:  # a variable
                native.synchronize()
                ctypes.memset(address, value & 0xFF, size)

    def cudaMemset2D(self, address, pitch, value, width, height, stream):
        if min(width, height, pitch) < 0:
            raise _Refused(INVALID_VALUE, "failed: no rows have so many bytes")
        for row in range(height):
            self.cudaMemset(address + row * pitch, value, width, stream)

    def cudaGetSymbolAddress(self, out, symbol, size):
        self.symbols[symbol] = size
        _variable_at(out).value = symbol

    def cudaMemcpyToSymbol(self, symbol, whole, source, size, offset):
        self._require_in_variable(symbol, whole, size, offset, True)
        self._copy_variable(symbol + offset, source, size)

    def cudaMemcpyFromSymbol(self, to, symbol, whole, size, offset):
        self._require_in_variable(symbol, whole, size, offset, False)
        self._copy_variable(to, symbol + offset, size)

    @staticmethod
    def _copy_variable(to, source, size):
        """Copy to or from a variable of the device, which is one of this process."""
        native.synchronize()
        _require_host_memory("failed: its source", source, size, False)
        _require_host_memory("failed: its destination", to, size, True)
        ctypes.memmove(to, source, size)

    def _require_in_variable(self, symbol, whole, size, offset, writes):
        """Refuse a copy of `size` bytes at `offset` that leaves a variable of the device, or whose symbol is none."""
        is_quoted = writes and not native.variable_at(symbol) and not native.is_host_memory(symbol & _WORD, 1, True)
        if is_quoted or self._is_host_pointer(symbol & _WORD):
            raise _Refused(INVALID_SYMBOL, "failed: its symbol is no __device__ or __constant__ variable: pass the "
                           "variable itself, not its name in quotes, and no pointer of the host")
        if _require_size(offset) + _require_size(size) > whole:
            raise _Refused(INVALID_VALUE, f"failed: {size} bytes at offset {offset} of a variable that has {whole}")

    # -- streams and events

    def _find_stream(self, stream):
        """Return a stream's handle; 0, 1 and 2 are the default stream."""
        if stream in (0, 1, 2):
            return None
        if stream not in self.streams:
            raise _Refused(INVALID_HANDLE, f"{stream:#x} is no stream: create it, and destroy it after its last use")
        return stream

    def cudaStreamCreate(self, out, flags):
        place, stream = _variable_at(out), Stream(flags)
        place.value = stream.handle
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

    def _find_event(self, event):
        if event not in self.events:
            raise _Refused(INVALID_HANDLE, f"{event:#x} is no event: create it, and destroy it after its last use")
        return self.events[event]

    def cudaEventCreate(self, out, flags):
        place, event = _variable_at(out), Event(flags)
        place.value = event.handle
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

    def cudaEventElapsedTime(self, out, start, end):
        try:
            _variable_at(out, ctypes.c_float).value = self._find_event(end).time_since(self._find_event(start))
        except errors.LogicError as error:  # it has no time, or was never recorded
            raise _Refused(INVALID_HANDLE, error) from None


# ---------------------------------------------------------------------------------------------------------------------
# The process


def _say(sentence):
    _libc.fflush(None)  # the program's own output comes first
    print(f"hostcuda: {sentence}", file=sys.stderr, flush=True)


class _Output:
    """The file that kernels' printf writes to: the C library's buffer, in order with what the host prints."""

    def __init__(self):
        self._file = ctypes.c_void_p.in_dll(_libc, "stdout")

    def write(self, text):
        """Print a text."""
        data = text.encode("utf-8", "surrogateescape")
        _libc.fwrite(data, ctypes.c_size_t(1), ctypes.c_size_t(len(data)), self._file)

    def flush(self):
        """Print what is still in the buffer."""
        _libc.fflush(self._file)


def _leave(status, unseen=""):
    """End the process as the C library does, after the device has finished its work.

    A program that ignores its errors ends with its own status, as on a GPU; the last line names the first of them.
    """
    native.library().hc_host_calls(True, False)
    try:
        native.synchronize()
    except errors.Error as error:
        unseen = unseen or _in_cuda(str(error), "the last work")
        records.record_event("failed", unseen)
    native._finish()
    if unseen and not status:
        _say(f"the program ended with status 0 although this failed: {unseen}")
        status = int(os.environ.get("HOSTCUDA_STRICT") == "1")
    _libc.fflush(None)
    sys.stderr.flush()
    _libc.exit(status)


def _compile_file(path, options):
    """Compile and load the program in a file of CUDA C++; return its module."""
    try:
        source = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise EngineError(f"{path}: {error.strerror}") from None
    for option in options:
        if SOURCE.search(option) and not Path(option).is_file():
            raise EngineError(f"{option}, one of the options, is no file")
    name = str(path.resolve() if ".." in path.parts else path).replace("\\", "\\\\").replace('"', '\\"')
    return compiler.compile_program(f'#line 1 "{name}"\n{source}', options, [path.parent])


def main(arguments: list[str]) -> NoReturn:
    """Compile and run a program; does not return."""
    options = shlex.split(arguments.pop(0).partition("=")[2]) if arguments[0].startswith("--options=") else []
    warnings.showwarning = lambda message, *_: _say(f"warning: {message}")  # the line of Python is the engine's own
    try:
        module = _compile_file(Path(arguments[0]), options)
    except Interrupted:
        sys.exit(128 + signal.SIGINT)
    except (EngineError, errors.Error, PermissionError) as error:
        of_source = isinstance(error, errors.CompileError)  # else of the options, or of the engine's start
        text = error.msg if of_source else str(error)
        records.record_event("compile error" if of_source else "refused", text)
        sys.exit(f"hostcuda: {text}")
    runtime = _Runtime(module)
    callback = ctypes.CFUNCTYPE(ctypes.c_longlong, ctypes.c_char_p, ctypes.POINTER(ctypes.c_longlong))(runtime.call)
    _variable_at(module.get_global("hostcuda_host")[0]).value = ctypes.cast(callback, ctypes.c_void_p).value
    fault = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(lambda what: runtime._report("host fault", what.decode()) and None)
    native.library().hc_host_faults(module._handle, fault)
    entry = _variable_at(module.get_global("hostcuda_main")[0]).value
    start = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(entry)
    words = [os.fsencode(word) for word in arguments]
    argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    sys.stdout = _Output()
    if not checkmode.TOOLS:  # check mode keeps what it has seen until then
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    status = start(len(words), argv) & 0xFF
    _leave(status, runtime.unseen)


if __name__ == "__main__":
    main(sys.argv[1:])
