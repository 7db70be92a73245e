"""The stand-in for `hostcuda.host.toolchain` in a browser: clang and lld, which are WebAssembly themselves.

`hostcuda.wasm.boot` sets `clang`. The commands are the engine's for clang on Linux; what this
target does not have is omitted here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from hostcuda.errors import CompileError
from hostcuda.host import cache

_HERE = Path(__file__).parent.parent
INCLUDE, RUNTIME = _HERE / "include", _HERE / "runtime"
FILL = "-ftrivial-auto-var-init=pattern"

# Runs a command in a folder, with other folders in place of some; returns its status, its output
# and its messages.
clang: Callable[[list[str], str, dict[str, str]], tuple[int, str, str]] = None

# variables of the next linked source whose addresses JavaScript needs: page.compile sets it
exported: list[str] = []

_LEFT_OUT = {
    "-march=native",
    "-fPIC",
    "-fstack-clash-protection",
    "-fno-stack-protector",
    "-fopenmp",
}
_HERE_AS = {  # the driver refuses these flags for WebAssembly, but the compiler behind it has them
    "-fsanitize=thread": ("-Xclang", "-fsanitize=thread"),
    "-fsanitize-coverage=bb,no-prune,trace-pc": (
        "-Xclang",
        "-fsanitize-coverage-type=2",
        "-Xclang",
        "-fsanitize-coverage-trace-pc",
        "-Xclang",
        "-fsanitize-coverage-no-prune",
    ),
    "-g": ("-gline-tables-only",),
    "-gdwarf-4": (),
    "-S": ("-S", "-emit-llvm"),
}
_TARGET = ["-msimd128", "-mbulk-memory", "-fignore-exceptions", "-Xclang", "-fno-pch-timestamp"]
_LIBRARIES = "/usr/lib/wasm32-wasip1"
_LINK = [
    "wasm-ld",
    "-m",
    "wasm32",
    f"-L{_LIBRARIES}",
    f"{_LIBRARIES}/crt1-reactor.o",
    "kernel.o",
    "-lc++",
    "-lc++abi",
    "-lc",
    "/usr/lib/wasm32-unknown-wasip1/libclang_rt.builtins.a",
    "--entry=_initialize",
    "--stack-first",
    "-z",
    "stack-size=1048576",
    "--export=__stack_pointer",
    *(
        f"--export-if-defined=hc_{name}"
        for name in (
            "error",
            "run",
            "trapped",
            "alloc",
            "written",
            "kernels",
            "launch_and_wait",
            "arguments",
            "check_take",
            "printf_take",
        )
    ),
]
# The runtime's files; the files of a row are compiled as one.
_RUNTIME = (
    ("platform",),
    ("worker", "slabs", "warps", "mbarriers", "bulk", "clusters", "scheduler"),
    ("faults", "printf"),
)
_CHECKS = (
    ("counting",),
    ("allocations", "requests", "clocks", "races", "check", "hooks"),
    ("copies", "ahead", "records"),
)
_CHECK_RUNTIME = (*_RUNTIME, *_CHECKS)


# A page has one compiler, clang, and one engine. A link has no flags of its own, and a page
# compiles one file.
find = lambda: ["clang++"]
fingerprint = lambda command: "wasm"
is_clang = fills_variables = lambda command: True
module_flags = lambda command: ["-ferror-limit=20", "-fno-spell-checking", "-Wno-c++11-narrowing"]
preprocessing_flags = lambda command: ["-E", "-dD"]
loops_flags = link_flags = lambda command, *halves: []
make_names_local = lambda paths: None


def _translate(command: list[str]) -> list[str]:
    """Return a command for clang on Linux as one for WebAssembly."""
    words = [
        replacement
        for word in command
        if word not in _LEFT_OUT
        for replacement in _HERE_AS.get(word, (word,))
    ]
    return [words[0], *_TARGET, *words[1:]]


def run(command: list[str], cwd: Path | None = None) -> tuple[int, str, str]:
    """Run a command that is meant for clang on Linux, in the folder `cwd`; return (exit status, output, messages)."""
    # `{}`, the last argument of clang(): it maps folders of the command to others to use instead
    folder, words = str(cwd or "/"), _translate(command)
    if "-dD" in command:  # it only preprocesses: this is one of `preprocessing_flags`
        return _preprocess(words, folder)
    if command[-2:] == ["-o", "kernel.so"]:  # the driver here does not link: compile, then link
        # check mode: the file is LLVM's text, which `ir.prepare` has changed
        checked = any(word.endswith(".ll") for word in command)
        # without LLVM's passes, which have run on the text already
        options = ["-O2", "-Xclang", "-disable-llvm-passes"] if checked else []
        status, out, err = clang([*words[:-2], *options, "-c", "-o", "kernel.o"], folder, {})
        if status:
            return status, out, err
        # the kernels' variables that the page accesses; `page.compile` sets `exported` before
        variables = [f"--export-if-defined={name}" for name in exported]
        # `_LINK` names kernel.o, and the libraries
        return clang([*_LINK, *variables, str(runtime(checked)), "-o", "kernel.so"], folder, {})
    if os.devnull in command:  # the caller wants the messages alone
        words = [word for word in words if word not in ("-S", "-emit-llvm", "-o", os.devnull)] + [
            "-fsyntax-only"
        ]
    elif "-emit-llvm" in words:
        return _write_text(words, folder, {})
    return clang(words, folder, {})


def _write_text(command: list[str], folder: str, instead: dict[str, str]) -> tuple[int, str, str]:
    """Run a command that writes a text to a file, and return (exit status, "", messages).

    The compiler prints the text, and this process writes it: the compiler itself would write it slowly,
    word by word. `instead` maps folders to those that the compiler reads in their place.
    """
    at = command.index("-o")
    status, text, err = clang([*command[:at], "-o", "-", *command[at + 2 :]], folder, instead)
    Path(folder, command[at + 1]).write_text(text, encoding="utf-8")
    return status, "", err


def _preprocess(command: list[str], folder: str) -> tuple[int, str, str]:
    """Run a command that preprocesses a text; return (exit status, "", messages).

    It gets the macros of the engine's header instead of the header's text, which takes a second.
    """
    at = command.index("-include") + 1
    macros, stubs = _extract_macros(Path(command[at]))
    return _write_text(
        [*command[:at], str(macros), *command[at + 1 :]], folder, {str(INCLUDE): str(stubs)}
    )


def _extract_macros(header: Path) -> tuple[Path, Path]:
    """Return the paths of a header with the macros of the engine's header, and of a folder for `INCLUDE`.

    In that folder the headers that the engine's header reads are empty, and the others as they are. Both
    are in the cache. CompileError if the engine's header cannot be preprocessed.
    """
    # the name of the header's folder, by `make_prelude`, has a digest of the flags
    name, folder = Path(f"macros-{header.parent.name}"), cache.directory()
    if not (folder / name).is_dir():
        status, text, err = clang(
            [
                "clang++",
                *_TARGET,
                "-std=gnu++17",
                "-w",
                "-E",
                "-dM",
                "-include",
                str(header),
                f"-I{INCLUDE}",
                "-x",
                "c++",
                str(INCLUDE / "hostcuda" / "keep.h"),
            ],
            "/",
            {},
        )  # keep.h: the words of CUDA that the preprocessor has to leave as they are
        if status:
            raise CompileError("the engine's header cannot be preprocessed", [], text, err)
        read = set()
        _add_headers(INCLUDE / "hostcuda.h", read)
        for path in (path for path in INCLUDE.rglob("*") if path.is_file()):
            content = b"#pragma once\n" if path in read else path.read_bytes()
            cache.publish(content, folder / name / "include" / path.relative_to(INCLUDE))
        cache.publish(text.encode(), folder / name / "hostcuda.h")
    return folder / name / "hostcuda.h", folder / name / "include"


def _add_headers(path: Path, read: set[Path]) -> None:
    """Add to `read` a header of the engine, and those of its headers that it includes, directly or through others."""
    read.add(path)
    for name in re.findall(r'(?m)^#include ["<]([^">]+)', path.read_text(encoding="utf-8")):
        for place in (path.parent / name, INCLUDE / name):
            if place.is_file() and place not in read:
                _add_headers(place, read)


def run_all(
    commands: list[list[str]], folders: list[Path] | None = None
) -> list[tuple[int, str, str]]:
    """Run commands one after the other; return their (exit status, output, messages) in a list.

    `folders` are those in which they run, one for each; by default all run in "/".
    """
    return [run(*job) for job in zip(commands, folders or [None] * len(commands), strict=True)]


def runtime(checked: bool) -> Path:
    """Return the path of the runtime as one object file in the cache, compiled if missing; `checked`: with check mode.

    CompileError if it does not compile.
    """

    def build(path: Path) -> None:
        """Compile the runtime's files, several at a time, and link the results to the object file `path`."""
        flags = [
            "-std=gnu++17",
            "-O2",
            "-fvisibility=hidden",
            "-fno-strict-aliasing",  # memory may be read as another type than it was written
            f"-I{RUNTIME}",
            f"-I{INCLUDE}",
        ]
        flags += ["-DHOSTCUDA_CHECK"] if checked else []
        objects = []
        # files that are compiled as one: the last, with the others included in front
        for names in _CHECK_RUNTIME if checked else _RUNTIME:
            files = [str(RUNTIME / f"{name}.cpp") for name in names]
            last = files.pop()
            objects.append(str(path.with_name(f"{names[-1]}.o")))
            included = [word for file in files for word in ("-include", file)]
            _require(["clang++", *_TARGET, *flags, *included, "-c", last, "-o", objects[-1]])
        _require(["wasm-ld", "-m", "wasm32", "-r", "-o", str(path), *objects])

    return cache.obtain(f"runtime-{'check' if checked else 'run'}.o", build)


def _require(command: list[str]) -> None:
    """Run a command of the compiler; raise CompileError if it fails."""
    status, out, err = clang(command, "/", {})
    if status:
        raise CompileError(
            "the CPU engine's own runtime library does not compile", command, out, err
        )
