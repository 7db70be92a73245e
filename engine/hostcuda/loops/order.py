"""Decide which calls may move before their statement, by the order in which C++ evaluates an expression."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import TYPE_CHECKING

from hostcuda.frontend.scan import Kernel, Scan
from hostcuda.frontend.tokens import Edit, apply_edits
from hostcuda.loops.reader import Node, Reader
from hostcuda.loops.words import ASSIGNMENTS, INDICES, SPECIFIERS, STEPS, TYPES, NeedsFibers

if TYPE_CHECKING:
    from hostcuda.loops.file import File

# with these, and a comma, the operand on the left comes first
_LEFT_FIRST = {"?", "&&", "||", "<<", ">>"}
_CONSTANTS = {"threadIdx", "true", "false", "std", "INFINITY", "NAN"}


def walk_with_parents(
    nodes: list[Node], parent: Node | None = None
) -> Iterator[tuple[Node, Node | None]]:
    """Yield (`Node`, the node around it or None) for all statements of a list, and those in them, at any depth."""
    for node in nodes:
        yield node, parent
        yield from walk_with_parents(node.children, node)


def has_no_effects(
    reader: Reader,
    first: int,
    last: int,
    file: File,
    calls: Sequence[tuple[int, int]] = (),
    functions: Set[str] = frozenset(),
    assignments: int = 0,
) -> bool:
    """Return whether tokens[first:last] change nothing, so that their order does not matter.

    The spans of tokens `calls`, which the caller moves before the statement, are left out. Calls of
    `functions` (names) and the number `assignments` of assignments are allowed. False also if it is
    not certain, as for a lambda.
    """
    text, tokens = reader.text, reader.tokens
    for at in _skip_spans(first, last, calls):
        # STEPS: ++ and --. "{" or ";": not a plain expression. "sizeof": C++ makes no call in it, and a call that is
        # moved out of it would be made.
        if text(at) in STEPS or text(at) in ("{", ";", "sizeof"):
            return False
        assignments -= text(at) in ASSIGNMENTS  # below 0: more than are allowed
        if text(at) == "(" and at > first and tokens[at - 1].kind == "word":
            function = text(at - 1)
            is_harmless = file.is_pure(function) or file.is_type(function) or function in functions
            # the engine's own, such as hostcuda_take(...), have no effects either
            if not (is_harmless or function.startswith("hostcuda_")):
                return False
    return assignments >= 0


def _skip_spans(first: int, last: int, spans: Iterable[tuple[int, int]]) -> list[int]:
    """Return the list of the token indices of range(first, last) that are in none of the spans (begin, end)."""
    return [at for at in range(first, last) if not any(begin <= at < end for begin, end in spans)]


def find_declarations(reader: Reader, nodes: list[Node]) -> Iterator[tuple[int, int]]:
    """Yield the spans (first, last) of tokens in which the statements `nodes`, at any depth, declare variables."""
    for node, _ in walk_with_parents(nodes):
        if node.kind == "declaration":
            yield node.first, node.last - 1  # without the ";"
        elif node.kind == "for" and reader.is_declaration(*node.parts["first"]):
            yield node.parts["first"]


def find_declared_names(reader: Reader, nodes: list[Node]) -> Iterator[int]:
    """Yield the index of the name's token of each variable that the statements `nodes`, at any depth, declare."""
    for span in find_declarations(reader, nodes):
        yield from (name for name, *_ in reader.read_declarators(*span))


def find_unshared_names(reader: Reader, body: Kernel, scan: Scan, file: File) -> set[str]:
    """Return the names in a kernel (`body`) whose values no other thread can change: constants, a thread's variables.

    A name that is also declared as shared, an array or a reference is left out.
    """
    # begin with the words of the kernel's parameters
    unshared = set(re.findall(r"\w+", scan.code[body.name_end : body.open]))
    others = set()
    for first, last in find_declarations(reader, reader.read_statements()):
        is_shared = "__shared__" in [reader.text(at) for at in range(first, last)]
        for name, signs, bounds, _ in reader.read_declarators(first, last):
            is_array = bounds[0] < bounds[1]
            if is_shared or "&" in signs or is_array:
                others.add(reader.text(name))
            else:
                unshared.add(reader.text(name))
    return unshared - others | file.constants


class Statement:
    """A statement of which some calls are to become statements before it.

    It is an expression, a declaration of one variable, or an ``if``. `node` is the statement, `parent` the
    one around it or None, and `unshared` what `find_unshared_names` returns.
    """

    def __init__(
        self,
        scan: Scan,
        reader: Reader,
        file: File,
        unshared: set[str],
        node: Node,
        parent: Node | None,
    ):
        """Find the span of the statement's expression; `NeedsFibers` for a declaration that nothing may precede."""
        self.scan, self.reader, self.file, self.unshared, self.node = (
            scan,
            reader,
            file,
            unshared,
            node,
        )
        self.is_in_block = parent is None or parent.kind == "block"
        # of its expression, or an if's condition
        self.span = node.parts.get("condition", (node.first, node.last - 1))
        if node.kind == "declaration":
            words = {reader.text(at) for at in range(*self.span)}
            if not self.is_in_block or words & {"auto", "static", "constexpr", "__shared__"}:
                raise NeedsFibers("a declaration is not understood")
            self.span = reader.read_declarators(*self.span)[0][3]  # the initializer, with its "="
        # The token after the target of an assignment, such as "="; without one, the first of
        # `span`.
        outer = reader.outside_brackets(*self.span)
        self.target = next((at for at in outer if reader.text(at) in ASSIGNMENTS), self.span[0])

    def text(self, first: int, last: int, replaced: Iterable[tuple[int, int, str]] = ()) -> str:
        """Return the text of tokens[first:last], with the spans of tokens `replaced`: (first, last, new text)."""
        tokens = self.reader.tokens
        edits = [(tokens[begin].start, tokens[end - 1].end, new) for begin, end, new in replaced]
        return (
            apply_edits(self.scan.text, edits, tokens[first].start, tokens[last - 1].end)
            if first < last
            else ""
        )

    def reads_memory(self, calls: Sequence[tuple[int, int]]) -> bool:
        """Return whether the statement may read memory that other threads write.

        Left out are the target of its assignment, and the spans of tokens `calls`.
        """
        text, tokens, file = self.reader.text, self.reader.tokens, self.file
        for at in _skip_spans(self.target, self.span[1], calls):
            kind, word = tokens[at][:2]
            # "(", in place of what is before the expression: no operand, so that a "*" is unary
            before = text(at - 1) if at > self.target else "("
            if word in ("[", "->"):
                return True
            if word == "*" and not (
                before in (")", "]") or tokens[at - 1].kind in ("word", "number")
            ):
                return True  # the unary operator
            # ``(int)*p`` reads memory, ``(n)*p`` is a product: the tokens in the parentheses tell
            cast = (
                range(self.reader.match[at - 1] + 1, at - 1)
                if word == "*" and before == ")"
                else ()
            )
            if cast and {text(i) for i in cast} <= TYPES | {"*"}:  # (int)*p
                return True
            is_unshared = (
                word in self.unshared | INDICES | SPECIFIERS | _CONSTANTS
                or word.startswith("hostcuda_")
            )
            if (
                kind == "word"
                and before != "."
                and not (is_unshared or file.is_type(word) or file.is_pure(word))
            ):
                return True
        return False

    def may_follow(self, calls: Sequence[tuple[int, int]]) -> bool:
        """Return whether the `calls` of a statement may be made before the rest of it, by C++'s order of evaluation.

        The calls are spans (first, last) of tokens, in order.
        """
        first, last = self.span
        first += self.reader.text(first) == "="  # the "=" of a declaration assigns nothing
        text, around = self.reader.text, self.reader.around
        for at in _skip_spans(first, last, calls):
            open_ = around[at]
            in_arguments = (
                open_ > first
                and text(open_) == "("
                and self.reader.tokens[open_ - 1].kind == "word"
            )
            # _LEFT_FIRST: operators such as && and <<, whose left operand comes first
            if at < calls[-1][0] and (
                text(at) in _LEFT_FIRST or (text(at) == "," and not in_arguments)
            ):
                # what is on the left of a call comes first, and decides whether it is made
                return False
            # C++ computes the value of an assignment before its target
            if text(at) in ASSIGNMENTS and at > calls[0][0]:
                return False
        # one assignment: the statement's own
        return has_no_effects(self.reader, first, last, self.file, calls, assignments=1)

    def put_before(self, before: str, replaced: Iterable[tuple[int, int, str]] = ()) -> list[Edit]:
        """Return edits (start, end, new text) that put the text `before` in front of the statement.

        They also replace spans of its tokens: `replaced` lists (first, last, new text).
        """
        node, tokens = self.node, self.reader.tokens
        start, end = tokens[node.first].start, tokens[node.last - 1].end
        # outside of a block, such as after "else", the result has to be one statement
        open_, close = ("", "") if self.is_in_block else ("{ ", " }")
        edits = [(tokens[first].start, tokens[last - 1].end, new) for first, last, new in replaced]
        if node.kind == "if":  # its branches may get edits of their own, and edits must not overlap
            return [(start, start, f"{open_}{before} "), *edits, (end, end, close)]
        return [
            (start, end, f"{open_}{before} {apply_edits(self.scan.text, edits, start, end)}{close}")
        ]
