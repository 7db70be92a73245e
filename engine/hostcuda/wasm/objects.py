"""WebAssembly's object files, as far as the engine has to read them."""

# the number of a section; the kind of a relocation: type of a function called by pointer
_CUSTOM, _TYPE_INDEX = (0, 6)
_WITH_ADDEND = {3, 4, 5, 8, 9, 11, 14, 15, 16, 17, 21, 22, 23, 25}  # kinds of relocations


def calls_pointers(data: bytes) -> bool:
    """Return whether the code of a WebAssembly object file calls functions by pointers; `data` is its content."""
    at = 8  # after the magic number and the version; then a row of sections: kind, size, content
    while at < len(data):
        kind, at = data[at], at + 1
        size, at = _read_number(data, at)
        end = at + size
        if kind == _CUSTOM:  # its content begins with its name
            length, at = _read_number(data, at)
            name, at = data[at : at + length], at + length
            # a call by a pointer names the type of the function, which the linker numbers anew
            if name == b"reloc.CODE" and _TYPE_INDEX in _read_relocations(data, at):
                return True
        at = end
    return False


def _read_relocations(data: bytes, at: int):
    """Yield the kind of each relocation in the section whose body begins at index `at`."""
    _, at = _read_number(data, at)  # the section that the relocations are for
    count, at = _read_number(data, at)
    for _ in range(count):
        kind, at = data[at], at + 1
        yield kind
        for _ in range(3 if kind in _WITH_ADDEND else 2):  # skip offset, index and addend
            _, at = _read_number(data, at)


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Read a number in LEB128 at index `at`, 7 bits per byte, the lowest first; return it and the index after it."""
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
