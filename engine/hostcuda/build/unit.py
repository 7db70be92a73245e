"""From a source to the shared library of its kernels: preprocess, rewrite, add thread loops, compile.

A `Unit` is what one call of the compiler gets. `hostcuda.build.modules` keeps what it has compiled.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, NoReturn

from hostcuda.build import messages
from hostcuda.build.options import Options, read
from hostcuda.build.prelude import WITHOUT_MACROS, prelude
from hostcuda.check import mode as checkmode
from hostcuda.errors import CompileError
from hostcuda.frontend.brackets import edited
from hostcuda.frontend.exact import CONVERSIONS, converted, exact
from hostcuda.frontend.hostcode import MAIN, Names
from hostcuda.frontend.lockstep import unsynchronized
from hostcuda.frontend.preprocess import SKELETON, Preprocessed, preprocess
from hostcuda.frontend.sides import LIST_CALLS, crossings, merged
from hostcuda.frontend.source import MARKER, Rewritten, Scan, kernel_bodies, rewrite
from hostcuda.host import cache, toolchain
from hostcuda.loops import PREFIX, add_loops

before_compile = None  # called with the text of each source; it can raise to refuse it (see hostcuda.untrusted)
_FOR_HOST = '#include "hostcuda/leave.h"'
_HOST_FILE = re.compile(r'#include ".*\.(?:c|cc|cpp|cxx)"\n$')

_WARNINGS = (
    "-Wuninitialized", "-Wmaybe-uninitialized", "-Warray-bounds", "-Wparentheses", "-Wunused-variable",
    "-Wunused-value", "-Wempty-body", "-Wmisleading-indentation", "-Wreturn-type", "-Wsequence-point", "-Wdiv-by-zero",
)
# One of its warnings, with the lines that belong to it; wrong for `t` in ``cudaError_t error = cudaCreate(&t)``.
_MAYBE = re.compile(r"(?m)^.*: warning: '(\w+)[^']*' may be used uninitialized.*\n?(?:(?: .*|.*: note: .*)(?:\n|$))*")


def _why_fibers(options: Options, checked: bool) -> str:
    """Why every kernel of a source is to run on fibers; empty: those that can run as thread loops.

    Raises CompileError if the environment variable HOSTCUDA_GEAR has another value than ``loops``, the default, and
    ``fibers``.
    """
    chosen = os.environ.get("HOSTCUDA_GEAR", "loops")
    if chosen not in ("loops", "fibers"):
        raise CompileError(f"HOSTCUDA_GEAR={chosen!r} is not a gear of the engine: loops (the default) or fibers")
    if checked:
        return "check mode asks each thread"
    if options.debug:
        return "it is compiled for a debugger"
    return "HOSTCUDA_GEAR=fibers asks for them" if chosen == "fibers" else ""


@dataclass
class Unit:
    """One source with its options, to be compiled."""

    source: str
    options: Options
    extern_c: bool  # the source is to be inside ``extern "C" { }``
    program: bool = False  # it is a whole program, with host code
    command: list[str] = field(default_factory=toolchain.find)  # the host compiler's
    tools: tuple[str, ...] = checkmode.TOOLS  # of check mode, for which it is compiled

    TEXT: ClassVar = "kernel.s"  # what the compiler writes where that is changed before it is linked

    @property
    def why_fibers(self) -> str:
        """Why its kernels are to run on fibers; empty: those with barriers that can do so run as thread loops."""
        return "its program has host code" if self.program else _why_fibers(self.options, bool(self.tools))

    @property
    def key(self) -> str:
        """The cache's key, without the headers."""
        return cache.digest(
            "module", self.source, self.extern_c, self.why_fibers, self.program, *self.options.prologue, "dirs",
            *self.options.include_dirs, *self.options.sources, self.options.joined, "flags", *self.flags,
            toolchain.fingerprint(self.command),
        )

    @property
    def nvccs_source(self) -> str:
        """The text for nvcc."""
        return f'extern "C" {{\n#line 1 "{messages.NAME}"\n{self.source}\n}}\n' if self.extern_c else self.source

    @property
    def flags(self) -> list[str]:
        """The flags, which must be the same for the precompiled header."""
        flags = [*self.options.flags(bool(self.tools)), *toolchain.module_flags(self.command)]
        if self.tools:
            flags += checkmode.flags(toolchain.is_clang(self.command), self.tools)
            if "initcheck" in self.tools and toolchain.fills_variables(self.command):
                flags.append(toolchain.FILL)
            clang = toolchain.is_clang(self.command)
            unneeded = checkmode.unneeded(self.source, clang, self.options.include_dirs)
            flags = [flag for flag in flags if flag not in unneeded]
        return flags

    @property
    def includes(self) -> list[str]:
        """The options that precede the file to compile."""
        folders = (toolchain.INCLUDE, *self.options.include_dirs, toolchain.INCLUDE / "libraries")
        places = [f"-I{place}" for place in folders]
        return ["-include", prelude(self.command, self.flags), *places]

    @property
    def files(self) -> list[str]:
        """The text of each file to compile."""
        main = f'#line 1 "{messages.NAME}"\n' + self.source.removeprefix("\ufeff") + f'\n#line 1 "{SKELETON}"\n'
        others = [f'#include "{path}"\n' for path in self.options.sources if self.program]
        return [f'extern "C" {{\n{main}}}\n' if self.extern_c else main, *others]

    def preprocessed(self, folder: Path, text: str | None = None) -> Preprocessed:
        """The `Preprocessed` text of one of its files, the first one if none is given."""
        prologue = [f'#line 1 "{SKELETON}"', *self.options.prologue, text or self.files[0]]
        lines = [*(['#include "hostcuda/host.h"'] if self.program else []), '#include "hostcuda/keep.h"', *prologue]
        (folder / messages.NAME).write_text(self.source, encoding="utf-8", errors="surrogateescape")  # for the messages
        command = [*self.command, *self.flags]
        if text and _HOST_FILE.match(text):  # nvcc leaves it to the host's compiler
            plain, options = "\n".join([_FOR_HOST, *prologue]), self.includes[2:]
            of_host = preprocess(plain, [*command, *options], folder, self.options.include_dirs)
            if not of_host.of_cuda:
                return of_host
        result = preprocess("\n".join(lines), [*command, *self.includes], folder, self.options.include_dirs)
        if result.error:
            self.refuse(folder, *result.error)
        headers = (path.read_text(encoding="utf-8", errors="replace") for path in result.headers)
        if not self.program or not any("__CUDA_ARCH__" in each for each in (self.source, *headers)):
            return result
        lines.insert(-1, "#undef __CUDA_ARCH__")
        (folder / "host").mkdir()
        of_host = preprocess("\n".join(lines), [*command, *self.includes], folder / "host", self.options.include_dirs)
        if of_host.error:
            self.refuse(folder, *of_host.error)
        try:
            return replace(result, text=merged(result.text, of_host.text))
        except ValueError as error:
            raise messages.error(self.source, command, "", str(error)) from None

    def rewritten(self, text: str) -> Rewritten:
        """What `rewrite` makes of a preprocessed file."""
        return rewrite(text, Names() if self.program else None)

    def text(self, rewritten: str, why_fibers: str, without: Iterable[str] = ()) -> str:
        """The text for the compiler; the kernels `without` have no thread loops."""
        text = checkmode.changeable(checkmode.unrolled(rewritten)) if "profile" in self.tools else rewritten
        if not why_fibers:
            try:
                text = add_loops(text, without)
            except RecursionError:
                why_fibers = "its statements are nested too deeply"
        if self.program:
            bodies = [each for each in kernel_bodies(text)[1] if not each.name.startswith(PREFIX)]
            text = edited(text, [(each.open + 1, each.open + 1, " HOSTCUDA_LAUNCHED ") for each in bodies])
        lines = ['#include "hostcuda/host.h"'] if self.program else []
        lines += [f'#include "{prelude(self.command, self.flags, WITHOUT_MACROS)}"']
        lines += [f'#define HOSTCUDA_WHY_FIBERS "{why_fibers}"', f"HOSTCUDA_IN_LANES({PREFIX in text:d})", text]
        return "\n".join(lines)

    def compile(self, folder: Path) -> tuple[Path, dict]:
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
        libraries = [word for word in self.options.words if self.program and re.fullmatch("-[lL].+", word)]
        libraries += ["-fopenmp"] if self.options.openmp else []
        link = [*toolchain.link_flags(self.command), *libraries]
        assemble = bool(self.tools) or len(folders) > 1
        target = ["-S", "-o", self.TEXT] if assemble else [*link, "-o", "kernel.so"]
        commands, results = self._compile_texts(texts, [each.of_cuda for each in preprocessed], folders, target)
        for place, command, (status, out, err) in zip(folders, commands, results, strict=True):
            if status:
                self.refuse(place, command, out, err)
        if assemble:
            paths = [each / self.TEXT for each in folders]
            if not self.options.joined:
                toolchain.keep_apart(paths)
            for path in paths if self.tools else ():
                self.prepare(path, alone=len(paths) == 1)
            command = [*self.command, "-fPIC", *map(str, paths), *link, "-o", "kernel.so"]
            status, out, err = toolchain.run(command, cwd=folder)
            if status:
                self.refuse(folder, command, out, err)
        for place, each in zip(folders, rewritten, strict=True):
            self._refuse_crossings(place / "calls.txt", each.text)
        headers = {path for each in preprocessed for path in each.headers}
        return folder / "kernel.so", {
            "headers": [(str(path), cache.digest(path.read_bytes())) for path in sorted(headers)],
            "asked": [(str(path), path.exists()) for each in preprocessed for path in each.asked],
            "kernels": {kernel.name: kernel.parameters for each in rewritten for kernel in each.kernels},
            "unsynchronized": [place for each in preprocessed for place in unsynchronized(each.text)],
        }

    def warnings(self) -> str:
        """What the compiler warns of in its first file, compiled without check mode; empty if it does not compile."""
        plain = replace(self, tools=())
        with tempfile.TemporaryDirectory(dir=cache.scratch()) as place:
            folder = Path(place)
            try:
                text = plain.text(plain.rewritten(plain.preprocessed(folder).text).text, "it is not to run")
            except CompileError:
                return ""
            (folder / SKELETON).write_text(text, encoding="utf-8", errors="surrogateescape")
            flags = [*(flag for flag in plain.flags if flag != "-w"), *_WARNINGS, *plain.includes]
            status, _, err = toolchain.run([*self.command, *flags, "-S", "-o", os.devnull, SKELETON], cwd=folder)
            told = "" if status else messages.tidy(err, folder, SKELETON)
            return _MAYBE.sub(lambda found: "" if re.search(rf"&\s*{found[1]}\b", self.source) else found[0], told)

    def prepare(self, path: Path, alone: bool) -> None:
        """Change the assembler text of a file for the tools of check mode."""
        checkmode.prepare(path, self.tools, alone)

    def _compile_texts(self, texts, of_cuda, folders, target):
        """Compile what `rewrite` has made of each file; return the commands, and the status and output of each.

        A kernel whose thread loops do not compile runs on fibers. The compiler names it in its messages. A text that
        `exact` has made impossible to compile is compiled as it is.
        """
        why_fibers, failed, as_is = self.why_fibers, set(), False
        plain = [flag for flag in self.flags if flag != "-w"]
        while True:
            commands, with_loops = [], False
            for place, text, cuda in zip(folders, texts, of_cuda, strict=True):
                if cuda:
                    text = self.text(text, why_fibers, failed)
                    text = text if as_is else exact(text, not self.program)
                (place / SKELETON).write_text(text, encoding="utf-8", errors="surrogateescape")
                halves = re.search(r"\b(?:__)?half2?\b", text)
                fewer = toolchain.loops_flags(self.command, bool(halves)) if PREFIX in text else []
                with_loops |= PREFIX in text
                includes = self.includes if cuda else self.includes[2:]
                flags = self.flags if as_is or not cuda else [*plain, CONVERSIONS]
                flags = flags if toolchain.is_clang(self.command) or not cuda else [*flags, f"{LIST_CALLS}calls.txt"]
                commands.append([*self.command, *flags, *includes, *fewer, SKELETON, *target])
            results = toolchain.run_all(commands, folders)
            if not as_is and not toolchain.is_clang(self.command):
                results = list(map(self._with_conversions, commands, folders, results))
            failing = any(status for status, _, _ in results)
            if not failing or (as_is and not with_loops):
                return commands, results
            as_is = not as_is
            if as_is:
                continue
            named = {name for _, _, err in results for name in re.findall(rf"\b{PREFIX}(\w+)", err)}
            if failed or not named:
                why_fibers = "its thread loops do not compile"
            failed |= named

    @staticmethod
    def _with_conversions(command, folder, result):
        """Compile a text again, with a cast for each conversion that the compiler has warned of."""
        status, _, err = result
        if status or f"[{CONVERSIONS}]" not in err:
            return result
        path = folder / SKELETON
        text = path.read_text(encoding="latin-1")  # a column is a byte
        path.write_text(MARKER.sub(lambda marker: re.sub(".", " ", marker[0]), text), encoding="latin-1")
        _, _, printed = toolchain.run([*command, "-fsyntax-only", "-fdiagnostics-format=json"], cwd=folder)
        path.write_text(converted(text, printed, SKELETON), encoding="latin-1")
        return toolchain.run(command, cwd=folder)

    def _with_entry(self, texts):
        """The files of a program; the one that has main tells where it is."""
        for i, text in enumerate(texts):
            if MAIN.search(Scan(text).code):
                entry = 'extern "C" { __attribute__((used)) extern void *const hostcuda_main = (void *)&main; }'
                return [*texts[:i], f'{text}# 1 "{SKELETON}"\n{entry}\n', *texts[i + 1 :]]
        raise CompileError(
            f"{messages.name_of(self.source)} has no main: name the file that has it "
            '(--options "FILE.cpp"), add one, or run a Python program that launches the kernels'
        )

    def _refuse_crossings(self, listed, text):
        """Refuse calls between host and device that nvcc refuses."""
        calls = listed.read_text(encoding="utf-8", errors="replace") if listed.exists() else ""
        found = {f"{file}:{line}: error: {what}" for (file, line), what in crossings(text, calls, self.program)}
        if found:
            raise messages.error(self.source, [], "", "\n".join(sorted(found)))

    def refuse(self, folder: Path, command: list[str], out: str, err: str) -> NoReturn:
        """Raise the error for what the compiler has printed."""
        tidy = messages.tidy(err, folder, SKELETON)
        raise messages.error(self.source, command, out, tidy if "error:" in tidy else err)


def unit(
    source: str, options: str | Sequence = (), no_extern_c: bool = False, arch: str | None = None,
    include_dirs: Iterable | None = None, program: bool = False, tools: tuple[str, ...] = checkmode.TOOLS,
) -> Unit:
    """The `Unit` of a source, for these tools of check mode; for the other parameters see
    `hostcuda.api.compiler.SourceModule`."""
    return Unit(str(source), read(options, include_dirs, arch), not no_extern_c, program, tools=tools)


def precompile_header() -> None:
    """Precompile the engine's header for sources without options."""
    with contextlib.suppress(CompileError):  # compiling a kernel reports the error
        plain = unit("", no_extern_c=True)
        prelude(plain.command, plain.flags)
