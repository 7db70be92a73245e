"""Calls of NVIDIA's driver that PyCUDA lacks, through ctypes."""

from __future__ import annotations

import ctypes
import functools


@functools.cache
def library() -> ctypes.CDLL:
    """Return the driver's library; OSError if there is none."""
    return ctypes.CDLL("libcuda.so.1")


def error(status: int) -> str:
    """Return the driver's name for a status, with its number: "CUDA_ERROR_OUT_OF_MEMORY (2)"; else "error (2)"."""
    name = ctypes.c_char_p()
    library().cuGetErrorName(status, ctypes.byref(name))
    return f"{(name.value or b'error').decode()} ({status})"
