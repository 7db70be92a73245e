"""What the text of a kernel shows: counts for goals, sums that nobody has set to zero, mistakes of any kernel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hostcuda.source import loops
from labkit.exercises.exercise import Attempt

_DIVISION = re.compile(r"[/%]")
_ARRAY = re.compile(r"(?m)^[ \t]*(?:float|double|int) (\w+)(?:\[[^\]]*\])+;")
_EXCHANGED = str.maketrans("/%", "%/")


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


def causes(attempt: Attempt, right: Iterable[str]) -> Iterator[str]:
    """Sentences for mistakes that any kernel may have; `right` are lines of code that are right."""
    code = attempt.source
    if attempt.wrong.startswith("compiles") and re.search(r"\brestrict\b", code):
        yield "`restrict` is a word of C. CUDA C++ spells it __restrict__, with two underscores on each side."
    if not attempt.runs_wrong:
        return
    known = {"".join(line.split()) for line in right}
    for number, line in enumerate(code.splitlines(), 1):
        text = "".join(line.split())
        if text not in known and text != (other := text.translate(_EXCHANGED)) and other in known:
            yield (f"Line {number} has / and % exchanged: the quotient says which row or group an element is in, the "
                   "remainder its place there.")
    if attempt.wrong.startswith("right"):
        for name in re.findall(r"(?<!\()\bint (\w+) = 0\b", code):
            added = re.findall(rf"\b{name} \+= ([^;{{}}]*);", code)  # with as many ) as (: not the step of a loop
            if any("*" in each and "[" in each and each.count("(") == each.count(")") for each in added):
                yield f"`{name}` is an int, so each product loses its fraction: sum floats in a float."
    for found in re.finditer(r"__shared__ \w+ (\w+)\[", code):
        filled = re.findall(rf"\b{found[1]}\[[^=;]*\]\s*=(?!=)([^;]*);", code)
        if "uninitialized" in attempt.findings and filled and all(f"{found[1]}[" in each for each in filled):
            yield (f"`{found[1]}` is filled from itself: inside the kernel this name is the shared array's, which "
                   "hides any array of that name outside. Copy from the pointer that the kernel gets.")
