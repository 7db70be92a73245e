"""A GPU's machine code (SASS), as nvdisasm prints it, in straight-line blocks; the pipe that executes each instruction.

The pipes are those of Nsight Compute's documentation ("Hardware Model", "Pipelines"). Which
instruction goes to which pipe, and how many cycles its result takes, was measured by others: Luo et
al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking" (2024).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple

_SECTION = re.compile(r"^\.text\.(\w+):")
_OTHER_SECTION = re.compile(r"^\s*\.section\s+(?!\.text\.)")
_PLACE = re.compile(r'//## File "([^"]*)", line (\d+)')
_LABEL = re.compile(r"^(\.L_x_\d+):")
# /*0100*/ @!P0 EXIT ;
_CODE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_REGISTER = re.compile(r"\b(U?R\d+|U?P\d)\b")
_ENDS = {"BRA", "BRX", "EXIT", "RET", "BSYNC", "CALL", "WARPSYNC"}
# the bank of __constant__ variables; the others are the compiler's
USERS_CONSTANT = re.compile(r"c\[0x3\]")

_OF_PIPE = {
    "fma": "FFMA FMUL FADD FFMA32I FADD32I FMUL32I",
    "fp64": "DFMA DADD DMUL DSETP",
    "half": "HFMA2 HADD2 HMUL2 HFMA2_32I HMNMX2",
    "imad": "IMAD IDP",
    "tensor": "HMMA IMMA DMMA HGMMA IGMMA QGMMA",
    "xu": "MUFU I2F F2I F2F POPC FLO BREV FRND",
    "global": "LDG STG ATOMG ATOM REDG RED LD ST LDGSTS",
    "local": "LDL STL",
    "shared": "LDS STS LDSM STSM ATOMS",
    "constant": "LDC",
    "mio": "SHFL S2R S2UR CS2R R2UR REDUX VOTE MATCH",
    "barrier": "BAR",
    "control": "BRA EXIT BSSY BSYNC RET CALL WARPSYNC NOP DEPBAR LDGDEPBAR MEMBAR BRX YIELD ERRBAR CCTL ARRIVES SYNCS "
    "WARPGROUP",
}
_OPS = {"LD": "ld", "ST": "st", "AT": "atom", "RE": "red"}
_PIPES = {word: pipe for pipe, words in _OF_PIPE.items() for word in words.split()}
# Cycles from an instruction to one that uses its result, without a queue before the pipe; global
# loads: below.
_LATENCY = {
    "fma": 4,
    "half": 5,
    "imad": 5,
    "alu": 5,
    "uniform": 6,
    "fp64": 8,
    "xu": 20,
    "mio": 25,
    "barrier": 20,
    "control": 2,
    "constant": 30,
    "shared": 29,
    "local": 36,
    "tensor": 33,
}
L1_CYCLES, L2_CYCLES = 36, 280  # of a global load: from the L1 cache, and from the L2 cache


class Instruction(NamedTuple):
    """One instruction of the machine code."""

    word: str  # the name with its modifiers: "LDS.128"
    predicate: str  # "P0", "!P0"; empty: the instruction is always executed
    arguments: str
    # (file, line) of the source: of the innermost inlined function first, of the kernel last
    places: tuple

    @property
    def name(self) -> str:
        """The name without modifiers."""
        return self.word.partition(".")[0]

    @property
    def pipe(self) -> str:
        """The pipe that executes it: by the table `_PIPES`, else "uniform" or "alu"."""
        if self.name.startswith("HFMA2") and ".MMA" in self.word:
            return "imad"  # a move through the FMA pipe
        return _PIPES.get(self.name) or ("uniform" if self.name.startswith("U") else "alu")

    @property
    def op(self) -> str:
        """The operation of an instruction that accesses memory: "ld", "st", "atom" or "red"."""
        return _OPS[self.name[:2]]

    @property
    def bytes(self) -> int:
        """The bytes per lane that a load, a store or an atomic moves: 16 for LDG.E.128, 8 for REDG.E.ADD.F64.RN."""
        # LDSM.16.M88.4 loads 4 8x8 matrices of 16-bit elements: 4 bytes per lane each
        if self.name == "LDSM":
            return 4 * int(self.word[-1]) if self.word[-2:-1] == "." else 4
        width = re.search(r"\.[SUF]?(8|16|64|128)\b", self.word)
        return int(width[1]) // 8 if width else 4


@dataclass
class Block:
    """Instructions without a jump between them."""

    label: str
    code: list[Instruction] = field(default_factory=list)
    next: list[int] = field(default_factory=list)  # the blocks that may follow, by their index


def read(text: str) -> dict[str, list[Block]]:
    """Read the blocks of each kernel, by its symbol, from the output of ``nvdisasm -gi -c``."""
    kernels: dict[str, list[Block]] = {}
    blocks: list[Block] | None = (
        None  # of the kernel that is read; None outside of a ``.text.`` section
    )
    # of the next instruction; an instruction has followed them, so the next place is new
    places, begun = (
        [],
        True,
    )
    for row in text.splitlines():
        if section := _SECTION.match(row):
            blocks, places = kernels.setdefault(section[1], [Block("entry")]), []
        elif _OTHER_SECTION.match(row):
            blocks = None
        elif place := _PLACE.search(
            row
        ):  # '//## File "a.cu", line 3': from the innermost function to the kernel
            places = [*([] if begun else places), (PurePath(place[1]).name, int(place[2]))]
            begun = False
        elif blocks is not None and (label := _LABEL.match(row)):
            blocks.append(Block(label[1]))
        elif blocks is not None and (code := _CODE.search(row)):
            begun = True
            blocks[-1].code.append(Instruction(code[2], code[1] or "", code[3], tuple(places)))
            if blocks[-1].code[-1].name in _ENDS:
                blocks.append(Block(f"{blocks[-1].label}+"))
    return {kernel: _link_blocks(blocks) for kernel, blocks in kernels.items()}


def _link_blocks(blocks: list[Block]) -> list[Block]:
    """Return the blocks that have code, in order, and set the `next` of each: the indices of those that may follow."""
    nonempty = [block for block in blocks if block.code]
    place = {id(block): i for i, block in enumerate(nonempty)}
    index_of_label, index = {}, None
    for block in reversed(blocks):  # a label without code belongs to the next block
        index = place.get(id(block), index)
        index_of_label[block.label] = index
    for i, block in enumerate(nonempty):
        last = block.code[-1]
        # "BRA `(.L_x_1)"
        target = re.search(r"`\((\.L_x_\d+)\)", last.arguments) if last.name == "BRA" else None
        if target and index_of_label.get(target[1]) is not None:
            block.next.append(index_of_label[target[1]])
        is_conditional = (
            last.predicate
            or (  # "@P0 BRA", or a predicate before the target, "BRA P0, `(.L_x_1)"
                last.name == "BRA" and re.search(r"\bU?P\d", last.arguments.split("`")[0])
            )
        )
        always_leaves = last.name in ("BRA", "EXIT", "RET") and not is_conditional
        if not always_leaves and i + 1 < len(nonempty) and i + 1 not in block.next:
            block.next.append(i + 1)
    return nonempty


def warp_cycles(code: Sequence[Instruction], load_cycles: float) -> float:
    """Return the cycles of one warp alone: one instruction per cycle, in order, each when its inputs are ready.

    `load_cycles` pass from a global load to the use of its value.
    """
    ready: dict[str, float] = {}  # register -> cycle from which it has its value
    now = 0.0
    for instruction in code:
        results, read = _find_registers(instruction)  # the names of those that it writes, and reads
        now = max([now + 1, *(ready[name] for name in read if name in ready)])
        cycles = load_cycles if instruction.pipe == "global" else _LATENCY[instruction.pipe]
        ready.update((name, now + cycles) for name in results)
    return now


def _find_registers(instruction: Instruction) -> tuple[list[str], list[str]]:
    """Return the names of the registers that an instruction writes, and of those that it reads: several if wide."""
    names = _REGISTER.findall(instruction.arguments)
    has_no_result = instruction.name.startswith(("ST", "RED", "BRA", "EXIT", "BAR"))
    # registers of a value
    width = 4 if ".128" in instruction.word else 2 if ".64" in instruction.word else 1
    results: list[str] = []
    if names and not has_no_result:
        if instruction.name == "LDSM":
            width = instruction.bytes // 4  # a register has 4 bytes
        elif instruction.pipe == "tensor":
            width = 4 if "F32" in instruction.word else 2  # a lane's part of the result matrix
        elif ".WIDE" in instruction.word or instruction.pipe == "fp64":
            width = 2
        if names[0].startswith(("P", "UP")):  # a comparison: one or two predicates
            results = names[
                : 2
                if instruction.name in ("ISETP", "FSETP", "HSETP2", "PLOP3", "UISETP", "UPLOP3")
                else 1
            ]
        else:
            results = list(_list_registers(names[0], width))
    read = list(names[1 if results else 0 :])
    # an address, an operand
    is_64_bit = ".64]" in instruction.arguments or ".WIDE" in instruction.word
    for name in tuple(read):
        if instruction.pipe == "tensor":
            read += _list_registers(name, 4)
        elif is_64_bit or (has_no_result and width > 1):
            read += _list_registers(name, max(width, 2))
    return results, [*read, *([instruction.predicate.lstrip("!")] if instruction.predicate else [])]


def _list_registers(register: str, count: int) -> Iterator[str]:
    """Yield the names of a register and of those after it, `count` in all: "R4", "R5"."""
    letters, number = re.fullmatch(r"(\D+)(\d+)", register).groups()
    return (f"{letters}{int(number) + i}" for i in range(count))
