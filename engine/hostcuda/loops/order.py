"""Decide which calls may move before their statement, by the order in which C++ evaluates an expression."""

import re

from hostcuda.frontend.brackets import apply_edits
from hostcuda.loops.words import ASSIGNMENTS, INDICES, OPERAND_ENDS, SPECIFIERS, STEPS, TYPES, NeedsFibers

_LEFT_FIRST = {"?", "&&", "||", "<<", ">>"}  # with these, and a comma, the operand on the left comes first
_CONSTANTS = {"threadIdx", "true", "false", "std", "INFINITY", "NAN"}


def walk_with_parents(nodes, parent=None):
    """Yield (node, the node around it or None) for all statements, at any depth."""
    for node in nodes:
        yield node, parent
        yield from walk_with_parents(node.children, node)


def has_no_effects(reader, first, last, file, calls=(), functions=frozenset(), assignments=0):
    """Return whether tokens[first:last] have no effects, apart from `calls`, `functions` and some `assignments`."""
    text, tokens = reader.text, reader.tokens
    for at in _skip_spans(first, last, calls):
        if text(at) in STEPS or text(at) in ("{", ";", "sizeof"):
            return False
        assignments -= text(at) in ASSIGNMENTS
        if text(at) == "(" and at > first and tokens[at - 1].kind == "word":
            function = text(at - 1)
            is_harmless = file.is_pure(function) or file.is_type(function) or function in functions
            if not (is_harmless or function.startswith("hostcuda_")):
                return False
    return assignments >= 0


def _skip_spans(first, last, spans):
    """Return the tokens from `first` to `last` that are in none of the spans."""
    return [at for at in range(first, last) if not any(begin <= at < end for begin, end in spans)]


def find_declarations(reader, nodes):
    """Yield the spans of tokens in which statements, at any depth, declare variables."""
    for node, _ in walk_with_parents(nodes):
        if node.kind == "declaration":
            yield node.first, node.last - 1
        elif node.kind == "for" and reader.declares(*node.parts["first"]):
            yield node.parts["first"]


def find_declared_names(reader, nodes):
    """Yield the tokens with the names of the variables that statements, at any depth, declare."""
    for span in find_declarations(reader, nodes):
        yield from (name for name, *_ in reader.declarators(*span))


def find_unshared_names(reader, body, scan, file):
    """Return the names that no other thread can change: of constants, and of a thread's variables in all scopes."""
    unshared, others = set(re.findall(r"\w+", scan.code[body.name_end : body.open])), set()
    for first, last in find_declarations(reader, reader.statements()):
        is_shared = "__shared__" in [reader.text(at) for at in range(first, last)]
        for name, signs, bounds, _ in reader.declarators(first, last):
            is_array = bounds[0] < bounds[1]
            (others if is_shared or "&" in signs or is_array else unshared).add(reader.text(name))
    return unshared - others | file.constants


class Statement:
    """An expression, a declaration of one variable, or an if: some of its calls are to come before it.

    `unshared` are the kernel's `find_unshared_names`.
    """

    def __init__(self, scan, reader, file, unshared, node, parent):
        self.scan, self.reader, self.file, self.unshared, self.node = scan, reader, file, unshared, node
        self.is_in_block = parent is None or parent.kind == "block"
        self.span = node.parts.get("condition", (node.first, node.last - 1))  # of its expression, or an if's condition
        if node.kind == "declaration":
            words = {reader.text(at) for at in range(*self.span)}
            if not self.is_in_block or words & {"auto", "static", "constexpr", "__shared__"}:
                raise NeedsFibers("a declaration is not understood")
            self.span = reader.declarators(*self.span)[0][3]
        # The token after the target of an assignment; without one, the first of `span`.
        self.target = next((at for at in reader.outer(*self.span) if reader.text(at) in ASSIGNMENTS), self.span[0])

    def text(self, first, last, replaced=()):
        """Return the text of tokens[first:last], with spans of tokens replaced: (first, last, new text)."""
        tokens = self.reader.tokens
        edits = [(tokens[begin].start, tokens[end - 1].end, new) for begin, end, new in replaced]
        return apply_edits(self.scan.text, edits, tokens[first].start, tokens[last - 1].end) if first < last else ""

    def reads_memory(self, calls):
        """Return whether the rest of the statement, without its target, may read what other threads write."""
        text, tokens, file = self.reader.text, self.reader.tokens, self.file
        for at in _skip_spans(self.target, self.span[1], calls):
            kind, word = tokens[at][:2]
            before = text(at - 1) if at > self.target else "("
            if word in ("[", "->"):
                return True
            if word == "*" and not (before in OPERAND_ENDS or tokens[at - 1].kind in ("word", "number")):
                return True
            cast = range(self.reader.match[at - 1] + 1, at - 1) if word == "*" and before == ")" else ()
            if cast and {text(i) for i in cast} <= TYPES | {"*"}:
                return True
            is_unshared = word in self.unshared | INDICES | SPECIFIERS | _CONSTANTS or word.startswith("hostcuda_")
            if kind == "word" and before != "." and not (is_unshared or file.is_type(word) or file.is_pure(word)):
                return True
        return False

    def may_follow(self, calls):
        """Return whether C++ lets `calls`, spans of tokens, come before the rest."""
        first, last = self.span
        first += self.reader.text(first) == "="
        text, around = self.reader.text, self.reader.around
        for at in _skip_spans(first, last, calls):
            open_ = around[at]
            in_arguments = open_ > first and text(open_) == "(" and self.reader.tokens[open_ - 1].kind == "word"
            if at < calls[-1][0] and (text(at) in _LEFT_FIRST or (text(at) == "," and not in_arguments)):
                return False
            if text(at) in ASSIGNMENTS and at > calls[0][0]:  # what is assigned comes before where it goes
                return False
        return has_no_effects(self.reader, first, last, self.file, calls, assignments=1)

    def put_before(self, before, replaced=()):
        """Return the edits that put a text before the statement, and replace spans of its tokens."""
        node, tokens = self.node, self.reader.tokens
        start, end = tokens[node.first].start, tokens[node.last - 1].end
        open_, close = ("", "") if self.is_in_block else ("{ ", " }")
        edits = [(tokens[first].start, tokens[last - 1].end, new) for first, last, new in replaced]
        if node.kind == "if":  # there may be other calls in it
            return [(start, start, f"{open_}{before} "), *edits, (end, end, close)]
        return [(start, end, f"{open_}{before} {apply_edits(self.scan.text, edits, start, end)}{close}")]
