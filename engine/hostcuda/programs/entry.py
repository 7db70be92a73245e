"""Call the host function of a file without ``main``, such as ``solve`` of LeetGPU, which launches kernels itself."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from hostcuda.api.compiler import Module, compile_program
from hostcuda.api.parameters import POINTER, Parameter
from hostcuda.errors import EngineError
from hostcuda.programs import program
from hostcuda.programs.calls import SUCCESS
from hostcuda.runtime import native

# A parameter's type -> (kind of `Parameter`, type of ctypes).
_TYPES = {
    "bool": ("u", ctypes.c_bool),
    "char": ("i", ctypes.c_char),
    "unsigned char": ("u", ctypes.c_ubyte),
    "uint8_t": ("u", ctypes.c_ubyte),
    "short": ("i", ctypes.c_short),
    "unsigned short": ("u", ctypes.c_ushort),
    "int": ("i", ctypes.c_int),
    "int32_t": ("i", ctypes.c_int),
    "unsigned": ("u", ctypes.c_uint),
    "unsigned int": ("u", ctypes.c_uint),
    "uint32_t": ("u", ctypes.c_uint),
    "long": ("i", ctypes.c_long),
    "long long": ("i", ctypes.c_longlong),
    "int64_t": ("i", ctypes.c_longlong),
    "unsigned long": ("u", ctypes.c_ulong),
    "unsigned long long": ("u", ctypes.c_ulonglong),
    "uint64_t": ("u", ctypes.c_ulonglong),
    "size_t": ("u", ctypes.c_size_t),
    "float": ("f", ctypes.c_float),
    "double": ("f", ctypes.c_double),
}


class HostFunction:
    """A function of a compiled program's host code, called with device memory and numbers as a kernel is.

    Parameters
    ----------
    source, options
        As for `hostcuda.api.compiler.compile_program`.
    name : str
        The function's, which returns nothing.
    declarations : sequence of str
        Its parameters, such as "const float *x" and "int n".
    """

    def __init__(self, source: str, options: Sequence[str], name: str, declarations: Sequence[str]):
        self._name, types = name, []
        self._parameters = []
        for i, declaration in enumerate(declarations):
            kind, type_ = _read_type(name, declaration)
            raw = SimpleNamespace(kind=ord(kind), size=ctypes.sizeof(type_), offset=0)
            self._parameters.append(Parameter(i, raw, declaration))
            types.append(type_)
        self.module: Module = compile_program(source, options, entry=name)
        self._runtime = program.connect(self.module)
        self._call = ctypes.CFUNCTYPE(None, *types)(program.find_entry(self.module))
        native.library().hc_host_calls(True, False)  # Python may access device memory

    def __call__(self, *arguments: Any) -> None:
        """Call the function; while it runs, its host code cannot access device memory, as on a GPU.

        A fault of an earlier call is forgotten.
        """
        values = []
        self._runtime.sticky = self._runtime.last = SUCCESS
        for parameter, argument in zip(self._parameters, arguments, strict=True):
            if parameter.kind == POINTER:
                native.library().hc_mem_of_device(int(argument))
                values.append(int(argument))
            else:
                values.append(argument.item())
        native.library().hc_host_calls(False, True)
        try:
            self._call(*values)
        finally:
            native.library().hc_host_calls(True, False)


def _read_type(function: str, declaration: str) -> tuple[str, type]:
    """Return (kind of `Parameter`, type of ctypes) for a declaration such as "const float *x".

    EngineError, which names the `function`, if it is neither a pointer nor a number.
    """
    if "*" in declaration or "[" in declaration:
        return POINTER, ctypes.c_void_p
    words = [word for word in declaration.split() if word != "const"]
    for type_words in (words[:-1], words):  # with a name, or without
        if found := _TYPES.get(" ".join(type_words)):
            return found
    raise EngineError(
        f"{function}: the parameter `{declaration}` is neither a pointer nor a number: write a main that calls it"
    )
