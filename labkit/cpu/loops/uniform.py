"""Uniform values: those that are the same for all threads of a block.

Uniform are the kernel's arguments, constants, ``blockIdx``, ``blockDim``, ``gridDim``, and the variables that get only
uniform values at places that all threads reach. Memory is never uniform.
"""

from labkit.cpu.loops.reader import escapes
from labkit.cpu.loops.steps import is_jump
from labkit.cpu.loops.words import ASSIGNMENTS, INDICES, PURE, SPECIFIERS, STEPS, TYPES, Fibers


def is_uniform(kernel, first, last, scope, more=frozenset(), roles=("uniform",)):
    """Whether an expression has the same value in all threads of a block.

    Variables of other `roles` and the words `more` can be allowed, too.
    """
    reader = kernel.reader
    for at in range(first, last):
        kind, word = reader.tokens[at][:2]
        before, after = reader.text(at - 1), reader.text(at + 1)
        if kind == "sign":
            if word in ASSIGNMENTS or word in STEPS or word in ("[", "->", "->*", ";", "{", "}", "..."):
                return False
            unary = at == first or not kernel.names.is_operand(at - 1, scope)
            if (word == "&" and unary) or (word == "*" and unary and after not in (")", "*", "const")):
                return False
        elif kind == "word" and before not in (".",):
            variable = scope.get(word)
            if after == "::" and word in ("std", "labkit"):
                continue
            if before == "::" and not (PURE.fullmatch(word) or word == "dynamic_shared"):
                return False
            if variable is not None:
                if after == "(" or (not variable.shared and variable.role not in roles):
                    return False
                continue
            if word in more or word in INDICES or word in TYPES or word in SPECIFIERS:
                continue
            if word in ("true", "false", "nullptr", "dynamic_shared") or PURE.fullmatch(word):
                continue
            if word not in (kernel.file.macros.functions if after == "(" else kernel.constants):
                return False
        elif kind == "text":
            return False
    return True


def find_uniform(kernel):
    """Take the role `uniform` from all variables that may differ between threads, until none is left."""
    changed = True

    def demote(variables):
        nonlocal changed
        for variable in variables:
            if variable.role == "uniform" and not variable.shared:
                variable.role, changed = "local", True

    while changed:
        changed = False
        for step in kernel.steps:
            effects, variable = step.effects, step.variable
            demote(v for v in effects.addressed if not v.constant)
            if step.kind == "declaration":
                demote(effects.changes - {variable})
                if variable.array or "&" in variable.signs or (
                    not is_uniform(kernel, *kernel.initializer(variable), step.scope)
                ):  # fmt: skip
                    demote([variable])
            elif step.kind == "loop" and step.node.kind == "for":
                for span in kernel.loop_steps(step):
                    update = kernel.update(*span, step.scope)
                    if update is None or not is_uniform(kernel, *update[1], step.scope):
                        demote(kernel.names.expression(*span, step.scope).changes)
            elif step.update and is_uniform(kernel, *step.update[1], step.scope):
                demote(effects.changes - {step.update[0]})
            else:
                demote(effects.changes)
    for step in kernel.steps:
        for variable in step.effects.addressed:
            variable.addressed = True


def require_uniform(kernel):
    """Raise `Fibers` unless all threads of a block reach each barrier together."""
    for step in kernel.steps:
        line = kernel.line(step.node.first)
        if step.kind in ("loop", "if"):
            span = step.node.parts["condition"]
            counters = [s.variable for s in step.first]
            steps = [kernel.update(*span, step.scope) for span in kernel.loop_steps(step)] if counters or (
                step.node.kind == "for") else []  # fmt: skip
            if not is_uniform(kernel, *span, step.scope) or any(v.role != "uniform" for v in counters):
                what = "loop" if step.kind == "loop" else "if"
                raise Fibers(
                    f"the barrier in the {what} of line {line} depends on values that may differ between threads"
                )
            for span, update in zip(kernel.loop_steps(step) if steps else (), steps, strict=True):
                if update and update[0].role == "uniform":
                    update[0].changed_uniformly.append(step.node.first)
                elif any(each.kind == "jump" and "continue" in escapes(each.node) for each in _within(step)):
                    raise Fibers(f"the loop around its barrier in line {line} is not understood")
                else:
                    step.late.append(span)
        if step.kind == "jump":
            if not is_jump(step.node) or not _condition_is_uniform(kernel, step):
                raise Fibers(
                    f"the jump of line {line}, past a barrier, depends on values that may differ between threads"
                )
        elif step.kind == "jump?":
            step.kind = "jump" if _condition_is_uniform(kernel, step) else "statement"
        if step.update and step.update[0].role == "uniform":
            step.update[0].changed_uniformly.append(step.node.first)
        if step.kind == "type" and any(v.role != "uniform" for v in step.effects.uses):
            raise Fibers("it has a type that depends on a variable")


def _within(step):
    """The steps in a loop or an if."""
    for each in (each for body in step.bodies for each in body):
        yield each
        yield from _within(each)


def _condition_is_uniform(kernel, step):
    return "condition" not in step.node.parts or is_uniform(kernel, *step.node.parts["condition"], step.scope)
