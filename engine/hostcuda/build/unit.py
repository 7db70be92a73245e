"""From a source to the shared library of its kernels: preprocess, rewrite, add thread loops, compile.

A `Unit` is the input of one call of the compiler. `hostcuda.build.modules` keeps what it has
compiled.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NoReturn

from hostcuda.build import messages
from hostcuda.build.options import Options, read
from hostcuda.build.prelude import WITHOUT_MACROS, find_folder, make_prelude
from hostcuda.check import mode as checkmode
from hostcuda.check.bounds import list_shared
from hostcuda.check.windows import find_disguised, may_miss
from hostcuda.errors import CompileError, EngineError
from hostcuda.frontend.exact import CONVERSIONS, cast_conversions, make_exact
from hostcuda.frontend.hostcode import Names, find_entry
from hostcuda.frontend.lockstep import find_unsynchronized
from hostcuda.frontend.preprocess import SKELETON, Preprocessed, preprocess
from hostcuda.frontend.rewrite import Rewritten, rewrite
from hostcuda.frontend.scan import MARKER, Scan, find_kernel_bodies
from hostcuda.frontend.sides import LIST_CALLS, find_side_errors, merge_sides
from hostcuda.frontend.sizes import replace_doubtful_sizes
from hostcuda.frontend.tokens import apply_edits
from hostcuda.host import cache, toolchain
from hostcuda.loops.versions import add_loops
from hostcuda.loops.writer import PREFIX

# hostcuda.untrusted sets it: called with each text, it refuses assembler by an exception
before_compile = None
_FOR_HOST = '#include "hostcuda/leave.h"'  # before a file that has no CUDA
# two calls of the API that look alike keep their lines
_APART = ("-fno-crossjumping", "-fno-tree-tail-merge")
# libraries whose headers the engine has, or refuses by their names
_OF_CUDA = re.compile(
    r"-l(?:(?:cudart|cudadevrt|cublas|cublasLt|curand|cufft|cusparse|cusolver|nvrtc|nvToolsExt)(?:_static)?"
    r"|cuda|culibos|nvidia-ml)"
)
_HOST_FILE = re.compile(r'#include ".*\.(?:c|cc|cpp|cxx)"\n$')  # one of `Unit.files`
_WARNINGS = (
    "-Wuninitialized",
    "-Wmaybe-uninitialized",
    "-Warray-bounds",
    "-Wparentheses",
    "-Wunused-variable",
    "-Wunused-value",
    "-Wempty-body",
    "-Wmisleading-indentation",
    "-Wreturn-type",
    "-Wsequence-point",
    "-Wdiv-by-zero",
    "-Wno-attributes",  # a variable that is declared twice has the engine's twice
)
# the special functions of C++17: std::cyl_bessel_j, std::hermitef; and std::beta, but no variable of that name
_SPECIAL = re.compile(
    r"\b(?:(?:comp_)?ellint_[123]|expint|(?:assoc_)?(?:laguerre|legendre)|hermite|riemann_zeta"
    r"|cyl_(?:bessel_[ijk]|neumann)|sph_(?:bessel|legendre|neumann))[fl]?\b|\bbeta[fl]?\s*\("
    r"|\bstd\s*::\s*beta[fl]?\b"
)
_DOUBTS = ("-Wunused-parameter", "-Wconversion")  # for a kernel with wrong results
# One of these warnings, with the lines that belong to it; wrong for `t` in ``cudaError_t error =
# cudaCreate(&t)``.
_MAYBE = re.compile(
    r"(?m)^.*: warning: '(\w+)[^']*' may be used uninitialized.*\n?(?:(?: .*|.*: note: .*)(?:\n|$))*"
)


# by its address, or in one lane, from which a shuffle copies it to all
_SET_ELSEWHERE = r"&\s*{0}\b|\b(?:__shfl_sync|shfl)\s*\((?:[^;,()]*,)?\s*{0}\s*,"


@dataclass
class Unit:
    """One source with its options, to be compiled."""

    source: str
    options: Options
    extern_c: bool  # the source is to be inside ``extern "C" { }``
    program: bool = False  # it is a whole program, with host code
    command: list[str] = field(default_factory=toolchain.find)  # the host compiler's
    tools: tuple[str, ...] = checkmode.TOOLS  # check mode's tools for which it is compiled
    bounded: bool = False  # each index of an array is checked, in an untrusted source
    entry: str = "main"  # of a program: the host function that is called from outside

    # the compiler's output, in modes that change it before it is linked
    TEXT: ClassVar = "kernel.s"

    @property
    def why_fibers(self) -> str:
        """The reason why all kernels run on fibers (a stack per thread), or "" where they may run as thread loops.

        A thread loop is a loop over the threads of a block. Raises CompileError if the environment variable
        HOSTCUDA_EXECUTION_MODE has another value than ``loops``, the default, and ``fibers``; a program
        always runs on fibers.
        """
        if self.program:
            return "its program has host code"
        mode = os.environ.get("HOSTCUDA_EXECUTION_MODE", "loops")
        if mode not in ("loops", "fibers"):
            raise CompileError(
                f"HOSTCUDA_EXECUTION_MODE={mode!r} is not an execution mode: loops (the default) or fibers"
            )
        if self.tools:
            return "check mode asks each thread"
        if self.options.debug:
            return "it is compiled for a debugger"
        return "HOSTCUDA_EXECUTION_MODE=fibers asks for them" if mode == "fibers" else ""

    @cached_property
    def key(self) -> str:
        """The compiled library's key in the cache: a digest of all that it depends on, except the user's headers.

        An edited header gives no stale library: `hostcuda.build.modules` compares the headers' own
        digests before it takes a library from the cache.
        """
        return cache.digest(
            "module",
            self.source,
            self.extern_c,
            self.why_fibers,  # it is compiled in, and "" compiles thread loops
            self.program and self.entry,  # a source that is no program has no entry
            *self.options.prologue,
            "dirs",  # a word between two lists: else one might run into the next
            *self.options.include_dirs,
            *self.options.sources,
            self.options.joined,  # -rdc=true: a name means the same in all files
            "flags",
            *self.flags,
            *self.untrusted_flags,
            toolchain.fingerprint(self.command),
        )

    @property
    def nvccs_source(self) -> str:
        """The source's text as nvcc gets it: within ``extern "C"``, if kernels shall keep their plain names.

        A profile without a GPU has nvcc compile it, for the kernels' registers.
        """
        return (
            f'extern "C" {{\n#line 1 "{messages.NAME}"\n{self.source}\n}}\n'
            if self.extern_c
            else self.source
        )

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """The compiler's flags, most of which must be the same for the precompiled header."""
        flags = [*self.options.flags(bool(self.tools)), *toolchain.module_flags(self.command)]
        # -g1: the lines of calls, for messages of those that fail
        flags += ["-g1"] if self.program and not (self.tools or self.options.debug) else []
        if self.tools:
            flags += checkmode.choose_flags(toolchain.is_clang(self.command), self.tools)
            # variables without a value get a pattern, by which initcheck recognizes them
            if "initcheck" in self.tools and toolchain.fills_variables(self.command):
                flags.append(toolchain.FILL)
            clang = toolchain.is_clang(self.command)
            unneeded = checkmode.list_unneeded_flags(self.source, clang, self.options.include_dirs)
            flags = [flag for flag in flags if flag not in unneeded]
        return (*flags,)

    @cached_property
    def prelude_flags(self) -> list[str]:
        """The flags of the precompiled header.

        g++ takes the same precompiled header with and without the flags that depend on the source, and
        with any optimization, so these are left out: all sources share a header.
        """
        if toolchain.is_clang(self.command):
            return [*self.flags]
        flags = replace(self, source="", options=replace(self.options, quick=False)).flags
        return [flag for flag in flags if flag not in checkmode.OF_SOURCES]

    def make_prelude(self, *name: str) -> str:
        """Return the path of the engine's header, precompiled for this unit, or of the file `name` beside it.

        `name` is nothing or one name.
        """
        return make_prelude(self.command, self.prelude_flags, *name, program=self.program)

    @property
    def has_prelude(self) -> bool:
        """Whether the cache already has the engine's header, precompiled for this unit's flags."""
        folder, files = find_folder(self.command, self.prelude_flags, self.program)
        return all(cache.is_intact(cache.directory() / folder / file) for file in files)

    @property
    def untrusted_flags(self) -> list[str]:
        """Further flags of the compiler, if `hostcuda.untrusted` guards this process from hostile kernels; else []."""
        return checkmode.choose_untrusted_flags(self.bounded) if self.tools else []

    @property
    def includes(self) -> list[str]:
        """The options that precede the file to compile; the first two include the engine's header, for CUDA."""
        folders = (toolchain.INCLUDE, *self.options.include_dirs, toolchain.INCLUDE / "libraries")
        places = [f"-I{place}" for place in folders]
        return ["-include", self.make_prelude(), *places]

    @property
    def files(self) -> list[str]:
        """The texts of the files to compile: the source, and an ``#include`` for each further file of a program.

        A ``#line`` names the file of what follows: the user's, and then `SKELETON`, the engine's own.
        """
        main = (
            f'#line 1 "{messages.NAME}"\n'
            + self.source.removeprefix("\ufeff")  # the byte order mark that some editors write
            + f'\n#line 1 "{SKELETON}"\n'
        )
        others = [f'#include "{path}"\n' for path in self.options.sources if self.program]
        return [f'extern "C" {{\n{main}}}\n' if self.extern_c else main, *others]

    def preprocess(self, folder: Path, text: str | None = None) -> Preprocessed:
        """Run the preprocessor on the text of one of `files`, by default the first one; return its text without macros.

        For a `program`, which also has code for the host, the texts for host and device are merged.
        `folder` gets the files that the compiler reads. CompileError if the preprocessor fails, or if
        the texts for host and device differ in a way that cannot be merged.
        """
        prologue = [f'#line 1 "{SKELETON}"', *self.options.prologue, text or self.files[0]]
        lines = [
            *(['#include "hostcuda/host.h"'] if self.program else []),
            '#include "hostcuda/keep.h"',  # keeps words such as __global__ in the text
            *prologue,
        ]
        self._write_quoted_source(folder)
        command = [*self.command, *self.flags]
        # a .cpp file, say: nvcc leaves it to the host's compiler
        if text and _HOST_FILE.match(text):
            # first without the engine's header, which `includes` has in its first two words
            plain, options = "\n".join([_FOR_HOST, *prologue]), self.includes[2:]
            of_host = preprocess(plain, [*command, *options], folder, self.options.include_dirs)
            if not of_host.of_cuda:  # it includes no header of CUDA
                return of_host
        result = preprocess(
            "\n".join(lines), [*command, *self.includes], folder, self.options.include_dirs
        )
        if result.error:  # (command, what it printed, its errors)
            self.refuse(folder, *result.error)
        headers = (path.read_text(encoding="utf-8", errors="replace") for path in result.headers)
        if not self.program or not any("__CUDA_ARCH__" in code for code in (self.source, *headers)):
            return result  # it is the same for host and device
        lines.insert(-1, "#undef __CUDA_ARCH__")  # before the source, which is the last of them
        (folder / "host").mkdir()
        of_host = preprocess(
            "\n".join(lines), [*command, *self.includes], folder / "host", self.options.include_dirs
        )
        if of_host.error:
            self.refuse(folder, *of_host.error)
        try:
            return replace(result, text=merge_sides(result.text, of_host.text))
        except ValueError as error:
            raise messages.make_error(self.source, command, "", str(error)) from None

    def _write_quoted_source(self, folder: Path) -> None:
        """Write the source into `folder` under the name that messages use: the compiler quotes lines of it.

        A program's first line is ``#line 1 "file.cu"``: a relative name becomes that of the file,
        which then begins with the next line.
        """
        line, _, rest = self.source.partition("\n")
        name = messages.find_file_name(line) if self.program else messages.NAME
        is_relative = name != messages.NAME and not os.path.isabs(name)
        path = folder / (name if is_relative else messages.NAME)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            rest if is_relative else self.source, encoding="utf-8", errors="surrogateescape"
        )

    def rewrite(self, text: str) -> Rewritten:
        """Rewrite the text of a preprocessed file of CUDA as C++ for the host's compiler."""
        # Names() collects the kernels of a program, which its host code launches. The tool synccheck
        # has to know where a thread returns early.
        return rewrite(text, Names() if self.program else None, "synccheck" in self.tools)

    def write_text(self, rewritten: str, why_fibers: str, without: Iterable[str] = ()) -> str:
        """Return the text that is compiled: what `rewrite` has made of a source, with the engine's includes and macros.

        If `why_fibers` is "", kernels run as loops over threads, except for those named in
        `without`. Else it says why each thread has a stack of its own.
        """
        # The tool "profile" counts each iteration of a loop, and each read of a constant array.
        text = (
            checkmode.make_changeable(checkmode.unroll_loops(rewritten))
            if "profile" in self.tools
            else rewritten
        )
        if not why_fibers:
            try:
                text = add_loops(text, without)
            except RecursionError:
                why_fibers = "its statements are nested too deeply"
        # The macro HOSTCUDA_LAUNCHED reports that host code has called a kernel without <<<...>>>, and
        # returns. PREFIX begins the names of the kernels' second versions, as loops.
        if self.program:
            _, kernels = find_kernel_bodies(text)
            # `open`: the position of the brace before the body
            starts = [kernel.open + 1 for kernel in kernels if not kernel.name.startswith(PREFIX)]
            text = apply_edits(text, [(start, start, " HOSTCUDA_LAUNCHED ") for start in starts])
        lines = ['#include "hostcuda/host.h"'] if self.program else []
        # C++17's special functions, such as std::cyl_bessel_j
        lines += ['#include "hostcuda/special.h"'] if self.program and _SPECIAL.search(text) else []
        lines += [f'#include "{self.make_prelude(WITHOUT_MACROS)}"']
        # The first macro is registered with each kernel. By the second one, half.h chooses functions
        # for loops over threads.
        lines += [
            f'#define HOSTCUDA_WHY_FIBERS "{why_fibers}"',
            f"HOSTCUDA_IN_LANES({PREFIX in text:d})",  # 1 if the text has such loops, else 0
            text,
        ]
        return "\n".join(lines)

    def compile(self, folder: Path) -> tuple[Path, dict]:
        """Compile the unit in `folder`; return (path of the shared library, entries for its manifest).

        The entries are a dict, see `_list_entries`. CompileError if a file does not compile,
        EngineError if a hostile kernel accesses a variable as another type.
        """
        folders = [folder, *(folder / f"file-{i}" for i in range(1, len(self.files)))]
        for subfolder in folders[1:]:
            subfolder.mkdir()
        preprocessed = [
            self.preprocess(*inputs) for inputs in zip(folders, self.files, strict=True)
        ]
        rewritten = [
            self.rewrite(file.text)
            if file.of_cuda
            else Rewritten(f"{_FOR_HOST}\n{file.text}", (), {})
            for file in preprocessed
        ]
        texts = [file.text for file in rewritten]
        if self.program:
            # a variable with the address of the function that is to be called
            texts = self._add_entry(texts)
        if before_compile:  # where kernels are not trusted: it refuses texts by an exception
            for text in texts:
                before_compile(text)
        # the options "-lNAME" and "-LFOLDER" of a program, without CUDA's own libraries
        libraries = [
            word
            for word in self.options.words
            if self.program and re.fullmatch("-[lL].+", word) and not _OF_CUDA.fullmatch(word)
        ]
        libraries += ["-fopenmp"] if self.options.openmp else []
        link = [*toolchain.link_flags(self.command), *libraries]
        # check mode changes the assembler texts before they are linked; several files are linked so, too
        assemble = bool(self.tools) or len(folders) > 1
        target = ["-S", "-o", self.TEXT] if assemble else [*link, "-o", "kernel.so"]
        commands, results = self._compile_texts(
            texts, [file.of_cuda for file in preprocessed], folders, target
        )
        for place, command, (status, out, err) in zip(folders, commands, results, strict=True):
            if status:
                self.refuse(place, command, out, err)
        if self.untrusted_flags and not self.bounded:
            outputs = ((place / self.TEXT).read_text("utf-8", "replace") for place in folders)
            # an access that no check would see: compile once more, with checks of each index and address
            if any(map(may_miss, outputs)):
                again = folder / "bounded"
                again.mkdir()
                return replace(self, bounded=True).compile(again)
        if self.bounded:
            for place, file in zip(folders, rewritten, strict=True):
                # Such a variable has no address that the checks could compare. Only its index is checked, with the
                # length of the type by which it is accessed, which may be too long.
                accesses = (place / checkmode.ACCESSES).read_text("utf-8", "replace")
                if name := find_disguised(accesses, list_shared(file.text)):
                    raise EngineError(
                        f"a submitted kernel accesses {name}, which is in registers or constant, as another type with "
                        "an index: declare it with the type that it is used by"
                    )
        if assemble:
            self._link_assembler([place / self.TEXT for place in folders], folder, link)
        # calls.txt: the compiler's list of calls, among them those from host to device or back
        side_warnings = [
            line
            for place, file in zip(folders, rewritten, strict=True)
            for line in self._list_side_warnings(place / "calls.txt", file.text)
        ]
        entries = self._list_entries(preprocessed, rewritten)
        return folder / "kernel.so", entries | {
            "warnings": "".join(f"{line}\n" for line in side_warnings)
        }

    def _list_entries(
        self, preprocessed: Sequence[Preprocessed], rewritten: Sequence[Rewritten]
    ) -> dict:
        """Return what a manifest says of the files that a library was compiled from.

        The cached library is good as long as the "headers" have their digests and the "asked" files
        are there or not. The loader reads the rest: "kernels", name -> parameters; how many kernels are
        "registered"; places (file, line, read, written) where code is "unsynchronized".
        """
        headers = {path for file in preprocessed for path in file.headers}
        return {
            "headers": [(str(path), cache.digest(path.read_bytes())) for path in sorted(headers)],
            "asked": [(str(path), path.exists()) for file in preprocessed for path in file.asked],
            "kernels": {
                name: parameters
                for file in rewritten
                for name, parameters in file.parameters.items()
            },
            "registered": sum(not kernel.template for file in rewritten for kernel in file.kernels),
            "unsynchronized": [
                place for file in preprocessed for place in find_unsynchronized(file.text)
            ],
        }

    def _link_assembler(self, paths: list[Path], folder: Path, link_flags: list[str]) -> None:
        """Link the assembler texts at `paths` to kernel.so in `folder`, after check mode has changed them."""
        if not self.options.joined:  # else, by -rdc=true, a name means the same in all files
            toolchain.make_names_local(paths)
        for path in paths if self.tools else ():
            self.prepare(path, alone=len(paths) == 1)
        command = [*self.command, "-fPIC", *map(str, paths), *link_flags, "-o", "kernel.so"]
        status, out, err = toolchain.run(command, cwd=folder)
        if status:
            self.refuse(folder, command, out, err)

    def warnings(self) -> str:
        """Compile the first file for the compiler's warnings alone; return their text, "" if it does not compile."""
        plain = replace(self, tools=())
        with tempfile.TemporaryDirectory(dir=cache.scratch()) as place:
            folder = Path(place)
            try:
                rewritten = plain.rewrite(plain.preprocess(folder).text).text
                # any reason: without one, the text would have the loops that the engine writes
                text = plain.write_text(rewritten, why_fibers="it is not to run")
            except CompileError:
                return ""
            # deprecated overloads of cudaMemcpy and others, which g++ then warns of
            warns = '#include "hostcuda/host.h"\n#include "hostcuda/host_warns.h"\n' * self.program
            text = f"{warns}{replace_doubtful_sizes(text)}"
            flags = [*(flag for flag in plain.flags if flag != "-w"), *_WARNINGS, *plain.includes]
            flags += _DOUBTS if os.environ.get("HOSTCUDA_WARNINGS") == "all" else ()
            # The texts of the engine's and the system's headers, as `preprocess` has written them. Their
            # digest is a part of the key by which the cache keeps the warnings.
            held = (path.read_bytes() for path in sorted(folder.glob("held-*.h")))
            command = [*self.command, *flags, "-S", "-o", os.devnull, SKELETON]
            try:
                found = self._list_warnings(folder, text, command, cache.digest(*held))
            except CompileError:
                return ""
            # Left out are warnings that a variable "may be used uninitialized", if the source sets it
            # by its address, or in one lane, from which a shuffle copies it.
            return _MAYBE.sub(
                lambda match: (
                    "" if re.search(_SET_ELSEWHERE.format(match[1]), self.source) else match[0]
                ),
                found,
            )

    def _list_warnings(self, folder: Path, text: str, command: list[str], headers: str) -> str:
        """Return what the compiler's `command` prints about a text in `folder`, from the cache.

        `headers` is a digest of the further files there. Raises CompileError if it fails.
        """

        def compile_text(path):
            """Write the compiler's answer into the file `path`."""
            cache.trim("warnings-*", keep=100)
            (folder / SKELETON).write_text(text, encoding="utf-8", errors="surrogateescape")
            status, _, err = toolchain.run(command, cwd=folder)
            if status:  # also of a compiler that was ended: nothing is kept
                raise CompileError(err)
            path.write_text(messages.tidy(err, folder, SKELETON), "utf-8")

        key = cache.digest(
            toolchain.fingerprint(self.command), *command, headers, self.source, text
        )
        return cache.obtain(f"warnings-{key[:24]}", compile_text).read_text("utf-8")

    def prepare(self, path: Path, alone: bool) -> None:
        """Change the assembler text in a file for the tools of check mode; `alone`: the unit has no other file."""
        checkmode.prepare(path, self.tools, alone)

    def _compile_texts(
        self, texts: list[str], of_cuda: list[bool], folders: list[Path], target: list[str]
    ):
        """Compile `texts` (of `rewrite`) in `folders`; return (commands, list of (status, output, errors) of each).

        `of_cuda`: whether each has kernels. `target`: the options for the output. If the compiler
        fails, the texts are compiled without the edits of `make_exact`, which may be the reason.
        Then the kernels that its messages name get no thread loops.
        """
        why_fibers = self.why_fibers
        without_loops: set[str] = set()  # kernels that get no thread loops
        is_unchanged = False  # whether `make_exact` leaves the texts as they are
        while True:
            commands, with_loops = [], False
            for place, text, cuda in zip(folders, texts, of_cuda, strict=True):
                if cuda:
                    text = self.write_text(text, why_fibers, without_loops)
                    text = text if is_unchanged else make_exact(text, not self.program)
                with_loops |= PREFIX in text
                commands.append([*self._write_command(place, text, cuda, is_unchanged), *target])
            results = toolchain.run_all(commands, folders)
            if not is_unchanged and not toolchain.is_clang(self.command):
                results = list(map(self._compile_with_conversions, commands, folders, results))
            has_failed = any(status for status, _, _ in results)
            if not has_failed or (is_unchanged and not with_loops):
                return commands, results
            is_unchanged = not is_unchanged
            # next without the edits of `make_exact`, after that with fewer thread loops
            if is_unchanged:
                continue
            kernels_in_errors = {
                name for _, _, err in results for name in re.findall(rf"\b{PREFIX}(\w+)", err)
            }
            # leaving out those that errors name did not suffice
            if without_loops or not kernels_in_errors:
                why_fibers = "its thread loops do not compile"
            without_loops |= kernels_in_errors

    def _write_command(self, folder: Path, text: str, cuda: bool, is_unchanged: bool) -> list[str]:
        """Write a text into `folder`; return the command that compiles it there, without the options for the output.

        `cuda`: whether it has kernels. `is_unchanged`: whether `make_exact` has left it as it was.
        """
        (folder / SKELETON).write_text(text, encoding="utf-8", errors="surrogateescape")
        has_halves = bool(re.search(r"\b(?:__)?half2?\b", text))  # half, __half2
        loops_flags = toolchain.loops_flags(self.command, has_halves) if PREFIX in text else []
        # else without the engine's header
        includes, flags = (
            self.includes if cuda else self.includes[2:],
            [*self.flags, *self.untrusted_flags],
        )
        # `_compile_with_conversions` reads the warnings, which -w would suppress
        if cuda and not is_unchanged:
            flags = [*(flag for flag in flags if flag != "-w"), CONVERSIONS]
        # `_list_side_warnings` reads the call graph
        if cuda and not toolchain.is_clang(self.command):
            flags = [*flags, f"{LIST_CALLS}calls.txt", *(_APART if self.program else ())]
        return [*self.command, *flags, *includes, *loops_flags, SKELETON]

    @staticmethod
    def _compile_with_conversions(
        command: list[str], folder: Path, result: tuple
    ) -> tuple[int, str, str]:
        """Compile a text again, with casts where the first `result` warns of conversions; return (status, out, err)."""
        status, _, err = result
        if status or f"[{CONVERSIONS}]" not in err:
            return result
        path = folder / SKELETON
        text = path.read_text(encoding="latin-1")  # a column is a byte
        # Without line markers, the compiler names lines of this file.
        path.write_text(
            MARKER.sub(lambda marker: re.sub(".", " ", marker[0]), text), encoding="latin-1"
        )
        _, _, printed = toolchain.run(
            [*command, "-fsyntax-only", "-fdiagnostics-format=json"], cwd=folder
        )
        path.write_text(cast_conversions(text, printed, SKELETON), encoding="latin-1")
        return toolchain.run(command, cwd=folder)

    def _add_entry(self, texts: list[str]) -> list[str]:
        """Return a program's texts, with a variable added to the one that defines `entry`: the entry's address.

        CompileError if none of them defines it.
        """
        defined = re.compile(rf"\b{self.entry}\s*\(")
        for i, text in enumerate(texts):
            if defined.search(Scan(text).code):
                entry = (
                    'extern "C" { __attribute__((used)) extern void *const hostcuda_main = '
                    f"(void *)&{self.entry}; }}"
                )
                return [*texts[:i], f'{text}# 1 "{SKELETON}"\n{entry}\n', *texts[i + 1 :]]
        file, (function, _) = messages.find_file_name(self.source), find_entry(Scan(self.source))
        if function:
            raise CompileError(
                f"{file} has no main, but the function {function}: `hostcuda check {file}` calls it with the "
                "arguments of your cases, which a file beside it lists, and compares with a reference in Python; "
                "or add a main that calls it"
            )
        raise CompileError(
            f"{file} has no main: name the file that has it "
            '(--options "FILE.cpp"), add one, or run a Python program that launches the kernels'
        )

    def _list_side_warnings(self, path: Path, text: str) -> list[str]:
        """Return a line per warning of a wrong call between host and device code; CompileError if there are errors.

        `path` is the compiler's call graph of the rewritten `text`; clang++ writes none, and then only
        the text is read.
        """
        call_graph = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        found = find_side_errors(text, call_graph, self.program)
        lines = sorted({f"{file}:{line}: {sentence}" for (file, line), sentence in found})
        if errors := [line for line in lines if ": error: " in line]:
            raise messages.make_error(self.source, [], "", "\n".join(errors))
        return lines

    def refuse(self, folder: Path, command: list[str], out: str, err: str) -> NoReturn:
        """Raise CompileError for a compiler's command that failed in the build `folder` and printed `out` and `err`."""
        tidy = messages.tidy(err, folder, SKELETON)
        # if no error is left in it, as where only the engine's own files are named: the whole text
        raise messages.make_error(self.source, command, out, tidy if "error:" in tidy else err)


def make_unit(
    source: str,
    options: str | Sequence = (),
    no_extern_c: bool = False,
    arch: str | None = None,
    include_dirs: Iterable | None = None,
    program: bool = False,
    tools: tuple[str, ...] = checkmode.TOOLS,
    entry: str = "main",
) -> Unit:
    """Return a `Unit`, a source with its options, which can be compiled for these tools of check mode.

    `program`: the source is a whole program, of which `entry` is called. Other parameters: see
    `hostcuda.api.compiler.SourceModule`. CompileError if there is no compiler, or an option lacks its
    value.
    """
    read_options = read(options, include_dirs, arch)
    return Unit(str(source), read_options, not no_extern_c, program, tools=tools, entry=entry)


def precompile_header() -> None:
    """Precompile the engine's header for sources without options, into the cache."""
    with contextlib.suppress(CompileError):  # compiling a kernel reports the error
        # no source: the header does not depend on it
        make_unit("", no_extern_c=True).make_prelude()
