"""The tables of a compiled file (64-bit ELF): segments, sections, symbols, relocations.

The engine has code of its own for this, because every compiled kernel is read when it is loaded: it
takes 1 ms.
"""

from __future__ import annotations

import struct
from collections import namedtuple
from functools import cached_property
from pathlib import Path

# The names and numbers of <elf.h>.
PT_LOAD, PT_TLS, PF_X, PF_W = 1, 7, 1, 2
SHT_SYMTAB, SHT_RELA, SHT_DYNSYM = 2, 4, 11
SHT_INIT_ARRAY, SHT_FINI_ARRAY, SHT_PREINIT_ARRAY = 14, 15, 16
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
SHN_UNDEF, SHN_LORESERVE = 0, 0xFF00
STT_OBJECT, STT_FUNC, STT_TLS, STT_GNU_IFUNC = 1, 2, 6, 10

Segment = namedtuple("Segment", "kind flags offset address file_bytes bytes alignment")
# link, info: indices of other sections
Section = namedtuple("Section", "name kind flags address offset bytes link info")
# section: its index; value: an address
Symbol = namedtuple("Symbol", "name kind section value bytes")
Relocation = namedtuple("Relocation", "place kind symbol addend")  # symbol: a `Symbol`, or None


class Elf:
    """A file for this kind of processor; other files have no segments and no sections.

    Parameters
    ----------
    path : path-like
    """

    def __init__(self, path):
        self._data = Path(path).read_bytes()
        self._is_known = self._data[:6] == b"\x7fELF\x02\x01"  # 64 bits, little endian

    def _iterate_table(self, pattern: str, offset: int, size: int):
        """Return an iterator over the rows (tuples by `struct`'s pattern) of a table of `size` bytes at an offset."""
        row = struct.calcsize(pattern)
        return struct.iter_unpack(pattern, self._data[offset : offset + size // row * row])

    def _read_headers(self, pattern: str, offset_at: int, count_at: int) -> list[tuple]:
        """Return the rows of a table whose offset and number of rows are at these bytes of the file's header."""
        if not self._is_known:
            return []
        (offset,) = struct.unpack_from("<Q", self._data, offset_at)
        (count,) = struct.unpack_from("<H", self._data, count_at)
        return list(self._iterate_table(pattern, offset, count * struct.calcsize(pattern)))

    @cached_property
    def segments(self) -> list[Segment]:
        """The file's segments: parts of it that are loaded into memory."""
        # at 0x20 and 0x38 are e_phoff and e_phnum, the place and the number of the headers
        rows = self._read_headers("<IIQQQQQQ", 0x20, 0x38)
        return [
            Segment(kind, flags, offset, address, file_bytes, size, alignment)
            for kind, flags, offset, address, _physical, file_bytes, size, alignment in rows
        ]

    @cached_property
    def sections(self) -> list[Section]:
        """The file's sections, such as the code, with their names."""
        # at 0x28 and 0x3C are e_shoff and e_shnum, the place and the number of the headers
        rows = self._read_headers("<IIQQQQIIQQ", 0x28, 0x3C)
        names_at = 0  # where the file has the names of all sections
        if rows:
            # at 0x3E is e_shstrndx, the number of the section that has them; [4]: its offset
            (number,) = struct.unpack_from("<H", self._data, 0x3E)
            names_at = rows[number][4]
        # `name` is the place of a section's name among them
        return [
            Section(self._read_text(names_at + name), kind, flags, address, at, size, link, info)
            for name, kind, flags, address, at, size, link, info, _, _ in rows
        ]

    def content(self, name: str) -> bytes:
        """Return the bytes of the section of this name; empty if there is none."""
        for section in self.sections:
            if section.name == name:
                return self._data[section.offset : section.offset + section.bytes]
        return b""

    def symbols(self, kind: int) -> list[Symbol]:
        """Return the symbols of the tables of a kind: `SHT_SYMTAB` (all), or `SHT_DYNSYM` (those for other files)."""
        return [
            symbol
            for section in self.sections
            if section.kind == kind
            for symbol in self._read_symbols(section)
        ]

    def _read_symbols(self, section: Section) -> list[Symbol]:
        """Return the symbols of a section that is a table of symbols."""
        names = self.sections[section.link].offset  # of the texts of the names
        # low 4 bits of `info`: the kind
        rows = self._iterate_table("<IBBHQQ", section.offset, section.bytes)
        return [
            Symbol(self._read_text(names + name), info & 15, *rest) for name, info, _, *rest in rows
        ]

    def relocations(self, section: Section) -> list[Relocation]:
        """Return the relocations in a section of kind `SHT_RELA`: the places that get the address of a symbol."""
        # `link` is the index of the section that has the symbols
        symbols = self._read_symbols(self.sections[section.link])
        # the upper half of `info` is the symbol's index, or 0 for none; the lower half is the kind
        rows = self._iterate_table("<QQq", section.offset, section.bytes)
        return [
            Relocation(
                place, info & 0xFFFFFFFF, symbols[info >> 32] if info >> 32 else None, addend
            )
            for place, info, addend in rows
        ]

    def _read_text(self, start: int) -> str:
        """Return the text from byte `start` of the file to the next 0."""
        return self._data[start : self._data.index(b"\0", start)].decode("utf-8", "replace")
