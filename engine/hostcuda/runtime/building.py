"""Build the engine's runtime library, once into the cache."""

import threading
from pathlib import Path

from hostcuda.build.unit import precompile_header
from hostcuda.check import mode as checkmode
from hostcuda.errors import CompileError
from hostcuda.host import cache, toolchain

# Runtime files that are compiled as one: half of the time goes into the standard library's headers.
# With the kernels' header, which is compiled beside them, two cores have equal work. No thread of a
# block waits for `_COLD` code.
_UNITS = {
    "scheduler": (
        "worker",
        "half",
        "fibers",
        "slabs",
        "warps",
        "shared",
        "spins",
        "mbarriers",
        "bulk",
        "clusters",
        "scheduler",
    ),
    "pool": ("system", "divide", "faults", "signals", "printf", "heap", "memory", "module", "pool"),
}
_CHECK_UNITS = {  # only in check mode
    "counting": ("counting",),
    "hooks": ("allocations", "requests", "steps", "clocks", "races", "check", "hooks"),
    "records": ("copies", "ahead", "records"),
}
_COLD = {"pool", "records"}


def _describe(checks: bool) -> tuple[list[str], list[str], str]:
    """Return the compiler's command, the flags and the name of the runtime library, with or without check mode."""
    command = toolchain.find()
    flags = [
        "-std=gnu++17",
        "-O2",
        "-march=native",
        "-fPIC",
        "-fvisibility=hidden",
        "-pthread",
        "-fno-strict-aliasing",
        *(["-DHOSTCUDA_CHECK"] if checks else []),
    ]
    # the fingerprint is also of the engine's files, with the runtime's
    key = cache.digest("runtime", toolchain.fingerprint(command), *flags)
    return command, flags, f"runtime-{key[:24]}.so"


def is_built(checks: bool = bool(checkmode.TOOLS)) -> bool:
    """Return whether the cache has the compiled runtime library; `checks`: the one for check mode.

    By default it is the library that this process uses. Raises CompileError if there is no compiler.
    """
    _command, _flags, name = _describe(checks)
    return cache.is_intact(cache.directory() / name)


def build_library(checks: bool = bool(checkmode.TOOLS), with_header: bool = True) -> Path:
    """Compile the runtime library if it is not in the cache, or raise CompileError; return the path of the library.

    `checks`: that of check mode. `with_header`: precompile the header for kernels beside it, since the first
    kernel needs both.
    """
    command, flags, name = _describe(checks)

    def compile_runtime(path):
        """Compile and link the library into the file `path`; the objects go beside it."""
        cache.trim("runtime-*.so")  # remove old versions of it
        units = _UNITS | (_CHECK_UNITS if checks else {})
        compilations = []
        # a unit is a row of files that are compiled as one: the last, with the others included in front
        for unit_name, (*included, last) in units.items():
            words = [*command, *flags, f"-I{toolchain.RUNTIME}", f"-I{toolchain.INCLUDE}"]
            if unit_name in _COLD:
                words.append("-Og")  # compiles faster than -O2
            if unit_name == "hooks":  # its function `keep_returns` goes through the callers' frames
                words.append("-fno-omit-frame-pointer")
            for source in included:
                words += ["-include", str(toolchain.RUNTIME / f"{source}.cpp")]
            words += [
                "-c",
                str(toolchain.RUNTIME / f"{last}.cpp"),
                "-o",
                str(path.with_name(f"{unit_name}.o")),
            ]
            compilations.append(words)
        header = threading.Thread(target=precompile_header)
        if with_header:
            header.start()  # runs beside the compilations
        results = [*zip(compilations, toolchain.run_all(compilations), strict=True)]
        link = [
            *command,
            *flags,
            "-shared",
            "-o",
            str(path),
            *(words[-1] for words in compilations),  # the object files
            # flags for the shared C++ library, where the compiler would take the static one
            *toolchain.choose_shared_library(tuple(command)),
            "-ldl",
        ]
        results.append((link, toolchain.run(link)))
        if with_header:
            header.join()
        for words, (status, out, err) in results:
            if status:
                reason = "the CPU engine's own runtime library does not compile; set CXX to use another compiler"
                raise CompileError(reason, words, out, err)

    path = cache.obtain(name, compile_runtime)
    cache.touch(path)  # `trim` keeps what was used last
    return path
