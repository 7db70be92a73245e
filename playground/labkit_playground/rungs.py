"""Check a kernel in place of a rung, for the playground's JavaScript: what `labkit.check` does, without NumPy.

``js/worker.mjs`` imports it in Pyodide. It launches the kernels and finds outputs that are wrong;
this module says what to compile, and what a wrong output looks like.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from hostcuda.source import code_only, constant_arrays, has_dynamic_shared, kernel_names
from labkit.base.errors import CheckFailed, LabError
from labkit.base.paths import cuda_src
from labkit.exercises.exercise import exercise
from labkit.ladder import source as kernel_files
from labkit.ladder.messages import find_unclosed_brace, match_lines
from labkit.measure.symptoms import Products
from labkit_playground.comparison import Array, compare

RUNGS: dict = {}  # the data of each rung, see `labkit_playground.data`


def load(rungs: str) -> None:
    """Keep the data of the rungs for the functions below; `rungs` is the text of ``later/rungs.json``."""
    RUNGS.update(json.loads(rungs))


def merge(cell: str, number: str, rung: str) -> str:
    """Put the functions of a cell in place of those with the same names in an exercise's starting code, or in a rung.

    `number` is the exercise; if it is "", `rung` names the rung, "07 step=rows". Returns JSON: the
    whole ``source``; ``lines``, the cell's line for each line that comes from it; ``brace``, the
    line of an open bracket in the cell, or 0. Or it has why the cell is ``refused``.
    """
    replaced = exercise(number).start if number else RUNGS[rung]["source"]
    try:
        source = kernel_files.with_functions(replaced, cell)
    except LabError as error:
        return json.dumps({"refused": str(error)})
    brace = find_unclosed_brace(code_only(cell))
    return json.dumps({"source": source, "lines": match_lines(source, cell), "brace": brace})


def plan(rung: str, source: str) -> str:
    """Return, as JSON, what the page's worker has to do to check a kernel in place of a rung's.

    It is {"shapes": [...], ...}, where a shape has what to compile and to launch, or {"refused":
    why}: a kernel of the rung is missing, or has its parameters in another order. `rung` is the
    rung's name with options, "07 step=rows"; `source` is the kernel's text.
    """
    facts, code = RUNGS[rung], code_only(source)  # facts: as `_describe_rung` returns them
    place = kernel_files.Place(*facts["place"])
    try:
        names = kernel_names(code)
        kernels = kernel_files.choose_kernels(names, tuple(facts["kernels"]), place)
        # "passed": the names of what each launch of the rung passes: [["x", "k", "y", "B", …]]
        kernel_files.require_order(code, kernels, facts["passed"], place)
    except LabError as error:
        return json.dumps({"refused": str(error)})
    arrays, dynamic = constant_arrays(code), has_dynamic_shared(code)
    # the array that gets the weights: the rung's own, else the only one that there is
    only = arrays[0] if len(arrays) == 1 else None
    # for the page's own check: the types of x and y and of the weights, the largest exact integer
    about = {name: facts[name] for name in ("label", "storage", "mask", "exact")}
    about["constant"] = facts["constant"] if facts["constant"] in arrays else only
    compiled = {
        "source": f'#line 1 "{place.file}"\n{source}',
        "extern_c": False,
        "include_dirs": [str(cuda_src())],
    }
    shapes = []
    for shape in facts["shapes"]:
        launches = [
            {**launch, "kernel": kernel, "shared": launch["shared"] if dynamic else 0}
            for launch, kernel in zip(shape["launches"], kernels, strict=True)
        ]
        options = [*kernel_files.NVCC_OPTIONS, *shape["options"]]
        shapes.append({**shape, "launches": launches, "compile": {**compiled, "options": options}})
    return json.dumps({**about, "shapes": shapes})


def explain(about: str, dtype: str, size: Sequence[int], arrays) -> str:
    """Return the message of `labkit.check` for a wrong output of a rung: where it is wrong, and why; "" if it is right.

    Parameters
    ----------
    about : str
        The first words of the message.
    dtype : str
        The type of the output, "float32".
    size : sequence of int
        B, C, H, W, M, K.
    arrays : dict of bytes
        ``y`` as the kernel wrote it; ``expected``, ``allowed``, ``x``, ``k`` as float64.
    """
    B, C, H, W, M, K = size
    # "B", then "d": a view of bytes becomes one of doubles
    doubles = {
        name: memoryview(arrays[name]).cast("B").cast("d")
        for name in ("expected", "allowed", "x", "k")
    }
    array = Array(
        bytes(arrays["y"]),
        dtype,
        (B, M, H - K + 1, W - K + 1),
        doubles["expected"],
        doubles["allowed"],
    )
    inputs = Products(doubles["x"], doubles["k"], (B, C, H, W), (M, C, K, K))
    try:
        compare(array, about, inputs)
    except CheckFailed as wrong:
        return str(wrong)
    return ""
