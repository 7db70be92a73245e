"""Regions: the statements between two barriers, and the role of each variable in them."""

import re
from dataclasses import dataclass, field

from labkit.cpu.loops.reader import Node, escapes
from labkit.cpu.loops.steps import Step
from labkit.cpu.loops.uniform import is_uniform
from labkit.cpu.loops.words import BUILT_IN, OPERAND_ENDS, Fibers


@dataclass(eq=False)
class Region:
    """Statements between two barriers, which a loop over the threads runs."""

    number: int
    steps: list = field(default_factory=list)
    returns: bool = False

    def uses(self):
        """The variables that its statements name."""
        return set().union(*(step.effects.uses for step in self.steps))

    def kept(self):
        """Those that live across a barrier."""
        return {variable for variable in self.uses() if variable.role == "kept"}


def form(kernel, steps, regions):
    """The items of a block: `regions`, to which they are added, and steps that are done once per block.

    The order is that of the statements, but what is uniform moves before the region that it stands in.
    """
    items, region = [], None

    def once(step, close):
        nonlocal region
        tokens = kernel.reader.tokens[step.node.first : step.node.last]
        if region:
            # If all threads have returned, it may divide by 0.
            close |= region.returns and any(token.text in ("/", "%") for token in tokens)
            close |= step.variable is not None and _names_it(kernel, region, step.variable.name)
        if close:
            region = None
        items.insert(len(items) - (region is not None), step)

    for step in steps:
        if step.kind == "barrier":
            region = None
        elif step.kind in ("loop", "if", "block"):
            region = None
            for first, last in step.late:
                node = Node("late", first, last, kernel.reader.tokens[first].start)
                effects = kernel.names.expression(first, last, step.scope)
                step.bodies[0].append(Step("statement", node, step.scope, effects))
            step.items = [form(kernel, body, regions) for body in step.bodies]
            items.append(step)
        elif step.kind in ("jump", "type"):
            once(step, close=True)
        elif step.kind == "declaration" and (step.variable.role == "uniform" or step.variable.shared):
            once(step, close=False)
        elif step.update and step.update[0].role == "uniform":
            once(step, close=region is not None and step.update[0] in region.uses())
        else:
            if region is None:
                region = Region(len(regions))
                regions.append(region)
                items.append(region)
            region.steps.append(step)
            region.returns |= "return" in escapes(step.node)
            if step.variable:
                step.variable.region = region.number
            for variable in step.effects.uses:
                variable.uses.add(region.number)
            for variable in step.effects.changes | step.effects.addressed:
                variable.changes.add(region.number)
    return items


def _names_it(kernel, region, name):
    """Whether a region has that name, which must not be that of a later declaration."""
    nodes = [step.node for step in region.steps]
    return any(token.text == name for node in nodes for token in kernel.reader.tokens[node.first : node.last])


def assign_roles(kernel):
    """Give the variables that are not uniform their roles."""
    for parameter in kernel.parameters:
        if parameter.role != "uniform":
            parameter.role = "kept"
    for step in kernel.steps:
        variable = step.variable
        if variable is None or variable.role == "uniform" or variable.shared:
            continue
        if variable.uses <= {variable.region}:
            continue
        if _can_recompute(kernel, step):
            variable.role = "recomputed"
            continue
        variable.role = "kept"
        if len(variable.dimensions) > 1:  # measured: on fibers such tiles stay in registers
            raise Fibers(f"the array {variable.name} of each thread is faster on fibers")
        words = set(re.findall(r"\w+", variable.specifiers))
        if "auto" in words or "&" in variable.signs:
            raise Fibers(f"{variable.name}, which lives across a barrier, is a reference or auto")
        if "constexpr" in words or "static" in words:
            raise Fibers(f"{variable.name}, which lives across a barrier, is not understood")


def _can_recompute(kernel, step):
    """Whether to repeat the declaration in each region: it is cheap, and its value never changes."""
    variable = step.variable
    changed = any(variable in other.effects.changes | other.effects.addressed for other in kernel.steps)
    first, last = kernel.initializer(variable)
    if (changed and not variable.constant) or variable.array or "&" in variable.signs or first == last:
        return False
    words = set(re.findall(r"\w+", variable.specifiers))
    if not (words & (BUILT_IN | {"size_t", "uint"}) or "*" in variable.signs):
        return False
    if not is_uniform(kernel, first, last, step.scope, {"threadIdx"}, ("uniform", "recomputed")):
        return False
    names = [each.name for each in kernel.variables]
    if any(names.count(each.name) > 1 for each in (variable, *variable.needs)):
        return False  # where the declaration is repeated, another variable may have that name
    if any(at > variable.place for need in variable.needs for at in need.changed_uniformly):
        return False
    return not any(_is_costly(kernel, at, first, step.scope) for at in range(first, last))


def _is_costly(kernel, at, first, scope):
    """Whether token `at` divides a value that differs between threads, and not by a constant."""
    reader = kernel.reader
    if reader.text(at) not in ("/", "%"):
        return False
    divisor = reader.tokens[at + 1]
    if divisor.kind == "number" or divisor.text in kernel.constants:
        return False
    start = at
    while start > first:
        text = reader.text(start - 1)
        if text in OPERAND_ENDS:
            start = reader.match[start - 1]
        elif text in ("*", "/", "%", ".") or reader.tokens[start - 1].kind != "sign":
            start -= 1
        else:
            break
    dividend = reader.tokens[start:at]
    differs = any(
        token.text == "threadIdx" or (token.text in scope and scope[token.text].role == "recomputed")
        for token in dividend
    )
    return differs or divisor.kind != "word" or (divisor.text in scope and scope[divisor.text].role != "uniform")
