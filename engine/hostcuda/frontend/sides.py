"""Host and device: which code may call which, and what depends on ``__CUDA_ARCH__``.

nvcc compiles a source twice, for the host without ``__CUDA_ARCH__``. Here both are one text:
`merge_sides` puts the two together, and `find_side_errors` finds the calls that nvcc refuses, from
the compiler's call graph.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from hostcuda.frontend.scan import Scan, find_function_name, read_scope
from hostcuda.frontend.tokens import apply_edits
from hostcuda.host.toolchain import INCLUDE

# followed by a file: g++ writes the calls before it moves any
LIST_CALLS = "-fdump-ipa-visibility="
_DEVICE_SIDES = ({"kernel"}, {"device"})
_CALLING = 'calling a __{}__ function("{{0}}") from a __{{1}}__ function("{{2}}") is not allowed'
_NOT_MERGED = (
    "cannot be compiled for host and device at once: ask with #ifdef __CUDA_ARCH__ within functions"
)
# The head of a class; it is not a template's <class T>.
_CLASS = re.compile(r"(?<![<,])\s*\b(?:class|struct|union|enum)\b(?!\s*\w+\s*[,>])[^()]*$")


class _Function(NamedTuple):
    """A function that a text defines, with the sides on which it may run."""

    name: str  # without namespaces
    sides: frozenset  # of "host" and "device", where it may run; or only "kernel"
    start: int  # positions: of its declaration and of its braces
    open: int
    close: int


def _find_functions(scan: Scan):
    """Yield a `_Function` for each outermost function that a text defines; a method may have a function's name."""
    after = 0
    for open_, close in sorted(scan.closing.items()):
        start = scan.declaration_start(open_)
        head = scan.code[start:open_]
        if open_ < after or read_scope(head) is not None or _CLASS.search(head):
            continue
        after = close
        if "(" in head:
            sides = set(re.findall(r"__(host|device)__", head)) or {"host"}
            sides |= {"host", "device"} if "constexpr" in head else set()  # nvcc lets both call it
            sides = {"kernel"} if "__global__" in head else sides
            yield _Function(
                find_function_name(scan.code, start), frozenset(sides), start, open_, close
            )


def merge_sides(device: str, host: str) -> str:
    """Merge the preprocessor's texts of a source with ``__CUDA_ARCH__`` (`device`) and without it (`host`) into one.

    A function for both sides whose texts differ gets an ``if`` that asks where it runs. Raises
    ValueError with a place and a sentence if anything else differs.
    """
    if device == host:
        return device
    scans = device_scan, host_scan = Scan(device), Scan(host)
    # code that #if leaves out of the source keeps its lines, so the headers differ
    if device.count("\n") != host.count("\n"):
        place = _format_place(device_scan, 0)
        raise ValueError(f"{place}: error: a header that depends on __CUDA_ARCH__ {_NOT_MERGED}")
    # A function is the same on both sides if its "{" is in the same line. For each side a dict: the
    # number of that line -> the function.
    functions = [
        {_count_lines(scan, function.open): function for function in _find_functions(scan)}
        for scan in scans
    ]
    # the device's text, with the host's lines where it has none
    scan = Scan("\n".join(_merge_lines(scans, functions)))
    edits = []
    for function in _find_functions(scan):
        # the same function in the host's text
        counterpart = functions[1].get(_count_lines(scan, function.open))
        body = scan.text[function.open : function.close + 1]
        host_body = counterpart and host_scan.text[counterpart.open : counterpart.close + 1]
        # split: spaces do not matter
        if host_body and host_body.split() != body.split() and "host" in function.sides:
            if "device" in function.sides:
                line_marker = scan.marker(function.open)  # both bodies begin in this line
                host_body = f"{{ if (HOSTCUDA_IN_KERNEL) {body}{line_marker}else {host_body} }}"
            # a function of the host alone gets the host's body
            edits.append(
                (function.open, function.close + 1, host_body + scan.marker(function.close + 1))
            )
    return apply_edits(scan.text, edits)


def _merge_lines(scans: tuple[Scan, Scan], functions: list[dict[int, _Function]]):
    """Return the list of the device's lines, with the host's where the device's are empty.

    ValueError, with a place and a sentence, for other differences.
    `scans` are those of device and host, `functions` two dicts: line of its "{" -> `_Function`. The
    bodies of functions that both sides have may differ, and so may functions that are not the
    host's.
    """
    device_scan, host_scan = scans
    lines_of_both = functions[0].keys() & functions[1].keys()
    # in the host's text: of functions that are not the host's, with their heads
    lines_of_device = {
        n
        for function in functions[1].values()
        if "host" not in function.sides
        for n in range(
            _count_lines(host_scan, function.open)
            - host_scan.code[function.start : function.open].lstrip().count("\n"),
            1 + _count_lines(host_scan, function.close),
        )
    }
    without_bodies = [
        apply_edits(
            scan.text,
            [
                (f.open, f.close, "\n" * scan.text.count("\n", f.open, f.close))
                for f in map(by_line.get, lines_of_both)
            ],
        )
        for scan, by_line in zip(scans, functions, strict=True)
    ]
    lines, columns = (
        [],
        [text.split("\n") for text in (device_scan.text, host_scan.text, *without_bodies)],
    )
    for n, (device_line, host_line, *outside) in enumerate(zip(*columns, strict=True)):
        if len({" ".join(text.split()) for text in outside}) > 1 and n not in lines_of_device:
            if device_line.strip() and host_line.strip():
                place = _format_place(device_scan, len("\n".join([*lines, ""])))  # of this line
                raise ValueError(
                    f"{place}: error: a declaration that depends on __CUDA_ARCH__ {_NOT_MERGED}"
                )
            device_line = device_line if device_line.strip() else host_line
        lines.append(device_line)
    return lines


def _count_lines(scan: Scan, at: int):
    """Return the number of newlines before position `at`: the index of its line."""
    return scan.text.count("\n", 0, at)


def _format_place(scan: Scan, at: int):
    """Return "file.cu:12", the place of position `at`, for a message."""
    file, line = scan.place(at)
    return f"{file or 'kernel.cu'}:{line}"


# An entry of g++'s call graph: the line "_Z1fv/1 (void f())", facts such as "  Type: function
# definition analyzed" and
# "  References: n/0 (read) m/4 (addr)", and then "  Calls: _Z1gi/2 _ZN1n1hEv/7".
_NODE = re.compile(
    r"^(\S+)/\d+ \((.*)\)(?: @0x\w+)?\n((?:  (?!Calls:).*\n)*)  Calls: (.*)$", re.MULTILINE
)
_DECLARED = re.compile(r"\b(\w+)\s*(?:<.*>)?\s*\(")  # the name in void f<int>(int)
_OF_HOST = re.compile(
    r"s?rand|rand_r|s?random|[dlm]rand48|time|puts|putchar|f?puts|v?s?n?f?printf|f?scanf|f(?:open|close|read|write|flush|gets)|"
    r"getenv|system|str(?:len|n?cpy|n?cmp|n?cat|dup|str|chr|to\w+)|ato[fil]l?|qsort|bsearch|"
    r"gettimeofday|clock_gettime|u?sleep"
)
_OF_CLASSES = re.compile(
    r"std::(?:__cxx11::)?(basic_string|vector|map|set|unordered_\w+|list|deque|basic_ostream|function)\b"
)
_OF_DEVICE = re.compile(
    r"__sync(?:threads\w*|warp)|__(?:shfl|ballot|any|all|match|reduce)\w*_sync|__threadfence\w*|__ldg|__popc(?:ll)?|"
    r"__clz(?:ll)?|__ffs(?:ll)?|__brev(?:ll)?|atomic[A-Z]\w*|__float2u?int_\w\w|__(?:exp|log|sin|cos|pow)f"
)


def find_side_errors(
    text: str, call_graph: str, program: bool
) -> Iterator[tuple[tuple[str, int], str]]:
    """Find where host code uses functions or variables of the device, or device code those of the host.

    Yields ((file, line), "error: ..." or "warning: ..."). `call_graph` is the text that the
    compiler wrote for the option `LIST_CALLS`. `program`: whether the host code runs, too.
    """
    scan = Scan(text)
    functions = [
        function for function in _find_functions(scan) if scan.scope(function.open) is not None
    ]
    yield from _find_exceptions(scan, functions)
    sides = _collect_sides(scan, functions)  # function's name -> {"host"}, {"device"} or both
    # The compiler's call graph: symbol "_Z1fv" -> (plain name "f", as shown "void f()", lines with facts
    # about it, its calls "_Z1gi/2 _ZN1n1hEv/7", each a symbol and a number).
    nodes = {
        node[1]: (_read_name(node[2]), node[2], *node.group(3, 4))
        for node in _NODE.finditer(call_graph)
    }
    # "_GLOBAL__N_1" is the unnamed namespace in symbols
    namespaces = {scan.scope(function.open).rpartition("::")[2] for function in functions} - {
        ""
    } | {"_GLOBAL__N_1"}

    def is_of_source(symbol: str, name: str):
        """Return whether a symbol may be the source's function `name`: no method, none of the standard library."""
        # the symbol of n::f has "1n1f", with the lengths of both names
        nested = any(f"{len(space)}{space}{len(name)}{name}" in symbol for space in namespaces)
        return nested or symbol == name or re.match(r"_ZL?\d", symbol)  # _Z1fv is in no namespace

    for caller_symbol, (name, _, facts, calls) in nodes.items():
        callers = [function for function in functions if function.name == name]
        if len(callers) != 1 or not is_of_source(caller_symbol, name):
            continue  # overloads may differ in their sides
        (caller,) = callers
        yield from _check_variables(scan, caller, facts, program)
        for symbol in re.findall(r"(\S+)/\d+", calls):
            called, shown, facts_of_called, _ = nodes.get(symbol, (symbol, symbol, "", ""))
            # A function of the C library may have a kernel's name: it has no C++ symbol, and no
            # definition here.
            is_own = (symbol != called or "definition" in facts_of_called) and is_of_source(
                symbol, called
            )
            sentence = _judge_call(
                caller.sides, called, shown, symbol, sides.get(called) if is_own else None, program
            )
            if sentence:
                yield _locate_error(scan, caller, called, shown, sentence)


def _locate_error(scan: Scan, caller: _Function, called: str, shown: str, sentence: str):
    """Return ((file, line), "error: ...") for a wrong call in the `_Function` `caller`.

    `called` is the plain name, `shown` the compiler's. `sentence` is a format of what is called,
    the caller's side and the caller's name. The place is that of the caller's "{" if its text does
    not show the call.
    """
    class_ = _OF_CLASSES.search(shown)
    word = class_[1].removeprefix("basic_") if class_ else called
    use = re.compile(rf"\b{re.escape(word)}\b").search(scan.code, caller.open, caller.close)
    side = (
        "global" if "kernel" in caller.sides else "device" if "device" in caller.sides else "host"
    )
    place = scan.place(use.start() if use else caller.open)
    return place, "error: " + sentence.format(
        f"std::{word}" if class_ else called, side, caller.name
    )


def _find_exceptions(scan: Scan, functions: list[_Function]):
    """Yield ((file, line), "error: ...") for each `_Function` of the device that throws or catches."""
    for function in functions:
        exception = re.compile(r"\b(?:throw|try|catch)\b").search(
            scan.code, function.open, function.close
        )
        on_device = re.search(r"__(?:device|global)__", scan.code[function.start : function.open])
        # With that macro the body is one that `merge_sides` has made, and the host's part may
        # throw.
        if (
            exception
            and on_device
            and "HOSTCUDA_IN_KERNEL" not in scan.code[function.open : function.close]
        ):
            yield (
                scan.place(exception.start()),
                "error: device code does not support exception handling",
            )


def _collect_sides(scan: Scan, functions: list[_Function]):
    """Return a dict: name -> frozenset of the sides that all definitions and declarations of such a function name."""
    sides = defaultdict(frozenset)
    for function in functions:
        sides[function.name] |= function.sides
    for prototype in re.finditer(r"(__(?:host|device)__[^;{}()]*?)\b(\w+)\s*\([^{}]*?;", scan.code):
        sides[prototype[2]] |= {*re.findall(r"__(host|device)__", prototype[1])}
    return sides


def _check_variables(scan: Scan, caller: _Function, facts: str, program: bool):
    """Yield ((file, line), message) where a function uses variables of the other side.

    Device code is always looked at, host code only of a `program`. `facts` is the caller's entry in the
    call graph: lines such as "References: n/3 (read) m/4 (addr)".
    """
    # a static n is _ZL1n/3
    references = re.findall(
        r"(\S+)/\d+ \((\w+)\)", facts[facts.find("References:") :].partition("\n")[0]
    )
    for variable, how in sorted(
        {(re.sub(r"^_ZL\d+", "", symbol), how) for symbol, how in references}
    ):
        declaration = _find_declaration(scan, variable)
        if declaration is None or re.search(r"\bconst(?:expr)?\b|[()]", declaration):
            continue
        words = set(re.findall(r"__(\w+)__", declaration))
        in_device_memory = words & {"device", "constant"} if "managed" not in words else ()
        if (
            caller.sides in _DEVICE_SIDES
            and not words
            and (place := _find_use(scan, variable, caller, "addr"))
        ):
            yield (
                place,
                f'error: identifier "{variable}" is undefined in device code: {_OF_HOSTS_MEMORY}',
            )
        elif caller.sides == {"host"} and program and how in _COPY_INSTEAD and in_device_memory:
            place = _find_use(scan, variable, caller, how) or scan.place(caller.open)
            yield place, "warning: " + _COPY_INSTEAD[how].format(min(in_device_memory), variable)


_OF_HOSTS_MEMORY = (
    "it is a variable of the host: write __device__ before it, or pass its value to the kernel"
)
_COPY_INSTEAD = {
    "read": 'a __{}__ variable "{}" cannot be directly read in a host function: copy it with cudaMemcpyFromSymbol',
    "write": 'a __{}__ variable "{}" cannot be directly written in a host function: copy to it with cudaMemcpyToSymbol',
}
_ATTRIBUTE = r"__(?:attribute|align)__\s*\((?:[^()]|\([^()]*\))*\)"
# What precedes a name of which only the address or the size is used; what follows one that is
# written.
_UNREAD = re.compile(r"(?:\b(?:sizeof|decltype)\b\s*\(?|(?<!&)&|Symbol\w*\s*\([^;]*)\s*$")
_ASSIGNS = re.compile(
    r"\s*(?:\[[^]]*\]|\.\s*\w+)*\s*(?:(?P<operator>(?:[-+*/%&|^]|<<|>>)?)=(?!=)|\+\+|--)"
)


def _find_declaration(scan: Scan, variable: str):
    """Return the text before a variable's name in its declaration outside of functions; None if that is not found."""
    for match in re.finditer(rf"\b{re.escape(variable)}\b", scan.code):
        if scan.scope(match.start()) is not None:
            start = scan.declaration_start(match.start())
            # "struct { ... } v": the declaration begins with the class that it defines
            for open_, close in scan.closing.items():
                head = scan.declaration_start(open_)
                if close + 1 == start and _CLASS.search(scan.code[head:open_]):
                    start = head
            return re.sub(
                rf"\{{.*\}}|{_ATTRIBUTE}", "", scan.code[start : match.start()], flags=re.DOTALL
            )
    return None


def _find_use(scan: Scan, variable: str, function: _Function, how: str):
    """Return (file, line) where a `_Function` most likely uses a variable, or None; `how`: "read", "write", "addr"."""

    def rate(use):
        """Return how surely a match of the name is a use of the kind `how`: 0 (not at all) to 4."""
        before, assigns = (
            scan.code[function.open : use.start()],
            _ASSIGNS.match(scan.code, use.end()),
        )
        changes = assigns["operator"] != "" if assigns else before.rstrip().endswith(("++", "--"))
        is_such_use = {"addr": True, "write": assigns or changes, "read": changes or not assigns}[
            how
        ]
        return bool(is_such_use and not _UNREAD.search(before)) * (
            1 + 2 * changes + (scan.code[use.end()] in "[.")
        )

    uses = re.compile(rf"\b{re.escape(variable)}\b").finditer(
        scan.code, function.open, function.close
    )
    best = max(uses, key=rate, default=None)
    return best and scan.place(best.start())


@lru_cache(1)
def _read_headers():
    """Return the text of all headers of the engine."""
    return "\n".join(path.read_text() for path in INCLUDE.rglob("*.h"))


def _judge_call(
    caller: frozenset, called: str, shown: str, symbol: str, own: frozenset | None, program: bool
):
    """Return what is wrong with a call, as a format for `_locate_error`, or None.

    `caller` are the caller's sides, and `own` those of the source's functions with the name
    `called`, or None if it has none. `shown` is that name as the compiler shows it, `symbol` the
    linker's; `program`: whether host code runs.
    """
    if caller in _DEVICE_SIDES:
        in_header = rf"\b{called}\s*\("  # such a function of the engine's headers may be called
        # in no class or namespace: the header's is not indented, or in a macro
        if re.match(r"_ZL?\d", symbol):
            in_header = rf"(?m)^\S.*{in_header}|{in_header}.*\\$"
        # else the call may be of the header's
        if own == {"host"} and not re.search(in_header, _read_headers()):
            return _CALLING.format("host") + ": write __device__ before it, too"
        if not own and (
            _OF_CLASSES.search(shown) or (symbol == called and _OF_HOST.fullmatch(called))
        ):
            return _CALLING.format("host")
    if program and caller == {"host"}:
        if own == {"kernel"}:
            return "a __global__ function call must be configured: {0}<<<blocks, threads>>>(...)"
        if own == {"device"} or (not own and _OF_DEVICE.fullmatch(called)):
            return _CALLING.format("device")
    return None


def _read_name(shown: str):
    """Return the plain name in the signature of a function, as g++ shows it: "f" of ``int n::f(T) [with T = int]``."""
    # of a member of a local class, "f()::C::m(int)", only what follows the function around it
    plain = shown.partition(" [with ")[0].rpartition(")::")[2]
    while (inner := re.sub(r"<[^<>]*>", "", plain)) != plain:
        plain = inner
    return match[1] if (match := _DECLARED.search(plain)) else plain
