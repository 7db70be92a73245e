"""What all calls of CUDA's runtime API have in common: error numbers, messages, and the program's variables."""

from __future__ import annotations

import ctypes
import re
from typing import Any

from hostcuda.runtime import native

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_SYMBOL = 0, 1, 2, 13
INVALID_DIRECTION, INVALID_FUNCTION, INVALID_DEVICE, INVALID_HANDLE = 21, 98, 101, 400
NOT_READY = 600
INVALID_PITCH, NOT_REGISTERED, NOT_SUPPORTED = 12, 713, 801
COOPERATIVE_TOO_LARGE = 720
ILLEGAL_ADDRESS, ASSERT, MISALIGNED, LAUNCH_FAILURE = 700, 710, 716, 719

_IN_CUDA = {  # remedies in messages of `hostcuda.api` -> those of a program in CUDA C++
    "function.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes)": (
        "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)"
    ),
    "or free() what": "or cudaFree what",
    "event_flags.DISABLE_TIMING": "cudaEventDisableTiming",
}
# "cuMemAlloc failed: ", and "kernel " before a fault
_DRIVER_CALL = re.compile(r"\bcu[A-Z]\w* failed: (kernel )?")


class Refused(Exception):
    """Raised for a call of the API that fails, with CUDA's error number and the reason.

    A reason that begins with "failed: " is printed behind the call's name: "cudaMalloc failed: …".
    Another one is a sentence of its own.
    """

    def __init__(self, number: int, reason: object):
        super().__init__(reason)
        self.number = number


# `x & UNSIGNED` is a signed 64-bit argument as the size_t or pointer that the program gave.
UNSIGNED = (1 << 64) - 1


def require_host_memory(what: str, address: int, size: int, writes: bool) -> None:
    """Raise `Refused` if the host cannot read `size` bytes at an address or, if it `writes`, write them.

    `what` begins the message. Addresses and sizes arrive as signed numbers: the mask UNSIGNED makes
    them unsigned.
    """
    if not native.is_host_memory(address & UNSIGNED, size, writes):
        why = "a null pointer" if not address else "never allocated, freed, or shorter"
        span = f"{size & UNSIGNED} bytes at {address & UNSIGNED:#x}"
        raise Refused(
            INVALID_VALUE, f"{what}: {span} cannot be {'written' if writes else 'read'}: {why}"
        )


def variable_at(address: int, kind: type[Any] = ctypes.c_void_p) -> Any:
    """Return the variable of the C++ program at an address, as an object of ctypes whose `value` can be read or set.

    `kind` is its type. `Refused` if the host may not write there.
    """
    # True: that the host can write there
    require_host_memory(
        "failed: the address of a result or a list", address, ctypes.sizeof(kind), True
    )
    # in this call the runtime faults if the address is in device memory, as on a GPU
    native.library().hc_write_result(address)
    return kind.from_address(address)


def write_bytes(address: int, data: bytes) -> None:
    """Write bytes to the program's memory at an address; `Refused` if the host may not write there."""
    variable_at(address, ctypes.c_char * len(data)).raw = data


def require_size(number: int) -> int:
    """Return `number`, a number of bytes, if it is not negative.

    A program's size_t of 2**63 bytes or more arrives as a negative number: then raise MemoryError.
    """
    if number < 0:
        raise MemoryError(
            f"{number & UNSIGNED} bytes were asked for: a negative number, such as a product of ints beyond "
            "2,147,483,647, becomes that large; begin the product with (size_t)"
        )
    return number


def reword_for_cuda(sentence: str, call: str) -> str:
    """Reword a message of PyCUDA's API for CUDA C++: its remedies, and `call` instead of the driver's function."""
    for remedy, remedy_in_cuda in _IN_CUDA.items():
        sentence = sentence.replace(remedy, remedy_in_cuda)
    # "cuCtxSynchronize failed: kernel f ..." becomes "kernel f ..." (match[1]): a message about a fault
    # names no call
    return _DRIVER_CALL.sub(lambda match: match[1] or f"{call} failed: ", sentence)
