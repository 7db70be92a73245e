"""Memory in CUDA's runtime API: allocations, copies, fills, and the program's device variables."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable

from hostcuda.api.pitched import PITCH
from hostcuda.check import mode as checkmode
from hostcuda.programs.calls import (
    INVALID_DIRECTION,
    INVALID_PITCH,
    INVALID_SYMBOL,
    INVALID_VALUE,
    NOT_REGISTERED,
    OUT_OF_MEMORY,
    UNSIGNED,
    Refused,
    require_host_memory,
    require_size,
    variable_at,
    write_bytes,
)
from hostcuda.runtime import native

_TO_DEVICE, _TO_HOST, _ON_DEVICE, _BY_ADDRESS = 1, 2, 3, 4  # cudaMemcpyKind; 0 is from host to host
_PAGE = 4096  # bytes


class Memory:
    """The calls of CUDA's runtime API on memory, and what they remember; `program` has the others.

    As there, methods have the API's names, and their arguments are 64-bit signed integers. A result is
    written to the program's variable at `result_address`. A call that fails raises `Refused`.
    """

    # methods of the others
    _find_stream: Callable[[int], int | None]
    _report: Callable[[str, str], str]

    def __init__(self):
        self.pinned = {}  # address -> ctypes buffer that holds the memory
        self.managed = set()  # addresses from cudaMallocManaged
        self.pooled = set()  # addresses from cudaMallocAsync
        # address of a device variable that cudaGetSymbolAddress has returned -> its bytes
        self.symbols = {}
        self.registered = {}  # address -> bytes of cudaHostRegister

    def cudaMalloc(self, result_address: int, size: int) -> None:
        """Allocate `size` bytes of device memory; write their address to the program's variable at `result_address`.

        The address of 0 bytes is null. Host code cannot access the memory.
        """
        variable = variable_at(result_address)  # first, because it may refuse
        variable.value = native.mem_alloc(require_size(size)) if size else None
        if size:
            # between calls of the API it is hidden from the host
            native.library().hc_mem_of_device(variable.value)

    def cudaMallocAsync(self, result_address: int, size: int) -> None:
        """Allocate device memory as `cudaMalloc` does, and note in `pooled`, for `cudaFree`, that it is this call's."""
        self.cudaMalloc(result_address, size)
        self.pooled.add(variable_at(result_address).value)

    def cudaMallocManaged(self, result_address: int, size: int) -> None:
        """Allocate `size` bytes that host and device may access; write their address to the program's variable.

        The variable is at `result_address`. The bytes are zero, as on a GPU.
        """
        if not size:
            raise Refused(INVALID_VALUE, "failed: 0 bytes were requested")
        variable = variable_at(result_address)
        variable.value = address = native.mem_alloc(require_size(size))
        # A fill of elements of 1 byte, by which the memory counts as initialized: initcheck does not see
        # writes of the host. True: the call waits.
        native.memset(1, address, 0, size, None, True)
        self.managed.add(address)

    def cudaMallocPitch(
        self, result_address: int, pitch_address: int, width: int, height: int
    ) -> None:
        """Allocate `height` rows of `width` bytes of device memory, each at a multiple of 512 bytes.

        Writes their address to the program's variable at `result_address`, and the pitch, the bytes
        from a row to the next one, to that at `pitch_address`.
        """
        row_bytes = -(-require_size(width) // PITCH) * PITCH  # rounded up
        variable_at(pitch_address, ctypes.c_size_t).value = row_bytes
        self.cudaMalloc(result_address, row_bytes * require_size(height))

    def cudaFree(self, address: int) -> None:
        """Wait for the device and free an allocation by its first address; `Refused` for another address.

        A null pointer has no effect.
        """
        if not address:
            return
        span = native.mem_range(address & UNSIGNED)  # (base, bytes)
        if not span or span[0] != address:
            cause = ", or it was freed"
            if span:
                cause = (
                    f": it is {address - span[0]} bytes behind the start of an allocation of "
                    f"{span[1]} bytes, which is freed only as a whole, by its first address"
                )
            raise Refused(INVALID_VALUE, f"failed: cudaMalloc gave no {address:#x}{cause}")
        if address in self.pooled:  # memory of cudaMallocAsync; 0: on the default stream
            return self.cudaFreeAsync(address, 0)
        self.managed.discard(address)
        native.mem_free(address)

    def cudaFreeAsync(self, address: int, stream: int) -> None:
        """Free memory as `cudaFree` does.

        In check mode, the memory is filled on the stream first, as a write of this stream: if another
        stream still uses it, racecheck reports the race.
        """
        if checkmode.TOOLS and (span := native.mem_range(address & UNSIGNED)):
            # elements of 1 byte become 0; False: the call does not wait
            native.memset(1, span[0], 0, span[1], self._find_stream(stream), False)
        self.pooled.discard(address)
        self.cudaFree(address)

    def cudaMallocHost(self, result_address: int, size: int) -> None:
        """Allocate `size` bytes of page-locked host memory; write their address to the variable at `result_address`.

        The memory begins at a page's begin. `Refused` if there is not enough.
        """
        variable = variable_at(result_address)
        try:
            _, total = native.mem_info()  # the engine's device memory is memory of the host
            if require_size(size) > total - sum(map(len, self.pinned.values())):
                raise MemoryError  # else Linux might end a process for lack of memory
            storage = ctypes.create_string_buffer(size + _PAGE)  # a page more, to begin at one
        except (MemoryError, OverflowError, ValueError):
            raise Refused(
                OUT_OF_MEMORY, f"failed: the host has no {native.format_bytes(size)}"
            ) from None
        address = -(-ctypes.addressof(storage) // _PAGE) * _PAGE  # rounded up
        self.pinned[address] = storage
        native.map_host_memory(address, size)
        variable.value = address

    cudaHostAlloc = cudaMallocHost

    def cudaFreeHost(self, address: int) -> None:
        """Wait for the device and free memory of cudaMallocHost.

        A null pointer has no effect but the wait.
        """
        if address and address not in self.pinned:
            raise Refused(INVALID_VALUE, f"failed: {address:#x} is no allocation of cudaMallocHost")
        native.synchronize()  # kernels and copies may still use the memory
        if self.pinned.pop(address, None):
            native.map_host_memory(address, 0)  # 0: kernels may no longer use it

    def cudaHostRegister(self, address: int, size: int) -> None:
        """Treat `size` bytes of the program's memory as page-locked; `Refused` if the host cannot write them."""
        if not size:
            raise Refused(INVALID_VALUE, "failed: 0 bytes were given")
        # True: that the host can write it
        require_host_memory("failed: the memory", address, require_size(size), True)
        self.registered[address] = size
        native.map_host_memory(address, size)

    def cudaHostUnregister(self, address: int) -> None:
        """Treat memory of `cudaHostRegister` as ordinary memory again, which kernels may not use."""
        if not self.registered.pop(address, None):
            raise Refused(NOT_REGISTERED, f"failed: {address & UNSIGNED:#x} is not registered")
        native.map_host_memory(address, 0)  # 0 bytes: kernels may no longer use it

    def cudaPointerGetAttributes(self, result_address: int, address: int) -> None:
        """Write the struct cudaPointerAttributes of an address: kind of memory, device 0, device pointer, host pointer.

        The host pointer to device memory is null.
        """
        span = native.mem_range(address)
        if span and span[0] in self.managed:
            kind = 3  # cudaMemoryTypeManaged
        elif span:
            kind = 2  # cudaMemoryTypeDevice
        elif self._is_pinned(address):
            kind = 1  # cudaMemoryTypeHost
        else:
            kind = 0  # cudaMemoryTypeUnregistered
        write_bytes(
            result_address, struct.pack("2i2N", kind, 0, address, address if kind != 2 else 0)
        )

    # `host.h` puts a 0 after a call's arguments: a call without a stream gets it as its stream, the
    # default one.

    def cudaMemcpy(
        self, to: int, source: int, size: int, kind: int, to_capacity: int, source_capacity: int
    ) -> None:
        """Copy `size` bytes from address `source` to address `to` in the default stream, and wait for the end.

        `kind` is the direction (cudaMemcpyKind). The capacities are the bytes that the program's
        compiler knows to be at the two addresses (-1: not known): a longer copy is refused.
        """
        # 0: the default stream; True: wait, unless the copy is on the device
        self._copy(to, source, size, kind, 0, True, to_capacity, source_capacity)

    def cudaMemcpyAsync(
        self,
        to: int,
        source: int,
        size: int,
        kind: int,
        stream: int,
        to_capacity: int,
        source_capacity: int,
    ) -> None:
        """Queue a copy of `size` bytes from address `source` to address `to` on a stream.

        It waits for the end of a copy between the device and host memory that is not page-locked.
        `kind` is the direction (cudaMemcpyKind). The capacities are the bytes that the program's
        compiler knows to be at the two addresses (-1: not known): a longer copy is refused.
        """
        waits = kind in (_TO_DEVICE, _TO_HOST) and not (
            self._is_pinned(source) or self._is_pinned(to)
        )
        self._copy(to, source, size, kind, stream, waits, to_capacity, source_capacity)

    def cudaMemcpy2D(
        self,
        to: int,
        to_pitch: int,
        source: int,
        source_pitch: int,
        width: int,
        height: int,
        kind: int,
        stream: int,
    ) -> None:
        """Copy `height` rows of `width` bytes on a stream, and wait for the end, unless the copy is on the device.

        The rows are `source_pitch` bytes apart in the source and `to_pitch` in the destination; `kind` is
        the direction (cudaMemcpyKind). cudaMemcpy2DAsync is this method, too.
        """
        if min(width, height, to_pitch, source_pitch) < 0:
            raise Refused(INVALID_VALUE, "failed: no rows have so many bytes")
        if width > to_pitch or width > source_pitch:
            raise Refused(INVALID_PITCH, f"failed: a row of {width} bytes is wider than the pitch")
        for row in range(height):
            is_last = row == height - 1  # its copy waits for all: they run in order
            self._copy(
                to + row * to_pitch, source + row * source_pitch, width, kind, stream, is_last
            )

    def _copy(
        self,
        to: int,
        source: int,
        size: int,
        kind: int,
        stream: int,
        wait: bool,
        to_capacity: int = -1,
        source_capacity: int = -1,
    ) -> None:
        """Copy `size` bytes between two addresses in the direction `kind` (cudaMemcpyKind), or raise `Refused`.

        `wait`: for the end, unless the copy is on the device, as on a GPU. `to_capacity` and
        `source_capacity` are the bytes that the compiler (__builtin_object_size) knows to be at the two
        ends; -1: not known.
        """
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
            raise Refused(INVALID_DIRECTION, f"failed: {kind} is no direction of a copy")
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
        native.memcpy(
            name, to, source, size, self._find_stream(stream), wait and kind != _ON_DEVICE
        )

    def _require_host_end(
        self, which: str, address: int, size: int, writes: bool, declared_capacity: int
    ) -> None:
        """Raise `Refused` if the end of a copy in host memory cannot be accessed, or is too small to be written.

        `which` is "source" or "destination"; `writes` says whether the copy writes there.
        `declared_capacity` is the bytes that the compiler knows to be there, -1: not known. A source that
        is too small is only warned of: reading does no damage.
        """
        require_host_memory(f"failed: its {which}", address, size, writes)
        heap_bytes = native.library().hc_host_block(address)  # 0: the address is not malloc's
        capacity = heap_bytes or max(declared_capacity, 0)
        if not capacity or size <= capacity:
            return
        origin = ", from malloc or new" if heap_bytes else ""
        sentence = f"its {which} has {capacity} bytes{origin}, and {size} were asked for"
        if writes:
            raise Refused(INVALID_VALUE, f"failed: {sentence}")
        self._report("warning", f"cudaMemcpy: {sentence}: what follows it is copied, too")

    def _find_variable(self, address: int) -> tuple[int, int] | None:
        """Return the (address, bytes) of the variable in `symbols` that contains an address, or None."""
        return next(
            (
                (start, size)
                for start, size in self.symbols.items()
                if start <= address < start + size
            ),
            None,
        )

    def _require_device_memory(self, which: str, address: int, size: int) -> None:
        """Raise `Refused` if there are not `size` bytes of device or pinned memory at an address.

        `which` is the end of the copy, for the message: "source" or "destination".
        """
        span = native.mem_range(address) or self._find_variable(address)  # (base, bytes)
        if not span:
            if self._is_pinned(address):
                return
            what = f"failed: its {which} {address & UNSIGNED:#x} is no device memory"
            if name := native.variable_at(address):
                use = (
                    f"cudaMemcpyToSymbol({name},"
                    if which == "destination"
                    else f"cudaMemcpyFromSymbol(..., {name},"
                )
                raise Refused(
                    INVALID_VALUE,
                    f"{what} but the variable {name}: if it is __constant__ or __device__, "
                    f"use {use} ...)",
                )
            why = "a host pointer, never allocated, or freed"
            raise Refused(INVALID_VALUE, f"{what} ({why}), or the direction of the copy is wrong")
        bytes_left = sum(span) - address
        if size > bytes_left:
            raise Refused(
                INVALID_VALUE,
                f"failed: {size} bytes were asked for, and its {which} has {bytes_left}",
            )

    def cublas_matrix(
        self, address: int, letter: int, rows: int, columns: int, leading: int, size: int
    ) -> None:
        """Raise `Refused` if a matrix of a cuBLAS product is larger than the device memory at its address.

        `letter` is the code of the matrix's name, ord("A"); `leading` is its leading dimension, the
        numbers from a column to the next one; `size` is the number of bytes of a number.
        """
        span = native.mem_range(
            address & UNSIGNED
        )  # (base, bytes): the allocation ends at their sum
        # of the last column only the rows, not the numbers up to a next column
        needed = ((columns - 1) * leading + rows) * size
        left = sum(span) - address if span else 0
        if span and needed > left:
            name = chr(letter)
            hint = (
                f". A matrix is stored by columns here, so ld{name.lower()} is its number of rows"
            )
            raise Refused(
                INVALID_VALUE,
                f"the cuBLAS product failed: {name} needs {needed} bytes, with {columns} columns of "
                f"{rows} numbers, ld{name.lower()} = {leading} from column to column, and its memory "
                f"has {left}{hint if leading > rows else ''}",
            )

    def _is_pinned(self, address: int) -> bool:
        """Return whether an address is in memory of cudaMallocHost or cudaHostRegister."""
        sizes = self.registered | {start: len(storage) for start, storage in self.pinned.items()}
        return any(start <= address < start + size for start, size in sizes.items())

    def cudaMemset(self, address: int, value: int, size: int, stream: int) -> None:
        """Queue a fill of `size` bytes at an address with the low byte of `value`.

        A ``__device__`` variable, which is memory of this process, is filled at once.
        """
        if size:
            self._require_device_memory("destination", address, size)
            if native.mem_range(address) or self._is_pinned(address):
                # elements of 1 byte; False: the call does not wait
                native.memset(1, address, value & 0xFF, size, self._find_stream(stream), False)
            else:
                native.synchronize()  # kernels may still use the variable
                ctypes.memset(address, value & 0xFF, size)

    def cudaMemset2D(
        self, address: int, pitch: int, value: int, width: int, height: int, stream: int
    ) -> None:
        """Queue a fill, as `cudaMemset` does, of `height` rows of `width` bytes that are `pitch` bytes apart."""
        if min(width, height, pitch) < 0:
            raise Refused(INVALID_VALUE, "failed: no rows have so many bytes")
        for row in range(height):
            self.cudaMemset(address + row * pitch, value, width, stream)

    def cudaGetSymbolAddress(self, result_address: int, symbol: int, size: int) -> None:
        """Write the address of a device variable to the program's variable at `result_address`.

        Here `symbol` is this address: the engine keeps device variables in memory of this process. From now
        on, copies may use the variable's `size` bytes.
        """
        self.symbols[symbol] = size
        variable_at(result_address).value = symbol

    def cudaMemcpyToSymbol(
        self, symbol: int, symbol_bytes: int, source: int, size: int, offset: int
    ) -> None:
        """Copy `size` bytes from the address `source` to byte `offset` of the variable at the address `symbol`.

        The variable has `symbol_bytes` bytes.
        """
        self._require_in_variable(symbol, symbol_bytes, size, offset, writes=True)
        self._copy_variable(symbol + offset, source, size)

    def cudaMemcpyFromSymbol(
        self, to: int, symbol: int, symbol_bytes: int, size: int, offset: int
    ) -> None:
        """Copy `size` bytes to the address `to`, from byte `offset` of the variable at the address `symbol`.

        The variable has `symbol_bytes` bytes.
        """
        self._require_in_variable(symbol, symbol_bytes, size, offset, writes=False)
        self._copy_variable(to, symbol + offset, size)

    @staticmethod
    def _copy_variable(to: int, source: int, size: int) -> None:
        """Wait for the device, and copy to or from a device variable: both ends are memory of this process."""
        native.synchronize()
        require_host_memory("failed: its source", source, size, False)
        require_host_memory("failed: its destination", to, size, True)
        ctypes.memmove(to, source, size)

    def _require_in_variable(
        self, symbol: int, symbol_bytes: int, size: int, offset: int, writes: bool
    ) -> None:
        """Raise `Refused` for a copy of `size` bytes at `offset` that leaves a device variable, or is of none.

        `symbol` is the address that the program gave for the variable, which has `symbol_bytes` by its
        type; `writes` says whether the copy writes there.
        """
        address = symbol & UNSIGNED
        # A name in quotes is a string literal, which cannot be written.
        is_quoted = (
            writes
            and not native.variable_at(symbol)
            and not native.is_host_memory(address, 1, True)
        )
        # A cast makes a pointer, which is on the stack, too.
        if symbol_bytes != ctypes.sizeof(ctypes.c_void_p) and native.library().hc_on_stack(address):
            raise Refused(
                INVALID_SYMBOL,
                "failed: its symbol is a local variable of the host, and no __device__ or "
                "__constant__ variable. If one has the same name, the local variable hides it: "
                "rename one of them",
            )
        if is_quoted or self._is_host_pointer(address):
            raise Refused(
                INVALID_SYMBOL,
                "failed: its symbol is no __device__ or __constant__ variable: pass the "
                "variable itself, not its name in quotes, and no pointer of the host",
            )
        if require_size(offset) + require_size(size) > symbol_bytes:
            raise Refused(
                INVALID_VALUE,
                f"failed: {size} bytes at offset {offset} of a variable that has {symbol_bytes}",
            )

    def _is_host_pointer(self, address: int) -> bool:
        """Return whether an address is certainly in the host's heap or this thread's stack: False if in doubt."""
        # A pointer just past the end of device memory is no host pointer.
        if self._is_pinned(address) or any(map(native.mem_range, (address, address - 1))):
            return False
        return bool(
            native.library().hc_host_block(address) or native.library().hc_on_stack(address)
        )
