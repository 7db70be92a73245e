"""Find warp-synchronous code, which relies on the lanes of a warp running in step, as up to compute capability 6.

The reductions of that time end with lines such as ``s[i] += s[i + 16]; s[i] += s[i + 8];`` on
``volatile`` shared memory, without a barrier. Since compute capability 7.0 the lanes of a warp need
not run in step, and CUDA asks for ``__syncwarp()``. On the hardware such a kernel mostly still
works. On this engine a lane runs to the next barrier before the lane after it, so the result is
wrong. Accesses that are not ``volatile`` are left to `hostcuda.sanitize`.
"""

import re

from hostcuda.frontend.scan import Scan
from hostcuda.frontend.tokens import find_statement_end, skip_bracket

# volatile float *name = init, or volatile float name[...
_DECLARATION = re.compile(
    r"\bvolatile\b(?P<type>[^;,(){}=\[]*?)(?P<name>[A-Za-z_]\w*)\s*(?P<next>\[|[=;,)])(?P<init>[^;]*)"
)
_SHARED = re.compile(r"\b__shared__\b[^;()]*?([A-Za-z_]\w*)\s*\[")
_SYNCHRONIZES = re.compile(r"\w*(?:sync|barrier|shfl|ballot|fence)\w*\s*\(", re.IGNORECASE)
# What makes an element the target of a store; `only`: it is not read.
_STORES = re.compile(r"\s*(?:(?P<only>=(?!=))|(?:[-+*/%&|^]|<<|>>)=|\+\+|--)")
_LOOP = re.compile(r"\b(?:for|while|do)\b")
_OPENING = re.compile(r"\s*\[")


def find_unsynchronized(text: str) -> list[tuple[str, int, str, str]]:
    """Return a list of (file, line, read, written): reads of ``volatile`` shared memory that lack a ``__syncwarp``.

    Such a read, as "s[i+16]", comes after a write at another index in the same function or loop,
    with nothing between that synchronizes: the lanes of a warp need not run in step, so that the
    read may come first. The list has the first one of each array in each function.
    """
    if "volatile" not in text:
        return []
    scan = Scan(text)
    shared = set(_SHARED.findall(scan.code))
    reads = []
    for start, end in scan.closing.items():
        if scan.scope(start) is None or scan.scope(start + 1) is not None:
            # braces within a function (the scope before them is None), or those of a namespace
            continue
        head = scan.declaration_start(start)
        if not scan.on_device(start + 1):
            continue  # the host has no warps
        # its parameters, in the head, point to global memory
        is_kernel = "__global__" in scan.code[head:start]
        for name in _find_volatile_names(
            scan.code[start if is_kernel else head : end], shared, is_kernel
        ):
            if read := _find_unsafe_read(scan.code, name, start, end):
                # the read's position becomes its file and line
                reads.append((*scan.place(read[0]), *read[1:]))
    return sorted(reads)


def _find_volatile_names(code: str, shared: set[str], is_kernel: bool):
    """Return the names of volatile arrays and pointers declared in `code` that may be shared memory, in their order.

    `shared` are the names of all ``__shared__`` arrays, and `is_kernel` says whether `code` is a kernel's
    body. The names are the keys of a dict.
    """
    names = {}  # a dict, for the order
    for match in _DECLARATION.finditer(code):
        is_pointer = "*" in match["type"] and match["next"] != "["
        # A kernel's own pointers are to global memory, unless they are set to a shared array.
        may_be_shared = not is_kernel or set(re.findall(r"\w+", match["init"])) & shared
        if match["name"] in shared or (is_pointer and may_be_shared):
            names[match["name"]] = None
    return names


def _find_unsafe_read(code: str, name: str, start: int, end: int):
    """Return (position, read, written) for the first unsafe read of the array `name` in code[start:end], or None."""
    events = sorted(_find_events(code, name, start, end))
    loops = (loop.start() for loop in _LOOP.finditer(code, start, end))
    # The function once, and each loop twice: a read may need a write of the round before.
    for first, last, repeats in (
        (start, end, 1),
        *((loop, find_statement_end(code, loop), 2) for loop in loops),
    ):
        written = []  # the indices since the last synchronization
        for at, kind, index in [event for event in events if first <= event[0] < last] * repeats:
            if kind == "sync":
                written = []
            elif kind == "write":
                written.append(index)
            elif different_writes := [other for other in written if other != index]:
                return at, name + index, name + different_writes[-1]
    return None


def _find_events(code: str, name: str, start: int, end: int):
    """Yield (position, kind, index) for the array `name`; a statement writes at its end.

    The kind is "sync", "read" or "write".
    """
    for match in _SYNCHRONIZES.finditer(code, start, end):
        yield match.start(), "sync", ""
    for match in re.compile(rf"\b{name}\s*(?=\[)").finditer(code, start, end):
        at = match.end()
        while brackets := _OPENING.match(code, at):
            at = skip_bracket(code, brackets.end() - 1)
        index = "".join(code[match.end() : at].split())
        if "volatile" in re.split(r"[;{}]", code[start : match.start()])[-1]:
            continue  # its declaration
        stores = _STORES.match(code, at)
        if stores:
            yield code.find(";", at), "write", index
        if not stores or not stores["only"]:
            yield match.start(), "read", index
