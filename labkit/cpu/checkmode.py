"""Check mode: counts and checks every memory access of every kernel.

The environment variable ``LABKIT_CHECK`` turns it on for a process: a list, separated by commas, of the tools
``profile``, ``memcheck``, ``racecheck``, ``initcheck``, ``synccheck``. Kernels are then compiled so that each load and
store reports its address to the runtime (``runtime/parts.h``), and `launches` returns the records. With any tool, an
invalid address ends the launch with an error. It does so before the access, except with ``profile`` alone, which checks
the addresses of a warp when all its lanes wait. Findings are only those of the chosen tools.

``LABKIT_CHECK_OUT`` names a file to which the records are appended as lines of JSON, one per launch. A second file,
with ``.modules`` after its name, has a line per module; see `loaded`.

Two blocks race in global memory if they access the same bytes, at least one of them writes, at least one access is
neither atomic nor volatile, and nothing orders the accesses: after the first access there is no ``__threadfence``
followed by an atomic or volatile write, or before the second no atomic or volatile read. Two cases that the memory
model also calls races are not reported, because correct programs have them: stores of a value that is already there,
such as a flag that many threads set (within a block, too), and a plain read before an atomic operation of the same
thread at the same address, such as the first read of a loop around ``atomicCAS``. Accesses of one byte are not checked.
The check takes 24 bytes of memory per byte of global memory that a launch accesses; the result names arrays for which
there is not enough.

The counts have Nsight Compute's names, where such a metric exists. They agree with it if the GPU's compiler keeps the
accesses as written; it may merge neighbouring loads into one wide load. An atomic operation on global memory is a
reduction (``red``) if its result is not used after optimization, otherwise ``atom``.
"""

import ctypes
import json
import os
import re
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

from labkit.base.errors import LabError
from labkit.cpu import bounds, instrument, toolchain

__all__ = ["TOOLS", "Finding", "LaunchRecord", "flags", "launches"]

KNOWN = ("profile", "memcheck", "racecheck", "initcheck", "synccheck")
TOOLS = tuple(word.strip() for word in os.environ.get("LABKIT_CHECK", "").split(",") if word.strip())
for _tool in TOOLS:
    if _tool not in KNOWN:
        raise LabError(f"LABKIT_CHECK={os.environ['LABKIT_CHECK']!r}: {_tool!r} is not one of {', '.join(KNOWN)}")

# The sanitizer's calls are inserted after most optimizations, so that variables in registers cause no accesses, and
# before loops are vectorized. A struct is not split into its members: a float4 is one access.
_FLAGS = [
    "-DLABKIT_CHECK",
    "-O2",
    "-gdwarf-4",  # older addr2line misread DWARF 5's file names
    "-fsanitize=thread",
    "-fno-optimize-sibling-calls",  # a call at the end of a function must keep its return address
    "-fno-jump-tables",
    "-fno-common",
]
_GCC = [
    "-g1",  # lines and inlined calls: a quarter of the assembler text
    "-gstatement-frontiers",  # as with -g, else some accesses are told with the line of their loop
    "-fno-reorder-blocks",  # it copies accesses, which divergent lanes would then run one after the other
    "-fno-thread-jumps",
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=1",
    "-fno-tree-sra",
    "-fno-ipa-sra",
]
_GCC_COUNTS = [
    "-fsanitize-coverage=trace-pc",  # where lanes of a warp diverge
    "-fno-tree-slp-vectorize",  # packing values across calls costs more than it saves
    "-fdisable-rtl-loop2_unroll",  # only loops with a known number of iterations are unrolled
]
# clang inserts the calls last, and splits structs before: a float4 whose members are used one by one is four accesses.
_CLANG = [
    "-g",
    "-fno-vectorize",
    "-fno-slp-vectorize",
    *(word for option in (
        "tsan-instrument-func-entry-exit=0", "tsan-distinguish-volatile=1", "tsan-instrument-read-before-write=1",
        "unroll-runtime=false", "jump-threading-threshold=0", "disable-block-placement", "disable-tail-duplicate",
        "disable-early-taildup",
    ) for word in ("-mllvm", f"-{option}")),
]  # fmt: skip
_CLANG_COUNTS = ["-fsanitize-coverage=bb,no-prune,trace-pc"]


def flags(clang):
    """The compiler's flags for the chosen tools."""
    chosen = [*_FLAGS, *(_CLANG if clang else _GCC)]
    if "profile" in TOOLS:
        chosen += ["-DLABKIT_COUNTS", *(_CLANG_COUNTS if clang else _GCC_COUNTS)]
    if TOOLS and TOOLS != ("profile",):
        chosen.append("-DLABKIT_CHECKS")
    if "memcheck" in TOOLS:  # a float4 assembled member by member is then not one access
        chosen.append("-fsanitize=alignment")
        if "profile" not in TOOLS:  # it would change the counts
            chosen.append("-fsanitize=bounds")
    return chosen


# What an address takes to be no multiple of its type's size: a cast of a pointer or reference, or a type of more than a
# word. Other names may look like these.
_MAY_MISALIGN = re.compile(
    r"[*&]\s*[)>]|\b[A-Za-z]\w*[1-4]\b|\b(?:double|long|union|struct|class|new|asm|alignas|__align__)\b|#\s*include"
)


def unneeded(source, clang):
    """The flags that this source does without: calls that check alignment keep the compiler from holding a value in a
    register that ``__restrict__`` permits to hold there. `bounds` reads only g++'s assembler text."""
    alignment = _MAY_MISALIGN.search(bounds.COMMENT.sub("", source))
    needed = {"-fsanitize=alignment": alignment, "-fsanitize=bounds": not clang and bounds.needed(source)}
    return [flag for flag, value in needed.items() if not value]


@dataclass
class Finding:
    """One error of a kernel.

    Attributes
    ----------
    tool, kind : str
        E.g. "memcheck", "out of bounds".
    kernel, file, line
        The place of the access; `file` and `line` are None if they are unknown.
    block, thread : tuple of int
        Its block and thread (x, y, z).
    other : dict or None
        The other access of a race: ``file``, ``line``, ``thread``.
    address, size : int
        Of the access, in bytes.
    buffer : dict or None
        The nearest allocation: ``base``, ``bytes``, ``offset`` of the access in it, and ``missed_by``: bytes beyond its
        end or, negative, before its start.
    count : int
        Number of accesses with this error.
    message : str
        One sentence.
    """

    tool: str
    kind: str
    kernel: str
    file: str | None
    line: int | None
    block: tuple
    thread: tuple
    other: dict | None
    address: int
    size: int
    buffer: dict | None
    count: int
    message: str


@dataclass
class LaunchRecord:
    """The record of one launch.

    Attributes
    ----------
    index : int
        Number of the launch in its process, from 0.
    kernel : str
    grid, block : tuple of int
    shared : int
        Bytes of dynamic shared memory per block.
    blocks_watched, blocks : int
        Blocks that were checked, and blocks of the grid; they differ if the launch was abandoned.
    counts : dict
        Metric name -> number.
    sites : list of dict
        One per access in the source and memory space: ``file``, ``line``, ``space`` ("global", "shared", "constant",
        "local"), ``op`` ("ld", "st", "atom", "red"), ``size`` in bytes per lane, ``requests``, ``bytes``, and
        ``sectors`` (global) or ``wavefronts`` and ``conflicts`` (shared, constant).
    findings : list of Finding
    error : str
        Why the launch was abandoned; empty if it was not.
    unchecked : list of str
        What a tool could not check, and why.
    module : str
        The compiled file.
    """

    index: int
    kernel: str
    grid: tuple
    block: tuple
    shared: int
    blocks_watched: int
    blocks: int
    counts: dict
    sites: list = field(default_factory=list)
    findings: list = field(default_factory=list)
    error: str = ""
    module: str = ""
    unchecked: list = field(default_factory=list)


# ---------------------------------------------------------------------------------------------------------------------
# Building

_SKIPPED = r'(?:\s|//[^\n]*|/\*.*?\*/|\# \d+ "[^\n]*)*'
_UNROLL = re.compile(rf"^([ \t]*#[ \t]*pragma[ \t]+)unroll[ \t]*$(?={_SKIPPED}(?:for|while)\b)", re.M | re.S)
_STATEMENT = re.compile(rf"(?:{_SKIPPED}\#[^\n]*\n)*{_SKIPPED}(?:(for|while)\b[^(]*|\{{)", re.S)
_MOST_LEVELS = 3  # of nested loops that are unrolled: with more, the code would not fit into the cache


def unrolled(text):
    """The source with its ``#pragma unroll`` in g++'s form: else each iteration would be recorded."""
    levels = {}  # position of a loop's pragma -> nested loops to be unrolled, including this one

    def close(at):
        depth = 0
        for match in re.compile(r"[(){}]").finditer(text, at):
            depth += 1 if match[0] in "({" else -1
            if not depth:
                return match.end()
        return len(text)

    def end(at):
        """The end of the statement that begins there."""
        match = _STATEMENT.match(text, at)
        if match and match[1]:
            return end(close(match.end()))
        return close(match.end() - 1) if match else text.find(";", at) + 1 or len(text)

    for match in reversed(list(_UNROLL.finditer(text))):
        last = end(match.end())
        levels[match.start()] = 1 + max((n for at, n in levels.items() if at < last), default=0)
    return _UNROLL.sub(lambda m: f"{m[1]}GCC unroll 65534" if levels[m.start()] <= _MOST_LEVELS else m[0], text)


_RED_ZONE = 256  # bytes; a multiple of 128, the bytes of one row of banks, so that variables keep their banks
_COMMON = re.compile(r"(?m)^\t\.local\t(\S+)\n\t\.comm\t\1,(\d+),(\d+)$")
_SECTION_OR_OBJECT = re.compile(
    r"(?m)^\t\.(?:section\t)?(text|data|bss|(?<=section\t)[^\s,]+)\b.*$|"
    r"^\S+:\n(?:\t\.(?:zero|byte|value|short|hword|word|xword|long|quad|octa|float|double|asciz?|string|base64)\b.*\n)+"
)
_GUARDED = re.compile(r"lk_constant|\.?bss|\.?data(?!\.rel\.ro)")  # not the tables of virtual functions


def with_red_zones(assembly):
    """The assembler text with unused bytes after each variable of a module, so that overruns are found."""
    guarded = False

    def visit(match):
        nonlocal guarded
        if match[1]:
            guarded = _GUARDED.match(match[1])
            return match[0]
        return f"{match[0]}\t.zero\t{_RED_ZONE}\n" if guarded else match[0]

    in_bss = (
        "\t.pushsection\t.bss\n\t.balign\t{3}\n\t.type\t{1}, @object\n\t.size\t{1}, {2}\n{1}:\n"
        f"\t.zero\t{{2}}+{_RED_ZONE}\n\t.popsection"
    )
    return _COMMON.sub(lambda m: in_bss.format(*m.group(0, 1, 2, 3)), _SECTION_OR_OBJECT.sub(visit, assembly))


# clang calls these where it copies a struct, and expects a sanitizer to have its own versions of them.
_MEMORY = re.compile(r"(?m)^(\tcallq?\t(?:\*)?)(mem(?:cpy|move|set)(?:@PLT|@GOTPCREL\(%rip\))?)$")
before_link = None  # called with the assembler text of each module; it can raise to refuse it


def prepare(path, alone):
    """Prepare a module's assembler text for being linked with the runtime instead of the sanitizer's own library.

    Of several files, which are not `alone`, accesses are not counted in the faster way: it has one table per module.
    """
    text = path.read_text(encoding="utf-8", errors="surrogateescape")  # clang writes strings byte by byte
    if before_link:
        before_link(text)
    text = _MEMORY.sub(r"\1__tsan_\2", with_red_zones(bounds.only_local(text, path.parent)))
    if "profile" in TOOLS and alone and instrument.able():
        text = instrument.instrument(text, checks=TOOLS != ("profile",))
    path.write_text(text, encoding="utf-8", errors="surrogateescape")


# ---------------------------------------------------------------------------------------------------------------------
# Records


_take = None
_records = []
_lines = {}  # (module, return address) -> (file, line, whether the access is in the engine's own headers)


def attach(library):
    """Use this runtime library."""
    global _take
    _take = library.lk_check_take
    _take.restype, _take.argtypes = ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]


def take():
    """Read the records of the launches that have ended since the last call."""
    if _take is None:
        return
    buffer, text = ctypes.create_string_buffer(1 << 16), b""
    while count := _take(buffer, len(buffer)):
        text += buffer.raw[:count]
    for line in text.splitlines():
        record = _record(json.loads(line))
        _records.append(record)
        if os.environ.get("LABKIT_CHECK_OUT"):
            with open(os.environ["LABKIT_CHECK_OUT"], "a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(record)) + "\n")


def loaded(path, source, options, include_dirs):
    """Record what a module was compiled from, so that nvcc can compile it, too: its file (``module``), ``source``,
    nvcc's ``options`` and ``include_dirs``."""
    out = os.environ.get("LABKIT_CHECK_OUT")
    if TOOLS and out:
        row = {"module": str(path), "source": source, "options": options, "include_dirs": [*map(str, include_dirs)]}
        with open(f"{out}.modules", "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def launches():
    """The launches that have ended, in order, as a list of `LaunchRecord`. Synchronize first to get all of them."""
    take()
    return list(_records)


def _locate(module, addresses):
    """Fill `_lines` for return addresses in a module."""
    wanted = sorted({a for a in addresses if (module, a) not in _lines})
    if not wanted:
        return
    out = ""
    if shutil.which("addr2line"):
        # One byte less: the address of the call, which may be the last instruction of its line.
        command = ["addr2line", "-a", "-i", "-e", module, *(hex(a - 1) for a in wanted)]
        out = toolchain.run(command)[1]
    places = re.split(r"(?m)^0x[0-9a-f]+\n", out)[1:]
    for address, text in zip(wanted, places or [""] * len(wanted), strict=True):
        _lines[module, address] = _place(text)


def _place(text):
    """The innermost file and line outside the engine's headers, and whether there are lines of these further in."""
    inside = False
    for line in text.splitlines():
        file, _, number = line.split(" (discriminator")[0].rpartition(":")
        path = Path(file)
        if toolchain.INCLUDE in path.parents or path.name == "kernel.cpp":
            inside = True
        elif number.isdigit() and int(number):
            return _shown(path), int(number), inside
    return None, None, True


def _shown(path):
    """A file's name as in the source: the compiler prepends the build folder to a relative one."""
    return str(path) if path.is_file() else path.name


_METRICS = {
    "global ld": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"),
    "global st": ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"),
    "global atom": (
        "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
    ),
    "global red": (
        "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
    ),
    "shared ld": ("smsp__inst_executed_op_shared_ld.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"),
    "shared st": ("smsp__inst_executed_op_shared_st.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"),
    "shared atom": (
        "smsp__inst_executed_op_shared_atom.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum",
    ),
}
_LOCAL = "lab__local_requests_address_taken.sum"  # accesses to other local variables are not instrumented
_CONFLICTS = {
    "shared ld": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared st": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}


def _record(raw):
    places = [finding[key] for finding in raw["findings"] for key in ("pc", "other_pc") if finding.get(key)]
    callers = [place for each in (raw, *raw["findings"]) for place in each.get("callers", ())]
    _locate(raw["module"], places + callers + [site["pc"] for site in raw["sites"]])
    counts = dict.fromkeys([*(name for pair in _METRICS.values() for name in pair), *_CONFLICTS.values()], 0)
    counts |= {"lab__constant_requests.sum": 0, "lab__constant_serialized.sum": 0, _LOCAL: 0}
    counts["lab__barriers.sum"] = raw["barriers"]
    counts["lab__unique_bytes_global.sum"] = raw["unique_bytes"]
    sites = {}
    choices = _choices(raw)
    for raw_site in raw["sites"]:
        file, line, inside = _lines[raw["module"], raw_site["pc"]]
        space, op = raw_site["space"], raw_site["op"]
        kind, requests, units = f"{space} {op}", raw_site["requests"], raw_site["units"]
        extra = units - raw_site["ideal"]
        if space == "local":
            if inside or (file, line, op) in choices:  # inside: an exchange between lanes in the engine's headers
                continue
            counts[_LOCAL] += requests
            measured = {}
        elif space == "constant":
            counts["lab__constant_requests.sum"] += requests
            counts["lab__constant_serialized.sum"] += extra
            measured = {"wavefronts": units, "conflicts": extra}
        else:
            counts[_METRICS[kind][0]] += requests
            counts[_METRICS[kind][1]] += units
            if kind in _CONFLICTS:
                counts[_CONFLICTS[kind]] += extra
            measured = {"sectors": units} if space == "global" else {"wavefronts": units, "conflicts": extra}
        key = (file, line, space, op, raw_site["size"])
        site = sites.setdefault(key, dict(zip(("file", "line", "space", "op", "size"), key, strict=True)))
        for name, value in {"requests": requests, **measured, "bytes": raw_site["bytes"]}.items():
            site[name] = site.get(name, 0) + value
    order = sorted(sites.values(), key=lambda s: (s["file"] or "", s["line"] or 0, s["space"], s["op"]))
    return LaunchRecord(
        raw["index"], raw["kernel"], tuple(raw["grid"]), tuple(raw["block"]), raw["shared"], raw["blocks_watched"],
        raw["blocks"], counts, order, [_finding(raw, f) for f in raw["findings"]], _error(raw),
        raw["module"], raw["unchecked"],
    )  # fmt: skip


def _error(raw):
    """Why the launch was abandoned, with the line where it was stopped."""
    error = raw["error"]
    if raw["callers"]:
        file, line = _first_known(raw["module"], raw["callers"])
        error += f" at {file}:{line}" if file else ""
        if raw["blocks_watched"] < raw["blocks"]:
            error += ". Check mode runs one block after the other: a block that waits for a later one never ends"
    return error


def _first_known(module, callers):
    """File and line of the innermost of these callers in the user's source."""
    return next((_lines[module, place][:2] for place in callers if _lines[module, place][0]), (None, None))


def _choices(raw):
    """Accesses whose address is either that of a local variable or another one: file, line, operation.

    The host's compiler generates them for ``i < n ? x[i] : zero``, where nvcc selects between the values, also in the
    copies of an unrolled loop in which all lanes select the variable.
    """
    spaces = {}
    for site in raw["sites"]:
        spaces.setdefault((site["pc"], site["op"]), set()).add(site["space"])
    return {(*_lines[raw["module"], pc][:2], op) for (pc, op), those in spaces.items() if {"local"} < those}


def _finding(raw, f):
    if "file" in f:
        file, line = _shown(Path(f["file"])), f["line"]
    elif "callers" in f:
        file, line = _first_known(raw["module"], f["callers"])
    elif f["pc"]:
        file, line = _lines[raw["module"], f["pc"]][:2]
    else:  # it was left from a library
        file = line = None
    other = None
    if "other_pc" in f:
        other_file, other_line, _ = _lines[raw["module"], f["other_pc"]]
        other = {"file": other_file, "line": other_line, "thread": tuple(f["other_thread"])}
    return Finding(
        f["tool"], f["kind"], raw["kernel"], file, line, tuple(f["block"]), tuple(f["thread"]), other,
        f["address"], f["size"], f.get("buffer"), f["count"], f["message"],
    )  # fmt: skip
