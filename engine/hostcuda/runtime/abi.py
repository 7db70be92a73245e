"""The runtime library's interface for ctypes: the structs and functions of ``abi.h``, read from that file."""

import ctypes
import re

from hostcuda.host.toolchain import RUNTIME

_TYPES = {
    "void": None,
    "char": ctypes.c_char,
    "int": ctypes.c_int,
    "unsigned": ctypes.c_uint,
    "uint32_t": ctypes.c_uint32,
    "size_t": ctypes.c_size_t,
    "ptrdiff_t": ctypes.c_ssize_t,
    "double": ctypes.c_double,
}
# "const char *name", "int size, align", "unsigned grid[3]"
_DECLARATION = re.compile(
    r"(?:const )?(?P<type>\w+) (?P<stars>\**)(?P<names>[\w, ]+)(?:\[(?P<count>\d+)\])?"
)


def _parse(declaration: str) -> tuple[list[str], type | None]:
    """Return the names and the ctypes type of a C declaration: (["x", "y"], c_int) for "int x, y".

    A pointer to an unknown struct is a `c_void_p`, and the type of "void f" is None.
    """
    match = _DECLARATION.fullmatch(" ".join(declaration.split()))
    type_, stars = _TYPES.get(match["type"]), match["stars"]
    if stars and type_ in (None, ctypes.c_char):
        type_, stars = ctypes.c_char_p if type_ else ctypes.c_void_p, stars[1:]
    for _ in stars:
        type_ = ctypes.POINTER(type_)
    return match["names"].split(", "), type_ * int(match["count"]) if match["count"] else type_


_abi_text = re.sub(r"//.*|/\*.*?\*/|(?m:^#.*)", "", (RUNTIME / "abi.h").read_text(encoding="utf-8"))
# "struct hc_patch { void *at; ptrdiff_t value; int kind; }"; a struct may have members of the types
# before it.
for _name, _body in re.findall(r"struct (\w+) \{(.*?)\}", _abi_text, re.DOTALL):
    _fields = [
        (field, type_) for names, type_ in map(_parse, _body.split(";")[:-1]) for field in names
    ]
    _TYPES[_name] = type(_name, (ctypes.Structure,), {"_fields_": _fields})
KernelInfo, Array, Static, Patch, Variable, Record = (
    _TYPES[f"hc_{name}"]
    for name in ("kernel_info", "array", "static", "patch", "variable", "record")
)


def declare(library: ctypes.CDLL) -> None:
    """Set `restype` and `argtypes` of the library's functions, as abi.h declares them.

    A declaration is "int hc_start(int workers);".
    """
    # `_abi_text` is the text of abi.h without comments
    for result, name, parameters in re.findall(
        r"(?m)^(\w[\w ]* \**)(hc_\w+)\(([^)]*)\);", _abi_text
    ):
        function = getattr(library, name)
        _, function.restype = _parse(f"{result}{name}")  # `_parse` returns (names, type)
        function.argtypes = [
            _parse(parameter)[1] for parameter in parameters.split(",") if parameter != "void"
        ]
