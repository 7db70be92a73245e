"""The host's C++ compiler: its command and its options."""

import errno
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path

from hostcuda import processor
from hostcuda.errors import CompileError, EngineError, Interrupted
from hostcuda.host import cache

_HERE = Path(__file__).parent.parent
INCLUDE = _HERE / "include"  # CUDA's headers for a host compiler
RUNTIME = _HERE / "runtime"  # the runtime library's source
# the assembler's directive that makes a symbol global
_GLOBAL = re.compile(r"(?m)^\t\.globl\t(\S+).*\n")
# processor time of one command, or None: hostcuda.untrusted sets it
processor_seconds: int | None = None
FILL = "-ftrivial-auto-var-init=pattern"  # by which check mode recognizes variables without a value

_REMEDY = """Install one:
  Debian, Ubuntu:  sudo apt install g++
  Fedora, RHEL:    sudo dnf install gcc-c++
  conda:           conda install -c conda-forge cxx-compiler
or name one in the environment variable CXX."""


def find() -> list[str]:
    """Return the compiler's command as a list: ``$CXX`` if set, else g++, clang++ or c++ from the path.

    Raises CompileError if there is none (the message says how to install one), and if this is not
    Linux.
    """
    if sys.platform != "linux":
        raise CompileError(
            f"the CPU engine reads Linux's ELF files, and this is {sys.platform}: run hostcuda in a "
            "Linux container (Docker, Podman) or, on Windows, in WSL 2"
        )
    value = os.environ.get("CXX")
    if value:
        try:
            command = shlex.split(value) or [value]
        except ValueError:  # an open quotation mark
            command = [value]
        if shutil.which(command[0]):
            return command
        raise CompileError(
            f"the CPU engine needs a C++ compiler, and CXX={value!r} is not one: {command[0]!r} cannot "
            f"be found.\n{_REMEDY}"
        )
    for name in ("g++", "clang++", "c++"):
        if shutil.which(name):
            return [name]
    raise CompileError(
        f"the CPU engine needs a C++ compiler, and none of g++, clang++, c++ is on the path.\n{_REMEDY}"
    )


@lru_cache(maxsize=8)
def _read_version(command: tuple[str, ...], path: str) -> str:
    """Return what the compiler prints for ``--version``, which is asked once per process."""
    del path  # part of the key: another PATH may have another compiler
    words = [*command, "--version"]
    status, out, err = run(words)
    if status:
        raise CompileError(
            f"{' '.join(words)} failed: this compiler does not work.\n{_REMEDY}", words, out, err
        )
    return out


@lru_cache(maxsize=1)
def _digest_engine():
    """Return a digest of the engine's own files, on which a compiled kernel depends."""
    paths = sorted(
        p for p in _HERE.rglob("*") if p.suffix in (".h", ".hpp", ".cuh", ".cpp", ".S", ".inc")
    )
    packages = (
        _HERE / package for package in ("build", "check", "frontend", "host", "loops", "runtime")
    )
    paths += sorted(path for package in packages for path in package.glob("*.py"))
    # headers as <cuda/barrier>
    paths += sorted(p for p in INCLUDE.rglob("*") if p.is_file() and not p.suffix)
    # And the name of their folder: compiled code names the headers' lines by it, and it differs
    # between checkouts.
    return cache.digest(
        _HERE, *(part for path in paths for part in (path.relative_to(_HERE), path.read_bytes()))
    )


def fingerprint(command: list[str]) -> str:
    """Return a digest of compiler, processor and engine: all that compiled files depend on but source and options."""
    # In /proc/cpuinfo this is "model name" on x86-64 and "CPU part" on aarch64.
    model = [
        value for key in ("model name", "CPU part") for value in processor.facts().get(key, ())
    ]
    # what -march=native depends on
    native = f"{platform.machine()} {model} {sorted(processor.instruction_sets())}"
    version = _read_version(tuple(command), os.environ.get("PATH", ""))
    return cache.digest(*command, version, native, _digest_engine(), sys.platform)


def is_clang(command: list[str]) -> bool:
    """Return whether the compiler is clang, under any name."""
    return "clang" in _read_version(tuple(command), os.environ.get("PATH", ""))


@lru_cache(maxsize=8)
def _knows_fill(command: tuple[str, ...]) -> bool:
    """Return whether the compiler accepts the flag `FILL` for an empty file; ask once per process."""
    return run([*command, FILL, "-fsyntax-only", "-x", "c++", os.devnull])[0] == 0


def fills_variables(command: list[str]) -> bool:
    """Return whether the compiler can give uninitialized variables a recognizable value: g++ 12 and later, clang."""
    return _knows_fill(tuple(command))  # a tuple is hashable


def module_flags(command: list[str]) -> list[str]:
    """Return the flags for compiling kernels that only clang has, or only g++."""
    if is_clang(command):
        # -Wno-c++11-narrowing: nvcc and g++ accept a narrowing conversion
        return ["-ferror-limit=20", "-fno-spell-checking", "-Wno-c++11-narrowing"]
    # no-gnu-unique: unique symbols would outlive their module. no-section-anchors: the runtime places
    # each __shared__ variable on its own.
    flags = ["-fmax-errors=20", "-fno-gnu-unique", "-fno-section-anchors"]
    if platform.machine() == "x86_64":
        # saves a call per shared variable: 5 to 8 % of a tiled kernel
        flags.append("-mtls-dialect=gnu2")
    return flags


def preprocessing_flags(command: list[str]) -> list[str]:
    """Return the preprocessor's flags.

    -dD: its output keeps each #define, which `frontend.preprocess` reads. -fpch-preprocess: g++ uses the
    precompiled header; clang++ reads the header itself.
    """
    return ["-E", "-dD"] if is_clang(command) else ["-E", "-dD", "-fpch-preprocess"]


def loops_flags(command: list[str], halves: bool) -> list[str]:
    """Return flags by which g++ compiles thread loops faster: kernels as loops over the threads of a block.

    They may differ from those of the precompiled header. clang gets none. `halves`: whether the kernels
    compute with half, numbers of 2 bytes.
    """
    # vect-epilogues-nomask: what is left of a row of threads is not vectorized again. A block's width
    # is mostly a multiple of the vectors', and this takes 30 to 40 % of the time to compile. With
    # halves it is vectorized, because a row of 16 threads is less than a vector of 32 halves.
    # no-unswitch-loops: a loop is not copied for each outcome of a condition that stays the same in
    # it. With four such conditions the copies take ten times as long to compile, and masked
    # vectors are as fast.
    # The others: a loop is not split into several ones, nor copied for strides of 1. A kernel with
    # tiles in registers (06 of the lab) compiles in 60 % of the time without these, and is faster.
    flags = ["--param", f"vect-epilogues-nomask={int(halves)}", "-fno-unswitch-loops"]
    flags += ["-fno-tree-loop-distribution", "-fno-version-loops-for-strides"]
    return [] if is_clang(command) else flags


# For a module's link. Kernels call the runtime's versions of these functions: malloc, free, new and
# delete, so that a wrong free ends the launch and not the process, like exit and std::terminate;
# and __tls_get_addr, because the runtime places __shared__ variables (runtime/shared.cpp).
# -Bsymbolic: a kernel `conj` is not libm's. relro, now: all addresses of functions are found while a
# module is loaded, and its tables of them are read-only from then on.
_WRAPPED = (
    "malloc",
    "free",
    "_Znwm",
    "_Znam",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZdaPvm",
    "abort",
    "exit",
    "_exit",
    "_Exit",
    "quick_exit",
    "_ZSt9terminatev",
    "__tls_get_addr",
)
_LINK = [
    "-shared",
    ",".join(
        [
            "-Wl,-z,relro,-z,now,-Bsymbolic,--exclude-libs,libstdc++.a",
            *(f"--wrap={name}" for name in _WRAPPED),
        ]
    ),
]


def link_flags(command: list[str]) -> list[str]:
    """Return the flags for linking a module."""
    # On x86-64, clang's code has the offsets of thread-local variables, as which shared ones are compiled;
    # the runtime changes them there, and the relocations tell the places.
    relocations = (
        ["-Wl,--emit-relocs"] if is_clang(command) and platform.machine() == "x86_64" else []
    )
    return [*_LINK, *relocations, *choose_shared_library(tuple(command))]


@lru_cache(maxsize=8)
def choose_shared_library(command: tuple[str, ...]) -> list[str]:
    """Return the flags that link the shared C++ library where the compiler would take a static one, else [].

    A small container image may have only the static one beside the compiler. A module's own copy of
    the library would share a part of its variables with the process's, and crash in `std::cout`. The
    runtime library's functions are visible to all: extension modules that are loaded later would take
    a part of its copy, and lose the exceptions that they throw.
    """

    def has(name):
        """Return whether the compiler knows the path of a library; else it prints the name alone."""
        return "/" in run([*command, f"-print-file-name={name}"])[1]

    # the compiler takes the shared one by the name libstdc++.so; without .so.6 there is only the static one
    needs_no_flag = has("libstdc++.so") or not has("libstdc++.so.6")
    # --no-as-needed: also if the module itself needs nothing of it
    return [] if needs_no_flag else ["-Wl,--no-as-needed,-l:libstdc++.so.6,--as-needed"]


def run(command: list[str], cwd: Path | None = None) -> tuple[int, str, str]:
    """Run a command; return (exit status, stdout, stderr), with messages in English and without colours.

    `cwd` is the folder to work in. Raises Interrupted after Ctrl-C. Raises EngineError if the disk is full,
    or if the command took more than `processor_seconds`, a variable of this module, of processor time.
    """
    environment = {**os.environ, "LC_ALL": "C", "GCC_COLORS": ""}
    limit = []
    if processor_seconds:  # SIGXCPU, and SIGKILL a second later
        limit = ["prlimit", f"--cpu={processor_seconds}:{processor_seconds + 1}", "--"]
    try:
        result = subprocess.run(
            [*limit, *command],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except KeyboardInterrupt:
        raise Interrupted(f"{Path(command[0]).name} was stopped") from None
    out, err = result.stdout.decode("utf-8", "replace"), result.stderr.decode("utf-8", "replace")
    # g++ starts the compiler proper as another process, and names the signal that ended it
    if result.returncode == -signal.SIGXCPU or f"{signal.strsignal(signal.SIGXCPU)} signal" in err:
        raise EngineError(
            f"the compiler used more than {processor_seconds} s of processor time: compute less while compiling "
            "(constexpr, templates, macros), or unroll less"
        )
    if result.returncode and os.strerror(errno.ENOSPC) in err:
        raise EngineError(
            f"the disk of {tempfile.gettempdir()}, where {Path(command[0]).name} writes, is full: free "
            "some space there, or set TMPDIR to another folder"
        )
    return result.returncode, out, err


def run_all(
    commands: list[list[str]], folders: list[Path] | None = None
) -> list[tuple[int, str, str]]:
    """Run commands at the same time, each in its folder; return their (exit status, stdout, stderr) in order.

    `folders` None: all in the current one. Raises what `run` raises.
    """
    # No pool: concurrent.futures refuses work when the main thread has ended, though other threads
    # may still compile; multiprocessing's has semaphores, which a sandbox without shared memory
    # does not allow.
    jobs = [
        (Future(), *job) for job in zip(commands, folders or [None] * len(commands), strict=True)
    ]
    results, waiting = [future for future, _, _ in jobs], iter(jobs)

    def run_waiting():
        """Run commands that no thread has taken yet, until none is left."""
        for future, command, folder in waiting:
            try:
                future.set_result(run(command, folder))
            except BaseException as error:
                future.set_exception(error)

    for _ in range(min(len(jobs), os.cpu_count() or 1)):
        threading.Thread(target=run_waiting, daemon=True).start()
    try:
        return [future.result() for future in results]
    except KeyboardInterrupt:
        raise Interrupted(f"{Path(commands[0][0]).name} was stopped") from None
    finally:
        jobs.clear()  # this ends `waiting`: after an error, commands that have not begun never do


def make_names_local(paths: list[Path]) -> None:
    """Change assembler files: make each name that several of them define local to its file.

    The files of one program may so have device functions of the same name, as nvcc lets them.
    """
    texts = [path.read_text(encoding="utf-8", errors="surrogateescape") for path in paths]
    counts = Counter(name for text in texts for name in set(_GLOBAL.findall(text)))
    for path, text in zip(paths, texts, strict=True):
        new = _GLOBAL.sub(lambda match: "" if counts[match[1]] > 1 else match[0], text)
        path.write_text(new, encoding="utf-8", errors="surrogateescape")


def demangle(symbol: str) -> str:
    """Return a C++ symbol as written in the source: "f(int)" for "_Z1fi".

    Another text stays as it is; so does a symbol if there is no c++filt on the machine.
    """
    status, out, _ = run(["c++filt", symbol]) if shutil.which("c++filt") else (1, "", "")
    return out.strip() if status == 0 else symbol
