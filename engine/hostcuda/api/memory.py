"""Device allocations, copies, fills and page-locked host arrays.

Copies follow CUDA's rules. An asynchronous copy from ordinary (pageable) host memory reads its data
during the call; one into ordinary memory returns when the data have arrived. Only page-locked
memory is copied in the background.
"""

from __future__ import annotations

import enum
from bisect import bisect_right, insort
from collections.abc import Callable
from operator import index
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hostcuda import errors
from hostcuda.api.deferred import np
from hostcuda.api.streams import Stream, handle_of
from hostcuda.errors import LogicError, type_of
from hostcuda.runtime import native

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = [
    "ArgumentHandler",
    "DeviceAllocation",
    "HostAllocation",
    "In",
    "InOut",
    "ManagedAllocation",
    "Out",
    "PagelockedHostAllocation",
    "PointerHolderBase",
    "RegisteredHostMemory",
    "aligned_empty",
    "aligned_empty_like",
    "aligned_zeros",
    "aligned_zeros_like",
    "from_device",
    "from_device_like",
    "host_alloc_flags",
    "managed_empty",
    "managed_empty_like",
    "managed_zeros",
    "managed_zeros_like",
    "mem_alloc",
    "mem_alloc_like",
    "mem_attach_flags",
    "mem_host_register_flags",
    "memcpy_dtod",
    "memcpy_dtod_async",
    "memcpy_dtoh",
    "memcpy_dtoh_async",
    "memcpy_htod",
    "memcpy_htod_async",
    "memset_d8",
    "memset_d8_async",
    "memset_d16",
    "memset_d16_async",
    "memset_d32",
    "memset_d32_async",
    "pagelocked_empty",
    "pagelocked_empty_like",
    "pagelocked_zeros",
    "pagelocked_zeros_like",
    "register_host_memory",
    "to_device",
]

Order: TypeAlias = Literal["C", "F"]  # of the elements in memory
# Device memory as a call takes it: an allocation, an object with ``get_pointer``, or an address.
DevicePointer: TypeAlias = "DeviceAllocation | PointerHolderBase | int"


def as_count(number: object, call: str, what: str) -> int:
    """Return `number` if it is a non-negative Python int; like PyCUDA, raise TypeError or OverflowError otherwise.

    The message says which number it is: `what` ("the count") of `call` ("cuMemsetD8").
    """
    if not isinstance(number, int):
        raise errors.TypeError(
            f"{call}: {what} must be a Python int, not {type(number).__name__}: write int(...)"
        )
    if number < 0:
        raise OverflowError(f"{call}: {what} is negative: {number}")
    return number


# --------------------------------------------------------------------------------------------------
# Device memory


class DeviceAllocation:
    """Device memory, freed with its last reference. ``int(allocation)`` is its address."""

    __slots__ = ("__weakref__", "_address", "_filled", "_size")

    def __init__(self, address: int, size: int):
        self._address, self._size = address, size
        # the dtype of the array that was copied here: a launch warns of pointers to other types
        self._filled: np.dtype | None = None

    def __index__(self) -> int:
        self._filled = None  # who knows the address may write other types there
        if self._address is None:
            raise LogicError(
                "the device memory is used after it was freed: allocate it again, or free() it later"
            )
        return self._address

    __int__ = __index__

    def free(self) -> None:
        """Free the memory now; any later use is an error."""
        # `index` raises LogicError if it was freed before
        address, self._address = index(self), None
        native.mem_free(address)

    def as_buffer(self, size: int, offset: int = 0) -> memoryview:
        """Return `size` bytes from `offset` on as a writable buffer: on this engine, device memory is host memory.

        LogicError if the allocation does not have these bytes.
        """
        device_span(index(self) + offset, size, "as_buffer")
        return view(index(self) + offset, size, self).data

    def __del__(self) -> None:
        if self._address is not None:
            native.mem_release(self._address)

    def __repr__(self) -> str:
        return f"<DeviceAllocation of {native.format_bytes(self._size)}{'' if self._address else ', freed'}>"


class PointerHolderBase:
    """Base of users' classes for device memory: their ``get_pointer`` gives its address."""

    get_pointer: Callable[[], int]

    @property
    def gpudata(self) -> int:
        """The address of the device memory, under the name that PyCUDA's arrays have for it."""
        return self.get_pointer()

    def __int__(self) -> int:
        return self.get_pointer()

    __index__ = __int__


def mem_alloc(size: int) -> DeviceAllocation:
    """Allocate device memory.

    Parameters
    ----------
    size : int
        Bytes. The memory holds 0xFF bytes (NaN as float) until it is written.

    Raises
    ------
    MemoryError
        There is not that much memory; the message has the numbers.
    LogicError
        The size is 0.
    """
    size = as_count(size, "cuMemAlloc", "the number of bytes")
    if size == 0:
        raise LogicError(f"cuMemAlloc failed: invalid argument: {size} bytes were requested")
    return DeviceAllocation(native.mem_alloc(size), size)


def mem_alloc_like(array: Any) -> DeviceAllocation:
    """Allocate as many bytes of device memory as `array` has; raises as `mem_alloc` does."""
    return mem_alloc(array.nbytes)


def device_span(
    pointer: DevicePointer,
    size: int,
    call: str,
    host_array: np.ndarray | None = None,
    fills: bool = False,
) -> int:
    """Check that `size` bytes at a device pointer can be accessed, and return its address as an int.

    Else raise TypeError or LogicError; `call`, the driver's function, begins the message.
    `host_array` is the other side of a copy. If the copy `fills` a `DeviceAllocation`, that notes
    the array's dtype, so that a launch can warn of a pointer to another type.
    """
    if not isinstance(pointer, (DeviceAllocation, PointerHolderBase, int)):
        raise errors.TypeError(
            f"{call}: a device pointer is a DeviceAllocation or a Python int, not "
            f"{type(pointer).__name__}; it comes first in memcpy_htod, second in memcpy_dtoh"
        )
    # `index` forgets a dtype that was noted before, and raises LogicError if the memory was freed
    address = index(pointer)
    if size == 0:
        return address
    # an allocation, or a variable that `get_global` has returned
    span = native.mem_range(address) or native.variable_range(address)
    if span is None:
        raise LogicError(
            f"{call} failed: invalid argument: {address:#x} is not device memory (never allocated, or "
            "freed)"
        )
    base, total = span
    left = base + total - address
    if size > left:
        text = f"{call} failed: invalid argument: {size} bytes do not fit in the {left} that the device memory has"
        if address != base:
            text += f" from offset {address - base}"
        if isinstance(host_array, np.ndarray) and host_array.dtype.itemsize > 1:
            text += f"; the host array is {host_array.dtype} of shape {host_array.shape}"
            if size == 2 * left:  # the memory may have been allocated for a type of half the size
                half = {"float64": "float32", "int64": "int32", "float32": "float16"}.get(
                    host_array.dtype.name
                )
                text += f": did you mean .astype(np.{half})?" if half else ""
        raise LogicError(text)
    if host_array is not None and fills and isinstance(pointer, DeviceAllocation):
        pointer._filled = host_array.dtype
    return address


# --------------------------------------------------------------------------------------------------
# Host memory


def host_span(obj: Any, call: str, writable: bool = False) -> tuple[int, int, np.ndarray]:
    """Return (address, bytes, array) of `obj`, the host side of a copy by `call`, e.g. "cuMemcpyHtoD".

    The array is `obj` itself, or an array of bytes on the memory of another buffer. TypeError,
    ValueError or BufferError if it has no bytes, is not contiguous, or should be `writable` and is not.
    """
    array = obj
    if not isinstance(obj, np.ndarray):
        try:
            array = np.frombuffer(obj, np.uint8)
        except (TypeError, ValueError, BufferError, AttributeError):
            hint = ": the arguments may be in the wrong order" if hasattr(obj, "__index__") else ""
            raise errors.TypeError(
                f"{call}: the host side is {type_of(obj)}; a NumPy array or another buffer is "
                f"needed{hint}"
            ) from None
    flags = array.flags
    if not flags.forc:  # contiguous in neither order, C's nor Fortran's
        raise ValueError(
            f"{call}: the host array is not contiguous (shape {array.shape}, strides {array.strides}); "
            "copy it first with np.ascontiguousarray"
        )
    if writable and not flags.writeable:
        raise BufferError(
            f"{call}: the host array is read-only; give a writable one, e.g. np.empty_like(...)"
        )
    if array.dtype.hasobject:
        raise errors.TypeError(
            f"{call}: an array of Python objects has no bytes to copy; convert it, e.g. "
            ".astype(np.float32)"
        )
    return array.ctypes.data, array.nbytes, array


_page_locked = []  # sorted (address, end) of page-locked host memory


def is_pagelocked(address: int, size: int) -> bool:
    """Return whether `size` bytes of host memory at `address` are in one page-locked allocation."""
    # _page_locked has (begin, end) of each, sorted: find the last one that begins at or before the address
    last = bisect_right(_page_locked, (address, float("inf"))) - 1
    return last >= 0 and address + size <= _page_locked[last][1]


def view(address: int, size: int, owner: object) -> np.ndarray:
    """Return `size` bytes of memory at an address as a writable array, which keeps `owner` alive."""
    # NumPy's array interface: False is "not read-only", "|u1" an unsigned byte
    interface = {"data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3}
    return np.asarray(SimpleNamespace(owner=owner, __array_interface__=interface))


class PagelockedHostAllocation:
    """Page-locked memory: the ``base`` of an array from `pagelocked_empty` or `register_host_memory`."""

    def __init__(self, array: np.ndarray):
        """Page-lock the memory of a contiguous array; ``np.asarray`` of this object is an array like it."""
        # keeps the memory alive
        self._array, self._address, self._size = (array, array.ctypes.data, array.nbytes)
        self.__array_interface__ = array.__array_interface__
        insort(_page_locked, (self._address, self._address + self._size))
        native.map_host_memory(self._address, self._size)

    def get_device_pointer(self) -> int:
        """Return the address by which kernels access this host memory."""
        return self._address

    def get_flags(self) -> int:
        """Return the flags of the allocation: always 0, as none has an effect on the CPU engine."""
        return 0

    def free(self) -> None:
        """Unlock the pages of the memory, if they are still locked; the memory is freed with the last array in it."""
        span = (self._address, self._address + self._size)
        if span in _page_locked:
            _page_locked.remove(span)
            native.map_host_memory(self._address, 0)  # 0 bytes: kernels may no longer use it

    __del__ = unregister = free


HostAllocation = RegisteredHostMemory = PagelockedHostAllocation


# Accepted by `pagelocked_empty`, `register_host_memory` and `managed_empty`, without effect here.
host_alloc_flags = enum.IntFlag("host_alloc_flags", "PORTABLE DEVICEMAP WRITECOMBINED")
mem_host_register_flags = enum.IntFlag("mem_host_register_flags", "PORTABLE DEVICEMAP")
mem_attach_flags = enum.IntFlag("mem_attach_flags", "GLOBAL HOST SINGLE")


def aligned_empty(
    shape: int | tuple, dtype: DTypeLike, order: Order = "C", alignment: int = 4096
) -> np.ndarray:
    """Return an uninitialized host array whose address is a multiple of `alignment` bytes.

    `order` is that of the elements in memory, "C" or "F". ValueError if `alignment` is no power of two.
    """
    if alignment <= 0 or alignment & (alignment - 1):
        raise ValueError(f"alignment must be a power of two, not {alignment}")
    dtype = np.dtype(dtype)
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    # more than the array needs, so that it can begin at an aligned address
    storage = np.empty(size + alignment, np.uint8)
    start = -storage.ctypes.data % alignment  # bytes to the first aligned address
    return storage[start : start + size].view(dtype).reshape(shape, order=order)


def _find_order(array: np.ndarray) -> Order:
    """Return "C" or "F", the order of a contiguous array; ValueError if it is not contiguous."""
    if array.flags.c_contiguous:
        return "C"
    if array.flags.f_contiguous:
        return "F"
    raise ValueError(
        f"the array is not contiguous (shape {array.shape}, strides {array.strides}), so it has no order "
        "to copy"
    )


def _make_likes(empty: Callable) -> tuple[Callable, Callable, Callable]:
    """Return the functions ``NAME_zeros``, ``NAME_empty_like`` and ``NAME_zeros_like``, made from ``NAME_empty``."""

    def zeros(
        shape: int | tuple[int, ...],
        dtype: DTypeLike,
        order: Order = "C",
        *options: Any,
        **named: Any,
    ) -> np.ndarray:  # the docstrings of these three are set below
        result = empty(shape, dtype, order, *options, **named)
        result.fill(0)
        return result

    def empty_like(array: Any, *options: Any, **named: Any) -> np.ndarray:
        return empty(array.shape, array.dtype, _find_order(array), *options, **named)

    def zeros_like(array: Any, *options: Any, **named: Any) -> np.ndarray:
        return zeros(array.shape, array.dtype, _find_order(array), *options, **named)

    zeros.__doc__ = f"`{empty.__name__}`, zeroed."
    empty_like.__doc__ = f"`{empty.__name__}` with the shape, dtype and order of `array`."
    zeros_like.__doc__ = f"`{empty.__name__}` with the shape, dtype and order of `array`, zeroed."
    return zeros, empty_like, zeros_like


aligned_zeros, aligned_empty_like, aligned_zeros_like = _make_likes(aligned_empty)


def pagelocked_empty(
    shape: int | tuple[int, ...], dtype: DTypeLike, order: Order = "C", mem_flags: int = 0
) -> np.ndarray:
    """Return an uninitialized page-locked host array, for copies in the background; `mem_flags` have no effect."""
    del mem_flags
    return np.asarray(PagelockedHostAllocation(aligned_empty(shape, dtype, order)))


pagelocked_zeros, pagelocked_empty_like, pagelocked_zeros_like = _make_likes(pagelocked_empty)


def register_host_memory(array: Any, flags: int = 0) -> np.ndarray:
    """Page-lock an existing array; return an array on the same memory, whose ``base.unregister()`` unlocks it.

    The `flags` have no effect. Raises ValueError if the array is not contiguous, BufferError if it is
    read-only.
    """
    del flags
    _, _, checked = host_span(array, "cuMemHostRegister", writable=True)
    return np.asarray(RegisteredHostMemory(checked))


# --------------------------------------------------------------------------------------------------
# Managed memory: on this engine, device memory is host memory


class ManagedAllocation(DeviceAllocation):
    """The ``base`` of an array from `managed_empty`. The array must not be used after `free`."""

    __slots__ = ("__array_interface__",)

    def get_device_pointer(self) -> int:
        """Return the address for kernels, which is that of the array on the host: both use the same memory."""
        return index(self)

    def attach(self, mem_flags: int, stream: Stream | None = None) -> None:
        """Do nothing: attaching has no effect here."""


def managed_empty(
    shape: int | tuple[int, ...], dtype: DTypeLike, order: Order = "C", mem_flags: int = 0
) -> np.ndarray:
    """Return an array of managed memory, which the host uses as an array and kernels take as an argument.

    The host may use it while no kernel does: call `Context.synchronize` first. It holds zeros, as
    on a GPU. The `mem_flags` have no effect.
    """
    del mem_flags
    like = np.empty(shape, dtype, order)  # only its strides are needed
    address = native.mem_alloc(max(like.nbytes, 1))
    # 1: single bytes, which become 0, on the default stream (None); True: wait
    native.memset(1, address, 0, like.nbytes, None, True)
    allocation = ManagedAllocation(address, like.nbytes)
    # False: not read-only
    allocation.__array_interface__ = {**like.__array_interface__, "data": (address, False)}
    return np.asarray(allocation)


_, managed_empty_like, _ = _make_likes(managed_empty)
managed_zeros, managed_zeros_like = managed_empty, managed_empty_like  # which hold zeros


def is_managed(array: Any) -> bool:
    """Return whether an array is managed memory, or a view of it."""
    while isinstance(array, np.ndarray):
        array = array.base  # of a view the array, and at last what owns the memory
    return isinstance(array, ManagedAllocation)


# --------------------------------------------------------------------------------------------------
# Copies


def memcpy_htod(dest: DevicePointer, src: Any) -> None:
    """Copy the host array `src` to device memory, and wait.

    Raises
    ------
    LogicError
        There are more bytes than the device memory has, or `dest` is not device memory.
    ValueError
        The array is not contiguous.
    LaunchError
        A kernel before the copy faulted.
    """
    address, size, array = host_span(src, "cuMemcpyHtoD")
    native.memcpy(
        "HtoD",
        device_span(dest, size, "cuMemcpyHtoD", array, fills=True),
        address,
        size,
        None,  # no stream
        True,  # wait
    )


def memcpy_htod_async(dest: DevicePointer, src: Any, stream: Stream | None = None) -> None:
    """Queue a copy of the host array `src` to the device memory `dest`; raises as `memcpy_htod` does.

    Page-locked memory must stay unchanged until the copy is done; other memory is read during the call.
    """
    address, size, array = host_span(src, "cuMemcpyHtoDAsync")
    to = device_span(dest, size, "cuMemcpyHtoDAsync", array, fills=True)
    if not is_pagelocked(address, size):  # the program may change it after the call
        array = array.copy(order="K")
        address = array.ctypes.data
    stream_handle = handle_of(stream)
    native.memcpy("HtoD", to, address, size, stream_handle, False)  # do not wait
    native.keep_alive(stream_handle, array)  # until the stream has copied it


def memcpy_dtoh(dest: Any, src: DevicePointer) -> None:
    """Copy as many bytes of the device memory `src` as the host array `dest` has, and wait.

    BufferError if `dest` is read-only; else the errors of `memcpy_htod`.
    """
    address, size, array = host_span(dest, "cuMemcpyDtoH", writable=True)
    source = device_span(src, size, "cuMemcpyDtoH", array)
    native.memcpy("DtoH", address, source, size, None, True)  # on the default stream; wait


def memcpy_dtoh_async(dest: Any, src: DevicePointer, stream: Stream | None = None) -> None:
    """Queue a copy from the device memory `src` to the host array `dest`; raises as `memcpy_dtoh` does.

    Into ordinary memory it waits; into page-locked memory it returns at once.
    """
    address, size, array = host_span(dest, "cuMemcpyDtoHAsync", writable=True)
    source = device_span(src, size, "cuMemcpyDtoHAsync", array)
    stream_handle, wait = handle_of(stream), not is_pagelocked(address, size)
    native.memcpy("DtoH", address, source, size, stream_handle, wait)
    if not wait:
        native.keep_alive(stream_handle, array)  # until the stream has written to it


def memcpy_dtod(dest: DevicePointer, src: DevicePointer, size: int) -> None:
    """Queue a copy of `size` bytes from `src` to `dest`, both on the device, in the default stream; do not wait."""
    memcpy_dtod_async(dest, src, size)


def memcpy_dtod_async(
    dest: DevicePointer, src: DevicePointer, size: int, stream: Stream | None = None
) -> None:
    """Queue a copy of `size` bytes from `src` to `dest`, both on the device; LogicError if one has fewer bytes."""
    size = as_count(size, "cuMemcpyDtoD", "the number of bytes")
    to, source = device_span(dest, size, "cuMemcpyDtoD"), device_span(src, size, "cuMemcpyDtoD")
    native.memcpy("DtoD", to, source, size, handle_of(stream), False)  # do not wait


def fill(dest: DevicePointer, data: int, count: int, width: int, stream: Stream | None) -> None:
    """Queue a fill of device memory on a stream: `count` words of `width` bytes get the value `data`.

    LogicError if `dest` is not aligned to `width` or has fewer words; OverflowError if `data` needs more
    bytes.
    """
    call = f"cuMemsetD{8 * width}"
    value, count = as_count(data, call, "the value"), as_count(count, call, "the count")
    if value >= 1 << (8 * width):  # bits
        raise OverflowError(f"{call}: the value {value} has more than {width} bytes")
    address = device_span(dest, width * count, call)
    if address % width:
        raise LogicError(
            f"{call} failed: invalid argument: {address:#x} is not a multiple of {width}"
        )
    native.memset(width, address, value, count, handle_of(stream), False)  # do not wait


def _make_memset(width: int) -> tuple[Callable, Callable]:
    """Return the functions that fill words of `width` bytes: ``memset_d8`` and ``memset_d8_async`` for 1."""

    def memset(dest: DevicePointer, data: int, count: int) -> None:
        fill(dest, data, count, width, None)

    def memset_async(
        dest: DevicePointer, data: int, count: int, stream: Stream | None = None
    ) -> None:
        fill(dest, data, count, width, stream)

    memset.__doc__ = f"Set `count` words of {8 * width} bits to `data`."
    memset_async.__doc__ = f"Queue `memset_d{8 * width}` on a stream."
    return memset, memset_async


memset_d8, memset_d8_async = _make_memset(1)
memset_d16, memset_d16_async = _make_memset(2)
memset_d32, memset_d32_async = _make_memset(4)


def to_device(bf_obj: Any) -> DeviceAllocation:
    """Allocate device memory and fill it with a copy of `bf_obj`, an array or another buffer, and wait.

    An array is copied in C order, whatever its own order is.
    """
    array = np.ascontiguousarray(bf_obj) if isinstance(bf_obj, np.ndarray) else bf_obj
    _, size, array = host_span(array, "to_device")
    result = mem_alloc(size)
    memcpy_htod(result, array)
    return result


def from_device(
    devptr: DevicePointer, shape: int | tuple[int, ...], dtype: DTypeLike, order: Order = "C"
) -> np.ndarray:
    """Copy device memory into a new host array of this shape, dtype and order, and wait; raises as `memcpy_dtoh`."""
    result = np.empty(shape, dtype, order)
    memcpy_dtoh(result, devptr)
    return result


def from_device_like(devptr: DevicePointer, other_ary: np.ndarray) -> np.ndarray:
    """Copy device memory into a new host array with the shape, dtype and order of `other_ary`, and wait."""
    result = np.empty_like(other_ary)
    memcpy_dtoh(result, devptr)
    return result


# --------------------------------------------------------------------------------------------------
# Arrays as kernel arguments


class ArgumentHandler:
    """A host array whose copies to and from the device a kernel call makes itself."""

    def __init__(self, ary: np.ndarray):
        self.array = ary
        self.dev_alloc = None  # see `get_device_alloc`

    def get_device_alloc(self) -> DeviceAllocation:
        """Return the device memory for the array; the first call allocates it, and does not copy."""
        if self.dev_alloc is None:
            if not hasattr(self.array, "nbytes"):
                raise errors.TypeError(
                    f"In, Out and InOut need a NumPy array, not {type(self.array).__name__}"
                )
            self.dev_alloc = mem_alloc_like(self.array)
        return self.dev_alloc

    def pre_call(self, stream: Stream | None) -> None:
        """Prepare the array before a launch on a stream (None: the default one); subclasses copy it or check it."""


class In(ArgumentHandler):
    """An array that is copied to the device before the kernel runs."""

    def pre_call(self, stream: Stream | None) -> None:
        """Copy the array to the device before the launch, and wait; the stream has no effect."""
        memcpy_htod(self.get_device_alloc(), self.array)


class Out(ArgumentHandler):
    """An array that is copied back after the kernel has run."""

    def pre_call(self, stream: Stream | None) -> None:
        """Raise BufferError, before the launch, if the array cannot be written; the stream has no effect."""
        host_span(self.array, "Out", writable=True)

    def post_call(self, stream: Stream | None) -> None:
        """Copy the device memory to the array, after the kernel."""
        memcpy_dtoh(self.array, self.get_device_alloc())


class InOut(In, Out):
    """An array that is copied both ways."""

    def pre_call(self, stream: Stream | None) -> None:
        """Before the launch, check that the array can be written, and copy it to the device, whatever the stream."""
        Out.pre_call(self, stream)
        In.pre_call(self, stream)
