"""Module and Function: find kernels, check and pack their arguments, launch them.

PyCUDA passes the bytes of the arguments to the GPU without a check, and a wrong argument gives a
wrong result or a fault. Here the compiled kernel contains its parameters' types, so that every
mismatch is an error that names the parameter.
"""

from __future__ import annotations

import difflib
import enum
import math
import re
import struct
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from hostcuda import errors
from hostcuda.api.deferred import np
from hostcuda.api.device import COMPUTE_CAPABILITY, Context, func_cache
from hostcuda.api.memory import ArgumentHandler
from hostcuda.api.parameters import (
    FLOAT,
    POINTER,
    STRUCT,
    STRUCT_CODES,
    WORDS,
    Parameter,
    describe_argument,
)
from hostcuda.api.streams import Event, Stream, handle_of
from hostcuda.check import mode as checkmode
from hostcuda.errors import LogicError, type_of
from hostcuda.host import cache
from hostcuda.limits import (
    DRIVER_BYTES,
    MAX_BLOCK,
    MAX_GRID,
    MAX_THREADS,
    MULTIPROCESSOR,
    MULTIPROCESSORS,
    SHARED_BYTES,
    SHARED_OPT_IN_BYTES,
    WARP,
)
from hostcuda.runtime import native

__all__ = ["Function", "Module", "function_attribute", "module_from_buffer", "module_from_file"]


Geometry: TypeAlias = tuple[Any, Any]  # grid and block as `native.Dim3`
# "PPi", or a type per argument: such a text, a type of NumPy, a dtype
PreparedTypes: TypeAlias = "str | Sequence[str | type | np.dtype]"

# The attributes of a kernel: the names and numbers of ``CUfunction_attribute``.
function_attribute: Any = enum.IntEnum(  # Any: a type checker cannot see its members
    "function_attribute",
    "MAX_THREADS_PER_BLOCK SHARED_SIZE_BYTES CONST_SIZE_BYTES LOCAL_SIZE_BYTES NUM_REGS PTX_VERSION BINARY_VERSION "
    "CACHE_MODE_CA MAX_DYNAMIC_SHARED_SIZE_BYTES PREFERRED_SHARED_MEMORY_CARVEOUT",
    start=0,
)


# --------------------------------------------------------------------------------------------------
# Modules


class Module:
    """A loaded file of compiled kernels.

    Parameters
    ----------
    path : path-like
        The shared library.
    declarations : dict, optional
        Maps a kernel's name to the declarations of its parameters, for messages.
    registered : int, optional
        How many kernels the front end has registered in its text, where it is known. Only
        `hostcuda.untrusted` uses it, to refuse a file that registers others.

    Raises
    ------
    LogicError
        The file cannot be loaded; the message has the loader's reason.
    """

    def __init__(
        self,
        path: str | Path,
        declarations: dict[str, list[str]] | None = None,
        registered: int | None = None,
    ):
        self._path = path
        self._declarations = declarations or {}
        self._loaded = native.module_load(path, registered)
        self._handle = self._loaded.handle
        # A file in the scratch folder is this module's own: of `module_from_buffer`, or a copy of
        # one that is loaded twice. It is removed with the module, except in check mode: records
        # that are read later refer to it.
        copy = Path(path) if Path(path).parent == cache.scratch() and not checkmode.TOOLS else None
        native.finalize_with(self, native.module_unload, self._handle, copy)

    def get_function(self, name: str) -> Function:
        """Return a kernel by its name if it is ``extern "C"``, else by its mangled symbol, as a GPU's driver does.

        Raises
        ------
        LogicError
            There is no such kernel, and the message lists the kernels of the module; or it is not
            ``extern "C"``.
        """
        kernel = self._loaded.kernel(name)  # found by its name in the source, or by its symbol
        if kernel is None:
            raise LogicError(
                f"cuModuleGetFunction failed: named symbol not found: there is no kernel {name!r}"
                + _suggest(name, [other.name for other in self.kernels()])
            )
        # a GPU's driver knows symbols only: "_Z4convPf", unless it is extern "C"
        if kernel.symbol != name:
            raise LogicError(
                f"cuModuleGetFunction failed: named symbol not found: the kernel {name!r} has the symbol "
                f'{kernel.symbol!r}: write extern "C" before its __global__, so that it can be found by '
                "its name"
            )
        return Function(self, kernel)

    def get_global(self, name: str) -> tuple[int, int]:
        """Return (device pointer, size in bytes) of a ``__constant__`` or ``__device__`` variable; copies may use it.

        Raises
        ------
        LogicError
            There is no such variable.
        """
        span = self._loaded.variable(name)
        if span is None:
            raise LogicError(
                "cuModuleGetGlobal failed: named symbol not found: there is no __constant__ or "
                f"__device__ variable {name!r}. Check the spelling, and that a kernel uses it"
            )
        return span

    def kernels(self) -> list[native.LoadedKernel]:
        """Return a `hostcuda.runtime.native.LoadedKernel` for each kernel of the module."""
        return self._loaded.kernels


def _suggest(name: str, names: list[str]) -> str:
    """Return the end of a message about an unknown kernel: the closest of the module's kernels, and all of them."""
    if not names:
        return ": it has none at all (a kernel is a __global__ function; a template must be instantiated)"
    close = difflib.get_close_matches(name, names, 1)
    text = f"; did you mean {close[0]!r}?" if close else ""
    return f"{text} (the module's kernels are {', '.join(names)})"


def module_from_file(filename: str | Path) -> Module:
    """Load a file that `hostcuda.api.compiler` has compiled, and return its module; LogicError if it is none."""
    return Module(filename)


def module_from_buffer(buffer: bytes) -> Module:
    """Load the bytes that `hostcuda.api.compiler.compile` returns, and return the module.

    It is loaded from a temporary file, which the module removes; a name that was loaded before would not load it anew.
    """
    path = cache.scratch() / f"module-{cache.digest(bytes(buffer))[:16]}-{time.monotonic_ns()}.so"
    cache.publish(bytes(buffer), path)
    return Module(path)


# --------------------------------------------------------------------------------------------------
# Functions


def _as_property(name: str, docstring: str) -> property:
    """Make a property of `Function` that returns its `function_attribute` of this name."""
    return property(
        lambda function: function.get_attribute(function_attribute[name]), doc=docstring
    )


class Function:
    """A kernel of a module.

    Calling it launches it: ``f(*arguments, grid=(gx, gy, gz), block=(bx, by, bz), shared=bytes,
    stream=stream)``. ``num_regs`` and ``local_size_bytes`` are 0, because the GPU's compiler, which
    assigns registers, did not run.

    Attributes
    ----------
    symbol : str
        The kernel's name as mangled by the compiler.
    execution_mode, why_fibers : str
        How the threads of a block run on the CPU engine: ``"loops"`` over the threads, or
        ``"fibers"``; and the reason for fibers, or empty.
    """

    def __init__(self, module: Module, kernel: native.LoadedKernel):
        self._module, self._kernel = module, kernel.handle
        self._name, self.symbol = kernel.name, kernel.symbol
        declarations = module._declarations.get(self._name, ())
        # none are known: the file was loaded without its source
        if len(declarations) != len(kernel.parameters):
            declarations = [""] * len(kernel.parameters)  # messages have none then
        pairs = zip(kernel.parameters, declarations, strict=True)
        self._parameters = [Parameter(i, *pair) for i, pair in enumerate(pairs)]
        self._packed_bytes = kernel.packed_bytes
        self._static_shared = kernel.own_shared + kernel.common_shared
        self._max_threads = min(kernel.max_threads, MAX_THREADS)
        self.execution_mode, self.why_fibers = kernel.execution_mode, kernel.why_fibers
        self._max_dynamic = SHARED_BYTES - self._static_shared  # bytes; `set_attribute` changes it
        # (grid, block) of earlier launches -> the two as `native.Dim3`
        self._geometries: dict[tuple, Geometry] = {}
        self._packers = {}  # types of an earlier call's arguments -> function that packs them
        # Set by `prepare`: a `struct.Struct` that packs all arguments, and a function per argument that
        # converts it before.
        self._prepared: Any
        self._prepared = self._prepared_converters = None

    def __repr__(self) -> str:
        return f"<Function {self._name}({', '.join(p.declaration or p.kind for p in self._parameters)})>"

    # -- launching

    def __call__(
        self,
        *args: Any,
        grid: tuple[int, ...] = (1, 1),
        block: tuple[int, ...] | None = None,
        shared: int = 0,
        stream: Stream | None = None,
        texrefs: object = (),
        time_kernel: bool = False,
        cooperative: bool = False,
        **extra: object,
    ) -> float | None:
        """Launch the kernel.

        Parameters
        ----------
        *args
            NumPy scalars of the parameters' sizes, device memory, In/Out/InOut of arrays,
            structured scalars.
        grid, block : tuple of int
            Up to three numbers each.
        shared : int
            Bytes of dynamic shared memory per block.
        stream : Stream, optional
            By default the default stream.
        texrefs
            Without effect.
        time_kernel : bool
            Wait, and return the run time in seconds; otherwise the result is None.
        cooperative : bool
            The blocks may wait for each other by ``grid.sync()``; PyCUDA has no such launch.

        Raises
        ------
        TypeError
            The number or type of the arguments is wrong; the message names the parameter.
        ValueError
            There is no `block`, or an unknown keyword argument.
        LogicError
            The launch exceeds a limit.
        LaunchError
            The kernel faulted (if the call waits; otherwise the next call that waits raises it).
        """
        if extra:
            raise errors.ValueError(f"extra keyword arguments: {','.join(extra)}")
        if block is None:
            raise errors.ValueError("must specify block size")
        if cooperative and (problem := self.describe_surplus(grid, block, shared)):
            raise LogicError(f"cuLaunchCooperativeKernel failed: {problem}")
        del texrefs
        # `_pack` has noted the types of an earlier call's arguments, without In, Out and InOut
        try:
            packed = self._packers[tuple(map(type, args))](*args)
        except KeyError:
            packed = None
        run, handlers = self._launch_and_time if time_kernel else self._launch, ()
        if packed is None:  # not in the `except`: an error would show the KeyError as its context
            handlers, packed = self._pack(args)
        if not handlers:  # no In, Out or InOut, whose arrays are copied before and after
            return run(grid, block, packed, shared, stream, cooperative)
        for handler in handlers:
            handler.pre_call(stream)
        seconds = run(grid, block, packed, shared, stream, cooperative)
        results: list[Any] = [handler for handler in handlers if hasattr(handler, "post_call")]
        if results:
            Context.synchronize()
        for handler in results:
            handler.post_call(stream)
        return seconds

    def _launch(
        self,
        grid: tuple,
        block: tuple,
        packed: bytes,
        shared: int,
        stream: Stream | None,
        cooperative: bool = False,
        **more: Any,
    ) -> None:
        """Queue the kernel with packed arguments and `shared` bytes of dynamic shared memory per block.

        `more` are further arguments of `native.launch`. TypeError or LogicError if the geometry is wrong or
        exceeds a limit.
        """
        try:
            # that of an earlier launch is not checked again
            geometry = self._geometries[grid, block]
            for size in (*grid, *block):  # 2.0 == 2, but PyCUDA refuses it
                if size.__class__ is not int:
                    geometry = None
        except (KeyError, TypeError):
            geometry = None
        if geometry is None:
            geometry = self._check_geometry(grid, block)
        if not 0 <= shared <= self._max_dynamic:
            self._refuse_shared(shared)
        handle = None if stream is None else handle_of(stream)
        native.launch(
            self._name, self._kernel, *geometry, shared, packed, handle, cooperative, **more
        )

    def count_resident_blocks(self, threads: int, shared: int) -> int:
        """Return how many blocks of `threads` threads fit on a multiprocessor at once, of the GPU that is emulated.

        `shared` is the dynamic shared memory per block in bytes; the driver adds DRIVER_BYTES.
        Registers, which the CPU engine does not know, are not a limit here.
        """
        sm = MULTIPROCESSOR["sm_{}{}".format(*COMPUTE_CAPABILITY)]
        bytes_per_block = self._static_shared + shared + DRIVER_BYTES
        warps = max(1, -(-threads // WARP))  # rounded up
        return min(sm["blocks"], sm["warps"] // warps, sm["shared"] // bytes_per_block)

    def describe_surplus(self, grid: Sequence[int], block: Sequence[int], shared: int) -> str:
        """Return why the blocks of a cooperative launch, which wait for each other, cannot all be resident, or ""."""
        most = self.count_resident_blocks(math.prod(block), shared) * MULTIPROCESSORS
        if math.prod(grid) <= most:
            return ""
        return (
            f"too many blocks in cooperative launch: {self._name} has {math.prod(grid)}, and all of them have to be "
            f"resident, which {most} can be on {MULTIPROCESSORS} multiprocessors: launch as many as "
            "cudaOccupancyMaxActiveBlocksPerMultiprocessor allows, each with a loop over its share"
        )

    def _launch_and_time(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        packed: bytes,
        shared: int,
        stream: Stream | None,
        cooperative: bool,
    ) -> float:
        """Queue the kernel on the default stream, and wait; return the run time in seconds.

        The parameters are those of `_launch`; AssertionError, as in PyCUDA, if a stream is given.
        """
        if stream is not None:
            raise AssertionError("Can't time the kernel on an asynchronous invocation")
        Context.synchronize()
        start = time.perf_counter()
        self._launch(grid, block, packed, shared, None, cooperative)
        Context.synchronize()
        return time.perf_counter() - start

    def _check_geometry(self, grid: tuple, block: tuple) -> Geometry:
        """Return a launch's geometry as the runtime takes it, and keep it; TypeError or LogicError if it is wrong."""
        sizes = []
        for what, value, limits in (("grid", grid, MAX_GRID), ("block", block, MAX_BLOCK)):
            if type(value) is not tuple or not (1 if what == "grid" else 3) <= len(value) <= 3:
                count = "one to three ints" if what == "grid" else "three ints, e.g. (16, 16, 1)"
                raise errors.TypeError(
                    f"{self._name}: {what} must be a tuple of {count}, not {value!r}"
                )
            for axis, size, limit in zip("xyz", value, limits, strict=False):
                if not isinstance(size, int):
                    remedy = "write int(...)"
                    if isinstance(size, float):  # a grid that is rounded down leaves elements out
                        remedy = (
                            "round it up with math.ceil(...)"
                            if what == "grid"
                            else "write // for /"
                        )
                    raise errors.TypeError(
                        f"{self._name}: {what}={value} must hold Python ints, and {what}.{axis} is "
                        f"{type_of(size)}; {remedy}"
                    )
                if not 1 <= size <= limit:
                    raise self._build_error(
                        what, value, f"{what}.{axis} is {size}, and must be 1 to {limit}"
                    )
            sizes.append(value + (1,) * (3 - len(value)))
        threads = sizes[1][0] * sizes[1][1] * sizes[1][2]
        if threads > MAX_THREADS:
            raise self._build_error(
                "block", block, f"it has {threads} threads, and at most {MAX_THREADS} are allowed"
            )
        if threads > self._max_threads:
            bounds = f"the kernel's __launch_bounds__ allow at most {self._max_threads}"
            raise self._build_error("block", block, f"it has {threads} threads, and {bounds}")
        geometry = native.Dim3(*sizes[0]), native.Dim3(*sizes[1])
        # a bound on the memory of a program that never repeats a geometry
        if len(self._geometries) < 4096:
            self._geometries[grid, block] = geometry
        return geometry

    def _build_error(self, argument: str, value: tuple, reason: str) -> LogicError:
        """Return the error for a wrong `value` of `argument`, "grid" or "block", with the `reason` as a clause."""
        call = "cuFuncSetBlockShape" if argument == "block" else "cuLaunchKernel"
        return LogicError(
            f"{call} failed: invalid argument: {self._name}: {argument}={value}: {reason}"
        )

    def _refuse_shared(self, shared: int) -> NoReturn:
        """Raise the LogicError for more dynamic shared memory [bytes] than the function may have."""
        request = f"{shared} bytes of dynamic shared memory"
        if self._static_shared:
            request += f" and {self._static_shared} of static"
        remedy = f"; a block can have at most {SHARED_OPT_IN_BYTES}"
        if shared + self._static_shared <= SHARED_OPT_IN_BYTES:
            remedy = (
                f"; up to {SHARED_OPT_IN_BYTES} per block are possible after function.set_attribute("
                "cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes)"
            )
        raise LogicError(
            f"cuLaunchKernel failed: invalid argument: {self._name}: {request} are more than the "
            f"{self._max_dynamic + self._static_shared} allowed{remedy}"
        )

    # -- arguments

    def _pack(self, args: tuple) -> tuple[list[ArgumentHandler], bytes]:
        """Check a call's arguments; return the In, Out and InOut among them, and the packed bytes of all.

        Without In, Out and InOut the way to pack these types is kept in `_packers`. TypeError if the
        number or type of the arguments is wrong.
        """
        parameters = self._parameters
        if len(args) != len(parameters):
            declarations = ", ".join(p.declaration or p.kind for p in parameters)
            count = f"takes {len(parameters)} arguments, and {len(args)} were given"
            raise errors.TypeError(f"{self._name}({declarations}) {count}")
        try:
            codes = [
                parameter.choose_code(argument)
                for parameter, argument in zip(parameters, args, strict=True)
            ]
        except TypeError as error:
            raise errors.TypeError(f"{self._name}: {error}") from None
        for parameter, argument in zip(parameters, args, strict=True):
            # The dtype of the array that a copy has noted in the `DeviceAllocation`; a GPUArray has
            # one as `gpudata`.
            dtype = getattr(getattr(argument, "gpudata", argument), "_filled", None)
            if problem := parameter.describe_mismatch(dtype):
                warnings.warn(f"{self._name}: {problem}", stacklevel=3)
        # Where there is no code, `convert` makes an address ("Q") or bytes ("12s").
        layout = self._build_layout(
            [
                "Q" if code is None and p.kind == POINTER else code or f"{p.size}s"
                for code, p in zip(codes, parameters, strict=True)
            ]
        )
        if None not in codes:  # arguments of these types are always packed like this
            self._packers[tuple(map(type, args))] = layout.pack
            return [], layout.pack(*args)
        values = [
            argument if code else parameter.convert(argument)
            for code, parameter, argument in zip(codes, parameters, args, strict=True)
        ]
        return [a for a in args if isinstance(a, ArgumentHandler)], layout.pack(*values)

    def _build_layout(self, codes: list[str]) -> struct.Struct:
        """Return the layout of the packed arguments: each code at its parameter's offset, with padding between.

        `codes` are `struct`'s, one per parameter: "f", "Q", or "12s" for 12 bytes.
        """
        format_, end = "<", 0  # "<": `struct` adds no padding; "x" is one byte of padding
        for parameter, code in zip(self._parameters, codes, strict=True):
            format_ += "x" * (parameter.offset - end) + code
            end = parameter.offset + parameter.size
        return struct.Struct(format_ + "x" * (self._packed_bytes - end))

    # -- prepared calls

    def prepare(self, arg_types: PreparedTypes, texrefs: object = None) -> Function:
        """Fix the arguments' types, so that plain Python numbers and addresses can be passed.

        Parameters
        ----------
        arg_types : str or sequence
            A format string such as ``"PPi"``, or NumPy scalar types and dtypes; a struct has a
            structured dtype.
        texrefs
            Without effect.

        Returns
        -------
        Function
            This function.

        Raises
        ------
        TypeError
            The number of types, or a type's size or kind, is not that of the kernel's parameters.
        """
        del texrefs
        # one per argument: "PPi" and ["P", "P", np.int32] are three
        types = [*_split_prepared_types(arg_types)]
        codes = [_find_prepared_code(arg_type) for arg_type in types]  # of `struct`: "Q", "Q", "i"
        if len(codes) != len(self._parameters):
            raise errors.TypeError(
                f"{self._name}: prepare was given {len(codes)} types for {len(self._parameters)} "
                "parameters"
            )
        for parameter, code in zip(self._parameters, codes, strict=True):
            size, words, is_float = (
                struct.calcsize("<" + code),
                WORDS[parameter.kind],
                code in "efd",  # half, float, double
            )
            # Integers also fit pointers; any bytes fit a struct.
            if size != parameter.size or (
                parameter.kind != STRUCT and (parameter.kind == FLOAT) != is_float
            ):
                raise errors.TypeError(
                    f"{self._name}: {parameter}: the kernel takes {words} of {parameter.size} "
                    f"bytes, and prepare said {code!r}, of {size}"
                )
        # a `struct.Struct`, which packs the arguments of a launch
        self._prepared = self._build_layout(codes)
        self._prepared_codes = codes
        self._prepared_converters = None
        # the module `struct` takes structs and complex numbers as bytes: they are converted
        if any(code.endswith("s") for code in codes):
            self._prepared_converters = [
                _find_converter(kind, code) for kind, code in zip(types, codes, strict=True)
            ]
        return self

    def _pack_prepared(self, args: Sequence) -> bytes:
        """Return the packed arguments of a prepared call; raise the error that explains what cannot be packed."""
        if self._prepared_converters and len(args) == len(self._parameters):
            args = [
                convert(argument)
                for convert, argument in zip(self._prepared_converters, args, strict=True)
            ]
        try:
            return self._prepared.pack(*args)
        except AttributeError:  # `_prepared` is None
            raise LogicError(f"{self._name}: call prepare(...) before the prepared calls") from None
        except (struct.error, TypeError) as error:
            self._explain_prepared(args, error)

    def _explain_prepared(self, args: Sequence, error: Exception) -> NoReturn:
        """Raise a TypeError that says which argument of a prepared call cannot be packed, or else `error`."""
        if len(args) != len(self._parameters):
            count = f"prepared for {len(self._parameters)} arguments, and {len(args)} were given"
            raise errors.TypeError(f"{self._name}: {count}") from None
        for parameter, code, argument in zip(
            self._parameters, self._prepared_codes, args, strict=True
        ):
            try:
                struct.pack("<" + code, argument)
            except (struct.error, TypeError) as reason:
                raise errors.TypeError(
                    f"{self._name}: {parameter}: {describe_argument(argument)} cannot be passed as {code!r} "
                    f"({reason})"
                ) from None
        raise error

    def prepared_call(
        self, grid: tuple[int, ...], block: tuple[int, ...], *args: Any, shared_size: int = 0
    ) -> None:
        """Launch on the default stream, with arguments of the types given to `prepare`; do not wait.

        `shared_size` is the dynamic shared memory per block in bytes. LogicError without `prepare`.
        """
        self._launch(grid, block, self._pack_prepared(args), shared_size, None)

    def prepared_async_call(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        stream: Stream | None,
        *args: Any,
        shared_size: int = 0,
    ) -> None:
        """Launch on a stream (None: the default one), else as `prepared_call` does; do not wait."""
        self._launch(grid, block, self._pack_prepared(args), shared_size, stream)

    def prepared_timed_call(
        self, grid: tuple[int, ...], block: tuple[int, ...], *args: Any, shared_size: int = 0
    ) -> Callable[[], float]:
        """Launch as `prepared_call` does; return a function that waits and returns the run time in seconds."""
        packed = self._pack_prepared(args)
        start, end = Event(), Event()
        start.record()
        self._launch(grid, block, packed, shared_size, None)
        end.record()

        def wait_and_time() -> float:
            """Wait for the end of the kernel; return its run time in seconds."""
            end.synchronize()
            return end.time_since(start) * 1e-3  # from milliseconds

        return wait_and_time

    # -- attributes

    def get_attribute(self, attribute: int) -> int:
        """Return the kernel's attribute with a number of `function_attribute`; 0 if the CPU engine does not know it."""
        a = function_attribute
        return {
            a.MAX_THREADS_PER_BLOCK: self._max_threads,
            a.SHARED_SIZE_BYTES: self._static_shared,
            a.CONST_SIZE_BYTES: self._module._loaded.layout.constant_bytes,
            a.PTX_VERSION: 90,
            a.BINARY_VERSION: 90,  # of compute capability 9.0
            a.MAX_DYNAMIC_SHARED_SIZE_BYTES: self._max_dynamic,
        }.get(a(attribute), 0)

    def set_attribute(self, attribute: int, value: int) -> None:
        """Set the attribute MAX_DYNAMIC_SHARED_SIZE_BYTES: the most dynamic shared memory per block in a launch.

        PREFERRED_SHARED_MEMORY_CARVEOUT has no effect, and other attributes raise LogicError.
        """
        chosen = function_attribute(attribute)
        if chosen == function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES:
            most = SHARED_OPT_IN_BYTES - self._static_shared
            if not 0 <= value <= most:
                raise LogicError(
                    f"cuFuncSetAttribute failed: invalid argument: {self._name}: {value} bytes of dynamic "
                    f"shared memory, and at most {most} are possible besides {self._static_shared} static"
                )
            self._max_dynamic = value
        elif chosen != function_attribute.PREFERRED_SHARED_MEMORY_CARVEOUT:
            raise LogicError(
                f"cuFuncSetAttribute failed: invalid argument: {chosen.name} cannot be set"
            )

    def set_cache_config(self, config: object) -> None:
        """Check that `config` is a `func_cache`, else raise ValueError; the CPU engine has no cache to configure."""
        func_cache(config)

    def set_shared_config(self, config: object) -> None:
        """Do nothing: the CPU engine has no banks to configure."""

    num_regs = _as_property("NUM_REGS", "0: registers are assigned by the GPU's compiler.")
    local_size_bytes = _as_property("LOCAL_SIZE_BYTES", "0: the GPU's compiler decides on spills.")
    shared_size_bytes = _as_property(
        "SHARED_SIZE_BYTES", "Static shared memory per block in bytes."
    )
    const_size_bytes = _as_property(
        "CONST_SIZE_BYTES", "The module's ``__constant__`` memory in bytes."
    )
    max_threads_per_block = _as_property(
        "MAX_THREADS_PER_BLOCK", "1024, or the number in ``__launch_bounds__``."
    )
    ptx_version = _as_property(
        "PTX_VERSION", "The version of the PTX that a GPU of this architecture runs, times 10."
    )
    binary_version = _as_property("BINARY_VERSION", "`Device.compute_capability`, times 10.")


def _split_prepared_types(arg_types: PreparedTypes) -> Iterator:
    """Yield the type of each argument from `prepare`'s types: dtypes of numbers, "P", "12s" for bytes, or a class."""
    for entry in [arg_types] if isinstance(arg_types, str) else arg_types:
        # "PPi" holds three
        for part in re.findall(r"\d+s|\S", entry) if isinstance(entry, str) else [entry]:
            if isinstance(part, str):
                is_number = part != "P" and not part.endswith("s")
            else:
                is_number = isinstance(part, type) and issubclass(part, np.number)
            yield np.dtype(part) if is_number else part


def _find_converter(arg_type: Any, code: str) -> Callable:
    """Return the function that converts an argument for `struct`: complex numbers and structs become bytes."""
    if isinstance(arg_type, np.dtype) and arg_type.kind == "c":  # from any number, as PyCUDA does
        return lambda argument: arg_type.type(argument).tobytes()
    if code.endswith("s"):
        return lambda argument: argument.tobytes() if hasattr(argument, "tobytes") else argument
    return lambda argument: argument


def _find_prepared_code(arg_type: Any) -> str:
    """Return the `struct` code of a type that `_split_prepared_types` has yielded; "Q" for a pointer."""
    if isinstance(arg_type, str):
        return "Q" if arg_type == "P" else arg_type
    if not isinstance(arg_type, np.dtype):
        return "Q"
    return STRUCT_CODES.get((arg_type.kind, arg_type.itemsize), f"{arg_type.itemsize}s")
