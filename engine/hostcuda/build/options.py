"""nvcc's options, in terms of a host compiler."""

import re
import warnings
from collections.abc import Callable, Iterable
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
    # the device code of all files is linked: a name means the same thing in all of them
    joined: bool = False
    standard: int = 17  # of C++
    fast_math: bool = False
    wrap: bool = False  # signed integers wrap: loops over an index are then not vectorized
    flush: bool = False  # subnormal numbers are zeros
    fuse: bool = True  # multiplications and additions are fused
    debug: bool = False
    quick: bool = False  # compile in less time what then runs longer
    openmp: bool = False
    arch: str | None = None  # the GPU, for ``__CUDA_ARCH__``

    def flags(self, checked: bool) -> list[str]:
        """Return the host compiler's flags for these options, the same for g++ and clang++.

        `checked`: for check mode, which chooses the optimization itself.
        """
        flags = [
            f"-std=gnu++{self.standard}",
            "-march=native",
            "-fPIC",
            "-fvisibility=hidden",
            # memory may be read as another type, a float array as float4
            "-fno-strict-aliasing",
            # a large frame cannot jump over the guard between two threads' stacks
            "-fstack-clash-protection",
            # Ubuntu's compilers turn these two on: kernels would call the C library
            "-fno-stack-protector",
            "-U_FORTIFY_SOURCE",
            # else g++ 12 removes calls of functions that wait in a loop
            "-fno-delete-null-pointer-checks",
            "-fno-math-errno",
            "-fno-trapping-math",
            # fuse multiplications and additions, as nvcc does unless it is told not to
            f"-ffp-contract={'fast' if self.fuse or self.fast_math else 'off'}",
            "-w",  # no warnings: `Unit.warnings` asks for them, with flags of its own
        ]
        if not checked:
            flags += ["-O1", "-g"] if self.debug else ["-O3"]
            # quick: to compile in less time. Only with the second of these options g++ fuses
            # multiplications and additions.
            flags += ["-O1", "-fexpensive-optimizations"] if self.quick else []
        if self.fast_math:  # as -ffast-math, but with NaN and infinity
            flags += [
                "-fassociative-math",
                "-fno-signed-zeros",
                "-freciprocal-math",
                "-D__USE_FAST_MATH__",
            ]
        # flush: subnormal numbers become 0, as with -ftz=true. wrap: a signed integer that overflows
        # wraps around; in code for a debugger always, as nvcc's is not optimized (-G).
        flags += ["-DHOSTCUDA_FLUSHES=true"] if self.flush else []
        flags += ["-fwrapv"] if self.wrap or self.debug else []
        return [*flags, "-fopenmp"] if self.openmp else flags


_IGNORED_VALUES = {  # options that are ignored with their value
    "-Xlinker",
    "--linker-options",
    "-Xnvlink",
    "--nvlink-options",
    "-Xfatbin",
    "-Xarchive",
    "-maxrregcount",
    "--maxrregcount",
    "-code",
    "--gpu-code",
    "-gencode",
    "--generate-code",
    "-ccbin",
    "--compiler-bindir",
    "-m",
    "--machine",
    "-diag-suppress",
    "--diag-suppress",
    "-l",
    "--library",
    "-L",
    "--library-path",
    "-cudart",
    "--cudart",
    "-x",
    "-t",
    "--threads",
    "-prec-div",
    "--prec-div",
    "-prec-sqrt",
    "--prec-sqrt",
    "-default-stream",
    "--default-stream",
    "-Werror",
    "--Werror",
    "-split-compile",
    "--split-compile",
}
_MEANINGLESS = re.compile(
    r"-O\d?|--?optimize|-O=\d|--?optimize=.*|-lineinfo|--generate-line-info|-w|--disable-warnings|-g|--debug|-m64|-m32|"
    r"--?keep(-dir)?|--?v(erbose)?|--expt-.*|-expt-.*|--extended-lambda|-extended-lambda|--?restrict|-res-usage|"
    r"--resource-usage|-src-in-ptx|-dw|--?shared|--?Wno-.*|-W.*|-extra-device-vectorization|"
    r"--extra-device-vectorization|-lto|--?cubin|--?ptx|--?fatbin|-l.+|-L.+|--?time(=.*)?|-std|-diag.*|--?arch-list.*"
)
SOURCE = re.compile(r"\.(?:cu|cpp|cc|cxx|c)$")
_ignored_options = set()  # unknown options that a warning was given for


def _add_macro(options: Options, definition: str) -> None:
    """Add the directive for an option like ``-DN=3`` or ``-DN`` to the prologue."""
    macro, equals, body = definition.partition("=")
    options.prologue.append(f"#define {macro} {body if equals else 1}")


def _set_standard(options: Options, value: str) -> None:
    """Set the C++ standard to that of ``c++20``, but not below C++17, which the engine's headers need."""
    standard = re.fullmatch(r"(?:c|gnu)\+\+(\d+)", value)
    options.standard = max(17, int(standard[1])) if standard else 17


def _read_compiler_options(options: Options, value: str) -> None:
    """Set what options for the host's compiler ask for; `value` has them with commas between."""
    options.openmp |= "-fopenmp" in value.split(",")
    options.wrap |= "-fwrapv" in value.split(",")


def _read_ptxas_options(options: Options, value: str) -> None:
    """Set what options for ptxas ask for: kernels that are hardly optimized."""
    options.quick |= not {"-O0", "-O1"}.isdisjoint(value.split(","))


# What an option with a value does to the `Options`. The value follows "=", or is the next word.
_WITH_VALUE: dict[str, Callable[[Options, str], None]] = {
    name: apply
    for names, apply in (
        ("-D --define-macro", _add_macro),
        (
            "-U --undefine-macro",
            lambda options, macro: options.prologue.append(f"#undef {macro.partition('=')[0]}"),
        ),
        (
            "-I --include-path -isystem --system-include",
            lambda options, folder: options.include_dirs.append(Path(folder).absolute()),
        ),
        (
            "-include --pre-include",
            lambda options, header: options.prologue.append(f'#include "{header}"'),
        ),
        ("-std --std", _set_standard),
        ("-ftz --ftz", lambda options, value: setattr(options, "flush", value != "false")),
        ("-fmad --fmad", lambda options, value: setattr(options, "fuse", value != "false")),
        (
            "-rdc --relocatable-device-code",
            lambda options, value: setattr(options, "joined", value == "true"),
        ),
        ("-arch --gpu-architecture", lambda options, value: setattr(options, "arch", value)),
        ("-Xcompiler --compiler-options", _read_compiler_options),
        ("-Xptxas --ptxas-options", _read_ptxas_options),
    )
    for name in names.split()
}
_SWITCHES = {
    **dict.fromkeys(("-use_fast_math", "--use_fast_math"), ("fast_math", "flush")),
    **dict.fromkeys(("-G", "--device-debug"), ("debug",)),
    **dict.fromkeys(("-dc", "-dlto"), ("joined",)),
    "-fopenmp": ("openmp",),
}


def read(words: str | Iterable, include_dirs: Iterable | None, arch: str | None) -> Options:
    """Read nvcc's options, a word or several, such as ["-std=c++20", "-DN=4"]; return them as `Options`.

    `arch` is a GPU such as "sm_90", if the options name none. Warns once per unknown option. Raises
    CompileError if an option lacks its value.
    """
    words = [words] if isinstance(words, str) else [str(word) for word in words]
    options = Options(words, [Path(folder).absolute() for folder in include_dirs or ()], arch=arch)
    rest = iter(words)
    for word in rest:
        # the value is in the same word: "-DN=4", or "-D=N=4"
        if word[:2] in ("-D", "-U", "-I") and len(word) > 2:
            name, value = word[:2], word[2:].removeprefix("=")
        else:
            name, equals, value = word.partition("=") if word.startswith("-") else (word, "", "")
            value = value if equals else None  # None: it may be the next word
        if name in _WITH_VALUE or name in _IGNORED_VALUES:
            value = next(rest, None) if value is None else value
            if value is None:
                raise CompileError(f"the nvcc option {name} has no value", ["nvcc", *words])
            if name in _WITH_VALUE:  # such as "-std": the function that sets it
                _WITH_VALUE[name](options, value)
        elif word in _SWITCHES:  # such as "-G": the names of the settings that it turns on
            for setting in _SWITCHES[word]:
                setattr(options, setting, True)
        elif SOURCE.search(word):
            options.sources.append(Path(word).absolute())
        elif not _MEANINGLESS.fullmatch(word) and word not in _ignored_options:
            _ignored_options.add(word)
            # stacklevel 4: the warning names the user's line
            warnings.warn(f"the CPU engine ignores the unknown nvcc option {word!r}", stacklevel=4)
    if match := re.search(r"_(\d+)(a?)", options.arch or ""):
        number, is_specific = match[1], match[2]
        # __CUDA_ARCH__ is 900 for compute_90
        options.prologue += ["#undef __CUDA_ARCH__", f"#define __CUDA_ARCH__ {int(number) * 10}"]
        if is_specific:  # sm_90a: with instructions of this architecture alone
            options.prologue.append(f"#define __CUDA_ARCH_FEAT_SM{number}_ALL 1")
    return options
