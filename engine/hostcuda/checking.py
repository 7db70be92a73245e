"""Check mode in this process: the accesses, counts and errors of each launch on the CPU engine.

The environment variable ``HOSTCUDA_CHECK`` turns it on before the first import: a list of the tools
``profile``, ``memcheck``, ``racecheck``, ``initcheck`` and ``synccheck``, separated by commas.
`launches` has the records of all launches that have ended. ``HOSTCUDA_CHECK_OUT`` names a file that
gets them, too, as lines of JSON: `take` writes those that are not there yet, and so does each call
that waits for the device. `follow` adds single requests to the records, and `begin_with` chooses the
block that runs first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hostcuda.build import modules
from hostcuda.build.unit import make_unit
from hostcuda.check.bounds import needs_checks
from hostcuda.check.mode import TOOLS
from hostcuda.check.records import Finding, LaunchRecord, begin_with, follow, launches, take
from hostcuda.host import cache, toolchain
from hostcuda.runtime.building import build_library

__all__ = [
    "TOOLS",
    "Finding",
    "LaunchRecord",
    "begin_with",
    "engine_files",
    "fills_variables",
    "fingerprint",
    "follow",
    "launches",
    "needs_run_without_counts",
    "precompile",
    "read_shared_bytes",
    "take",
]


def fills_variables() -> bool:
    """Return whether ``initcheck`` sees unset variables in registers: the compiler can fill them (g++ 12, clang).

    CompileError if there is no compiler.
    """
    return toolchain.fills_variables(toolchain.find())


def needs_run_without_counts(source: str, folders: Iterable[Path] = ()) -> bool:
    """Return whether ``memcheck`` sees less of this source if ``profile`` counts, too: indices of local arrays.

    Code that is counted has no checks of such indices, which would change the counts. False if all of
    them are constants. `folders` are those of the source's own headers.
    """
    return needs_checks(source, folders)


def fingerprint() -> str:
    """Return a digest of what compiled kernels and records depend on besides the source: engine, compiler, processor.

    CompileError if there is no compiler.
    """
    return toolchain.fingerprint(toolchain.find())


def engine_files(options: Sequence[str] = (), programs: bool = True) -> list[Path]:
    """Return the paths of the engine's own compiled files in the cache; make them if they are missing.

    A sandbox with a cache of its own gets copies, and need not compile them. They are the runtime
    library, its digest, and folders of precompiled headers: those for kernels and, with `programs`,
    those for whole programs. `options` are nvcc's options, on which the headers depend.
    CompileError if the compiler is missing or fails.
    """
    runtime = build_library()
    # without a source: the headers depend on the options alone
    units = [
        make_unit("", options, no_extern_c=True, program=program)
        for program in ((False, True) if programs else (False,))
    ]
    folders = [Path(unit.make_prelude()).parent for unit in units]
    return [runtime, cache.digest_of(runtime), *folders]


def precompile(
    tools: Sequence[str],
    source: str,
    options: Sequence[str] = (),
    no_extern_c: bool = False,
    arch: str | None = None,
    include_dirs: Iterable[str | Path] | None = None,
) -> Path:
    """Compile a source for check mode into the cache, so that a process with these `tools` in HOSTCUDA_CHECK finds it.

    Returns the path of the shared library. The other parameters are those of `hostcuda.compiler.SourceModule`.
    CompileError if it does not compile.
    """
    unit = make_unit(source, options, no_extern_c, arch, include_dirs, tools=(*tools,))
    # False: if the cache has it, it is not compiled again; None: the usual cache; the function, which
    # could report how long it takes, does nothing
    manifest = modules.obtain(unit, False, None, lambda start, seconds: None)
    return manifest["path"]


def read_shared_bytes(library: Path, kernel: str) -> int | None:
    """Return how many bytes of static shared memory a kernel uses, from a file that `precompile` has made.

    `kernel` is the kernel's symbol. None if the file has no such kernel. The file is not loaded.
    """
    # imported here, because the module refuses other processors than the engine's
    from hostcuda.runtime import layout

    return layout.read_shared_bytes(library, kernel)
