"""``pycuda.compiler`` for the CPU engine: compiles CUDA C++ source text and loads it.

The host's compiler takes about a second. A source that any process has compiled before comes from the cache, whose key
covers the source, its options and headers, the compiler, the processor and the engine.
"""

import contextlib
import itertools
import json
import os
import re
import shutil
import tempfile
import threading
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from labkit.base.limits import CONSTANT_BYTES, SHARED_BYTES
from labkit.cpu import cache, checkmode, native, toolchain
from labkit.cpu.errors import CompileError, LogicError
from labkit.cpu.hostcode import MAIN, Names
from labkit.cpu.kernels import Module
from labkit.cpu.lockstep import unsynchronized
from labkit.cpu.loops import PREFIX, add_loops
from labkit.cpu.preprocess import SKELETON, preprocess
from labkit.cpu.source import Rewritten, Scan, rewrite

__all__ = ["DEFAULT_NVCC_FLAGS", "SourceModule", "compile"]

DEFAULT_NVCC_FLAGS = []
before_compile = None  # called with the text of each source; it can raise to refuse it
_NAME = "kernel.cu"  # the file name in messages, unless the source has another one in #line


# ---------------------------------------------------------------------------------------------------------------------
# nvcc's options


@dataclass
class _Settings:
    """The options in terms of a host compiler."""

    prologue: list = field(default_factory=list)  # preprocessor lines before the source
    include_dirs: list = field(default_factory=list)
    sources: list = field(default_factory=list)  # further files of a program
    joined: bool = False  # their device code is linked: a name stands for one thing in all of them
    standard: int = 17
    fast_math: bool = False
    fuse: bool = True  # multiplications and additions
    debug: bool = False
    openmp: bool = False

    def flags(self):
        """The flags for any compiler."""
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
        if not checkmode.TOOLS:
            flags += ["-O1", "-g"] if self.debug else ["-O3"]
        if self.fast_math:  # as -ffast-math, but with NaN and infinity
            flags += ["-fassociative-math", "-fno-signed-zeros", "-freciprocal-math", "-D__USE_FAST_MATH__"]
        return [*flags, "-fopenmp"] if self.openmp else flags


_VALUE_ELSEWHERE = {  # ignored options whose value is the next word, unless it follows "="
    "-Xptxas", "--ptxas-options", "-Xlinker", "--linker-options", "-Xnvlink",
    "--nvlink-options", "-Xfatbin", "-Xarchive", "-maxrregcount", "--maxrregcount", "-code", "--gpu-code", "-gencode",
    "--generate-code", "-ccbin", "--compiler-bindir", "-m", "--machine", "-diag-suppress", "--diag-suppress", "-l",
    "--library", "-L", "--library-path", "-cudart", "--cudart", "-x", "-t",
    "--threads", "-ftz", "--ftz", "-prec-div", "--prec-div", "-prec-sqrt", "--prec-sqrt",
    "-default-stream", "--default-stream", "-Werror", "--Werror", "-split-compile", "--split-compile",
}  # fmt: skip
_MEANINGLESS = re.compile(
    r"-O\d?|--?optimize|-O=\d|--?optimize=.*|-lineinfo|--generate-line-info|-w|--disable-warnings|-g|--debug|-m64|-m32|"
    r"--?keep(-dir)?|--?v(erbose)?|--expt-.*|-expt-.*|--extended-lambda|-extended-lambda|--?restrict|-res-usage|"
    r"--resource-usage|-src-in-ptx|-dw|--?shared|--?Wno-.*|-W.*|-extra-device-vectorization|"
    r"--extra-device-vectorization|-lto|--?cubin|--?ptx|--?fatbin|-l.+|-L.+|--?time(=.*)?|-std|-diag.*|--?arch-list.*"
)
SOURCE = re.compile(r"\.(?:cu|cpp|cc|cxx|c)$")
_passed_over = set()


def _settings(options, include_dirs, arch):
    """Read nvcc's options."""
    settings = _Settings(include_dirs=[Path(d).absolute() for d in include_dirs])
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

        if word.startswith("-D") or name == "--define-macro":
            definition = word[2:] if word.startswith("-D") and len(word) > 2 else argument()
            macro, given, body = definition.partition("=")
            settings.prologue.append(f"#define {macro} {body if given else 1}")
        elif word.startswith("-U") or name == "--undefine-macro":
            macro = word[2:] if word.startswith("-U") and len(word) > 2 else argument()
            settings.prologue.append(f"#undef {macro}")
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
            settings.fast_math = True
        elif word in ("-G", "--device-debug"):
            settings.debug = True
        elif name in ("-fmad", "--fmad"):
            settings.fuse = argument() != "false"
        elif word in ("-dc", "-dlto") or name in ("-rdc", "--relocatable-device-code"):
            settings.joined = word.startswith("-d") or argument() == "true"
        elif name in ("-arch", "--gpu-architecture"):
            arch = argument()
        elif SOURCE.search(word):
            settings.sources.append(Path(word).absolute())
        elif name in ("-Xcompiler", "--compiler-options"):
            settings.openmp |= "-fopenmp" in argument().split(",")
        elif word == "-fopenmp":
            settings.openmp = True
        elif name in _VALUE_ELSEWHERE:
            argument()
        elif not _MEANINGLESS.fullmatch(word) and word not in _passed_over:
            _passed_over.add(word)
            warnings.warn(f"the CPU engine ignores the unknown nvcc option {word!r}", stacklevel=4)
    number = re.search(r"_(\d+)", arch or "")
    if number:
        settings.prologue += ["#undef __CUDA_ARCH__", f"#define __CUDA_ARCH__ {int(number[1]) * 10}"]
    return settings


# ---------------------------------------------------------------------------------------------------------------------
# From the source to the text that the host compiler sees


def _why_fibers(settings):
    """Why every kernel of a source is to run on fibers; empty: those that can run as thread loops.

    Raises
    ------
    CompileError
        The environment variable LABKIT_GEAR has another value than ``loops``, the default, and ``fibers``.
    """
    chosen = os.environ.get("LABKIT_GEAR", "loops")
    if chosen not in ("loops", "fibers"):
        raise CompileError(f"LABKIT_GEAR={chosen!r} is not a gear of the CPU engine: loops (the default) or fibers", [])
    if checkmode.TOOLS:
        return "check mode asks each thread"
    if settings.debug:
        return "it is compiled for a debugger"
    return "LABKIT_GEAR=fibers asks for them" if chosen == "fibers" else ""


@dataclass
class _Build:
    """One source with its options, to be compiled."""

    source: str
    settings: _Settings
    extern_c: bool
    options: list  # nvcc's
    command: list = field(default_factory=toolchain.find)
    program: bool = False  # with host code, see `compile_program`

    @property
    def why_fibers(self):
        """Why its kernels are to run on fibers; empty: those with barriers that can do so run as thread loops."""
        return "its program has host code" if self.program else _why_fibers(self.settings)

    @property
    def key(self):
        """The cache's key, without the headers."""
        return cache.digest(
            "module",
            self.source,
            self.extern_c,
            self.why_fibers,
            self.program,
            *self.settings.prologue,
            "dirs",
            *self.settings.include_dirs,
            *self.settings.sources,
            self.settings.joined,
            "flags",
            *self.flags,
            toolchain.fingerprint(self.command),
        )

    @property
    def nvccs_source(self):
        """The text for nvcc."""
        return f'extern "C" {{\n#line 1 "{_NAME}"\n{self.source}\n}}\n' if self.extern_c else self.source

    @property
    def flags(self):
        """The flags, which must be the same for the precompiled header."""
        flags = [*self.settings.flags(), *toolchain.module_flags(self.command)]
        if checkmode.TOOLS:
            flags += checkmode.flags(toolchain.is_clang(self.command))
            if "initcheck" in checkmode.TOOLS and toolchain.fills_variables(self.command):
                flags.append(toolchain.FILL)
            unneeded = checkmode.unneeded(self.source, toolchain.is_clang(self.command))
            flags = [flag for flag in flags if flag not in unneeded]
        return flags

    @property
    def includes(self):
        """The options that precede the file to compile."""
        places = [f"-I{place}" for place in (toolchain.INCLUDE, *self.settings.include_dirs)]
        return ["-include", _prelude(self.command, self.flags), *places]

    @property
    def files(self):
        """The text of each file to compile."""
        main = f'#line 1 "{_NAME}"\n' + self.source.removeprefix("\ufeff") + f'\n#line 1 "{SKELETON}"\n'
        others = [f'#include "{path}"\n' for path in self.settings.sources if self.program]
        return [f'extern "C" {{\n{main}}}\n' if self.extern_c else main, *others]

    def preprocessed(self, folder, text=None):
        """The `Preprocessed` text of one of its files, the first one if none is given."""
        prologue = [f'#line 1 "{SKELETON}"', *self.settings.prologue, text or self.files[0]]
        lines = [*(['#include "labkit/host.h"'] if self.program else []), '#include "labkit/keep.h"', *prologue]
        (folder / _NAME).write_text(self.source, encoding="utf-8", errors="surrogateescape")  # for the messages
        command = [*self.command, *self.flags]
        if text and _HOST_FILE.match(text):  # nvcc leaves it to the host's compiler
            plain, options = "\n".join([_FOR_HOST, *prologue]), self.includes[2:]
            found = preprocess(plain, [*command, *options], folder, self.settings.include_dirs)
            if not found.of_cuda:
                return found
        found = preprocess("\n".join(lines), [*command, *self.includes], folder, self.settings.include_dirs)
        if found.error:
            self.refuse(folder, *found.error)
        return found

    def rewritten(self, text):
        """What `rewrite` makes of a preprocessed file."""
        return rewrite(text, self.extern_c, Names() if self.program else None)

    def text(self, rewritten, why_fibers, without=()):
        """The text for the compiler; the kernels `without` have no thread loops."""
        text = checkmode.unrolled(rewritten) if "profile" in checkmode.TOOLS else rewritten
        if not why_fibers:
            text = add_loops(text, without)
        lines = ['#include "labkit/host.h"'] if self.program else []
        lines += [f'#include "{_prelude(self.command, self.flags, _WITHOUT_MACROS)}"']
        lines += [f'#define LABKIT_WHY_FIBERS "{why_fibers}"', f"LABKIT_IN_LANES({PREFIX in text:d})", text]
        return "\n".join(lines)

    def compile(self, folder):
        """Compile in `folder`; return the shared library's path and what the cache's manifest says of the source."""
        folders = [folder, *(folder / f"file-{i}" for i in range(1, len(self.files)))]
        for each in folders[1:]:
            each.mkdir()
        preprocessed = [self.preprocessed(*each) for each in zip(folders, self.files, strict=True)]
        rewritten = [
            self.rewritten(each.text) if each.of_cuda else Rewritten(f"{_FOR_HOST}\n{each.text}", ())
            for each in preprocessed
        ]
        texts = [each.text for each in rewritten]
        if self.program:
            texts = self._with_entry(texts)
        for text in texts if before_compile else ():
            before_compile(text)
        libraries = [option for option in self.options if self.program and re.fullmatch("-[lL].+", option)]
        libraries += ["-fopenmp"] if self.settings.openmp else []
        link = [*toolchain.link_flags(self.command), *libraries]
        assemble = bool(checkmode.TOOLS) or len(folders) > 1
        target = ["-S", "-o", "kernel.s"] if assemble else [*link, "-o", "kernel.so"]
        commands, results = self._compile_texts(texts, [each.of_cuda for each in preprocessed], folders, target)
        for place, command, (status, out, err) in zip(folders, commands, results, strict=True):
            if status:
                self.refuse(place, command, out, err)
        if assemble:
            paths = [each / "kernel.s" for each in folders]
            if not self.settings.joined:
                toolchain.keep_apart(paths)
            for path in paths if checkmode.TOOLS else ():
                checkmode.prepare(path, alone=len(paths) == 1)
            command = [*self.command, "-fPIC", *map(str, paths), *link, "-o", "kernel.so"]
            status, out, err = toolchain.run(command, cwd=folder)
            if status:
                self.refuse(folder, command, out, err)
        headers = {path for each in preprocessed for path in each.headers}
        return folder / "kernel.so", {
            "headers": [(str(path), cache.digest(path.read_bytes())) for path in sorted(headers)],
            "asked": [(str(path), path.exists()) for each in preprocessed for path in each.asked],
            "kernels": {kernel.name: kernel.parameters for each in rewritten for kernel in each.kernels},
            "unsynchronized": [found for each in preprocessed for found in unsynchronized(each.text)],
        }

    def _compile_texts(self, texts, of_cuda, folders, target):
        """Compile what `rewrite` has made of each file; return the commands, and the status and output of each.

        A kernel whose thread loops do not compile runs on fibers. The compiler names it in its messages.
        """
        why_fibers, failed = self.why_fibers, set()
        while True:
            commands, with_loops = [], False
            for place, text, cuda in zip(folders, texts, of_cuda, strict=True):
                if cuda:
                    text = self.text(text, why_fibers, failed)
                (place / SKELETON).write_text(text, encoding="utf-8", errors="surrogateescape")
                halves = re.search(r"\b(?:__)?half2?\b", text)
                fewer = toolchain.loops_flags(self.command, bool(halves)) if PREFIX in text else []
                with_loops |= PREFIX in text
                includes = self.includes if cuda else self.includes[2:]
                commands.append([*self.command, *self.flags, *includes, *fewer, SKELETON, *target])
            results = toolchain.run_all(commands, folders)
            if not with_loops or not any(status for status, _, _ in results):
                return commands, results
            named = {name for _, _, err in results for name in re.findall(rf"\b{PREFIX}(\w+)", err)}
            if failed or not named:
                why_fibers = "its thread loops do not compile"
            failed |= named

    def _with_entry(self, texts):
        """The files of a program; the one that has main tells where it is."""
        for i, text in enumerate(texts):
            if MAIN.search(Scan(text).code):
                entry = 'extern "C" { __attribute__((used)) extern void *const labkit_main = (void *)&main; }'
                return [*texts[:i], f'{text}# 1 "{SKELETON}"\n{entry}\n', *texts[i + 1 :]]
        raise CompileError(
            f'{_named(self.source)} has no main: name the file that has it (--options "FILE.cpp"), add one, or run a '
            "Python program that launches the kernels", []
        )  # fmt: skip

    def refuse(self, folder, command, out, err):
        """Raise the error for what the compiler has said."""
        told = toolchain.tidy(err, folder, SKELETON)
        _refuse(self.source, command, out, told if "error:" in told else err)


_UNKNOWN = re.compile(
    r"(?m)(error: )(?=.*(?:declared|not name|unknown type)).*?'((?:cuda|cu|cublas|cufft|curand|nvrtc)[A-Z]\w*)'.*"
)
_LIBRARY_HEADER = re.compile(r"(?m)^(.*fatal error: )'?((?:cub|thrust|cutlass|cute|cuda|nv)/[\w./]*|"
                             r"(?:curand|cufft\w*|cusparse|cusolver\w*|cudnn|nccl|nvml|nvrtc|npp\w*|cuda_gl_interop)\.h)")


def _named(source):
    """The file's name in messages."""
    named = re.match(r'\s*#\s*line\s+\d+\s+"([^"]+)"', source)
    return named[1] if named else _NAME


def _refuse(source, command, out, err):
    err = _UNKNOWN.sub(r"\1the CPU engine has no \2: run the program on a GPU, or without it", err)
    if library := _LIBRARY_HEADER.search(err):
        err = f"{library[1]}the CPU engine has no header {library[2]}: write the loop yourself, or run it on a GPU"
    if missing := [line for line in err.splitlines() if re.search("error: .*the CPU engine (?:has no|reads) ", line)]:
        first = {line.partition("error: ")[2]: line for line in reversed(missing)}  # the first line of each sentence
        bound = any("texture references" in sentence for sentence in first)  # then cudaBindTexture follows from that
        kept = [line for sentence, line in first.items() if not (bound and "indTexture" in sentence)]
        err = "\n".join(reversed(kept))  # what else the compiler says follows from that
    message = f"compilation of {_named(source)} failed:\n{err.strip()}"
    if re.search("template with C linkage|templates must have C\\+\\+ linkage", err):
        message += (
            '\nTemplates need SourceModule(..., no_extern_c=True), and then extern "C" before each kernel that is to '
            "be found by its plain name."
        )
    raise CompileError(message, command, out, err)


_FOR_HOST = '#include "labkit/leave.h"'
_HOST_FILE = re.compile(r'#include ".*\.(?:c|cc|cpp|cxx)"\n$')
_PLAIN = "labkit_cuda.h"
_WITHOUT_MACROS = "labkit_cuda_undef.h"


def _prelude(command, flags, name=_PLAIN):
    """The file to ``-include``: the engine's header, precompiled for these flags if that works.

    Or the one that removes the macros of the C library, which the source has been through already.
    """
    header = toolchain.INCLUDE / _PLAIN
    folder = f"prelude-{cache.digest(toolchain.fingerprint(command), *flags)[:24]}"
    line = [*command, *flags, f"-I{toolchain.INCLUDE}", "-x", "c++-header"]

    def precompile(path):
        stub = cache.directory() / folder / _PLAIN
        cache.trim("prelude-*")
        cache.publish(f'#include "{header}"\n'.encode(), stub)
        status, out, err = toolchain.run([*line, "-o", str(path), str(stub)])
        if status:
            raise CompileError("the engine's header does not compile", line, out, err)

    def list_macros(path):
        host = toolchain.INCLUDE / "labkit" / "host.h"
        status, out, err = toolchain.run([*line, "-E", "-dM", "-include", str(header), str(host)])
        if status:
            raise CompileError("the engine's header cannot be preprocessed", line, out, err)
        names = re.findall(r"(?m)^#define ((?!LABKIT|labkit|printf\b)[A-Za-z]\w*)", out)
        Path(path).write_text("".join(f"#undef {name}\n" for name in sorted(names)))

    try:
        precompiled = f"{_PLAIN}.{'pch' if toolchain.is_clang(command) else 'gch'}"
        made = cache.obtain(f"{folder}/{precompiled}", precompile)
        if name == _WITHOUT_MACROS:
            return str(cache.obtain(f"{folder}/{name}", list_macros))
    except CompileError:  # compiling the kernel reports the error
        return str(header)
    cache.touch(made.parent)
    return str(made.with_suffix(""))


# ---------------------------------------------------------------------------------------------------------------------
# The cache of modules


def _cached(entry):
    """The manifest of a cache entry if it is complete and its headers are unchanged, else None."""
    try:
        manifest = json.loads((entry / "manifest.json").read_text())
        if any(cache.digest(Path(path).read_bytes()) != digest for path, digest in manifest["headers"]):
            return None
        if any(Path(path).exists() != there for path, there in manifest["asked"]):
            return None
        path = manifest["path"] = entry / manifest["file"]
        return manifest if cache.digest(path.read_bytes()) == manifest["digest"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _build(build, keep, cache_dir):
    """The manifest of the compiled file, with its path: from the cache, or compiled into it."""
    if cache_dir is False:
        return _obtain(Path(tempfile.mkdtemp(prefix="module-", dir=cache.scratch())), build, keep)
    name = Path("modules", build.key[:2], build.key[2:40])
    return cache.with_room(lambda folder: _obtain(folder / name, build, keep), cache_dir)


def _obtain(entry, build, keep):
    """The manifest of the compiled file in the folder `entry`, which keeps it."""
    cache.touch(entry)
    manifest = None if keep else _cached(entry)
    if manifest is None:
        with cache.locked(entry):
            manifest = None if keep else _cached(entry)
            if manifest is None:
                manifest = _compile_into(entry, build, keep)
    return manifest


def _compile_into(entry, build, keep):
    folder = Path(
        tempfile.mkdtemp(prefix="labkit-kernel-" if keep else "build-", dir=None if keep else cache.scratch())
    )
    start = time.monotonic()
    cache.trim_daily("modules/*/*")
    try:
        compiled, about = build.compile(folder)
        data = compiled.read_bytes()
        digest = cache.digest(data)
        manifest = {"file": f"{digest[:24]}.so", "digest": digest, **about}
        cache.publish(data, entry / manifest["file"])
        cache.publish(json.dumps(manifest).encode(), entry / "manifest.json")
        return manifest | {"path": entry / manifest["file"]}
    finally:
        native.record_call("compile", start, time.monotonic() - start)
        if keep:
            print(f"*** compiler output in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


_loaded = set()
_loading = threading.Lock()
_copies = itertools.count()


def _own_copy(path):
    """A path from which this process has loaded no module: every module has its own variables, as on a GPU."""
    with _loading:
        if path not in _loaded:
            _loaded.add(path)
            return path
        copy = cache.scratch() / f"{path.stem}-{next(_copies)}.so"
    shutil.copyfile(path, copy)
    return copy


# ---------------------------------------------------------------------------------------------------------------------


def _prepare(source, options, no_extern_c, arch, include_dirs):
    options = [options] if isinstance(options, str) else list(DEFAULT_NVCC_FLAGS if options is None else options)
    options = [str(option) for option in options]
    return _Build(str(source), _settings(options, include_dirs or [], arch), not no_extern_c, options)


def compile(
    source,
    nvcc="nvcc",
    options=None,
    keep=False,
    no_extern_c=False,
    arch=None,
    code=None,
    cache_dir=None,
    include_dirs=None,
    target="cubin",
):
    """Compile CUDA C++ and return the compiled file's bytes; for the parameters see `SourceModule`."""
    del nvcc, code, target
    return _build(_prepare(source, options, no_extern_c, arch, include_dirs), keep, cache_dir)["path"].read_bytes()


def compile_program(source, options=(), include_dirs=()):
    """Compile a whole program in CUDA C++, with its host code, and load it.

    Parameters
    ----------
    source : str
        Its text; with ``main``.
    options : sequence of str
        nvcc's.
    include_dirs : sequence of path
        Folders of its headers.

    Returns
    -------
    labkit.cpu.kernels.Module

    Raises
    ------
    CompileError
        As `SourceModule`.
    """
    build = _prepare(source, list(options), True, None, list(include_dirs))
    build.program = True
    return _load(build, _build(build, False, None))


def prepare_header():
    """Precompile the engine's header for sources without options."""
    with contextlib.suppress(CompileError):  # compiling a kernel reports the error
        build = _prepare("", None, True, None, None)
        _prelude(build.command, build.flags)


def engine_files(options=()):
    """What the engine itself compiles for sources with these nvcc options, in the cache: its library and header."""
    build = _prepare("", options, True, None, None)
    runtime = native.build()
    return [runtime, cache.digest_of(runtime), Path(_prelude(build.command, build.flags)).parent]


def rewritten(source, options=None, no_extern_c=False, arch=None, include_dirs=None):
    """The text that the compiler gets for a source; for the parameters see `SourceModule`."""
    build = _prepare(source, options, no_extern_c, arch, include_dirs)
    with tempfile.TemporaryDirectory(dir=cache.scratch()) as folder:
        return build.text(build.rewritten(build.preprocessed(Path(folder)).text).text, build.why_fibers)


_WARNINGS = (
    "-Wuninitialized", "-Wmaybe-uninitialized", "-Warray-bounds", "-Wparentheses", "-Wunused-variable",
    "-Wunused-value", "-Wempty-body", "-Wmisleading-indentation", "-Wreturn-type", "-Wsequence-point", "-Wdiv-by-zero",
)  # fmt: skip


def warnings_about(source, options=None, no_extern_c=False, arch=None, include_dirs=None):
    """What the host's compiler warns of in a source: the text of its messages, with the source's own files and lines.

    For the parameters see `SourceModule`. It works beside either engine. Nothing is compiled into a file; the text is
    empty if there is no compiler, or if the source does not compile.
    """
    try:
        build = _prepare(source, options, no_extern_c, arch, include_dirs)
    except CompileError:
        return ""
    flags = [flag for flag in build.flags if flag != "-w"]
    with tempfile.TemporaryDirectory(dir=cache.scratch()) as place:
        folder = Path(place)
        try:
            text = build.text(build.rewritten(build.preprocessed(folder).text).text, "it is not to run")
        except CompileError:
            return ""
        (folder / SKELETON).write_text(text, encoding="utf-8", errors="surrogateescape")
        command = [*build.command, *flags, *_WARNINGS, *build.includes]
        status, _, err = toolchain.run([*command, "-S", "-o", os.devnull, SKELETON], cwd=folder)
        return "" if status else toolchain.tidy(err, folder, SKELETON)


def _warn(found):
    """Of what compiles and gives a wrong result here, though it mostly works on a GPU."""
    for file, line, read, written in found:
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
        The compiler refuses the source (its message names the user's file and line), a kernel needs more than 48 KB of
        static shared memory, the constants exceed 64 KB, or there is no compiler.
    """

    def __init__(
        self,
        source,
        nvcc="nvcc",
        options=None,
        keep=False,
        no_extern_c=False,
        arch=None,
        code=None,
        cache_dir=None,
        include_dirs=None,
    ):
        del nvcc, code
        build = _prepare(source, options, no_extern_c, arch, include_dirs)
        self.module = _load(build, _build(build, keep, cache_dir))
        self.get_global = self.module.get_global

    def get_function(self, name):
        """The kernel `name`; see `labkit.cpu.kernels.Module.get_function`."""
        return self.module.get_function(name)


def _load(build, manifest):
    """The module in a compiled file."""
    _warn(manifest["unsynchronized"])
    native.library()
    path = _own_copy(manifest["path"])
    try:
        module = Module(path, manifest["kernels"])
    except LogicError as error:
        missing = re.search(r"undefined symbol: (\S+)", str(error))
        if missing:
            name = toolchain.demangled(missing[1])
            message = f"{name} is declared and used, but not defined in the source"
            if build.program:
                message += '. If another file or a library defines it, name that: --options "FILE.cpp -lLIBRARY"'
            raise CompileError(message, []) from None
        raise
    _check_sizes(module)
    checkmode.loaded(path, build.nvccs_source, build.options, build.settings.include_dirs)
    return module


def _check_sizes(module):
    """Refuse what ptxas would: too much static shared or constant memory."""
    constants = module.constant_bytes()
    if constants > CONSTANT_BYTES:
        raise CompileError(
            f"the source uses too much global constant data: {constants} bytes, and the limit is {CONSTANT_BYTES}",
            [],
        )
    for kernel in module.kernels():
        if kernel.own_shared > SHARED_BYTES:
            raise CompileError(
                f"kernel {kernel.name!r} uses too much shared data: {kernel.own_shared} bytes of static "
                f"__shared__ variables, and the limit is {SHARED_BYTES}. Use dynamic shared memory for more.",
                [],
            )
