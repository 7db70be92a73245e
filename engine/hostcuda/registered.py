"""Page-lock arrays that a program already has.

PyCUDA's `register_host_memory` cannot be used: with NumPy 2.5 it raises SystemError for every
array, because it sets the base of an array twice. So on a GPU the driver's own calls are bound
through ctypes.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

import hostcuda
from hostcuda.errors import EngineError
from hostcuda.gpu import libcuda


@contextmanager
def registered(*arrays: np.ndarray) -> Iterator[None]:
    """Page-lock arrays while a ``with`` lasts (cudaHostRegister), so that copies from and to them are asynchronous.

    EngineError if an array is not contiguous or not writable, or if the system cannot lock it.

    Parameters
    ----------
    *arrays : ndarray
        Contiguous and writable. No two may share a page of memory, which is locked as a whole and only
        once: `hostcuda.driver.aligned_empty` makes such arrays.
    """
    for array in arrays:
        if not (array.flags.c_contiguous and array.flags.writeable):
            raise EngineError(
                f"an array of the shape {array.shape} cannot be page-locked: it has to be contiguous, "
                "in C order, and writable"
            )
    hostcuda.ensure_context()  # CUDA locks memory for a context
    with ExitStack() as stack:
        for array in arrays:
            stack.callback(_lock(array))  # `_lock` returns the function that unlocks it
        yield


def _lock(array: np.ndarray) -> Callable[[], object]:
    """Page-lock an array; return the function that unlocks it."""
    if hostcuda.engine() == "cpu":
        return hostcuda.driver.register_host_memory(array).base.unregister
    library, address = libcuda.library(), ctypes.c_void_p(array.ctypes.data)
    status = library.cuMemHostRegister_v2(address, ctypes.c_size_t(array.nbytes), ctypes.c_uint(0))
    if status:
        raise EngineError(
            f"cuMemHostRegister cannot page-lock {array.nbytes / 1e9:.2f} GB: {libcuda.error(status)}. "
            "Take a smaller batch, and arrays that share no page and are not page-locked already"
        )
    return functools.partial(library.cuMemHostUnregister, address)
