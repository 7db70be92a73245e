"""nvcc's options, in terms of a host compiler."""

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hostcuda.errors import CompileError


@dataclass
class Options:
    """nvcc's options in terms of a host compiler."""

    words: list[str]  # as given
    include_dirs: list[Path]  # folders of headers
    prologue: list[str] = field(default_factory=list)  # preprocessor lines before the source
    sources: list[Path] = field(default_factory=list)  # further files of a program
    joined: bool = False  # the device code of all files is linked: a name means the same thing in all of them
    standard: int = 17  # of C++
    fast_math: bool = False
    wrap: bool = False  # signed integers wrap: loops over an index are then not vectorized
    flush: bool = False  # subnormal numbers are zeros
    fuse: bool = True  # multiplications and additions are fused
    debug: bool = False
    openmp: bool = False

    def flags(self, checked: bool) -> list[str]:
        """Return the flags for any host compiler, without those of check mode."""
        flags = [
            f"-std=gnu++{self.standard}",
            "-march=native",
            "-fPIC",
            "-fvisibility=hidden",
            "-fno-strict-aliasing",
            "-fstack-clash-protection",
            "-fno-stack-protector",  # Ubuntu's compilers turn these two on: kernels would call the C library
            "-U_FORTIFY_SOURCE",
            "-fno-delete-null-pointer-checks",  # g++ 12 else removes calls of functions that wait in a loop
            "-fno-math-errno",
            "-fno-trapping-math",
            f"-ffp-contract={'fast' if self.fuse or self.fast_math else 'off'}",
            "-w",
        ]
        if not checked:
            flags += ["-O1", "-g"] if self.debug else ["-O3"]
        if self.fast_math:  # as -ffast-math, but with NaN and infinity
            flags += ["-fassociative-math", "-fno-signed-zeros", "-freciprocal-math", "-D__USE_FAST_MATH__"]
        flags += ["-DHOSTCUDA_FLUSHES=true"] if self.flush else []
        flags += ["-fwrapv"] if self.wrap or self.debug else []
        return [*flags, "-fopenmp"] if self.openmp else flags


_VALUE_ELSEWHERE = {  # ignored options whose value is the next word, unless it follows "="
    "-Xptxas", "--ptxas-options", "-Xlinker", "--linker-options", "-Xnvlink",
    "--nvlink-options", "-Xfatbin", "-Xarchive", "-maxrregcount", "--maxrregcount", "-code", "--gpu-code", "-gencode",
    "--generate-code", "-ccbin", "--compiler-bindir", "-m", "--machine", "-diag-suppress", "--diag-suppress", "-l",
    "--library", "-L", "--library-path", "-cudart", "--cudart", "-x", "-t",
    "--threads", "-prec-div", "--prec-div", "-prec-sqrt", "--prec-sqrt",
    "-default-stream", "--default-stream", "-Werror", "--Werror", "-split-compile", "--split-compile",
}
_MEANINGLESS = re.compile(
    r"-O\d?|--?optimize|-O=\d|--?optimize=.*|-lineinfo|--generate-line-info|-w|--disable-warnings|-g|--debug|-m64|-m32|"
    r"--?keep(-dir)?|--?v(erbose)?|--expt-.*|-expt-.*|--extended-lambda|-extended-lambda|--?restrict|-res-usage|"
    r"--resource-usage|-src-in-ptx|-dw|--?shared|--?Wno-.*|-W.*|-extra-device-vectorization|"
    r"--extra-device-vectorization|-lto|--?cubin|--?ptx|--?fatbin|-l.+|-L.+|--?time(=.*)?|-std|-diag.*|--?arch-list.*"
)
SOURCE = re.compile(r"\.(?:cu|cpp|cc|cxx|c)$")
_ignored = set()  # unknown options that a warning was given for


def read(options: str | Iterable, include_dirs: Iterable | None, arch: str | None) -> Options:
    """Read nvcc's options: one, or several."""
    options = [options] if isinstance(options, str) else [str(option) for option in options]
    settings = Options(options, [Path(folder).absolute() for folder in include_dirs or ()])
    words = iter(options)
    for word in words:
        name, equals, value = word.partition("=") if word.startswith("-") else (word, "", "")

        def argument(equals=equals, value=value, name=name):
            if equals:
                return value
            try:
                return next(words)
            except StopIteration:
                raise CompileError(f"the nvcc option {name} has no value", ["nvcc", *options]) from None

        if word.startswith(("-D", "-U")) or name in ("--define-macro", "--undefine-macro"):
            definition = word[2:] if word.startswith(("-D", "-U")) and len(word) > 2 else argument()
            macro, equals, body = definition.partition("=")
            define = word.startswith(("-D", "--define"))
            settings.prologue.append(f"#define {macro} {body if equals else 1}" if define else f"#undef {macro}")
        elif name in ("--include-path", "-isystem", "--system-include") or word == "-I":
            settings.include_dirs.append(Path(argument()).absolute())
        elif word.startswith("-I"):
            settings.include_dirs.append(Path(word[2:].removeprefix("=")).absolute())
        elif name in ("-include", "--pre-include"):
            settings.prologue.append(f'#include "{argument()}"')
        elif name in ("-std", "--std"):
            standard = re.fullmatch(r"(?:c|gnu)\+\+(\d+)", argument())
            settings.standard = max(17, int(standard[1])) if standard else 17
        elif word in ("-use_fast_math", "--use_fast_math"):
            settings.fast_math = settings.flush = True
        elif word in ("-G", "--device-debug"):
            settings.debug = True
        elif name in ("-ftz", "--ftz"):
            settings.flush = argument() != "false"
        elif name in ("-fmad", "--fmad"):
            settings.fuse = argument() != "false"
        elif word in ("-dc", "-dlto") or name in ("-rdc", "--relocatable-device-code"):
            settings.joined = word.startswith("-d") or argument() == "true"
        elif name in ("-arch", "--gpu-architecture"):
            arch = argument()
        elif SOURCE.search(word):
            settings.sources.append(Path(word).absolute())
        elif name in ("-Xcompiler", "--compiler-options"):
            flags = argument().split(",")
            settings.openmp |= "-fopenmp" in flags
            settings.wrap |= "-fwrapv" in flags
        elif word == "-fopenmp":
            settings.openmp = True
        elif name in _VALUE_ELSEWHERE:
            argument()
        elif not _MEANINGLESS.fullmatch(word) and word not in _ignored:
            _ignored.add(word)
            warnings.warn(f"the CPU engine ignores the unknown nvcc option {word!r}", stacklevel=4)
    number = re.search(r"_(\d+)", arch or "")
    if number:
        settings.prologue += ["#undef __CUDA_ARCH__", f"#define __CUDA_ARCH__ {int(number[1]) * 10}"]
    return settings
