"""What to do next after a check: the sentence in which a report says where to look first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hostcuda.source import code_only


def _find_writes(array: str, source: str, kernel: str) -> str:
    """Return where a kernel assigns to an array, as text: "line 3, which writes it," or "where it is written".

    It is the latter if no line is found, or if a cast makes another pointer to the array, through which
    it may be written. An empty `kernel` stands for the whole source.
    """
    code, name = code_only(source), re.escape(array)
    head = re.search(rf"\b{re.escape(kernel)}\s*\(", code) if kernel else None
    start = head.start() if head else 0
    body = code[start:].partition("__global__")[0] if head else code
    # `a[…] =`, `a[…] +=`, `a[…]++`, `*a =`, `atomicAdd(&a`
    writes = re.compile(
        rf"\b{name}\s*\[.*\]\s*(?:[-+*/|&^]?=(?!=)|\+\+|--)|\*\s*{name}\s*=|atomic\w+\(&?\s*{name}\b"
    )
    cast = rf"(?:reinterpret_cast\s*<[^<>]*>\s*\(|\(\s*[\w:\s]+\*\s*\))\s*\(?\s*&?\s*{name}\b"
    if re.search(cast, body):
        return "where it is written"
    first_line = 1 + code.count("\n", 0, start)
    found = [
        str(line) for line, text in enumerate(body.splitlines(), first_line) if writes.search(text)
    ]
    return (
        f"line{'s' * (len(found) > 1)} {', '.join(found)}, which write{'s' * (len(found) < 2)} it,"
        if found
        else "where it is written"
    )


def _say_where(result: Mapping, writes: str) -> str:
    """Return where to look for the cause of a wrong result: the object of a sentence "look at …".

    `result` is an entry of the report's ``results``, an array with wrong elements and their
    ``pattern``. `writes` is what `_find_writes` returns for the array.
    """
    if result["pattern"].startswith("the edge"):
        return f"the conditions of the edge, and at {writes.rstrip(',')}"
    if "begin at 0?" in result["pattern"]:
        return "what its maximum begins with"
    if result.get("unwritten") and not result.get("threads"):
        return f"{writes} at its index, and at the grid"
    return f"{writes} and at what is read for it"


def say_next(report: Mapping, reason: str, source: str = "", kernel: str = "") -> str:
    """Return a sentence or two for the report's reader: that all is right, or at which line to look first.

    `report` is complete but for this sentence. `reason` is the verdict's, which is returned if nothing
    else is known. `kernel` is the name of the kernel in `source`, or "" if there is only one.
    """
    verdict, findings, results = (report[name] for name in ("verdict", "findings", "results"))
    if verdict == "pass":
        busiest = report.get("busiest", "")  # units of a GPU: "DRAM, L1 tags"
        good = (
            "Nothing was found, and all results are right"
            if report["checked"]["cases"]  # 0 for a program, which has no cases
            else "Nothing was found, and the program ended with status 0"
        )
        return f"{good}; busiest, by its counts: {busiest}." if busiest else f"{good}."
    if verdict == "wrong_result" and results:
        return _say_what_is_wrong(results[0], findings, source, kernel)
    if verdict == "hang" and "line" in findings[0]:  # else it is not known where
        return f"Look at what ends the loop at line {findings[0]['line']}."
    if findings and findings[0].get("line") and verdict in ("compile_error", "unsafe"):
        return _say_which_line(findings, verdict)
    return f"{reason.rstrip('.')}."


def _say_what_is_wrong(result: Mapping, findings: Sequence, source: str, kernel: str) -> str:
    """Return the sentences about a wrong result: which array is wrong, where to look, and if threads are missing."""
    too_few = ""
    if threads := result.get("threads"):
        too_few = (
            f"the case launches {threads:,} threads for {result['of']:,} elements: give it a larger grid, or let "
            "each thread write several elements."
        )
        if result["wrong"] == result["unwritten"]:
            return f"{result['array']} is right where it is written, and {too_few}"
    place = (
        f"line {findings[0]['line']}: {findings[0]['says']}"
        if findings
        else _say_where(result, _find_writes(result["array"], source, kernel))
    )
    why = ", ".join(
        re.findall(r"[^,]*(?:overflowed, so [^,]*|has the right[^,]*)", result["pattern"])
    ).strip()
    wrong = f"{result['array']} is wrong{f' ({why})' * bool(why)}. Look at {place}."
    return wrong + f" And {too_few}" * bool(too_few)


def _say_which_line(findings: Sequence[Mapping], verdict: str) -> str:
    """Return the sentence about the line of the first finding, for a compile error or an unsafe access."""
    line, other = findings[0]["line"], findings[0].get("other", {}).get("line")
    if other:
        who = (
            f"Lines {min(line, other)} and {max(line, other)}"
            if other != line
            else f"Two threads at line {line}"
        )
        return f"{who} access the same element: {findings[0].get('remedy', 'order them')}."
    if "remedy" in findings[0]:
        return f"Look at line {line}: {findings[0]['remedy']}."
    if verdict == "compile_error":
        return f"Look at line {line}: {findings[0]['says']}."
    hints = [f"line {finding['line']}" for finding in findings[1:] if "accesses" not in finding]
    return f"Look at line {line} first, and at {' and '.join(hints) or 'the lines that its values come from'}."
