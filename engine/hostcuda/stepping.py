"""One thread of a kernel, followed from statement to statement with the values of its variables.

The CPU engine compiles the kernel without optimization, and keeps the thread's frame before each
statement, and its accesses. The launch is made twice, and memory that has not been set has other
contents each time: a value that differs has not been set, and is None. A comparison with it may
have the same result twice; initcheck finds that read.

The environment variable ``HOSTCUDA_CHECK=step`` has to be set before the first import. This is for
x86-64 and g++.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from elftools.elf.elffile import ELFFile

from hostcuda.check import dwarf, instrument, stops
from hostcuda.check.dwarf import Pointer
from hostcuda.check.mode import TOOLS
from hostcuda.errors import EngineError, LaunchError
from hostcuda.host import toolchain
from hostcuda.runtime import native

__all__ = ["Access", "Pointer", "Step", "follow", "why_not"]

_PATTERNS = 0x5A, 0xC3  # contents of memory that is not set: both halves of a byte differ
_ENDED = "the thread was followed to its end"  # why the runtime leaves the rest of the launch out
_EVENT = struct.Struct("<IIII QQQQ")
_STOP = struct.Struct("<IIiI")
_OPERATIONS, _SPACES = ("ld", "st", "atom"), ("global", "shared", "constant", "local", "")


@dataclass(frozen=True)
class Access:
    """An access to global, shared or constant memory.

    Attributes
    ----------
    op, space : str
        "ld", "st" or "atom"; "global", "shared" or "constant".
    name : str
        Name of the variable; empty for an allocation, and for dynamic shared memory.
    shape : tuple of int
        Shape of the variable, if it is an array.
    base, bytes : int
        Address and size of the variable or allocation.
    address, size : int
    value
        The value that was loaded, or that is there after the access, like that of a variable; None
        if it has not been set, or if its type is not known.
    """

    op: str
    space: str
    name: str
    shape: tuple[int, ...]
    base: int
    bytes: int
    address: int
    size: int
    value: Any


@dataclass
class Step:
    """A line that the thread ran.

    Attributes
    ----------
    file : str
        As the compiler names it.
    line : int
    function : str
    frame : int
        Which call of the function.
    before, after : dict of str to value
        The variables that are known there, before the line and after it: numbers, `Pointer`, lists
        (the first elements of an array), dicts (a struct); None if a value has not been set.
        `after` is empty if the function ends there.
    accesses : list of Access
        In their order.
    """

    file: str
    line: int
    function: str
    frame: int
    before: dict[str, Any]
    after: dict[str, Any] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)


def why_not() -> str:
    """Return why no thread can be followed here, line by line (`follow`); empty if one can."""
    if not instrument.can_instrument():
        return "a thread can be followed on x86-64 processors alone"
    if toolchain.is_clang(toolchain.find()):
        return (
            "a thread can be followed with g++ alone, and the compiler here is clang: set CXX=g++"
        )
    return ""


def follow(
    launch: Callable[[], None],
    function: Any,
    thread: Sequence[int],
    block: Sequence[int] = (0, 0, 0),
    before: int = 0,
) -> list[Step]:
    """Follow one thread of a launch: list the lines that it runs, with variables and accesses to memory.

    Parameters
    ----------
    launch : callable
        It makes the launch, from the same contents of memory each time, and waits for its end. It
        is called twice.
    function : hostcuda.driver.Function
        The kernel.
    thread, block : sequence of int
        Index (x, y, z) of the thread in its block, and of the block.
    before : int
        Number of other launches that the callable makes before the one to follow.

    Returns
    -------
    list of Step
        In their order; none if the launch has no such thread.

    Raises
    ------
    EngineError
        This process is not in check mode with the tool ``step``; threads cannot be followed here;
        or what the thread does depends on memory that has not been set.
    LaunchError
        The kernel fails.
    """
    if TOOLS != ("step",):
        raise EngineError(
            "a thread is followed in check mode alone: set HOSTCUDA_CHECK=step before the first import"
        )
    if why := why_not():
        raise EngineError(why)
    with open(function._module._path, "rb") as file:
        elf = ELFFile(file)
        code = _Code(stops.read(elf), *dwarf.read_functions(elf))
    # in each run, memory that is not set has another content
    runs = [_run(launch, code, thread, block, before, pattern) for pattern in _PATTERNS]
    if [event.key for event in runs[0]] != [event.key for event in runs[1]]:
        raise EngineError(
            "what this thread does depends on memory that has not been set: initcheck names the access"
        )
    return _build_steps(code, *runs)


@dataclass(frozen=True)
class _Event:
    """A statement that begins (`kind` 0), or an access (1 load, 2 store, 3 atomic), as runtime/steps.cpp logs it.

    `place` is the position in the code; `space` an index of `_SPACES`. `where` is the frame pointer of
    a statement, or the address of an access; `base`, `bytes` and `name` are those of the allocation or
    variable at this address. `data` has the bytes of the frame from its lowest known variable on, or
    the value that is accessed.
    """

    place: int
    kind: int
    space: int
    where: int
    base: int
    bytes: int
    name: str
    data: bytes

    @property
    def key(self) -> tuple:
        """The parts that both runs must share: without the address of a frame (`kind` 0), which may differ."""
        return self.place, self.kind, self.where if self.kind else None, len(self.data)


class _Code:
    """The stops of a file, and the variables that are known at each."""

    def __init__(
        self,
        all_stops: list[stops.Stop],
        functions: list[dwarf.Function],
        variables: dict[str, dwarf.Type],
    ):
        """Find the variables that are known at each statement, and pack the table for the runtime.

        The stops are calls that were inserted into the code: before a statement, where a function
        has got its frame (`ENTERED`), and where a block with variables of its own begins (`BEGAN`).
        `variables` maps the names of variables outside of functions to their types.

        The attribute `at` maps the place of a statement to (stop, function, lowest offset in the frame of
        a known variable, known variables). `table` tells the runtime which bytes of the frame to
        keep at a statement, and which to fill with the pattern where a function or block with
        variables begins.
        """
        self.at: dict[int, tuple[stops.Stop, dwarf.Function, int, list[dwarf.Variable]]] = {}
        self.variables = variables
        rows = []
        for stop in all_stops:
            pc = stop.place - stops.LEAD  # where the statement's own code begins
            inside = next(
                (function for function in functions if function.low <= pc < function.high), None
            )
            if stop.kind == stops.ENTERED:
                rows.append((stop.place, stop.kind, 0, stop.bytes))
            elif stop.kind == stops.BEGAN and inside:
                rows += [
                    (stop.place, stop.kind, variable.offset, variable.type.size)
                    for variable in inside.variables
                    if variable.block and variable.low == pc
                ]
            elif inside:
                visible = [
                    variable for variable in inside.variables if variable.low <= pc < variable.high
                ]
                low = min((variable.offset for variable in visible), default=0)
                high = max(
                    (variable.offset + variable.type.size for variable in visible), default=0
                )
                self.at[stop.place] = stop, inside, low, visible
                rows.append((stop.place, stop.kind, low, high - low))
        self.table = b"".join(_STOP.pack(*row) for row in rows)


def _run(
    launch: Callable[[], None],
    code: _Code,
    thread: Sequence[int],
    block: Sequence[int],
    before: int,
    pattern: int,
) -> list[_Event]:
    """Call `launch`, follow a thread in its launch number `before` (from 0), and return the thread's events.

    Each byte of memory that has not been set is `pattern`.
    """
    library, three = native.library(), ctypes.c_uint * 3
    count = ctypes.c_size_t(len(code.table) // _STOP.size)
    # which thread to log, and how
    library.hc_step(three(*block), three(*thread), before, pattern, code.table, count)
    try:
        launch()
    except LaunchError as error:  # the runtime abandons a launch when the thread has ended
        if _ENDED not in str(error):
            raise
    # the log: per event an `_EVENT`, then the bytes of its data
    log, events, at = (ctypes.c_void_p(), [], 0)
    library.hc_step_log.restype = ctypes.c_size_t
    used = library.hc_step_log(ctypes.byref(log))
    text = ctypes.string_at(log, used) if used else b""
    while at < used:
        place, kind, size, space, where, base, extent, name = _EVENT.unpack_from(text, at)
        at += _EVENT.size
        variable = ctypes.string_at(name).decode(errors="replace") if name else ""
        events.append(
            _Event(place, kind, space, where, base, extent, variable, text[at : at + size])
        )
        at += -(-size // 8) * 8  # the next event is aligned to 8 bytes
    return events


def _compare_bytes(event: _Event, twin: _Event) -> bytes:
    """Return, per byte of an event, 1 if its `twin` in the other run has the same value: the kernel has set it."""
    return bytes(a == b for a, b in zip(event.data, twin.data, strict=True))


def _build_access(
    code: _Code, function: dwarf.Function, variables: dict, event: _Event, twin: _Event
) -> Access:
    """Return the access of an event.

    `twin` is the same event in the other run, and `variables` maps the names of the thread's variables
    to their values. `function.shared` has the types of ``__shared__`` variables by name,
    `code.variables` those of global ones.
    """
    # Its value's type is known from the variable that it accesses, or from a pointer of the thread
    # into the allocation.
    variable_type = (
        function.shared.get(event.name) or code.variables.get(event.name) if event.name else None
    )
    pointers = (
        value.target
        for value in variables.values()
        if isinstance(value, Pointer)
        and 0 <= value.address - event.base < event.bytes
        and not event.name
    )
    element = dwarf.find_element_type(
        variable_type or next(filter(None, pointers), None), len(event.data)
    )
    value = dwarf.decode(element, event.data, _compare_bytes(event, twin)) if element else None
    shape = variable_type.shape if variable_type else ()
    return Access(
        _OPERATIONS[event.kind - 1],
        _SPACES[event.space],
        event.name,
        shape,
        event.base,
        event.bytes,
        event.where,
        len(event.data),
        value,
    )


def _build_steps(code: _Code, run: list[_Event], other_run: list[_Event]) -> list[Step]:
    """Return the steps of a followed thread from the events of two runs; bytes that differ between them are not set."""
    steps: list[Step] = []
    # (frame pointer, number) of the calls that run, the outermost first
    open_calls: list[tuple[int, int]] = []
    open_steps: dict[int, Step] = {}  # number of a call -> its last step
    last = 0  # the place of the last statement
    calls = 0  # how many calls there were
    function = None  # that of the last statement
    for event, twin in zip(run, other_run, strict=True):
        if event.kind:
            if steps:
                steps[-1].accesses.append(
                    _build_access(code, function, steps[-1].before, event, twin)
                )
            continue
        stop, function, low, visible = code.at[event.place]
        # the stack grows down: these calls have returned
        while open_calls and open_calls[-1][0] < event.where:
            open_calls.pop()
        if not open_calls or open_calls[-1][0] != event.where:
            open_calls.append((event.where, calls))
            calls += 1
        call = open_calls[-1][1]
        step = open_steps.get(call)
        # Another statement of the same line, unless the code jumped back: then the line runs once
        # more.
        if (
            step
            and step is steps[-1]
            and (step.file, step.line) == (stop.file, stop.line)
            and event.place > last
        ):
            last = event.place
            continue
        last = event.place
        same, values = _compare_bytes(event, twin), {}
        for variable in visible:
            part = slice(variable.offset - low, variable.offset - low + variable.type.size)
            values[variable.name] = dwarf.decode(variable.type, event.data[part], same[part])
        if step:
            step.after = values
        open_steps[call] = Step(stop.file, stop.line, function.name, call, values)
        steps.append(open_steps[call])
    return steps
