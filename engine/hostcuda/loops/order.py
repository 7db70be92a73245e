"""Which calls in a statement may come before it: the order in which C++ evaluates an expression."""

import re

from hostcuda.loops.words import ASSIGNMENTS, INDICES, OPERAND_ENDS, SPECIFIERS, STEPS, TYPES

_LEFT_FIRST = {"?", "&&", "||", "<<", ">>", ","}  # with these, the operand on the left comes first


_CONSTANTS = {"threadIdx", "true", "false", "std", "INFINITY", "NAN"}


def with_parents(nodes, parent=None):
    """(node, the node around it or None) of all statements."""
    for node in nodes:
        yield node, parent
        yield from with_parents(node.children, node)


def is_plain(reader, first, last, file, calls=(), functions=frozenset(), assignments=0):
    """Whether tokens[first:last], apart from the spans `calls`, has no effects, but for a number of assignments; own
    `functions` may be called.
    """
    text, tokens = reader.text, reader.tokens
    for at in _outside(first, last, calls):
        if text(at) in STEPS or text(at) in ("{", ";"):
            return False
        assignments -= text(at) in ASSIGNMENTS
        if text(at) == "(" and at > first and tokens[at - 1].kind == "word":
            before = text(at - 1)
            plain = file.is_pure(before) or file.is_type(before) or before in functions
            if not (plain or before.startswith("hostcuda_")):
                return False
    return assignments >= 0


def _outside(first, last, spans):
    """The tokens from `first` to `last` that are in none of the spans."""
    return [at for at in range(first, last) if not any(begin <= at < end for begin, end in spans)]


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


def own_variables(reader, body, scan, file):
    """The names of a kernel that are variables of a thread wherever they occur, and constants."""
    own, others = set(re.findall(r"\w+", scan.code[body.name_end : body.open])), set()
    for first, last in declarations(reader, reader.statements()):
        shared = "__shared__" in [reader.text(at) for at in range(first, last)]
        for name, signs, bounds, _ in reader.declarators(first, last):
            (others if shared or "&" in signs or bounds[0] < bounds[1] else own).add(reader.text(name))
    return own - others | file.constants


def reads_memory(reader, first, last, calls, own, file):
    """Whether tokens[first:last], apart from `calls`, may read what other threads can write; `own` is as
    `own_variables`, and constants.
    """
    text = reader.text
    for at in _outside(first, last, calls):
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
            or word.startswith("hostcuda_")
        ):
            return True
    return False


def target_end(reader, first, last):
    """The token after the target of an assignment; `first` if there is none."""
    return next((at for at in reader.outer(first, last) if reader.text(at) in ASSIGNMENTS), first)


def may_come_first(reader, first, last, file, calls, own=None):
    """Whether `calls` in a statement tokens[first:last] may be evaluated before the rest of it, which calls them.

    With the names `own`, as `own_variables`, also if others may write to memory meanwhile.
    """
    first += reader.text(first) == "="
    if not is_plain(reader, first, last, file, calls, assignments=1):
        return False
    if own is not None and reads_memory(reader, target_end(reader, first, last), last, calls, own, file):
        return False
    text, tokens = reader.text, reader.tokens
    for at, _ in calls:
        open_ = at
        while open_ >= first:  # from the inner brackets to the outer ones
            at, open_ = open_, reader.around[open_]
            of_call = open_ >= first and text(open_) == "(" and tokens[open_ - 1].kind == "word"
            before = {text(i) for i in reader.outer(max(first, open_ + 1), at)} - ({","} if of_call else set())
            if before & _LEFT_FIRST:
                return False
        if ASSIGNMENTS & {text(i) for i in reader.outer(at, last)}:
            return False  # what is assigned comes before where it goes
    return True
