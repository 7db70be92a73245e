"""Memory whose rows begin at equal distances: pitched allocations, copies of boxes, fills of rectangles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hostcuda.api.deferred import np
from hostcuda.api.memory import (
    DeviceAllocation,
    DevicePointer,
    as_count,
    device_span,
    fill,
    host_span,
    is_pagelocked,
    mem_alloc,
    view,
)
from hostcuda.api.streams import Stream, handle_of
from hostcuda.errors import LogicError
from hostcuda.runtime import native

__all__ = [
    "Memcpy2D",
    "Memcpy3D",
    "mem_alloc_pitch",
    "memset_d2d8",
    "memset_d2d8_async",
    "memset_d2d16",
    "memset_d2d16_async",
    "memset_d2d32",
    "memset_d2d32_async",
]

PITCH = 512  # bytes: the distance of two rows is a multiple of this


def mem_alloc_pitch(width: int, height: int, access_size: int) -> tuple[DeviceAllocation, int]:
    """Allocate device memory for a matrix whose rows begin at multiples of 512 bytes.

    Parameters
    ----------
    width : int
        Bytes per row.
    height : int
        Number of rows.
    access_size : {4, 8, 16}
        Bytes of the largest access that a kernel makes. The pitch fits each of them.

    Returns
    -------
    DeviceAllocation
        `height` rows of the pitch, not of `width`.
    int
        The pitch: the bytes from a row to the next one.

    Raises
    ------
    LogicError
        A size is 0, or `access_size` is another one.
    MemoryError
        There is not that much memory.
    """
    if access_size not in (4, 8, 16):
        raise LogicError(
            f"cuMemAllocPitch failed: invalid argument: access_size is {access_size}, not 4, 8 or 16"
        )
    pitch = -(-as_count(width, "cuMemAllocPitch", "the width") // PITCH) * PITCH  # rounded up
    return mem_alloc(pitch * as_count(height, "cuMemAllocPitch", "the height")), pitch


def _find_host_extent(memory: Any, call: str, writable: bool) -> tuple[int, int, np.ndarray]:
    """Return (address, bytes, array of these bytes) of all that `memory`, a host array, spans.

    Its rows may have a pitch, too. The errors are those of `hostcuda.api.memory.host_span`, to which
    `writable` belongs.
    """
    if not isinstance(memory, np.ndarray) or memory.flags.forc or min(memory.strides) < 0:
        address, size, _ = host_span(memory, call, writable)
    else:
        # one element, which is contiguous
        first = np.lib.stride_tricks.as_strided(memory, (1,) * memory.ndim)
        host_span(first, call, writable)  # refuses an array of no numbers, or a read-only one
        address = memory.ctypes.data
        size = memory.itemsize + sum(
            (n - 1) * step for n, step in zip(memory.shape, memory.strides, strict=True)
        )
    return address, size, view(address, size, memory)


class _CopyEnd:
    """One end of a copy: its memory, where its box begins there, and how far its rows and slices are apart.

    The box begins `x_in_bytes` bytes into row `y` of slice `z`. `pitch` is the bytes from a row to the
    next one, and `height` the rows from a slice to the next one.
    """

    x_in_bytes: int
    y: int
    z: int
    pitch: int
    height: int

    def __init__(self, copy: Memcpy2D, side: str):
        """Read the attributes of a copy's `side`, "src" or "dst"; those that only `Memcpy3D` has are 0 without it."""
        self.name = side
        self.memory, self.on_host = getattr(copy, f"_{side}")
        for name in ("x_in_bytes", "y", "pitch", "z", "height"):
            setattr(self, name, getattr(copy, f"{side}_{name}", 0))

    def list_rows(
        self, call: str, width: int, height: int, depth: int, writable: bool = False
    ) -> tuple[int, list[int], np.ndarray | None]:
        """Return the memory's address, the offset [bytes] of each row of the box in it, and the host array or None.

        The box has `depth` slices of `height` rows of `width` bytes. LogicError (for `call`) if the
        memory lacks them.
        """
        if self.memory is None:
            raise LogicError(
                f"{call} failed: invalid argument: there is no {self.name}: call set_{self.name}_host or "
                f"set_{self.name}_device first"
            )
        single = height * depth == 1  # one row needs no pitch
        if self.pitch < self.x_in_bytes + width and not (single and not self.pitch):
            raise LogicError(
                f"{call} failed: invalid argument: {self.name}_pitch = {self.pitch}, but a row reaches to "
                f"byte {self.x_in_bytes + width}"
            )
        # self.height: the rows from a slice to the next one
        if depth > 1 and self.height < self.y + height:
            raise LogicError(
                f"{call} failed: invalid argument: {self.name}_height = {self.height}, but a slice "
                f"reaches to row {self.y + height}"
            )
        # x_in_bytes, y, z: where the box begins in this memory
        starts = [
            ((self.z + z) * self.height + self.y + y) * self.pitch + self.x_in_bytes
            for z in range(depth)
            for y in range(height)
        ]
        end, array = starts[-1] + width, None
        if self.on_host:
            address, size, array = _find_host_extent(self.memory, call, writable)
            if end > size:
                raise LogicError(
                    f"{call} failed: invalid argument: the box ends at byte {end}, the host array of "
                    f"{self.name} at {size}"
                )
        else:
            address = device_span(self.memory, end, call)
        return address, starts, array


class Memcpy2D:
    """A copy of a rectangle: set its two ends and its size, then call it.

    Attributes
    ----------
    width_in_bytes, height : int
        The rectangle.
    src_x_in_bytes, src_y, src_pitch : int
        Where it begins in the source, and the bytes from a row of the source to the next one.
    dst_x_in_bytes, dst_y, dst_pitch : int
        Likewise in the destination.
    """

    __slots__ = (
        "_dst",
        "_src",
        "dst_pitch",
        "dst_x_in_bytes",
        "dst_y",
        "height",
        "src_pitch",
        "src_x_in_bytes",
        "src_y",
        "width_in_bytes",
    )
    _CALL = "cuMemcpy2D"

    def __init__(self):
        """Set all attributes to 0, as in PyCUDA, also those of a subclass; no end is set yet."""
        for name in (
            name for base in type(self).__mro__ for name in getattr(base, "__slots__", ())
        ):
            setattr(self, name, 0)
        self._src = self._dst = (None, False)  # memory, whether it is on the host

    def set_src_host(self, array: Any) -> None:
        """Set the source: a host array."""
        self._src = array, True  # on the host

    def set_src_device(self, pointer: DevicePointer) -> None:
        """Set the source: device memory, a `DeviceAllocation` or an address."""
        self._src = pointer, False  # not on the host

    def set_dst_host(self, array: Any) -> None:
        """Set the destination: a host array."""
        self._dst = array, True  # on the host

    def set_dst_device(self, pointer: DevicePointer) -> None:
        """Set the destination: device memory, a `DeviceAllocation` or an address."""
        self._dst = pointer, False  # not on the host

    set_src_unified, set_dst_unified = set_src_host, set_dst_host

    def set_src_array(self, array: Any) -> None:
        """Raise LogicError: the engine has no CUDA arrays, the opaque memory of textures, as a source."""
        raise LogicError(
            f"{self._CALL} failed: not supported: the CPU engine has no CUDA arrays; use device memory"
        )

    set_dst_array = set_src_array

    def __call__(self, stream: Stream | bool | None = None, *, aligned: bool = True) -> None:
        """Copy, and wait; with a `Stream` queue the copy there.

        A queued copy to ordinary host memory waits, too, and a copy from device to device never does.
        `aligned` has no effect; PyCUDA also takes it, a bool, as the first argument.

        Raises
        ------
        LogicError
            An end is missing or too small, or a pitch is smaller than a row.
        """
        del aligned
        stream = None if isinstance(stream, bool) else stream  # a bool is `aligned`
        queued = stream is not None
        handle = handle_of(stream)
        width, height, depth = box = tuple(
            as_count(getattr(self, name, 1), self._CALL, name)
            for name in ("width_in_bytes", "height", "depth")
        )
        if not all(box):
            return
        source, source_rows, source_array = _CopyEnd(self, "src").list_rows(
            self._CALL, width, height, depth
        )
        to, to_rows, to_array = _CopyEnd(self, "dst").list_rows(
            self._CALL, width, height, depth, writable=True
        )
        if source_array is not None and to_array is not None:
            raise LogicError(
                f"{self._CALL} failed: invalid argument: both ends are on the host: copy with NumPy"
            )
        kind = "HtoD" if source_array is not None else "DtoH" if to_array is not None else "DtoD"
        host = to_array if source_array is None else source_array
        locked = host is None or is_pagelocked(host.ctypes.data, host.nbytes)
        # the program may change ordinary memory after the call: queue a copy of it
        if queued and source_array is not None and not locked:
            host = source_array.copy()
            source = host.ctypes.data
        # DtoD never waits, as in CUDA
        wait = kind == "DtoH" and not locked if queued else kind != "DtoD"
        for i, (to_row, source_row) in enumerate(zip(to_rows, source_rows, strict=True), 1):
            is_last = i == len(to_rows)  # its copy waits for all: they run in order
            native.memcpy(kind, to + to_row, source + source_row, width, handle, wait and is_last)
        if host is not None and not wait:
            native.keep_alive(handle, host)  # until the stream has copied it


class Memcpy3D(Memcpy2D):
    """A copy of a box: like `Memcpy2D`, with slices of rows.

    Attributes
    ----------
    depth : int
        Slices of the box.
    src_z, src_height, dst_z, dst_height : int
        The first slice, and the rows from a slice to the next one.
    """

    __slots__ = ("depth", "dst_height", "dst_lod", "dst_z", "src_height", "src_lod", "src_z")
    _CALL = "cuMemcpy3D"


def _fill_rows(
    dest: DevicePointer,
    pitch: int,
    data: int,
    width: int,
    height: int,
    size: int,
    stream: Stream | None,
) -> None:
    """Queue a fill of `height` rows, `pitch` bytes apart: `width` words of `size` bytes each get the value `data`.

    LogicError if rows overlap, or the device memory is too small.
    """
    if height > 1 and pitch < width * size:
        raise LogicError(
            f"cuMemsetD2D{8 * size} failed: invalid argument: a pitch of {pitch} bytes for rows of "
            f"{width * size}"
        )
    device_span(
        dest, (height - 1) * pitch + width * size if height else 0, f"cuMemsetD2D{8 * size}"
    )
    for row in range(height):
        fill(int(dest) + row * pitch, data, width, size, stream)


def _make_memset(size: int) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return the functions that fill words of `size` bytes: ``memset_d2d8`` and ``memset_d2d8_async`` for 1."""

    def memset(dest: DevicePointer, pitch: int, data: int, width: int, height: int) -> None:
        _fill_rows(dest, pitch, data, width, height, size, None)

    def memset_async(
        dest: DevicePointer,
        pitch: int,
        data: int,
        width: int,
        height: int,
        stream: Stream | None = None,
    ) -> None:
        _fill_rows(dest, pitch, data, width, height, size, stream)

    memset.__doc__ = f"""Set `width` words of {8 * size} bits in each of `height` rows to `data`.

    `pitch` is the bytes from a row to the next one."""
    memset_async.__doc__ = f"Queue `memset_d2d{8 * size}` on a stream."
    return memset, memset_async


memset_d2d8, memset_d2d8_async = _make_memset(1)
memset_d2d16, memset_d2d16_async = _make_memset(2)
memset_d2d32, memset_d2d32_async = _make_memset(4)
