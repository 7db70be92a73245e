"""One thread of a variant's kernel, followed line by line in a process of its own.

This module, as ``python -m labkit.evidence.steps``, is the program that runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import hostcuda
from hostcuda import stepping
from labkit.base.errors import LabError
from labkit.evidence import child
from labkit.ladder.plan import Plan
from labkit.ladder.variants import Variant
from labkit.spec.layers import Layer, as_layer


def follow_thread(
    of: Variant | int,
    layer: Layer | str,
    thread: Sequence[int],
    block: Sequence[int] = (0, 0, 0),
    kernel: str | None = None,
) -> list[dict]:
    """Follow one thread line by line, on one image of a layer.

    Parameters
    ----------
    of : Variant or rung number
    layer : Layer or its name
    thread, block : sequence of int
        Up to three numbers each: x, y, z.
    kernel : str, optional
        By default the variant's first.

    Returns
    -------
    list of dict
        A row per line that the thread ran, in order: ``line`` of the variant's own file,
        ``function``, ``call`` (its number), ``values`` (name -> value after the line), ``changed``
        (those that the line changed), and ``accesses``, dicts of ``op`` ("ld", "st" or "atom"),
        ``space`` ("global", "shared" or "constant"), ``name`` (the buffer's: x, k, y, a rung's
        scratch u or arranged mask a; or the variable's), ``index`` (in each dimension), ``value``. A value is a number;
        of an array, a list of its first elements; of a struct, a dict; of a pointer, a text; None
        if it is not set.

    Raises
    ------
    LabError
        There is no such thread, block or kernel, or it failed; the message says why.
    CompileError
        It does not compile.
    """
    variant = child.require_one(of, "step")
    if why := stepping.why_not():  # a text, unless the processor is an x86-64 and the compiler g++
        raise LabError(why)
    layer = as_layer(layer)
    launches = variant.launches(layer)
    names = [launch.kernel for launch in launches]
    if kernel is not None and kernel not in names:
        raise LabError(f"kernel = {kernel!r}: {variant.label} launches {' and '.join(names)}")
    number = names.index(kernel) if kernel else 0
    where = {
        "number": number,
        "thread": _require_index("thread", thread, launches[number].block),
        "block": _require_index("block", block, launches[number].grid),
    }
    # the child runs this module's `_follow_thread`, whose rows these are
    return child.trace(
        variant, layer, __name__, check="step", purpose="following a thread", **where
    )


def _require_index(name: str, index: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """Return an index of up to three numbers as (x, y, z); LabError, with its `name`, unless each is below its size."""
    try:
        three = (*map(int, index), 0, 0)[:3] if len(index) <= 3 else ()
    except TypeError:  # no sequence, or not of numbers
        three = ()
    full = (*sizes, 1, 1)[:3]
    if not three or not all(0 <= number < size for number, size in zip(three, full, strict=True)):
        last = tuple(size - 1 for size in full)
        raise LabError(f"{name} = {index!r}: the launch has {name}s from (0, 0, 0) to {last}")
    return three


def _follow_thread(
    plan: Plan, number: int, thread: Sequence[int], block: Sequence[int]
) -> list[dict]:
    """Follow a thread of launch `number`; return its steps in the variant's file as the dicts of `follow_thread`."""
    layer, variant = plan.layer, plan.variant
    # of the buffers whose shape is known
    shapes = {"x": layer.x_shape(1), "k": layer.k_shape, "y": layer.y_shape(1)}
    # `plan.buffers`: "x", "k", "y" and, of some rungs, "u" or "a", to their addresses; 0 without
    # one.
    buffers = {
        address: (name, shapes.get(name, ())) for name, address in plan.buffers.items() if address
    }

    def launch():
        """Run the plan, with NaN in y before, so that both runs of `stepping.follow` begin alike."""
        hostcuda.driver.memset_d8(
            plan.y, 0xFF, int(np.prod(shapes["y"])) * variant.io_dtype.itemsize
        )
        child.run_and_wait(plan)

    function = plan.functions[plan.launches[number].kernel]
    steps = stepping.follow(launch, function, thread, block, number)
    return [
        {
            "line": step.line,
            "function": step.function,
            "call": step.frame,
            "values": {name: _to_json(value, buffers) for name, value in step.after.items()},
            "changed": [
                name
                for name, value in step.after.items()
                if value is not None and str(value) != str(step.before.get(name))
            ],
            "accesses": [_describe_access(access, buffers) for access in step.accesses],
        }
        for step in steps
        if Path(step.file).name == variant.file_name
    ]


def _to_json(value: object, buffers: Mapping[int, tuple]) -> object:
    """Return a value as JSON holds it, a pointer as "&x[0, 3]" or an address; `buffers`: address -> (name, shape)."""
    if isinstance(value, list):
        return [_to_json(element, buffers) for element in value]
    if isinstance(value, dict):
        return {name: _to_json(member, buffers) for name, member in value.items()}
    if not isinstance(value, stepping.Pointer):
        return value
    # the last one before it
    base = max((address for address in buffers if address <= value.address), default=None)
    if base is None or value.target is None:
        return f"{value.address:#x}"
    name, shape = buffers[base]
    index = _unravel((value.address - base) // value.target.size, shape)
    return f"&{name}[{', '.join(map(str, index))}]"


def _describe_access(access: stepping.Access, buffers: Mapping[int, tuple]) -> dict:
    """Return an access as a dict for JSON: op, space, name, index, value; `buffers`: address -> (name, shape)."""
    name, shape = buffers.get(access.base, (access.name or f"{access.space} memory", access.shape))
    # where the shape is not known, take the bytes of this access
    element_bytes = (len(shape) and access.bytes // int(np.prod(shape))) or access.size
    index = _unravel((access.address - access.base) // element_bytes, shape)
    value = _to_json(access.value, buffers)
    return {"op": access.op, "space": access.space, "name": name, "index": index, "value": value}


def _unravel(number: int, shape: Sequence[int]) -> list[int]:
    """Return the index of an array's element, from its number, in each dimension; [number] if it is beyond."""
    if not shape or number >= np.prod(shape):
        return [number]
    return [int(index) for index in np.unravel_index(number, shape)]


if __name__ == "__main__":
    child.trace_plans(_follow_thread)
