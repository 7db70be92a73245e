"""Find accesses that no hook sees, in g++'s assembler text of a kernel that may be hostile.

The compiler calls no hook for a local array whose address does not leave its function, nor for
constant data. With a large index such an array is a window to all memory: what a thread reads and
writes there is not counted. The check of each index (``-fsanitize=bounds-strict``) closes it, but
keeps values from registers, which changes counts. So a text is compiled with it only if `may_miss`
finds an address on the stack, or of constant data, that takes part in another address.
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
_SYMBOL = re.compile(r"([\w.$]+)(?:[-+]\d+)?\(%rip\)")
_STACK = {"rsp", "rbp"}


def may_miss(assembly: str) -> bool:
    """Return whether a text, compiled with frame pointers, may have an access through an array that no hook sees."""
    if platform.machine() != "x86_64" or re.search(r"\t\.section\t\.tdata|\tv\w*gather", assembly):
        return True
    constants = _find_constants(assembly)
    texts = assembly.split("\t.cfi_startproc")
    return any(
        _has_window(body, constants)
        for before, body in itertools.pairwise(texts)
        if not _REGISTERS.fullmatch(_FUNCTION.findall(before)[-1])
    )


def _find_constants(assembly: str) -> set[str]:
    """Return the labels of data that the program cannot write."""
    constants, is_constant = set(), False
    for line in assembly.splitlines():
        if section := _SECTION.match(line):
            name, flags = section[1] or "", section[2]
            is_constant = (
                name.startswith(".rodata") if flags is None else not set("wx") & set(flags)
            )
        elif is_constant and (label := _LABEL.match(line)):
            constants.add(label[1])
    return constants


def _has_window(body: str, constants: set[str]) -> bool:
    """Return whether an address on the stack, or of one of these labels, is a part of another address in a function."""
    instructions = [
        (match[1], match[2] or "") for match in map(_INSTRUCTION.match, body.splitlines()) if match
    ]
    derived = set()  # registers that may hold such an address
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
                used & (derived | _STACK) or (symbol and symbol[1] in constants)
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


def _writes(operands: str) -> bool:
    """Return whether the last operand of an instruction is in memory."""
    return operands.rstrip().endswith(")")
