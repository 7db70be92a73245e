"""Device functions that wait, at a barrier or for their warp: their calls in kernels are replaced by their bodies.

Only then the barriers are the kernel's own. Replaced are calls that are statements, such as ``load(tile, x);``,
``sum = total(sum);`` or ``float sum = total(mine);``, of functions that return nothing, or once, at their end. A call
inside of an expression gets a statement of its own before it, if that leaves what is computed as it is; so does one
in ``sum = c ? total(sum) : 0.0f;``, as an if. The names of the function get a prefix, so that they cannot meet those
of the kernel.
"""

import contextlib
import re
from dataclasses import dataclass, field

from hostcuda.frontend.brackets import edited
from hostcuda.frontend.source import after_registrations, kernel_bodies
from hostcuda.loops.file import spread
from hostcuda.loops.order import declared_names, is_plain, may_come_first, own_variables, reads_memory, with_parents
from hostcuda.loops.reader import Reader
from hostcuda.loops.words import ASSIGNMENTS, BARRIER, RESTRICT, SPECIFIERS, TYPES, WARP_FUNCTIONS, NeedsFibers

PREFIX = re.compile(r"\bhostcuda_\d+_")  # of the names of a function that stands in a kernel
_MOST_DEEP = 8  # calls in calls
_HEAD = re.compile(r"(?:template ?<(?P<template>[^{;]*)> ?)?(?P<result>[\w ]*?)(?P<name>\w+) ?\((?P<given>.*)\)")
_MARKERS = {"__device__", "__host__", "inline", "__inline__", "__forceinline__", "__noinline__", "static"}
_NOT_LATER = {"*", "&", "[", "auto", "constexpr", "static"}  # what a variable has that cannot get its value later


@dataclass
class _Function:
    """A function that waits."""

    # Type and name; the type is empty if the name is to be replaced by the argument: a reference, or an array of
    # several dimensions. That of a constant reference ends with ``&``: there, the argument must have this type.
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
    if any(node.kind == "type" for node, _ in with_parents(statements)):
        raise NeedsFibers("it declares a type")
    function = _Function(
        [_parameter(each) for each in _split(head["template"] or "")],
        [_parameter(each) for each in _split(head["given"]) if each != "void"],
        open_ + 1, last, type_, result, _declared(reader, statements),
    )
    function.names |= {name for _, name in (*function.templates, *function.parameters)}
    words = {
        token.text for at, token in enumerate(tokens) if token.kind == "word" and reader.text(at - 1) not in (".", "->")
    }
    function.others, function.shared = words - function.names, "__shared__" in words
    return function


def _declared(reader, statements):
    """The names that statements declare."""
    names = {reader.text(at) for at in declared_names(reader, statements)}
    for node, _ in with_parents(statements):
        if node.kind == "type" and reader.text(node.first) != "static_assert":
            last = node.first + 2 if reader.text(node.first) == "using" else node.last
            names |= {reader.text(at) for at in range(node.first, last)} - TYPES
    return names


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
    match = re.fullmatch(r"(?P<type>[\w\s:<>*]*\bconst\b[\w\s:<>]*&)\s*(?P<name>\w+)", text)
    if match:
        return match["type"], match["name"]
    match = re.fullmatch(r"[\w\s:<>*]*(?:&\s*(\w+)|\s(\w+)\s*\[.*|\(\s*[*&]\s*(\w+)\s*\)\s*\[.*)", text, re.DOTALL)
    if not match:
        raise NeedsFibers("a parameter is not understood")
    return "", match[match.lastindex]


def _calls(scan, body, functions, file, number):
    """The edits that replace the calls in a kernel: [(start, end, text)]."""
    if not functions.keys() & set(re.findall(r"\w+", scan.code[body.open : body.close])):
        return []
    reader, edits = Reader(scan.code, body.open + 1, body.close), []
    statements = reader.statements()
    names = _declared(reader, statements)
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
        new = call.statement() or call.choice(functions, file) or call.inside(alone, file)
        if new:
            edits.append((reader.tokens[node.first].start, reader.tokens[node.last - 1].end, new))
    return edits


class _Call:
    """A call of `function` at token `at` of a statement."""

    def __init__(self, scan, body, reader, node, at, function, prefix):
        self.scan, self.body, self.reader, self.node, self.at = scan, body, reader, node, at
        self.function, self.prefix, self.given, open_ = function, prefix, [], at + 1
        if reader.text(open_) == "<":
            close = next((i for i in range(open_, node.last) if reader.text(i) == ">"), node.last)
            self.given, open_ = reader.split(open_ + 1, close), close + 1
        self.end = reader.match[open_] + 1 if reader.text(open_) == "(" else 0
        self.arguments = reader.split(open_ + 1, self.end - 1) if open_ + 2 < self.end else []

    def _text(self, first, last):
        tokens = self.reader.tokens
        return self.scan.text[tokens[first].start : tokens[last - 1].end] if first < last else ""

    def _content(self, result):
        """The function's body; `result`, such as ``v =``, gets what it returns."""
        function, reader, tokens = self.function, self.reader, self.reader.tokens
        if not self.end or len(self.arguments) != len(function.parameters):
            return ""
        renamed, lines = {name: self.prefix + name for name in function.names}, []
        for (type_, name), given in zip(function.templates, self._templates(), strict=True):
            if not given:
                return ""
            if type_ in ("class", "typename") and given in TYPES:
                renamed[name] = given
            else:
                kind = "using" if type_ in ("class", "typename") else f"constexpr {type_}"
                lines.append(f"{kind} {self.prefix}{name} = {given};")
        lines.append(_proofs(self.deduced))
        for (type_, name), (first, last) in zip(function.parameters, self.arguments, strict=True):
            if type_ and not type_.endswith("&"):
                lines.append(f"{_with(renamed, type_)} {self.prefix}{name} = {self._text(first, last)};")
            elif last == first + 1 and tokens[first].kind == "word":
                renamed[name] = reader.text(first)
                if type_:
                    lines.append(f"hostcuda_require_type({renamed[name]}, {_with(renamed, type_)});")
            else:
                return ""
        content = _with(renamed, self.scan.text[function.start : function.end])
        lines.append(f"{self.scan.marker(function.start)}{content}")
        returned = self.scan.text[slice(*function.result)]
        if result:
            lines.append(f"{result} ({_with(renamed, function.type)})({_with(renamed, returned)});" if returned else "")
        return f"{{ {' '.join(lines)} }}" if lines[-1] else ""

    def _templates(self):
        """The template's arguments: those given, and types of the call's arguments; empty: one is not known."""
        function, self.deduced = self.function, []
        found = [self._text(*span) for span in self.given]
        for kind, name in function.templates[len(found) :]:
            spans = [
                span for (type_, _), span in zip(function.parameters, self.arguments, strict=True) if type_ == name
            ]
            types = {self._type(*span) for span in spans} if kind in ("class", "typename") else set()
            found.append(types.pop() if len(types) == 1 else "")
            self.deduced += [(found[-1], self._text(*span)) for span in spans]
        return found

    def _result_type(self):
        names = [name for _, name in self.function.templates]
        known = {}
        if len(self.arguments) == len(self.function.parameters):
            known = dict(zip(names, self._templates(), strict=True))
        return known.get(self.function.type, self.function.type)

    def _line(self):
        return self.scan.marker(self.reader.tokens[self.node.last - 1].end)

    def statement(self):
        """What replaces a statement like ``f(x);``, ``v = f(x);`` or ``float v = f(x);``; empty: it is none."""
        reader, node, at = self.reader, self.node, self.at
        if self.end != node.last - 1:
            return ""
        if node.first == at:
            content = self._content("")
            return content + self._line() if content else ""
        operator, target = reader.text(at - 1), self._target(at - 2)
        if operator not in ASSIGNMENTS or not target:
            return ""
        declared, name, after = target
        content = self._content(f"{name} {operator}")
        return declared + content + self._line() + after if content else ""

    def _target(self, at):
        """Of an assignment to the variable at token `at`: its declaration, its name, and what follows then; or None."""
        reader, node, name = self.reader, self.node, self.reader.text(at)
        if node.kind != "declaration":
            return ("", name, "") if at == node.first and reader.tokens[at].kind == "word" else None
        words = {reader.text(each) for each in range(node.first, at)}
        if len(reader.declarators(node.first, node.last - 1)) > 1 or words & _NOT_LATER:
            return None
        declaration = self._text(node.first, at + 1)
        if not re.search(r"\bconst\b", declaration):
            return f"{declaration};", name, ""
        new = f"{self.prefix}of_{name}"
        plain = re.sub(rf"\bconst\b|\b{name}$", "", declaration)
        return f"{plain} {new};", new, f"{declaration} = {new};"

    def choice(self, functions, file):
        """What replaces a statement like ``v = c ? f(x) : y;``, if both have the same type; empty: it is none."""
        reader, node = self.reader, self.node
        start = next((each - 1 for each in range(node.first, self.at) if reader.text(each) == "="), -1)
        target = self._target(start) if start >= node.first else None
        if not target:
            return ""
        declared, name, after = target
        first, last, cast = start + 2, node.last - 1, ""
        if reader.text(first) == "(" and reader.match[first] + 1 < last and reader.text(reader.match[first] + 1) == "(":
            first, cast = reader.match[first] + 1, self._text(first, reader.match[first] + 1)
        if reader.text(first) == "(" and reader.match[first] == last - 1:
            first, last = first + 1, last - 1
        signs = [at for at in reader.outer(first, last) if reader.text(at) in ("?", ":", ",", *ASSIGNMENTS)]
        if [reader.text(at) for at in signs] != ["?", ":"] or signs[0] > self.at:
            return ""
        spans = (signs[0] + 1, signs[1]), (signs[1] + 1, last)
        types = {self._type(*span, functions) for span in spans}
        if len(types) != 1 or not types <= TYPES - {"auto"} or not is_plain(reader, first, signs[0], file):
            return ""
        others = [span for span in spans if reader.text(span[0]) not in functions]
        proof = _proofs((next(iter(types)), self._text(*span)) for span in others)
        then, otherwise = (f"{name} = {cast}({self._text(*span)});" for span in spans)
        condition = self._text(first, signs[0])
        return f"{declared}{proof}if ({condition}) {{ {then} }} else {{ {otherwise} }}{self._line()}{after}"

    def _type(self, first, last, functions=()):
        """The type of a call, a variable or a literal, if it is one word; empty: it is not known."""
        reader, name = self.reader, self.reader.text(first)
        if name in functions and reader.text(first + 1) == "(" and reader.match[first + 1] == last - 1:
            return functions[name].type
        if last - first > 1:
            return ""
        if reader.tokens[first].kind == "number":
            return "float" if re.fullmatch(r"[\d.]+f", name) else "int" if name.isdecimal() else ""
        code = self.scan.code[self.body.name_end : reader.tokens[first].start]
        found = re.findall(rf"[;{{}}(,]\s*(?:const\s+)?([A-Za-z_][\w\s]*?)\s+{re.escape(name)}\s*[=;,)]", code)
        declared = [reader.text(at) for at in declared_names(reader, reader.statements()) if at < first]
        declared += re.findall(r"\w+", self.scan.code[self.body.name_end : self.body.open])
        types = set(found) if len(found) == declared.count(name) else set()  # else there is one as in int a, v;
        return types.pop() if len(types) == 1 and types <= TYPES - {"auto"} else ""

    def inside(self, in_block, file):
        """What replaces a statement that has the call in an expression; empty: it may depend on the order."""
        reader, node = self.reader, self.node
        type_, parts, start = self._result_type(), "", node.first
        if type_ not in TYPES - {"void", "auto"} or not self.end:
            return ""
        span = node.first, node.last - 1
        if node.kind == "declaration":
            words = {reader.text(each) for each in range(node.first, node.last)}
            if not in_block or words & {"auto", "static", "constexpr", "__shared__"}:
                return ""
            after = reader.type_end(*span)
            spans = reader.split(after, node.last - 1)
            which = next(i for i, (first, last) in enumerate(spans) if first <= self.at < last)
            start, kind = spans[which][0], self._text(node.first, after)
            parts = f"{kind} {self._text(spans[0][0], spans[which - 1][1])}; " if which else ""
            span = reader.declarators(node.first, node.last - 1)[which][3]
            span = span[0] + (reader.text(span[0]) == "="), span[1]
        calls = [(self.at, self.end)]
        own = own_variables(reader, self.scan.code[self.body.name_end : self.body.open]) | file.constants
        begin = next((at for at in reader.outer(*span) if reader.text(at) in ASSIGNMENTS), span[0])
        if reads_memory(reader, begin, span[1], calls, own, file) or not may_come_first(reader, *span, file, calls):
            return ""
        result = f"{self.prefix}result"
        content = self._content(f"{result} =")
        if not content:
            return ""
        rest = f"{self._text(start, self.at)} {result} {self._text(self.end, node.last)}"
        if node.kind == "declaration":
            rest = f"{kind} {rest}"
        new = f"{parts}{type_} {result}; {content}{self._line()}{rest}"
        return new if in_block else f"{{ {new} }}"


def _proofs(types):
    """What lets the compiler prove that values have the types for which they were taken."""
    return "".join(f"hostcuda_require_same({type_}, {value}); " for type_, value in types)


_NAME = re.compile(
    r"""\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])* | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | (?:\.|->|::)\s*[A-Za-z_]\w*
      | (?P<name>[A-Za-z_]\w*)""",
    re.VERBOSE,
)


def _with(renamed, text):
    """The text with other names, but for those of members."""
    return _NAME.sub(lambda match: renamed.get(match["name"], match.group()), text)
