"""What the text of a kernel shows: counts for goals, and sums that nobody has set to zero."""

from __future__ import annotations

import re

from hostcuda.source import loops

_DIVISION = re.compile(r"[/%]")
_ARRAY = re.compile(r"(?m)^[ \t]*(?:float|double|int) (\w+)(?:\[[^\]]*\])+;")


def counts(code: str) -> dict[str, float]:
    """Of a source without comments and strings: its ``divisions_in_loops``, remainders among them, and ``floats``."""
    divisions = sum(len(_DIVISION.findall(loop)) for loop in loops(code))
    return {"divisions_in_loops": divisions, "floats": len(re.findall(r"\b(?:float[234]?|double)\b", code))}


def unset_sums(code: str) -> list[str]:
    """The declarations of arrays of a thread that are added to and never set: a compiler warns of variables only."""
    return [found[0].strip() for found in _ARRAY.finditer(code) if _only_added_to(found[1], code)]


def _only_added_to(name: str, code: str) -> bool:
    if re.search(rf"(?:\.|->)\s*{name}\b", code):  # a member
        return False
    element = rf"\b{name}(?:\[(?:[^\[\]]|\[[^\[\]]*\])*\])+"
    elsewhere = len(re.findall(rf"\b{name}\b", code)) > len(re.findall(element, code))  # something else may set it
    added, assigned = re.search(rf"{element}\s*\+=", code), re.search(rf"{element}\s*=(?!=)", code)
    return bool(added) and not assigned and not elsewhere
