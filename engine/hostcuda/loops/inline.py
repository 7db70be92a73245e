"""Replace functions that wait: warp functions by exchanges, and calls of device functions by their bodies.

A function is replaced if it returns nothing, or once, at its end. A call inside of an expression
becomes a statement before it, if that does not change what is computed. The names of the function
get a prefix in the kernel.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from hostcuda.frontend.scan import (
    Kernel,
    Scan,
    find_kernel_bodies,
    skip_registrations,
    split_parameters,
)
from hostcuda.frontend.tokens import Edit, apply_edits
from hostcuda.loops.exchange import replace_warp_functions
from hostcuda.loops.file import File, spread_to_users
from hostcuda.loops.order import (
    Statement,
    find_declared_names,
    find_unshared_names,
    walk_with_parents,
)
from hostcuda.loops.reader import Node, Reader
from hostcuda.loops.words import (
    ASSIGNMENTS,
    BARRIER,
    RESTRICT,
    SPECIFIERS,
    TYPES,
    WARP_FUNCTIONS,
    NeedsFibers,
)

INLINED = re.compile(r"\bhostcuda_\d+_")  # of the names of a function that stands in a kernel
_DEEPEST_CALL = 16  # calls within calls
# The head of a function: [template <int n, class T>] [static __device__ float] total(float *x, int
# i)
_HEAD = re.compile(
    r"(?:template ?<(?P<template>[^{;]*)> ?)?(?P<result>[\w ]*?)(?P<name>\w+) ?\((?P<parameters>.*)\)"
)
# A number, a literal, a member such as ``.x`` or ``->x``, and else a name.
_NAME = re.compile(
    r"""\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])* | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | (?:\.|->|::)\s*[A-Za-z_]\w*
      | (?P<name>[A-Za-z_]\w*)""",
    re.VERBOSE,
)
_FUNCTION_SPECIFIERS = {
    "__device__",
    "__host__",
    "inline",
    "__inline__",
    "__forceinline__",
    "__noinline__",
    "static",
}


@dataclass
class _Function:
    """A function that waits; positions are those in the source."""

    templates: list[tuple[str, str]]  # (type, name) of each parameter of the template
    parameters: list[tuple[str, str]]  # (type, name)
    start: int  # from here to `end` is its body, without the return at its end
    end: int
    type: str  # of its result
    result: tuple[int, int]  # the span of the expression that it returns; empty for void
    names: set = field(default_factory=set)  # names that it declares
    other_words: set = field(default_factory=set)  # all other words in it
    shared: bool = False  # whether it declares shared memory


def inline(
    scan: Scan, bodies: list[Kernel], file: File
) -> tuple[Scan, list[Kernel], dict[str, str]]:
    """Replace, in kernels, warp functions by exchanges, and calls of device functions that wait by their bodies.

    `file` has the declarations of the source, `bodies` are its kernels. Returns (`Scan` of the new
    text, list of the `Kernel`s in it, dict: a kernel's name -> why warp functions are left). What
    is left is refused later.
    """
    # the set: (kernel, function with shared memory) of calls that were replaced. A second call of the
    # function stays: with its body put in twice, the calls would not use the same shared memory.
    reasons, numbers, calls_with_shared = {}, count(1), set()
    for _ in range(_DEEPEST_CALL):
        functions, edits = _find_functions(scan, file), []
        for body in bodies:
            with contextlib.suppress(NeedsFibers):  # `KernelPlan` will raise it again
                edits += _replace_calls(
                    scan, body, functions, file, numbers, reasons, calls_with_shared
                )
        if not edits:
            break
        # the next round also replaces the calls in the bodies that were put in
        scan, bodies = find_kernel_bodies(apply_edits(scan.text, edits))
    return scan, bodies, reasons


def _find_functions(scan: Scan, file: File) -> dict[str, _Function]:
    """Return a dict: name -> `_Function`, of those that wait or call one that does, and whose calls can be replaced."""
    # A function waits if it has a barrier or a warp function.
    heads = {}  # name -> (match of its head, position of "{", position of "}")
    for open_, close in scan.closing.items():
        words = scan.code[
            skip_registrations(scan, scan.declaration_start(open_), open_) : open_
        ].split()
        # in no namespace or class
        head = _HEAD.fullmatch(" ".join(words)) if scan.scope(open_) == "" else None
        if head and "__device__" in words:
            heads[head["name"]] = head, open_, close
    # Pairs (names, words in their bodies), with which "waits" spreads from the words to the names.
    uses = [
        ({name}, set(re.findall(r"\w+", scan.code[open_:close])))
        for name, (_, open_, close) in heads.items()
    ]
    waiting, functions = spread_to_users(uses, dict.fromkeys([BARRIER, *WARP_FUNCTIONS], "")), {}
    for name in waiting.keys() & heads.keys():
        with contextlib.suppress(NeedsFibers):
            function = _read_function(scan, *heads[name])
            is_recursive = function.other_words & spread_to_users(uses, {name: ""}).keys()
            # In the kernel, the function's words have to mean the same.
            if not is_recursive and all(map(file.is_unique, {name, *function.other_words})):
                functions[name] = function
    return functions


def _read_function(scan: Scan, head: re.Match[str], open_: int, close: int) -> _Function:
    """Return the `_Function` whose head is a match of `_HEAD`, and whose braces are at two positions.

    Raise `NeedsFibers` if it returns before its end, or if a variable hides a parameter.
    """
    reader = Reader(scan.code, open_ + 1, close)
    tokens, last, result = reader.tokens, close, (close, close)
    returns = [at for at, token in enumerate(tokens) if token.text == "return"]
    type_ = " ".join(word for word in head["result"].split() if word not in _FUNCTION_SPECIFIERS)
    # The only return has to be the last statement, and in no block: only its semicolon follows.
    if len(returns) != (type_ != "void") or any(
        token.text in ";{}" for at in returns for token in tokens[at:-1]
    ):
        raise NeedsFibers("it returns before its end")
    if returns:
        last, result = tokens[returns[0]].start, (tokens[returns[0]].end, tokens[-1].start)
    statements = Reader(scan.code, open_ + 1, last).read_statements()
    templates = [_read_parameter(text) for text in split_parameters(head["template"] or "")]
    function = _Function(
        templates,
        [_read_parameter(text) for text in split_parameters(head["parameters"])],
        open_ + 1,
        last,
        type_,
        result,
        {reader.text(at) for at in find_declared_names(reader, statements)},
    )
    arguments = {name for _, name in (*function.templates, *function.parameters)}
    if function.names & arguments:
        raise NeedsFibers("a variable hides a parameter")
    function.names |= arguments
    words = {
        token.text
        for at, token in enumerate(tokens)
        if token.kind == "word" and reader.text(at - 1) not in (".", "->")
    }
    function.other_words, function.shared = words - function.names, "__shared__" in words
    return function


def _read_parameter(text: str) -> tuple[str, str]:
    """Return (type, name) of a parameter's declaration that gets a copy; an array is a pointer.

    Raise `NeedsFibers` for a reference.
    """
    match = re.fullmatch(r"(?P<type>[\w\s:<>*]*[\s*])(?P<name>\w+)(?P<array>\s*\[[^]]*\])?", text)
    if not match:
        raise NeedsFibers("a parameter is not understood")
    return match["type"].strip() + (" *" if match["array"] else ""), match["name"]


def _replace_calls(
    scan: Scan,
    body: Kernel,
    functions: Mapping[str, _Function],
    file: File,
    numbers: Iterator[int],
    reasons: dict[str, str],
    calls_with_shared: set[tuple[str, str]],
) -> list[Edit]:
    """Return edits that replace, in each statement of the kernel `body`, the first call in which threads wait.

    `functions`: as `_find_functions` returns it. `numbers`: an iterator, for new names. It changes
    `reasons`, a dict from a kernel's name to why a warp function stays; and `calls_with_shared`, a
    set of (kernel, function) that were replaced: a second call would get shared memory of its own.
    """
    reader, edits, waiting = (
        Reader(scan.code, body.open + 1, body.close),
        [],
        functions.keys() | WARP_FUNCTIONS.keys(),
    )
    words = [token.text for token in reader.tokens]
    if not waiting & set(words) or body.name in reasons:
        return []
    statements, unshared = reader.read_statements(), find_unshared_names(reader, body, scan, file)
    kernel_names = {reader.text(at) for at in find_declared_names(reader, statements)}
    head = scan.code[body.name_end : body.open] + body.template_head
    kernel_names |= set(re.findall(r"\w+", head)) - TYPES - SPECIFIERS - RESTRICT
    for node, parent in walk_with_parents(statements):
        span = node.parts["condition"] if node.kind == "if" else (node.first, node.last - 1)
        at = next((i for i in range(*span) if words[i] in waiting), None)  # the first waiting call
        if at is None or node.kind not in ("expression", "declaration", "if"):
            continue
        try:
            statement = Statement(scan, reader, file, unshared, node, parent)
            if node.kind == "declaration" and len(reader.read_declarators(*span)) > 1:
                edits.append(_split_declaration(scan, reader, node))
            elif at not in range(*statement.span):
                raise NeedsFibers("a declaration is not understood")
            elif words[at] in WARP_FUNCTIONS:
                edits += replace_warp_functions(statement, numbers)
            elif not (words[at] in kernel_names or words[at - 1] in (".", "->", "::")):
                call = _Call(statement, at, functions[words[at]], f"hostcuda_{next(numbers)}_")
                if (body.name, words[at]) in calls_with_shared:
                    raise NeedsFibers("all calls use the same shared memory")
                edits += call.replace(kernel_names, functions)
                calls_with_shared |= {(body.name, words[at])} if call.function.shared else set()
        except NeedsFibers as reason:
            # any other call that stays is refused later: its function "uses __syncthreads"
            if words[at] in WARP_FUNCTIONS:
                reasons[body.name] = str(reason)
    return edits


def _split_declaration(scan: Scan, reader: Reader, node: Node) -> Edit:
    """Return the edit (start, end, new text) that makes ``int a = 1; int b = 2;`` of ``int a = 1, b = 2;``."""
    end, tokens = reader.require_type_end(node.first, node.last - 1), reader.tokens
    type_ = scan.text[tokens[node.first].start : tokens[end - 1].end]
    spans = [
        (tokens[first].start, tokens[last - 1].end)
        for first, last in reader.split(end, node.last - 1)
    ]
    new = " ".join(f"{type_} {scan.text[slice(*span)]};" for span in spans)
    return tokens[node.first].start, tokens[node.last - 1].end, new


class _Call:
    """A call of a function at token `at` of a `Statement`, which is to be replaced by the function's body.

    The function's names get the `prefix` there, such as "hostcuda_7_".
    """

    def __init__(self, statement: Statement, at: int, function: _Function, prefix: str):
        """Read the call's arguments; raise `NeedsFibers` unless there is one for each parameter."""
        self.statement, self.at, self.function, self.result = (
            statement,
            at,
            function,
            f"{prefix}result",
        )
        reader, node, template_arguments, open_ = statement.reader, statement.node, [], at + 1
        if reader.text(open_) == "<":
            close = next((i for i in range(open_, node.last) if reader.text(i) == ">"), node.last)
            template_arguments, open_ = (
                [statement.text(*span) for span in reader.split(open_ + 1, close)],
                close + 1,
            )
        # the token after the call
        self.end = reader.match[open_] + 1 if reader.text(open_) == "(" else 0
        arguments = reader.split(open_ + 1, self.end - 1) if open_ + 2 < self.end else []
        if len(arguments) != len(function.parameters) or len(template_arguments) != len(
            function.templates
        ):
            raise NeedsFibers("a call is not understood")
        self.new_names = {name: prefix + name for name in function.names}
        # a constant for each value that the template gets, and a variable for each parameter
        self.definitions = []
        for (type_, name), value in zip(function.templates, template_arguments, strict=True):
            if type_ not in ("class", "typename"):
                self.definitions.append(f"constexpr {type_} {prefix}{name} = {value};")
            elif value in TYPES:
                self.new_names[name] = value
            else:
                raise NeedsFibers("a template's argument is not understood")
        for (type_, name), span in zip(function.parameters, arguments, strict=True):
            self.definitions.append(
                f"{_rename(self.new_names, type_)} {prefix}{name} = {statement.text(*span)};"
            )
        self.type = _rename(self.new_names, function.type)

    def _write_body(self) -> str:
        """Return the text of a block: the parameters as variables, the function's body, the result's assignment."""
        scan, function = self.statement.scan, self.function
        content = _rename(self.new_names, scan.text[function.start : function.end])
        returned = _rename(self.new_names, scan.text[slice(*function.result)])
        result = f"{self.result} = {returned};" if returned else ""
        return f"{{ {' '.join(self.definitions)}{scan.marker(function.start)}{content} {result} }}"

    def replace(self, kernel_names: set[str], functions: Mapping[str, _Function]) -> list[Edit]:
        """Return edits (start, end, text): the function's body goes before the statement, its result replaces the call.

        Raise `NeedsFibers` if that would mean something else, by the kernel's names (a set) or the
        order of evaluation. `functions` are those whose calls are replaced, by name.
        """
        statement, function, span = self.statement, self.function, (self.at, self.end)
        reader, node = statement.reader, statement.node
        # A word of the body may be a name of the kernel's with another meaning. Not so a call of
        # `functions`, which is replaced after this one.
        if function.other_words & kernel_names - functions.keys():
            raise NeedsFibers("its names have another meaning here")
        # back to the kernel's line, behind the body
        line = statement.scan.marker(reader.tokens[node.last - 1].end)
        if span == (node.first, node.last - 1):  # the call is the whole statement
            return statement.put_before(self._write_body(), [(node.first, node.last, line)])
        if not set(self.type.split()) <= TYPES - {"void", "auto"}:
            raise NeedsFibers("its type is not understood")
        if choice := self._read_choice(*statement.span):  # of ``v = c ? f(x) : y``
            span, content = choice
        elif statement.may_follow([span]) and not statement.reads_memory([span]):
            content = self._write_body()
        else:
            raise NeedsFibers("the order matters")
        return statement.put_before(
            f"{self.type} {self.result}; {content}{line}", [(span[0], span[1], f" {self.result} ")]
        )

    def _read_choice(self, first: int, last: int) -> tuple[tuple[int, int], str] | None:
        """Return (span of tokens of ``c ? f(x) : y``, text that computes it), or None for other statements.

        The statement's tokens[first:last] have to be ``v = c ? f(x) : y`` or ``= c ? f(x) : y``,
        with the call as f(x).
        """
        reader, text = self.statement.reader, self.statement.text
        signs = [
            at
            for at in reader.outside_brackets(first, last)
            if reader.text(at) in ("?", ":", ",", *ASSIGNMENTS)
        ]
        if (
            [reader.text(at) for at in signs] != ["=", "?", ":"]
            or signs[0] > first + 1
            or ((self.at, self.end) != (signs[1] + 1, signs[2]))
        ):
            return None
        other = text(signs[2] + 1, last)
        proof = f"hostcuda_require_same({self.type}, {other});"  # else C++ converts one of them
        condition = text(signs[0] + 1, signs[1])
        new = f"{proof} if ({condition}) {self._write_body()} else {{ {self.result} = {other}; }}"
        return (signs[0] + 1, last), new


def _rename(new_names: dict[str, str], text: str) -> str:
    """Return the text with names replaced by the dict `new_names`; members, which may be spelt alike, keep theirs."""
    return _NAME.sub(lambda match: new_names.get(match["name"], match.group()), text)
