"""What the text of a kernel shows: counts for goals, and sums that nobody has set to zero."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LOOP = re.compile(r"\b(?:for|while|do)\b")
_HEAD = re.compile(r"(?:for|while|if|switch)\b\s*|(?:do|else)\b")
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


def loops(code: str) -> Iterator[str]:
    """The loops that are in no other loop, each with its head."""
    code = re.sub(r"(?m)^[ \t]*#.*$", "", code)
    at = 0
    while found := _LOOP.search(code, at):
        at = _end(code, found.start())
        yield code[found.start() : at]


def _end(code: str, at: int) -> int:
    """Where the statement ends that begins here."""
    at += len(code[at:]) - len(code[at:].lstrip())
    if code.startswith("{", at):
        return _closed(code, at)
    if head := _HEAD.match(code, at):
        at = head.end()
        return _end(code, _closed(code, at) if code.startswith("(", at) else at)
    while at < len(code) and code[at] != ";":
        at = _closed(code, at) if code[at] in "({[" else at + 1
    return min(at + 1, len(code))


def _closed(code: str, at: int) -> int:
    """Where the parentheses or braces end that begin here."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in "({[") - (code[i] in ")}]")
        if not depth:
            return i + 1
    return len(code)
