"""The arrays of the stand-in for CuPy, and the functions of NumPy on them.

An array is in device memory. What NumPy does with arrays of the host is done with copies of it, and
the results are copied back; a view shares the memory.
"""

from __future__ import annotations

import ctypes
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from hostcuda.api import driver

ShapeLike: TypeAlias = int | Iterable[int]
Order: TypeAlias = Literal["K", "A", "C", "F"]

# methods of an array that return a view where they can
_VIEWS = {"reshape", "ravel", "transpose", "squeeze", "swapaxes", "view", "diagonal"}
_IN_PLACE = {"fill", "sort", "partition", "put"}  # methods that change the array
# the last is the one that `with` or `use` has chosen
current_streams: list[driver.Stream | None] = [None]
NOT_HERE = (
    "{} is not in the CPU engine's stand-in for CuPy, which has arrays, RawKernel and RawModule: write the kernel "
    "as a RawKernel, or run the program on a GPU"
)


def _to_host(value: Any) -> Any:
    """Return a value with copies on the host for the arrays in it, also in tuples, lists and dicts."""
    if isinstance(value, ndarray):
        return value._read()
    if isinstance(value, (tuple, list)):
        return type(value)(map(_to_host, value))
    if isinstance(value, dict):
        return {key: _to_host(item) for key, item in value.items()}
    return value


def _to_device(value: Any) -> Any:
    """Return a result of NumPy with its arrays and scalars in device memory, also in tuples and lists.

    A random generator becomes a `Namespace`; what is no number stays as it is.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype.kind not in "biufc":
            return value
        result = _allocate(array.shape, array.dtype, _choose_order(array, "K"))
        result._write(array)
        return result
    if type(value) in (tuple, list):
        return type(value)(map(_to_device, value))
    return Namespace(value) if isinstance(value, np.random.Generator) else value


def _choose_order(like: Any, order: Order | None) -> Literal["C", "F"]:
    """Return "F" or "C", the order of a new array: `order`, or with "K", "A" and None that of the array `like`."""
    if order == "C" or order == "F":
        return order
    return "F" if like.flags.f_contiguous and not like.flags.c_contiguous else "C"


def _allocate(shape: ShapeLike, dtype: DTypeLike, order: Order = "C") -> ndarray:
    """Return an array of this shape and dtype in new device memory, which nothing has set."""
    sizes = tuple(map(int, shape)) if isinstance(shape, Iterable) else (int(shape),)
    count, dtype = int(np.prod(sizes, dtype=np.int64)), np.dtype(dtype)
    memory = driver.mem_alloc(max(1, count * dtype.itemsize))
    buffer: Any = (ctypes.c_char * max(1, count * dtype.itemsize)).from_address(int(memory))
    return ndarray._of(np.ndarray(sizes, dtype, buffer, order=order), memory)


class Pointer:
    """An address of device memory, as ``array.data`` is; `memory` is the object that keeps the memory."""

    def __init__(self, address: int, memory: object):
        self.ptr, self.mem, self.device_id = address, memory, 0

    def __int__(self) -> int:
        return self.ptr


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array in device memory, which nothing has set.

    With `memptr`, it is an array on the memory at that address, with these `strides` in bytes (None:
    contiguous).
    """

    __array_priority__ = 100

    def __init__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike = float,
        memptr: Pointer | None = None,
        strides: tuple[int, ...] | None = None,
        order: Order = "C",
    ):
        new = _allocate(shape, dtype, order or "C")
        self._view, self._memory = new._view, new._memory
        if memptr is not None:
            buffer: Any = (ctypes.c_char * max(1, new.nbytes)).from_address(int(memptr))
            self._view = np.ndarray(new.shape, new.dtype, buffer, strides=strides)
            self._memory = memptr

    @classmethod
    def _of(cls, view: np.ndarray, memory: object) -> ndarray:
        """Return the array with the shape, strides and place of `view`, an array of NumPy on device memory.

        `memory` is what keeps that memory. The elements are never read through `view`: kernels may be
        running, so they are copied.
        """
        array = cls.__new__(cls)
        array._view, array._memory = view, memory
        return array

    # -- copies

    def _span(self) -> tuple[int, int]:
        """Return the first address of the elements, and the number of bytes to the end of the last one."""
        address = self._view.__array_interface__["data"][0]
        if not self._view.size:
            return address, 0
        steps = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low = address + sum(step for step in steps if step < 0)
        return low, address + sum(step for step in steps if step > 0) + self.itemsize - low

    def _copy_to_host(self) -> np.ndarray:
        """Return a copy on the host of all bytes of `_span`, as an array with the same shape and strides."""
        low, size = self._span()
        copy = np.empty(size, np.uint8)
        if size:
            stream = current_streams[-1]
            if stream is None:
                driver.memcpy_dtoh(copy, low)
            else:
                driver.memcpy_dtoh_async(copy, low, stream)
                stream.synchronize()
        offset = self._view.__array_interface__["data"][0] - low
        return np.ndarray(self.shape, self.dtype, copy.data, offset, self.strides)

    def _read(self) -> np.ndarray:
        """Return a copy of the elements on the host."""
        return np.array(self._copy_to_host())

    def _write(self, values: Any) -> None:
        """Set the elements to `values`, an array of the host or a number, and wait."""
        if not self.size:
            return
        low, size = self._span()
        if self._view.flags.forc:  # contiguous in C's or in Fortran's order
            new = np.empty(self.shape, self.dtype, _choose_order(self, "K"))
            new[...] = values
            raw_bytes = new.ravel("K").view(np.uint8)
        else:
            spanned = self._copy_to_host()
            spanned[...] = values
            raw_bytes = spanned.base if isinstance(spanned.base, np.ndarray) else None
            raw_bytes = np.frombuffer(spanned.data, np.uint8) if raw_bytes is None else raw_bytes
        assert raw_bytes.nbytes == size
        stream = current_streams[-1]
        if stream is None:
            driver.memcpy_htod(low, raw_bytes)
        else:
            driver.memcpy_htod_async(low, raw_bytes, stream)
            stream.synchronize()

    def get(
        self,
        stream: driver.Stream | None = None,
        order: Order = "C",
        out: np.ndarray | None = None,
        blocking: bool = True,
    ) -> np.ndarray:
        """Return a copy on the host, in `out` if that is given, else in a new array of this order.

        Before that, wait for the work of `stream`. `blocking` has no effect: the call always waits.
        """
        if stream is not None:
            stream.synchronize()
        if out is None:
            return np.array(self._copy_to_host(), order=order)
        out[...] = self._copy_to_host()
        return out

    def set(self, arr: ArrayLike, stream: driver.Stream | None = None) -> None:
        """Copy an array of the host into this one, after the work of `stream`, and wait."""
        if stream is not None:
            stream.synchronize()
        self._write(np.asarray(arr, self.dtype))

    def copy(self, order: Order = "C") -> ndarray:
        """Return a copy in device memory, with elements in this order."""
        return _to_device(np.array(self._copy_to_host(), order=order))

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        """Raise a TypeError, as CuPy does: NumPy calls this to convert the array."""
        raise TypeError(
            "CuPy does not convert an array of the device to NumPy by itself: write array.get() or cupy.asnumpy(array)"
        )

    # -- what a kernel and other packages take

    @property
    def data(self) -> Pointer:
        """The address of the first element, as a `Pointer`, which keeps the memory allocated."""
        return Pointer(self._view.__array_interface__["data"][0], self._memory)

    @property
    def __cuda_array_interface__(self) -> dict:
        """The address, shape and dtype, by which a kernel takes the array; warn if it is not contiguous."""
        if not self._view.flags.c_contiguous:
            warnings.warn(
                f"an array of shape {self.shape} with strides {self.strides} is passed by its address: a kernel that "
                "takes it to be contiguous reads other elements. Pass cupy.ascontiguousarray(array)",
                stacklevel=3,
            )
        interface = self._view.__array_interface__
        return {
            "shape": self.shape,
            "typestr": interface["typestr"],
            "data": (interface["data"][0], False),
            "strides": None if self._view.flags.c_contiguous else self.strides,
            "version": 3,
        }

    @property
    def _filled(self) -> np.dtype:
        """The dtype: `hostcuda.api.kernels.Function` compares it with the type of its parameter."""
        return self.dtype

    # -- NumPy's protocols, indices, numbers

    def __getattr__(self, name: str) -> Any:
        """Return an attribute or method of NumPy's arrays for this array; AttributeError if it is not here.

        A method returns a view on the same memory if NumPy's does (`_VIEWS`), else a result that was
        computed on a copy.
        """
        if name in ("shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides", "flags"):
            return getattr(self._view, name)
        if name in ("T", "real", "imag"):
            return ndarray._of(getattr(self._view, name), self._memory)
        if name in _VIEWS:
            return lambda *args, **named: self._make_view(name, args, named)
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(NOT_HERE.format(f"cupy.ndarray.{name}"))

        def call(*args: Any, **named: Any) -> Any:
            """Call NumPy's method on a copy; write that back if the method changes it."""
            copy, out = self._read(), named.pop("out", None)
            result = getattr(copy, name)(*_to_host(args), **_to_host(named))
            if name in _IN_PLACE:
                self._write(copy)
            if out is not None:
                out._write(result)
                return out
            return result if name in ("tolist", "tobytes", "item") else _to_device(result)

        return call

    def _make_view(self, name: str, args: Sequence, named: dict) -> ndarray:
        """Call a method of `_VIEWS`; return an array that shares the memory, or a copy where NumPy makes one."""
        # If NumPy makes a copy of the memory here, kernels may not have finished: it is thrown away.
        view = getattr(self._view, name)(*args, **named)
        if not view.size or np.may_share_memory(view, self._view):
            return ndarray._of(view, self._memory)
        return _to_device(getattr(self._read(), name)(*args, **named))

    @staticmethod
    def _is_basic(index: Any) -> bool:
        """Return whether an index makes a view: integers, slices, None and ... only."""
        parts = index if isinstance(index, tuple) else (index,)
        return all(
            part is None or part is Ellipsis or isinstance(part, (slice, int, np.integer))
            for part in parts
            if not isinstance(part, bool)
        ) and not any(isinstance(part, (bool, np.bool_)) for part in parts)

    def __getitem__(self, index: Any) -> ndarray:
        if self._is_basic(index):
            parts = index if isinstance(index, tuple) else (index,)
            more = () if any(part is Ellipsis for part in parts) else (Ellipsis,)
            return ndarray._of(self._view[(*parts, *more)], self._memory)
        return _to_device(self._read()[_to_host(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        if self._is_basic(index):
            self[index]._write(_to_host(value))
            return
        copy = self._read()
        copy[_to_host(index)] = _to_host(value)
        self._write(copy)

    def __array_ufunc__(
        self,
        ufunc: np.ufunc,
        method: str,
        *inputs: Any,
        out: tuple[ndarray, ...] | None = None,
        **named: Any,
    ) -> Any:
        if any(isinstance(value, np.ndarray) and value.ndim for value in inputs):
            raise TypeError(
                "an array of NumPy and one of CuPy in one operation: convert it by cupy.asarray(array)"
            )
        result = getattr(ufunc, method)(*_to_host(inputs), **_to_host(named))
        if out is None:
            return _to_device(result)
        results = result if isinstance(result, tuple) else (result,)
        for array, values in zip(out, results, strict=True):
            if not np.can_cast(values.dtype, array.dtype, "same_kind"):
                raise TypeError(f"{values.dtype} cannot be cast to {array.dtype} in place")
            array._write(values)
        return out[0] if len(out) == 1 else out

    def __array_function__(
        self, function: Callable[..., Any], types_: object, args: Sequence, named: dict
    ) -> Any:
        return _call(function, args, named)

    def __len__(self) -> int:
        return len(self._view)

    def __iter__(self) -> Iterator[ndarray]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self._read())

    def __int__(self) -> int:
        return int(self._read())

    def __index__(self) -> int:
        return self._read().item().__index__()

    def __float__(self) -> float:
        return float(self._read())

    def __complex__(self) -> complex:
        return complex(self._read())

    def __repr__(self) -> str:
        return repr(self._read())

    def __str__(self) -> str:
        return str(self._read())

    def __format__(self, spec: str) -> str:
        return format(self._read() if self.ndim else self._read()[()], spec)


def _call(function: Callable[..., Any], args: Sequence, named: dict) -> Any:
    """Call a function of NumPy on copies of its arguments on the host; return the result in device memory.

    If `named` has an array ``out``, the result is written there, and it is returned.
    """
    named = dict(named)
    out = named.pop("out", None)
    result = function(*_to_host(tuple(args)), **_to_host(named))
    if out is None:
        return _to_device(result)
    out._write(result)
    return out


class Namespace:
    """A module or object of NumPy whose functions take and return arrays of the device."""

    def __init__(self, inner: Any):
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return find_function(self._inner, name)


def find_function(inner: Any, name: str) -> Any:
    """Return the attribute `name` of `inner` (NumPy or a module of it) for a program that uses CuPy.

    A function takes and returns CuPy arrays; a module becomes a `Namespace` of such functions.
    """
    try:
        found = getattr(inner, name)
    except AttributeError:
        raise AttributeError(NOT_HERE.format(name)) from None
    if isinstance(found, types.ModuleType):
        return Namespace(found)
    if isinstance(found, type) or not callable(found):  # float32, pi: CuPy has the same
        return found

    def call(*args: Any, **named: Any) -> Any:
        """Call NumPy's function; functions of random numbers also take the argument `dtype`, as in CuPy."""
        dtype = named.pop("dtype", None) if inner is np.random else None
        result = _call(found, args, named)
        return result if dtype is None else result.astype(dtype)

    call.__name__, call.__doc__ = name, found.__doc__
    return call


def array(
    obj: Any, dtype: DTypeLike | None = None, copy: bool = True, order: Order = "K", ndmin: int = 0
) -> ndarray:
    """Return an array in device memory with the values of an array or of nested lists.

    If `copy` is False, an array of the device that already has this dtype, this order and `ndmin`
    axes is returned itself.
    """
    if (
        not copy
        and isinstance(obj, ndarray)
        and dtype in (None, obj.dtype)
        and obj.ndim >= ndmin
        and (order not in ("C", "F") or obj.flags[f"{order}_CONTIGUOUS"])
    ):
        return obj
    return _to_device(np.array(_to_host(obj), dtype=dtype, order=order, ndmin=ndmin))


def asarray(a: Any, dtype: DTypeLike | None = None, order: Order | None = None) -> ndarray:
    """Return an array of the device with the values of `a`: `a` itself if it is one, of this dtype and order."""
    return array(a, dtype, copy=False, order=order or "K")


def ascontiguousarray(a: Any, dtype: DTypeLike | None = None) -> ndarray:
    """Return an array in C's order with the values of `a`: `a` itself if it is one with this dtype (None: any)."""
    return array(a, dtype, copy=False, order="C")


def asnumpy(
    a: Any,
    stream: driver.Stream | None = None,
    order: Order = "C",
    out: np.ndarray | None = None,
    blocking: bool = True,
) -> np.ndarray:
    """Return the values of `a` as an array of NumPy.

    If `a` is on the device, they are copied, see `ndarray.get`; else `out` has no effect.
    `blocking` never has an effect.
    """
    return a.get(stream, order, out) if isinstance(a, ndarray) else np.asarray(a, order=order)


def empty(shape: ShapeLike, dtype: DTypeLike = float, order: Order = "C") -> ndarray:
    """Return a new array in device memory, which is not initialized: check mode reports a kernel that reads it."""
    return _allocate(shape, dtype, order)


def empty_like(
    prototype: Any,
    dtype: DTypeLike | None = None,
    order: Order = "K",
    subok: bool | None = None,
    shape: ShapeLike | None = None,
) -> ndarray:
    """Return a new array that is not initialized, with the shape, dtype and order of `prototype` if they are not given.

    `subok` has no effect.
    """
    if shape is None:
        return _allocate(prototype.shape, dtype or prototype.dtype, _choose_order(prototype, order))
    # the prototype's order means nothing for another shape: "K" and "A" become "C"
    return _allocate(shape, dtype or prototype.dtype, "F" if order == "F" else "C")


def get_array_module(*args: Any) -> types.ModuleType:
    """Return this module if one of the arguments is an array of the device, else NumPy."""
    return sys.modules["cupy"] if any(isinstance(arg, ndarray) for arg in args) else np


class _Pool:
    """The pool of device memory, which keeps nothing."""

    def free_all_blocks(self, stream: object = None) -> None:
        """Do nothing: memory is freed when its array is gone, and not kept here."""

    def used_bytes(self) -> int:
        """Return 0: the pool keeps no memory."""
        return 0

    total_bytes = free_bytes = n_free_blocks = used_bytes


def get_default_memory_pool() -> _Pool:
    """Return the pool of device memory; a `_Pool` has no state of its own, so each call may make one."""
    return _Pool()


get_default_pinned_memory_pool = get_default_memory_pool
