"""WebAssembly's modules and object files, as far as the engine has to know them."""

from collections.abc import Iterator

__all__ = ["calls_pointers", "import_memory"]

_CUSTOM, _IMPORT, _MEMORY = 0, 2, 5  # sections
_TYPE_INDEX = 6  # of a relocation: the type of a function that is called by a pointer
_OF_MEMORY = b"\x08hostcuda\x06memory\x02"  # an import: module, name, and that it is a memory
_WITH_ADDEND = {3, 4, 5, 8, 9, 11, 14, 15, 16, 17, 21, 22, 23, 25}


def calls_pointers(data: bytes) -> bool:
    """Whether the code of an object file calls functions by pointers."""
    for kind, body in _sections(data):
        if kind == _CUSTOM:
            length, at = _number(body, 0)
            if body[at : at + length] == b"reloc.CODE" and _TYPE_INDEX in _relocations(body, at + length):
                return True
    return False


def import_memory(data: bytes) -> bytes:
    """A module that imports its memory, in place of one of its own: all its instances can have the same."""
    limits = next(body[1:] for kind, body in _sections(data) if kind == _MEMORY)
    parts = [data[:8]]
    for kind, body in _sections(data):
        if kind == _IMPORT:
            count, at = _number(body, 0)
            body = b"".join((_encoded(count + 1), body[at:], _OF_MEMORY, limits))
        if kind != _MEMORY:
            parts += [bytes([kind]), _encoded(len(body)), body]
    return b"".join(parts)


def _sections(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The sections' numbers and bodies."""
    at = 8
    while at < len(data):
        kind, at = data[at], at + 1
        size, at = _number(data, at)
        yield kind, data[at : at + size]
        at += size


def _relocations(data, at):
    """The kinds of the relocations in a section's body."""
    _, at = _number(data, at)
    count, at = _number(data, at)
    for _ in range(count):
        kind, at = data[at], at + 1
        yield kind
        for _ in range(3 if kind in _WITH_ADDEND else 2):
            _, at = _number(data, at)


def _number(data, at):
    """A number in LEB128, and where it ends."""
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _encoded(number):
    """A number in LEB128."""
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])
