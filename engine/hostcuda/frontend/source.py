"""Prepare CUDA C++ text for a host compiler.

With the engine's headers, a C++ compiler understands almost all of CUDA. The rest is rewritten in the text, which
`hostcuda.frontend.preprocess` has made: it has no macros but CUDA's own words. No line moves:

- ``extern __shared__ T name[];`` becomes a pointer to the block's dynamic shared memory;
- after the body of a ``__global__`` function ``HOSTCUDA_KERNEL(name)`` registers it with the runtime, so that it can be
  found by name and its parameters are known;
- inline PTX becomes calls of functions with the same effect (``include/hostcuda/ptx.h``), or a ``static_assert`` whose
  message says what the engine does not support;
- ``__device__`` variables are kept though no kernel writes them, and ``alignas`` moves before ``__shared__``;
- functions that launch kernels, thread_local variables and texture references become such a ``static_assert``, too.

``#pragma unroll`` is kept, and host compilers ignore it: g++ vectorizes the loops over a register tile by itself, which
is twice as fast (GEMM, 8 by 8 per thread: 4.6 against 2.1 GMAC/s) as if it had to unroll them first.

The scan handles comments, strings, raw strings and directives. It is not a parser.
"""

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from hostcuda.frontend import hostcode, ptx
from hostcuda.frontend.brackets import angle_end, closing_parenthesis, edited, level_start, split, text_end


@dataclass(frozen=True)
class Kernel:
    """A kernel that is defined, explicitly instantiated or declared."""

    name: str  # as written, with template arguments if it is an explicit instantiation or specialization
    parameters: tuple[str, ...]  # the declarations, as ``("const float *x", "int n")``
    template: bool  # true for a template's own definition, which has no symbol until it is instantiated
    bounds: str  # the first argument of its ``__launch_bounds__``, or empty
    scope: str | None  # the namespaces around it, for example ``"a::b"``, or empty; None in a class
    head: str  # ``template <...>`` of a template, with its requires clause
    tail: str  # a requires clause after the parameters
    declared: bool  # whether it is only declared
    # positions: of the declaration, behind its ``__global__``, of its name, and of its braces, or of the semicolon
    start: int
    marker_end: int
    name_start: int
    name_end: int
    open: int
    close: int


@dataclass(frozen=True)
class Rewritten:
    """The text for the host compiler, and the kernels in it."""

    text: str
    kernels: tuple[Kernel, ...]


# ---------------------------------------------------------------------------------------------------------------------
# Reading: comments, literals, directives, braces

_LEXEME = re.compile(
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
    return _LEXEME.sub(lambda match: _blank(match[0]) if match["comment"] else match[0], text)


def _mask(text):
    """Return the text with spaces instead of comments and of the contents of literals."""

    def hide(match):
        lexeme = match.group()
        if match["comment"]:
            return _blank(lexeme)
        if match["raw"] or match["string"] or match["char"]:
            return lexeme[0] + _blank(lexeme[1:-1]) + lexeme[-1] if len(lexeme) > 1 else " "
        return lexeme

    return _LEXEME.sub(hide, text)


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

    def and_one(self, start, scope):
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
        marks = [(m.start(), m.end(), m.group()) for m in re.finditer(r"[{};]", self.code)]
        marks += [(directive.start, directive.end, "#") for directive in self.directives]
        open_ = _NONE_OPEN
        for start, end, mark in sorted(marks):
            if mark == "{":
                open_ = open_.and_one(start, _read_scope(self.code[self._starts[-1] : start]))
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


def _read_scope(head):
    """Return the scope that the brace after `head` opens: a namespace, "" for ``extern "C"``, None for others."""
    match = _NAMESPACE.search(head, 1 + max(map(head.rfind, "()=")))
    return (match["name"] or "") if match else None


def opens_scope(head):
    """Return whether the brace after `head` opens a namespace or ``extern "C"``."""
    return _read_scope(head) is not None


# ---------------------------------------------------------------------------------------------------------------------
# Kernels

_SPELT_LIKE_CALLS = re.compile(r"\b(?:__\w+__|alignas|noexcept|decltype|__attribute__|__declspec|throw|requires)$")
_TEMPLATE_HEAD = re.compile(r"\s*(?P<extern>extern\s+)?template\b\s*(?P<parameters><\s*(?P<any>[^\s>])?)?")


def _find_kernels(scan):
    """Yield the `Kernel`s of a text; an ``extern template`` is none."""
    for match in re.finditer(r"\b__global__\b", scan.code):
        head = _read_head(scan.code, match.end())
        if head is None or (scan.code[head[-1]] == "{" and head[-1] not in scan.closing):
            continue
        name_start, name_end, parameters_start, parameters_end, open_ = head
        start = after_registrations(scan, scan.declaration_start(match.start()), match.start())
        template = _TEMPLATE_HEAD.match(scan.code, start)
        if template and template["extern"] and scan.code[open_] == ";":
            continue
        yield Kernel(
            " ".join(scan.code[name_start:name_end].split()),
            parameter_list(scan.code[parameters_start + 1 : parameters_end]),
            template=bool(template and template["any"]),
            bounds=_read_launch_bounds(scan.code, start, open_),
            scope=scan.scope(match.start()),
            head=_read_template_head(scan.code, start),
            tail=" ".join(re.search(r"(?:\brequires\b.*)?$", scan.code[parameters_end:open_], re.DOTALL)[0].split()),
            declared=scan.code[open_] == ";" and (not template or bool(template["parameters"])),
            start=start,
            marker_end=match.end(),
            name_start=name_start,
            name_end=name_end,
            open=open_,
            close=scan.closing.get(open_, open_),
        )


def _read_launch_bounds(code, start, end):
    match = re.compile(r"\b__launch_bounds__\s*\(").search(code, start, end)
    close = closing_parenthesis(code, match.end() - 1) if match else None
    return parameter_list(code[match.end() : close])[0] if close else ""


def _register(kernel, overloaded, bounded):
    """Return the text that registers a kernel; `bounded` are the names of templates with launch bounds."""
    name = kernel.name
    if overloaded:  # the type of its pointer selects the overload
        name = f"*{hostcode.pointer(kernel, '')}"
    bounds, (template, arguments, _) = kernel.bounds, kernel.name.partition("<")
    if not bounds and arguments and template.strip() in bounded:
        bounds = f"{_BOUNDS}{kernel.name}::value"
    return f" HOSTCUDA_KERNEL_BOUNDS(({bounds}), {name})" if bounds else f" HOSTCUDA_KERNEL({name})"


_BOUNDS = "hostcuda_bounds_"


def _keep_bounds(kernel):
    """Return the text after a template's definition that keeps its bounds, which may depend on its parameters."""
    head = " ".join(kernel.head.split())
    return f" {head} struct {_BOUNDS}{kernel.name} {{ static constexpr int value = ({kernel.bounds}); }};"


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
        close = closing_parenthesis(code, at)
        if close is None:
            return None
        name = _find_name(code, at)
        if name and not _SPELT_LIKE_CALLS.search(code[name[0] : name[1]]):
            spans = (*name, at, close)
        at = close + 1
    return None


def function_name(code, at):
    """Return the plain name of the function that is declared from `at` on, or nothing."""
    head = _read_head(code, at)
    return code[head[0] : head[1]].partition("<")[0].rpartition("::")[2].strip() if head else ""


def _find_name(code, at):
    """Return the span of the (possibly qualified, possibly templated) name that ends at `at`."""
    end = start = text_end(code, at)
    if code[end - 1 : end] == ">":
        start = text_end(code, level_start(code, end - 1) or 0)
    match = re.search(r"[A-Za-z_][\w:]*$", code[max(0, start - 256) : start])
    return (start - len(match.group()), end) if match else None


def _read_template_head(code, start):
    """Return ``template <...>`` and requires clause of the declaration that starts there, or nothing."""
    template = _TEMPLATE_HEAD.match(code, start)
    end = angle_end(code, template.start("parameters")) if template and template["parameters"] else None
    if end is None:
        return ""
    if clause := re.compile(r"\s*requires\b").match(code, end + 1):
        end = clause.end()
        while primary := _PRIMARY.match(code, end):
            last = code[primary.end() - 1]
            close = {"(": closing_parenthesis, "<": angle_end}.get(last, lambda code, at: at)(code, primary.end() - 1)
            if close is None:
                break
            end = close + 1
            if not (joined := re.compile(r"\s*(?:&&|\|\||::)").match(code, end)):
                break
            end = joined.end()
    return " ".join(code[start : end if clause else end + 1].split())


_PRIMARY = re.compile(r"\s*(?:\(|[\w:]+(?:\s*<)?)")  # of a requires clause


def parameter_list(text):
    """Split a parameter list."""
    parts = [" ".join(text[start:end].split()) for start, end in split(text, ",")]
    return () if parts in ([""], ["void"]) else tuple(parts)


_REGISTERED = re.compile(r"\bHOSTCUDA_KERNEL\w*\(")


def after_registrations(scan, start, at):
    """Return where a declaration before `at` starts, without registrations of kernels before it."""
    while registration := _REGISTERED.search(scan.code, start, at):
        start = closing_parenthesis(scan.code, registration.end() - 1) + 1
    return start


def kernel_bodies(text):
    """Return the `Scan` of a text that `rewrite` has made, and a list of the kernels that it defines."""
    scan = Scan(text)
    return scan, [body for body in _find_kernels(scan) if scan.code[body.open] == "{" and body.scope is not None]


# ---------------------------------------------------------------------------------------------------------------------
# Dynamic shared memory

_ATTRIBUTE = re.compile(
    r"""\b(?:__align__|alignas|__attribute__)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\) | \[\[.*?\]\]""",
    re.VERBOSE | re.DOTALL,
)
_UNSIZED = re.compile(r"(?P<name>\b\w+)\s*\[\s*\](?P<more>(?:\s*\[[^\]]*\])*)\s*(?P<end>,|$)")


def _replace_shared(declaration, in_function, code):
    """Return what replaces an ``extern __shared__ ...`` declaration (without its semicolon), or None.

    In a function it is a pointer, which a lambda can capture by value. If the code takes the address of the array
    itself, it is a reference to an array.
    """
    text, externs = re.subn(r"\bextern\b", " ", _ATTRIBUTE.sub(" ", declaration))
    text, shareds = re.subn(r"\b__shared__\b", " ", text)
    first = _UNSIZED.search(text)
    if not (externs and shareds and first):
        return None
    type_ = " ".join(text[: first.start()].split())
    statements = []
    for part in _UNSIZED.finditer(text, first.start()):
        name, more = part["name"], "".join(part["more"].split())
        pointer = f"{type_} (*%s){more}" if more else f"{type_} *%s"
        if not in_function:
            statements.append(f"extern __thread {pointer % f'const {name}'} {_ALIAS}")
        elif re.search(rf"(?<!&)&\s*{name}\b(?!\s*\[)", code):
            array = f"{type_} (%s)[]{more}"
            statements.append(f"{array % f'&{name}'} = *({array % '*'})hostcuda::dynamic_shared()")
        else:
            statements.append(f"{pointer % name} = ({pointer % ''})hostcuda::dynamic_shared()")
    return "; ".join(statements)


# At namespace scope a variable is needed: another name, with the right type, for the runtime's pointer.
_ALIAS = 'asm("hostcuda_dynamic_shared") __attribute__((tls_model("initial-exec"), visibility("default")))'


def _dynamic_shared_edits(scan):
    last = None  # the braces around the array before
    for match in re.finditer(r"\b__shared__\b", scan.code):
        start = _skip_statement_head(scan.code, scan.declaration_start(match.start()))
        end = scan.code.find(";", match.end())
        new = _replace_shared(scan.code[start:end], scan.scope(match.start()) is None, scan.code) if end >= 0 else None
        if new:
            before, last = last, scan._open_at(match.start())
            first, call, others = new.partition("_shared()")  # "(0)" has the compiler warn of a second array
            new = first + (call.replace("()", "(0)") if before is last else call) + others.replace("d()", "d(0)")
            yield start, end, new + scan.newlines(start, end)


_STATEMENT_HEAD = re.compile(r"\s*(?:(?P<condition>if|for|while|switch)\b[^;(]*(?=\()|(?:else|do)\b|\w+\s*:(?!:))?\s*")


def _skip_statement_head(code, at):
    """Return the start of a declaration after ``if (...)``, ``else``, a label and white space."""
    while (match := _STATEMENT_HEAD.match(code, at)) and match.end() > at:
        at = match.end()
        if match["condition"]:
            at = (closing_parenthesis(code, at) or at) + 1
    return at


# ---------------------------------------------------------------------------------------------------------------------
# Qualifiers of variables

_VARIABLE = re.compile(r"\b__(?:device|managed)__(?=[^(){};=\[]*[;={\[])")
_ALIGNED = re.compile(r"\b(__(?:shared|constant)__)(\s+)(alignas)(?=\s*\()")


def _variable_edits(scan):
    """Keep ``__device__`` variables that only the host writes; move ``alignas`` to where g++ expects it."""
    for match in _VARIABLE.finditer(scan.code):
        if scan.scope(match.start()) is not None:
            yield match.end(), match.end(), " __attribute__((used))"
    for match in _ALIGNED.finditer(scan.code):
        end = closing_parenthesis(scan.code, match.end())
        start = _skip_statement_head(scan.code, scan.declaration_start(match.start()))
        if end is not None and "extern" not in scan.code[start : match.end()].split():  # that is dynamic shared memory
            yield start, start, scan.text[match.start(3) : end + 1] + " "
            yield match.start(3), end + 1, scan.newlines(match.start(3), end + 1)


# ---------------------------------------------------------------------------------------------------------------------
# Inline PTX

_ASM = re.compile(r"\b(?:asm|__asm|__asm__)\s*(?:\b(?:volatile|__volatile|__volatile__)\s*)?\(")
_OPERAND = re.compile(r'\s*"(\s*)"\s*(?=\()')
_ESCAPES = {"n": "\n", "t": "\t"}


def _read_literal(text):
    """Return the contents of the string literals in `text`, which must have nothing else."""
    parts = []

    def read(match):
        lexeme = match.group()
        if match["raw"]:
            parts.append(lexeme[lexeme.index("(") + 1 : lexeme.rindex(")")])
        elif match["string"]:
            parts.append(re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), lexeme[1:-1]))
        elif not match["comment"]:
            return lexeme
        return ""

    other = _LEXEME.sub(read, text).strip()
    if other:
        raise ValueError(f"the CPU engine reads inline PTX from string literals, and {other} is not one")
    return "".join(parts)


def _read_operands(scan, sections):
    """Yield the operands of an asm statement, %0 first, from the spans of its outputs and its inputs."""
    for section, output in zip(sections, (True, False), strict=False):
        for start, end in split(scan.code, ",", *section, angles=False):
            if constraint := _OPERAND.match(scan.code, start, end):
                yield ptx.Operand(scan.text[slice(*constraint.span(1))].strip("=+ "), output, constraint.end(), end)
            elif scan.code[start:end].strip():
                raise ValueError(f'an operand of inline PTX is "constraint"(expression), not {scan.text[start:end]}')


def _asm_edits(scan):
    """Replace each asm statement by the call of a lambda; its operands become the arguments, at the same positions."""
    for match in _ASM.finditer(scan.code):
        at, end = match.start(), closing_parenthesis(scan.code, match.end() - 1)
        if end is None or scan.scope(at) is not None:
            continue
        template, *sections = split(scan.code, ":", match.end(), end, angles=False)
        try:
            text = _read_literal(scan.text[slice(*template)])
            operands = list(_read_operands(scan, sections))
            if not operands and not text.strip():
                continue  # a compiler barrier, also for the host's compiler
            calls = ptx.calls(text, operands)
        except ValueError as error:
            if not scan.on_device(at):
                continue  # assembly of the host's processor
            message = " ".join(str(error).split()).replace("\\", "\\\\").replace('"', '\\"')
            # In a generic lambda, because a template that nobody instantiates may have any PTX.
            refusal = f'[](auto never) {{ static_assert(sizeof never == 0, "{message}"); }}(0)'
            yield at, end + 1, refusal + scan.newlines(at, end)
            continue
        parameters = ", ".join(f"auto {'&' * operand.output}p{n}" for n, operand in enumerate(operands))
        new = f"[]({parameters}) {{ {calls}}}("
        for operand in operands:
            yield at, operand.start, new + scan.newlines(at, operand.start)
            new, at = ", ", operand.end
        yield at, end + 1, (")" if operands else f"{new})") + scan.newlines(at, end)


# ---------------------------------------------------------------------------------------------------------------------
# What the engine does not have

_THREAD_LOCAL = re.compile(r"\b(?:thread_local|__thread)\b[^;=({\[]*?(?P<name>\w+)\s*[;=({\[,]")
_TEXTURE = re.compile(r"\b(?:texture|surface)\s*<[^;{}()]*>\s*\w+\s*;")
_HAS_NO = {
    "host": "host code: keep the kernels, and launch them from Python; code between #ifndef __CUDA_ARCH__ and #endif "
    "is passed over",
    "device": "launches by kernels (dynamic parallelism): launch the kernel from the host, or run it on a GPU",
    "thread_local": "thread_local variables, and nvcc has none for the device: declare a thread's variable in the "
    "kernel, and one that the block shares as __shared__",
    "texture": "texture references, which CUDA 12 has removed: use a texture object (cudaCreateTextureObject), or give "
    "the kernel a pointer and compute the index",
}


def _refuse(what):
    return f'static_assert(false, "the CPU engine has no {_HAS_NO[what]}");'


def _reaches_device(scan, name, seen):
    """Return whether code for the device names this, or a function or class that does."""
    seen.add(name)
    for use in re.finditer(rf"\b{name}\b", scan.code):
        if (start := scan.function(use.start())) is None:
            continue
        around = re.search(r"(\w+)\s*(?:\(|$)", scan.code[scan.declaration_start(start) : start].strip())
        if not around or scan.on_device(use.start()):
            return True
        if around[1] not in seen and _reaches_device(scan, around[1], seen):
            return True
    return False


def _refused_edits(scan, host):
    """Replace texture references, and functions that launch kernels, by a sentence; `host` code may launch.

    The sentence goes before a thread_local variable that code for the device reaches.
    """
    after = 0
    for match in hostcode.LAUNCH.finditer(scan.code):
        start = scan.function(match.start())
        if match.start() < after or start not in scan.closing or (host and not scan.on_device(match.start())):
            continue
        after = scan.closing[start]
        text = _refuse("device" if scan.on_device(match.start()) else "host")
        new = scan.newlines(start, match.start()) + text
        yield start + 1, after, new + scan.newlines(match.start(), after)
    for match in _THREAD_LOCAL.finditer(scan.code):
        if _reaches_device(scan, match["name"], set()):
            start = _skip_statement_head(scan.code, scan.declaration_start(match.start()))
            yield start, start, _refuse("thread_local")
    for match in _TEXTURE.finditer(scan.code):
        if scan.scope(match.start()) is not None:
            yield match.start(), match.end(), _refuse("texture") + scan.newlines(*match.span())


_REFERENCE = re.compile(r"&\s*(?:\w*|\w*\s*\)\s*\[.*)$")  # how a parameter ends that is one


# ---------------------------------------------------------------------------------------------------------------------


def rewrite(text, names=None):
    """Rewrite CUDA C++ without macros (`hostcuda.frontend.preprocess`) for the host compiler.

    With `names`, a `hostcuda.frontend.hostcode.Names`, the text is a whole program: launches in host code are
    rewritten, too, and `names` gets its kernels.
    """
    scan = Scan(text.replace("\r\n", "\n").removeprefix("\ufeff"))
    edits = [*_dynamic_shared_edits(scan), *_variable_edits(scan), *_asm_edits(scan)]
    refused = list(_refused_edits(scan, names is not None))
    edits = [edit for edit in edits if not any(start <= edit[0] < end for start, end, _ in refused)] + refused
    kernels = list(_find_kernels(scan))
    defined = tuple(kernel for kernel in kernels if not kernel.declared)
    variants = {(k.name, k.scope, k.parameters) for k in kernels if not k.template}
    variants = Counter((name, scope) for name, scope, _ in variants)
    templates = Counter(k.name for k in defined if k.template)
    bounded = {k.name for k in defined if k.template and k.bounds and templates[k.name] == 1}
    for kernel in defined:
        refusal = "cannot be a member of a class: move it out of it" if kernel.scope is None else ""
        if not kernel.template and any(map(_REFERENCE.search, map(hostcode.without_default, kernel.parameters))):
            refusal = "takes no references: pass a pointer or a value"
        if refusal:
            at = _skip_statement_head(scan.code, kernel.start)
            edits.append((at, at, f'static_assert(false, "a __global__ function {refusal}"); '))
        elif not kernel.template:
            deduced = kernel.open == kernel.close  # of an instantiation, the template's arguments
            overloaded = (deduced or variants[kernel.name, kernel.scope] > 1) and not kernel.name.endswith(">")
            edits.append((kernel.close + 1, kernel.close + 1, _register(kernel, overloaded, bounded)))
        elif kernel.name in bounded:
            edits.append((kernel.close + 1, kernel.close + 1, _keep_bounds(kernel)))
    if names is not None:
        for kernel in kernels:
            edits.append((kernel.close + 1, kernel.close + 1, hostcode.picks(kernel, names)))
            if kernel.template and kernel.open < kernel.close:
                edits += hostcode.register_instances(kernel, scan.code)
        edits += hostcode.launches(scan, names)
    return Rewritten(edited(scan.text, edits), defined)
