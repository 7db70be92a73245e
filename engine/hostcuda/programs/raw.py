"""What the stand-ins for CuPy and cuda.core share: sources with their names of kernels, and a kernel's arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hostcuda import errors
from hostcuda.api import driver
from hostcuda.api.compiler import SourceModule
from hostcuda.api.kernels import Function, Module
from hostcuda.api.parameters import FLOAT, POINTER, Parameter

_SPACES = re.compile(r"\s+")


def compile_module(source: str, options: Iterable[str] = (), names: Sequence[str] = ()) -> Module:
    """Compile a source as NVRTC does; `names` are instances of templates to compile, such as "f<float>"."""
    # An instance is registered by the macro, in a namespace of its own: the macro numbers the functions
    # that it defines by __COUNTER__, which begins again at 0 after preprocessing, so that names could
    # be defined twice.
    instances = "".join(
        f"\nnamespace hostcuda_instance_{i} {{ HOSTCUDA_KERNEL({name}) }}"
        for i, name in enumerate(names)
        if "<" in name
    )
    return SourceModule(source + instances, options=[*options], no_extern_c=True).module


def find_function(module: Module, name: str, names: Sequence[str] = ()) -> Function:
    """Return the kernel `name` of a module; LogicError, which lists the kernels, if there is none.

    `names` are those that `compile_module` was given, such as "f<float>". Another kernel is found by
    its symbol, which is its name if it is ``extern "C"``.
    """
    if name not in names:
        return module.get_function(name)
    # the module may write such a name with other spaces
    symbols = {_SPACES.sub("", kernel.name): kernel.symbol for kernel in module.kernels()}
    return module.get_function(symbols.get(_SPACES.sub("", name), name))


def launch(
    function: Function,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    arguments: Sequence,
    shared: int,
    stream: driver.Stream | None,
    cooperative: bool = False,
) -> None:
    """Queue a kernel on a stream; a Python number is passed with 8 bytes, as CuPy and cuda.core do.

    `shared` is the dynamic shared memory per block in bytes. If `cooperative`, blocks may wait for each
    other. For the errors see `hostcuda.api.kernels.Function.__call__`.
    """
    if len(arguments) == len(function._parameters):  # else the call below raises an error
        pairs = zip(function._parameters, arguments, strict=True)
        arguments = [_convert(function._name, *pair) for pair in pairs]
    function(
        *arguments,
        grid=_as_sizes(grid),
        block=_as_sizes(block),
        shared=int(shared),
        stream=stream,
        cooperative=cooperative,
    )


def _as_sizes(sizes: int | Sequence[int]) -> tuple[int, ...]:
    """Return a grid's or block's size as three integers."""
    given: tuple = tuple(sizes) if isinstance(sizes, Iterable) else (sizes,)
    return (*(int(size) if isinstance(size, np.integer) else size for size in given), 1, 1, 1)[:3]


def _convert(name: str, parameter: Parameter, argument: Any) -> Any:
    """Return an argument as `Function` takes it, a number as NumPy's scalar of the parameter's size.

    TypeError if the kernel, which `name` names in the message, would read another number.
    """
    if isinstance(argument, (bool, np.bool_)):
        argument = int(argument)
    if isinstance(argument, (int, np.integer)) and parameter.kind in ("i", "u", POINTER):
        sign = "int" if parameter.kind == "i" else "uint"
        dtype = np.dtype(f"{sign}{8 * parameter.size}")
        info = np.iinfo(dtype)
        if not info.min <= argument <= info.max:
            raise errors.TypeError(
                f"{name}: {parameter}: {argument} does not fit into {parameter.size} bytes"
            )
        return dtype.type(argument)
    if isinstance(argument, (int, float)) and parameter.kind == FLOAT:
        if isinstance(argument, float) and parameter.size == 8:
            return np.float64(argument)
        kind = "double" if isinstance(argument, float) else "64-bit integer"
        raise errors.TypeError(
            f"{name}: {parameter}: {argument!r} is passed as a {kind}, whose first {parameter.size} bytes are another "
            f"number: pass np.float{8 * parameter.size}({argument!r})"
        )
    return argument
