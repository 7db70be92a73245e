"""Run one kernel on its cases, in check mode: the child process of `hostcuda.agent`.

``python -m hostcuda.agent.child FOLDER`` reads ``FOLDER/job.json`` and appends lines of JSON to
``FOLDER/answers`` as it goes on: a kernel that hangs loses nothing that came before.
`hostcuda.agent.report` reads the lines.
"""

from __future__ import annotations

import ctypes
import json
import math
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import hostcuda
from hostcuda import checking, stepping, units
from hostcuda.agent import references
from hostcuda.agent.patterns import describe_errors
from hostcuda.api import driver as cuda
from hostcuda.api.compiler import SourceModule
from hostcuda.check import elements, records
from hostcuda.errors import EngineError
from hostcuda.programs.entry import HostFunction
from hostcuda.runtime import native
from hostcuda.source import host_entry

_UNSET = 0xA5  # every byte of memory that nothing has set; a kernel's reads of it are findings
_MOST_BYTES = 256 << 20  # of one array
# answers about a thread; about lines; parts of a list or struct
_MOST_STEPS, _MOST_SITES, _MOST_PARTS = (60, 8, 8)
_RTOL = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-10}
_KEYS = ("shape", "dtype", "values", "fill", "low", "high", "seed", "role")  # of an array
_POINTER = "P"  # the kind of a parameter; the others are `_SCALARS`
_SCALARS = {"i": "int", "u": "uint", "f": "float", "s": "float"}
# The type of the elements that `float *x`, `const unsigned int *n` or `__half x[]` declares, but
# not `float **x`.
_ELEMENT = re.compile(
    r"(?:(?:const|volatile|signed|unsigned) +)*(__half|bool|char|short|int|long|half|float|double)"
    r"(?![\w:])(?!\s*\*\s*\*)"
)
_FILLS: dict[str, Callable] = {
    "values": lambda spec, rng: np.resize(np.array(spec["values"]), spec["shape"]),
    "normal": lambda spec, rng: rng.standard_normal(spec["shape"]),
    "uniform": lambda spec, rng: rng.uniform(
        spec.get("low", 0), spec.get("high", 1), spec["shape"]
    ),
    "randint": lambda spec, rng: rng.integers(
        spec.get("low", 0), spec.get("high", 10), spec["shape"]
    ),
    "arange": lambda spec, rng: np.arange(math.prod(spec["shape"])).reshape(spec["shape"]),
    "zeros": lambda spec, rng: np.zeros(spec["shape"]),
    "ones": lambda spec, rng: np.ones(spec["shape"]),
    "unset": lambda spec, rng: np.zeros(spec["shape"]),
}


def main(folder: Path) -> None:
    """Run a job of `hostcuda.agent` in this process, a child: check a kernel, or look at its lines or a thread.

    The job is in `folder`/job.json; the answers are appended to `folder`/answers. An exception ends
    the process.
    """
    # an interrupt ends a kernel that hangs, and its record is kept
    signal.signal(signal.SIGINT, signal.default_int_handler)
    job = json.loads((folder / "job.json").read_text())

    def append_answer(**facts) -> None:
        """Append one line of JSON with these facts; NumPy's numbers become Python's, other objects text."""
        with open(folder / "answers", "a", encoding="utf-8") as file:
            file.write(
                json.dumps(
                    facts, default=lambda value: getattr(value, "item", lambda: str(value))()
                )
                + "\n"
            )

    hostcuda.ensure_context()
    # whether initcheck sees unset variables in registers
    append_answer(filled=checking.fills_variables())
    # messages name lines of "kernel.cu"
    source, entry = f'#line 1 "kernel.cu"\n{job["source"]}', None
    name, parameters = host_entry(job["source"])
    if name:  # host code that launches the kernels
        entry = HostFunction(source, job["options"], name, parameters)
        module = entry.module
    else:  # not put into extern "C": its kernels may be templates
        module = SourceModule(source, options=job["options"], no_extern_c=True).module
    append_answer(compiled=True)
    # the host function that the cases call; None if there is none, or the job names one of the kernels
    function = entry if job["kernel"] in ("", name) else None
    cases = [
        _Case(module, function or job["kernel"], case, number)
        for number, case in enumerate(job["cases"])
    ]
    records.interrupt_after(job["seconds"])  # only now: compilations do not count
    if not cases:  # nothing is launched: the answer shows what a case of this kernel looks like
        append_answer(example=_make_example(module, function or job["kernel"]))
    if job["what"] == "check":
        expected = references.run(job.get("reference", ""), cases)
        _check_cases(cases, expected, job, append_answer)
        append_answer(busiest=_name_busiest())
    else:
        {"step": _follow_thread, "lines": _look_at_lines}[job["what"]](cases[0], job, append_answer)


def _check_cases(
    cases: list[_Case], expected: Sequence[Mapping], job: Mapping, append_answer: Callable
) -> None:
    """Launch each case and compare its arrays with the expected ones, which `references.run` returns per case.

    ``append_answer(**facts)`` writes a line before and after each launch and one per array, as
    `hostcuda.agent.run.Run` describes them.
    """
    for case, expected_arrays in zip(cases, expected, strict=True):
        append_answer(launching=case.name)
        before = len(checking.launches())
        try:
            case.launch()
        except cuda.LaunchError as error:
            # the reason of the parent's verdict "not checked"
            records.record_event("failed", str(error))
        # this also writes the records to the file that the parent process reads
        launches = checking.launches()[before:]
        if launches:  # a host function chooses the block
            case.block = launches[-1].block
        append_answer(
            ended=case.name,
            left=[
                name
                for name in case.written
                if name not in expected_arrays and not case.is_unchanged(name)
            ],
            launches=len(launches),
        )
        for name, expected_array in expected_arrays.items():
            append_answer(case=case.name, array=name, **case.compare(name, expected_array, job))


def _find_function(module, kernel: str | HostFunction):
    """Return the function of a case: `kernel` itself if it is a host function, else the kernel of this name.

    "" is the only kernel of the module. LogicError, which lists the kernels, if there is none or several.
    """
    if isinstance(kernel, HostFunction):
        return kernel
    kernels = {candidate.name: candidate.symbol for candidate in module.kernels()}
    kernel = kernel or (next(iter(kernels)) if len(kernels) == 1 else "kernel")
    return module.get_function(kernels.get(kernel, kernel))  # its error lists the kernels


def _get_name(parameter) -> str:
    """Return a parameter's name, the last word of its declaration: "x" of "const float *x"; else its position."""
    words = parameter.declaration.partition("[")[0].replace("*", " ").replace("&", " ").split()
    return words[-1] if words else str(parameter.position)


def _find_dtype(declaration: str) -> np.dtype:
    """Return the dtype of the elements that a parameter's declaration begins with; float32 if there is none."""
    if not (element := _ELEMENT.match(declaration)):
        return np.dtype("uint32" if "unsigned" in declaration.split() else "float32")
    declared = element[1].strip("_")
    real = declared in ("half", "float", "double")
    kind = "f" if real else "u" if "unsigned" in declaration else "i"
    return np.dtype(f"{kind}{elements.KINDS[declared]}")


def _make_example(module, kernel: str | HostFunction) -> dict:
    """Return a case that the user may begin with, as a dict: each array has 1,000 elements, each number is 1000."""
    function = _find_function(module, kernel)
    arguments = {
        _get_name(parameter): {"shape": [1000], "dtype": str(_find_dtype(parameter.declaration))}
        if parameter.kind == _POINTER
        else 1000
        for parameter in function._parameters
    }
    geometry = {} if isinstance(kernel, HostFunction) else {"grid": [4], "block": [256]}
    return {**geometry, "arguments": arguments}


class _Case:
    """A launch: its geometry, and the arguments as arrays and numbers by the names of the kernel's parameters.

    Or a call of a host function, which chooses the geometry of its launches.
    """

    def __init__(self, module, kernel: str | HostFunction, case: Mapping, number: int):
        """Look up the kernel in `module`, check the arguments, and make the arrays of `case`, which has this number.

        The number counts from 0, and names a case without a name. EngineError if an argument is wrong.
        """
        self.function = _find_function(module, kernel)
        self.name = case.get("name") or f"case {number + 1}"
        block = case.get("block", [1])
        self.grid, self.block = tuple(case.get("grid", [1])), (*block, 1, 1)[: max(3, len(block))]
        self.shared, self.module, self.specs = (
            case.get("shared_bytes", 0),
            module,
            case["arguments"],
        )
        self.pointers: dict[str, cuda.DeviceAllocation] = {}
        self.parameters = {
            _get_name(parameter): parameter for parameter in self.function._parameters
        }
        self._refuse_arguments()
        self.written = [
            name
            for name, parameter in self.parameters.items()
            if parameter.kind == _POINTER
            and "const" not in parameter.declaration.partition("*")[0].split()
        ]
        self.unset, self.arrays = set(), {}
        for name, spec in self.specs.items():
            if isinstance(spec, dict):  # values alone are a vector of their length
                try:
                    self.arrays[name] = self._make_array(
                        name, {"shape": [len(spec.get("values", ()))], **spec}
                    )
                except (TypeError, ValueError) as error:
                    raise EngineError(
                        f"{self.name}: the array {name} cannot be made: {error}"
                    ) from None

    def _refuse_arguments(self) -> None:
        """Raise an EngineError for an argument of the wrong kind or name, and for a parameter without an argument."""
        for name in self.specs.keys() - self.parameters.keys():
            if not isinstance(self.specs[name], dict) or self.specs[name].get("role") != "constant":
                raise EngineError(
                    f"{self.name}: the kernel has no parameter {name}, only {', '.join(self.parameters)}"
                )
        for name, parameter in self.parameters.items():
            if name not in self.specs:
                raise EngineError(
                    f"{self.name} has no argument for `{parameter.declaration}`: give {name}"
                )
            if not isinstance(
                self.specs[name], dict if parameter.kind == _POINTER else (int, float)
            ):
                kind = "an array, and no address" if parameter.kind == _POINTER else "a number"
                raise EngineError(
                    f"{self.name}: the parameter `{parameter.declaration}` takes {kind}"
                )
            if parameter.kind != _POINTER:
                self._refuse_number(parameter, self.specs[name])
        for name, spec in self.specs.items():
            if isinstance(spec, dict):
                if unknown := spec.keys() - set(_KEYS):
                    raise EngineError(
                        f"{self.name}: {', '.join(sorted(unknown))} of {name} means nothing; an array "
                        f"may have {', '.join(_KEYS)}"
                    )
                self._refuse_dtype(name, spec.get("dtype", "float32"))

    def _refuse_number(self, parameter, number: bool | float) -> None:
        """Raise an EngineError for a number that a parameter cannot hold: it would be cut, or become infinite."""
        scalar = np.dtype(f"{_SCALARS[parameter.kind]}{8 * parameter.size}")
        if "bool" in parameter.declaration.split():
            wanted, fits = "true or false", isinstance(number, bool)
        elif scalar.kind in "iu":
            info = np.iinfo(scalar)
            wanted = f"an integer from {info.min:,} to {info.max:,}"
            fits = type(number) is int and info.min <= number <= info.max
        else:
            most = float(np.finfo(scalar).max)
            wanted = f"a number from {-most:.3g} to {most:.3g}"
            # an integer of any length is compared exactly; infinity and NaN are values of the type
            fits = not isinstance(number, bool) and (
                -most <= number <= most or (type(number) is float and not math.isfinite(number))
            )
        if not fits:
            raise EngineError(
                f"{self.name}: the parameter `{parameter.declaration}` takes {wanted}, not {number!r:.40}"
            )

    def _refuse_dtype(self, name: str, dtype: str) -> None:
        """Raise an EngineError for a dtype that NumPy does not know, or that the kernel's parameter does not have."""
        try:
            given = np.dtype(dtype)
        except TypeError:
            raise EngineError(
                f"{self.name}: {name} has the dtype {dtype!r}: NumPy has none of this name"
            ) from None
        declaration = self.parameters[name].declaration if name in self.parameters else ""
        element = _ELEMENT.match(declaration)
        declared = element[1].strip("_") if element else ""
        real = declared in ("half", "float", "double")
        if declared and (
            given.kind not in ("f" if real else "biu") or given.itemsize != elements.KINDS[declared]
        ):
            raise EngineError(
                f"{self.name}: {name} has the dtype {given}, and the kernel declares `{declaration}`: "
                f"give {_find_dtype(declaration)}"
            )

    def _make_array(self, name: str, spec: Mapping) -> np.ndarray:
        """Return the host array that `spec` describes by ``shape``, ``dtype``, and ``values`` or a ``fill``'s name."""
        dtype, shape = np.dtype(spec.get("dtype", "float32")), spec["shape"]
        if not (isinstance(shape, list) and all(type(side) is int and side >= 0 for side in shape)):
            raise EngineError(
                f"{self.name}: the shape of {name} is a list of integers from 0, not {shape!r:.40}"
            )
        if math.prod(spec["shape"]) * dtype.itemsize > _MOST_BYTES:
            raise EngineError(
                f"{self.name}: the array {name} has more than {_MOST_BYTES >> 20} MB: take a smaller one"
            )
        default_fill = (
            "unset" if name in self.written else "normal" if dtype.kind == "f" else "randint"
        )
        fill = spec.get("fill") or ("values" if "values" in spec else default_fill)
        if fill not in _FILLS:
            raise EngineError(
                f"{self.name}: {name} cannot be filled with {fill!r}: there are {', '.join(_FILLS)}"
            )
        if fill == "unset":
            self.unset.add(name)
        values = _FILLS[fill](spec, np.random.default_rng(spec.get("seed", 1)))
        with np.errstate(over="ignore", invalid="ignore"):  # told below
            array = np.ascontiguousarray(values.astype(dtype))
        lost = np.isfinite(values) != np.isfinite(array) if dtype.kind == "f" else values != array
        if fill == "values" and lost.any():
            raise EngineError(
                f"{self.name}: {name} has the dtype {dtype}, which does not hold {values[lost][0]:.6g}"
            )
        return array

    def launch(self) -> None:
        """Copy the arrays to the device, launch the kernel, and wait.

        A second launch uses the same addresses, so that an address is of the same array in both.
        """
        arguments = []
        for name in self.specs.keys() - self.parameters.keys():  # __constant__ arrays
            cuda.memcpy_htod(self.module.get_global(name)[0], self.arrays[name])
        for name, parameter in self.parameters.items():
            if parameter.kind != _POINTER:
                dtype = f"{_SCALARS[parameter.kind]}{8 * parameter.size}"
                arguments.append(np.array(self.specs[name]).astype(dtype)[()])  # a NumPy scalar
                continue
            array = self.arrays[name]
            # 1: an allocation of 0 bytes is refused
            pointer = self.pointers.get(name) or cuda.mem_alloc(max(1, array.nbytes))
            if name in self.unset:
                # not by the engine, for which the memory stays unset: a kernel's reads of it are findings
                ctypes.memset(int(pointer), _UNSET, array.nbytes)
            elif array.nbytes:
                cuda.memcpy_htod(pointer, array)
            self.pointers[name] = pointer
            arguments.append(pointer)
        if isinstance(self.function, HostFunction):
            self.function(*arguments)
        else:
            self.function(*arguments, grid=self.grid, block=self.block, shared=self.shared)
        cuda.Context.synchronize()

    def _read(self, name: str) -> np.ndarray:
        """Return a copy of the array `name` on the device, in the shape and dtype of the host's array."""
        raw = np.empty_like(self.arrays[name])
        ctypes.memmove(raw.ctypes.data, int(self.pointers[name]), raw.nbytes)
        return raw

    def is_unchanged(self, name: str) -> bool:
        """Return whether an array on the device has the values that the case set before the launch.

        False for an array without values ("unset"), and before the first launch.
        """
        return (
            name not in self.unset
            and name in self.pointers
            and self._read(name).tobytes() == self.arrays[name].tobytes()
        )

    def compare(self, name: str, expected: np.ndarray, job: Mapping) -> dict:
        """Compare an array on the device with the expected one within the job's tolerances.

        Return a dict: the numbers of ``wrong`` elements, ``of`` all, and of wrong ones that are
        ``unwritten``; if any is wrong, also ``max_error``, the ``first`` of them with its index and
        both values, their ``pattern`` in words, and the launch's ``threads`` if these are too few.
        """
        raw = self._read(name)
        got, want = raw.ravel().astype(float), expected.ravel().astype(float)
        rtol = _RTOL.get(raw.dtype.name, 0.0) if job["rtol"] is None else job["rtol"]
        # the root mean square of what is right
        scale = (
            np.sqrt(np.mean(np.square(want[np.isfinite(want)]))) if np.isfinite(want).any() else 0.0
        )
        atol = rtol * scale if job["atol"] is None else job["atol"]
        with np.errstate(invalid="ignore"):  # infinity minus infinity
            error = np.abs(got - want)
            wrong = ~(
                (error <= atol + rtol * np.abs(want))
                | (got == want)
                | (np.isnan(got) & np.isnan(want))
            )
        if not (atol or rtol) and raw.dtype.kind in "iu" and expected.dtype.kind in "iu":
            wrong = raw.ravel() != expected.ravel()  # not all of 64 bits fit into a float
        unwritten = self._find_unwritten(name)
        wrong |= unwritten  # though what lies there may be right by chance
        facts: dict[str, Any] = {
            "wrong": int(wrong.sum()),
            "of": raw.size,
            "unwritten": int(unwritten.sum()),
        }
        if not facts["wrong"]:
            return facts
        first, error = int(wrong.argmax()), error[wrong & ~unwritten & np.isfinite(error)]
        got_first, want_first = (f"{values[first]:.6g}" for values in (got, want))
        return facts | {
            "max_error": float(error.max()) if error.size else None,
            "first": {
                "index": [int(part) for part in np.unravel_index(first, raw.shape)],
                "got": "not written" if unwritten[first] else got_first,
                "want": want_first,
            },
            "pattern": describe_errors(
                got, want, wrong, unwritten, raw.shape, math.prod(self.block)
            ),
            # 0 unless each thread has written one element, and all others are left
            "threads": self._count_few_threads(raw.size, facts["unwritten"]),
        }

    def _find_unwritten(self, name: str) -> np.ndarray:
        """Return a mask of an array's elements of which no byte was set, neither by the case nor by the launch."""
        array = self.arrays[name]
        sizes = (
            native.find_written(int(self.pointers[name]), array.nbytes)
            if name in self.unset and array.size
            else None
        )
        if sizes is None:
            return np.zeros(array.size, bool)
        return ~np.frombuffer(sizes, "u1").reshape(array.size, -1).any(1)

    def _count_few_threads(self, elements: int, unwritten: int) -> int:
        """Return the launch's number of threads if each wrote one element and others are left: it is too small.

        Else 0, also for a host function, which chooses its launches.
        """
        if isinstance(self.function, HostFunction):
            return 0
        threads = math.prod(self.grid) * math.prod(self.block)
        return threads if elements > threads and elements - threads == unwritten else 0


def _name_busiest() -> str:
    """Return the units that the launches keep busiest, by their counts: "DRAM, L1 tags"; "" if none is named."""
    works = [work for work in units.works(map(asdict, checking.launches())) if not work["why_none"]]
    return units.describe_kernel(units.merge(works), units.CARDS[0])["busiest"] if works else ""


def _follow_thread(case: _Case, job: Mapping, append_answer: Callable) -> None:
    """Follow the job's thread; append an answer per line that it ran: the line, the variables it sets, its accesses."""
    if why := stepping.why_not():
        raise EngineError(why)
    if isinstance(case.function, HostFunction):
        raise EngineError(
            "a thread of a kernel is followed: name the kernel, and give grid and block"
        )

    def to_json(value: Any) -> Any:
        """Return a variable's value for JSON: of lists and structs the first parts, a pointer as "x[3]"."""
        if isinstance(value, stepping.Pointer):
            return find_element(value.address) or "a pointer"
        if isinstance(value, (list, tuple)):
            return [to_json(part) for part in value[:_MOST_PARTS]]
        if isinstance(value, dict):
            return {name: to_json(part) for name, part in [*value.items()][:_MOST_PARTS]}
        return "not set" if value is None else value

    def find_element(address: int) -> str:
        """Return the element of an argument at a device address, such as "x[3]"; "" if it is in none of them."""
        for name, pointer in case.pointers.items():
            if 0 <= address - int(pointer) < case.arrays[name].nbytes:
                return f"{name}[{(address - int(pointer)) // case.arrays[name].itemsize}]"
        return ""

    steps = stepping.follow(case.launch, case.function, job["thread"], job["block"])
    for step in steps[job["start"] : job["start"] + _MOST_STEPS]:
        set_variables = {
            name: to_json(value)
            for name, value in step.after.items()
            if value != step.before.get(name)
        }
        accesses = []
        for access in step.accesses:
            element = (access.address - access.base) // max(1, access.size)
            place = find_element(access.address) or f"{access.name or access.space}[{element}]"
            accesses.append(f"{access.op} {place} = {to_json(access.value)}")
        append_answer(line=step.line, sets=set_variables, accesses=accesses)
    append_answer(ran=len(steps))


def _look_at_lines(case: _Case, job: Mapping, append_answer: Callable) -> None:
    """Append an answer per source line and operation: its counts, and the elements that its worst request accesses."""
    # from now on each site has the block and warp of its worst request, with the most sectors
    checking.follow()
    case.launch()
    sites = [site for site in checking.launches()[-1].sites if "worst" in site and site["line"]]
    sites.sort(key=lambda site: -site.get("sectors", site.get("wavefronts", 0)))
    bases = {int(pointer): name for name, pointer in case.pointers.items()}
    for site in sites[job["start"] : job["start"] + _MOST_SITES]:
        worst = site.pop("worst")
        # another launch records all requests of this warp
        checking.follow(tuple(worst["block"]), worst["warp"])
        case.launch()
        request = max(
            (
                request
                for request in checking.launches()[-1].requests
                if all(request[key] == site[key] for key in ("line", "space", "op"))
            ),
            key=lambda request: request["units"],
        )
        # The address of an inactive lane is -1.
        lanes = [
            None if address < 0 else (address - request["base"]) // request["size"]
            for address in request["addresses"]
        ]
        hidden = ("file", "passes", "lines", "loaded")
        append_answer(
            site={
                **{name: value for name, value in site.items() if name not in hidden and value},
                "array": bases.get(request["base"], request["name"]),
                "worst": {
                    "block": worst["block"],
                    "warp": worst["warp"],
                    "units": request["units"],
                    "lanes": lanes,
                },
            }
        )
    append_answer(ran=len(sites))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
