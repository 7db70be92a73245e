"""Read the statements of a function's body: C++ without types, but with statements and declarations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from hostcuda.frontend.tokens import Tokens
from hostcuda.loops.words import (
    BARRIER,
    BUILT_IN,
    CLASSES,
    MEETING,
    RESTRICT,
    SPECIFIERS,
    NeedsFibers,
)


class Parts(TypedDict, total=False):
    """What a statement consists of, by its kind: spans of tokens, and the statements in it."""

    condition: tuple[int, int]
    first: tuple[int, int]
    step: tuple[int, int]
    then: Node
    otherwise: Node
    body: Node


@dataclass(eq=False)
class Node:
    """A statement: tokens[first:last] of a `Reader`, with its semicolon or braces."""

    # block, if, for, while, do, switch, barrier, rendezvous, declaration, return, break, continue, or
    # expression; `direct` also makes a "guard", whose tokens are those of the condition c of ``if
    # (!c) return;``
    kind: str
    first: int
    last: int
    parts: Parts = field(default_factory=Parts)
    children: list[Node] = field(default_factory=list)  # all nodes in it, in order
    start: int = 0  # where its text starts, with the directives and comments before it
    barrier: bool = False  # whether it has a barrier
    # whether it has a place at which the lanes of a warp wait for each other
    rendezvous: bool = False


class Reader(Tokens):
    """The tokens code[start:end] of a function's body, and the statements in it."""

    def __init__(self, code: str, start: int, end: int):
        self.body_start = start
        try:
            super().__init__(code, start, end)
        except ValueError as error:
            raise NeedsFibers(str(error)) from None

    def read_statements(self) -> list[Node]:
        """Return the outermost statements of the function's body as a list of `Node`s, each a tree."""
        return self._read_sequence(0, len(self.tokens))

    def _read_sequence(self, at: int, last: int) -> list[Node]:
        """Return the list of `Node`s of the outer statements in tokens[at:last], without empty ones (``;``)."""
        nodes = []
        while at < last:
            if self.text(at) == ";":
                at += 1
                continue
            nodes.append(self.read_statement(at))
            at = nodes[-1].last
        return nodes

    def read_statement(self, at: int) -> Node:
        """Return the statement that begins at token `at`, and all statements in it, as a tree of `Node`s.

        A node notes whether all threads of the block meet in it (`barrier`), or those of a warp
        (`rendezvous`).
        """
        if at >= len(self.tokens):
            raise NeedsFibers("a statement does not end")
        node = self._read_by_first_word(at)
        # behind the token before it, so that comments and directives belong to the statement
        node.start = self.tokens[at - 1].end if at else self.body_start
        node.children = node.children or [
            part for part in node.parts.values() if isinstance(part, Node)
        ]
        node.barrier = node.kind == "barrier" or any(child.barrier for child in node.children)
        node.rendezvous = node.kind == "rendezvous" or any(
            child.rendezvous for child in node.children
        )
        return node

    def _read_by_first_word(self, at: int) -> Node:
        """Return the `Node` of the statement at token `at`; `read_statement` sets the fields that parts determine."""
        word = self.text(at)
        if word == ";":
            return Node("block", at, at + 1)
        if word == "{":
            close = self.match[at]
            return Node("block", at, close + 1, children=self._read_sequence(at + 1, close))
        if word == "if":
            return self._read_if(at)
        if word == "for":
            return self._read_for(at)
        if word in ("while", "switch"):
            close = self._close_condition(at + 1)
            body = self.read_statement(close + 1)
            return Node(word, at, body.last, {"condition": (at + 2, close), "body": body})
        if word == "do":  # do body while ( condition ) ;
            body = self.read_statement(at + 1)
            close = self._close_parentheses(body.last + 1)
            return Node("do", at, close + 2, {"body": body, "condition": (body.last + 2, close)})
        if word in ("case", "default"):  # a label of a switch belongs to no node
            return self.read_statement(self.find_end(at, len(self.tokens), {":"}) + 1)
        if word == "else" or (self.tokens[at].kind == "word" and self.text(at + 1) == ":"):
            raise NeedsFibers(f"it has the label {word}")
        return self._read_simple(at)

    def _read_if(self, at: int) -> Node:
        """Return the `Node` of the ``if`` at token `at`; its parts are the condition's span and the branches' nodes."""
        open_ = at + 2 if self.text(at + 1) == "constexpr" else at + 1
        close = self._close_condition(open_)
        parts: Parts = {"condition": (open_ + 1, close), "then": self.read_statement(close + 1)}
        last = parts["then"].last
        if self.text(last) == "else":
            parts["otherwise"] = self.read_statement(last + 1)
            last = parts["otherwise"].last
        return Node("if", at, last, parts)

    def _read_for(self, at: int) -> Node:
        """Return the `Node` of the ``for`` at token `at`; its parts are the spans in its head and the body's node."""
        close = self._close_parentheses(at + 1)
        body = self.read_statement(close + 1)
        semicolons = [i for i in self.outside_brackets(at + 2, close) if self.text(i) == ";"]
        if len(semicolons) != 2:
            raise NeedsFibers("it has a for loop over a range")
        first, second = semicolons
        parts: Parts = {
            "first": (at + 2, first),
            "condition": (first + 1, second),
            "step": (second + 1, close),
            "body": body,
        }
        return Node("for", at, body.last, parts)

    def _read_simple(self, at: int) -> Node:
        """Return the `Node` of the statement from token `at` to the next semicolon, with no statements in it."""
        end = next(
            (i for i in self.outside_brackets(at, len(self.tokens)) if self.text(i) == ";"), None
        )
        if end is None:
            raise NeedsFibers("a statement does not end")
        words = [token.text for token in self.tokens[at:end]]
        kind = "expression"
        if BARRIER in words:
            if words != [BARRIER, "(", ")"]:
                raise NeedsFibers(f"{BARRIER} is not a statement of its own")
            kind = "barrier"
        elif words[0] == MEETING:
            # hostcuda_meet(7, sync), which `exchange` has written in place of a warp function
            kind = "rendezvous"
        elif words[0] in ("return", "break", "continue"):
            if len(words) > 1:
                raise NeedsFibers("it returns a value")
            kind = words[0]
        elif words[0] not in ("using", "typedef") and self.is_declaration(at, end):
            kind = "declaration"
        elif words[0] in CLASSES | {"using", "typedef"}:
            # and not a variable such as struct point p, which is a declaration above
            raise NeedsFibers("it declares a type")
        return Node(kind, at, end + 1)

    def _close_parentheses(self, at: int) -> int:
        """Return the index of the token that closes the parenthesis at token `at`; `NeedsFibers` for another token."""
        if self.text(at) != "(":
            raise NeedsFibers("a statement is not understood")
        return self.match[at]

    def _close_condition(self, at: int) -> int:
        """Return the index of the ``)`` of the condition whose ``(`` is token `at`; `NeedsFibers` if it declares."""
        close = self._close_parentheses(at)
        signs = {self.text(i) for i in self.outside_brackets(at + 1, close)}
        if ";" in signs or ("=" in signs and self.is_declaration(at + 1, close)):
            raise NeedsFibers("it declares a variable in a condition")
        return close

    def is_declaration(self, first: int, last: int) -> bool:
        """Return whether tokens[first:last] look like a declaration: a type, signs such as ``*``, and a name."""
        after = self.find_type_end(first, last)
        if after is None:
            return False
        while self.text(after) in ("*", "&", "&&") or self.text(after) in RESTRICT:
            after += 1
        return (
            after < last
            and self.tokens[after].kind == "word"
            and (after + 1 == last or self.text(after + 1) in ("=", "[", ",", "(", "{"))
        )

    def find_type_end(self, first: int, last: int) -> int | None:
        """Return the index of the token after the type with which tokens[first:last] begin; None without a type.

        For ``const unsigned int *p = q`` this is the index of the ``*``. Only the syntax counts: any
        name may be a type.
        """
        at, has_type = first, False
        while at < last:
            word = self.text(at)
            if word in ("alignas", "__align__") and self.text(at + 1) == "(":
                at = self.match[at + 1] + 1
            elif (
                word in ("decltype", "typeof", "__typeof__")
                and self.text(at + 1) == "("
                and not has_type
            ):
                at, has_type = self.match[at + 1] + 1, True
            elif word in SPECIFIERS:  # such as "const"
                at += 1
            elif word in BUILT_IN:  # several may follow each other: "unsigned int"
                at, has_type = at + 1, True
            elif word in CLASSES and not has_type:  # "struct", before a name
                at += 1
            elif self.tokens[at].kind == "word" and not has_type and word not in RESTRICT:
                at, has_type = self._skip_qualified(at, last), True
            else:
                break
        return at if has_type and at > first else None

    def require_type_end(self, first: int, last: int) -> int:
        """Return the index of the token after the type with which tokens[first:last] begin.

        Raises `NeedsFibers` if they begin with none: the kernel is then not rewritten as loops.
        """
        end = self.find_type_end(first, last)
        if end is None:
            raise NeedsFibers("a declaration is not understood")
        return end

    def _skip_qualified(self, at: int, last: int) -> int:
        """Return the index after the name like ``a::b<c>::d`` that begins at token `at`, and ends before `last`."""
        while True:
            at += 1
            if self.text(at) == "<":
                close = self.match_angle(at, last)
                if close is None:  # "<" was a comparison
                    return at
                at = close + 1
            if self.text(at) != "::":
                return at
            at += 1

    def read_declarators(
        self, first: int, last: int
    ) -> list[tuple[int, str, tuple[int, int], tuple[int, int]]]:
        """Return (name, signs, bounds, initializer) for each variable that tokens[first:last] declare.

        For ``int *p[3] = {}`` these are: the index of the token ``p``, the text "*", and the spans
        (first, last) of the tokens ``[3]`` and ``= {}``. A span is empty if there are no bounds, or
        no initializer. After `NeedsFibers` the kernel gets a stack per thread.
        """
        declarators, at = [], self.find_type_end(first, last)
        # without a type the span is empty, and refused below
        for begin, end in self.split(at or last, last):
            name = begin
            while self.text(name) in ("*", "&", "&&") or self.text(name) in RESTRICT:
                name += 1
            bounds = name + 1
            while self.text(bounds) == "[" and bounds < end:
                bounds = self.match[bounds] + 1
            if name >= end or self.tokens[name].kind != "word":
                raise NeedsFibers("a declaration is not understood")
            if bounds < end and self.text(bounds) not in ("=", "(", "{"):
                raise NeedsFibers(f"the declaration of {self.text(name)} is not understood")
            signs = " ".join(token.text for token in self.tokens[begin:name])
            declarators.append((name, signs, (name + 1, bounds), (bounds, end)))
        return declarators


def find_jumps(node: Node) -> set[str]:
    """Return the set of jumps that can leave a statement: "return", and "break" or "continue" of a loop around it."""
    if node.kind in ("return", "break", "continue"):
        return {node.kind}
    jumps = set().union(*(find_jumps(child) for child in node.children))
    if node.kind in ("for", "while", "do"):
        jumps -= {"break", "continue"}
    elif node.kind == "switch":
        jumps -= {"break"}
    return jumps
