"""Find a function's variables and their types in the debug information of a file that is not optimized."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from elftools.dwarf.descriptions import describe_form_class
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarf_expr import DWARFExprParser
from elftools.elf.elffile import ELFFile

MOST_ELEMENTS = 8  # of an array, and members of a struct, that are shown
# DWARF's encodings of a basic type (DW_ATE_*) -> NumPy's letter: float, bool, signed, unsigned
_LETTERS = {4: "f", 2: "?", 5: "i", 6: "i", 0x0D: "i", 7: "u", 8: "u", 0x10: "u"}
_TRANSPARENT = (
    "DW_TAG_typedef",
    "DW_TAG_const_type",
    "DW_TAG_volatile_type",
    "DW_TAG_restrict_type",
    "DW_TAG_atomic_type",
)
_POINTERS = ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")
_HALF = ("__half", "half")


@dataclass(frozen=True)
class Type:
    """A type whose values can be shown."""

    size: int  # bytes
    code: str = ""  # NumPy's code of a number; "pointer"; or empty
    target: Type | None = None  # the type that a pointer points to; None if it cannot be shown
    shape: tuple[int, ...] = ()  # of an array
    # (name, offset, `Type`) of the members of a struct, or of the first elements of an array, whose
    # names are empty
    parts: tuple = ()


@dataclass(frozen=True)
class Variable:
    """A variable or parameter."""

    name: str
    type: Type
    offset: int  # bytes from the frame pointer to its place
    low: int  # from here to `high` are the addresses of the code in which it is known
    high: int
    block: bool  # whether it belongs to a block that begins at `low`, not to the whole function


@dataclass
class Function:
    """A function, its variables (outer blocks first), and the types of its ``__shared__`` variables by name."""

    name: str
    low: int
    high: int
    variables: list[Variable] = field(default_factory=list)
    shared: dict[str, Type] = field(default_factory=dict)


def read_functions(file: ELFFile) -> tuple[list[Function], dict[str, Type]]:
    """Read from a compiled file's debug information its functions, and the types of its global variables by name.

    Functions that were inlined everywhere are left out. Local variables are left out if their place
    is not in the stack frame, if their type cannot be shown, or if their function was inlined.
    """
    units = file.get_dwarf_info().iter_CUs() if file.has_dwarf_info() else ()
    functions, variables = [], {}
    for unit in units:
        for die in unit.iter_DIEs():  # a DIE is an entry of the debug information
            if die.tag == "DW_TAG_subprogram":
                functions += _Reader(die, unit).read_function()
            elif (
                die.tag == "DW_TAG_variable"
                and "DW_AT_location" in die.attributes
                and (type_ := _read_type(die))
            ):
                variables.setdefault(_read_name(die), type_)
    return functions, variables


class _Reader:
    """Reads one function from its entry (DIE) in the debug information."""

    def __init__(self, die: DIE, unit):
        self._die, self._expressions = die, DWARFExprParser(unit.structs)

    def read_function(self) -> Iterator[Function]:
        """Yield one `Function`, or none if it has no code or a frame that is not understood."""
        extent = _read_extent(self._die)  # the addresses (low, high) of its code
        if extent is None or self._base is None:
            return
        function = Function(_read_name(self._die), *extent)
        self._collect(self._die, extent, function, block=False)
        yield function

    def _read_operation(self, die: DIE, attribute: str) -> tuple | None:
        """Return (name, arguments...) of the only operation of a location, such as ("DW_OP_fbreg", -20), or None."""
        value = die.attributes.get(attribute)
        if value is None or not isinstance(value.value, list):
            return None
        operations = self._expressions.parse_expr(value.value)
        return (operations[0].op_name, *operations[0].args) if len(operations) == 1 else None

    @cached_property
    def _base(self) -> int | None:
        """The bytes from the frame pointer to the place from which variables' offsets count; None if not known."""
        match self._read_operation(self._die, "DW_AT_frame_base"):
            case ("DW_OP_call_frame_cfa",):
                return 16  # above the saved frame pointer and the return address
            case ("DW_OP_reg6",):  # the frame pointer itself
                return 0
        return None

    def _collect(
        self, scope: DIE, extent: tuple[int, int], function: Function, block: bool
    ) -> None:
        """Add the variables that a scope (the function, or a `block` at addresses `extent`) declares to `function`."""
        for die in scope.iter_children():
            if (
                die.tag not in ("DW_TAG_variable", "DW_TAG_formal_parameter")
                or "DW_AT_artificial" in die.attributes
            ):
                continue  # artificial: made by the compiler, such as `this`
            name, type_ = _read_name(die), _read_type(die)
            place = self._read_operation(die, "DW_AT_location")
            if name and type_ and place and place[0] == "DW_OP_fbreg":  # in the frame
                function.variables.append(
                    Variable(name, type_, self._base + place[1], *extent, block)
                )
            elif name and type_ and "DW_AT_location" in die.attributes:
                # __shared__, which is thread-local here
                function.shared[name] = type_
        for die in scope.iter_children():
            if die.tag == "DW_TAG_lexical_block" and (inner := _read_extent(die)):
                self._collect(die, inner, function, block=True)


def _read_extent(die: DIE) -> tuple[int, int] | None:
    """Return the addresses (low, high) of an entry's code, high excluded; None if it has none, or several pieces."""
    low, high = (die.attributes.get(f"DW_AT_{end}_pc") for end in ("low", "high"))
    if low is None or high is None:
        return None
    is_length = describe_form_class(high.form) == "constant"
    return low.value, high.value + (low.value if is_length else 0)


def _read_name(die: DIE) -> str:
    """Return the name of what an entry describes, also if it stands at another entry, its declaration; "" if none."""
    while "DW_AT_name" not in die.attributes:
        link = next(
            (
                name
                for name in ("DW_AT_specification", "DW_AT_abstract_origin")
                if name in die.attributes
            ),
            None,
        )
        if link is None:
            return ""
        die = die.get_DIE_from_attribute(link)
    return die.attributes["DW_AT_name"].value.decode(errors="replace")


def _read_type(die: DIE) -> Type | None:
    """Return the type of what an entry declares; None if its values cannot be shown."""
    if "DW_AT_type" not in die.attributes:
        return None
    die = die.get_DIE_from_attribute("DW_AT_type")
    while die.tag in _TRANSPARENT:
        if "DW_AT_type" not in die.attributes:
            return None
        die = die.get_DIE_from_attribute("DW_AT_type")
    size = die.attributes["DW_AT_byte_size"].value if "DW_AT_byte_size" in die.attributes else 0
    if die.tag == "DW_TAG_base_type":
        letter = _LETTERS.get(die.attributes["DW_AT_encoding"].value)
        return (
            Type(size, letter if letter == "?" else f"{letter}{size}")
            if letter and size <= 8
            else None
        )
    if die.tag == "DW_TAG_enumeration_type":
        return Type(size, f"i{size}") if size <= 8 else None
    if die.tag in _POINTERS:
        # a list's struct points to its own type
        target = None if _points_to_a_struct(die) else _read_type(die)
        return Type(8, "pointer", target)
    if die.tag == "DW_TAG_array_type":
        return _read_array(die)
    return (
        _read_struct(die, size)
        if die.tag in ("DW_TAG_structure_type", "DW_TAG_class_type")
        else None
    )


def _points_to_a_struct(die: DIE) -> bool:
    """Return whether a pointer's type leads to a struct other than `half`, through pointers, `const` and so on."""
    while "DW_AT_type" in die.attributes:
        die = die.get_DIE_from_attribute("DW_AT_type")
        if die.tag in ("DW_TAG_structure_type", "DW_TAG_class_type"):
            return _read_name(die) not in _HALF
    return False


def _read_array(die: DIE) -> Type | None:
    """Return the type of an array, or None if a size or the elements' type is not known."""
    element, shape = _read_type(die), []
    for part in die.iter_children():
        if part.tag != "DW_TAG_subrange_type":
            continue
        if "DW_AT_count" in part.attributes:
            shape.append(part.attributes["DW_AT_count"].value)
        elif "DW_AT_upper_bound" in part.attributes and isinstance(
            part.attributes["DW_AT_upper_bound"].value, int
        ):
            shape.append(part.attributes["DW_AT_upper_bound"].value + 1)
        else:
            return None
    count = math.prod(shape)
    if element is None or not shape or count < 1:
        return None
    parts = tuple(("", i * element.size, element) for i in range(min(count, MOST_ELEMENTS)))
    return Type(count * element.size, shape=tuple(shape), parts=parts)


def _read_struct(die: DIE, size: int) -> Type | None:
    """Return the type of a struct of `size` bytes; None if it has too many members, or one that cannot be shown."""
    if _read_name(die) in _HALF and size == 2:
        return Type(2, "f2")
    members = [
        part for part in die.iter_children() if part.tag in ("DW_TAG_member", "DW_TAG_inheritance")
    ]
    # not static ones
    members = [part for part in members if "DW_AT_external" not in part.attributes]
    if not 1 <= len(members) <= MOST_ELEMENTS:
        return None
    parts = []
    for part in members:
        offset, type_ = part.attributes.get("DW_AT_data_member_location"), _read_type(part)
        if (
            type_ is None
            or offset is None
            or not isinstance(offset.value, int)
            or "DW_AT_bit_size" in part.attributes
        ):
            return None
        parts.append((_read_name(part), offset.value, type_))
    return Type(size, parts=tuple(parts))


def decode(kind: Type, data: bytes, known: bytes) -> Any:
    """Return the value of a variable from its bytes `data`: a number, `Pointer`, dict (struct) or list (array).

    `known` has a byte per byte of `data`: not 0 if the program has set it. A value, or a part of a
    struct or array, with a byte that was not set is None.
    """
    if kind.parts:
        values = [
            decode(part, data[at : at + part.size], known[at : at + part.size])
            for _, at, part in kind.parts
        ]
        if not kind.parts[0][0]:  # no name: an element of an array
            return values
        return dict(zip((name for name, _, _ in kind.parts), values, strict=True))
    if not all(known) or len(data) != kind.size:
        return None
    if kind.code == "pointer":
        return Pointer(int.from_bytes(data, "little"), kind.target)
    return np.frombuffer(data, kind.code)[0].item()


@dataclass(frozen=True)
class Pointer:
    """The value of a pointer: an address, and the type of what is there (None if it cannot be shown)."""

    address: int
    target: Type | None


def find_element_type(kind: Type | None, size: int) -> Type | None:
    """Return the type of an access of `size` bytes to a variable of type `kind`; None if unknown.

    It is the type of the variable's elements, or an array of several of them.
    """
    # parts: (name, offset in bytes, type) of each member or element
    while kind and kind.shape:  # an array, also of arrays
        kind = kind.parts[0][2]  # the type of its elements
    if kind is None or kind.size == size:
        return kind
    count, rest = divmod(size, kind.size)
    if rest or not kind.code or kind.code == "pointer":
        return None
    return Type(size, shape=(count,), parts=tuple(("", i * kind.size, kind) for i in range(count)))
