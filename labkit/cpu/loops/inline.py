"""Device functions that wait at a barrier: their calls in kernels are replaced by their bodies.

Only then the barriers are the kernel's own. Replaced are calls that are statements, such as ``load(tile, x);``,
``sum = total(sum);`` or ``float sum = total(mine);``, of functions that return nothing, or once, at their end. The
names of the function get a prefix, so that they cannot meet those of the kernel.
"""

import contextlib
import re
from dataclasses import dataclass, field

from labkit.cpu.loops.reader import Reader
from labkit.cpu.loops.words import ASSIGNMENTS, BARRIER, RESTRICT, SPECIFIERS, TYPES, Fibers
from labkit.cpu.source import kernel_bodies, presumed_line

PREFIX = re.compile(r"\blabkit_\d+_")  # of the names of a function that stands in a kernel
_MOST_DEEP = 4  # calls in calls
_HEAD = re.compile(r"(?:template ?<(?P<template>[^{;]*)> ?)?(?P<result>[\w ]*?)(?P<name>\w+) ?\((?P<given>.*)\)")
_MARKERS = {"__device__", "__host__", "inline", "__inline__", "__forceinline__", "__noinline__", "static"}
_NOT_LATER = {"*", "&", "[", "auto", "constexpr", "static"}  # what a variable has that cannot get its value later
_FAILURES = (Fibers, KeyError, IndexError, ValueError)


@dataclass
class _Function:
    """A function with a barrier.

    Attributes
    ----------
    templates, parameters : list of (str, str)
        Type and name; the type is empty if the name is to be replaced by the argument: a reference, or an array.
    start, end : int
        The positions of its body, without what it returns.
    type : str
    result : (int, int)
        The positions of the expression that it returns.
    names, others : set of str
        The names that it declares, and all other words.
    """

    templates: list
    parameters: list
    start: int
    end: int
    type: str
    result: tuple
    names: set = field(default_factory=set)
    others: set = field(default_factory=set)
    shared: bool = False


def inline(scan, bodies):
    """What `kernel_bodies` gives for a text with the bodies of functions that wait in place of the kernels' calls."""
    for depth in range(_MOST_DEEP):
        functions, edits = _functions(scan), []
        for body in bodies if functions else ():
            with contextlib.suppress(*_FAILURES):
                edits += _calls(scan, body, functions, 1000 * depth + len(edits))
        if not edits:
            break
        text = scan.text
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        scan, bodies = kernel_bodies(text)
    return scan, bodies


def _functions(scan):
    """Name -> function, of all that wait or call others that do, and that a call can be replaced by."""
    found, names = {}, []
    for open_, close in scan.closing.items():
        words = scan.code[scan.declaration_start(open_) : open_].split()
        if "__device__" in words and scan.scope(open_) == "" and (head := _HEAD.fullmatch(" ".join(words))):
            names.append(head["name"])
            found[head["name"]] = head, open_, close
    waiting, grew = {BARRIER}, True
    while grew:
        grew = False
        for name, (_, open_, close) in found.items():
            if name not in waiting and waiting & set(re.findall(r"\w+", scan.code[open_:close])):
                waiting.add(name)
                grew = True
    functions = {}
    for name in waiting & found.keys():
        try:
            if names.count(name) == 1:
                functions[name] = _read(scan, *found[name])
        except _FAILURES:
            continue
    return functions


def _read(scan, head, open_, close):
    reader = Reader(scan.code, open_ + 1, close)
    tokens, last, result = reader.tokens, close, (close, close)
    returns = [at for at, token in enumerate(tokens) if token.text == "return"]
    type_ = " ".join(word for word in head["result"].split() if word not in _MARKERS)
    if type_ != "void":
        (at,) = returns  # ValueError: there are several
        last, result = tokens[at].start, (tokens[at].end, tokens[-1].start)
        if tokens[-1].text != ";" or any(token.text in ";{}" for token in tokens[at:-1]):
            raise Fibers("it returns before its end")
    elif returns:
        raise Fibers("it returns before its end")
    nodes = list(_all(Reader(scan.code, open_ + 1, last).statements()))
    if any(node.kind == "type" for node in nodes):
        raise Fibers("it declares a type")
    function = _Function(
        [_parameter(each) for each in _split(head["template"] or "")],
        [_parameter(each) for each in _split(head["given"]) if each != "void"],
        open_ + 1, last, type_, result, _declared(reader, nodes),
    )  # fmt: skip
    function.names |= {name for _, name in (*function.templates, *function.parameters)}
    words = {
        token.text for at, token in enumerate(tokens) if token.kind == "word" and reader.text(at - 1) not in (".", "->")
    }
    function.others, function.shared = words - function.names, "__shared__" in words
    return function


def _all(nodes):
    for node in nodes:
        yield node
        yield from _all(node.children)


def _declared(reader, nodes):
    """The names that statements declare."""
    spans = [(node.first, node.last - 1) for node in nodes if node.kind == "declaration"]
    spans += [node.parts["first"] for node in nodes if node.kind == "for" and reader.declares(*node.parts["first"])]
    return {reader.text(name) for span in spans for name, *_ in reader.declarators(*span)}


def _split(text):
    """The parts of a list, in which brackets may be."""
    reader = Reader(text, 0, len(text))
    spans = reader.split(0, len(reader.tokens)) if reader.tokens else []
    return [text[reader.tokens[first].start : reader.tokens[last - 1].end] for first, last in spans]


def _parameter(text):
    """(type, name) of a parameter; no type: it is a reference or an array."""
    match = re.fullmatch(r"(?P<type>[\w\s:<>*]*[\s*])(?P<name>\w+)", text)
    if match:
        return match["type"].strip(), match["name"]
    match = re.fullmatch(r"[\w\s:<>*]*(?:&\s*(\w+)|\s(\w+)\s*\[.*|\(\s*[*&]\s*(\w+)\s*\)\s*\[.*)", text, re.DOTALL)
    if not match:
        raise Fibers("a parameter is not understood")
    return "", match[match.lastindex]


def _calls(scan, body, functions, number):
    """The edits that replace the calls in a kernel: [(start, end, text)]."""
    if not functions.keys() & set(re.findall(r"\w+", scan.code[body.open : body.close])):
        return []
    reader, edits = Reader(scan.code, body.open + 1, body.close), []
    nodes = list(_all(reader.statements()))
    names = _declared(reader, nodes)
    names |= set(re.findall(r"\w+", scan.code[body.name_end : body.open] + body.head)) - TYPES - SPECIFIERS - RESTRICT
    words = [token.text for token in reader.tokens]
    for node in (each for each in nodes if each.kind in ("expression", "declaration")):
        at = next((i for i in range(node.first, node.last) if words[i] in functions), None)
        if at is None:
            continue
        function = functions[words[at]]
        if function.others & names - functions.keys() or (function.shared and words.count(words[at]) > 1):
            continue
        new = _replaced(scan, reader, node, at, function, f"labkit_{number + len(edits)}_")
        if new:
            edits.append((reader.tokens[node.first].start, reader.tokens[node.last - 1].end, new))
    return edits


def _replaced(scan, reader, node, at, function, prefix):
    """What replaces a statement with a call of `function` at token `at`; empty: it is not such a statement."""
    tokens, open_, given = reader.tokens, at + 1, []
    if reader.text(open_) == "<":
        close = next(i for i in range(open_, node.last) if reader.text(i) == ">")
        given, open_ = reader.split(open_ + 1, close), close + 1
    if reader.text(open_) != "(" or reader.match[open_] != node.last - 2 or len(given) != len(function.templates):
        return ""
    arguments = reader.split(open_ + 1, node.last - 2) if open_ + 1 < node.last - 2 else []
    if len(arguments) != len(function.parameters):
        return ""

    def text(first, last):
        return scan.text[tokens[first].start : tokens[last - 1].end]

    renamed, lines = {name: prefix + name for name in function.names}, []
    for (type_, name), span in zip(function.templates, given, strict=True):
        kind = "using" if type_ in ("class", "typename") else f"constexpr {type_}"
        lines.append(f"{kind} {prefix}{name} = {text(*span)};")
    for (type_, name), (first, last) in zip(function.parameters, arguments, strict=True):
        if type_:
            lines.append(f"{_with(renamed, type_)} {prefix}{name} = {text(first, last)};")
        elif last == first + 1 and tokens[first].kind == "word":
            renamed[name] = tokens[first].text
        else:
            return ""
    content = _with(renamed, scan.text[function.start : function.end])
    lines.append(f"\n#line {presumed_line(scan, function.start)}\n{content}")
    before, result = text(node.first, at) if node.first < at else "", scan.text[slice(*function.result)]
    declared = ""
    if before:
        if not result or reader.text(at - 1) not in ASSIGNMENTS or tokens[at - 2].kind != "word":
            return ""
        if node.kind == "declaration":
            words = {reader.text(each) for each in range(node.first, at)}
            if len(reader.declarators(node.first, node.last - 1)) > 1 or words & _NOT_LATER:
                return ""
            declared = re.sub(r"\bconst\b", "", text(node.first, at - 1)) + ";"
            before = f"{tokens[at - 2].text} ="
        elif at - 2 != node.first:
            return ""
        lines.append(f"{before} ({_with(renamed, function.type)})({_with(renamed, result)});")
    return f"{declared}{{ {' '.join(lines)} }}\n#line {presumed_line(scan, tokens[node.last - 1].end)}\n"


def _with(renamed, text):
    """The text with other names, but for those of members."""
    return re.sub(r"(?<![\w.])(?<!->)[A-Za-z_]\w*", lambda match: renamed.get(match.group(), match.group()), text)
