"""Find the variables of a compiled kernel file, in the form that the runtime needs.

For the compiler, ``__shared__`` variables are thread-local (``include/hostcuda/words.h``). Its code
finds a variable by two words in the module's data: a function and its argument (a "TLS descriptor",
x86-64 and aarch64), or the arguments of ``__tls_get_addr`` (clang on x86-64). The loader would
place the variables on the heap. Here each gets a distance of its own from the end of its worker's
static shared memory, and the runtime changes these words (``runtime/shared.cpp``, which says how
that memory looks). For clang on x86-64 the variables are a group with one pair of words, and the
code adds the offset of each. The linker keeps a list of these places (``toolchain.py``), and they
are changed, too. Without the list, the group ends at the guard, and there are no margins within it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from hostcuda.check import mode as checkmode
from hostcuda.errors import LogicError
from hostcuda.runtime import elf
from hostcuda.runtime.abi import Array, Patch, Static, Variable

MARGIN = 128  # bytes around an array: one row of banks, so that arrays stay in their banks
# How code finds thread-local variables: relocations of x86-64 (R_X86_64_TLSDESC, _DTPMOD64,
# _DTPOFF32) and aarch64.
_DESCRIPTOR, _ARGUMENTS, _OFFSET = {"x86_64": (36, 16, 21), "aarch64": (1031, 1028, None)}[
    platform.machine()
]
# of enum Space in runtime/check.h
_SPACES = {"global": 0, "constant": 2, "unwatched": 4, "engine": 5}


@dataclass
class _Shared:
    """A ``__shared__`` variable, or one that the compiler has made for its constructor (`hidden`): a guard."""

    symbol: str
    name: str
    offset: int  # in the thread-local segment
    bytes: int
    hidden: bool
    place: int = 0  # from the end of static shared memory


@dataclass
class Layout:
    """Where the code and the variables of a loaded module are."""

    text: tuple = (0, 0)  # addresses of its code: begin and end
    functions: dict = field(default_factory=dict)  # address -> symbol
    variables: dict = field(default_factory=dict)  # symbol -> (address, bytes)
    constant_bytes: int = 0  # the size of all ``__constant__`` variables
    # `Patch`es: how code finds ``__shared__`` variables, with new values
    patches: list = field(default_factory=list)
    watched: list = field(default_factory=list)  # `Variable`s: what check mode knows by name
    # symbol of a kernel -> (`Static`, bytes of the arrays that it declares, bytes of arrays outside
    # of functions)
    statics: dict = field(default_factory=dict)


def layout(path: str | os.PathLike, base: int, functions: Iterable[int]) -> Layout:
    """Find out where a loaded file has its functions and variables; choose places for its ``__shared__`` variables.

    In check mode the result also lists the variables that accesses are compared with.

    Parameters
    ----------
    path : path-like
    base : int
        The address at which the file was loaded: its own addresses count from there.
    functions : iterable of int
        Addresses of the functions that are kernels.

    Raises
    ------
    LogicError
        The file's code finds its variables in a way that is not known here.
    """
    file = elf.Elf(path)  # its addresses count from 0
    # the segments that are executable
    code = [s for s in file.segments if s.kind == elf.PT_LOAD and s.flags & elf.PF_X]
    result = Layout(  # begin and end of the code
        (base + min(s.address for s in code), base + max(s.address + s.bytes for s in code))
    )
    # without those that another file defines (SHN_UNDEF)
    symbols = [symbol for symbol in file.symbols(elf.SHT_SYMTAB) if symbol.section != elf.SHN_UNDEF]
    result.functions = {base + s.value: s.name for s in symbols if s.kind == elf.STT_FUNC}
    result.variables = {
        s.name: (base + s.value, s.bytes) for s in symbols if s.kind == elf.STT_OBJECT
    }
    if checkmode.TOOLS:
        # also sets `constant_bytes`, without the unused bytes that check mode adds behind each variable
        _list_watched_variables(result, file, base, symbols)
    else:
        # ``__constant__`` variables are in sections of this name, by an attribute in
        # include/hostcuda/words.h
        result.constant_bytes = sum(
            s.bytes for s in file.sections if s.name.startswith("hc_constant")
        )
    kernels = [result.functions[address] for address in functions if address in result.functions]
    _place_shared(result, file, base, symbols, kernels)
    return result


def read_shared_bytes(path: str | os.PathLike, kernel: str) -> int | None:
    """Return how many bytes of static shared memory a kernel uses, from a compiled file that is not loaded.

    `kernel` is the kernel's symbol. Returns None if the file has no such function.
    """
    symbols = elf.Elf(path).symbols(elf.SHT_SYMTAB)
    if not any(s.name == kernel and s.kind == elf.STT_FUNC for s in symbols):
        return None
    # Shared variables are thread-local ones in the file: those of the kernel, and those outside of
    # functions, which any kernel may use. The symbols of variables in functions begin with "_ZZ"; the
    # compiler adds hidden variables, which say whether a constructor has run.
    return sum(
        s.bytes
        for s in symbols
        if s.kind == elf.STT_TLS
        and (_declares(kernel, s.name) or not (_is_hidden(s.name) or s.name.startswith("_ZZ")))
    )


# Of `check.instrument` and `check.mode`: the runtime finds them by these names.
_OF_CHECK_MODE = ("hostcuda_log", "hostcuda_pieces", "hostcuda_accesses", "hostcuda_padding")


def _list_watched_variables(
    result: Layout, file: elf.Elf, base: int, symbols: list[elf.Symbol]
) -> None:
    """For check mode, add the variables of a file loaded at `base` to the result's `watched` and `constant_bytes`."""
    for segment in file.segments:  # read-only data: accesses to it are not reported
        if segment.kind == elf.PT_LOAD and not segment.flags & (elf.PF_W | elf.PF_X):
            result.watched.append(
                Variable(None, base + segment.address, segment.bytes, _SPACES["unwatched"])
            )
    for symbol in symbols:
        if symbol.kind != elf.STT_OBJECT or symbol.section >= elf.SHN_LORESERVE or not symbol.bytes:
            continue
        section = file.sections[symbol.section]
        constant, variable = (
            section.name.startswith("hc_constant"),
            section.name in (".data", ".bss"),
        )
        name, space = demangle(symbol.name), "unwatched"
        if symbol.name in _OF_CHECK_MODE:
            space = "engine"
        elif not section.flags & elf.SHF_WRITE or (
            variable and re.search("hostcuda_|^completed.0$", symbol.name)
        ):
            continue  # the engine's, or the compiler's
        elif constant:
            space = "constant"
            result.constant_bytes += symbol.bytes  # the section's size includes red zones
        elif variable and not symbol.name.startswith("_ZGV"):
            # _ZGV: the guard of a static variable
            space = "global"
        result.watched.append(
            Variable(name.encode(), base + symbol.value, symbol.bytes, _SPACES[space])
        )


def _declares(kernel: str, variable: str) -> bool:
    """Return whether a kernel declares a variable, by their symbols.

    _ZZ4convPfE4tile is in _Z4convPf, _ZZ4convE4tile in the extern "C" conv; more Zs stand for
    functions within.
    """
    function = (kernel[2:] if kernel.startswith("_Z") else f"{len(kernel)}{kernel}") + "E"
    return variable.startswith("_ZZ") and variable[1:].lstrip("Z").startswith(function)


def _is_hidden(symbol: str) -> bool:
    """Return whether a symbol is that of a guard, which says whether a variable's constructor has run."""
    return symbol.startswith("_ZGV") or symbol == "__tls_guard"


def _place_shared(
    result: Layout, file: elf.Elf, base: int, symbols: list[elf.Symbol], kernels: list[str]
) -> None:
    """Choose a place for each ``__shared__`` variable of the kernels (symbols); add to the result's statics, patches.

    After static shared memory is a guard, memory that cannot be accessed. The arrays of each kernel
    end there, in the same memory, because a worker runs one kernel at a time. Arrays that several
    kernels may use are before them. In a group (code adds offsets to one address, with clang), all
    stay where the compiler has put them.
    """
    segment = next((s for s in file.segments if s.kind == elf.PT_TLS), None)
    arrays = [
        _Shared(s.name, demangle(s.name), s.value, s.bytes, _is_hidden(s.name))
        for s in symbols
        if s.kind == elf.STT_TLS and s.bytes
    ]
    arrays.sort(key=lambda array: array.offset)
    words, offsets = _find_relocations(file)
    is_group = any(word.kind == _ARGUMENTS for word in words) and not offsets
    arrays_by_kernel, common = {kernel: [] for kernel in kernels}, []  # common: of no kernel alone
    for array in arrays:
        next(
            (arrays_by_kernel[kernel] for kernel in kernels if _declares(kernel, array.symbol)),
            common,
        ).append(array)

    group_bytes = _round_up(segment.bytes, segment.alignment) if segment else 0

    def place_arrays(own_arrays, used_bytes):
        """Place arrays, each aligned, before the last `used_bytes` before the guard; return the bytes then used."""
        for array in reversed(own_arrays):
            # the lowest bit that is set: that of the compiler's own place
            alignment = array.offset & -array.offset
            alignment = min(alignment, segment.alignment) if alignment else segment.alignment
            # at least that of a float4, as on a GPU
            while alignment < 16 and alignment < array.bytes:
                alignment *= 2
            used_bytes = _round_up(used_bytes + array.bytes, alignment)
            # from the guard, so negative
            array.place = array.offset - group_bytes if is_group else -used_bytes
            used_bytes += MARGIN
        return group_bytes + MARGIN if is_group and own_arrays else used_bytes

    used_bytes = {
        kernel: place_arrays(kernel_arrays, 0) for kernel, kernel_arrays in arrays_by_kernel.items()
    }
    most_bytes = place_arrays(common, max(used_bytes.values(), default=0))
    # Of variables outside of functions; "_ZZ" begins the symbols of those in a function, such as a
    # __device__ one.
    outside = sum(
        array.bytes for array in common if not array.hidden and not array.symbol.startswith("_ZZ")
    )
    for kernel, kernel_arrays in arrays_by_kernel.items():
        visible = arrays if is_group else common + kernel_arrays
        size = group_bytes + MARGIN if is_group else most_bytes if common else used_bytes[kernel]
        rows = (Array * len(visible))(*(_describe(array, segment, base) for array in visible))
        result.statics[kernel] = (
            Static(rows, len(visible), size),
            sum(array.bytes for array in kernel_arrays),
            outside,
        )
    _redirect_accesses(result, base, arrays, words, offsets)


def _round_up(value: int, unit: int) -> int:
    """Return the smallest multiple of `unit` that is at least `value`."""
    return -(-value // unit) * unit


def _describe(array: _Shared, segment: elf.Segment, base: int) -> tuple:
    """Return the fields of ``hc_array`` for an array in the thread-local segment of a file loaded at `base`."""
    # its initial values
    image = base + segment.address + array.offset if array.offset < segment.file_bytes else None
    return array.name.encode(), image, array.bytes, array.place, array.hidden


def _find_relocations(file: elf.Elf) -> tuple[list[elf.Relocation], list[elf.Relocation]]:
    """Return two lists of relocations, by which the code of a file finds thread-local variables.

    The first are of words in the module's data, the second of offsets in the code itself; see the module.
    """
    words, offsets = [], []
    for section in file.sections:
        if section.kind != elf.SHT_RELA:
            continue
        # those that the loader resolves; else of the linker (--emit-relocs)
        if section.flags & elf.SHF_ALLOC:
            # without a section, the symbol would be another file's
            words += [
                entry
                for entry in file.relocations(section)
                if entry.kind in (_DESCRIPTOR, _ARGUMENTS)
                and (entry.symbol is None or entry.symbol.section)
            ]
        # `info` is the index of the section that they change: here one with code
        elif file.sections[section.info].flags & elf.SHF_EXECINSTR:
            offsets += [entry for entry in file.relocations(section) if entry.kind == _OFFSET]
    return words, offsets


def _redirect_accesses(
    result: Layout, base: int, arrays: list[_Shared], words: list, offsets: list
) -> None:
    """Add to `result.patches` what makes the code find each array at its new place.

    `words` and `offsets` are what `_find_relocations` returns for the file, loaded at the address `base`.
    """

    def find_place(offset):
        """Return the new place of a byte of the thread-local segment, as `_Shared.place`."""
        for array in arrays:
            if array.offset <= offset < array.offset + array.bytes:
                return array.place + offset - array.offset
        raise LogicError(f"no __shared__ variable is at byte {offset} of the thread-local segment")

    for entry in offsets:  # the letters are hc_patch_kind in abi.h
        result.patches.append(
            Patch(base + entry.place, find_place(entry.symbol.value) + entry.addend, ord("c"))
        )
    for entry in words:
        address = base + entry.place
        if entry.kind == _DESCRIPTOR:
            offset = entry.addend + (entry.symbol.value if entry.symbol else 0)
            result.patches.append(Patch(address, find_place(offset), ord("d")))
        else:
            # of the two arguments, the second
            offset = ctypes.c_size_t.from_address(address + 8).value
            # 0 if the code adds the offset of each array, which is then changed above.
            result.patches.append(Patch(address, 0 if offsets else find_place(offset), ord("a")))


def demangle(symbol: str) -> str:
    """Return a variable's name as declared: "tile" for the symbol "_ZZ4convE4tile"; another symbol as it is."""
    if not symbol.startswith("_Z"):
        return symbol
    cxx = ctypes.CDLL(None)  # the runtime brings the C++ library
    convert = getattr(cxx, "__cxa_demangle")
    convert.restype = ctypes.c_void_p
    text = convert(symbol.encode(), None, None, None)
    if not text:
        return symbol
    name = ctypes.string_at(text).decode().rpartition("::")[2]  # "conv()::tile": "tile"
    cxx.free(ctypes.c_void_p(text))  # the text is from malloc
    return name
