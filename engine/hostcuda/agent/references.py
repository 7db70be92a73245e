"""Run the reference of a check in a process of its own.

A reference is any Python, and may redefine what compares, NumPy's functions among it. So it runs in
a copy of that process, which hands over names, dtypes, shapes and bytes, and has ended before
anything is launched or compared: what it redefines does not reach what compares.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Protocol

import numpy as np

from hostcuda.errors import EngineError

_LONGEST = 1 << 16  # bytes of the line in front of an array's bytes
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


class Case(Protocol):
    """What a reference is called for: the arguments by name, those that are arrays, and which the kernel writes."""

    name: str
    specs: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    parameters: Mapping[str, object]
    written: Sequence[str]


def run(text: str, cases: Sequence[Case]) -> list[dict[str, np.ndarray]]:
    """Run a reference in a copy of this process; return for each case the right arrays, {parameter's name: array}.

    `text` is the reference, a Python source; if it is "", each dict is empty. EngineError if the
    source fails, or returns something other than arrays of the case.
    """
    if not text:
        return [{} for _ in cases]
    reader, writer = os.pipe()
    sys.stdout.flush()  # else the copy would have the same text to print
    # the reference is not trusted: no process of this user may write to this one's memory
    _control(_PR_SET_DUMPABLE, 0)
    if not (child := os.fork()):  # in the copy of this process
        os.close(reader)
        _answer(text, cases, writer)  # does not return
    os.close(writer)
    with open(reader, "rb") as answers:
        expected = [_receive(case, answers) for case in cases]
    os.waitpid(child, 0)
    _control(_PR_SET_DUMPABLE, 1)
    return expected


def _control(what: int, value: int) -> None:
    """Set an attribute of this process: `what` is one of Linux's numbers PR_SET_…, see prctl(2)."""
    ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


def _answer(text: str, cases: Sequence[Case], to: int) -> None:
    """Write the arrays of all cases to a pipe, or an error in place of them, and end this process."""
    try:
        _control(_PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))  # nothing that it starts outlives it
        with open(to, "wb") as answers:
            try:
                reference = _read(text)
                for case in cases:
                    for name, array in _call(reference, case):
                        facts = {"name": name, "dtype": array.dtype.str, "shape": array.shape}
                        answers.write(json.dumps(facts).encode() + b"\n" + array.tobytes())
                    answers.write(b"{}\n")
            except EngineError as error:
                answers.write(json.dumps({"error": str(error)[:1000]}).encode() + b"\n")
        sys.stdout.flush()
    finally:
        os._exit(0)


def _read(text: str) -> Callable:
    """Run the Python source of a reference; return its function `reference`. EngineError if it fails or has none."""
    scope: dict[str, Any] = {"np": np, "numpy": np}
    try:
        exec(compile(text, "reference.py", "exec"), scope)
    except (Exception, SystemExit) as error:
        raise EngineError(f"the reference fails: {type(error).__name__}: {error}") from None
    if not callable(scope.get("reference")):
        raise EngineError(
            "the reference defines no function named reference: write def reference(**arguments)"
        )
    return scope["reference"]


def _call(reference: Callable, case: Case) -> Iterator[tuple[str, np.ndarray]]:
    """Call the reference with copies of a case's arguments; yield the parameters' names with the expected arrays.

    A reference returns a dict, or the one array that is written, or None after it has changed its
    copies. EngineError if it fails or returns anything else.
    """
    values = {
        name: case.arrays[name].copy() if name in case.arrays else spec
        for name, spec in case.specs.items()
    }
    try:
        result = reference(**values)
        if result is None:
            result = {name: values[name] for name in case.written}
        elif not isinstance(result, dict):
            if len(case.written) != 1:
                raise EngineError(
                    f"the kernel may write {', '.join(case.written) or 'nothing'}: the reference has to "
                    "return a dict of arrays"
                )
            result = {case.written[0]: result}
        arrays = {str(name): np.array(array) for name, array in result.items()}
    except EngineError:
        raise
    except (Exception, SystemExit) as error:
        raise EngineError(
            f"the reference fails in {case.name}: {type(error).__name__}: {error}"
        ) from None
    for name, array in arrays.items():
        _require_real(name, array.dtype, case)
        yield name, array


def _require_real(name: str, dtype: np.dtype, case: Case) -> None:
    """Raise an EngineError if `dtype`, of a reference's array `name` in a case, is not one of real numbers."""
    if dtype.kind not in "biuf":
        raise EngineError(
            f"the reference's {name} in {case.name} has the dtype {dtype}: return real numbers"
        )


def _receive(case: Case, answers: BinaryIO) -> dict[str, np.ndarray]:
    """Return the arrays of a case, by their names, from what `_answer` has written.

    EngineError with the message of `_answer`, or if the bytes are damaged or no arrays of the case.
    """
    arrays = {}
    try:
        while facts := json.loads(answers.readline(_LONGEST)):
            if "error" in facts:
                raise EngineError(str(facts["error"]))
            name, dtype, size = facts["name"], np.dtype(facts["dtype"]), math.prod(facts["shape"])
            _require_real(name, dtype, case)
            if name not in case.parameters.keys() & case.arrays or size != case.arrays[name].size:
                raise EngineError(
                    f"the reference's {name} is no array of {case.name}, or has another size: it has "
                    f"{size} elements"
                )
            content = answers.read(size * dtype.itemsize)
            arrays[name] = np.frombuffer(content, dtype).reshape(facts["shape"])
    except (ValueError, TypeError, KeyError):
        raise EngineError(
            f"the reference has ended its process, or returned no arrays for {case.name}"
        ) from None
    return arrays
