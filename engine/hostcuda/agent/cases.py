"""Whether a finding is the fault of its case: of a size among the arguments, or of the block."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from hostcuda.agent.run import Run
from hostcuda.source import code_only

# of a message: "sA[0][16] of the __shared__ array sA of 32 x 32 floats"; groups: name, rows, columns
_PLANE = re.compile(r"__shared__ array (\w+) of (\d+) x (\d+) ")


def describe_case_fault(run: Run, job: Mapping) -> str:
    """Return a sentence if the first finding of a run may be the fault of the case and not of the kernel, else "".

    A case has the arguments and the launch. Examined are a size that is larger than its array, and a
    block that is smaller than a shared array. The sentence says that the case is at fault for
    certain if another case of `job`, without this fault, is right.
    """
    first = run.findings.rows[0] if run.findings.rows else None
    # the names of the cases that were launched, in the order of job["cases"]
    names = [answer["launching"] for answer in run.select("launching")]
    if first is None or not names:
        return ""
    # the first case with this finding; without a record of it, the last one launched
    position = min(run.find_cases(first), default=len(names) - 1)
    case, name = job["cases"][position], names[position]
    right = {names[i]: job["cases"][i] for i in run.list_right_cases()}
    if first["tool"] == "memcheck" and "past the end" in first["message"]:
        return _compare_sizes(first, case, name, right, code_only(run.source))
    # a message about "the __shared__ array sA of 32 x 32 floats": the block may not fill it
    if first["tool"] == "initcheck" and (plane := _PLANE.search(first["message"])):
        array, rows, columns = plane.groups()
        return _compare_block(array, (int(columns), int(rows)), case, name, right)
    return ""


def _compare_sizes(
    finding: Mapping, case: Mapping, name: str, right: Mapping[str, Mapping], code: str
) -> str:
    """Return a sentence if the kernel compares with an argument larger than the array beyond whose end it accesses.

    `finding` is that access, `case` and `name` its case, `right` maps the names of cases with right
    results to them, and `code` is the source without comments. "" if no argument is too large.
    """
    buffer = finding["buffer"] if isinstance(finding["buffer"], dict) else {}
    array = buffer.get("name", "")
    if not (length := _count_elements(case, array)):
        return ""
    for size, value in case["arguments"].items():
        compared = re.search(
            rf"(?:<|>=)\s*{re.escape(size)}\b|\b{re.escape(size)}\s*(?:>|<=)", code
        )
        if type(value) is int and value > length and compared:
            fitting = [
                other
                for other, its in right.items()
                if its["arguments"].get(size, 0) <= _count_elements(its, array)
            ]
            return (
                f"The kernel compares with {size}, which is {value:,} in {name}, and {array} has {length:,} elements: "
                f"{_blame(name, fitting, 'the kernel needs another limit')}."
            )
    return ""


def _count_elements(case: Mapping, name: str) -> int:
    """Return the number of elements of an array among the arguments of a case; 0 if there is none of this name."""
    array = case["arguments"].get(name)
    return (
        math.prod(array.get("shape", [len(array.get("values", ()))]))
        if isinstance(array, dict)
        else 0
    )


def _compare_block(
    array: str, sides: tuple[int, int], case: Mapping, name: str, right: Mapping[str, Mapping]
) -> str:
    """Return a sentence if the block of a case has fewer threads in x or y than a shared array has columns or rows.

    `sides` is the array's (columns, rows), and `right` maps the names of cases with right results to
    them. "" if the block is large enough, or of one dimension.
    """
    columns, rows = sides
    x, y = (*case.get("block", sides), 1, 1)[:2]
    if x > columns or y > rows or x * y >= rows * columns or y == 1:
        return ""
    fitting = [
        other
        for other, its in right.items()
        if (*its.get("block", ()), 1, 1)[:2] == (columns, rows)
    ]
    return (
        f"{array} has {rows} x {columns} elements, and the block of {name} has {x} x {y} threads: "
        + ("" if fitting else "if each of them is to set one element, ")
        + f"{_blame(name, fitting)}, and its block is [{columns}, {rows}]."
    )


def _blame(name: str, fitting: list[str], otherwise: str = "") -> str:
    """Return a clause that blames the case `name`: for certain if cases that fit, named in `fitting`, are right.

    Without such cases it is "the case is at fault", and "or" with the other cause, `otherwise`, if given.
    """
    if not fitting:
        return "the case is at fault" + f", or {otherwise}" * bool(otherwise)
    return f"{', '.join(fitting)}, where it fits, is right, so {name} is at fault"
