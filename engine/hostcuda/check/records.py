"""The records of check mode: what the runtime reports of each launch, with source lines and the names of metrics.

The runtime (``runtime/records.cpp``, ``runtime/counting.cpp``) writes a line of JSON per launch,
with addresses of the module's code. `take` reads it; addr2line finds the lines, and the table
`hostcuda.metrics.COUNTERS` says which of the numbers are which metric.
"""

import ctypes
import functools
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from types import TracebackType

from hostcuda import errors
from hostcuda.check import bounds
from hostcuda.check.elements import PLACE, SHARED_PLACE, format_element, format_shared
from hostcuda.check.mode import TOOLS
from hostcuda.errors import EngineError
from hostcuda.frontend.scan import Scan
from hostcuda.host import toolchain
from hostcuda.metrics import COUNTERS, Counter


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
        The other access of a race, which came before: ``file``, ``line``, ``thread``, ``op``.
    address, size : int
        Of the access, in bytes.
    buffer : dict or None
        The nearest allocation: ``base``, ``bytes``, ``name`` of a variable (or empty), ``offset``
        of the access in it, and ``missed_by``: bytes beyond its end or, negative, before its start.
    count : int
        Number of accesses with this error.
    message : str
        One sentence.
    op : str
        Of a race: "ld", "st" or "atom".
    remedy : str
        What prevents a race, in one sentence.
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
    op: str = ""
    remedy: str = ""


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
        One per access in the source and memory space: ``file``, ``line``, ``space`` ("global",
        "shared", "constant", "local"), ``op`` ("ld", "st", "atom", "red"), ``size`` in bytes per
        lane, ``requests``, ``bytes``, and ``sectors``, ``passes`` over the banks of the L1 cache,
        ``lines`` of 128 bytes and ``loaded``, sectors that a block loads for the first time
        (global), or ``wavefronts``, ``conflicts`` and ``broadcast``, the requests in which the
        lanes have at most two addresses (shared, constant). After `follow`, also ``worst``: the
        ``block`` and the ``warp`` of the request with the most ``units``, which are sectors or
        wavefronts.
    findings : list of Finding
    error : str
        Why the launch was abandoned; empty if it was not.
    unchecked : list of str
        What a tool could not check, and why.
    requests : list of dict
        Of the warp that `follow` chose, in order: ``file``, ``line``, ``space``, ``op``, ``size``,
        ``units``, ``addresses`` (of the 32 lanes, -1 where a lane takes no part), and ``base``,
        ``bytes`` and ``name`` of the allocation or variable (empty for what has no name).
    module : str
        The compiled file.
    matrices : int
        Operations of warps on matrices (WMMA, ``mma``, ``ldmatrix``).
    plays : list
        For each piece of the code (see `hostcuda.check.instrument`) that warps have run: its
        number, how often.
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
    matrices: int = 0
    plays: list = field(default_factory=list)
    requests: list = field(default_factory=list)


_take = _follow = _begin_with = None  # the runtime library's functions
_records = []  # `LaunchRecord`s, also those of copies
_noted = {}  # (kind, file, line) -> the messages of the notes so far, at most `_MOST_NOTES` of copies
_MOST_NOTES = 4  # of a line that copies several arrays, as in a function of the program
_sources = {}  # path of a module -> its source
# (module's path, return address) -> (file, line, whether the access is in the engine's own headers)
_lines = {}


def attach(library: ctypes.CDLL) -> None:
    """Let `take`, `follow` and `begin_with` call this runtime library: set their functions and the types of these."""
    global _take, _follow, _begin_with
    _take, _follow, _begin_with = library.hc_check_take, library.hc_follow, library.hc_begin_with
    _take.restype, _take.argtypes = ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]
    _follow.restype, _follow.argtypes = None, [ctypes.c_uint * 3, ctypes.c_int]
    _begin_with.restype, _begin_with.argtypes = None, [ctypes.c_uint64]


def follow(block: tuple[int, int, int] | None = None, warp: int = 0) -> None:
    """From the next launch on, record single requests of memory, which takes a few times as long as counting them.

    Parameters
    ----------
    block : tuple of int, optional
        `LaunchRecord.requests` gets all requests of a warp of this block, at most 50,000. Without a
        block, `LaunchRecord.sites` tell which warp made the worst request of each access.
    warp : int
        The warp's number in the block.

    Raises
    ------
    EngineError
        This process has not started the CPU engine with the tool ``profile`` of check mode.
    """
    if _follow is None or "profile" not in TOOLS:
        raise EngineError(
            "requests are seen in check mode alone: set HOSTCUDA_CHECK=profile, and launch or call "
            "hostcuda.ensure_context() first"
        )
    # -1: no single warp, but the worst request of each access
    _follow((ctypes.c_uint * 3)(*(block or (0, 0, 0))), -1 if block is None else warp)


def begin_with(block: int) -> None:
    """From the next launch on, run a given block of each grid first, and then those after it, in a circle.

    A right kernel gives the same results in any order of its blocks; this finds one that does not.
    `block` is counted along x, then y and z, modulo the grid's blocks. EngineError if this process
    is not in check mode.
    """
    if _begin_with is None:
        raise EngineError("blocks have an order in check mode alone: set HOSTCUDA_CHECK")
    _begin_with(block)


def take() -> None:
    """Take the records that the runtime has written since the last call: keep them for `launches`, and write them.

    They are written to the file that the environment variable HOSTCUDA_CHECK_OUT names.
    """
    if _take is None:  # the runtime library has not been loaded
        return
    buffer, text = ctypes.create_string_buffer(1 << 16), b""
    while count := _take(buffer, len(buffer)):
        text += buffer.raw[:count]
    for line in text.splitlines():
        raw = json.loads(line)
        if raw.get("note"):  # a copy that is legal, but worth a look
            file, number = _find_callers(raw)[0]
            _record_note("copy", f"{raw['copy']}: {raw['message']}", file, number)
            continue
        for note in raw.get("notes", ()):
            place = note["file"], note["line"]
            if note["pc"]:  # an address in the module's code: its place is (file, line)
                _locate(raw["module"], [note["pc"]])
                place = _lines[raw["module"], note["pc"]][:2]
            _record_note(note["kind"], note["message"], *place)
        record = _read_copy(raw) if "copy" in raw else _read_record(raw)
        _records.append(record)
        # index -1: a copy, which is left out of a profile's file, where each line is a launch
        if record.index >= 0 or "profile" not in TOOLS:
            _append_line("", vars(record))


def _append_line(suffix: str, row: dict) -> None:
    """Append a row as JSON to the file that HOSTCUDA_CHECK_OUT names, plus a suffix; do nothing if it is not set.

    Dataclasses in it become objects with their fields.
    """
    if out := os.environ.get("HOSTCUDA_CHECK_OUT"):
        with open(out + suffix, "a", encoding="utf-8") as file:
            file.write(json.dumps(row, default=vars) + "\n")


def _record_note(kind: str, message: str, file: str, line: int) -> None:
    """Record a note, unless its place has one of this kind: a loop does the same at each pass.

    A place has up to `_MOST_NOTES` notes of copies, if their messages differ.
    """
    messages = _noted.setdefault((kind, file, line), set())
    if message not in messages and len(messages) < (_MOST_NOTES if kind == "copy" else 1):
        messages.add(message)
        record_event("note", message, file=file, line=line)


def record_event(kind: str, message: str, **more: str | int | None) -> None:
    """Record an event that is no finding in a launch, such as a warning of the compiler or a refused call.

    `kind` is "compile error", "warnings", "refused" or "failed" (a call of the API), "handled" (such a
    call whose error the program has asked for) or "note". `more` are further fields, such as file and
    line.
    """
    _append_line(".events", {"kind": kind, "message": message, **more})


# The kind of the event of `interrupt_after`.
TIME_UP = "time is up"
_GRACE = 3  # seconds to write records


def interrupt_after(seconds: float) -> None:
    """Limit the time of this process: interrupt it after `seconds` as Ctrl-C does, and kill it 3 s later.

    An event, `TIME_UP`, is recorded. Call this after the compilation, where the time begins to count.
    """

    def stop() -> None:
        """Wait in a thread of its own: the program's code may never come back to Python."""
        time.sleep(seconds)
        record_event(TIME_UP, f"it was stopped after {seconds:.0f} s")
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(_GRACE)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=stop, daemon=True).start()


def _record_exception(kind: type, error: BaseException, trace: TracebackType | None) -> None:
    """Record an exception that ends the program, and print it as before: `sys.excepthook` in check mode."""
    what = {"CompileError": "compile error", "LaunchError": "failed"}.get(kind.__name__, "refused")
    record_event(
        what if kind.__module__ == errors.__name__ else "failed", f"{kind.__name__}: {error}"
    )
    _print_exception(kind, error, trace)


_print_exception = sys.excepthook
if TOOLS and "HOSTCUDA_CHECK_OUT" in os.environ:
    sys.excepthook = _record_exception


def _read_copy(raw: dict) -> LaunchRecord:
    """Return a record without a launch from the runtime's JSON: unset memory is copied, or memory used too early.

    The JSON: ``{"copy": "a copy", "module": "", "callers": [], "file": "a.py", "line": 3,
    "address": 64, ...}``
    """
    (file, line), *callers = _find_callers(raw)
    # "first" has the call that queued the other use; otherwise show a caller in another file, which
    # explains a helper.
    others = (
        _find_callers(raw["first"])[:1]
        if "first" in raw
        else [caller for caller in callers if caller[0] != file]
    )
    other = next(
        ({"file": file, "line": line, "thread": None, "op": ""} for file, line in others if file),
        None,
    )
    finding = Finding(
        raw.get("tool", "initcheck"),
        raw.get("kind", "uninitialized"),
        raw["copy"],
        file,
        line,
        None,
        None,
        other,
        raw["address"],
        raw["size"],
        None,
        1,
        raw["message"],
        "",
        raw.get("remedy", ""),
    )
    return LaunchRecord(-1, raw["copy"], (), (), 0, 0, 0, {}, findings=[finding])


def _find_callers(raw: dict) -> list[tuple[str | None, int | None]]:
    """Return (file, line) of each call in user code that a JSON record lists, innermost first, or else its place."""
    # A program in CUDA C++ has return addresses, "callers"; a Python program has a place, "file"
    # and "line".
    _locate(raw["module"], raw["callers"])
    places = [_lines[raw["module"], caller][:2] for caller in raw["callers"]]
    return [place for place in places if place[0]] or [(raw["file"] or None, raw["line"])]


def read_record(
    raw: dict,
    places: Sequence[tuple],
    source: str,
    parameters: Mapping[str, Mapping[int, tuple[str, str]]],
) -> LaunchRecord:
    """Return the record of a launch from `raw`, what the runtime in a browser has written about it.

    There, an access is named by its index in `places`: tuples (file, line, whether the access is in
    the engine's own headers). `source` and `parameters` are those of `add_module`.
    """
    _lines.update({(raw["module"], number): place for number, place in enumerate(places)})
    _sources[raw["module"]], _parameters[raw["module"]] = source, parameters
    return _read_record(raw)


def add_module(
    path: Path,
    source: str,
    options: list[str],
    include_dirs: list[Path],
    default_name: str = "",
    parameters: Mapping[str, Mapping[int, tuple[str, str]]] | None = None,
) -> None:
    """Record what the module in the file `path` was compiled from, so that messages can quote it and nvcc compile it.

    Sources without a name of their own share a `default_name`: from the second one on they get a
    number in the records. `parameters` maps a kernel's name to a dict: offset of a parameter -> its
    name, the type of a pointer's elements.
    """
    _sources[str(path)] = source
    if TOOLS:
        row = {
            "module": str(path),
            "source": source,
            "options": options,
            "include_dirs": [*map(str, include_dirs)],
        }
        _append_line(".modules", row)
        _parameters[str(path)] = parameters or {}
        # a source that was seen before keeps its number
        number = _unnamed.setdefault(source, len(_unnamed) + 1) if default_name else 1
        stem, dot, ending = default_name.rpartition(".")
        # its name in the source, and its name in the records
        _names[str(path)] = (
            default_name,
            default_name if number == 1 else f"{stem}-{number}{dot}{ending}",
        )


_parameters = {}  # module's path -> the `parameters` of `add_module`
_unnamed = {}  # source without a name of its own -> its number
_names = {}  # module's path -> (its source's name for the compiler, its name in the records)


def _rename_source(module: str, text: str | None) -> str | None:
    """Return a message about a module (its path) with the source's name in records instead of its compiler's name."""
    old, new = _names.get(module, ("", ""))
    return (
        re.sub(rf"(?<![\w/.-]){re.escape(old)}(?=$|:)", new, text) if text and old != new else text
    )


def launches() -> list[LaunchRecord]:
    """Return the `LaunchRecord`s of launches that have ended, in order.

    Synchronize first to get all of them.
    """
    take()
    return [record for record in _records if record.index >= 0]  # those of copies have -1


def _locate(module: str, addresses: Iterable[int]) -> None:
    """Find file and line of return addresses in a module (its path) with addr2line, and keep them in `_lines`."""
    missing = sorted({a for a in addresses if (module, a) not in _lines})
    if not missing:
        return
    out = ""
    if shutil.which("addr2line"):  # without it all lines are unknown
        # One byte less: the address of the call, which may be the last instruction of its line.
        command = ["addr2line", "-a", "-i", "-e", module, *(hex(a - 1) for a in missing)]
        out = toolchain.run(command)[1]
    # after each address "a.cu:12", a line per inlined function
    places = re.split(r"(?m)^0x[0-9a-f]+\n", out)[1:]
    for address, text in zip(missing, places or [""] * len(missing), strict=True):
        file, *rest = _parse_place(text)
        _lines[module, address] = (_rename_source(module, file), *rest)


def _parse_place(text: str) -> tuple[str | None, int | None, bool]:
    """Return (file, line, whether lines of the engine's headers are further in) of addr2line's text for an address.

    It is the innermost place outside of the engine's headers, or (None, None, True) if there is none.
    """
    in_header = False
    # addr2line's lines are "FILE:LINE (discriminator 2)", the innermost first
    for line in text.splitlines():
        file, _, number = line.split(" (discriminator")[0].rpartition(":")
        path = Path(file)
        # the text that the engine generates
        if toolchain.INCLUDE in path.parents or path.name == "kernel.cpp":
            in_header = True
        elif number.isdigit() and int(number):  # "?" or 0: not known
            return _name_file(path), int(number), in_header
    return None, None, True


def _name_file(path: Path) -> str:
    """Return a file's name as in the source: the compiler prepends the build folder (now gone) to a relative one."""
    return str(path) if path.is_file() else path.name


# what "units" are in each space
_UNITS = {"global": "sectors", "shared": "wavefronts", "constant": "wavefronts"}


@functools.cache
def _list_counters(space: str, op: str) -> list[Counter]:
    """Return the counters of accesses to a memory space, e.g. "global", with an operation, e.g. "ld"."""
    return [counter for counter in COUNTERS if counter.space == space and counter.op in ("", op)]


def _read_record(raw: dict) -> LaunchRecord:
    """Return a launch's record from the runtime's JSON; a "pc" there is an address in the module's file."""
    places = [
        finding[key]
        for finding in raw["findings"]
        for key in ("pc", "other_pc", "read_pc")
        if finding.get(key)
    ]
    callers = [place for entry in (raw, *raw["findings"]) for place in entry.get("callers", ())]
    _locate(
        raw["module"],
        places + callers + [access["pc"] for access in (*raw["sites"], *raw["requests"])],
    )
    # A lost update ("read_pc") counts only if the variable is read and written in one line.
    findings = [
        _build_finding(raw, finding)
        for finding in raw["findings"]
        if "read_pc" not in finding
        or _lines[raw["module"], finding["read_pc"]][:2] == _lines[raw["module"], finding["pc"]][:2]
    ]
    findings = [finding for finding in findings if not _may_discard(raw["module"], finding)]
    return LaunchRecord(  # in the order of its fields; `_sum_accesses` gives `counts` and `sites`
        raw["index"],
        raw["kernel"],
        tuple(raw["grid"]),
        tuple(raw["block"]),
        raw["shared"],
        raw["blocks_watched"],
        raw["blocks"],
        *_sum_accesses(raw),
        findings,
        _describe_error(raw),
        raw["module"],
        raw["unchecked"],
        raw["matrices"],
        raw["plays"],
        [
            {
                **dict(
                    zip(("file", "line"), _lines[raw["module"], request.pop("pc")], strict=False)
                ),
                **request,
            }
            for request in raw["requests"]
        ],
    )


def _sum_accesses(raw: dict) -> tuple[dict[str, int], list[dict]]:
    """Return the `counts` and the `sites` of a launch's JSON record, for which `_locate` has filled `_lines`.

    An access: ``{"pc": 87, "space": "global", "op": "ld", "size": 4, "requests": 2, "units": 8,
    "ideal": 1, ...}``
    """
    counts = {
        counter.metric: 0
        if counter.space
        else raw[counter.figure]  # 0: the accesses are added below
        for counter in COUNTERS
        if counter.space or counter.figure in raw
    }
    sites, choices = {}, _list_choices(raw)
    for access in raw["sites"]:
        file, line, in_header = _lines[raw["module"], access["pc"]]
        space, op = access["space"], access["op"]
        if space == "local" and (in_header or (file, line, op) in choices):
            continue  # on a GPU it is in registers; in_header: an exchange between lanes
        figures = access | {"extra": access["units"] - access["ideal"]}
        for counter in _list_counters(space, op):
            counts[counter.metric] += figures[counter.figure]
        figures_by_name = {"requests": access["requests"]}
        if space == "global":
            figures_by_name |= {name: access[name] for name in ("passes", "lines", "loaded")}
        if space in _UNITS:
            figures_by_name[_UNITS[space]] = access["units"]
        if _UNITS.get(space) == "wavefronts":
            figures_by_name |= {"conflicts": figures["extra"], "broadcast": access["broadcast"]}
        key = (file, line, space, op, access["size"])  # accesses that agree in these are one site
        site = sites.setdefault(
            key, dict(zip(("file", "line", "space", "op", "size"), key, strict=True))
        )
        for name, value in {**figures_by_name, "bytes": access["bytes"]}.items():
            site[name] = site.get(name, 0) + value
        if "worst" in access:  # after `follow`
            site["worst"] = max(
                site.get("worst", access["worst"]), access["worst"], key=itemgetter("units")
            )
    return counts, sorted(
        sites.values(), key=lambda s: (s["file"] or "", s["line"] or 0, s["space"], s["op"])
    )


def _describe_error(raw: dict) -> str:
    """Return why the launch of a JSON record was abandoned, with the line where it was stopped; "" if it was not."""
    error = raw["error"]
    if raw["callers"]:  # where the thread was that was stopped, and its callers
        file, line = find_place(raw["module"], raw["callers"])
        error += f" at {file}:{line}" if file else ""
        if raw["blocks_watched"] < raw["blocks"]:
            error += ". Check mode runs one block after the other: a block that waits for a later one never ends"
    return error


def find_place(module: str, callers: Sequence[int]) -> tuple[str | None, int | None]:
    """Return (file, line) of the innermost call in the user's source, or (None, None) if it is unknown.

    `callers` are the return addresses of the calls in the compiled code `module` (a path),
    innermost first.
    """
    return _find_callers({"module": module, "callers": callers, "file": None, "line": None})[0]


def _list_choices(raw: dict) -> set[tuple[str, int, str]]:
    """Return (file, line, operation) of each access that goes to a local variable in some lanes, elsewhere in others.

    The host's compiler generates such accesses for ``i < n ? x[i] : zero``, also in the copies of an
    unrolled loop in which all lanes select the variable. nvcc selects between the values instead. So
    the caller does not count the accesses of such a line to the variable. `raw` is a launch's JSON
    record, for whose addresses `_locate` has filled `_lines`.
    """
    spaces = {}  # (address, operation) -> the memory spaces that it accesses
    for site in raw["sites"]:
        spaces.setdefault((site["pc"], site["op"]), set()).add(site["space"])
    return {
        (*_lines[raw["module"], pc][:2], op)
        for (pc, op), names in spaces.items()
        if {"local"} < names
    }


def _may_discard(module: str, finding: Finding) -> bool:
    """Return whether a finding is a shuffle from an absent lane whose result a later condition may leave unused.

    `module` is the path of the kernel's module, whose source is read if the finding's file is not there.
    """
    if finding.kind != "absent lane" or not finding.line:
        return False
    path = Path(finding.file)
    text = path.read_text(errors="replace") if path.is_file() else _sources.get(module, "")
    # (file, line) -> position
    starts = {place: start for place, start, _ in bounds.list_lines(text, finding.file)}
    # from the finding's line on
    code = Scan(text[starts.get((finding.file, finding.line), len(text)) :]).masked
    # "v = __shfl_down_sync(m, v, 1);", maybe after other statements of that line
    setting = re.match(
        r"(?:(?:(?!__shfl)[^\n])*[;{}])?[^;{}]*?\b(\w+)\s*=\s*(?:\(\w+\)\s*)?__shfl\w*\s*\([^;]*;",
        code,
    )
    use = setting and re.compile(rf"\b{setting[1]}\b").search(code, setting.end())
    # A condition between that and the first use of the variable may prevent the use.
    return bool(use) and bool(
        re.search(r"\b(?:if|while)\b|\?|&&|\|\|", code[setting.end() : use.start()])
    )


def _build_finding(raw: dict, raw_finding: dict) -> Finding:
    """Return one finding of the runtime's JSON record `raw` of a launch, with lines and the kernel's own names."""
    if "file" in raw_finding:  # a barrier or a shuffle, which is compiled with its own place
        file, line = (
            _rename_source(raw["module"], _name_file(Path(raw_finding["file"]))),
            raw_finding["line"],
        )
    elif "callers" in raw_finding:  # a fault that ended the launch
        file, line = find_place(raw["module"], raw_finding["callers"])
    else:  # an access; 0: the kernel may have been left from a library
        file, line = (
            _lines[raw["module"], raw_finding["pc"]][:2] if raw_finding["pc"] else (None, None)
        )
    other, op, other_op = None, raw_finding.get("op", ""), raw_finding.get("other_op")
    if "other_pc" in raw_finding:
        other_file, other_line, _ = _lines[raw["module"], raw_finding["other_pc"]]
        other = {
            "file": other_file,
            "line": other_line,
            "thread": tuple(raw_finding["other_thread"]),
            "op": other_op,
        }
    message, buffer = (
        _rename_source(raw["module"], raw_finding["message"]),
        raw_finding.get("buffer"),
    )
    source = _sources.get(raw["module"], "")
    message = SHARED_PLACE.sub(lambda place: format_shared(source, place), message)
    # "argument": the offset of the launch's argument that points into the buffer, "argument_at"
    # bytes after its begin.
    if (
        parameter := _parameters.get(raw["module"], {})
        .get(raw["kernel"], {})
        .get(raw_finding.get("argument"))
    ):
        name, start = parameter[0], raw_finding["argument_at"]
        message = PLACE.sub(
            lambda place: format_element(*place.groups(), *parameter, start), message
        )
        message = message.replace(" an allocation of", f" {name}, an allocation of", 1)
        message = message.replace(": a parameter was", f": the parameter {name} was", 1)
        buffer = buffer and {**buffer, "name": name}
    remedy = raw_finding.get("remedy", "")
    # x[i] = x[i + 1]
    if other and (other_file, other_line) == (file, line) and {op, other_op} == {"ld", "st"}:
        remedy = remedy.replace(
            "put a barrier", "read the element into a variable, put a barrier", 1
        ).replace(
            "between the two accesses", "and write then, with another one before the next read", 1
        )
    return Finding(
        raw_finding["tool"],
        raw_finding["kind"],
        raw["kernel"],
        file,
        line,
        tuple(raw_finding["block"]),
        tuple(raw_finding["thread"]),
        other,
        raw_finding["address"],
        raw_finding["size"],
        buffer,
        raw_finding["count"],
        message,
        op,
        remedy,
    )
