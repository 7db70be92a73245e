"""How a compiled kernel file is linked: what it calls, and what runs while it is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from hostcuda.runtime import elf


@dataclass(frozen=True)
class Linkage:
    """How a module is linked and loaded."""

    imported: frozenset  # symbols that other files have to define, without their versions
    functions: tuple  # the symbols of its own functions
    indirect: tuple  # the symbols of functions that code chooses while the module is loaded
    initializers: int  # the number of functions that are called while it is loaded


def linkage(path) -> Linkage:
    """Return the `Linkage` of a 64-bit ELF file."""
    file = elf.Elf(path)
    dynamic, own = file.symbols(elf.SHT_DYNSYM), file.symbols(elf.SHT_SYMTAB)
    return Linkage(
        frozenset(symbol.name for symbol in dynamic if not symbol.section and symbol.name),
        tuple(symbol.name for symbol in own if symbol.section and symbol.kind == elf.STT_FUNC),
        tuple(symbol.name for symbol in own + dynamic if symbol.kind == elf.STT_GNU_IFUNC),
        sum(section.bytes for section in file.sections if section.kind == elf.SHT_INIT_ARRAY) // 8,
    )
