"""How a compiled kernel file is linked: what it calls, and what runs while it is loaded."""

import struct
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Linkage", "linkage"]

_SYMTAB, _DYNSYM, _INIT_ARRAY = 2, 11, 14  # sh_type
_FUNC, _IFUNC = 2, 10  # symbol type


@dataclass(frozen=True)
class Linkage:
    """How a module is linked and loaded.

    Attributes
    ----------
    imported : frozenset of str
        Symbols that it expects from elsewhere, without their versions.
    functions : tuple of str
        Its own functions.
    indirect : tuple of str
        Those of its functions that are chosen by code that runs while it is loaded.
    initializers : int
        Functions that are called while it is loaded.
    """

    imported: frozenset
    functions: tuple
    indirect: tuple
    initializers: int


def linkage(path):
    """The `Linkage` of a 64-bit ELF file."""
    data = Path(path).read_bytes()
    dynamic, own = [*_symbols(data, _DYNSYM)], [*_symbols(data, _SYMTAB)]
    return Linkage(
        frozenset(name for name, _, section in dynamic if not section and name),
        tuple(name for name, kind, section in own if section and kind == _FUNC),
        tuple(name for name, kind, _ in own + dynamic if kind == _IFUNC),
        sum(size for kind, _, size, _ in _sections(data) if kind == _INIT_ARRAY) // 8,
    )


def _sections(data):
    """Type, offset, size and linked section of each section; none for other files than 64-bit ELF."""
    if data[:5] != b"\x7fELF\x02":
        return []
    sections_at, entry_size, count = struct.unpack_from("<Q", data, 0x28)[0], *struct.unpack_from("<HH", data, 0x3A)
    headers = (struct.unpack_from("<IIQQQQI", data, sections_at + i * entry_size) for i in range(count))
    return [(kind, offset, size, link) for _, kind, _, _, offset, size, link in headers]


def _symbols(data, table):
    """Name, type and section (0: undefined) of the symbols of one table."""
    sections = _sections(data)
    for kind, offset, size, link in sections:
        if kind == table:
            names = sections[link][1]
            for at in range(offset, offset + size, 24):
                name, info, _, section = struct.unpack_from("<IBBH", data, at)
                start = names + name
                yield data[start : data.index(b"\0", start)].decode(), info & 15, section
