"""Brackets in C++ text without comments and literals (`code`), and edits of a text.

Positions are indices of it.
"""

import re
from functools import lru_cache

_BRACKET = re.compile(r"->|[][(){}<>]")  # and the ">" of "->", which is none
_NO_ANGLE = re.compile(r"[][(){};]")
_HEAD = re.compile(r"(?:for|while|if(?:\s+constexpr)?|switch)\b\s*|(?:do|else)\b")  # of a statement
_OPENING = {">": "<", "]": "[", ")": "(", "}": "{"}


def find_closing_parenthesis(code: str, at: int) -> int | None:
    """Return the position of the ``)`` that closes the first ``(`` from position `at` on, or None."""
    return _match_parentheses(code).get(code.find("(", at))


@lru_cache(8)
def _match_parentheses(code: str):
    """Return a dict: position of each ``(`` that is closed -> position of its ``)``."""
    closing, open_ = {}, []  # open_: positions of those that are not closed yet
    for match in re.finditer(r"[()]", code):
        if match.group() == "(":
            open_.append(match.start())
        elif open_:
            closing[open_.pop()] = match.start()
    return closing


def find_angle_end(code: str, at: int) -> int | None:
    """Return the position of the ``>`` that closes the ``<`` at position `at`, or None."""
    angle_depth = depth = 0  # depth: of other brackets, in which "<" is an operator
    for match in _BRACKET.finditer(code, at):
        if match[0] in "<>":
            angle_depth += 0 if depth else 1 if match[0] == "<" else -1
            if angle_depth == 0:
                return match.start()
        elif match[0] != "->":
            depth += 1 if match[0] in "([{" else -1
    return None


def split_spans(code: str, separator: str, start=0, end=None, angles=True) -> list[tuple[int, int]]:
    """Return the spans (start, end) of code[start:end] between separators outside of brackets; `angles`: also of <>."""
    end, spans, angle_depth, depth = len(code) if end is None else end, [], 0, 0
    for match in re.compile(rf"{_BRACKET.pattern}|{re.escape(separator)}").finditer(
        code, start, end
    ):
        if match[0] == separator:
            if not angle_depth and not depth:
                spans.append((start, match.start()))
                start = match.end()
        elif match[0] in "<>":
            angle_depth += 0 if depth or not angles else 1 if match[0] == "<" else -1
        elif match[0] != "->":
            depth += 1 if match[0] in "([{" else -1
    return [*spans, (start, end)]


def find_opening(code: str, at: int) -> int | None:
    """Return the position of the bracket that matches the closing one (also ``>``) at position `at`, or None."""
    open_brackets = []  # the brackets that are looked for, the innermost one last
    while at >= 0:
        character, at = code[at], at - 1
        if character == ">" and (code[at] == "-" or (open_brackets and open_brackets[-1] != "<")):
            continue  # of "->", or an operator
        if character in _OPENING:
            open_brackets.append(_OPENING[character])
        elif open_brackets and character == open_brackets[-1]:
            open_brackets.pop()
            if not open_brackets:
                return at + 1
    return None


def skip_bracket(code: str, at: int) -> int:
    """Return the position after the bracket that closes the one (not ``<``) at position `at`; without one, the end."""
    depth = 0
    for bracket in _NO_ANGLE.finditer(code, at):
        depth += (bracket[0] in "([{") - (bracket[0] in ")]}")
        if not depth:
            return bracket.end()
    return len(code)


def find_statement_end(code: str, at: int) -> int:
    """Return the position after the statement that begins at position `at`, where white space may be first."""
    at = re.compile(r"\s*").match(code, at).end()
    if code.startswith("{", at):
        return skip_bracket(code, at)
    if head := _HEAD.match(code, at):
        at = head.end()
        return find_statement_end(code, skip_bracket(code, at) if code.startswith("(", at) else at)
    while (sign := _NO_ANGLE.search(code, at)) and sign[0] != ";":
        at = skip_bracket(code, sign.start()) if sign[0] in "([{" else sign.end()
    return sign.end() if sign else len(code)


def apply_edits(text: str, edits, start=0, end=None):
    """Return text[start:end] with edits (first position, position after the last, new text), in any order."""
    pieces = []
    for begin, after, new in sorted(edits):
        pieces += [text[start:begin], new]
        start = after
    return "".join([*pieces, text[start:end]])
