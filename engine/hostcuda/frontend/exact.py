"""Write what C++ leaves open and a GPU does not, so that a host compiler does as the hardware.

Casts of floats that are out of an integer's range saturate, and a shift by the width or more shifts
everything out (``include/hostcuda/exact.h``). `make_exact` writes casts and shifts of device code
with the functions there. Conversions without a cast show in no text: the compiler names them, and
`cast_conversions` adds the casts.
"""

import json
import re

from hostcuda.frontend.scan import Scan
from hostcuda.frontend.tokens import (
    apply_edits,
    find_angle_end,
    find_closing_parenthesis,
    skip_bracket,
    walk,
)

CONVERSIONS = "-Wfloat-conversion"
# conversion from 'float' to 'T' {aka 'int'}: the groups are T and int
_CONVERSION = re.compile(
    r"conversion from '[^']*'(?: \{aka '[^']*'\})? to '([^']*)'(?: \{aka '([^']*)'\})?"
)
_WORDS = r"(?:(?:unsigned|signed|char|short|int|long)\b\s*)+"
_NAMES = r"(?:std\s*::\s*)?(?:u?int(?:8|16|32|64)_t|s?size_t|ptrdiff_t|uchar|ushort|uint|ulong)"
# <class T>, using T = int, typedef int T;
_TYPE_NAMES = re.compile(
    r"\b(?:typename|class)\s+(\w+)\s*(?=[,>=])|\busing\s+(\w+)\s*=|\btypedef\b[^;(){}]*?(\w+)\s*;"
)
_SHIFT = re.compile(r"(?<![<>])(?<!operator)(?<!operator )(<<|>>)(=?)(?![<>=])")
# a count that no width is less than
_SMALL_COUNT = re.compile(r"\s*(?:[0-2]?\d|3[01])[uUlL]*\s*(?:[]);,}<>=&|^?:]|$)")
_OPERAND_END = re.compile(r"(?:[\w\]>]|\boperator\s*\(\s*\))\s*$")
# A bracket, and what is none: << and <=. Each > of >> is one.
_LIST_SIGN = r"[][()]|<<|>(?=>)|(?<=>)>|[<>]=|->|[<>]"
_KEYWORD = re.compile(r"\b(?:return|case|else|do|throw)\s*$")
# The begin of an operand; a word such as const follows the parameters of a function, not a cast.
_OPERAND = re.compile(
    r"\s*(?!(?:const|noexcept|override|final|volatile|mutable)\b|->)[\w(.'\"+~!*&:-]"
)
# The name, number or literal with which an operand begins, and what may follow: (...), [...],
# .member, ++, ::name.
_PRIMARY = re.compile(
    r"\s*(?:(?:::)?\s*\w+(?:\s*::\s*\w+)*|\.?\d[\w.']*(?:(?<=[eEpP])[-+]\w+)?|\"[^\"]*\"|'[^']*')"
)
_SUFFIX = re.compile(r"\s*(?:([(\[])|(?:\.|->)\s*(?:template\s+)?\w+|\+\+|--|::\s*\w+)")


def make_exact(text: str, everywhere: bool) -> str:
    """Return the text with casts and shifts that give a GPU's results, where C++ leaves the result open.

    They are changed in device code; with `everywhere`, also in functions of the host.
    """
    scan = Scan(text)
    # template parameters and aliases: T of "class T", "using T = int" and "typedef int T"
    own_types = {name for names in _TYPE_NAMES.findall(scan.code) for name in names if name}
    kinds = "|".join([_WORDS, _NAMES, *(rf"{name}\b" for name in sorted(own_types))])
    edits = [*_edit_shifts(scan.code), *_edit_casts(scan.code, kinds)]
    return apply_edits(text, [edit for edit in edits if everywhere or scan.on_device(edit[0])])


def _edit_shifts(code: str):
    """Yield edits (start, end, text) that let shifts work as on a GPU.

    ``a << n`` becomes ``a << hostcuda::shift << n``, and ``a <<= n`` becomes ``a <<= hostcuda::shift = n``.
    """
    for match in _SHIFT.finditer(code):
        if _SMALL_COUNT.match(code, match.end()) or (
            match[0] == ">>" and _closes_two_lists(code, match.start())
        ):
            continue  # a small count shifts alike in C++; or the sign closes two lists of a template
        yield match.end(), match.end(), f" hostcuda::shift {match[2] or match[1]}"


def _closes_two_lists(code: str, at: int):
    """Return whether the ``>>`` at position `at` ends ``a<b<3>>``: two ``<`` are open since a brace or semicolon."""
    start = max(code.rfind(sign, 0, at) for sign in (";", "{", "}", "?", "&&", "||"))
    open_lists = 0
    for _, depth, angle_depth in walk(code, _LIST_SIGN, start + 1, at, back=True):
        if depth < 0:  # the bracket around the lists opens
            break
        open_lists = -angle_depth
    return open_lists >= 2


def _edit_casts(code: str, kinds: str):
    """Yield edits (start, end, text) that turn casts to integers into ``hostcuda_cast<int>(x)``, which saturates.

    The casts are ``static_cast<int>(x)``, ``(int)x`` and ``int(x)``; `kinds` is a regular expression of the
    names of integer types.
    """
    for match in re.finditer(rf"\bstatic_cast\s*<(?=\s*(?:{kinds})\s*>)", code):
        yield match.start(), match.end(), "hostcuda_cast<"
    cast = re.compile(rf"\(\s*({kinds})\s*\)(?={_OPERAND.pattern})")
    for match in cast.finditer(code):
        nearby = max(0, match.start() - 64)  # far enough for spaces and a keyword
        before = _OPERAND_END.search(code, nearby, match.start())
        if before and not _KEYWORD.search(code, nearby, match.start()):
            continue  # it is a parameter list, as of f(int)
        if end := _find_operand_end(code, match.end(), cast):
            yield match.start(), match.end(), f"hostcuda_cast<{match[1].strip()}>("
            yield end, end, ")"
    # int(x) where an operand begins: after an operator, a bracket or "return".
    for match in re.finditer(
        rf"(?:[-=(,+/%<?:&|^!~\[*]|\breturn)\s*\b({kinds})\s*\((?=\s*[^\s)*&])", code
    ):
        close = find_closing_parenthesis(code, match.end() - 1)
        # Not a function's type, as in F<int(float, int *)>.
        if close and not re.fullmatch(
            rf"[\w\s,:*&<>]*\b(?:float|double|{kinds})[\s\w*&]*", code[match.end() : close]
        ):
            yield match.start(1), match.end(1), f"hostcuda_cast<{match[1].strip()}>"


def _find_operand_end(code: str, at: int, cast: re.Pattern):
    """Return the position after the operand of a cast ``(int)x``, which begins at `at`; None if it is not understood.

    `cast` matches a further cast that the operand may begin with.
    """
    while sign := re.compile(r"\s*[-+~!*&]").match(code, at):
        at = sign.end()
    if inner := re.compile(r"\s*\(").match(code, at):
        close = find_closing_parenthesis(code, inner.end() - 1)
        if close is None:
            return None
        # (T)x
        if cast.match(code, inner.end() - 1) or re.compile(r"\)\s*[\w.]*\w").match(code, close):
            return _find_operand_end(code, close + 1, cast)
        at = close + 1
    elif primary := _PRIMARY.match(code, at):
        at, angle = primary.end(), re.compile(r"\s*<").match(code, primary.end())
        end = find_angle_end(code, angle.end() - 1) if angle else None
        # f<3>(x) or a<3>::b, not a comparison
        if end and re.compile(r"\s*(?:\(|::)").match(code, end + 1):
            at = end + 1
    else:
        return None
    while suffix := _SUFFIX.match(code, at):
        at = skip_bracket(code, suffix.start(1)) if suffix[1] else suffix.end()
    return at


def cast_conversions(text: str, printed: str, file: str) -> str:
    """Write a cast for each conversion of a float to an integer that the compiler warns of, to convert as a GPU does.

    `text` is the text of `file`, and `printed` the compiler's warnings in JSON. Their columns count
    bytes, so each character of `text` has to be one byte. Returns the text with the casts.
    """
    # The JSON: [{"message": "conversion from ...", "locations": [{"start": {"file": ..., "line": 1,
    # "byte-column": 28}, "caret": {the operator's place}, "finish": {...}}]}].
    starts = [0, *(match.end() for match in re.finditer("\n", text))]  # positions of the lines
    targets = {}  # span of an expression -> (types that it is converted to, position of its operator)
    for warning in json.loads(printed) if printed.startswith("[") else ():
        place = warning["locations"][0] if warning["locations"] else {"caret": {"file": ""}}
        if (kind := _CONVERSION.search(warning["message"])) and place["caret"]["file"] == file:
            caret = place["caret"]
            first, operator, last = (
                starts[position["line"] - 1] + position["byte-column"] - 1
                for position in (place.get("start", caret), caret, place.get("finish", caret))
            )
            # of "to 'T' {aka 'int'}" the int, else the only type
            targets.setdefault((first, last + 1), (set(), operator))[0].add(kind[2] or kind[1])
    edits = []
    for (start, end), (kinds, operator) in targets.items():
        # ``i += x`` with a float x: it is the sum that has to be cast, which ``i += hostcuda::shift = x``
        # does by the operators in exact.h
        if re.compile(r"[-+*/]=").match(text, operator):
            edits.append((operator + 2, operator + 2, " hostcuda::shift ="))
        # Of several conversions that begin at one place, only the longest gets a cast: two edits there have
        # no order, so that the wrong cast could be the outer one. An example is ``int n = x + v`` with a float
        # x and an operator+(int, V) that returns a float: x is converted, and the sum. An expression with
        # several types, as in a template, gets none.
        elif len(kinds) == 1 and not any(start == a and end < b for a, b in targets):
            edits += [(start, start, f"hostcuda_cast<{kinds.pop()}>("), (end, end, ")")]
    return apply_edits(text, edits)
