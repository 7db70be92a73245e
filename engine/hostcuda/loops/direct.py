"""Direct kernels: those without barriers whose loops all threads run alike, such as a convolution.

Its loops are exchanged with the loop over up to 16 neighbors in a row of the block
(``engine/docs/execution.md``). To the other modules, such a group is a warp whose lanes meet at the
begin and the end of each loop (`mark_loops`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hostcuda.loops.order import find_declared_names
from hostcuda.loops.reader import Node, find_jumps
from hostcuda.loops.words import ASSIGNMENTS, INDICES, TYPES, NeedsFibers

if TYPE_CHECKING:
    from hostcuda.loops.effects import KernelVariable
    from hostcuda.loops.regions import Item, Section
    from hostcuda.loops.rows import Rows
    from hostcuda.loops.steps import KernelPlan, PlanStep

_REFUSED_WORDS = {"while", "do", "switch", "break", "continue", "volatile"}
_INTEGERS = {
    "const",
    "constexpr",
    "int",
    "unsigned",
    "long",
    "short",
    "char",
    "bool",
    "size_t",
    "uint",
    "ptrdiff_t",
}
_NUMBERS = _INTEGERS | {"float", "double"}
_VECTORIZED_FUNCTIONS = {"__ldg", "min", "max", "fminf", "fmaxf", "fabsf", "abs"}
_SPELT_LIKE_CALLS = {"if", "return", "sizeof"}


def mark_loops(kernel: KernelPlan, nodes: list[Node]) -> list[Node]:
    """Prepare a kernel without barriers: mark its loops as places at which neighboring threads meet (`rendezvous`).

    Between two meetings, a loop over these threads runs inside of the kernel's own loop.
    `nodes` are the kernel's outer statements; returns them, with a final ``if`` around a loop
    opened: ``if (c) { a; b; }`` becomes ``if (!c) return;`` (a node of the kind "guard") and the
    statements a and b. Raises `NeedsFibers` (each thread has to get a stack) if there is no loop.
    """
    reader = kernel.reader
    # of the kernel's parameters: their names and types
    head_words = set(re.findall(r"\w+", kernel.scan.code[kernel.body.name_end : kernel.body.open]))
    if {token.text for token in reader.tokens} & _REFUSED_WORDS:  # "while", "break" and the like
        raise NeedsFibers("it is not understood")
    # sum visits all nodes, so that each one is marked; any() would stop at the first loop
    if not sum(map(_mark_rendezvous, nodes)):
        raise NeedsFibers("it has no loop")
    # repeated, because the opened ``if`` may end with another one
    # (parts: a statement's "condition", "then" and "otherwise", the else)
    while nodes[-1].kind == "if" and nodes[-1].rendezvous and "otherwise" not in nodes[-1].parts:
        before, last = nodes[:-1], nodes[-1]
        then, condition = last.parts["then"], last.parts["condition"]
        inner = then.children if then.kind == "block" else [then]
        names_before, inner_names = (
            {reader.text(at) for at in find_declared_names(reader, statements)}
            for statements in (before, inner)
        )
        if reader.text(last.first + 1) != "(":  # an "if constexpr"
            break
        # without the braces two variables would have the same name
        if (names_before | head_words) & inner_names:
            break
        # `condition` is a span (first, last) of tokens
        guard = Node("guard", *condition, {"condition": condition}, [Node("return", *condition)])
        guard.start = reader.tokens[condition[0]].start
        nodes = [*before, guard, *inner]
    return nodes


def _mark_rendezvous(node: Node) -> bool:
    """Mark a statement that has a loop, and those in it, as a place where threads meet; return whether it has one."""
    # sum: any() would skip children
    node.rendezvous = sum(map(_mark_rendezvous, node.children)) > 0 or node.kind == "for"
    return node.rendezvous


def find_last_return(steps: Sequence[PlanStep]) -> PlanStep | None:
    """Return the last of a kernel's outermost steps, its statements, in which a thread can return, or None."""
    return next((step for step in reversed(steps) if "return" in find_jumps(step.node)), None)


def require_one_section(items: list[Item]) -> None:
    """Raise `NeedsFibers` unless all threads of a kernel without barriers begin and end their loops together.

    The caller then compiles the kernel with a stack per thread, not as a loop over threads.
    `items` are the parts of the kernel. All but the last have to be done once per block; threads run
    the last one, a `Section`, and may return in its first region only.
    """
    others = items[:-1]
    section: Any = items[-1]
    # All items but the section have to be plain statements, such as declarations. A region or a
    # section has no kind: the default "if" refuses it, too.
    no_control = all(getattr(item, "kind", "if") not in ("if", "loop", "block") for item in others)
    if not no_control or any(
        region.returns and region is not section.items[0] for region in section.regions
    ):
        raise NeedsFibers("its threads do not begin and end together")


def require_vectorizable(kernel: KernelPlan, section: Section, rows: Rows) -> None:
    """Raise `NeedsFibers` unless g++ can vectorize the loop over neighboring threads in a kernel without barriers.

    The caller then compiles the kernel with a stack per thread, not as a loop over threads. `section`
    has the statements that all threads run, in regions: each becomes a loop over neighboring threads.
    Neighbors have to use neighbors in memory, and each product of floats has to be added to
    something, as in a convolution: it is then rounded once with the sum, as on a GPU. `rows` tells
    which variables are the same for a row of threads, or grow by 1 per thread.
    """
    for variable in kernel.variables:
        # a number, or a pointer to numbers: no float **
        is_plain = set(variable.specifiers.split()) <= _NUMBERS and variable.signs.count("*") < 2
        # a variable with a value per thread ("kept") that is used or declared outside of this loop;
        # a "uniform" one has the same value in all threads
        outside = variable.role == "kept" and (
            variable.uses - section.places or variable.region not in section.places
        )
        if (
            not is_plain
            or variable.addressed
            or outside
            or (variable.array and variable.role != "uniform")
        ):
            raise NeedsFibers(f"{variable.name} is not understood")
    # the kernel's own loops, around the regions
    loops = [step for step in section.warp_steps if step.kind == "loop"]
    for region in section.regions:
        # also the variables that the initializers of others use, and so on
        used_variables = region.used_variables()
        while (
            needed := set().union(*(variable.needs for variable in used_variables)) - used_variables
        ):
            used_variables |= needed
        for step in region.steps:
            outer = [loop for loop in loops if loop.node.first < step.node.first < loop.node.last]
            # a statement in a loop has to use the loop's counters: each round differs
            counters = {counter.variable for loop in outer for counter in loop.counters}
            statement = _Statement(kernel, step, rows)
            if not (
                statement.is_understood(bool(outer))
                and statement.is_fused()
                and counters <= used_variables
            ):
                raise NeedsFibers(f"line {kernel.line(step.node.first)} is not understood")


class _Statement:
    """A statement of a `PlanStep`, or the first value of its variable: the reader's tokens[first:last]."""

    def __init__(self, kernel: KernelPlan, step: PlanStep, rows: Rows):
        self.kernel, self.step, self.rows, self.text = kernel, step, rows, kernel.reader.text
        self.first, self.last = step.node.first, step.node.last
        if step.variable:
            self.first, self.last = kernel.initializer(step.variable)

    def is_understood(self, in_loop: bool) -> bool:
        """Return whether the statement only calls known functions and, in a loop, neighbors use neighbors in memory."""
        text, scope, match = self.text, self.step.scope, self.kernel.reader.match
        for at in range(self.first, self.last):
            word, kind = text(at), self.kernel.reader.tokens[at].kind
            is_call = (
                kind == "word" and text(at + 1) == "(" and word not in _VECTORIZED_FUNCTIONS | TYPES
            )
            if is_call and (
                in_loop or not (word in _SPELT_LIKE_CALLS or self.kernel.file.is_pure(word))
            ):
                return False
            if in_loop and word in ("?", "&&", "||"):  # neighbors may do different things
                return False
            if in_loop and word == "[":
                array, index = scope.get(text(at - 1)), (at + 1, match[at], scope)
                # a pointer that differs between threads
                if array is not None and array.role != "uniform":
                    return False
                # grow by 1 per thread
                if not (self.rows.is_same(*index) or self.rows.find_growing_terms(*index)):
                    return False
        return True

    def is_fused(self) -> bool:
        """Return whether the statement has no product of floats, or is ``v += a * b`` with a or b per thread."""
        # Only such a product is always fused with its sum, so that it is rounded once.
        reader, text = self.kernel.reader, self.text
        outer = [at for at in range(self.first, self.last) if not self._is_in_index(at)]
        products = [at for at in outer if text(at) in ("*", "*=")]
        if not products or self._computes_integers(outer):
            return True
        assignments = [
            at for at in reader.outside_brackets(self.first, self.last) if text(at) in ASSIGNMENTS
        ]
        if len(products) != 1 or len(assignments) != 1 or self.step.node.kind != "expression":
            return False
        parts = reader.split(assignments[0] + 1, self.last - 1, "+")
        terms = [term for part in parts for term in reader.split(*part, "-")]
        # ``v = c + a * b`` has two terms, ``v += a * b`` one
        is_sum_of_two = len(terms) == {"=": 2, "+=": 1, "-=": 1}.get(text(assignments[0]))
        # a term without "*", which is its own only part, has no factors
        factors = [
            factor for term in terms for factor in reader.split(*term, "*") if factor != term
        ]
        return (
            is_sum_of_two
            and len(factors) == 2
            and any(self._differs(*factor) for factor in factors)
        )

    def _differs(self, first: int, last: int) -> bool:
        """Return whether tokens[first:last] name a variable that differs between neighbors in a row of threads."""
        same = {
            v
            for v in self.step.scope.values()
            if v and (v.role == "uniform" or v in self.rows.same_in_row)
        }
        return any(
            variable and variable not in same
            for variable in map(self._find_variable, range(first, last))
        )

    def _find_variable(self, at: int) -> KernelVariable | None:
        """Return the `KernelVariable` that token `at` names, or None."""
        return (
            self.step.scope.get(self.text(at))
            if self.text(at - 1) not in (".", "->", "::")
            else None
        )

    def _is_in_index(self, at: int) -> bool:
        """Return whether token `at` is inside of square brackets of the statement: products there are of integers."""
        while at >= self.first and self.text(at) != "[":
            at = self.kernel.reader.around[at]  # the bracket around it, or -1
        return at >= self.first

    def _computes_integers(self, outer: list[int]) -> bool:
        """Return whether the tokens with the indices `outer` compute with integers alone, or a pointer's address."""
        target = self.step.variable or self.step.scope.get(self.text(self.first))
        # p = q + n sets a pointer, and p[0] = x does not.
        sets_pointer = (
            target is not None and "*" in target.signs and self.text(self.first + 1) != "["
        )
        for at in outer:
            kind, word = self.kernel.reader.tokens[at][:2]
            variable = self._find_variable(at)
            member = self.text(at - 1) == "." and word in "xyz"
            if (
                kind == "word"
                and variable is None
                and not member
                and word not in INDICES | _INTEGERS | {"threadIdx"}
            ):
                return False
            if (word == "[" and sets_pointer) or (
                kind == "number" and not word.rstrip("uUlL").isdigit()
            ):
                return False
            if (
                variable
                and not (variable.signs and sets_pointer)
                and not set(variable.specifiers.split()) <= _INTEGERS
            ):
                return False
        return True
