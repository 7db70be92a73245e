"""Find accesses that no hook sees, in g++'s assembler text of a kernel that may be hostile.

The compiler calls no hook for a local array whose address does not leave its function, nor for
constant data. With a large index such an array is a window to all memory: what a thread reads and
writes there is not counted. The check of each index (``-fsanitize=bounds-strict``) closes it. A cast
to a type with a longer array makes each index one inside of that type: `find_disguised` finds it in
the compiler's own text of the accesses, as they are when hooks are put in. An address behind the
variable is left to ``-fsanitize=object-size``. The checks keep values from registers, which changes
counts. So a text is compiled with them only if `may_miss` finds an address on the stack, or of
constant data, that takes part in another address, or a fixed one outside of its variable.
"""

from __future__ import annotations

import itertools
import platform
import re

_SECTION = re.compile(r'\t\.section\t([^\s,]+)(?:,"(\w*)")?|\t\.(text|data|bss)\b')
_LABEL = re.compile(r"([^\s:#]+):")
_INSTRUCTION = re.compile(r"\t([a-z]\w*)(?:\t(.*))?$")
_MEMORY = re.compile(r"\(([^()]*)\)")
_REGISTER = re.compile(r"%(\w+)")
_FUNCTION = re.compile(r"(?m)^([^\s.:#][^\s:]*):")
_REGISTERS = re.compile(r"_ZN12_GLOBAL__N_1\d+hostcuda_register_\d+Ev")  # no hand-in has this name
# -4096+x(%rip)
_SYMBOL = re.compile(r"(?:(?P<offset>-?\d+)\+)?(?P<label>[A-Za-z_.$][\w.$]*)\(%rip\)")
_SIZE = re.compile(r"(?m)^\t\.size\t([^\s,]+), (\d+)$")
_UNNAMED = 64  # bytes of a constant without a size, at most: a number, or the begin of a text
_STACK = {"rsp", "rbp"}
_DISGUISED = re.compile(  # not behind &: that is an address alone
    r"(?<!&)\bMEM(?: <(?P<type>[^&;\n]*)>)? ?\[\((?P<target>[^&;\n]*?) ?\*\)&(?P<name>[\w.$]+)"
    r"(?: \+ (?:(?P<before>-)?\d+B))?\](?P<rest>(?:\.\w+|\[[^\[\]]*\])*)"
)
_INDEX = re.compile(r"\[[^\[\]]*_\d+")
# an array's type, which may be the variable's own, and a local array
_ARRAY = re.compile(r"(?:const )?(?P<element>\w+)(?P<lengths>(?:\[\d+\])+)")
_DECLARED = re.compile(
    r"(?m)^  (?:const )?(?P<element>\w+) (?P<name>[\w.$]+)(?P<lengths>(?:\[\d+\])+);$"
)
_SLOT = re.compile(r"(-?\d+)\(%r[sb]p\)")
_FARTHEST_SLOT = 1 << 19  # bytes of a thread's stack


def may_miss(assembly: str) -> bool:
    """Return whether a kernel's assembler text may have an access outside of an array that no check sees.

    A hostile kernel could use such a "window" to other memory. The text is g++'s, compiled with
    frame pointers. Functions that register a kernel, which are the engine's own, are left out. The
    answer is True where the text cannot be judged: on other processors, with thread-local data, or
    with instructions that gather.
    """
    if platform.machine() != "x86_64" or re.search(r"\t\.section\t\.tdata|\tv\w*gather", assembly):
        return True
    constants = _find_constants(assembly)
    # a function's label is the last one before its .cfi_startproc
    texts = assembly.split("\t.cfi_startproc")
    return any(
        _has_window(body, constants)
        for before, body in itertools.pairwise(texts)
        # A function's cold part has its label behind its .cfi_startproc. So the list of labels may be
        # empty: then `any` is False, and the part is looked at.
        if not any(map(_REGISTERS.fullmatch, _FUNCTION.findall(before)[-1:]))
    )


def find_disguised(accesses: str, shared: set[str]) -> str | None:
    """Return the name of a variable that a hostile kernel may access outside of it, unseen, as another type; or None.

    The compiler checks an index against the length of the array's type: with a longer type, it lets
    an index outside of the variable pass. An access without an index counts only if it lies before the
    variable. An access by the type of the variable's own declaration is checked rightly.

    Parameters
    ----------
    accesses : str
        The output of g++'s ``-fdump-tree-tsan``. An access of a variable under another type has the
        variable's address in it, ``MEM[(Long *)&x + -16B].v[i_2]`` or ``MEM <int[8]> [(int *)&x][i_2]``.
    shared : set of str
        Names of arrays of which all accesses have hooks, calls that check the address.
    """
    for function in accesses.split("\n;; Function ")[1:]:
        for match in _DISGUISED.finditer(function):
            if match["name"] in shared or not (match["before"] or _INDEX.search(match["rest"])):
                continue
            # the type of the access: in < >, or else that of the cast
            array = _ARRAY.fullmatch(match["type"] or match["target"])
            declared = {
                (variable["element"], variable["lengths"])
                for variable in _DECLARED.finditer(function)
                if variable["name"] == match["name"]
            }
            if match["before"] or not array or declared != {array.group("element", "lengths")}:
                return match["name"].partition(".")[0]  # without the number that g++ may add: "x.3"
    return None


def _find_constants(assembly: str) -> dict[str, int]:
    """Map the labels of data that the program cannot write to their sizes."""
    sizes = {label: int(size) for label, size in _SIZE.findall(assembly)}
    constants, is_constant = {}, False
    for line in assembly.splitlines():
        if section := _SECTION.match(line):
            name, flags = section[1] or "", section[2]
            is_constant = (
                name.startswith(".rodata") if flags is None else not set("wx") & set(flags)
            )
        elif is_constant and (label := _LABEL.match(line)):
            constants[label[1]] = sizes.get(label[1], _UNNAMED)
    return constants


def _has_window(body: str, constants: dict[str, int]) -> bool:
    """Return whether a function may access memory outside of the stack's variables and of constants, through them.

    `body` is its assembler text, and `constants` maps labels of constant data to sizes. That is so if
    an address on the stack or of a constant takes part in another address, is kept in memory, or is a
    fixed one out of place.
    """
    instructions = [
        (match[1], match[2] or "") for match in map(_INSTRUCTION.match, body.splitlines()) if match
    ]
    if any(_is_outside(name, operands, constants) for name, operands in instructions):
        return True
    # Registers that may hold such an address. A loop may carry one backwards in the text, so the text is
    # read until nothing is added.
    derived = set()
    while True:
        before = len(derived)
        for name, operands in instructions:
            memory = _MEMORY.findall(operands)
            registers = [_REGISTER.findall(text) for text in memory]
            used = {register for group in registers for register in group}
            if any(_STACK & {*group} and len(group) > 1 for group in registers):
                return True  # with an index
            if used & derived and not name.startswith("lea"):
                return True
            *sources, target = _REGISTER.findall(_MEMORY.sub("", operands)) or [""]
            symbol = _SYMBOL.search(operands)
            is_address = name.startswith("lea") and (
                used & (derived | _STACK) or (symbol and symbol["label"] in constants)
            )
            if name.startswith(("push", "pop", "call", "cmp", "test")) or target in _STACK:
                continue
            if is_address or {*sources} & (derived | _STACK):
                derived.add(target)
            if (
                memory
                and {*sources, target} & derived
                and not name.startswith("lea")
                and _writes(operands)
            ):
                return True  # kept in memory, from where it may come back
        if len(derived) == before:
            return False


def _is_outside(name: str, operands: str, constants: dict[str, int]) -> bool:
    """Return whether an instruction accesses memory at a fixed offset outside of a constant or the stack.

    `name` and `operands` are its text; ``lea`` only computes an address.
    """
    if name.startswith("lea"):
        return False
    symbol, slot = _SYMBOL.search(operands), _SLOT.search(operands)
    size = constants.get(symbol["label"]) if symbol else None
    return bool(
        (size is not None and not 0 <= int(symbol["offset"] or 0) < size)
        or (slot and abs(int(slot[1])) > _FARTHEST_SLOT)
    )


def _writes(operands: str) -> bool:
    """Return whether the last operand of an instruction, its target, is in memory."""
    return operands.rstrip().endswith(")")
