"""Uniform values: those that are the same for all threads of a block.

Uniform are the kernel's arguments, constants, ``blockIdx``, ``blockDim``, ``gridDim``, and the variables that get only
uniform values at places that all threads reach. Memory is never uniform.

In a statement that a warp runs alone, the same is asked for the lanes of a warp. There ``threadIdx.y``,
``threadIdx.z``, ``threadIdx.x / 32`` and ``threadIdx.x < 64`` are uniform, too, because a warp is in one row of the
block: other blocks run on fibers (runtime/module.cpp). So are *steady* variables, which get such a value once.
"""

import re

from hostcuda.loops.reader import escapes
from hostcuda.loops.steps import is_jump
from hostcuda.loops.words import ASSIGNMENTS, INDICES, SPECIFIERS, STEPS, NeedsFibers

_INTEGERS = {"const", "int", "unsigned", "long", "size_t", "uint"}


def is_uniform(kernel, first, last, scope, more=frozenset(), roles=("uniform",), warp=False):
    """Return whether an expression has the same value in all threads of a block, or of a `warp`.

    Variables of other `roles` and the words `more` can be allowed, too. One function, because each question about a
    word is one or two lines, and most need the same six things.
    """
    reader = kernel.reader
    after_warp = first
    for at in range(first, last):
        if at < after_warp:
            continue
        if warp and (end := _skip_same_in_warp(kernel, at, first, last, scope)):
            after_warp = end
            continue
        kind, word = reader.tokens[at][:2]
        before, after = reader.text(at - 1), reader.text(at + 1)
        if kind == "sign":
            if _changes_or_reads_memory(kernel, at, first, scope):
                return False
        elif kind == "word" and before not in (".",):
            variable = scope.get(word)
            if after == "::" and word in ("std", "hostcuda"):
                continue
            if before == "::" and not (
                reader.text(at - 2) in ("std", "hostcuda") and (kernel.file.is_pure(word) or word == "dynamic_shared")
            ):
                return False
            if variable is not None:
                steady = warp and variable.steady
                if variable.shared and not variable.array:  # its value is memory; an array's name is its address
                    return False
                if after == "(" or not (variable.shared or variable.role in roles or steady):
                    return False
                continue
            if word in more or word in INDICES or word in SPECIFIERS or kernel.file.is_type(word):
                continue
            if word in ("true", "false", "nullptr", "dynamic_shared") or kernel.file.is_pure(word):
                continue
            if word in kernel.effects.parameters:
                kernel.effects.assumed.add(word)
            elif after == "(" or word not in kernel.constants:
                return False
        elif kind == "text" or (kind == "number" and "_" in word):
            return False
    return True


def _changes_or_reads_memory(kernel, at, first, scope):
    """Return whether the sign at token `at` of an expression changes a variable, takes an address or reads memory."""
    word, after = kernel.reader.text(at), kernel.reader.text(at + 1)
    if word in ASSIGNMENTS or word in STEPS or word in ("[", "->", "->*", ";", "{", "}", "..."):
        return True
    if word not in ("&", "*") or (at > first and kernel.effects.is_operand(at - 1, scope)):
        return False
    return word == "&" or after not in (")", "*", "const")


_BEFORE, _AFTER = {"(", "[", "=", ",", "?", ":", "&&", "||"}, {")", "]", ",", "?", ":", "&&", "||", ";"}
_THREAD = ["threadIdx", ".", "x"]


def _skip_same_in_warp(kernel, at, first, last, scope):
    """Return the token after what starts at token `at`, is made of threadIdx and equal in all lanes; 0 if none."""
    reader, text = kernel.reader, kernel.reader.text
    if text(at) == "hostcuda_vote":
        return reader.match[at + 1] + 1
    if text(at) == "threadIdx" and text(at + 1) == "." and text(at + 2) in ("y", "z"):
        return at + 3
    end = _skip_thread_number(kernel, at, scope)
    if not end or end + 1 >= last:
        return 0
    before, sign, number = text(at - 1) if at > first else "(", text(end), text(end + 1).rstrip("uU")
    after = text(end + 2) if end + 2 < last else ")"
    if before in ("+", "-") and not kernel.effects.is_operand(at - 2, scope):
        return 0  # -threadIdx.x / 32
    good = before in _BEFORE and after in _AFTER
    if sign == "/" and number in ("32", "warpSize"):
        good = before in _BEFORE | {"+", "-", "<", ">", "<=", ">=", "==", "!=", "&", "|"}
    elif (sign, number) != (">>", "5"):
        good &= sign in ("<", ">=") and bool(re.fullmatch(r"0|[1-9]\d*", number)) and int(number) % 32 == 0
    return end + 2 if good else 0


def _skip_thread_number(kernel, at, scope):
    """Return the token after the number of a thread in its row at token `at`; 0 if there is none."""
    text = kernel.reader.text
    if text(at) == "threadIdx":
        words = [text(i) for i in range(at, at + len(_THREAD))]
        return at + len(_THREAD) if words == _THREAD else 0
    variable = scope.get(text(at))
    if variable is None or text(at + 1) in (".", "[", "(", "->", "::") or text(at - 1) in (".", "->", "::"):
        return 0
    return at + 1 if variable.counts else 0


def _is_thread_number(kernel, variable):
    """Return whether a variable is the number of its thread in its row, for good."""
    first, last = kernel.initializer(variable)
    is_integer = variable.type == "scalar" and set(variable.specifiers.split()) <= _INTEGERS
    if not is_integer or variable.array or first >= last:
        return False
    return [kernel.reader.text(at) for at in range(first, last)] == _THREAD


def _mark_steady(kernel):
    """Mark the variables that get a value once as steady: `find_uniform` takes it from those that are not."""
    for variable in kernel.variables:
        variable.steady = False
    for step in kernel.steps:
        if step.kind == "declaration" and not step.variable.array:
            first, last = step.variable.initializer
            step.variable.steady = first < last
    for step in kernel.steps:
        for variable in step.effects.changes | step.effects.addressed:
            variable.steady &= step.variable is variable
    for variable in kernel.variables:
        variable.counts = variable.steady and _is_thread_number(kernel, variable)


def find_uniform(kernel):
    """Take the role `uniform` from all variables that may differ between threads, until none is left."""
    changed = True

    def demote(variables):
        nonlocal changed
        for variable in variables:
            if variable.role == "uniform" and not variable.shared:
                variable.role, changed = "local", True

    def may_update(step, update):
        """Return whether all threads that share a variable update it together, and equally."""
        alone = step.warp is not None
        is_own = not alone or update[0].warp is step.warp  # else each warp would update the block's variable
        return is_own and is_uniform(kernel, *update[1], step.scope, warp=alone)

    _mark_steady(kernel)
    while changed:
        changed = False
        for step in kernel.steps:
            effects, variable = step.effects, step.variable
            demote(effects.addressed)
            if step.kind == "declaration":
                demote(effects.changes - {variable})
                initializer = kernel.initializer(variable)
                if variable.array or not is_uniform(kernel, *initializer, step.scope, warp=step.warp is not None):
                    demote([variable])
            elif step.kind == "loop" and step.node.kind == "for":
                for span in kernel.loop_steps(step):
                    update = kernel.update(*span, step.scope)
                    if update is None or not may_update(step, update):
                        demote(kernel.effects.expression(*span, step.scope).changes)
            elif step.update and may_update(step, step.update):
                demote(effects.changes - {step.update[0]})
            else:
                demote(effects.changes)
            if variable is not None and variable.steady and not is_uniform(
                kernel, *kernel.initializer(variable), step.scope, warp=True
            ):
                variable.steady, changed = False, True
    for step in kernel.steps:
        for variable in step.effects.addressed:
            variable.addressed = True


def require_uniform(kernel):
    """Raise `NeedsFibers` unless the threads of a block reach barriers together, and the lanes of a warp meetings."""
    for step in kernel.steps:
        line = kernel.line(step.node.first)
        waits = "barrier" if step.warp is None else "warp function"
        group = "threads" if step.warp is None else "the lanes of a warp"
        reason = f"depends on values that may differ between {group}"
        if step.kind in ("loop", "if"):
            updates = [kernel.update(*span, step.scope) for span in kernel.loop_steps(step)]
            variables = [update[0] for update in updates if update] + [counter.variable for counter in step.first]
            if not _is_same(kernel, step) or any(variable.role != "uniform" for variable in variables):
                raise NeedsFibers(f"the {waits} in the {step.kind} of line {line} {reason}")
            if not all(updates):
                raise NeedsFibers(f"the loop around its {waits} in line {line} is not understood")
            for variable in variables[: len(updates)]:
                variable.changed_uniformly.append(step.node.first)
        if step.kind == "jump":
            jumps = escapes(step.node)
            alone = "return" in jumps and (step.warp is not None or kernel.direct)  # other warps go on
            if alone or not is_jump(step.node) or not _is_same(kernel, step):
                if jumps - {"return"}:
                    raise NeedsFibers(f"the jump of line {line}, past a {waits}, {reason}")
                step.kind = "statement"
        if step.update and step.update[0].role == "uniform":
            step.update[0].changed_uniformly.append(step.node.first)


def _is_same(kernel, step):
    """Return whether a step's condition, if it has one, is the same for all threads that reach it together."""
    span = step.node.parts.get("condition")
    return span is None or is_uniform(kernel, *span, step.scope, warp=step.warp is not None)
