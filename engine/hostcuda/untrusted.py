"""Checks of a submitted kernel before it runs: what it may do, and what not.

A submission becomes native code in the process that measures it. Check mode watches what such code
does with memory. These checks refuse the rest: `refuse` reads the source before it is compiled
(other files, assembler, directives to the compiler, internals of the engine), and `guard` reads
each compiled module before it is loaded (functions of the host, calls by pointers, code that runs
while the module is loaded).

The wall around the machine is the sandbox; ``docs/untrusted.md`` lists what the judge trusts beside
it, and what keeps that.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import accumulate
from pathlib import Path

from hostcuda.build import unit
from hostcuda.check import mode as checkmode
from hostcuda.errors import EngineError
from hostcuda.frontend.rewrite import rewrite
from hostcuda.frontend.scan import Scan
from hostcuda.host import toolchain
from hostcuda.runtime import elf, native


# --------------------------------------------------------------------------------------- The source
def _split(text: str) -> frozenset[str]:
    """Return the set of a text's words."""
    return frozenset(text.split())


_STANDARD = _split(
    "array cassert cfloat climits cmath cstddef cstdint cstdio cstdlib limits tuple type_traits "
    "utility assert.h float.h limits.h math.h stddef.h stdint.h stdio.h stdlib.h"
)
_DIRECTIVES = _split(
    "define undef if ifdef ifndef elif else endif error warning include pragma"
) | {""}
_PRAGMA = re.compile(r"\s*(?:unroll\b|once\b|nv_\w+|diag_\w+).*", re.S)
_INCLUDE = re.compile(r'\s*(?:<([\w./]+)>|"([\w./]+)")\s*')

_LEXEME = re.compile(
    r"""
    (?P<comment> //[^\n]* | /\*.*?(?:\*/|\Z) )
  | (?P<raw>     (?:u8|[uUL])?R" )
  | (?P<literal> "(?:[^"\\\n]|\\.)*"? | '(?:[^'\\\n]|\\.)*'? )
  | (?P<number>  \.?[0-9](?:'?[A-Za-z0-9_.]|(?<=[eEpP])[+-])* )
  | (?P<word>    [A-Za-z_$][A-Za-z0-9_$]* )
    """,
    re.VERBOSE | re.DOTALL,
)
_SPLICE = re.compile(r"\\[ \t]*\n")  # a backslash at a line's end: the next line continues it
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w*)([^\n]*)", re.M)  # word, rest

# Words that C++ reserves and CUDA does not use: they lead to the host, its assembler or the
# compiler's additions.
_CAPITALS = _split(
    "__CUDACC__ __CUDA_ARCH__ __CUDA_ARCH_LIST__ __CUDACC_VER_MAJOR__ __CUDACC_VER_MINOR__ __NVCC__ "
    "__FILE__ __LINE__ __COUNTER__ __VA_ARGS__ __VA_OPT__ _Float16 _Bool _Static_assert HOSTCUDA_CPU"
)
_BUILTINS = _split(
    "__builtin_align__ __builtin_assume __builtin_assume_aligned __builtin_expect __builtin_unreachable"
)
_RESERVED = re.compile(
    r"__builtin_\w+|__(?:sync|atomic|tsan|sanitizer|asan|ubsan|real|wrap|has|glibc|libc|gcc|cxa|gnu|attr|warn|error|cyg)"
    r"_\w*|__pragma|__declspec|__label__|__extension__|_[A-Z]\w*|__\w*[A-Z]\w*"
)
# Names of the engine, also as a part of another name, in texts and in numbers: symbols are found by
# them.
_ENGINE = re.compile(r"(?i:\w*hostcuda\w*)|\bhc_\w+|\w*__(?:tsan|ubsan|sanitizer|wrap|real)_\w*")
# Functions of the C library that write to an address which they are given.
_UNWATCHED = re.compile(
    r"w?mem(?:p?cpy|ccpy|move|set)|(?:st[rp]|wc[sp])n?(?:cpy|cat)|bcopy|bzero|alloca|v?sn?printf|"
    r"(?:frexp|modf|remquo|sincos)[fl]?"
)
_ATTRIBUTE = re.compile(r"__attribute(?:__)?\s*\(\s*\(\s*([^()]*)(?:\(\s*\w*\s*\))?\s*\)\s*\)")
_ATTRIBUTES = _split(
    "aligned always_inline const hot may_alias noinline packed pure unused fallthrough likely "
    "maybe_unused nodiscard noreturn unlikely"
)
_STANDARD_ATTRIBUTE = re.compile(r"\[\s*\[\s*(\w+)\s*\]\s*\]")
_ASM = re.compile(r"\b(?:asm|__asm|__asm__)\b")
_BARRIER = re.compile(
    r'\w+\s*(?:(?:__)?volatile(?:__)?\s*)?\(\s*""\s*(?:::\s*"memory"\s*|:\s*:\s*:\s*"memory"\s*)?\)'
)
_DYNAMIC_SHARED = re.compile(r'\w+\("hostcuda_dynamic_shared"\)')  # how `rewrite` declares it
_NO_ASM = (
    "has {0} outside of functions, in a macro, or in another form than {0} volatile(…): only inline PTX in a "
    "function is allowed"
)


def _blank(text: str) -> str:
    """Return a text with each character but line breaks replaced by a space, so that positions stay the same."""
    return re.sub(r"[^\n]", " ", text)


class _Text:
    """A source without comments, its lines joined where a backslash ends them.

    It is stricter than the front end's reader, and shares nothing with it: where compilers could
    read a text in two ways (raw strings, trigraphs, a backslash and blanks at a line's end), it
    refuses the text. What one reader takes for a string, no other may take for code.
    """

    def __init__(self, source: str):
        """Read a source; raise an EngineError where compilers could read it in two ways.

        Attributes: `joined` is the source with lines joined; `text` is the same without comments, and
        `code` without comments and literals (spaces instead); `words` lists (position in `joined`,
        word) outside of comments and literals.
        """
        pieces = _SPLICE.split(source.replace("\r\n", "\n").removeprefix("\ufeff"))
        # where a line of the source ends inside a joined one
        self._splices = [*accumulate(map(len, pieces[:-1]))]
        self.joined = "".join(pieces)
        if character := re.search(r"\\[ \t]*\n|[^\n\t -~\x80-\U0010ffff]", self.joined):
            raise self.error(
                character.start(), "has a character or a line's end that compilers read differently"
            )
        self.words = []
        for match in _LEXEME.finditer(self.joined):
            if match["raw"]:
                raise self.error(match.start(), 'has a raw string (R"…"): write an ordinary one')
            if match["word"]:
                self.words.append((match.start(), match[0]))
        self.text = _LEXEME.sub(lambda m: _blank(m[0]) if m["comment"] else m[0], self.joined)
        self.code = _LEXEME.sub(
            lambda m: _blank(m[0]) if m["comment"] or m["literal"] else m[0], self.joined
        )

    def error(self, at: int, what: str) -> EngineError:
        """Return the error "line 3: a submitted kernel {what}" about a position in `joined`, to be raised."""
        # In `joined`, lines that a backslash continues are one: `_splices` are the places of their breaks.
        line = 1 + self.joined.count("\n", 0, at) + sum(splice <= at for splice in self._splices)
        return EngineError(f"line {line}: a submitted kernel {what}")


def refuse(source: str, headers: Collection[str] = ()) -> None:
    """Raise an EngineError if a submitted source is more than a kernel, or may hide what it does.

    Allowed are CUDA C++, those headers of CUDA and that inline PTX that the engine knows, and a few
    headers of the C++ library. The source is read as the compiler reads it: without comments, with
    spliced lines joined, in all branches of ``#if``.

    Parameters
    ----------
    source : str
        The submitted text.
    headers : collection of str, optional
        Names of further files that may be included: those that come with the exercise.

    Raises
    ------
    EngineError
        One sentence: the line, what is not allowed, and what to do.
    """
    text = _Text(source)
    # Signs that could hide a word or a directive: a stray backslash, a letter that is not ASCII, a
    # trigraph (??=), a digraph (%: and <: for # and [), or ##. C++ reads the <: of "vector<::T>" as no
    # digraph. `text.code` has spaces for comments and literals.
    sign = re.search(r"\\|[^\x00-\x7f]|\?\?[=/'()!<>-]|%:|<:(?!:(?![:>]))|##", text.code)
    if sign:
        words = {"##": "joins words with ##: write the names out", "\\": "has a stray backslash"}
        raise text.error(
            sign.start(), words.get(sign[0], f"has {sign[0]!r} outside of comments and strings")
        )
    _refuse_directives(text, headers)
    # also in string literals, which `text.text` keeps: an asm statement is one
    for match in _ENGINE.finditer(text.text):
        if match[0] != "HOSTCUDA_CPU":  # the macro by which a source tells this engine from nvcc
            raise text.error(
                match.start(), f"must not use the engine's own name {match[0]}: take another one"
            )
    for at, word in text.words:
        # words that C++ reserves for the compiler, except for those that CUDA code may use
        if _RESERVED.fullmatch(word) and word not in _CAPITALS | _BUILTINS:
            raise text.error(at, f"must not use {word}, which is no word of CUDA C++")
        if _UNWATCHED.fullmatch(word):
            raise text.error(
                at,
                f"must not use {word}, whose accesses check mode does not see: assign the elements "
                "yourself",
            )
    _refuse_attributes(text)
    _refuse_asm(source)  # the text as it was submitted: inline PTX is replaced in it first


def _refuse_directives(text: _Text, headers: Collection[str]) -> None:
    """Raise an EngineError for a directive that may do more than a kernel needs.

    Allowed are conditions, #define of names that are no attributes, pragmas that `_PRAGMA` matches, and
    #include of CUDA's headers, of `_STANDARD` ones and of `headers`.
    """
    for match in _DIRECTIVE.finditer(text.text):
        word, rest = match[1], match[2]
        if word not in _DIRECTIVES or (not word and rest.strip()):
            raise text.error(
                match.start(), f"must not use #{word or rest.strip()}: remove the line"
            )
        if word == "pragma" and not _PRAGMA.fullmatch(rest):
            raise text.error(
                match.start(), f"must not use #pragma{rest.rstrip()}: #pragma unroll is allowed"
            )
        if (
            word == "define"
            and (name := re.match(r"\s*(\w+)", rest))
            and name[1].strip("_") in _ATTRIBUTES
        ):
            raise text.error(
                match.start(), f"must not define {name[1]}, which is an attribute's name: rename it"
            )
        if word == "include":
            name = _INCLUDE.fullmatch(rest)
            name = name and (name[1] or name[2])
            if name not in _STANDARD | _list_cuda_headers() | set(headers):
                raise text.error(
                    match.start(),
                    f"must not include {name or rest.strip()}: allowed are CUDA's headers, "
                    "such as cuda_fp16.h and mma.h, and those of C++ for numbers and types, such as cmath "
                    "and cstdint",
                )


def _list_cuda_headers() -> set[str]:
    """Return the names of CUDA's headers that the engine has, such as "mma.h" and "cuda/std/array", without its own."""
    paths = (path.relative_to(toolchain.INCLUDE) for path in toolchain.INCLUDE.rglob("*.h*"))
    names = {path.as_posix() for path in paths if not path.as_posix().startswith("hostcuda")}
    return names | {f"cuda/std/{name}" for name in _STANDARD | {"bit", "span"}}


def _refuse_attributes(text: _Text) -> None:
    """Raise an EngineError for an ``__attribute__((…))`` or ``[[…]]`` whose name is not in `_ATTRIBUTES`."""
    for match in re.finditer(r"\b__attribute(?:__)?\b", text.code):
        attribute = _ATTRIBUTE.match(text.code, match.start())
        if not attribute or attribute[1].strip().strip("_") not in _ATTRIBUTES:
            what = attribute[1].strip() if attribute else "of this form"
            raise text.error(match.start(), f"must not use __attribute__ {what}: remove it")
    for match in re.finditer(r"\[\s*\[", text.code):
        attribute = _STANDARD_ATTRIBUTE.match(text.code, match.start())
        if not attribute or attribute[1] not in _ATTRIBUTES:
            raise text.error(match.start(), "must not use this [[attribute]]: remove it")


def _refuse_asm(source: str) -> None:
    """Raise an EngineError for assembler that is not inline PTX which `rewrite` replaces by functions."""
    text = _Text(rewrite(source).text)
    for at, word in text.words:
        if _ASM.fullmatch(word) and not any(
            allowed.match(text.text, at) for allowed in (_BARRIER, _DYNAMIC_SHARED)
        ):
            raise text.error(at, _NO_ASM.format(word))


def _refuse_expanded_asm(text: str) -> None:
    """Raise an EngineError for assembler in the compiler's `text`: a macro may have hidden it from `_refuse_asm`.

    `text` is preprocessed and rewritten, with directives that give the submission's lines. It may
    have two forms of asm: ``asm volatile("" ::: "memory")``, and
    ``asm("hostcuda_dynamic_shared")``, the name of the engine's variable.
    """
    scan = Scan(text)
    for match in _ASM.finditer(scan.code):
        if not any(allowed.match(text, match.start()) for allowed in (_BARRIER, _DYNAMIC_SHARED)):
            line = scan.place(match.start())[1]
            raise EngineError(f"line {line}: a submitted kernel {_NO_ASM.format(match[0])}")


# ------------------------------------------------------------------------------ The compiled module
_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor "
    "fma fmax fmin fmod hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround "
    "nearbyint nextafter pow remainder rint round scalbln scalbn sin sincos sinh sqrt tan tanh tgamma "
    "trunc y0 y1 yn"
)
# Every function that kernels of the convolution lab and their tests import, and the other
# mathematical functions.
_IMPORTED = frozenset(
    [
        *(name + suffix for name in _MATH.split() for suffix in ("", "f")),
        "fegetround",
        "fesetround",
        "_ZSt20__throw_domain_errorPKc",
        "_ZSt21__throw_runtime_errorPKc",
        # For copies of structs, and for the engine's headers; `refuse` finds them in a source.
        "memcpy",
        "memmove",
        "memset",
        "malloc",
        "free",
        "_Znwm",
        "_Znam",
        "_ZdlPv",
        "_ZdaPv",
        "_ZdlPvm",
        "_ZdaPvm",
        # The compiler's: the start and end of a library, cleaning up, variables of functions with a
        # constructor.
        "__gmon_start__",
        "_ITM_registerTMCloneTable",
        "_ITM_deregisterTMCloneTable",
        "__cxa_finalize",
        "__tls_get_addr",
        "__gxx_personality_v0",
        "__cxa_guard_acquire",
        "__cxa_guard_release",
        "__cxa_pure_virtual",
        # What a function without exceptions does with one: it ends its process, which is the
        # sandbox's own.
        "_ZSt9terminatev",
        "__cxa_call_terminate",
        # The engine's variables and functions, and the functions that report to check mode.
        "threadIdx",
        "blockIdx",
        "blockDim",
        "gridDim",
        "hostcuda_dynamic_shared",
        "hostcuda_shared_end",
        "hostcuda_spins",
        "hostcuda_turn",
        "hostcuda_voters",
        "hostcuda_votes",
        "_Z11__nanosleepj",
        "_ZN8hostcuda10add_kernelEPKNS_6KernelE",
        "_ZN8hostcuda6arriveEiPKcS1_i",
        "_ZN8hostcuda4meetEjPvPFvPKS0_jEPKcS6_i",
        "_ZN8hostcuda4failEPKcz",
        "_ZN8hostcuda7lane_idEv",
        "_ZN8hostcuda5printEiPKcz",
        "_ZN8hostcuda6gatherEPKci",
        "_ZN8hostcuda8gatheredEv",
        "_ZN8hostcuda14let_others_runEv",
        "_ZN8hostcuda14missing_sourceEii",
        "_ZN8hostcuda10check_sumsEPKvmiPKcS3_i",
        "_ZN8hostcuda14returns_withinEjj",
        # Barriers with a number. Those in a kernel's memory (cuda::barrier) would write there
        # unwatched.
        "_ZN8hostcuda7meet_atEjjjPvPFvPKS0_jEPKcS6_i",
        "_ZN8hostcuda16arrive_at_numberEjjPKcS1_i",
        "_ZN8hostcuda11block_phaseEj",
        "_ZN8hostcuda8wait_forERKNS_5PhaseEjPKcS4_i",
        "_ZN8hostcuda8space_ofEPKv",
        "hostcuda_reads",
        "hostcuda_writes",
        "hostcuda_in_shared",
        "hostcuda_log_full",
        "hostcuda_atomic_begin",
        "hostcuda_atomic_end",
        "hostcuda_atomic_result",
        "hostcuda_copy_begins",
        "hostcuda_copies_committed",
        "hostcuda_copies_awaited",
        "__ubsan_handle_type_mismatch_v1",
        "__ubsan_handle_out_of_bounds",
        "__sanitizer_cov_trace_pc",
        "__tsan_init",
        "__tsan_vptr_read",
        "__tsan_vptr_update",
    ]
)
# What kernels with asynchronous copies import, too: of exercises that come with these headers alone, because nothing
# counts the copies as requests.
_ASYNCHRONOUS = {
    "cuda/ptx": frozenset(
        [
            "_ZN8hostcuda13make_mbarrierEPvjPKcS2_i",
            "_ZN8hostcuda12end_mbarrierEPvPKcS2_i",
            "_ZN8hostcuda18arrive_at_mbarrierEPvjlNS_7ArrivalEPKcS3_i",
            "_ZN8hostcuda16wait_at_mbarrierEPvyibPKcS2_i",
            "_ZN8hostcuda15mbarrier_waitedEv",
            "_ZN8hostcuda10begin_bulkEPKNS_5PieceEjPvPFvPcPKcmEjbS6_S6_i",
            "hostcuda_barrier_made",
            "hostcuda_barrier_used",
            "hostcuda_barrier_counts",
            "hostcuda_bulk_reads",
            "hostcuda_bulk_writes",
            "hostcuda_cluster_fence",
            "hostcuda_proxy_fence",
        ]
    )
}
_IMPORTED_FAMILIES = re.compile(
    r"__tsan_(?:(?:unaligned_|loose_)?(?:volatile_)?(?:read|write)(?:\d+|_range)|mem(?:cpy|move|set)|atomic\w+)"
    # The compiler's own cleaning up, which the linker may list.
    r"|_Unwind_(?:Resume(?:_or_Rethrow)?|(?:Raise|Delete)Exception|[GS]et\w+)"
)
_EXPLAINED = {
    "__cxa_throw": "throws an exception",
    "__cxa_atexit": "has a static variable with a destructor",
}


# The functions that a loader may call: g++'s own, and HOSTCUDA_KERNEL's.
_REGISTERS = re.compile(r"_ZN12_GLOBAL__N_1\d+hostcuda_register_\d+Ev")
_STARTS = frozenset(
    [
        "frame_dummy",
        "__do_global_dtors_aux",
        "_sub_I_00099_0",
        "_GLOBAL__sub_I_00099_0_",
    ]
)
_CALLED_BY_LOADER = (elf.SHT_PREINIT_ARRAY, elf.SHT_INIT_ARRAY, elf.SHT_FINI_ARRAY)
# R_X86_64_IRELATIVE and R_AARCH64_IRELATIVE: it calls a function for an address
_CHOSEN_BY_LOADER = (37, 1032)


def refuse_symbols(
    path: Path | str,
    source: str = "",
    registered: int | None = None,
    headers: Collection[str] = (),
) -> None:
    """Raise an EngineError if a compiled module calls functions of the host, or runs code while it is loaded.

    Parameters
    ----------
    path : Path or str
        The shared library.
    source : str
        The text that was compiled, for the line of a function that is called.
    registered : int, optional
        How many kernels the front end has registered in the text. Each has one function that runs
        while the module is loaded; without the number, as many as there are.
    headers : collection of str, optional
        The headers that come with the exercise: with ``cuda/ptx``, kernels may begin bulk copies.

    Raises
    ------
    EngineError
        One sentence, which names the function.
    """
    module = elf.Elf(path)
    # the symbols that the loader sees, and all that are in the module
    dynamic, own = module.symbols(elf.SHT_DYNSYM), module.symbols(elf.SHT_SYMTAB)
    # Imported symbols have no section. The linker puts __wrap_ before C functions that the engine
    # replaces.
    imported = {
        name.removeprefix("__wrap_") for name, _, section, *_ in dynamic if name and not section
    }
    for name, what in _EXPLAINED.items():
        if name in imported:
            raise EngineError(f"the kernel {what}: CUDA does not allow it")
    allowed = _IMPORTED.union(*(_ASYNCHRONOUS.get(header, ()) for header in headers))
    for name in sorted(imported):
        # `_IMPORTED_FAMILIES`: functions of check mode, and of the compiler's own cleaning up
        if name not in allowed and not _IMPORTED_FAMILIES.fullmatch(name):
            callee = toolchain.demangle(name).partition("(")[0]
            what = (
                "for clusters, bulk copies or another part of CUDA that this exercise does not count"
                if callee.startswith("hostcuda")
                else "which is no function of CUDA"
            )
            raise EngineError(f"{_name_line(source, callee)}the kernel calls {callee}, {what}")
    if indirect := [symbol.name for symbol in own + dynamic if symbol.kind == elf.STT_GNU_IFUNC]:
        raise EngineError(
            f"the kernel's function {indirect[0]} is chosen while it is loaded: remove its attribute"
        )
    called = list(_list_called_by_loader(module, own))
    # Allowed are one function per kernel, by which the engine finds it, and those that g++ adds to
    # each library (`_STARTS`).
    registering = [name for name in called if _REGISTERS.fullmatch(name)]
    if {*called} - {*registering} - _STARTS or (
        registered is not None and len(registering) != registered
    ):
        raise EngineError(
            "the kernel file runs code while it is loaded: give no variable outside of functions a "
            "constructor or a value that is computed by a call"
        )


def _list_called_by_loader(module: elf.Elf, symbols: Collection[elf.Symbol]) -> Iterator[str]:
    """Yield the name of each function that the loader calls when it loads or unloads a module.

    "" stands for an address that is no known function, and for a function that chooses an address.
    """
    names = {symbol.value: symbol.name for symbol in symbols if symbol.kind == elf.STT_FUNC}
    entries = {
        relocation.place: relocation
        for section in module.sections
        if section.kind == elf.SHT_RELA and section.flags & elf.SHF_ALLOC
        for relocation in module.relocations(section)
    }
    for section in module.sections:
        if section.kind in _CALLED_BY_LOADER:
            for place in range(section.address, section.address + section.bytes, 8):
                entry = entries.get(place)
                value = entry.symbol.value if entry and entry.symbol else 0
                yield names.get(value + entry.addend, "") if entry else ""
    yield from ("" for entry in entries.values() if entry.kind in _CHOSEN_BY_LOADER)


# Jumps to an address from memory or a register, except to find a thread-local variable.
_INDIRECT = re.compile(
    r"\t(?:notrack |bnd )?(?:call|jmp)q?\t\*(?!\S*@TLSCALL)|\tblra?\w*\t(?!\S*@TLS)|\tbra?\w*\t"
)
# Room on the stack whose size is computed: an array whose length is no constant.
_COMPUTED_STACK = re.compile(r"\tsub[lq]?\t%\w+, %[er]sp\b|\tsub\tsp, sp, x")
_PLACE = re.compile(r"\t\.loc \d+ (\d+)")


def refuse_calls(assembly: str) -> None:
    """Raise an EngineError if a module calls or jumps to a computed address, or moves its stack by a computed number.

    `assembly` is the module's text in assembler, compiled for check mode, without jump tables (which
    are computed addresses, too). ``asm`` statements in it are the engine's own, and are not checked.
    """
    line, in_asm = "", False
    for text in assembly.splitlines():
        # the compiler's marks around an assembler statement
        if text.startswith(("#APP", "#NO_APP")):
            in_asm = text.startswith("#APP")
        elif place := _PLACE.match(text):  # the directive .loc: the source line of what follows
            line = place[1]
        elif not in_asm and _INDIRECT.match(text):
            raise EngineError(
                f"line {line}: the kernel calls a function by a pointer, which a submission may not do: "
                "call it by its name, or choose with if"
            )
        elif not in_asm and _COMPUTED_STACK.match(text):
            raise EngineError(
                f"line {line}: the kernel has an array whose length is no constant: CUDA does not allow it"
            )


def _name_line(source: str, name: str) -> str:
    """Return "line 3: " for the first line of `source` with the word "f" of a C++ name such as "a::f", else ""."""
    word = name.rpartition("::")[2]
    for number, line in enumerate(source.splitlines(), 1):
        if re.search(rf"\b{re.escape(word)}\b", line):
            return f"line {number}: "
    return ""


# processor time of one run of the compiler: the largest exercise takes a tenth
_COMPILER_SECONDS = 20


def require_gcc() -> None:
    """Raise an EngineError if this machine compiles kernels with another compiler than g++.

    `hostcuda.check.windows` looks for accesses that no hook sees in g++'s assembler text, and knows
    no other.
    """
    if toolchain.is_clang(command := toolchain.find()):
        raise EngineError(
            f"a submission is compiled with g++ alone, whose assembler text is checked, not with {command[0]}: "
            "install g++, and let CXX name it or nothing"
        )


def guard(source: str = "", headers: Collection[str] = ()) -> None:
    """Guard this process against a hostile kernel: it then compiles and loads only what the checks here let pass.

    The compiler's time is limited, too. Call this in the process that runs a submission, before the
    submission is compiled. It sets three hooks of the engine, which raise an EngineError:
    `_refuse_expanded_asm` gets each text for the compiler, `refuse_calls` each assembler text for
    the linker, and `refuse_symbols` the path of each compiled module. It cannot be undone.

    Parameters
    ----------
    source : str
        The submission, so that messages have its lines.
    headers : collection of str, optional
        The headers that come with the exercise, as `refuse_symbols` has them.

    Raises
    ------
    EngineError
        If kernels are not compiled with g++.
    """
    require_gcc()
    checkmode.untrusted = True  # g++ then gets further flags for check mode
    toolchain.processor_seconds = _COMPILER_SECONDS
    if checkmode.TOOLS:
        # the hooks of check mode then notice a kernel that overwrites its return addresses
        native.library().hc_keep_returns()
    unit.before_compile = _refuse_expanded_asm
    checkmode.before_link = refuse_calls
    native.before_load = lambda path, registered: refuse_symbols(path, source, registered, headers)
