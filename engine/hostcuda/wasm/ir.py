"""Check mode for WebAssembly: what `hostcuda.check.mode` does with assembler text, done with LLVM's text.

clang has put calls before each access and into each block. WebAssembly has no return addresses, so
before each of these calls its number is stored in the runtime's variable ``hostcuda_site``. The
numbers follow the control flow (`hostcuda.check.instrument.order_blocks`), and a list holds the
source line of each. A table of the module's variables tells the runtime their names and memory
spaces; behind each is a red zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator

from hostcuda.check.instrument import Block, order_blocks

# as in hostcuda.check.records: file, line, whether it is inside a header
Place = tuple[str | None, int | None, bool]

_NAME = r'@("[^"]+"|[\w.$-]+)'
_LABEL = re.compile(r'("[^"]+"|[\w.$-]+):')
_TARGET = re.compile(r'label %("[^"]+"|[\w.$-]+)')
_CALL = re.compile(
    rf"\s+(?:%\S+ = )?(?:(?:tail|musttail|notail) )?(?:call|invoke) [^@]*{_NAME}\((.*)"
)
_HOOK = re.compile(
    r"__tsan_(?!init|func_).*|__sanitizer_cov_trace_pc|hostcuda_(?:atomic_begin|reads|writes)|"
    r"__ubsan_handle_.*|_ZN8hostcuda4meetE.*|__wrap_.*"
)
_OWN = re.compile(
    r"ptr (?:nonnull )?(?:[^,]*\()?@(?:threadIdx|blockIdx|blockDim|gridDim|hostcuda_\w+)\b[^,]*\)"
)
_OPERAND = re.compile(r'%"[^"]+"|%[\w.$-]+')
_ACCESSED = re.compile(rf"@__tsan_\w+\(ptr [^,)]*?({_OPERAND.pattern})")
_VALUE = re.compile(rf"\s+({_OPERAND.pattern}) = ")
_ONE_ACCESS = re.compile(r"__tsan_(?:volatile_)?(?:read|write)\d+$")
_WRAPPED = re.compile(
    r"@(malloc|free|_Znwm|_Znam|_ZdlPv|_ZdaPv|_ZdlPvm|_ZdaPvm|abort|exit|_exit|_Exit|quick_exit|_ZSt9terminatev)(?=\()"
)
_DEBUG = re.compile(r"!dbg !(\d+)")
_NODE = re.compile(
    r"!(\d+) = (?:distinct )?!(?:DILocation|DISubprogram|DILexicalBlock\w*|DIFile)\((.*)\)$"
)
_FIELD = re.compile(r'\b(line|scope|inlinedAt|file|filename): (?:!(\d+)|"([^"]*)"|(\d+))')
_GLOBAL = re.compile(rf"{_NAME} = (.*?)\b(global|constant) (.*)$")
_RED_ZONE = 256  # bytes; a multiple of 128, so that variables keep their banks
# enum Space in runtime/check.h
_GLOBAL_SPACE, _SHARED_SPACE, _CONSTANT_SPACE, _UNWATCHED_SPACE = (0, 1, 2, 4)


def prepare(text: str, own: Callable[[str], bool]) -> tuple[str, list[Place]]:
    """Add a number to each memory access in LLVM's text of a module, so that check mode can tell its line.

    Returns the changed text, and a list: the place (file, line) of each number; number 0 is an
    unknown place. `own(name)` says whether a file is the engine's own. An access that clang has
    moved out of a loop has no line: it gets that of another access through the same pointer, or of
    the first use of what it loads. The text also gets what else check mode needs: unused bytes behind
    each variable, by which it finds overruns, and a table of the variables.
    """
    # calls of malloc, exit and the like go to the engine's own functions, "__wrap_malloc"
    lines = _WRAPPED.sub(r"@__wrap_\1", text).split("\n")
    # (file, line, whether the file is the engine's own); the first one is the unknown place
    places: list[Place] = [(None, None, True)]
    place = _make_locator(lines, own)
    by_pointer = {}  # (function, pointer) -> the place of the first access through it
    moved = {}  # line's index of an access without a place -> its number, (function, pointer)
    for block in order_blocks(_read_blocks(lines)):
        for at in block.pieces:  # the indices of lines that call check mode for an access
            debug, accessed = _DEBUG.search(lines[at]), _ACCESSED.search(lines[at])
            found = place(debug[1]) if debug else (None, None, True)
            if accessed and found[1]:
                by_pointer.setdefault((block.function, accessed[1]), found)
            elif accessed:
                moved[at] = len(places), (block.function, accessed[1])
            # before the call, the access's number goes into the variable in which check mode finds it
            lines[at] = f"  store i32 {len(places)}, ptr @hostcuda_site, align 4\n{lines[at]}"
            places.append(found)
    uses = _find_uses(lines, moved, place) if moved else {}
    for at, (number, access) in moved.items():
        places[number] = by_pointer.get(access) or uses.get(at) or places[number]
    return "\n".join([*_add_red_zones(lines), *_list_tables(lines, len(places)), ""]), places


def _read_blocks(lines: list[str]) -> list[Block]:
    """Return the blocks of LLVM's text in its order; calls of check mode for no memory are removed from `lines`.

    Of a block, `pieces` are the indices of its lines that call check mode, `calls` the names of other
    functions that it calls, and `next` the blocks that it may jump to: at first their (function,
    label), since a label may come later.
    """
    blocks: list[Block] = []
    labelled = {}  # (function, label) -> its block
    block, function = None, ""  # those that are being read
    is_fresh = False  # whether the line before began a function, whose first block may get a label
    for number, line in enumerate(lines):
        if line.startswith("define "):
            function = re.search(_NAME + r"\(", line)[1].strip('"')
            block = Block(function)
            blocks.append(block)
            is_fresh = True
            continue
        elif line == "}":
            function, block = "", None
        elif not function:
            continue
        elif label := _LABEL.match(line):
            if not is_fresh:
                block = Block(function)
                blocks.append(block)
            labelled[function, label[1].strip('"')] = block
        elif call := _CALL.match(line):
            name = call[1].strip('"')
            if _HOOK.fullmatch(name):
                if _ONE_ACCESS.match(name) and _OWN.match(call[2]):
                    # remove the call: an index of the thread, such as threadIdx, is no memory
                    lines[number] = ""
                else:
                    block.pieces.append(number)
            elif not name.startswith("llvm."):
                block.calls.append(name)
        # A jump, a row of a switch ("    i32 1, label %2"), or the second line of an invoke.
        if function and line.startswith(
            ("  br ", "  switch ", "  indirectbr ", "    i", "          to label")
        ):
            block.next += [(function, target.strip('"')) for target in _TARGET.findall(line)]
        is_fresh = False
    for block in blocks:
        block.next = [labelled[to] for to in block.next if to in labelled]
    return blocks


def _find_uses(
    lines: list[str], loads: Container[int], place: Callable[[str], Place]
) -> dict[int, Place]:
    """Map the lines of loads, indices of their hooks, to the places where what they load is first used.

    `place` is that of `_make_locator`. A load is left out if no use of it has a line.
    """
    uses: dict[int, Place] = {}
    waiting: dict[str, set[int]] = {}  # a value -> the loads that it comes from
    for at, line in enumerate(lines):
        value = _VALUE.match(line)
        if line.startswith("define "):
            waiting = {}
        elif at - 1 in loads and value:
            waiting[value[1]] = {at - 1}
            continue
        used = waiting and {name for name in _OPERAND.findall(line) if name in waiting}
        if not used:
            continue
        debug = _DEBUG.search(line)
        found = place(debug[1]) if debug else (None, None, True)
        for load in set().union(*(waiting[name] for name in used)):
            if found[1]:
                uses.setdefault(load, found)
            elif value:  # such as a phi
                waiting.setdefault(value[1], set()).add(load)
    return uses


def _make_locator(lines: list[str], own: Callable[[str], bool]) -> Callable[[str], Place]:
    """Return a function that maps a debug location, "12" of ``!dbg !12``, to its innermost place in the user's files.

    `own(name)` says whether a file is the engine's own.
    """
    nodes = {}
    for line in reversed(lines):
        if node := _NODE.match(line):
            nodes[node[1]] = {
                name: link or word or value for name, link, word, value in _FIELD.findall(node[2])
            }
        elif line.startswith("}"):
            break

    def find_file(scope):
        """Return the file of a scope's number, from the nearest scope around it that names one, or ""."""
        while scope in nodes:
            if "file" in nodes[scope]:
                return nodes[nodes[scope]["file"]].get("filename", "")
            scope = nodes[scope].get("scope")
        return ""

    def place(number):
        """Return (file, line, whether the access is in the engine's code, called there) or (None, None, True)."""
        inside = False
        while number in nodes:
            node = nodes[number]
            file, line = find_file(node["scope"]), int(node.get("line", 0))
            if own(file):
                inside = True
            elif line:
                return file.rpartition("/")[2], line, inside
            number = node.get("inlinedAt")
        return None, None, True

    return place


# ---------------------------------------------------------------------------------------- Variables
def _find_space(symbol: str, line: str, kind: str) -> int:
    """Return the memory space of the variable `symbol` that a line of LLVM IR defines as "global" or "constant"."""
    if '"hc_shared"' in line:
        return _SHARED_SPACE
    if '"hc_constant' in line:
        return _CONSTANT_SPACE
    # String literals (.str), guards of static variables (_ZGV), and the engine's own variables.
    ours = (
        kind == "constant"
        or "hostcuda_" in symbol
        or "N8hostcuda" in symbol
        or symbol.startswith((".", "_ZGV"))
    )
    return _UNWATCHED_SPACE if ours else _GLOBAL_SPACE


def _list_variables(lines: list[str]) -> Iterator[tuple[int, str, str, int, str]]:
    """Yield (line's index, symbol, type, space, rest of the line) of each variable that the text defines."""
    for number, line in enumerate(lines):
        match = _GLOBAL.match(line)
        if match and "external" not in match[2] and not match[1].startswith(("llvm.", '"llvm.')):
            kind = match[4][: min(_find_end(match[4]), _find_end(match[4], stop=","))]
            yield (
                number,
                match[1],
                kind,
                _find_space(match[1].strip('"'), line, match[3]),
                match[4][len(kind) :],
            )


def _add_red_zones(lines: list[str]) -> Iterator[str]:
    """Yield `lines` with unused bytes behind each variable of a kernel, so that overruns are found.

    It also changes `lines`: each variable goes into its memory space's section.
    """
    zones = {}  # line's index -> the definition of the unused bytes
    for number, _, kind, space, rest in _list_variables(lines):
        section = {
            _SHARED_SPACE: "hc_shared",
            _CONSTANT_SPACE: "hc_constant",
            _GLOBAL_SPACE: "hc_device",
        }.get(space)
        if not section:
            continue
        head = lines[number][: len(lines[number]) - len(rest) - len(kind)]
        rest = re.sub(r', section "[^"]*"', "", rest)
        end = _find_end(rest, stop=",")  # the end of the first value, with the blank before it
        value, comma, attributes = rest[:end], rest[end : end + 1], rest[end + 1 :]
        align = max([16, *map(int, re.findall(r"\balign (\d+)", attributes))])
        attributes = re.sub(r",? *(?:align \d+|comdat(?:\(\S+\))?)", "", comma + attributes)
        lines[number] = f'{head}{kind}{value}, section "{section}"{attributes}, align {align}'
        zones[number] = (
            f"@hostcuda_zone_{number} = internal global [{_RED_ZONE} x i8] zeroinitializer, "
            f'section "{section}", align 16'
        )
    for number, line in enumerate(lines):
        yield line
        if number in zones:
            yield zones[number]


def _list_tables(lines: list[str], sites: int) -> Iterator[str]:
    """Yield lines that define the table of variables (the runtime's ``hc_variable``) and the numbers of both tables."""
    rows, names = [], []
    for number, symbol, kind, space, _ in _list_variables(lines):
        if symbol.startswith("hostcuda_zone_"):
            continue
        name = _demangle(symbol.strip('"'))
        names.append(
            f'@hostcuda_name_{number} = private constant [{len(name) + 1} x i8] c"{name}\\00"'
        )
        size = f"ptrtoint (ptr getelementptr ({kind}, ptr null, i32 1) to i32)"
        row = f"ptr @hostcuda_name_{number}, ptr @{symbol}, i32 {size}, i32 {space}"
        rows.append(f"{{ ptr, ptr, i32, i32 }} {{ {row} }}")
    yield from names
    yield f"@hostcuda_variables = constant [{len(rows)} x {{ ptr, ptr, i32, i32 }}] [{', '.join(rows)}]"
    yield f"@hostcuda_variable_count = constant i32 {len(rows)}"
    yield f"@hostcuda_site_count = constant i32 {sites}"
    if not any(line.startswith("@hostcuda_site ") for line in lines):
        yield "@hostcuda_site = external global i32"


def _find_end(text: str, stop: str = " ") -> int:
    """Return the index of the first `stop`, a character, that is in no brackets and no string, or the text's length."""
    depth, quoted = 0, False
    for i in range(len(text)):
        if text[i] == '"':
            quoted = not quoted
        elif not quoted:
            depth += (text[i] in "[{<(") - (text[i] in ")>}]")
            if text[i] == stop and depth <= 0:
                return i
    return len(text)


def _demangle(symbol: str) -> str:
    """Return a variable's name as declared: "tile" for "_ZZ4convE4tile", in which 4 is the name's length."""
    if symbol.startswith("_Z"):
        for digits in re.finditer(r"\d+", symbol):
            end = digits.end() + int(digits[0])
            name = symbol[digits.end() : end]
            if name.isidentifier() and re.fullmatch(r"(?:E|_\d+_?|__\d+_)*", symbol[end:]):
                return name
    return symbol
