"""Rows of threads: what g++ must be told to vectorize the loop over ``threadIdx.x``.

- ``int n = blockIdx.x * 16 + threadIdx.x`` is a sum of unsigned numbers, which may wrap: n of the
  next thread need not be n + 1. It is written as a sum of ``int`` if it is small, by the limits of
  a launch and those that a block checks before its threads begin: a block that exceeds them runs on
  fibers.
- ``k[m * depth + n]`` under a condition is computed for all threads, so that g++ assumes that its
  ``int`` may overflow, too. It is written with numbers of 64 bits.
- A condition that is the same for a row, such as ``m < M``, becomes a mask for AVX-512 bit by bit.
  It is written as one that seems to depend on ``threadIdx.x``.
"""

from __future__ import annotations

import math
import re

from hostcuda.frontend.tokens import Edit
from hostcuda.loops.effects import KernelVariable, Scope
from hostcuda.loops.steps import KernelPlan, PlanStep
from hostcuda.loops.uniform import is_uniform
from hostcuda.loops.words import ASSIGNMENTS, INDICES

# The largest values that a launch may have; for blockIdx.x, the largest for which a block runs as
# thread loops.
_LARGEST = {
    "threadIdx": 1023,
    "blockDim": 1024,
    ("blockIdx", "x"): (1 << 20) - 1,
    "blockIdx": 65535,
}
LIMIT = 1 << 30  # two ints up to this have a sum that does not overflow
_INT_END = 1 << 31
_UNBOUNDED = 1 << 64
_LARGEST_STRIDE = 1024  # of a loop's counter, so that its last step does not overflow
_COUNTS = {"const", "int", "unsigned", "constexpr"}  # words of types of 32 bits
_SIGNED = {"const", "int"}
_INTEGERS = _SIGNED | {"unsigned", "bool", "constexpr"}
_LOWER_THAN_SUMS = {
    "<<",
    ">>",
    "<",
    ">",
    "<=",
    ">=",
    "==",
    "!=",
    "&",
    "^",
    "|",
    "&&",
    "||",
    "?",
    ":",
    "=",
    ",",
}
_ENDS_CONDITION = {"?", "&&", "||", ":", ",", ";", "return", "{", "}", *ASSIGNMENTS}


class Rows:
    """Finds the variables of a `KernelPlan` that, along a row of threads, are the same or grow by 1."""

    def __init__(self, kernel: KernelPlan, early: set[KernelVariable]):
        """Find `same_in_row` and `next_in_row`; `early`: variables that a block has before its threads begin."""
        self.kernel, self.reader, self.early = kernel, kernel.reader, early
        # variables that are the same in a row; that grow by 1
        self.same_in_row, self.next_in_row = (set(), set())
        self.scopes = {}  # variable -> the scope of its declaration, a dict
        # variables of `early` that must not exceed `LIMIT`: a block checks it before its threads
        self.limits = set()
        self.loops = {counter.variable: step for step in kernel.steps for counter in step.counters}
        self.changed = changed = set().union(
            *(step.effects.changes | step.effects.addressed for step in kernel.steps)
        )
        for step in kernel.steps:
            variable = step.variable
            if variable is None:
                continue
            self.scopes[variable] = scope = step.scope
            words, span = set(variable.specifiers.split()), kernel.initializer(variable)
            if variable.signs or variable.array or (variable in changed and not variable.constant):
                continue
            if words <= _INTEGERS and span[0] < span[1] and self.is_same(*span, scope):
                self.same_in_row.add(variable)
            # It must not overflow: by the limits of a launch, and `limits`, to which `_bound` adds
            # variables.
            elif (
                words <= _SIGNED
                and self.find_growing_terms(*span, scope)
                and self._bound(*span, scope) < _INT_END
            ):
                self.next_in_row.add(variable)

    def is_same(self, first: int, last: int, scope: Scope) -> bool:
        """Return whether tokens[first:last] have the same value for all threads of a row, which differ in x alone."""
        text = self.reader.text
        for at in range(first, last):
            variable = scope.get(text(at)) if text(at - 1) not in (".", "::") else None
            if text(at) == "threadIdx" and text(at + 2) not in ("y", "z"):  # at + 1 is the dot
                return False
            if variable and variable.role != "uniform" and variable not in self.same_in_row:
                return False
        # All roles are allowed, and threadIdx: the loop above has checked the variables, and which
        # index it is. What is left are the other words, and whether something changes or reads
        # memory.
        roles = ("uniform", "recomputed", "kept", "local")
        return first < last and is_uniform(self.kernel, first, last, scope, {"threadIdx"}, roles)

    def find_growing_terms(self, first: int, last: int, scope: Scope) -> list[tuple[int, int]]:
        """Return the terms of a sum, tokens[first:last], that grows by 1 from one thread of a row to the next.

        A term is a span (first, last) of tokens. Returns [] for another expression.
        """
        text = self.reader.text
        terms: list[tuple[int, int]] = []
        if any(text(at) in _LOWER_THAN_SUMS for at in self.reader.outside_brackets(first, last)):
            return []
        for span in self.reader.split(first, last, "+"):
            terms += self.reader.split(*span, "-")
        growing = [span for span in terms if not self.is_same(*span, scope)]
        # A single term is no sum. In a kernel without barriers (`direct`) it is accepted, since there
        # the question is also whether an index such as [threadIdx.x] grows.
        if len(terms) < 2 and not self.kernel.direct:
            return []
        # a growing term must not be subtracted
        if len(growing) != 1 or text(growing[0][0] - 1) == "-":
            return []
        words = [text(at) for at in range(*growing[0])]
        grows = words == ["threadIdx", ".", "x"] or (
            len(words) == 1 and scope.get(words[0]) in self.next_in_row
        )
        return terms if grows else []

    def edit_initializer(self, variable: KernelVariable) -> list[Edit]:
        """Return edits (start, end, text) of a variable's first value, with which g++ vectorizes the loop over threads.

        A row is the threads that differ in threadIdx.x alone. If the variable grows by 1 from one
        thread of a row to the next, the sum becomes a call of ``hostcuda::sum``, by which g++
        recognizes neighboring elements.
        """
        span, scope = self.kernel.initializer(variable), self.scopes[variable]
        if variable not in self.next_in_row:
            return self.edit_tokens(*span, scope)
        return self._write_sum("hostcuda::sum", *span, scope)

    def _bound(
        self,
        first: int,
        last: int,
        scope: Scope,
        positive: bool = False,
    ) -> int:
        """Return a bound of the absolute value of tokens[first:last] by the limits of a launch, or `_UNBOUNDED`.

        `positive`: there is a bound only if no part can be negative. A dividend needs that: as an unsigned
        number, a negative value is large, and so is its quotient.
        """
        text, match, outer = (
            self.reader.text,
            self.reader.match,
            list(self.reader.outside_brackets(first, last)),
        )
        if first >= last or any(text(at) in _LOWER_THAN_SUMS for at in outer):
            return _UNBOUNDED
        # the loosest operator splits the expression
        for signs, join in ((("+", "-"), sum), (("*",), math.prod)):
            places = [at for at in outer if text(at) in signs]
            if places and positive and any(text(at) == "-" for at in places):
                return _UNBOUNDED  # a - b may be negative
            if places:
                spans = zip([first, *(at + 1 for at in places)], [*places, last], strict=True)
                return join(self._bound(*span, scope, positive) for span in spans)
        for at in outer:
            if text(at) in ("/", "%"):  # the result is at most the dividend
                return self._bound(first, at, scope, positive=True)
        if text(first) == "(" and match[first] == last - 1:
            return self._bound(first + 1, last - 1, scope, positive)
        name = text(first)  # what is left is an operand: threadIdx.x, a number or a variable
        if last == first + 3 and text(first + 1) == "." and name not in scope:
            return _LARGEST.get((name, text(first + 2)), _LARGEST.get(name, _UNBOUNDED))
        if last != first + 1:
            return _UNBOUNDED
        if number := re.fullmatch(r"(\d+)[uU]?", name):
            return int(number[1]) if name == "0" or name[0] != "0" else _UNBOUNDED  # 010 is octal
        variable = scope.get(name)
        return self._bound_variable(variable, positive) if variable else _UNBOUNDED

    def _bound_variable(self, variable: KernelVariable, positive: bool) -> int:
        """Return a bound of a variable's absolute value, or `_UNBOUNDED`; for `positive` see `_bound`.

        A uniform variable without a bound, such as a parameter, is added to `limits` if that gives it
        one: each block then checks it.
        """
        if (
            variable.type != "scalar"
            or variable.array
            or not set(variable.specifiers.split()) <= _COUNTS
        ):
            return _UNBOUNDED
        if variable in self.loops:
            return self._bound_counter(variable, self.loops[variable], positive)
        bound, (first, last) = _UNBOUNDED, variable.initializer
        if variable in self.same_in_row | self.next_in_row and first < last:
            bound = self._bound(*self.kernel.initializer(variable), self.scopes[variable], positive)
        signed = "unsigned" not in variable.specifiers.split()
        if bound > LIMIT and signed and not positive and variable in self.early - self.changed:
            # such as a parameter n: each block checks that it is at most this
            self.limits.add(variable)
            bound = LIMIT
        return bound

    def _bound_counter(self, variable: KernelVariable, loop: PlanStep, positive: bool) -> int:
        """Return a bound of the counter of a loop such as ``for (int i = 0; i < n; i += 16)``, or `_UNBOUNDED`.

        For `positive` see `_bound`.
        """
        first, last = loop.node.parts["condition"]
        steps, text = self.kernel.loop_steps(loop), self.reader.text
        others = (
            step for step in self.kernel.steps if step is not loop and step.variable is not variable
        )
        if (
            len(steps) != 1
            or text(first) != variable.name
            or any(variable in step.effects.changes for step in others)
        ):
            return _UNBOUNDED
        words = [text(at) for at in range(*steps[0])]
        span = self.kernel.initializer(variable)
        start = (
            self._bound(*span, self.scopes[variable], positive) if span[0] < span[1] else _UNBOUNDED
        )
        adds = words in ([variable.name, "++"], ["++", variable.name]) or (
            words[:2] == [variable.name, "+="]
            and self._bound(steps[0][0] + 2, steps[0][1], {}) <= _LARGEST_STRIDE
        )
        shrinks = words[1:2] in (["/="], [">>="]) or words in (
            [variable.name, "--"],
            ["--", variable.name],
        )
        if adds and text(first + 1) in ("<", "<="):  # i < n; i += 16
            return max(start, self._bound(first + 2, last, loop.scope))
        return (
            start
            if shrinks and text(first + 1) in (">", ">=") and text(first + 2) == "0"
            else _UNBOUNDED
        )

    def edit_tokens(self, first: int, last: int, scope: Scope) -> list[Edit]:
        """Return edits (start, end, text) of tokens[first:last], with which g++ vectorizes the loop over threads.

        They change indices of arrays that grow by 1 per thread: i + threadIdx.x becomes
        hostcuda::index(i, threadIdx.x), the same sum in 64 bits, which g++ knows not to overflow. And
        they change conditions c that are the same for a row of threads (those that differ in
        threadIdx.x alone): these become HOSTCUDA_ROW(c), which seems to depend on threadIdx.x, because
        g++ makes slow masks of c itself. Tokens with a constexpr get no edits.
        """
        edits, text, match = [], self.reader.text, self.reader.match
        next_token = first  # tokens before it get no edits
        for at in range(first, last):
            word = text(at)
            if word == "if" and text(at + 1) == "(" and self._has_loop(match[at + 1] + 1):
                # passed over, so that it gets no mask: a condition around a loop stays a jump
                next_token = match[at + 1]
            if at < next_token:
                continue
            if (
                word == "["
                and (variable := scope.get(text(at - 1)))
                and (variable.array or "*" in variable.signs)
            ):
                edits += self._write_sum("hostcuda::index", at + 1, match[at], scope)
            elif word in ("&&", "?"):
                edits += self._mark_condition(
                    self.reader.find_start(at, first, _ENDS_CONDITION), at, scope
                )
                # A chain's last operand has no "&&" behind it, so it is marked here; if a "?" is behind
                # it, the lines above mark it when `at` comes to the "?".
                if word == "&&":
                    end = self.reader.find_end(at + 1, last, _ENDS_CONDITION)
                    if text(end) not in ("&&", "?"):
                        edits += self._mark_condition(at + 1, end, scope)
            elif word == "if" and text(at + 1) == "(":
                edits += self._mark_condition(at + 2, match[at + 1], scope)
            elif word == "constexpr":
                # HOSTCUDA_ROW(c), which asks for threadIdx.x, is no constant expression
                return []
        return edits

    def _has_loop(self, at: int) -> bool:
        """Return whether the statement at token `at` is a loop, or a block with one."""
        end = self.reader.match[at] if self.reader.text(at) == "{" else at + 1
        return any(self.reader.text(i) in ("for", "while", "do") for i in range(at, end))

    def _mark_condition(self, first: int, last: int, scope: Scope) -> list[Edit]:
        """Return edits by which a condition that is equal for a row seems to depend on the thread; none for others."""
        tokens = self.reader.tokens
        constant = all(
            token.text not in INDICES | scope.keys() | {"threadIdx"} for token in tokens[first:last]
        )
        if constant or not self.is_same(first, last, scope):
            return []
        start, end = tokens[first].start, tokens[last - 1].end
        return [(start, start, "HOSTCUDA_ROW("), (end, end, ")")]

    def _write_sum(self, function: str, first: int, last: int, scope: Scope) -> list[Edit]:
        """Return edits that write a sum that grows by 1 per thread as ``function(a, minus(b))``; none for others."""
        # Functions of loops.h: hostcuda::sum adds numbers of 32 bits as int, hostcuda::index adds
        # ints in 64 bits.
        tokens, edits = self.reader.tokens, []
        terms = self.find_growing_terms(first, last, scope)
        for number, (begin, end) in enumerate(terms):
            minus = number > 0 and tokens[begin - 1].text == "-"
            # The sign before a term, and the spaces around it, become a comma.
            new = f"{', ' if number else function + '('}{'hostcuda::minus(' if minus else ''}"
            close = ")" * (minus + (number == len(terms) - 1))
            edits.append(
                (tokens[begin - 2].end if number else tokens[begin].start, tokens[begin].start, new)
            )
            edits.append((tokens[end - 1].end, tokens[end - 1].end, close))
        return edits
