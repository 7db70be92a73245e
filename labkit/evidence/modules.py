"""The last launch of each kernel of a module of ``%%cuda``, kept so that it can be repeated under the sanitizer.

This module, as ``python -m labkit.evidence.modules``, is the program that repeats one.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import hostcuda
import hostcuda.sanitize
from hostcuda import processes, temporary
from labkit.base.errors import LabError
from labkit.base.progress import show_progress

_MOST_BYTES = 256 << 20  # of the arrays of a launch that is kept


@dataclass(frozen=True)
class KeptLaunch:
    """A launch: the kernel's name, its arguments, and grid, block and shared memory by their keywords."""

    kernel: str
    # (how it is passed: "In", "Out", "InOut", "device" or "number"; its value) of each argument
    arguments: tuple[tuple[str, Any], ...]
    geometry: Mapping[str, Any]


class _KeptFunction:
    """A kernel of a module, whose calls are kept; all else is that of the kernel."""

    def __init__(self, function: Any, keep: Callable, name: str):
        """Wrap the kernel `function`, whose name is `name`; `keep` is called with each launch."""
        self._function, self._keep, self._name = function, keep, name

    def __call__(self, *arguments: object, **options: object) -> Any:
        """Keep the launch, with copies of its arrays, and launch; `options` are grid, block, shared and the like."""
        self._keep(arguments, options)
        try:
            return self._function(*arguments, **options)
        except hostcuda.driver.LaunchError as fault:
            advice = f"lab.sanitize({self._name}) says where"
            raise type(fault)(f"{fault}\n{advice}") from None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the kernel."""
        return getattr(self._function, name)


def keep_launches(module: Any, name: str, compiler_arguments: Mapping) -> None:
    """From now on, keep the last launch of a module's kernels in ``module.kept``: `sanitize_module` repeats it.

    It is a `KeptLaunch`; None before the first launch, and if the arrays are too large to keep.
    ``module.compiled`` gets the arguments that the module was compiled with. `name` is the module's
    variable in the notebook, for messages.
    """
    module.kept, module.compiled = None, dict(compiler_arguments)
    get_function = module.get_function

    def get_kept_function(kernel: str) -> _KeptFunction:
        """Return a kernel of the module by its name; each call of it notes the launch by `keep` first."""

        def keep(arguments: tuple, options: dict) -> None:
            """Set ``module.kept`` to the launch of a call, or to None if its arrays are too large."""
            copies = tuple(map(_copy_argument, arguments))  # (how it is passed, value) of each
            geometry = {key: options[key] for key in ("grid", "block", "shared") if key in options}
            size = sum(value.nbytes for _, value in copies if isinstance(value, np.ndarray))
            module.kept = KeptLaunch(kernel, copies, geometry) if size <= _MOST_BYTES else None

        return _KeptFunction(get_function(kernel), keep, name)

    module.get_function = get_kept_function


def _copy_argument(argument: object) -> tuple[str, Any]:
    """Return how an argument is passed, and its value: a copy of its array, the number, or the device memory."""
    array = getattr(argument, "array", None)  # of In, Out and InOut
    if isinstance(array, np.ndarray):
        return type(argument).__name__, array.copy()
    is_number = isinstance(argument, (int, float, np.generic))
    return ("number" if is_number else "device"), argument


def sanitize_module(
    module: Any, tool: str, engine: str | None, timeout: float | None
) -> hostcuda.sanitize.Findings:
    """Repeat the last launch of a module in a process of its own, under the sanitizer; return the findings.

    Arrays that the launch took from the host have the values from before it; device memory has those
    that it has now. Raises LabError if there is no launch to repeat.
    """
    launch = getattr(module, "kept", None)  # of `keep_launches`
    if launch is None:
        raise LabError(
            "no launch of this module's kernels is known, or its arrays are too large to keep: launch one, as in "
            'NAME.get_function("kernel")(...), then sanitize it. A program of its own belongs into a cell of '
            "%%program NAME.py, for `%hostcuda sanitize NAME.py`"
        )
    # In another process an address means nothing: it gets the bytes that are there.
    arguments = [
        ("device", _read_device(value)) if passing == "device" else (passing, value)
        for passing, value in launch.arguments
    ]
    with temporary.folder() as folder:
        job = (module.compiled, launch.kernel, arguments, launch.geometry)
        (folder / "job").write_bytes(pickle.dumps(job))
        # the new process runs this module as a program, which repeats the job
        command = processes.own_program(__name__, str(folder))
        with show_progress(None, f"sanitizing {launch.kernel}"):
            findings = hostcuda.sanitize.watch(
                command, tool, engine=engine, timeout=timeout, capture=True
            )
    # a finding explains why the process failed; Ctrl-C is raised even so
    if not findings.rows or findings.ended.interrupted:
        findings.ended.require("sanitizing", findings.note)
    return findings


def _read_device(memory: Any) -> np.ndarray:
    """Return the bytes of device memory, from a pointer or an array on the device on."""
    address = int(getattr(memory, "gpudata", memory))
    try:
        base, size = hostcuda.driver.mem_get_address_range(address)
        bytes_now = np.empty(int(base) + size - address, np.uint8)
        hostcuda.driver.memcpy_dtoh(bytes_now, address)
    except hostcuda.driver.Error as error:
        raise LabError(f"the device memory of the last launch cannot be read: {error}") from None
    return bytes_now


def _repeat_launch(folder: Path) -> None:
    """Do the job in `folder`: compile the module, and launch its kernel with the kept arguments."""
    compiled, kernel, kept, geometry = pickle.loads((folder / "job").read_bytes())
    hostcuda.ensure_context()
    driver = hostcuda.driver
    function = hostcuda.compiler.SourceModule(**compiled).get_function(kernel)
    arguments = [
        value
        if passing == "number"
        else driver.to_device(value)
        if passing == "device"
        else getattr(driver, passing)(value)
        for passing, value in kept
    ]
    function(*arguments, **geometry)
    driver.Context.synchronize()


if __name__ == "__main__":
    _repeat_launch(Path(sys.argv[1]))
