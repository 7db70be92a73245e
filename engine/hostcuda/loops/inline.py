"""Device functions that wait, at a barrier or for their warp: their calls in kernels are replaced by their bodies.

Only then the barriers are the kernel's own. Replaced are calls of functions that return nothing, or once, at their end.
A call inside of an expression gets a statement of its own before it, if that leaves what is computed as it is; so does
one in ``sum = c ? total(sum) : 0.0f;``, as an if. The names of the function get a prefix, so that they cannot meet
those of the kernel.
"""

import contextlib
import re
from dataclasses import dataclass, field

from hostcuda.frontend.brackets import edited
from hostcuda.frontend.source import after_registrations, kernel_bodies
from hostcuda.loops.file import spread
from hostcuda.loops.order import declared_names, may_come_first, own_variables, with_parents
from hostcuda.loops.reader import Reader
from hostcuda.loops.words import ASSIGNMENTS, BARRIER, RESTRICT, SPECIFIERS, TYPES, WARP_FUNCTIONS, NeedsFibers

PREFIX = re.compile(r"\bhostcuda_\d+_")  # of the names of a function that stands in a kernel
_MOST_DEEP = 8  # calls in calls
_HEAD = re.compile(r"(?:template ?<(?P<template>[^{;]*)> ?)?(?P<result>[\w ]*?)(?P<name>\w+) ?\((?P<given>.*)\)")
_MARKERS = {"__device__", "__host__", "inline", "__inline__", "__forceinline__", "__noinline__", "static"}


@dataclass
class _Function:
    """A function that waits."""

    # Type and name; the type is empty if the name is to be replaced by the argument: a reference, or an array of
    # several dimensions.
    templates: list[tuple[str, str]]
    parameters: list[tuple[str, str]]
    start: int  # from here to `end` is its body, without what it returns
    end: int
    type: str
    result: tuple[int, int]  # the positions of the expression that it returns
    names: set = field(default_factory=set)  # that it declares
    others: set = field(default_factory=set)  # all other words in it
    shared: bool = False


def inline(scan, bodies, file):
    """What `kernel_bodies` gives for a text with the bodies of functions that wait in place of the kernels' calls."""
    for depth in range(_MOST_DEEP):
        functions, edits = _functions(scan, file), []
        for body in bodies if functions else ():
            with contextlib.suppress(NeedsFibers):
                edits += _calls(scan, body, functions, file, 1000 * depth + len(edits))
        if not edits:
            break
        scan, bodies = kernel_bodies(edited(scan.text, edits))
    return scan, bodies


def _functions(scan, file):
    """Name -> function, of all that wait or call others that do, and that a call can be replaced by."""
    heads = {}
    for open_, close in scan.closing.items():
        words = scan.code[after_registrations(scan, scan.declaration_start(open_), open_) : open_].split()
        head = _HEAD.fullmatch(" ".join(words)) if scan.scope(open_) is not None else None
        if head and "__device__" in words and scan.scope(open_) == "":
            heads[head["name"]] = head, open_, close
    uses = [({name}, set(re.findall(r"\w+", scan.code[open_:close]))) for name, (_, open_, close) in heads.items()]
    waiting, functions = spread(uses, dict.fromkeys([BARRIER, *WARP_FUNCTIONS], "")), {}
    for name in waiting.keys() & heads.keys():
        with contextlib.suppress(NeedsFibers):
            function = _read(scan, *heads[name])
            if all(map(file.is_unique, {name, *function.others})):  # its body means the same in the kernel
                functions[name] = function
    return functions


def _read(scan, head, open_, close):
    reader = Reader(scan.code, open_ + 1, close)
    tokens, last, result = reader.tokens, close, (close, close)
    returns = [at for at, token in enumerate(tokens) if token.text == "return"]
    type_ = " ".join(word for word in head["result"].split() if word not in _MARKERS)
    if len(returns) != (type_ != "void") or any(token.text in ";{}" for at in returns for token in tokens[at:-1]):
        raise NeedsFibers("it returns before its end")
    if returns:
        last, result = tokens[returns[0]].start, (tokens[returns[0]].end, tokens[-1].start)
    statements = Reader(scan.code, open_ + 1, last).statements()
    function = _Function(
        [_parameter(each) for each in _split(head["template"] or "")],
        [_parameter(each) for each in _split(head["given"]) if each != "void"],
        open_ + 1, last, type_, result, {reader.text(at) for at in declared_names(reader, statements)},
    )
    function.names |= {name for _, name in (*function.templates, *function.parameters)}
    words = {
        token.text for at, token in enumerate(tokens) if token.kind == "word" and reader.text(at - 1) not in (".", "->")
    }
    function.others, function.shared = words - function.names, "__shared__" in words
    return function


def _split(text):
    """The parts of a list, in which brackets may be."""
    reader = Reader(text, 0, len(text))
    spans = reader.split(0, len(reader.tokens)) if reader.tokens else []
    return [text[reader.tokens[first].start : reader.tokens[last - 1].end] for first, last in spans]


def _parameter(text):
    """(type, name) of a parameter, as in `_Function`."""
    match = re.fullmatch(r"(?P<type>[\w\s:<>*]*[\s*])(?P<name>\w+)(?P<array>\s*\[[^]]*\])?", text)
    if match:
        return match["type"].strip() + (" *" if match["array"] else ""), match["name"]
    match = re.fullmatch(r"[\w\s:<>*]*(?:&\s*(\w+)|\s(\w+)\s*\[.*|\(\s*[*&]\s*(\w+)\s*\)\s*\[.*)", text, re.DOTALL)
    if not match or (match[1] and "const" in text.split()):  # which may refer to a copy of another type
        raise NeedsFibers("a parameter is not understood")
    return "", match[match.lastindex]


def _calls(scan, body, functions, file, number):
    """The edits that replace the calls in a kernel: [(start, end, text)]."""
    if not functions.keys() & set(re.findall(r"\w+", scan.code[body.open : body.close])):
        return []
    reader, edits = Reader(scan.code, body.open + 1, body.close), []
    statements = reader.statements()
    names = {reader.text(at) for at in declared_names(reader, statements)}
    names |= set(re.findall(r"\w+", scan.code[body.name_end : body.open] + body.head)) - TYPES - SPECIFIERS - RESTRICT
    words = [token.text for token in reader.tokens]
    for node, parent in with_parents(statements):
        at = None
        if node.kind in ("expression", "declaration"):
            at = next((i for i in range(node.first, node.last) if words[i] in functions), None)
        if at is None or words[at] in names or words[at - 1] in (".", "->", "::"):
            continue
        function = functions[words[at]]
        if function.others & names - functions.keys() or (function.shared and words.count(words[at]) > 1):
            continue
        call = _Call(scan, body, reader, node, at, function, f"hostcuda_{number + len(edits)}_")
        alone = parent is None or parent.kind == "block"
        if new := call.replaced(alone, file):
            edits.append((reader.tokens[node.first].start, reader.tokens[node.last - 1].end, new))
    return edits


class _Call:
    """A call of `function` at token `at` of a statement."""

    def __init__(self, scan, body, reader, node, at, function, prefix):
        self.scan, self.body, self.reader, self.node, self.at = scan, body, reader, node, at
        self.function, self.result, given, open_ = function, f"{prefix}result", [], at + 1
        if reader.text(open_) == "<":
            close = next((i for i in range(open_, node.last) if reader.text(i) == ">"), node.last)
            given, open_ = [self._text(*span) for span in reader.split(open_ + 1, close)], close + 1
        self.end = reader.match[open_] + 1 if reader.text(open_) == "(" else 0
        arguments = reader.split(open_ + 1, self.end - 1) if open_ + 2 < self.end else []
        self.understood = len(arguments) == len(function.parameters) and len(given) == len(function.templates)
        self.renamed, self.lines = {name: prefix + name for name in function.names}, []
        for (type_, name), value in zip(function.templates, given, strict=False):
            if type_ not in ("class", "typename"):
                self.lines.append(f"constexpr {type_} {prefix}{name} = {value};")
            elif value in TYPES:
                self.renamed[name] = value
            else:
                self.understood = False
        for (type_, name), (first, last) in zip(function.parameters, arguments, strict=False):
            if type_:
                self.lines.append(f"{_with(self.renamed, type_)} {prefix}{name} = {self._text(first, last)};")
            elif last == first + 1 and reader.tokens[first].kind == "word":
                self.renamed[name] = reader.text(first)
            else:
                self.understood = False
        self.type = _with(self.renamed, function.type)

    def _text(self, first, last):
        tokens = self.reader.tokens
        return self.scan.text[tokens[first].start : tokens[last - 1].end] if first < last else ""

    def _line(self):
        return self.scan.marker(self.reader.tokens[self.node.last - 1].end)

    def _content(self):
        """The function's body, which gives the result to a variable."""
        content = _with(self.renamed, self.scan.text[self.function.start : self.function.end])
        returned = _with(self.renamed, self.scan.text[slice(*self.function.result)])
        result = f"{self.result} = ({self.type})({returned});" if returned else ""
        return f"{{ {' '.join(self.lines)}{self.scan.marker(self.function.start)}{content} {result} }}"

    def replaced(self, in_block, file):
        """What replaces the statement; empty: it is not understood, or may depend on the order."""
        reader, node = self.reader, self.node
        if not self.understood:
            return ""
        if self.at == node.first and self.end == node.last - 1:
            return self._content() + self._line()
        declared, start, span = "", node.first, (node.first, node.last - 1)
        if not set(self.type.split()) <= TYPES - {"void", "auto"}:
            return ""
        if node.kind == "declaration":
            words = {reader.text(each) for each in range(*span)}
            if not in_block or words & {"auto", "static", "constexpr", "__shared__"}:
                return ""
            after = reader.type_end(*span)
            spans, kind = reader.split(after, node.last - 1), self._text(node.first, after)
            which = next(i for i, (first, last) in enumerate(spans) if first <= self.at < last)
            declared = f"{kind} {self._text(spans[0][0], spans[which - 1][1])}; " if which else ""
            start, span = spans[which][0], reader.declarators(*span)[which][3]
        replaced = (self.at, self.end)
        if choice := self._choice(*span):
            replaced, content = choice
        elif may_come_first(reader, *span, file, [replaced], own_variables(reader, self.body, self.scan, file)):
            content = self._content()
        else:
            return ""
        rest = f"{self._text(start, replaced[0])} {self.result} {self._text(replaced[1], node.last)}"
        rest = f"{kind} {rest}" if node.kind == "declaration" else rest
        new = f"{declared}{self.type} {self.result}; {content}{self._line()}{rest}"
        return new if in_block else f"{{ {new} }}"

    def _choice(self, first, last):
        """Of ``= c ? f(x) : y`` or ``v = c ? f(x) : y``: the span from c to y, and what computes it; or None."""
        reader = self.reader
        first += reader.tokens[first].kind == "word"
        if reader.text(first) != "=":
            return None
        first += 1
        if reader.text(first) == "(" and reader.text(reader.match[first] + 1) == "(":  # a cast
            first = reader.match[first] + 1
        if reader.text(first) == "(" and reader.match[first] == last - 1:
            first, last = first + 1, last - 1
        signs = [at for at in reader.outer(first, last) if reader.text(at) in ("?", ":", ",", *ASSIGNMENTS)]
        if [reader.text(at) for at in signs] != ["?", ":"]:
            return None
        spans = [(signs[0] + 1, signs[1]), (signs[1] + 1, last)]
        if (self.at, self.end) not in spans:
            return None
        branches = [f"{self.result} = {self._text(*span)};" for span in spans]
        which = spans.index((self.at, self.end))
        branches[which] = self._content()
        proof = f"hostcuda_require_same({self.type}, {self._text(*spans[1 - which])});"  # else both are converted
        condition = self._text(first, signs[0])
        return (first, last), f"{proof} if ({condition}) {{ {branches[0]} }} else {{ {branches[1]} }}"


_NAME = re.compile(
    r"""\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])* | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | (?:\.|->|::)\s*[A-Za-z_]\w*
      | (?P<name>[A-Za-z_]\w*)""",
    re.VERBOSE,
)


def _with(renamed, text):
    """The text with other names, but for those of members."""
    return _NAME.sub(lambda match: renamed.get(match["name"], match.group()), text)
