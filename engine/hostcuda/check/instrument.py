"""Insert the logging of check mode into the assembler text of a kernel.

The compiler calls a function before each load and store (``-fsanitize=thread``) and at the start of
each basic block (``-fsanitize-coverage=trace-pc``). Every one of these must be recorded to be
counted, and a call takes much longer than the record. So the calls are grouped in *pieces*: runs of
such calls without a jump, label or other call between them. At the first call of a piece, code is
inserted that writes the piece's number and reserves room in the running thread's log for the
addresses; the other calls become stores. Two tables beside the code describe the pieces; the
runtime reads them (``runtime/counting.cpp``).

The tables also define the order in which divergent lanes of a warp run pieces: of all places where
lanes are, the first one runs. The order follows the control flow, not the compiler's layout of the
code. All that precedes a place on any path comes before it, all blocks of a loop before those that
follow the loop, and a function before its callers. So lanes converge where the paths of a branch
join.

The blocks themselves, with the arithmetic of each line in them, are written to a section of the
file that is not loaded: `hostcuda.units` reads it.

This is for x86-64. On other processors the calls remain, and the runtime's functions write the same
log.
"""

import json
import platform
import re
from collections.abc import Callable, Iterable
from pathlib import PurePath

from hostcuda.errors import CompileError
from hostcuda.host.toolchain import INCLUDE

FLOW = ".hostcuda_flow"  # the name of the section with the blocks
# instead of "file:line" in the engine's headers: of their code, a GPU has only the arithmetic
IN_HEADERS = ""

_HOOK = re.compile(  # "\tcall\t__tsan_read4@PLT"
    r"\tcallq?\t\*?(?:__tsan_(?P<loose>loose_)?(?P<volatile>volatile_)?(?P<what>read|write)(?P<size>1|2|4|8|16)|"
    r"__sanitizer_cov_trace_pc)(?:@PLT|@GOTPCREL\(%rip\))?$"
)
_HOOK_NAME = re.compile(
    r"\t\w+\s.*\b(?:__tsan_(?:volatile_)?(?:read|write)(?:1|2|4|8|16)|__sanitizer_cov_trace_pc)\b"
)
# ".L12:", clang's ".LBB0_3:", a function's "_Z4convPf:", its rare code "_Z4convPf.cold:"
_LABEL = re.compile(r"(\.L\d+|\.LBB\d+_\d+|[^.\s#\"][^\s:\"]*|\.?[A-Za-z_$][\w.$]*\.cold):")
_DEBUG_LABEL = re.compile(r"\.L(?!BB\d)[A-Z]")  # for debug tables and constants, not jump targets
_JUMP = re.compile(r"\t(?:bnd )?(j\w+)\s+(\*?)([^\s(#]+)")
_CALL = re.compile(r"\t(?:bnd )?call\w*\s+(\*?)([^\s#]+)")
_END = re.compile(r"\t(?:rep )?(?:ret\w*|ud2|hlt)\b")
_FUNCTION = re.compile(r"\t\.type\t(\S+),\s*@function")
_FILE = re.compile(r'\t\.file\s+(\d+)\s+(?:"([^"]*)"\s+)?"([^"]*)"')
_LOC = re.compile(r"\t\.loc\s+(\d+)\s+(\d+)")
_OCTAL = re.compile(r"\\([0-7]{3})")  # a byte of a name that is not ASCII
# The instructions that a GPU has, too; moves and stack operations differ from compiler to compiler.
WORK = {
    "fma": re.compile(r"v?fn?m(?:add|sub)\d+[sp]s$"),
    "multiply": re.compile(r"v?mul[sp]s$"),
    "add": re.compile(r"v?(?:add|sub)[sp]s$"),
    "double": re.compile(r"v?(?:fn?m(?:add|sub)\d+|mul|add|sub|div|sqrt)[sp]d$"),
    "branch": re.compile(r"j(?!mp)"),
    "divide": re.compile(r"i?div[bwlq]?$"),
    "integer": re.compile(
        r"(?:add|sub|i?mul|lea[lq]?$|cmp|test|and|or|xor|not[bwlq]?$|neg|sh[lr]|sa[lr]|ro[lr]|set|cmov|v?cvt|mov[sz]|"
        r"c[lqd]\w+q$)"
    ),
}  # with logic, conversions, and moves that extend a number or are of one float
ARITHMETIC = range(4)  # the first kinds of `WORK`
_MOST = 200  # accesses per piece; the runtime's logs have room for as many after their end


def can_instrument() -> bool:
    """Return whether code for this processor can be instrumented."""
    return platform.machine() == "x86_64"


_SIXTEEN = re.compile(r"(\tcallq?\t\*?__tsan_)((?:read|write)16\b)")
# a move of 16 bytes between a register and memory that is not on the stack
_WIDE_MOVE = re.compile(r"\tv?mov(?:(?P<loose>dqu|up[sd])|dqa|ap[sd])\d*\s(?!.*\(%r[sb]p\)).*\(")
_ENDS = re.compile(r"\t(?:bnd |rep )?(?:j|call|ret)")


# what has to be at a multiple of 16, in a source
_ALIGNED_BY_16 = re.compile(
    r"\b(?:u?int4|float4|double[24]\w*|u?long(?:long)?[24]\w*|alignas|__align__|aligned|__int128|__float128)\b"
)


def loosen_copies(text: str, source: str) -> str:
    """Rename the calls before accesses of 16 bytes that may be at any multiple of 8, so that they are not reported.

    ``__tsan_read16`` becomes ``__tsan_loose_read16``. The compiler calls the same function before it
    copies a ``float4``, which has to be at a multiple of 16, and a struct of two doubles, which has
    not. If the source has both, the instruction for the copy tells them apart: one that takes any
    address is for the latter. Returns the assembler text.
    """
    if not can_instrument():
        return text
    if not _ALIGNED_BY_16.search(source):
        return _SIXTEEN.sub(r"\1loose_\2", text)
    lines = text.split("\n")
    pending = []  # indices of calls whose instruction has not come yet
    for number, line in enumerate(lines):
        if line.startswith("\t."):  # a directive, no instruction
            continue
        if _SIXTEEN.match(line):
            pending.append(number)
        elif pending and (move := _WIDE_MOVE.match(line)):
            if move["loose"]:  # it takes any address
                for at in pending:
                    lines[at] = _SIXTEEN.sub(r"\1loose_\2", lines[at])
            pending = []
        # a label, a jump or another call: the copy is not behind it
        elif not _HOOK.match(line) and (line[:1] != "\t" or _ENDS.match(line)):
            pending = []
    return "\n".join(lines)


class Block:
    """A basic block, which is entered only at its start.

    `pieces` are lists of indices of lines; `next` the blocks that may follow; `calls` symbols of
    the functions that it calls; `work` maps "file:line" to a list, the number of instructions per
    kind of `WORK`.
    """

    def __init__(self, function: str):
        self.function, self.pieces, self.next, self.calls, self.work = function, [], [], [], {}


def _read_blocks(lines: list[str]) -> list[Block]:
    """Return the blocks of assembler text, given its lines, in the text's order.

    One function, because every kind of line (label, directive, access, jump, call) changes where
    the next one belongs.
    """
    functions = {match[1] for match in map(_FUNCTION.match, lines) if match}
    # label -> its block; the symbol of the function that is read
    blocks, labelled, function = [], {}, ""
    # number of a file (a text) -> its name, None for the engine's headers; "file:line"
    files, place = {}, IN_HEADERS
    # those of the next line; None: no block, as after a jump, or a piece that begins with it
    block = piece = None
    in_asm = False  # in the text of an `asm` statement, whose labels and jumps are not looked at

    def begin_block():
        """Add a block, which may follow the current one if that is of the same function."""
        nonlocal block, piece
        new = Block(function)
        if block is not None and block.function == function:
            block.next.append(new)
        blocks.append(new)
        block, piece = new, None

    for number, line in enumerate(lines):
        if (comment := line.lstrip("\t"))[:1] == "#":  # clang's have a tab before them
            if comment.startswith(("#APP", "#NO_APP")):
                in_asm, piece = comment.startswith("#APP"), None
            continue
        if line[:1] != "\t":
            match = _LABEL.match(line)
            if match and not in_asm and not _DEBUG_LABEL.match(line):
                name = match[1]
                if name in functions:
                    function = name.removesuffix(".cold")  # g++ moves a function's rare code there
                begin_block()
                labelled[name] = block
            continue
        if line.startswith("\t."):  # a directive
            if line.startswith(("\t.section", "\t.text")):
                piece = None
            elif match := _LOC.match(line):
                place = f"{files[match[1]]}:{match[2]}" if files.get(match[1]) else IN_HEADERS
            elif match := _FILE.match(line):
                path = PurePath(match[2] or "", match[3])
                files[match[1]] = None if INCLUDE in path.parents else _decode_name(path.name)
            continue
        if in_asm or block is None:
            continue
        if _HOOK.match(line):  # one of the compiler's calls: it continues the piece, or begins one
            if piece is None or len(piece) > _MOST:
                piece = []
                block.pieces.append(piece)
            piece.append(number)
            continue
        if (kind := _find_kind(line, place)) is not None:
            block.work.setdefault(place, [0] * len(WORK))[kind] += 1
        if jump := _JUMP.match(line):
            if not jump[2]:  # no "*": not through a register
                block.next.append(jump[3])
            if jump[1] in ("jmp", "jmpq"):
                block = None  # until the next label
            else:
                begin_block()
        elif _END.match(line):
            block = None
        elif (call := _CALL.match(line)) and "TLSCALL" not in call[
            2
        ]:  # a TLSCALL only returns a thread-local address
            piece = None
            block.calls.append(call[2].removesuffix("@PLT"))
    for block in blocks:  # replace labels by blocks; leave out jumps to other files
        following = (labelled.get(to) if isinstance(to, str) else to for to in block.next)
        block.next = [to for to in following if to is not None]
    return blocks


def _find_kind(line: str, place: str) -> int | None:
    """Return the index in `WORK` of an instruction's kind; None if it is of none, or not the kernel's own work.

    `place` is "file:line", or `IN_HEADERS` for the engine's headers, of which only arithmetic counts.
    """
    operation = line.split(None, 1)[0]
    kind = next((i for i, pattern in enumerate(WORK.values()) if pattern.match(operation)), None)
    is_own = place != IN_HEADERS or kind in ARITHMETIC
    # with %rsp it only moves the stack pointer
    return kind if is_own and not line.endswith("%rsp") else None


def _decode_name(name: str) -> str:
    """Return a file's name from assembler text, which writes bytes that are not ASCII in octal."""
    if "\\" not in name:
        return name
    text = _OCTAL.sub(lambda byte: chr(int(byte[1], 8)), name)
    return text.encode("latin-1", "replace").decode("utf-8", "replace")


def find_components(nodes: Iterable, edges: Callable) -> list[list]:
    """Return the strongly connected components of a graph, each before its successors (Tarjan 1972): lists of nodes.

    `edges(node)` returns the successors of a node.
    """
    # without recursion, which may be too deep
    number, low, on_stack, stack, components = ({}, {}, set(), [], [])
    for root in nodes:
        if root in number:
            continue
        # (a node, what is left of its successors): the calls of the recursive function
        path = [(root, None)]
        while path:
            node, successors = path[-1]
            if successors is None:  # the node is new
                number[node] = low[node] = len(number)
                stack.append(node)
                on_stack.add(node)
                successors = iter(edges(node))
                path[-1] = (node, successors)
            for to in successors:
                if to not in number:
                    path.append((to, None))
                    break
                if to in on_stack:
                    low[node] = min(low[node], number[to])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == number[node]:
                    component = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    components.append(component)
    return components[::-1]  # Tarjan's algorithm finds a component after its successors


def order_blocks(blocks: list[Block]) -> list[Block]:
    """Return the blocks in the order in which divergent lanes run them.

    A function comes after those that it calls, and a block after those that precede it on any path;
    the blocks of a loop stay together.
    """
    functions = {}
    for block in blocks:
        functions.setdefault(block.function, []).append(block)
    callees = {
        name: [to for block in own for to in block.calls if to in functions]
        for name, own in functions.items()
    }
    order = []
    # a component: functions that call each other; reversed, because callees come first
    for names in reversed(find_components(list(functions), callees.__getitem__)):
        for name in names:
            order += _order_within(functions[name], functions[name][0])  # [0]: where it begins
    return order


def _order_within(blocks: list[Block], entry: Block) -> list[Block]:
    """Return a function's blocks, entered at `entry`, with predecessors first and the blocks of a loop together."""
    place = {block: i for i, block in enumerate(blocks)}
    order = []
    pending = [(blocks, entry)]  # a stack: (blocks of a loop, its entry), or (None, a single block)
    while pending:
        part, head = pending.pop()
        if part is None:
            order.append(head)
            continue
        members = set(part)
        # A loop is a strongly connected component. Without the edges back to its head, it is
        # ordered in the same way.
        edges = {
            block: [to for to in block.next if to in members and to is not head] for block in part
        }
        rest = []
        # each before those that follow it
        for component in find_components(part, edges.__getitem__):
            if len(component) == 1:
                rest.append((None, component[0]))
                continue
            component.sort(key=place.__getitem__)
            inside = set(component)
            entries = [
                to for block in part if block not in inside for to in edges[block] if to in inside
            ]
            rest.append(
                (component, min(entries, key=place.__getitem__) if entries else component[0])
            )
        pending += reversed(rest)  # the first is popped first
    return order


def instrument(text: str, checks: bool) -> str:
    """Return assembler text that logs accesses to memory by a few instructions, in place of the compiler's calls.

    The calls are those of ``-fsanitize=thread``, one before each access. With `checks`, they stay,
    too. A piece is a run of such calls without a jump between. Its entry in the log is its number,
    and then the addresses. Pieces are numbered in the order in which divergent lanes run them, which
    the runtime relies on. Raises CompileError if the compiler calls these functions in an
    unknown way: nothing would be counted.
    """
    lines = text.split("\n")
    for line in lines:
        if _HOOK_NAME.match(line) and not _HOOK.match(line):
            raise CompileError(
                f"check mode does not know the call {' '.join(line.split())!r} of this compiler, so "
                "accesses would be missed: leave out unusual options in CXX, or set it to g++"
            )
    # rows of the tables of pieces and of accesses; code, out of line, for a log that is full
    pieces, accesses, stubs = [], [], []
    blocks = _read_blocks(lines)
    numbers = {}  # block -> numbers of its pieces
    for block in order_blocks(blocks):
        for piece in block.pieces:
            numbers.setdefault(block, []).append(len(pieces))
            _replace_calls(lines, piece, pieces, accesses, stubs, checks)
    return "\n".join([*lines, *_write_tail(pieces, accesses, stubs), *_write_flow(blocks, numbers)])


def _replace_calls(
    lines: list[str],
    piece: list[int],
    pieces: list[str],
    accesses: list[str],
    stubs: list[str],
    checks: bool,
) -> None:
    """Replace a piece's calls by code that logs; add to the rows of the two tables, and to the stubs.

    The calls are the `lines` at the indices `piece`. The piece's number is that of its row in `pieces`.
    `stubs` get the code to run when the log is full. `checks`: keep the calls beside the new code.
    """
    hooks = [_HOOK.match(lines[at]) for at in piece]
    # bytes in the log: number, addresses
    size = 8 * (1 + sum(hook["what"] is not None for hook in hooks))
    number, offset = len(pieces), 8  # of the piece; of the next address in its entry
    pieces.append(
        f"\t.long\t.Llk_piece{number} - hostcuda_pieces, {len(accesses)}, {size // 8 - 1}"
    )
    since = None  # the line after which r11 has the log's end; None: reload it
    for at, hook in zip(piece, hooks, strict=True):
        new = []
        if at == piece[0]:  # reserve room; r11 is free, because the call may change it
            new += [
                "\tmovq\t.Llk_log(%rip), %r11",
                "\tcmpq\t.Llk_log+8(%rip), %r11",
                f"\tja\t.Llk_full{number}",
                f".Llk_piece{number}:",
                f"\tmovq\t${number}, (%r11)",
                f"\taddq\t${size}, %r11",
                "\tmovq\t%r11, .Llk_log(%rip)",
            ]
            stubs += [f".Llk_full{number}:", "\tcall\t.Llk_make_room", f"\tjmp\t.Llk_piece{number}"]
        elif since is None or any("%r11" in line for line in lines[since + 1 : at]):
            new.append("\tmovq\t.Llk_log(%rip), %r11")
        since = at
        # an access, whose address is the call's argument; else the start of a basic block
        if hook["what"]:
            new.append(f"\tmovq\t%rdi, {offset - size}(%r11)")  # r11 is behind the entry
            offset += 8
            if checks:
                new.append(lines[at])
                since = None  # the call may overwrite r11
            new.append(f".Llk_access{len(accesses)}:")
            multiple = 8 if hook["loose"] else hook["size"]
            accesses.append(
                f"\t.long\t.Llk_access{len(accesses)} - hostcuda_accesses\n"
                f"\t.byte\t{int(hook['what'] == 'write')}, {hook['size']}, {int(bool(hook['volatile']))}, {multiple}"
            )
        lines[at] = "\n".join(new)


def _write_flow(blocks: list[Block], numbers: dict[Block, list[int]]) -> list[str]:
    """Return the lines of the section `FLOW`, the blocks in JSON: ``pieces`` by number, ``next`` by index, ``work``."""
    place = {block: i for i, block in enumerate(blocks)}
    text = json.dumps(
        [
            {
                "pieces": numbers.get(block, []),
                "next": [place[to] for to in block.next],
                "work": block.work,
            }
            for block in blocks
        ]
    )
    # an assembler's line should not be too long
    pieces = (text[at : at + 4000] for at in range(0, len(text), 4000))
    escaped = (piece.replace("\\", "\\\\").replace('"', '\\"') for piece in pieces)
    return [f'\t.section\t{FLOW},"",@progbits', *(f'\t.ascii\t"{piece}"' for piece in escaped), ""]


def _write_tail(pieces: list[str], accesses: list[str], stubs: list[str]) -> list[str]:
    """Return the lines behind the code: the log's variables, the call into the runtime when it is full, two tables.

    `pieces` and `accesses` are the tables' rows, and `stubs` the code that runs when the log is full.
    """
    # Those that a call may change, for the code that did not expect one; an odd number keeps the
    # stack aligned.
    registers = ["%rax", "%rdi", "%rsi", "%rdx", "%rcx", "%r8", "%r9"]
    return [
        "\t.text",
        *stubs,
        ".Llk_make_room:",
        *(f"\tpushq\t{name}" for name in registers),
        "\tleaq\t.Llk_log(%rip), %rdi",
        "\tcall\thostcuda_log_full@PLT",
        *(f"\tpopq\t{name}" for name in reversed(registers)),
        "\tmovq\t.Llk_log(%rip), %r11",
        "\tret",
        # The next entry, the end of the log, and a spare log, larger than a piece, for code outside
        # of a kernel.
        "\t.data",
        "\t.balign\t8",
        "\t.type\thostcuda_log, @object",
        "\t.size\thostcuda_log, 24",
        "hostcuda_log:",
        ".Llk_log:",
        "\t.quad\t.Llk_spare, .Llk_spare, .Llk_spare",
        f"\t.local\t.Llk_spare\n\t.comm\t.Llk_spare, {8 * (_MOST + 56)}, 8",
        '\t.section\t.rodata.hostcuda,"a"',
        "\t.balign\t8",
        *_write_table("hostcuda_pieces", pieces),
        *_write_table("hostcuda_accesses", accesses),
        "",
    ]


def _write_table(name: str, rows: list[str]) -> list[str]:
    """Return the lines of a table, the symbol `name` with its size."""
    return [f"\t.type\t{name}, @object", f"{name}:", *rows, f"\t.size\t{name}, . - {name}"]
