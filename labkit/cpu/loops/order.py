"""Which calls in a statement may come before it: the order in which C++ evaluates an expression."""

from labkit.cpu.loops.words import ASSIGNMENTS, PURE, STEPS, TYPES

_LEFT_FIRST = {"?", "&&", "||", "<<", ">>", ","}  # with these, the operand on the left comes first


def with_parents(nodes, parent=None):
    """(node, the node around it or None) of all statements."""
    for node in nodes:
        yield node, parent
        yield from with_parents(node.children, node)


def is_plain(reader, first, last, calls=(), functions=frozenset(), assignments=0):
    """Whether tokens[first:last], apart from `calls`, has no effects, but for a number of assignments.

    Parameters
    ----------
    calls : sequence of (int, int)
        Spans of tokens.
    functions : set of str
        Functions and macros that may be called.
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
            if not (PURE.fullmatch(before) or before in TYPES or before in functions or before.startswith("labkit_")):
                return False
        at += 1
    return assignments >= 0


def may_come_first(reader, first, last, calls, functions=frozenset()):
    """Whether `calls` in a statement tokens[first:last] may be evaluated before the rest of it, which calls them."""
    if not is_plain(reader, first, last, calls, functions, assignments=1):
        return False
    text, tokens = reader.text, reader.tokens
    for begin, end in calls:
        level = (first, last)
        while level:
            of_call = level[0] > first and text(level[0] - 1) == "(" and tokens[level[0] - 2].kind == "word"
            for at in reader.outer(*level):
                if at >= begin:
                    break
                if text(at) in _LEFT_FIRST and not (of_call and text(at) == ","):
                    return False
            inner = [
                (open_ + 1, close)
                for open_, close in reader.match.items()
                if level[0] <= open_ < begin and end <= close < level[1]
            ]
            level = min(inner, default=None)
    return True
