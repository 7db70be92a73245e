"""The parameters of a kernel: which arguments each takes, and how they are packed."""

from __future__ import annotations

import re
from operator import index
from typing import Any

from hostcuda import errors
from hostcuda.api.deferred import np
from hostcuda.api.memory import ArgumentHandler, DeviceAllocation, is_managed
from hostcuda.errors import type_of

# (kind of a NumPy dtype, bytes) -> code of `struct`
STRUCT_CODES = {
    ("i", 1): "b",
    ("i", 2): "h",
    ("i", 4): "i",
    ("i", 8): "q",
    ("u", 1): "B",
    ("u", 2): "H",
    ("u", 4): "I",
    ("u", 8): "Q",
    ("f", 2): "e",
    ("f", 4): "f",
    ("f", 8): "d",
}
# Kinds of parameters, and "i", "u": hc_parameter_kind in runtime/abi.h.
POINTER, STRUCT, FLOAT = "P", "s", "f"
WORDS = {
    "P": "a pointer",
    "i": "a signed integer",
    "u": "an unsigned integer",
    "f": "a float",
    "s": "a struct",
}
# Bytes of an element, by the type that a pointer's declaration names.
_ELEMENTS = {
    "float": 4,
    "double": 8,
    "half": 2,
    "__half": 2,
    "int": 4,
    "unsigned": 4,
    "unsigned int": 4,
    "short": 2,
    "unsigned short": 2,
    "long long": 8,
    "unsigned long long": 8,
    "int32_t": 4,
    "uint32_t": 4,
    "int64_t": 8,
    "uint64_t": 8,
    "size_t": 8,
}
_QUALIFIER = re.compile(r"\b(const|volatile|__restrict__|__restrict|restrict)\b")


class Parameter:
    """One parameter of a kernel: its kind ("P", ...), size and offset [bytes]; as text, its name in messages."""

    def __init__(self, position: int, raw: Any, declaration: str):
        """Describe the parameter at a position (0-based).

        `raw` is its ``hc_parameter`` (kind, size, offset) of runtime/abi.h; `declaration` is "const float
        *x", or "" if it is not known.
        """
        self.position, self.declaration = position, declaration
        self.kind, self.size, self.offset = chr(raw.kind), raw.size, raw.offset

    def __str__(self) -> str:
        declaration = f" `{self.declaration}`" if self.declaration else ""
        return f"argument {self.position} (0-based){declaration}"

    def build_error(self, argument: Any) -> errors.TypeError:
        """Return the TypeError for an argument whose type does not fit this parameter; it says what to pass instead."""
        words = WORDS[self.kind] + ("" if self.kind == POINTER else f" of {self.size} bytes")
        dtype = {"i": "int", "u": "uint"}.get(self.kind, "float") + str(8 * self.size)
        remedy = f"pass np.{dtype}(value)"
        if self.kind == POINTER:
            remedy = "pass device memory (cuda.mem_alloc, cuda.to_device) or cuda.In, Out, InOut of an array"
            if isinstance(argument, np.ndarray):
                remedy = (
                    "pass cuda.In(array), cuda.Out(array) or cuda.InOut(array), or device memory from "
                    "cuda.to_device"
                )
        # a half is a struct of 2 bytes, too: np.float16 fits it
        elif self.kind == STRUCT and self.size != 2:
            remedy = (
                "pass a NumPy structured scalar of that size, e.g. array[0] of a structured array"
            )
        return errors.TypeError(
            f"{self}: the kernel takes {words}, not {describe_argument(argument)}; {remedy}"
        )

    def choose_code(self, argument: Any) -> str | None:
        """Return the code with which `struct` packs an argument, or None if `convert` is needed first.

        TypeError if the kernel's parameter does not take an argument of this type.
        """
        if isinstance(argument, (DeviceAllocation, ArgumentHandler)):
            if self.kind != POINTER:
                raise self.build_error(argument)
            if not isinstance(argument, ArgumentHandler):
                return "Q"  # an address
            if problem := self.describe_mismatch(getattr(argument.array, "dtype", None)):
                raise errors.TypeError(problem)
            return None
        if isinstance(argument, np.number):
            dtype = argument.dtype
            # The kinds of dtypes that may be passed. "P", a pointer, takes an address as an integer; "s", a
            # struct, the bytes of any number of its size: half and complex numbers are structs in C++.
            fitting = {"P": "iu", "i": "iu", "u": "iu", "f": "f", "s": "iufc"}[self.kind]
            if dtype.itemsize != self.size or dtype.kind not in fitting:
                raise self.build_error(argument)
            return STRUCT_CODES.get((dtype.kind, dtype.itemsize))  # None: a complex number
        # structs by value, or an array of managed memory as a pointer
        if isinstance(argument, (np.void, np.ndarray)):
            fits = is_managed(argument) if self.kind == POINTER else argument.nbytes == self.size
            if not fits:
                raise self.build_error(argument)
            return None
        # Arrays of CuPy, PyTorch or Numba; PyCUDA's GPUArray and `PointerHolderBase`.
        if self.kind == POINTER and (
            hasattr(argument, "__cuda_array_interface__") or hasattr(argument, "gpudata")
        ):
            return None
        raise self.build_error(argument)

    def convert(self, argument: Any) -> int | bytes:
        """Convert an argument for which `choose_code` returns None, because `struct` cannot pack it.

        Returns an address as an int, or bytes.
        """
        if isinstance(argument, ArgumentHandler):
            return index(argument.get_device_alloc())
        if self.kind == POINTER and isinstance(argument, np.ndarray):  # managed memory
            return argument.ctypes.data
        if isinstance(argument, (np.void, np.ndarray, np.number)):
            return argument.tobytes()
        interface = getattr(argument, "__cuda_array_interface__", None)
        return interface["data"][0] if interface else int(argument.gpudata)

    def describe_mismatch(self, dtype: object) -> str | None:
        """Return a message if the parameter points to elements of another size than the dtype's, else None."""
        # the type of the elements: "unsigned int" for "const unsigned int *x"
        pointee, star, _ = self.declaration.partition("*")
        element_type = " ".join(_QUALIFIER.sub(" ", pointee).split())
        size = _ELEMENTS.get(element_type) if star else None
        # An array of bytes fits every pointer, and a pointer to bytes or structs fits every array.
        if not (
            size
            and isinstance(dtype, np.dtype)
            and dtype.kind in "iuf"
            and dtype.itemsize not in (1, size)
        ):
            return None
        return (
            f"{self}: the array's dtype is {dtype}, {dtype.itemsize} bytes per element, but the kernel "
            f"reads {element_type} of {size}; convert it with .astype"
        )


def describe_argument(argument: Any) -> str:
    """Return an argument's type and size, in words for a message: "np.float64 (8 bytes)"."""
    if isinstance(argument, np.ndarray):
        return f"a NumPy array ({argument.dtype}, shape {argument.shape})"
    if isinstance(argument, np.generic):
        return f"np.{type(argument).__name__} ({argument.nbytes} bytes)"
    if isinstance(argument, (bool, int, float)):
        return f"the Python {type(argument).__name__} {argument!r}, which has no size of its own"
    return type_of(argument)
