"""Read CUDA C++ text: comments, strings, raw strings, directives, braces, line markers, and the kernels in it.

It is not a parser: the text needs no declarations, and need not compile.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from hostcuda.frontend.brackets import find_angle_end, find_closing_parenthesis, find_level_start, find_text_end, split


@dataclass(frozen=True)
class Kernel:
    """A kernel that is defined, explicitly instantiated or declared."""

    name: str  # as written, with template arguments if it is an explicit instantiation or specialization
    parameters: tuple[str, ...]  # the declarations, as ``("const float *x", "int n")``
    template: bool  # true for a template's own definition, which has no symbol until it is instantiated
    bounds: str  # the first argument of its ``__launch_bounds__``, or empty
    scope: str | None  # the namespaces around it, for example ``"a::b"``, or empty; None in a class
    template_head: str  # ``template <...>`` of a template, with its requires clause
    requires: str  # a requires clause after the parameters
    declared: bool  # whether it is only declared
    # positions: of the declaration, behind its ``__global__``, of its name, and of its braces, or of the semicolon
    start: int
    marker_end: int
    name_start: int
    name_end: int
    open: int
    close: int


# ---------------------------------------------------------------------------------------------------------------------
# Reading: comments, literals, directives, braces

LEXEME = re.compile(
    r"""
    (?P<comment> //(?:[^\\\n]|\\.)*  |  /\*.*?(?:\*/|\Z) )
  | (?P<raw>     (?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)" )
  | (?P<string>  (?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"? )
  | (?P<number>  \.?\d(?:'?[\w.]|(?<=[eEpP])[+-])* )
  | (?P<char>    (?:u8|[uUL])?'(?:[^'\\\n]|\\.)*'? )
  | (?P<word>    [A-Za-z_]\w* )
    """,
    re.VERBOSE | re.DOTALL,
)
_NOT_NEWLINE = re.compile(r"[^\n]")
_DIRECTIVE = re.compile(r"^[ \t]*(?:\#|%:)[ \t]*(?P<word>\w*)(?P<rest>(?:\\\n|[^\n])*)", re.MULTILINE)


def _blank(text):
    """Return spaces instead of all characters except newlines."""
    return _NOT_NEWLINE.sub(" ", text)


def without_comments(text):
    """Return the text with spaces instead of comments."""
    return LEXEME.sub(lambda match: _blank(match[0]) if match["comment"] else match[0], text)


def _mask(text):
    """Return the text with spaces instead of comments and of the contents of literals."""

    def hide(match):
        """Return a lexeme of the same length: of comments blanks, of literals the first and the last character."""
        lexeme = match.group()
        if match["comment"]:
            return _blank(lexeme)
        if match["raw"] or match["string"] or match["char"]:
            return lexeme[0] + _blank(lexeme[1:-1]) + lexeme[-1] if len(lexeme) > 1 else " "
        return lexeme

    return LEXEME.sub(hide, text)


class _Directive(NamedTuple):
    start: int
    end: int
    word: str
    rest: str  # masked like the code


@dataclass(frozen=True, eq=False)
class _Open:
    """The braces that are open at a place: the innermost one, and those around it."""

    start: int  # its position
    scope: str | None  # as `Scan.scope`
    function: int | None  # as `Scan.function`
    outer: "_Open | None"

    def add_brace(self, start, scope):
        """Return these with one more brace, which opens a scope."""
        if self.scope is None or scope is None:
            return _Open(start, None, start if self.function is None else self.function, self)
        return _Open(start, "::".join(filter(None, (self.scope, scope))), None, self)


_NONE_OPEN = _Open(-1, "", None, None)


class Scan:
    """The structure of one text.

    `masked` is without comments and literals, `code` also without directives, and positions are the same in all three.
    `closing` maps the position of a ``{`` to that of its ``}``.
    """

    def __init__(self, text):
        self.text = text
        self.masked = _mask(text)
        self.directives = [_Directive(*m.span(), m["word"], m["rest"]) for m in _DIRECTIVE.finditer(self.masked)]
        self.code = _DIRECTIVE.sub(lambda match: _blank(match.group()), self.masked)
        self.closing = {}
        self._starts = [0]  # where a declaration may start
        self._open = [(0, _NONE_OPEN)]  # at each change: (position, the open braces from there on)
        self._markers = [(0, 1, "")]  # of lines: (position after it, line, file)
        for directive in self.directives:
            if marker := MARKER.match(text, directive.start):
                self._markers.append((marker.end(), int(marker[1]), marker[2] or self._markers[-1][2]))
        self._match_braces()

    def _match_braces(self):
        """Fill `closing`, and note where declarations start and which braces are open where."""
        marks = [(m.start(), m.end(), m.group()) for m in re.finditer(r"[{};]", self.code)]
        marks += [(directive.start, directive.end, "#") for directive in self.directives]
        open_ = _NONE_OPEN
        for start, end, mark in sorted(marks):
            if mark == "{":
                open_ = open_.add_brace(start, read_scope(self.code[self._starts[-1] : start]))
            elif mark == "}" and open_.outer:
                self.closing[open_.start] = start
                open_ = open_.outer
            if mark != "#" or not self.code[self._starts[-1] : start].strip():  # else a marker within a declaration
                self._starts.append(end)
            self._open.append((end, open_))

    def _open_at(self, at):
        return self._open[bisect_right(self._open, at, key=lambda change: change[0]) - 1][1]

    def declaration_start(self, at):
        """Return the start of the declaration around position `at`."""
        return self._starts[bisect_right(self._starts, at) - 1]

    def scope(self, at):
        """Return the namespaces around `at` as in ``"a::b"`` (``""``: none), or None inside a function or class."""
        return self._open_at(at).scope

    def function(self, at):
        """Return the position of the ``{`` of the function or class around `at`, the outermost one, or None."""
        return self._open_at(at).function

    def on_device(self, at):
        """Return whether a position is in a function or lambda for the device."""
        brace = self._open_at(at)
        while brace.outer and not _OF_DEVICE.search(self.code, self.declaration_start(brace.start), brace.start):
            brace = brace.outer
        return brace.outer is not None

    def place(self, at):
        """Return the file, empty if no line marker names it, and the 1-based line of a position."""
        after, line, file = self._markers[bisect_right(self._markers, at, key=lambda marker: marker[0]) - 1]
        return file, line + self.text.count("\n", after, at)

    def marker(self, at):
        """Return a line marker for the text that follows `at`, on a line of its own."""
        file, line = self.place(at)
        return f'\n# {line} "{file}"\n' if file else f"\n#line {line}\n"

    def newlines(self, start, end):
        """Return what to write instead of ``text[start:end]`` so that the lines after it stay where they are."""
        if self._markers[bisect_right(self._markers, end, key=lambda marker: marker[0]) - 1][0] > start:
            return self.marker(end)
        return "\n" * self.text.count("\n", start, end)


_OF_DEVICE = re.compile(r"\b__(?:global|device)__\b")
MARKER = re.compile(r'[ \t]*#[ \t]*(?:line[ \t]+)?(\d+)(?:[ \t]+"((?:[^"\\\n]|\\.)*)")?[^\n]*\n?')
_NAMESPACE = re.compile(r"\bnamespace\b\s*(?P<name>[\w:]*)|\bextern\s*\"[^\"]*\"\s*$")


def read_scope(head):
    """Return the scope that the brace after `head` opens: a namespace, "" for ``extern "C"``, None for others."""
    match = _NAMESPACE.search(head, 1 + max(map(head.rfind, "()=")))
    return (match["name"] or "") if match else None


# ---------------------------------------------------------------------------------------------------------------------
# Kernels

_SPELT_LIKE_CALLS = re.compile(r"\b(?:__\w+__|alignas|noexcept|decltype|__attribute__|__declspec|throw|requires)$")
_REQUIRES = re.compile(r"\brequires\b.*", re.DOTALL)
_TEMPLATE_HEAD = re.compile(r"\s*(?P<extern>extern\s+)?template\b\s*(?P<parameters><\s*(?P<any>[^\s>])?)?")


def find_kernels(scan):
    """Yield the `Kernel`s that a text defines or declares; an ``extern template`` does neither."""
    for match in re.finditer(r"\b__global__\b", scan.code):
        places = _read_head(scan.code, match.end())
        if places is None or (scan.code[places[-1]] == "{" and places[-1] not in scan.closing):
            continue
        name_start, name_end, parameters_start, parameters_end, open_ = places
        start = skip_registrations(scan, scan.declaration_start(match.start()), match.start())
        template = _TEMPLATE_HEAD.match(scan.code, start)
        if template and template["extern"] and scan.code[open_] == ";":
            continue
        yield Kernel(
            " ".join(scan.code[name_start:name_end].split()),
            split_parameters(scan.code[parameters_start + 1 : parameters_end]),
            template=bool(template and template["any"]),
            bounds=_read_launch_bounds(scan.code, start, open_),
            scope=scan.scope(match.start()),
            template_head=_read_template_head(scan.code, start),
            requires=" ".join((_REQUIRES.search(scan.code[parameters_end:open_]) or [""])[0].split()),
            declared=scan.code[open_] == ";" and (not template or bool(template["parameters"])),
            start=start,
            marker_end=match.end(),
            name_start=name_start,
            name_end=name_end,
            open=open_,
            close=scan.closing.get(open_, open_),
        )


def _read_launch_bounds(code, start, end):
    """Return the first argument of ``__launch_bounds__`` in a declaration, or nothing."""
    match = re.compile(r"\b__launch_bounds__\s*\(").search(code, start, end)
    close = find_closing_parenthesis(code, match.end() - 1) if match else None
    return split_parameters(code[match.end() : close])[0] if close else ""


def _read_head(code, at):
    """Find the name and parameters of the function after a ``__global__``, and the ``{`` or ``;`` that follows.

    The name is the last one before parentheses that is not an attribute with the syntax of a call.
    """
    spans = None
    while match := re.compile(r"[({;=}]").search(code, at):
        at = match.start()
        if match.group() in "{;":
            return (*spans, at) if spans else None
        if match.group() != "(":
            return None
        close = find_closing_parenthesis(code, at)
        if close is None:
            return None
        name_span = _find_name(code, at)
        if name_span and not _SPELT_LIKE_CALLS.search(code[slice(*name_span)]):
            spans = (*name_span, at, close)
        at = close + 1
    return None


def find_function_name(code, at):
    """Return the plain name of the function that is declared from `at` on, or nothing."""
    head = _read_head(code, at)
    return code[head[0] : head[1]].partition("<")[0].rpartition("::")[2].strip() if head else ""


def _find_name(code, at):
    """Return the span of the (possibly qualified, possibly templated) name that ends at `at`."""
    end = start = find_text_end(code, at)
    if code[end - 1 : end] == ">":
        start = find_text_end(code, find_level_start(code, end - 1) or 0)
    match = re.search(r"[A-Za-z_][\w:]*$", code[max(0, start - 256) : start])
    return (start - len(match.group()), end) if match else None


def _read_template_head(code, start):
    """Return ``template <...>`` and requires clause of the declaration that starts there, or nothing."""
    template = _TEMPLATE_HEAD.match(code, start)
    end = find_angle_end(code, template.start("parameters")) if template and template["parameters"] else None
    if end is None:
        return ""
    if clause := re.compile(r"\s*requires\b").match(code, end + 1):
        end = clause.end()
        while primary := _PRIMARY.match(code, end):
            last = primary.end() - 1
            find_end = {"(": find_closing_parenthesis, "<": find_angle_end}.get(code[last], lambda code, at: at)
            close = find_end(code, last)
            if close is None:
                break
            end = close + 1
            if not (joined := re.compile(r"\s*(?:&&|\|\||::)").match(code, end)):
                break
            end = joined.end()
    return " ".join(code[start : end if clause else end + 1].split())


_PRIMARY = re.compile(r"\s*(?:\(|[\w:]+(?:\s*<)?)")  # of a requires clause


def split_parameters(text):
    """Split a parameter list."""
    parts = [" ".join(text[start:end].split()) for start, end in split(text, ",")]
    return () if parts in ([""], ["void"]) else tuple(parts)


_REGISTERED = re.compile(r"\bHOSTCUDA_KERNEL\w*\(")


def skip_registrations(scan, start, at):
    """Return where a declaration before `at` starts, without registrations of kernels before it."""
    while registration := _REGISTERED.search(scan.code, start, at):
        start = find_closing_parenthesis(scan.code, registration.end() - 1) + 1
    return start


def find_kernel_bodies(text):
    """Return the `Scan` of a text that `rewrite` has made, and a list of the kernels that it defines."""
    scan = Scan(text)
    return scan, [body for body in find_kernels(scan) if scan.code[body.open] == "{" and body.scope is not None]
