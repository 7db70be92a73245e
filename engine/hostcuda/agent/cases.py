"""Whether a finding is the fault of its case: of a size among the arguments, or of the block."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from hostcuda.agent.run import Run
from hostcuda.source import code_only

# of a message: "sA[0][16] of the __shared__ array sA of 32 x 32 floats"
_PLANE = re.compile(r"__shared__ array (\w+) of (\d+) x (\d+) ")


def describe_case_fault(run: Run, job: Mapping) -> str:
    """Return a sentence if the first finding of a run may be the fault of a case of `job`, else ""."""
    first = run.findings.rows[0] if run.findings.rows else None
    launched = run.select("launching")
    if first is None or not launched:
        return ""
    # the last one that was launched: a finding ends the run
    case, name = job["cases"][len(launched) - 1], launched[-1]["launching"]
    if first["tool"] == "memcheck" and "past the end" in first["message"]:
        return _compare_sizes(first, case, name, code_only(run.source))
    if first["tool"] == "initcheck" and (plane := _PLANE.search(first["message"])):
        return _compare_block(plane[1], int(plane[2]), int(plane[3]), case, name)
    return ""


def _compare_sizes(finding: Mapping, case: Mapping, name: str, code: str) -> str:
    """Return a sentence if a kernel compares with an argument of its case that is larger than the array it leaves."""
    buffer = finding["buffer"] if isinstance(finding["buffer"], dict) else {}
    array = case["arguments"].get(buffer.get("name", ""))
    if not isinstance(array, dict):
        return ""
    length = math.prod(array.get("shape", [len(array.get("values", ()))]))
    for size, value in case["arguments"].items():
        compared = re.search(rf"(?:<|>=)\s*{re.escape(size)}\b", code)
        if type(value) is int and value > length and compared:
            return (
                f"The kernel compares with {size}, which is {value:,} in {name}, and {buffer['name']} has {length:,} "
                "elements: the case is at fault, or the kernel needs another limit."
            )
    return ""


def _compare_block(array: str, rows: int, columns: int, case: Mapping, name: str) -> str:
    """Return a sentence if the block of a case has fewer threads in x or y than a shared array has columns or rows."""
    x, y = (*case.get("block", (columns, rows)), 1, 1)[:2]
    if x > columns or y > rows or x * y >= rows * columns or y == 1:
        return ""
    return (
        f"{array} has {rows} x {columns} elements, and the block of {name} has {x} x {y} threads: if each of them "
        f"is to set one element, the case is at fault, and its block is [{columns}, {rows}]."
    )
