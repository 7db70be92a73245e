"""Check mode: counts and checks every memory access of every kernel.

The environment variables ``HOSTCUDA_CHECK``, with the names of tools, and ``HOSTCUDA_CHECK_OUT``
turn it on for a process (``docs/environment.md``). Kernels are then compiled so that each load and
store reports its address to the runtime (``runtime/parts.h``), and `hostcuda.check.records` has
what was found in each launch. With any tool, an invalid address ends the launch with an error. It
does so before the access, except with ``profile`` alone, which checks the addresses of a warp when
all its lanes wait. Findings are only those of the chosen tools.

What racecheck and initcheck report, and what not, is in ``docs/strictness.md``.

The counts have Nsight Compute's names, where such a metric exists. They agree with it if the GPU's
compiler keeps the accesses as written; it may merge neighbouring loads into one wide load. An
atomic operation on global memory is a reduction (``red``) if its result is not used after
optimization, otherwise ``atom``.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from hostcuda.check import bounds, instrument, stops
from hostcuda.errors import EngineError
from hostcuda.frontend.scan import Scan
from hostcuda.frontend.tokens import find_statement_end, without_comments

KNOWN = ("profile", "memcheck", "racecheck", "initcheck", "synccheck", "step")
TOOLS = tuple(
    word.strip() for word in os.environ.get("HOSTCUDA_CHECK", "").split(",") if word.strip()
)
for _tool in TOOLS:
    if _tool not in KNOWN:
        raise EngineError(f"HOSTCUDA_CHECK: {_tool!r} is not one of {', '.join(KNOWN)}")
if "step" in TOOLS and len(TOOLS) > 1:
    raise EngineError(
        "HOSTCUDA_CHECK: step compiles kernels in another way than the other tools, and is used alone"
    )

# The sanitizer's calls are inserted after most optimizations, so that variables in registers cause
# no accesses, and before loops are vectorized. A struct is not split into its members: a float4 is
# one access.
_FLAGS = [
    "-DHOSTCUDA_CHECK",
    "-O2",
    "-gdwarf-4",  # older addr2line misread DWARF 5's file names
    "-fsanitize=thread",
    "-fno-optimize-sibling-calls",  # a call at the end of a function must keep its return address
    "-fno-jump-tables",
    "-fno-common",
]
_GCC = [
    "-g1",  # lines and inlined calls: a quarter of the assembler text
    # as with -g, else some accesses are reported at the line of their loop
    "-gstatement-frontiers",
    # A copy of an argument has no line of its own, and gets that of the instruction before it: the
    # step of a loop must not be moved there.
    "-fno-schedule-insns2",
    # it copies accesses, which divergent lanes would then run one after the other
    "-fno-reorder-blocks",
    "-fno-thread-jumps",
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=1",
    "-fno-tree-sra",
    "-fno-ipa-sra",
    "-fno-ipa-icf",  # kernels with the same code stay apart
]
_GCC_COUNTS = [
    "-fsanitize-coverage=trace-pc",  # where lanes of a warp diverge
    "-fno-tree-slp-vectorize",  # packing values across calls costs more than it saves
    "-fdisable-rtl-loop2_unroll",
]  # only loops with a known number of iterations are unrolled
# To follow a thread, every variable is kept in memory, at one place for as long as its function
# runs.
_STEP = ["-O0", "-g", "-mno-red-zone", "-fno-omit-frame-pointer", "-fstack-reuse=none"]
# clang inserts the calls last, and splits structs before: a float4 whose members are used one by
# one is four accesses.
_CLANG = [
    "-g",
    "-fno-vectorize",
    "-fno-slp-vectorize",
    *(
        word
        for option in (
            "tsan-instrument-func-entry-exit=0",
            "tsan-distinguish-volatile=1",
            "tsan-instrument-read-before-write=1",
            "unroll-runtime=false",
            "jump-threading-threshold=0",
            "disable-block-placement",
            "disable-tail-duplicate",
            "disable-early-taildup",
        )
        for word in ("-mllvm", f"-{option}")
    ),
]
_CLANG_COUNTS = ["-fsanitize-coverage=bb,no-prune,trace-pc"]


untrusted = False  # kernels may be hostile; hostcuda.untrusted sets it
# Then the runtime finds the addresses to which functions return (`keep_returns` in hooks.cpp). And
# where an access may have no hook (`windows`), each index of an array is checked, and whether an
# address is in the variable that it is derived from.
ACCESSES = "accesses.txt"  # for `windows.find_disguised`
# A constant that is computed by calls may take as many operations as clang allows: a fraction of a
# second. g++ would allow 32 times as many.
_UNTRUSTED = ["-fno-omit-frame-pointer", "-fconstexpr-ops-limit=1048576"]
_BOUNDED = ["-fsanitize=bounds-strict,object-size", f"-fdump-tree-tsan={ACCESSES}"]


def choose_flags(clang: bool, tools: tuple[str, ...]) -> list[str]:
    """Return the compiler's flags for these tools of check mode: for clang++ if `clang`, else for g++.

    The tools are "memcheck", "profile" and so on.
    """
    options = [*_FLAGS, *(_CLANG if clang else _GCC)]
    # one thread is followed, in code without optimization; addresses are not checked
    if "step" in tools:
        return [*options, *_STEP]
    if "profile" in tools:
        options += ["-DHOSTCUDA_COUNTS", *(_CLANG_COUNTS if clang else _GCC_COUNTS)]
    # else g++ would remove reads of a shared array that nothing writes, and writes of one that
    # nothing reads
    elif not clang:
        options.append("-fno-ipa-reference-addressable")
    # check addresses before each access; a profile alone looks at them when a warp's lanes wait
    if tools != ("profile",):
        options.append("-DHOSTCUDA_CHECKS")
    # the runtime checks the alignment of each access: a float4 may be read member by member, and then
    # no access is one of 16 bytes
    if "memcheck" in tools:
        options.append("-fsanitize=alignment")
        if "profile" not in tools:  # it would change the counts
            options.append("-fsanitize=bounds")
    return options


def choose_untrusted_flags(bounded: bool) -> list[str]:
    """Return g++'s further flags for kernels that may be hostile, [] if `untrusted` is not set.

    `bounded`: with checks of each index and address. The precompiled header is compiled without
    these flags. `untrusted` is a variable of this module, which `hostcuda.untrusted` sets.
    """
    return [*_UNTRUSTED, *(_BOUNDED if bounded else ())] if untrusted else []


# What a source must have for an address to be no multiple of its type's size: a cast of a pointer
# or reference, or a type of more than a word ("float4"). Other names may look like these.
_MAY_MISALIGN = re.compile(
    r"[*&]\s*[)>]|\b[A-Za-z]\w*[1-4]\b|\b(?:double|long|union|struct|class|new|asm|alignas|__align__)\b|#\s*include"
)


# flags that depend on the source: see `list_unneeded_flags`
OF_SOURCES = ("-fsanitize=alignment", "-fsanitize=bounds")


def list_unneeded_flags(source: str, clang: bool, folders: Iterable[Path] = ()) -> list[str]:
    """Return the flags of check mode that this source does not need: without them, fewer optimizations are lost.

    Calls that check alignment keep the compiler from holding values in registers where
    ``__restrict__`` permits it, and checks of bounds keep it from unrolling loops. The latter are
    read from g++'s assembler text only, so clang does without them. `folders` are those of the
    source's own headers.
    """
    needed = {
        "-fsanitize=alignment": _MAY_MISALIGN.search(without_comments(source)),
        "-fsanitize=bounds": not clang and bounds.needs_checks(source, folders),
    }
    return [flag for flag, is_needed in needed.items() if not is_needed]


# space, comments and the preprocessor's lines before a loop
_SKIPPED = r'(?:\s|//[^\n]*|/\*.*?\*/|\# \d+ "[^\n]*)*'
_UNROLL = re.compile(
    rf"^([ \t]*#[ \t]*pragma[ \t]+)unroll[ \t]*$(?={_SKIPPED}(?:for|while)\b)", re.M | re.S
)
_FULLY = "GCC unroll 65534"  # the largest number that g++ takes
# of nested loops that are unrolled: with more, the code would not fit into the cache
_MOST_LEVELS = 3


def unroll_loops(text: str) -> str:
    """Return the source with ``#pragma unroll`` in the form that g++ follows, ``#pragma GCC unroll``.

    In an unrolled loop each iteration's access is one of its own in the counts, as on a GPU.
    """
    levels = {}  # position of a loop's pragma -> nested loops to be unrolled, including this one
    code = Scan(text).code
    for match in reversed(list(_UNROLL.finditer(text))):  # the inner loops first
        end = find_statement_end(code, match.end())
        # the loops that were met before `end` are inside of this one
        levels[match.start()] = 1 + max(
            (n for start, n in levels.items() if start < end), default=0
        )
    # m[1]: "#pragma "; more levels stay as they are, because the code would become too long
    return _UNROLL.sub(lambda m: m[1] + _FULLY if levels[m.start()] <= _MOST_LEVELS else m[0], text)


# What precedes the first [ in the definition of an array with values: "__constant__ const float w"
# of w[3] = {1, 2, 1}.
_ARRAY = re.compile(
    r"\b(?:\w++|\s++|::|<[\w\s:,]*+>|\(\((?:used)?\)\)){2,32}+(?=(?:\[[^\]=;{]*\]\s*)+[={])"
)


def make_changeable(text: str) -> str:
    """Return the source without ``const`` in the definitions of arrays in device memory.

    The compiler's instrumentation leaves out reads of constant arrays, so that they would not be recorded.
    """

    def change(match: re.Match) -> str:
        """Return a definition's text without ``const``, unless it is local, inline or declared ``extern``."""
        head, words = match[0], {*match[0].split()}
        # {head.split()[-1]}: the array's name
        if (
            "const" not in words
            or not words & {"__device__", "__constant__", "static"}
            or (
                words & {"extern", "inline"}
                or re.search(rf"\bextern\b[^;{{]*\b{head.split()[-1]}\s*\[", text)
            )
        ):
            return head
        # "used" keeps the compiler from finding out that nothing changes the array
        prefix = "__attribute__((used)) " + "static " * ("static" not in words)
        return prefix + re.sub(r"\bconst\b", "", head)

    return _ARRAY.sub(change, text)


# bytes; a multiple of 128, the bytes of one row of banks, so that variables keep their banks
_RED_ZONE = 256
# symbol, bytes, alignment: in .bss
_COMMON = re.compile(r"(?m)^\t\.local\t(\S+)\n\t\.comm\t\1,(\d+),(\d+)$")
_SECTION_OR_OBJECT = re.compile(  # "\t.section\tNAME...", or "SYMBOL:" with all its data
    r"(?m)^\t\.(?:section\t)?(text|data|bss|(?<=section\t)[^\s,]+)\b.*$|"
    r"^\S+:\n(?:\t\.(?:zero|byte|value|short|hword|word|xword|long|quad|octa|float|double|asciz?|string|base64)\b.*\n)+"
)
# not the tables of virtual functions
_GUARDED = re.compile(r"hc_constant|\.?bss|\.?data(?!\.rel\.ro)")


def add_red_zones(assembly: str) -> str:
    """Return assembler text with unused bytes after each variable of a module, to find accesses past its end."""
    is_guarded = False  # whether the current section has variables of the source

    def add_red_zone(match):
        """Return the text of a variable with a red zone, if its section is guarded; note where a section begins."""
        nonlocal is_guarded
        if match[1]:  # a section
            is_guarded = _GUARDED.match(match[1])
            return match[0]
        return f"{match[0]}\t.zero\t{_RED_ZONE}\n" if is_guarded else match[0]

    # What stands for a `.comm` variable, which has no place for a red zone after it.
    in_bss = (
        "\t.pushsection\t.bss\n\t.balign\t{3}\n\t.type\t{1}, @object\n\t.size\t{1}, {2}\n{1}:\n"
        f"\t.zero\t{{2}}+{_RED_ZONE}\n\t.popsection"
    )
    # group 0 is there only so that {1}, {2}, {3} are the groups 1 to 3: name, size, alignment
    return _COMMON.sub(
        lambda m: in_bss.format(*m.group(0, 1, 2, 3)),
        _SECTION_OR_OBJECT.sub(add_red_zone, assembly),
    )


# Calls of the C library that write to memory. clang calls some where it copies a struct, and expects
# a sanitizer to have its own versions of them.
_WRITES = re.compile(
    r"(?m)^(\tcallq?\t(?:\*)?)((?:mem(?:cpy|move|set)|(?:frexp|modf|remquo|sincos)f?)(?:@PLT|@GOTPCREL\(%rip\))?)$"
)
# called with each module's assembler text; hostcuda.untrusted raises there to refuse it
before_link = None


_ALIGNED = re.compile(r"\b(?:alignas|__align__|aligned|__aligned__)\s*\(\s*(?:(\d+)\s*\))?")
_OF_UNIONS = 1 << 16  # no member of a union is larger


def measure_padding(source: str) -> int:
    """Return up to which alignment structs of a source may have padding, whose bytes nothing sets; 0 without any.

    It is the largest one that an ``alignas`` or ``__align__`` gives. In a union, the bytes of
    members that are not in use are like padding.
    """
    code = without_comments(source)
    # 16: for an alignment that is no number, such as sizeof(T)
    widest = max((int(match[1] or 16) for match in _ALIGNED.finditer(code)), default=0)
    return _OF_UNIONS if re.search(r"\bunion\b", code) else widest


def prepare(path: Path, tools: tuple[str, ...], alone: bool) -> None:
    """Change the file with a module's assembler text for check mode: add what the tools need before it is assembled.

    Accesses then call the runtime's functions. If the text is not `alone` in its module, they are
    not counted in the faster way, which has one table per module. The text was compiled from
    ``kernel.cpp`` in the same folder.
    """
    # clang's text may have strings with bytes that are not UTF-8
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    if before_link:  # where kernels are not trusted, it refuses texts by an exception
        before_link(text)
    # memcpy and the like become functions of the runtime, which check what is written
    text = _WRITES.sub(
        r"\1__tsan_\2", add_red_zones(bounds.keep_local_checks(text, path.parent, untrusted))
    )
    source = (path.parent / "kernel.cpp").read_text(errors="replace")
    text = instrument.loosen_copies(text, source)
    # the runtime reads the variable hostcuda_padding, and does not report padding as uninitialized
    if padding := measure_padding(source):
        text += (
            "\t.section\t.rodata\n\t.balign\t4\n\t.type\thostcuda_padding, @object\n"
            f"\t.size\thostcuda_padding, 4\nhostcuda_padding:\n\t.long\t{padding}\n"
        )
    if "profile" in tools and alone and instrument.can_instrument():
        # a profile alone counts accesses, and checks none
        text = instrument.instrument(text, checks=tools != ("profile",))
    if "step" in tools:
        text = stops.insert_stops(text)
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
