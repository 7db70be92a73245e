"""What the playground has of the exercises: launches, inputs and expected results, computed when the site is built."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import numpy as np

from labkit.base.errors import LabError
from labkit.exercises.exercise import Exercise, exercises
from labkit.exercises.grade import times_of
from labkit.exercises.subjects import InPlaceOf, Kernels, Output
from labkit.ladder.plan import images_per_launch
from labkit.measure.compare import tolerance, unwritten
from labkit.spec.reference import conv_float64, error_scale

_LATER = ("12", "13", "14")  # pages of part 3
_PLENTY = 1 << 32  # bytes of device memory: no case of an exercise needs as much


class Arrays:
    """Bytes of arrays, each kept once."""

    def __init__(self):
        self.data, self.known = bytearray(), {}

    def add(self, array: np.ndarray) -> dict:
        """Keep an array; returns its description."""
        array = np.ascontiguousarray(array)
        data = array.tobytes()
        key = hashlib.sha256(data).digest()
        if key not in self.known:
            self.known[key] = len(self.data)
            self.data += data + bytes(-len(data) % 8)
        return {"at": self.known[key], "bytes": len(data), "type": array.dtype.name, "shape": array.shape}


def collect() -> tuple[str, bytes]:
    """The exercises as text in JSON, and the arrays.

    Per exercise: ``missing``, why it is not offered, empty if it is; ``file``, its name in messages; ``constant``, the
    rung's array of constants; ``times``, what the goal is worth; and ``cases``: ``options`` of the compiler,
    ``buffers``, ``launches``, and ``runs``: what is written before, and the ``outputs``.
    """
    arrays = Arrays()
    stored = {number: _stored(asked, arrays) for number, asked in exercises().items()}
    return json.dumps(stored), bytes(arrays.data)


def _stored(asked: Exercise, arrays: Arrays) -> dict:
    subject, about = asked.subject, {"title": asked.title, "page": asked.page, "times": times_of(asked)}
    if asked.page[:2] in _LATER:
        return about | {"missing": "It belongs to part 3, whole programs: its page grades it."}
    if isinstance(subject, InPlaceOf):
        mine = subject.variant(asked.start)
        cases = [_convolution(subject, mine, case, arrays) for case in subject.cases]
        return about | {"missing": "", "no_extern_c": True, "file": mine.file_name, "constant": mine.rung.constant,
                        "cases": cases}
    if isinstance(subject, Kernels):
        cases = [_launches(subject, case, arrays) for case in subject.cases]
        return about | {"missing": "", "file": "attempt.cu", "constant": None, "cases": cases}
    return about | {"missing": "It is answered by numbers that the notebook computes: its page grades it."}


def _convolution(subject, mine, case, arrays):
    layer, batch = case.what
    scope, io = mine.scope(layer), mine.io_dtype
    scratch = mine.rung.scratch(scope)
    if images_per_launch(batch, scratch, _PLENTY, mine.rung.images(scope)) != batch:
        raise LabError(f"{mine.label} launches {case.name} in chunks, and the playground has one launch per kernel")
    buffers = {"x": layer.x_shape(batch), "k": layer.k_shape, "y": layer.y_shape(batch)}
    sizes = {name: int(np.prod(shape)) * io.itemsize for name, shape in buffers.items()}
    sizes |= {name: count for name, count in (("u", scratch * batch), ("a", mine.rung.arranged(scope))) if count}
    numbers = [batch, layer.C, layer.H, layer.W, layer.M, layer.K]
    launches = [
        {"kernel": launch.kernel, "grid": launch.grid, "block": launch.block, "shared": launch.shared,
         "arguments": [*(name if name in sizes else 0 for name in call.buffers), *numbers]}
        for launch, call in zip(mine.geometry(layer, batch), mine.calls, strict=True)
    ]
    runs = []
    for run, (x, k) in enumerate(subject.inputs(case)):
        scale = error_scale(x, k)
        allowed = tolerance(mine.rounding, scale, layer.terms) if run else np.zeros(1)
        output = {
            "name": "y", "type": io.name, "shape": buffers["y"], "expected": arrays.add(conv_float64(x, k)),
            "allowed": arrays.add(np.asarray(allowed, np.float64)),
            "inputs": [arrays.add(np.float64(each)) for each in (x, k)],
            "title": f"on {layer}, B = {batch} ({'real numbers' if run else 'integers'})",
        }
        if run:
            output["scale"] = arrays.add(scale)
        given = {"x": x.astype(io), "k": k.astype(io)}
        poisoned = np.full(buffers["y"], unwritten(io)).view(np.uint8).ravel()
        runs.append({"write": {name: arrays.add(each) for name, each in (*given.items(), ("y", poisoned))},
                     "constant": arrays.add(given["k"].astype(mine.mask_dtype)), "outputs": [output]})
    return {"name": case.name, "counted": case.counted, "options": _defines(mine.defines(layer)), "buffers": sizes,
            "launches": launches, "runs": runs, "on": f"on {layer}, B", "layer": repr(layer)}


def _defines(defines: Mapping[str, int]) -> list[str]:
    return [f"-D{name}={value}" for name, value in defines.items()]


def _launches(subject, case, arrays):
    buffers, write, outputs, launches, names = {}, {}, [], [], {}
    for kernel, arguments, grid, block, shared in subject.launched(case):
        passed = []
        for each in arguments:
            if not isinstance(each, (np.ndarray, Output)):
                passed.append(each if isinstance(each, (int, float)) else each.item())
                continue
            if id(each) not in names:
                name = names[id(each)] = each.name if isinstance(each, Output) else f"input {len(names)}"
                filled = each.filled() if isinstance(each, Output) else np.ascontiguousarray(each)
                buffers[name], write[name] = filled.nbytes, arrays.add(filled)
                if isinstance(each, Output):
                    outputs.append({
                        "name": name, "type": each.expected.dtype.name, "shape": each.expected.shape,
                        "expected": arrays.add(np.asarray(each.expected, np.float64)), "before": write[name],
                        "allowed": arrays.add(np.atleast_1d(np.asarray(each.allowed, np.float64))),
                        "marked": each.before is None,
                    })
            passed.append(names[id(each)])
        launches.append({"kernel": kernel, "grid": grid, "block": block, "shared": shared, "arguments": passed})
    return {"name": case.name, "counted": case.counted, "options": list(subject.options(*case.what)),
            "buffers": buffers, "launches": launches,
            "runs": [{"write": write, "constant": None, "outputs": outputs}]}
