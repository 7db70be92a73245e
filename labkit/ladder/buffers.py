"""Device buffers: allocated together and freed together, and searched for NaN without leaving the device."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

import hostcuda
from labkit.base.paths import cuda_src
from labkit.ladder.rung import tiles
from labkit.ladder.source import module_arguments

DeviceBuffer: TypeAlias = Any  # a DeviceAllocation, of PyCUDA or of the CPU engine, or an address

_THREADS = 256  # per block


class Closing(AbstractContextManager):
    """An object whose method `close` is called at the end of a `with` block, also after an error."""

    @abstractmethod
    def close(self) -> None:
        """Free what the object holds, as `Buffers` its device memory; a second call does nothing."""

    def __exit__(self, *exception: object) -> None:
        self.close()


class Buffers(Closing):
    """Device buffers that are freed at the end of a `with` block, also after an error."""

    def __init__(self):
        hostcuda.ensure_context()
        self._buffers = {}  # id of a buffer -> the buffer

    def close(self) -> None:
        """Free all buffers that are left; a second call does nothing."""
        self.free(*list(self._buffers.values()))

    def new(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32) -> DeviceBuffer:
        """Return a new device buffer for an array of this shape and type; its contents are undefined."""
        buffer = hostcuda.driver.mem_alloc(int(np.prod(shape)) * np.dtype(dtype).itemsize)
        self._buffers[id(buffer)] = buffer
        return buffer

    def free(self, *buffers: DeviceBuffer) -> None:
        """Free these buffers, which `new` or `copy_in` returned; `close` frees the others."""
        for buffer in buffers:
            del self._buffers[id(buffer)]
            buffer.free()

    def copy_in(self, array: np.ndarray) -> DeviceBuffer:
        """Return a new device buffer with the contents of an array."""
        buffer = self.new(array.shape, array.dtype)
        hostcuda.driver.memcpy_htod(buffer, array)
        return buffer

    @staticmethod
    def copy_out(
        buffer: DeviceBuffer, shape: tuple[int, ...], dtype: DTypeLike = np.float32
    ) -> np.ndarray:
        """Return a device buffer's contents as a new array; the copy waits for the kernels launched before it."""
        array = np.empty(shape, dtype)
        hostcuda.driver.memcpy_dtoh(array, buffer)
        return array


class CompiledKernels:
    """The kernels of a file with one thread per output, as functions of the number of outputs and the arguments.

    `file` is in `cuda_src`, `options` are the compiler's, such as "-DFIXED_K=7", `threads` those of
    a block. `signatures`: kernel -> the types of its arguments, as PyCUDA's `Function.prepare`
    takes them: "PPqqi" are two pointers, two long long and an int. So ``kernels.nan_images(n,
    ...)`` launches at least n threads.
    """

    def __init__(self, file: str, *options: str, threads: int = _THREADS, **signatures: str):
        """Compile the file, and prepare the kernels that `signatures` names."""
        hostcuda.ensure_context()
        self._threads = threads
        path = cuda_src() / file
        self._module = hostcuda.compiler.SourceModule(
            **module_arguments(path.read_text(), path, *options)
        )
        self._functions = {
            name: self._module.get_function(name).prepare(signature)
            for name, signature in signatures.items()
        }

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Return the kernel `name` as a function of the number of outputs and the kernel's arguments."""
        return functools.partial(self._launch, self._functions[name])

    def _launch(self, function, outputs, *arguments):
        """Launch a prepared kernel with at least `outputs` threads, in whole blocks."""
        function.prepared_call(
            (tiles(outputs, self._threads), 1, 1), (self._threads, 1, 1), *arguments
        )


@functools.cache
def _compile_kernels() -> CompiledKernels:
    """Return the kernel that `images_with_nan` launches, compiled by the first call."""
    return CompiledKernels("buffers.cu", nan_images="PPqqi")


def images_with_nan(y: DeviceBuffer, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Return the indices, ascending, of the images that hold a NaN in an array on the device.

    `y` points to an array of `shape` [B, ...] and `dtype`, float32 or float16. Only a flag per
    image leaves the device.
    """
    size = int(np.prod(shape))
    with Buffers() as buffers:
        flags = buffers.copy_in(np.zeros(shape[0], np.int32))
        # The first `size` is the number of threads, one per element; the kernel's own arguments
        # follow.
        _compile_kernels().nan_images(
            size, y, flags, size, size // shape[0], np.dtype(dtype).itemsize
        )
        return np.flatnonzero(buffers.copy_out(flags, shape[:1], np.int32))
