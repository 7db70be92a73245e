"""Read CUDA C++ text, which need not compile: comments, literals, directives, braces, line markers, kernels."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from hostcuda.frontend.tokens import (
    blank,
    find_angle_end,
    find_closing_parenthesis,
    find_opening,
    mask,
    split_spans,
)


@dataclass(frozen=True)
class Kernel:
    """A kernel that is defined, explicitly instantiated or declared."""

    # as written, with template arguments if it is an explicit instantiation or specialization
    name: str
    parameters: tuple[str, ...]  # the declarations, as ``("const float *x", "int n")``
    # true for a template's own definition, which has no symbol until it is instantiated
    template: bool
    # the text of a constant, or empty: the first argument of its ``__launch_bounds__``, with those of
    # its ``__cluster_dims__``
    bounds: str
    scope: str | None  # the namespaces around it, for example ``"a::b"``, or empty; None in a class
    template_head: str  # ``template <...>`` of a template, with its requires clause
    requires: str  # a requires clause after the parameters
    declared: bool  # whether it is only declared
    # positions: of the declaration, behind its ``__global__``, of its name, and of its braces; both
    # are that of the semicolon where there are none, as in a declaration or an explicit
    # instantiation
    start: int
    marker_end: int
    name_start: int
    name_end: int
    open: int
    close: int


# #pragma unroll, which a backslash can continue on the next line; %: is another spelling of #.
_DIRECTIVE = re.compile(
    r"^[ \t]*(?:\#|%:)[ \t]*(?P<word>\w*)(?P<rest>(?:\\\n|[^\n])*)", re.MULTILINE
)
_OF_DEVICE = re.compile(r"\b__(?:global|device)__\b")
MARKER = re.compile(
    r'[ \t]*#[ \t]*(?:line[ \t]+)?(\d+)(?:[ \t]+"((?:[^"\\\n]|\\.)*)")?[^\n]*\n?'
)  # # 7 "file.cu"
_NAMESPACE = re.compile(r"\bnamespace\b\s*(?P<name>[\w:]*)|\bextern\s*\"[^\"]*\"\s*$")


@dataclass(frozen=True, eq=False)
class _Open:
    """The braces that are open at a place: the innermost one, and as `outer` those around it."""

    start: int  # its position
    scope: str | None  # as `Scan.scope`
    function: int | None  # as `Scan.function`
    outer: _Open | None

    def add_brace(self, start: int, scope: str | None) -> _Open:
        """Return the `_Open` with one more brace, at position `start`; `scope` is what `read_scope` says of it.

        All that is inside of a function or class has the scope None, and the position of its outermost brace.
        """
        if self.scope is None or scope is None:
            return _Open(start, None, start if self.function is None else self.function, self)
        return _Open(start, "::".join(filter(None, (self.scope, scope))), None, self)


_NONE_OPEN = _Open(-1, "", None, None)


class Scan:
    """The structure of one text, a source or what the preprocessor makes of it.

    `masked` is without comments and literals, `code` also without directives, and positions are the
    same in all three. `closing` maps the position of a ``{`` to that of its ``}``.
    """

    def __init__(self, text: str):
        """Find the directives, line markers, braces and scopes of a text."""
        self.text = text
        self.masked = mask(text)
        self.directives = list(_DIRECTIVE.finditer(self.masked))  # matches of `_DIRECTIVE`
        self.code = _DIRECTIVE.sub(lambda match: blank(match.group()), self.masked)
        self.closing = {}
        self._starts = [0]  # where a declaration may start
        self._open = [(0, _NONE_OPEN)]  # at each change: (position, the open braces from there on)
        self._markers = [(0, 1, "")]  # line markers: (position after it, number of that line, file)
        for directive in self.directives:
            if marker := MARKER.match(text, directive.start()):
                self._markers.append(
                    (marker.end(), int(marker[1]), marker[2] or self._markers[-1][2])
                )
        self._match_braces()

    def _match_braces(self) -> None:
        """Fill `closing`; note where declarations start in `_starts`, and which braces are open where in `_open`."""
        marks = [(m.start(), m.end(), m.group()) for m in re.finditer(r"[{};]", self.code)]
        marks += [(directive.start(), directive.end(), "#") for directive in self.directives]
        open_ = _NONE_OPEN
        for start, end, mark in sorted(marks):
            if mark == "{":
                open_ = open_.add_brace(start, read_scope(self.code[self._starts[-1] : start]))
            elif mark == "}" and open_.outer:
                self.closing[open_.start] = start
                open_ = open_.outer
            is_within_declaration = mark == "#" and self.code[self._starts[-1] : start].strip()
            if not is_within_declaration:
                self._starts.append(end)
            self._open.append((end, open_))

    def open_at(self, at: int) -> _Open:
        """Return the innermost braces that are open at a position, with what they belong to."""
        # the last change up to `at`, of (position, the braces that are open from there on)
        return self._open[bisect_right(self._open, at, key=lambda change: change[0]) - 1][1]

    def declaration_start(self, at: int) -> int:
        """Return the position where the declaration or statement around position `at` starts (or spaces before it)."""
        return self._starts[bisect_right(self._starts, at) - 1]

    def scope(self, at: int) -> str | None:
        """Return the namespaces around position `at`, as in "a::b", "" outside, or None inside a function or class."""
        return self.open_at(at).scope

    def function(self, at: int) -> int | None:
        """Return the position of the ``{`` of the outermost function or class around the position `at`, or None."""
        return self.open_at(at).function

    def on_device(self, at: int) -> bool:
        """Return whether position `at` is in a function or lambda marked ``__global__`` or ``__device__``."""
        brace = self.open_at(at)  # `outer` is None outside of all braces
        while brace.outer and not _OF_DEVICE.search(
            self.code, self.declaration_start(brace.start), brace.start
        ):
            brace = brace.outer
        return brace.outer is not None

    def place(self, at: int) -> tuple[str, int]:
        """Return (file, 1-based line) of position `at`; the file is "" if no line marker names one."""
        after, line, file = self._markers[
            bisect_right(self._markers, at, key=lambda marker: marker[0]) - 1
        ]
        return file, line + self.text.count("\n", after, at)

    def marker(self, at: int) -> str:
        """Return a line marker, '# 7 "a.cu"' on a line of its own: the compiler counts lines from the place of `at`."""
        file, line = self.place(at)
        return f'\n# {line} "{file}"\n' if file else f"\n#line {line}\n"

    def newlines(self, start: int, end: int) -> str:
        """Return what to add to the text that replaces text[start:end], so that later lines keep their numbers.

        It is as many newlines, or a line marker if the replaced text has one.
        """
        markers_before_end = bisect_right(self._markers, end, key=lambda marker: marker[0])
        after_last_marker = self._markers[markers_before_end - 1][0]
        if after_last_marker > start:
            return self.marker(end)
        return "\n" * self.text.count("\n", start, end)


def read_scope(head: str) -> str | None:
    """Return the namespace that a ``{`` opens: "n" if the text `head` before it ends with ``namespace n``.

    It is "" for ``extern "C"``, and None for a function, a class or another brace.
    """
    # searched behind the last of these signs, which end what precedes a namespace
    match = _NAMESPACE.search(head, 1 + max(map(head.rfind, "()=")))
    return (match["name"] or "") if match else None


# Words that parentheses follow, and that are no name of a function.
_SPELT_LIKE_CALLS = re.compile(
    r"\b(?:__\w+__|alignas|noexcept|decltype|__attribute__|__declspec|throw|requires)$"
)
_REQUIRES = re.compile(r"\brequires\b.*", re.DOTALL)
_PRIMARY = re.compile(r"\s*(?:\(|[\w:]+(?:\s*<)?)")  # the begin of an operand of a requires clause
_REGISTERED = re.compile(r"\bHOSTCUDA_KERNEL\w*\(")
_TEMPLATE_HEAD = re.compile(
    r"\s*(?P<extern>extern\s+)?template\b\s*(?P<parameters><\s*(?P<any>[^\s>])?)?"
)


def find_kernels(scan: Scan) -> Iterator[Kernel]:
    """Yield the `Kernel`s that the text of a `Scan` defines or declares; an ``extern template`` does neither."""
    for match in re.finditer(r"\b__global__\b", scan.code):
        places = _read_head(scan.code, match.end())
        if places is None:  # the head does not end
            continue
        # the parentheses around the parameters, and the "{" of the body, or else the ";"
        name_start, name_end, parameters_start, parameters_end, open_ = places
        if scan.code[open_] == "{" and open_ not in scan.closing:  # the body does not end
            continue
        start = skip_registrations(scan, scan.declaration_start(match.start()), match.start())
        template = _TEMPLATE_HEAD.match(scan.code, start)
        if template and template["extern"] and scan.code[open_] == ";":
            continue
        yield Kernel(
            " ".join(scan.code[name_start:name_end].split()),
            split_parameters(scan.code[parameters_start + 1 : parameters_end]),
            template=bool(template and template["any"]),
            bounds=_read_bounds(scan.code, start, open_),
            scope=scan.scope(match.start()),
            template_head=_read_template_head(scan.code, start),
            requires=" ".join(
                (_REQUIRES.search(scan.code[parameters_end:open_]) or [""])[0].split()
            ),
            # but "template __global__ void f<int>(int);", without <...> after the first word, instantiates
            declared=scan.code[open_] == ";" and (not template or bool(template["parameters"])),
            start=start,
            marker_end=match.end(),
            name_start=name_start,
            name_end=name_end,
            open=open_,
            close=scan.closing.get(open_, open_),
        )


def _read_arguments(attribute: str, code: str, start: int, end: int) -> tuple[str, ...]:
    """Return a tuple with the texts of the arguments of this attribute in code[start:end], empty if it has none."""
    match = re.compile(rf"\b{attribute}\s*\(").search(code, start, end)
    if not match or not (close := find_closing_parenthesis(code, match.end() - 1)):
        return ()
    return split_parameters(code[match.end() : close])


def _read_bounds(code: str, start: int, end: int) -> str:
    """Return the text of the bounds that a kernel's head, code[start:end], declares, or "": see `Kernel`."""
    threads = _read_arguments("__launch_bounds__", code, start, end)
    blocks = _read_arguments("__cluster_dims__", code, start, end)
    if blocks:
        return f"::hostcuda::cluster_bounds({', '.join([*threads[:1], '1024'][:1] + [*blocks])})"
    return threads[0] if threads else ""


def _read_head(code: str, at: int) -> tuple[int, int, int, int, int] | None:
    """Return the positions of (name's start, its end, "(", ")", "{" or ";") in a function's head that begins at `at`.

    The parentheses are those of its parameters. None if it is not the head of a function.
    """
    # (name's start, its end, "(", ")") of the last name before parentheses that is no attribute
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


def find_function_name(code: str, at: int) -> str:
    """Return the name of the function that is declared at position `at`, or ""; "f" for ``void n::f<T>(...)``."""
    head = _read_head(code, at)  # positions, first those of the name's start and end
    if not head:
        return ""
    without_arguments = code[head[0] : head[1]].partition("<")[0]
    return without_arguments.rpartition("::")[2].strip()


def find_functions(scan: Scan) -> Iterator[tuple[str, int, int]]:
    """Yield (name, start, end) of each function that is defined outside of braces (of a class or namespace).

    ``text[start:end]`` is the definition, with what precedes it from the last declaration on.
    Specializations of templates are left out.
    """
    for open_, close in scan.closing.items():
        start = scan.declaration_start(open_)
        at = start  # where the function's head is read from: behind template <...>, if it has that
        template = _TEMPLATE_HEAD.match(scan.code, start)
        if template and template["parameters"]:
            at = find_angle_end(scan.code, template.start("parameters")) or start
        # positions: the name's start and end, the parentheses around the parameters, and the "{"
        head = _read_head(scan.code, at)
        if head and head[-1] == open_ and not scan.open_at(open_).outer:
            name = scan.code[head[0] : head[1]].rpartition("::")[2].strip()
            if name.isidentifier():  # not f<int>
                yield name, start, close + 1


def _find_name(code: str, at: int) -> tuple[int, int] | None:
    """Return (start, end) of a name such as ``a::f<3>`` before position `at`, or None; spaces may follow it."""
    end = start = len(code[:at].rstrip())
    if code[end - 1 : end] == ">":
        start = len(code[: find_opening(code, end - 1) or 0].rstrip())
    # 256: longer than names are
    match = re.search(r"[A-Za-z_][\w:]*$", code[max(0, start - 256) : start])
    return (start - len(match.group()), end) if match else None


def _read_template_head(code: str, start: int) -> str:
    """Return the text of ``template <...>`` and a requires clause, at position `start` of a declaration, or ""."""
    template = _TEMPLATE_HEAD.match(code, start)
    end = (
        find_angle_end(code, template.start("parameters"))
        if template and template["parameters"]
        else None
    )
    if end is None:
        return ""
    if clause := re.compile(r"\s*requires\b").match(code, end + 1):
        end = clause.end()
        while primary := _PRIMARY.match(code, end):
            last = primary.end() - 1  # a bracket that opens, or the end of a name
            find_end = {"(": find_closing_parenthesis, "<": find_angle_end}.get(
                code[last], lambda code, at: at
            )
            close = find_end(code, last)
            if close is None:
                break
            end = close + 1
            if not (joined := re.compile(r"\s*(?:&&|\|\||::)").match(code, end)):
                break
            end = joined.end()
    return " ".join(code[start : end if clause else end + 1].split())


def split_parameters(text: str) -> tuple[str, ...]:
    """Return the declarations in the text of a parameter list: ("float *x", "int n")."""
    parts = [" ".join(text[start:end].split()) for start, end in split_spans(text, ",")]
    return () if parts in ([""], ["void"]) else tuple(parts)


def skip_registrations(scan: Scan, start: int, at: int) -> int:
    """Return the position behind all HOSTCUDA_KERNEL(...) between `start` and `at`, else `start`.

    `rewrite` has added these macros, which register kernels. No ";" ends them, so they look like the begin of
    the next declaration.
    """
    while registration := _REGISTERED.search(scan.code, start, at):
        close = find_closing_parenthesis(scan.code, registration.end() - 1)
        assert close is not None  # `rewrite` has written it whole
        start = close + 1
    return start


def find_kernel_bodies(text: str) -> tuple[Scan, list[Kernel]]:
    """Scan a text that `rewrite` has made; return its `Scan`, and the kernels that it defines outside of classes."""
    scan = Scan(text)
    return scan, [
        kernel
        for kernel in find_kernels(scan)
        # with a body; the scope is None in a class
        if scan.code[kernel.open] == "{" and kernel.scope is not None
    ]
