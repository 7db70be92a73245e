"""Compute the playground's data of the exercises, launches, inputs and expected results, and of the rungs."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable

import numpy as np

from hostcuda.errors import EngineError
from labkit.base.errors import LabError
from labkit.evidence.sanitize import SMALL
from labkit.exercises.exercise import Case, Exercise, exercises
from labkit.exercises.grade import describe_times
from labkit.exercises.subjects import InPlaceOf, Kernels, Output
from labkit.ladder.plan import LayerKernel, images_per_launch
from labkit.ladder.tables import as_options
from labkit.ladder.variants import Variant, variant
from labkit.measure.check import TEST_SHAPES
from labkit.measure.compare import (
    find_largest_factors,
    largest_exact_integer,
    tolerance,
    unwritten,
)
from labkit.spec.reference import conv_float64, error_scale

_LATER = ("12", "13", "14", "17", "18")  # pages of parts 3 and 4
# pages with fragments in registers: clang splits their accesses in other ways than nvcc
_SPLIT = ("P8", "10", "11")
_PLENTY = 1 << 32  # bytes of device memory: no case of an exercise needs as much


class Arrays:
    """The bytes of arrays, each array kept once, in `data`, a file of the page."""

    def __init__(self):
        """Begin without arrays."""
        self.data = bytearray()
        self.known: dict[bytes, int] = {}  # the digest of an array's bytes -> where they begin

    def add(self, array: np.ndarray) -> dict:
        """Append an array's bytes to `data`, unless equal bytes are there already; return a dict that describes it.

        The dict says where the page finds the array: ``at`` (offset in bytes), ``bytes``, ``type``
        and ``shape``.
        """
        array = np.ascontiguousarray(array)
        data = array.tobytes()
        key = hashlib.sha256(data).digest()
        if key not in self.known:
            self.known[key] = len(self.data)
            # zeros at the end, so that the next one is aligned to 8 bytes
            self.data += data + bytes(-len(data) % 8)
        return {
            "at": self.known[key],
            "bytes": len(data),
            "type": array.dtype.name,
            "shape": array.shape,
        }


def collect(rungs: Iterable[str] = ()) -> dict[str, bytes]:
    """Return the files with the exercises' data that the playground's page needs, {name: content}.

    ``exercises.json`` has, per exercise: ``missing``, the reason if it is not offered; ``file``,
    its name in messages; ``constant``, its ``__constant__`` array; and ``times``, a sentence with
    its recorded times. ``later/04a.json`` has its cases: ``options`` of the compiler, ``buffers``
    (bytes by name), ``launches``, and ``runs``: the arrays to ``write`` before a run, and its
    ``outputs``. The bytes of these arrays are in ``later/04a.bin``. ``later/rungs.json`` has the
    kernels in `rungs`, "04" or "07 step=rows", as `_describe_rung` returns them.
    """
    facts, files = {}, {}
    for number, exercise in exercises().items():
        arrays = Arrays()
        facts[number] = _describe(exercise, arrays)
        if cases := facts[number].pop("cases", None):
            files[f"later/{number}.json"] = json.dumps(cases).encode()
            files[f"later/{number}.bin"] = bytes(arrays.data)
    described = {name: _describe_rung(name) for name in rungs}
    files["later/rungs.json"] = json.dumps(described).encode()
    return {"exercises.json": json.dumps(facts).encode(), **files}


def _describe_rung(name: str) -> dict:
    """Return the data with which a page checks a kernel in place of a rung with its options, "07 step=rows".

    ``shapes`` are those of `labkit.check` that it supports, the last one that of `labkit.sanitize`.
    Per shape: `_describe_geometry`; ``size``, its numbers B, C, H, W, M, K; ``bound``, the slope
    and the constant of the largest error, by the output's `error_scale`; ``largest``, the integers
    up to which the factors go in the check of large ones. Inputs and references are computed in the
    page (``js/reference.mjs``).
    """
    number, _, options = name.partition(" ")
    number, options = int(number), as_options(options)
    start = variant(number, variant(number, **options).source, **options)  # as a reader's own
    shapes = []
    for layer, batch in (*TEST_SHAPES, (SMALL, 1)):
        with contextlib.suppress(EngineError):
            kernel = start.on(layer)
            # the bound is linear in the scale: its values at 1 and at 0 are enough
            one, none = tolerance(start.rounding, np.array([1.0, 0.0]), layer.terms)
            shapes.append(
                {
                    **_describe_geometry(kernel, batch),
                    "name": layer.name,
                    "size": [batch, layer.C, layer.H, layer.W, layer.M, layer.K],
                    "bound": [float(one - none), float(none)],
                    "largest": find_largest_factors(start.rounding, layer.terms),
                    "on": f"on {layer}, B",
                    "layer": repr(layer),
                }
            )
    return {
        "label": start.label,
        "file": start.file_name,
        "constant": start.rung.constant,
        "storage": start.io_dtype.name,
        "mask": start.mask_dtype.name,
        "exact": largest_exact_integer(start.rounding),
        "place": [start.file_name, start.rung.label, start.rung.number],
        "kernels": start.kernels,
        "passed": start.list_passed(),
        "source": variant(number, **options).source,  # whose functions a cell with --part replaces
        "shapes": shapes,
    }


def find_reason(task: Exercise) -> str:
    """Return why the playground does not offer an exercise; "" if it does."""
    # the first two characters of a page's name, "04_tiling", are its number, as in _LATER and _SPLIT
    if task.page[:2] in _LATER:
        return "It belongs to a later part: its page grades it."
    if not isinstance(task.subject, (InPlaceOf, Kernels)):
        return "It is answered by numbers that the notebook computes: its page grades it."
    if task.page[:2] in _SPLIT:
        return "The browser's compiler makes other accesses there than nvcc: its page grades it."
    return ""


def _describe(task: Exercise, arrays: Arrays) -> dict:
    """Return the data of an exercise as `collect` describes them, and add its arrays to `arrays`.

    If it is not offered, "missing" says why, and there are no cases.
    """
    subject, missing = task.subject, find_reason(task)
    facts = {
        "title": task.title,
        "page": task.page,
        "times": describe_times(task),
        "missing": missing,
    }
    if missing:
        return facts
    if isinstance(subject, InPlaceOf):
        start = subject.variant(task.start)
        cases = [
            _describe_convolution(subject, subject.variant(task.start, case.name), case, arrays)
            for case in subject.cases
        ]
        return facts | {
            "no_extern_c": True,
            "file": start.file_name,
            "constant": start.rung.constant,
            "cases": cases,
        }
    cases = [_describe_launches(subject, case, arrays) for case in subject.cases]
    return facts | {"file": "attempt.cu", "constant": None, "cases": cases}


def _describe_geometry(kernel: LayerKernel, batch: int) -> dict:
    """Return ``options``, ``buffers`` (bytes by name) and ``launches`` of a kernel on a batch of images.

    An argument of a launch is the name of a buffer or a number. Raises LabError if the kernel
    computes the batch in several launches.
    """
    start, layer, scope = kernel.variant, kernel.layer, kernel.scope
    scratch = start.rung.scratch(scope)  # bytes per image
    if images_per_launch(batch, scratch, _PLENTY, start.rung.images(scope)) != batch:
        raise LabError(
            f"{start.label} launches {layer.name} in chunks, and the playground has one launch per kernel"
        )
    shapes = {"x": layer.x_shape(batch), "k": layer.k_shape, "y": layer.y_shape(batch)}
    sizes = {name: int(np.prod(shape)) * start.io_dtype.itemsize for name, shape in shapes.items()}
    # Bytes of intermediate results (u), and of weights in another order (a), for rungs that have
    # them.
    sizes |= {
        name: count
        for name, count in (("u", scratch * batch), ("a", start.rung.arranged(scope)))
        if count
    }
    # the last arguments of each kernel of the lab
    numbers = [batch, layer.C, layer.H, layer.W, layer.M, layer.K]
    # A pointer to a buffer that this rung does not have is 0.
    launches = [
        {
            "kernel": launch.kernel,
            "grid": launch.grid,
            "block": launch.block,
            "shared": launch.shared,
            "arguments": [*(name if name in sizes else 0 for name in call.buffers), *numbers],
        }
        for launch, call in zip(kernel.launches(batch), start.calls, strict=True)
    ]
    options = [f"-D{name}={value}" for name, value in kernel.defines.items()]
    return {"options": options, "buffers": sizes, "launches": launches}


def _describe_convolution(subject: InPlaceOf, start: Variant, case: Case, arrays: Arrays) -> dict:
    """Return the data of a case of a convolution, as `collect` describes them; `start` is the starting code."""
    layer, batch = case.what
    io = start.io_dtype
    runs = []
    # integers, whose result is exact, then real numbers
    for run, (x, k) in enumerate(subject.inputs(case)):
        scale = error_scale(x, k)
        allowed = tolerance(start.rounding, scale, layer.terms) if run else np.zeros(1)
        expected = conv_float64(x, k)
        if not run:  # rounded once, to what the output can hold
            expected = expected.astype(io).astype(np.float64)
        output = {
            "name": "y",
            "type": io.name,
            "shape": layer.y_shape(batch),
            "expected": arrays.add(expected),
            "allowed": arrays.add(np.asarray(allowed, np.float64)),
            "inputs": [arrays.add(np.float64(array)) for array in (x, k)],
            "title": f"on {layer}, B = {batch} ({'real numbers' if run else 'integers'})",
        }
        # real numbers: `Stored.measure` divides the error by the scale, as a goal on it asks
        if run:
            output["scale"] = arrays.add(scale)
        inputs = {"x": x.astype(io), "k": k.astype(io)}
        poisoned = np.full(layer.y_shape(batch), unwritten(io)).view(np.uint8).ravel()
        runs.append(
            {
                "write": {
                    name: arrays.add(array) for name, array in (*inputs.items(), ("y", poisoned))
                },
                "constant": arrays.add(inputs["k"].astype(start.mask_dtype)),
                "outputs": [output],
            }
        )
    return {
        "name": case.name,
        "counted": case.counted,
        **_describe_geometry(start.on(layer), batch),
        "runs": runs,
        "on": f"on {layer}, B",
        "layer": repr(layer),
    }


def _describe_launches(subject: Kernels, case: Case, arrays: Arrays) -> dict:
    """Return the data of a case of other kernels, as `collect` describes them; arrays are arguments by their names."""
    # names: id of an array -> the name of its buffer
    buffers, write, outputs, launches, names = ({}, {}, [], [], {})
    for kernel, arguments, grid, block, shared, _ in subject.make_launches(case):
        parameters = []
        for argument in arguments:
            if not isinstance(argument, (np.ndarray, Output)):
                parameters.append(
                    argument if isinstance(argument, (int, float)) else argument.item()
                )
                continue
            if id(argument) not in names:
                name = names[id(argument)] = (
                    argument.name if isinstance(argument, Output) else f"input {len(names)}"
                )
                filled = (
                    argument.make_before()
                    if isinstance(argument, Output)
                    else np.ascontiguousarray(argument)
                )
                buffers[name], write[name] = filled.nbytes, arrays.add(filled)
                # "marked": its values before the launch show what no thread stores
                if isinstance(argument, Output):
                    outputs.append(
                        {
                            "name": name,
                            "type": argument.expected.dtype.name,
                            "shape": argument.expected.shape,
                            "expected": arrays.add(np.asarray(argument.expected, np.float64)),
                            "before": write[name],
                            "allowed": arrays.add(
                                np.atleast_1d(np.asarray(argument.allowed, np.float64))
                            ),
                            "marked": argument.before is None,
                        }
                    )
            parameters.append(names[id(argument)])
        launches.append(
            {
                "kernel": kernel,
                "grid": grid,
                "block": block,
                "shared": shared,
                "arguments": parameters,
            }
        )
    return {
        "name": case.name,
        "counted": case.counted,
        "options": list(subject.options(*case.what)),
        "buffers": buffers,
        "launches": launches,
        "runs": [{"write": write, "constant": None, "outputs": outputs}],
    }
