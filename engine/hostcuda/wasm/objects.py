"""WebAssembly's object files, as far as the engine has to know them."""

_CUSTOM, _TYPE_INDEX = 0, 6  # a section's number; a relocation's: the type of a function that is called by a pointer
_WITH_ADDEND = {3, 4, 5, 8, 9, 11, 14, 15, 16, 17, 21, 22, 23, 25}


def calls_pointers(data: bytes) -> bool:
    """Whether the code of an object file calls functions by pointers."""
    at = 8
    while at < len(data):
        kind, at = data[at], at + 1
        size, at = _number(data, at)
        end = at + size
        if kind == _CUSTOM:
            length, at = _number(data, at)
            name, at = data[at : at + length], at + length
            if name == b"reloc.CODE" and _TYPE_INDEX in _relocations(data, at):
                return True
        at = end
    return False


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
