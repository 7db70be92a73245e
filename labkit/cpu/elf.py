"""The sizes of ``__shared__`` arrays in a compiled kernel file.

The engine compiles ``__shared__`` variables to thread-local ones, so the file's symbol table has their sizes. The
mangled name contains the function that declares the variable.
"""

import struct
from pathlib import Path

__all__ = ["shared_sizes", "static_shared"]

_SYMTAB, _TLS = 2, 6  # sh_type, symbol type


def shared_sizes(path):
    """Mangled names and sizes in bytes of the thread-local variables of a 64-bit ELF file; empty for other files."""
    data = Path(path).read_bytes()
    if data[:5] != b"\x7fELF\x02":
        return {}
    sections_at, entry_size, count = (
        struct.unpack_from("<Q", data, 0x28)[0],
        *struct.unpack_from("<HH", data, 0x3A),
    )
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, sections_at + i * entry_size) for i in range(count)]
    sizes = {}
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind != _SYMTAB:
            continue
        names = sections[link][4]
        for at in range(offset, offset + size, 24):
            name, info, _, _, _, bytes_ = struct.unpack_from("<IBBHQQ", data, at)
            if info & 15 == _TLS and bytes_:
                start = names + name
                sizes[data[start : data.index(b"\0", start)].decode()] = bytes_
    return sizes


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
