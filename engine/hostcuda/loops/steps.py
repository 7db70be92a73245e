"""A kernel as steps: the statements and declarations at the places that all its threads reach."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hostcuda.frontend.scan import Kernel, Scan
from hostcuda.frontend.tokens import Edit, apply_edits
from hostcuda.loops.direct import mark_loops
from hostcuda.loops.effects import Effects, EffectsReader, KernelVariable, Scope
from hostcuda.loops.file import File
from hostcuda.loops.reader import Node, Reader, find_jumps
from hostcuda.loops.refusals import refuse
from hostcuda.loops.words import ASSIGNMENTS, RESTRICT, STEPS, NeedsFibers

# A variable that a statement like ``v += operand`` changes, and the span of the operand.
Update: TypeAlias = tuple[KernelVariable, tuple[int, int]]


@dataclass(eq=False)
class PlanStep:
    """A step of a kernel at a place that all its threads reach: a statement, or one variable of a declaration."""

    # declaration, statement, barrier, rendezvous, loop, if or block (in which threads wait), or jump
    kind: str
    node: Node
    scope: Scope  # name -> variable, at this place
    effects: Effects
    variable: KernelVariable | None = None
    update: Update | None = None  # if it is a statement like ``v += operand``
    # of a for loop: the declarations in its head
    counters: list[PlanStep] = field(default_factory=list)
    # the steps in each body of a loop or an if that has a barrier, or a rendezvous of a warp's lanes
    bodies: list[list[PlanStep]] = field(default_factory=list)
    items: list[list[Any]] = field(default_factory=list)  # the same as `Item`s, by `split_block`
    # the outermost control statement around it, or itself, that has a rendezvous and no barrier: a
    # warp runs it alone
    warp: Node | None = None

    @property
    def declared(self) -> KernelVariable:
        """The variable that the step declares; for steps that are declarations, where `variable` is not None."""
        assert self.variable is not None
        return self.variable


class KernelPlan:
    """A kernel as steps.

    `body` is the kernel in the source `scan`, whose declarations `file` has. `direct`: nothing in it
    waits. `constants` are names of constants, by what is declared; where the text relies on one, the
    compiler proves it.
    """

    def __init__(self, scan: Scan, body: Kernel, file: File, direct: bool):
        """Read a kernel as steps; raise `NeedsFibers` if it is known by now that it has to run on fibers."""
        self.scan, self.body, self.file, self.direct = scan, body, file, direct
        self.reader = Reader(scan.code, body.open + 1, body.close)
        template = body.template_head
        # class T, typename... Ts
        types = set(re.findall(r"\b(?:class|typename)\b[\s.]*(\w+)", template))
        values = (
            set()
            if re.search(r"[&*]|\bdecltype\b", template)
            else set(re.findall(r"\w+", template)) - types
        )
        self.constants = file.constants | values
        statements = self.reader.read_statements()
        self.effects_reader = EffectsReader(self.reader, self.file, types)
        self.variables: list[KernelVariable] = []  # all that are declared outside of statements
        self.steps: list[PlanStep] = []  # all of them, with those inside of loops and ifs
        refuse(self)  # if its words need fibers
        scope = self._declare_parameters()
        self.parameters = list(self.variables)
        if direct:
            statements = mark_loops(self, statements)
        self.outer_steps = self._plan(statements, dict(scope), in_loop=False, warp=None)
        for variable in self.variables:
            if variable.type in ("class", "reference") and not variable.shared:
                raise NeedsFibers(f"{variable.name} may refer to something")

    def line(self, at: int) -> int:
        """Return the line of token `at` in the user's file."""
        _file, line = self.scan.place(self.reader.tokens[at].start)
        return line

    def text(self, first: int, last: int, edits: Iterable[Edit] = ()) -> str:
        """Return the text of tokens[first:last] after edits; "" for no tokens.

        An edit (start, end, new text) replaces the characters of the source from position `start` to `end`.
        """
        tokens = self.reader.tokens
        return (
            apply_edits(self.scan.text, edits, tokens[first].start, tokens[last - 1].end)
            if first < last
            else ""
        )

    def initializer(self, variable: KernelVariable) -> tuple[int, int]:
        """Return the tokens of a variable's first value, as a span (first, last), without the ``=``."""
        first, last = variable.initializer
        return (
            (first + 1, last) if first < last and self.reader.text(first) == "=" else (first, last)
        )

    def loop_steps(self, step: PlanStep) -> list[tuple[int, int]]:
        """Return the expressions that a for loop evaluates after each round: `i++, p += 2` are two.

        Each is a span (first, last) of tokens. `step` is the loop.
        """
        first, last = step.node.parts.get("step", (0, 0))  # the third part of ``for (a; b; c)``
        return self.reader.split(first, last) if first < last else []

    def _declare_parameters(self) -> Scope:
        """Add the kernel's parameters to `variables`; return their scope, a dict: name -> `KernelVariable`."""
        code = self.scan.code
        open_ = code.index("(", self.body.name_end)
        reader = Reader(code, open_ + 1, code.rindex(")", open_, self.body.open))
        scope: Scope = {}
        if [token.text for token in reader.tokens] in ([], ["void"]):
            return scope
        for first, last in reader.split(0, len(reader.tokens)):
            end = reader.find_type_end(first, last)
            if end is not None and {reader.text(at) for at in range(end, last)} <= {"*", *RESTRICT}:
                continue  # it has no name
            [(name, signs, bounds, _)] = reader.read_declarators(first, last)
            words = [token.text for token in reader.tokens[first:end]]
            type_ = self.file.find_kind([*words, *signs.split()], self.effects_reader.parameters)
            variable = KernelVariable(reader.text(name), " ".join(words), signs)
            is_array = bounds[0] < bounds[1]  # there are tokens of float x[4] behind the name
            # float x[4] as a parameter is a pointer
            variable.type = "pointer" if is_array else type_
            # where `Writer` may put a "const", which before the name of an array means its elements
            variable.position = -1 if is_array else reader.tokens[name].start
            scope[variable.name] = variable
            self.variables.append(variable)
        return scope

    def _plan(
        self, nodes: list[Node], scope: Scope, in_loop: bool, warp: Node | None
    ) -> list[PlanStep]:
        """Return the list of steps of the statements `nodes`; add them to `steps`, and their variables to `scope`.

        `in_loop`: whether a loop in which threads wait is around them. `warp`: the statement around them
        that a warp runs alone, or None.
        """
        steps = []
        for node in nodes:
            for step in self._make_steps(node, scope, in_loop, warp):
                step.warp = step.warp or warp
                self.steps.append(step)
                steps.append(step)
        return steps

    def _make_steps(
        self, node: Node, scope: Scope, in_loop: bool, warp: Node | None
    ) -> Iterator[PlanStep]:
        """Yield the steps of one statement, a `Node`: a declaration has one per variable.

        Parameters: see `_plan`.
        """
        if node.kind == "declaration":
            yield from self._declare(node.first, node.last - 1, node, scope, warp)
        elif node.barrier or node.rendezvous:
            yield self._plan_control(node, scope, in_loop, warp)
        else:
            effects = self.effects_reader.read_statement(node, scope)
            step = PlanStep("statement", node, dict(scope), effects)
            if node.kind == "expression":
                step.update = self.read_update(node.first, node.last - 1, scope)
            # Else break and continue are of a loop that is part of the statement, or of one that
            # does not wait.
            if find_jumps(node) & ({"return", "break", "continue"} if in_loop else {"return"}):
                step.kind = "jump"
            yield step

    def _plan_control(self, node: Node, scope: Scope, in_loop: bool, warp: Node | None) -> PlanStep:
        """Return the step of a `Node` in which threads wait, with those of its bodies.

        Parameters: see `_plan`.
        """
        inner, parts = dict(scope), node.parts
        if node.kind in ("barrier", "rendezvous"):
            return PlanStep(node.kind, node, inner, Effects())
        if node.kind == "switch":
            raise NeedsFibers(
                f"it has a {'barrier' if node.barrier else 'warp function'} in a switch"
            )
        if not node.barrier:  # only the lanes of a warp wait in it
            warp = warp or node
        if node.kind == "block":
            step = PlanStep("block", node, inner, Effects(), warp=warp)
            step.bodies.append(self._plan(node.children, inner, in_loop, warp))
            return step
        step = PlanStep("loop" if node.kind != "if" else "if", node, inner, Effects(), warp=warp)
        if node.kind == "for":
            first, last = parts["first"]
            if self.reader.is_declaration(first, last):
                step.counters = list(self._declare(first, last, node, inner, warp))
            elif first < last:
                waiting = "barrier" if node.barrier else "warp function"
                raise NeedsFibers(
                    f"the loop around its {waiting} in line {self.line(node.first)} declares no counter"
                )
            for counter in step.counters:
                counter.warp = warp
            self.steps += step.counters
            step.scope = dict(inner)
        step.effects = self.effects_reader.read_expression(*parts["condition"], inner)
        if node.kind == "for":
            step.effects.add(self.effects_reader.read_expression(*parts["step"], inner))
        for name in ("then", "otherwise", "body"):
            if child := parts.get(name):
                nodes = child.children if child.kind == "block" else [child]
                step.bodies.append(
                    self._plan(nodes, dict(inner), in_loop or step.kind == "loop", warp)
                )
        return step

    def _declare(
        self, first: int, last: int, node: Node, scope: Scope, warp: Node | None
    ) -> Iterator[PlanStep]:
        """Yield a `PlanStep` for each variable that tokens[first:last] declare; add it to `variables` and `scope`.

        `node` is the declaration, or the ``for`` with it in its head. For `warp` see `_plan`.
        """
        reader = self.reader
        self.effects_reader.require_declaration(first, last, scope)
        end = reader.require_type_end(first, last)
        words = [token.text for token in reader.tokens[first:end]]
        for name, signs, bounds, initializer in reader.read_declarators(first, last):
            scope_before = dict(scope)
            variable = KernelVariable(
                reader.text(name), self.text(first, end), signs, bounds, initializer
            )
            variable.shared = "__shared__" in words
            variable.place, variable.warp = name, warp
            variable.type = self.effects_reader.find_declared_type(first, last, signs)
            at = bounds[0]
            while at < bounds[1]:
                variable.dimensions += ((at, reader.match[at]),)
                at = reader.match[at] + 1
            effects = self.effects_reader.read_expression(first, end, scope)
            effects.add(self.effects_reader.read_expression(*bounds, scope))
            scope[variable.name] = variable
            effects.add(self.effects_reader.read_initialization(initializer, scope, variable.type))
            variable.needs = effects.uses - {variable}
            effects.uses.add(variable)  # its region is noted in its `uses`, too
            self.variables.append(variable)
            yield PlanStep("declaration", node, scope_before, effects, variable)

    def read_update(self, first: int, last: int, scope: Scope) -> Update | None:
        """Return (variable, operand) if tokens[first:last] are like ``v = 1``, ``v += 1`` or ``v++``; else None.

        The operand is a span (first, last) of tokens, those of the 1; it is empty for ``v++``.
        """
        reader = self.reader
        words = [token.text for token in reader.tokens[first:last]]
        if len(words) == 2 and set(words) & STEPS:
            variable = scope.get(words[1] if words[0] in STEPS else words[0])
            return (variable, (first, first)) if variable else None  # no operand
        if len(words) > 2 and words[1] in ASSIGNMENTS and (variable := scope.get(words[0])):
            return variable, (first + 2, last)
        return None


def is_jump(node: Node) -> bool:
    """Return whether a statement is a return, break or continue, or ``if (...)`` followed by one of them alone."""
    if node.kind in ("return", "break", "continue"):
        return True
    if node.kind != "if" or "otherwise" in node.parts:
        return False
    then = node.parts["then"]
    if then.kind == "block" and len(then.children) == 1:
        then = then.children[0]
    return then.kind in ("return", "break", "continue")
