"""``pycuda.compiler`` for the CPU engine: compile CUDA C++ source text and load it.

The host's compiler takes about a second. A source that any process has compiled before comes from
the cache, whose key covers the source, its options and headers, the compiler, the processor and the
engine.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from hostcuda.api import activity
from hostcuda.api.kernels import Function, Module
from hostcuda.build import messages, modules
from hostcuda.build.unit import Unit, make_unit
from hostcuda.check import records
from hostcuda.check.elements import find_parameters
from hostcuda.errors import CompileError, EngineError, LogicError
from hostcuda.host import cache, toolchain
from hostcuda.limits import CONSTANT_BYTES, SHARED_BYTES
from hostcuda.runtime import native
from hostcuda.runtime.building import build_library, is_built

__all__ = ["DEFAULT_NVCC_FLAGS", "SourceModule", "compile"]

DEFAULT_NVCC_FLAGS = []


def compile(
    source: str,
    nvcc: str = "nvcc",
    options: list[str] | None = None,
    keep: bool = False,
    no_extern_c: bool = False,
    arch: str | None = None,
    code: str | None = None,
    cache_dir: str | Path | bool | None = None,
    include_dirs: Iterable[str | Path] | None = None,
    target: str = "cubin",
) -> bytes:
    """Compile CUDA C++ and return the bytes of a file that `module_from_buffer` loads; CompileError if it fails.

    The file is a shared library of the CPU engine. `target` has no effect; for the other parameters see
    `SourceModule`.
    """
    del nvcc, code, target  # PyCUDA's parameters, without effect here
    options = DEFAULT_NVCC_FLAGS if options is None else options
    unit = make_unit(source, options, no_extern_c, arch, include_dirs)
    return _obtain(unit, keep, cache_dir)["path"].read_bytes()


def compile_program(
    source: str, options: Sequence[str] = (), include_dirs: Iterable = (), entry: str = "main"
) -> Module:
    """Compile and load a whole program in CUDA C++ with its host code, and return its module.

    `entry` is the name of the host function to call later. For the other parameters and the errors see
    `SourceModule`.
    """
    program = make_unit(
        source, options, no_extern_c=True, include_dirs=include_dirs, program=True, entry=entry
    )
    # if the cache lacks the runtime library, compile it at the same time as the program
    runtime = threading.Thread(target=_build_runtime)
    if not is_built():
        runtime.start()
    manifest = _obtain(program)
    if runtime.ident:  # it was started
        runtime.join()
    return _load(program, manifest)


def _build_runtime() -> None:
    """Compile the runtime library; ignore errors, because loading it later raises them again."""
    with contextlib.suppress(CompileError, EngineError, OSError):
        build_library(with_header=False)


def _obtain(source: Unit, keep: bool = False, cache_dir: str | Path | bool | None = None) -> dict:
    """Compile a source unless the cache has it; return its manifest, in which ``path`` is the shared library.

    CompileError as from `SourceModule`; for `keep` and `cache_dir` see there.
    """
    record = partial(activity.record_call, "compile")  # adds the compilation to a trace
    try:
        return modules.obtain(source, keep, cache_dir, record)
    except CompileError as error:
        raise error.with_traceback(None) from None  # without most of the engine's own lines


def _warn(places: Iterable[tuple[str, int, str, str]]) -> None:
    """Warn of each place (file, line, what is read, what was written before) that lacks a ``__syncwarp()``."""
    for file, line, read, written in places:
        warnings.warn(
            f"{file}:{line}: {read} is read after {written} was written, without a __syncwarp() between. The "
            "lanes of a warp do not run in step here, nor by CUDA's rules since compute capability 7.0: expect a wrong "
            "result. Put __syncwarp() between the read and the write, and between the write and the next read",
            stacklevel=3,
        )


class SourceModule:
    """Compile CUDA C++ source and load it.

    Parameters
    ----------
    source : str
        The text of a ``.cu`` file. ``#line 1 "file.cu"`` in it gives messages the file's name.
    nvcc, code
        Accepted as by PyCUDA, without effect.
    options : list of str, optional
        nvcc's options. ``-D -U -I -include -std -arch -fmad --use_fast_math -G`` have an effect.
    keep : bool
        Keep the build folder and print its name.
    no_extern_c : bool
        Do not enclose the source in ``extern "C" { }`` (needed for templates and C++ names).
    arch : str, optional
        For example ``"sm_80"``: defines ``__CUDA_ARCH__``.
    cache_dir : path-like or False, optional
        Another cache folder; False for no cache.
    include_dirs : list, optional
        Folders of the source's own headers.

    Raises
    ------
    CompileError
        The compiler refuses the source (its message names the user's file and line), a kernel needs
        more than 48 KB of static shared memory, the constants exceed 64 KB, or there is no
        compiler.
    """

    def __init__(
        self,
        source: str,
        nvcc: str = "nvcc",
        options: list[str] | None = None,
        keep: bool = False,
        no_extern_c: bool = False,
        arch: str | None = None,
        code: str | None = None,
        cache_dir: str | Path | bool | None = None,
        include_dirs: Iterable[str | Path] | None = None,
    ):
        del nvcc, code  # PyCUDA's parameters, without effect here; for the others see the class
        options = DEFAULT_NVCC_FLAGS if options is None else options
        kernels = make_unit(source, options, no_extern_c, arch, include_dirs)
        self.module = _load(kernels, _obtain(kernels, keep, cache_dir))
        self.get_global = self.module.get_global

    def get_function(self, name: str) -> Function:
        """Return the kernel `name`; see `hostcuda.api.kernels.Module.get_function`."""
        return self.module.get_function(name)


def _load(source: Unit, manifest: dict) -> Module:
    """Load a compiled source, given the manifest of `_obtain`; warn, record it for check mode, and return its module.

    CompileError if a function is not defined, or too much shared or constant memory is used.
    """
    _warn(manifest["unsynchronized"])
    # HOSTCUDA_WARNINGS=all: warnings of doubtful code, too. `Unit.warnings` reads the variable itself; here
    # only the name of the file that keeps them depends on it.
    if os.environ.get("HOSTCUDA_WARNINGS"):
        suffix = ".doubts" if os.environ["HOSTCUDA_WARNINGS"] == "all" else ".warnings"
        _show_warnings(source, manifest["path"].with_suffix(suffix), manifest["warnings"])
    native.library()  # a module's symbols are resolved against the engine's
    # a file that is loaded twice would share its variables
    path = modules.make_own_copy(manifest["path"])
    try:
        # "kernels": each name's parameters, as declared
        module = Module(path, manifest["kernels"], manifest["registered"])
    except LogicError as error:
        # the loader's message: "cuModuleLoad failed: ...so: undefined symbol: _Z4helpf"
        missing = re.search(r"undefined symbol: (\S+)", str(error))
        if missing:
            name = toolchain.demangle(missing[1])
            message = f"{name} is declared and used, but not defined in the source"
            if source.program:
                message += '. If another file or a library defines it, name that: --options "FILE.cpp -lLIBRARY"'
            raise CompileError(message) from None
        raise
    _check_sizes(module)
    # the name of a source without #line, which messages do not show
    default_name = messages.NAME if messages.find_file_name(source.source) == messages.NAME else ""
    parameters = {
        kernel.name: find_parameters(
            [raw.offset for raw in kernel.parameters], manifest["kernels"].get(kernel.name, ())
        )
        for kernel in module.kernels()
    }
    options = source.options
    records.add_module(
        path, source.nvccs_source, options.words, options.include_dirs, default_name, parameters
    )
    return module


def _show_warnings(source: Unit, file: Path, engine_warnings: str) -> None:
    """Print and record the compiler's warnings and the engine's own; keep the compiler's in `file` for next time."""
    if not file.is_file():
        cache.publish(source.warnings().encode(), file)
    text = file.read_text(errors="replace") + engine_warnings
    for line in dict.fromkeys(line for line in text.splitlines() if ": warning: " in line):
        print(line, file=sys.stderr, flush=True)
    records.record_event("warnings", text, source=source.source)


def _check_sizes(module: Module) -> None:
    """Raise CompileError where ptxas refuses, too: a module with too much static shared or constant memory."""
    constants = module._loaded.layout.constant_bytes
    if constants > CONSTANT_BYTES:
        raise CompileError(
            f"the source uses too much global constant data: {constants} bytes, and the limit is "
            f"{CONSTANT_BYTES}"
        )
    for kernel in module.kernels():
        if kernel.own_shared > SHARED_BYTES:
            raise CompileError(
                f"kernel {kernel.name!r} uses too much shared data: {kernel.own_shared} bytes of static "
                f"__shared__ variables, and the limit is {SHARED_BYTES}. Use dynamic shared memory for "
                "more."
            )
