"""Which calls in a statement may come before it: the order in which C++ evaluates an expression."""

import re

from labkit.cpu.loops.words import ASSIGNMENTS, INDICES, OPERAND_ENDS, SPECIFIERS, STEPS, TYPES

_LEFT_FIRST = {"?", "&&", "||", "<<", ">>", ","}  # with these, the operand on the left comes first


_CONSTANTS = {"threadIdx", "true", "false", "std", "INFINITY", "NAN"}


def with_parents(nodes, parent=None):
    """(node, the node around it or None) of all statements."""
    for node in nodes:
        yield node, parent
        yield from with_parents(node.children, node)


def is_plain(reader, first, last, file, calls=(), functions=frozenset(), assignments=0):
    """Whether tokens[first:last], apart from `calls`, has no effects, but for a number of assignments.

    Parameters
    ----------
    file : File
    calls : sequence of (int, int)
        Spans of tokens.
    functions : set of str
        Own functions that may be called.
    """
    text, tokens, at, spans = reader.text, reader.tokens, first, dict(calls)
    while at < last:
        if at in spans:
            at = spans[at]
            continue
        if text(at) in STEPS or text(at) in ("{", ";"):
            return False
        assignments -= text(at) in ASSIGNMENTS
        if text(at) == "(" and at > first and tokens[at - 1].kind == "word":
            before = text(at - 1)
            plain = file.is_pure(before) or file.is_type(before) or before in functions
            if not (plain or before.startswith("labkit_")):
                return False
        at += 1
    return assignments >= 0


def declarations(reader, nodes):
    """The spans of tokens in which statements, and all in them, declare variables."""
    for node, _ in with_parents(nodes):
        if node.kind == "declaration":
            yield node.first, node.last - 1
        elif node.kind == "for" and reader.declares(*node.parts["first"]):
            yield node.parts["first"]


def declared_names(reader, nodes):
    """The tokens with the names of the variables that statements, and all in them, declare."""
    for span in declarations(reader, nodes):
        yield from (name for name, *_ in reader.declarators(*span))


def own_variables(reader, head):
    """The names of a kernel that are variables of a thread wherever they occur; `head` is where parameters are."""
    own, others = set(re.findall(r"\w+", head)), set()
    for first, last in declarations(reader, reader.statements()):
        shared = "__shared__" in [reader.text(at) for at in range(first, last)]
        for name, signs, bounds, _ in reader.declarators(first, last):
            (others if shared or "&" in signs or bounds[0] < bounds[1] else own).add(reader.text(name))
    return own - others


def reads_memory(reader, first, last, calls, own, file):
    """Whether tokens[first:last], apart from `calls`, may read what other threads can write.

    Parameters
    ----------
    own : set of str
        As `own_variables`, and constants.
    file : File
    """
    text, spans, at = reader.text, dict(calls), first
    while at < last:
        if at in spans:
            at = spans[at]
            continue
        kind, word = reader.tokens[at][:2]
        before = text(at - 1) if at > first else "("
        if word in ("[", "->"):
            return True
        if word == "*" and not (before in OPERAND_ENDS or reader.tokens[at - 1].kind in ("word", "number")):
            return True
        cast = range(reader.match[at - 1] + 1, at - 1) if word == "*" and before == ")" else ()
        if cast and {text(i) for i in cast} <= TYPES | {"*"}:
            return True
        if kind == "word" and before != "." and not (
            word in own | INDICES | SPECIFIERS | _CONSTANTS
            or file.is_type(word)
            or file.is_pure(word)
            or word.startswith("labkit_")
        ):
            return True
        at += 1
    return False


def may_come_first(reader, first, last, file, calls):
    """Whether `calls` in a statement tokens[first:last] may be evaluated before the rest of it, which calls them."""
    if not is_plain(reader, first, last, file, calls, assignments=1):
        return False
    text, tokens = reader.text, reader.tokens
    for begin, end in calls:
        level = (first, last)
        while level:
            of_call = level[0] > first and text(level[0] - 1) == "(" and tokens[level[0] - 2].kind == "word"
            for at in reader.outer(*level):
                if at >= begin:
                    if text(at) in ASSIGNMENTS and level == (first, last):
                        return False  # what is assigned comes before where it goes
                    continue
                if text(at) in _LEFT_FIRST and not (of_call and text(at) == ","):
                    return False
            inner = [
                (open_ + 1, close)
                for open_, close in reader.match.items()
                if level[0] <= open_ < begin and end <= close < level[1]
            ]
            level = min(inner, default=None)
    return True
