"""Write places in arrays as a kernel does: the runtime knows neither types nor dimensions."""

import math
import re
from collections.abc import Iterable

# The runtime's "element 9 of an allocation, one past the end of its 9 elements of 4 bytes",
# "element 3 of an allocation of 9 elements of 4 bytes". It knows no types; `format_element` writes
# "x[9], one past the end of 9 floats" for it.
PLACE = re.compile(
    r"element (-?\d+) of an allocation(?:, (\w+) ([a-z ]+) its| of) (\d+) elements of (\d+) bytes?"
)
# The type that a pointer points to, and the parameter's name: ("float", "x") in "const float
# *__restrict__ x".
_PARAMETER = re.compile(
    r"(?:\b(\w+)(?:\s+const)?\s*\*\s*(?:\w*(?:const|restr)\w*\s*)*)?(?<!\w)(\w+)\s*(?:\[\w*\])?$"
)
# bytes
KINDS = {"bool": 1, "char": 1, "half": 2, "short": 2, "int": 4, "float": 4, "long": 8, "double": 8}
_SIZES = {
    **KINDS,
    "unsigned": 4,
    "size_t": 8,
    **{f"{u}int{8 * n}_t": n for u in ("", "u") for n in (1, 2, 4, 8)},
    **{
        f"{u}{kind}{n}": n * size
        for u in ("", "u", "__")
        for kind, size in KINDS.items()
        for n in (1, 2, 3, 4)
    },
}


def find_parameters(
    offsets: Iterable[int], declarations: Iterable[str]
) -> dict[int, tuple[str, str]]:
    """Map the offset of each argument of a kernel to (parameter's name, type of a pointer's elements or "").

    `declarations` are the parameters as the kernel declares them: ["const float *x", "int n"] with
    the offsets [0, 8] gives {0: ("x", "float"), 8: ("n", "")}.
    """
    # not strict: the declarations of a kernel that is not in the source are missing
    pairs = zip(offsets, map(_PARAMETER.search, declarations), strict=False)
    return {offset: (match[2], match[1] or "") for offset, match in pairs if match}


def format_element(
    index: str,
    distance: str | None,
    side: str | None,
    count: str,
    unit_bytes: str,
    name: str,
    type_name: str,
    start: int,
) -> str:
    """Return a place in an array as a kernel writes it: "x[1000], one past the end of 1000 floats".

    The first five are the words that `PLACE` finds in a message: "9", "one", "past the end of", "9"
    and "4" in "element 9 of an allocation, one past the end of its 9 elements of 4 bytes"; `distance`
    and `side` are None in "element 3 of an allocation of 9 elements of 4 bytes". The kernel's
    parameter is `name`, a pointer to the byte `start` of the allocation. If the size of its type is
    not known, bytes are counted.
    """
    # in bytes from the allocation's begin; `away` is the distance, for which a message may say "one" or nothing
    at, away, end = (
        int(n) * int(unit_bytes)
        for n in (index, {"one": 1, None: 0}.get(distance, distance), count)
    )
    # now counted from the byte to which the pointer points
    at, end, size = (at - start, end - start, _SIZES.get(type_name))
    if not size:
        return f"byte {at} of {name}, which has {end} bytes"
    if start and at < 0:  # before the pointer, which points into the allocation
        where = f"{-(-away // size) if away > size else 'one'} {side}" if side else "in"
        return f"{name}[{at // size}], {where} the allocation that {name} points into"
    words = f"{type_name}s" if type_name in KINDS else f"elements of {size} byte{'s' * (size > 1)}"
    elements_away = -(-away // size)  # rounded up; 0 without a distance: "x[3], one of 9 floats"
    return f"{name}[{at // size}], {elements_away if elements_away > 1 else 'one'} {side or 'of'} {end // size} {words}"


# The runtime's "element 9 of the __shared__ array s, one past the end of its 9 elements of 4 bytes".
SHARED_PLACE = re.compile(
    r"element (-?\d+) of the __shared__ array (\w+)(?:, (\w+) ([a-z ]+) its| of) (\d+) elements of (\d+) bytes?"
)
# the text behind __shared__, up to the end of the declaration
_SHARED_DECLARATION = re.compile(r"\b__shared__\b([^;{}]{1,500})")
_ALIGNED = re.compile(r"\b(?:__align__|alignas)\s*\([^()]{0,50}\)")
_CONSTANT = r"(?:#\s*define\s+{0}\s+|\b(?:constexpr|const)\b[^;=]{{0,200}}\b{0}\s*=\s*)\(?(\d+)\b"


def _find_shared_array(source: str, name: str, size: int) -> tuple[str, list[int]] | None:
    """Return the type and the dimensions of the ``__shared__`` array of that name that has `size` bytes, or None.

    A dimension is known if it is a number or a constant of the source. If no array of the name has
    known dimensions and this size, but all have one type, the list of dimensions is empty. None if the
    type has no known size, or two arrays of the source fit.
    """
    fitting, types = set(), set()
    for match in _SHARED_DECLARATION.finditer(source):
        # "half a[8][8], b[16]" becomes ["half a[8][8]", " b[16]"]
        declarators = _ALIGNED.sub(" ", match[1]).split(",")
        words = re.findall(r"\w+", declarators[0].partition("[")[0])
        for declarator in declarators:
            before, bracket, behind = declarator.partition("[")
            if len(words) < 2 or not bracket or not re.search(rf"\b{name}\s*$", before):
                continue
            type_name = words[-2]
            if "half" in type_name:
                type_name = type_name.removeprefix("__").removesuffix("_t")
            types.add(type_name)
            dimensions = []
            for word in re.findall(r"\[([^]]+)\]", bracket + behind.partition("=")[0]):
                value = word = word.strip()
                if not word.isdigit():
                    is_name = re.fullmatch(r"\w+", word)
                    constant = is_name and re.search(_CONSTANT.format(word), source)
                    value = constant[1] if constant else "0"
                dimensions.append(int(value))
            if dimensions and math.prod(dimensions) * _SIZES.get(type_name, 0) == size:
                fitting.add((type_name, tuple(dimensions)))
    if len(fitting) == 1:
        type_name, dimensions = fitting.pop()
        return type_name, [*dimensions]
    if fitting or len(types) != 1:
        return None
    type_name = types.pop()
    return (type_name, []) if size % _SIZES.get(type_name, size + 1) == 0 else None


def format_shared(source: str, place: re.Match) -> str:
    """Return a place in a shared array as the kernel writes it: with all indices, and the array's type.

    `place` is a match of `SHARED_PLACE` in a message, which has one index. The result is "s[3][7][0]
    of the __shared__ array s of 4 x 8 x 8 halfs", or "element 248 of the __shared__ array s of 256
    halfs" if the dimensions are not known. The text is returned as it is if the array is not found in
    `source`, or has at most one known dimension and elements as large as the access.
    """
    index, name, distance, side, count, unit = place.groups()
    size = int(count) * int(unit)  # unit: bytes per element in the message, those of the access
    # ("half", [4, 8, 8]): the array's type and dimensions; its name and its bytes identify it
    array = _find_shared_array(source, name, size)
    if not array or (len(array[1]) <= 1 and _SIZES[array[0]] == int(unit)):
        return place[0]
    type_name, dimensions = array
    at, indices = int(index) * int(unit) // _SIZES[type_name], []
    for length in reversed(dimensions[1:]):  # from the last index, which changes fastest
        at, rest = divmod(at, length)
        indices.append(rest)
    element = name + "".join(f"[{i}]" for i in (at, *reversed(indices)))
    many = " x ".join(map(str, dimensions)) + f" {type_name}s"
    if not dimensions:
        element, many = f"element {at}", f"{size // _SIZES[type_name]} {type_name}s"
    if not side:
        return f"{element} of the __shared__ array {name} of {many}"
    away = -(-int({"one": 1}.get(distance, distance)) * int(unit) // _SIZES[type_name])
    return (
        f"{element} of the __shared__ array {name}, {away if away > 1 else 'one'} {side} its {many}"
    )
