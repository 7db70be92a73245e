"""What the files of compiled kernels say of themselves: ``__shared__`` arrays, functions that they call.

The engine compiles ``__shared__`` variables to thread-local ones, so the file's symbol table has their sizes. The
mangled name contains the function that declares the variable.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Linkage", "linkage", "shared_sizes", "static_shared"]

_SYMTAB, _DYNSYM, _INIT_ARRAY = 2, 11, 14  # sh_type
_FUNC, _TLS, _IFUNC = 2, 6, 10  # symbol type


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
        frozenset(name for name, _, section, _ in dynamic if not section and name),
        tuple(name for name, kind, section, _ in own if section and kind == _FUNC),
        tuple(name for name, kind, _, _ in own + dynamic if kind == _IFUNC),
        sum(size for kind, _, size, _ in _sections(data) if kind == _INIT_ARRAY) // 8,
    )


def shared_sizes(path):
    """Mangled names and sizes in bytes of the thread-local variables of a 64-bit ELF file; empty for other files."""
    data = Path(path).read_bytes()
    return {name: size for name, kind, _, size in _symbols(data, _SYMTAB) if kind == _TLS and size}


def _sections(data):
    """Type, offset, size and linked section of each section; none for other files than 64-bit ELF."""
    if data[:5] != b"\x7fELF\x02":
        return []
    sections_at, entry_size, count = struct.unpack_from("<Q", data, 0x28)[0], *struct.unpack_from("<HH", data, 0x3A)
    headers = (struct.unpack_from("<IIQQQQI", data, sections_at + i * entry_size) for i in range(count))
    return [(kind, offset, size, link) for _, kind, _, _, offset, size, link in headers]


def _symbols(data, table):
    """Name, type, section (0: undefined) and size of the symbols of one table."""
    sections = _sections(data)
    for kind, offset, size, link in sections:
        if kind == table:
            names = sections[link][1]
            for at in range(offset, offset + size, 24):
                name, info, _, section, _, bytes_ = struct.unpack_from("<IBBHQQ", data, at)
                start = names + name
                yield data[start : data.index(b"\0", start)].decode(), info & 15, section, bytes_


def static_shared(sizes, symbol):
    """Bytes of the variables that a kernel declares, and of those at namespace scope.

    Parameters
    ----------
    sizes : dict
        From `shared_sizes`.
    symbol : str
        The kernel's symbol as mangled by the compiler (a plain name if it is ``extern "C"``).

    Returns
    -------
    own, common : int
        ``common`` are variables at namespace scope; those of ``__device__`` functions are in neither.
    """
    function = symbol[2:] if symbol.startswith("_Z") else f"{len(symbol)}{symbol}"
    own = sum(size for name, size in sizes.items() if name.startswith("_ZZ") and f"{function}E" in name)
    common = sum(size for name, size in sizes.items() if not name.startswith("_ZZ"))
    return own, common
