"""Uniform values: those that are the same for all threads of a block.

Uniform are the kernel's arguments, constants, ``blockIdx``, ``blockDim``, ``gridDim``, and the
variables that get only uniform values at places that all threads reach. Memory is never uniform. In
a statement that a warp runs alone, the same is asked for its lanes. There ``threadIdx.y``,
``threadIdx.x / 32`` and ``threadIdx.x < 64`` are uniform, too: a warp is in one row of the block.
So are *steady* variables, which get such a value once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Set

from hostcuda.loops.effects import KernelVariable, Scope
from hostcuda.loops.reader import find_jumps
from hostcuda.loops.steps import KernelPlan, PlanStep, Update, is_jump
from hostcuda.loops.words import ASSIGNMENTS, INDICES, SPECIFIERS, STEPS, NeedsFibers

# words of types that hold any threadIdx.x
_INTEGERS = {"const", "int", "unsigned", "long", "size_t", "uint"}
_NAMESPACES = {"std", "hostcuda"}
_CONSTANTS = {"true", "false", "nullptr", "dynamic_shared"}
_WARP_SIZE = 32
# Between a sign of the first set and one of the second, an expression is not part of a larger sum
# or comparison.
_OPENS_CONDITION = {"(", "[", "=", ",", "?", ":", "&&", "||"}
_ENDS_CONDITION = {")", "]", ",", "?", ":", "&&", "||", ";"}
_THREAD_NUMBER = ["threadIdx", ".", "x"]  # the number of a thread in its row


def is_uniform(
    kernel: KernelPlan,
    first: int,
    last: int,
    scope: Scope,
    allowed_words: Set[str] = frozenset(),
    roles: Collection[str] = ("uniform",),
    warp: bool = False,
) -> bool:
    """Return whether tokens[first:last] have the same value in all threads of a block, or of a `warp`.

    `scope` maps names to variables. A variable whose `role` is one of the `roles` counts as the same ("uniform"
    means just that), and so do the names `allowed_words`.
    """
    next_token = first
    for at in range(first, last):
        if at < next_token:
            continue
        # an expression such as threadIdx.x / 32, which is the same in a warp though threadIdx.x is not
        if warp and (end := _skip_same_in_warp(kernel, at, first, last, scope)):
            next_token = end
            continue
        kind, word = kernel.reader.tokens[at][:2]
        if kind == "sign":
            if _changes_or_reads_memory(kernel, at, first, scope):
                return False
        elif kind == "word":
            if not _is_uniform_word(kernel, at, scope, allowed_words, roles, warp):
                return False
        elif kind == "text" or "_" in word:
            # a string, or a number whose suffix is an operator of the source
            return False
    return True


def _is_uniform_word(
    kernel: KernelPlan,
    at: int,
    scope: Scope,
    allowed_words: Set[str],
    roles: Collection[str],
    warp: bool,
) -> bool:
    """Return whether the name at token `at` stands for the same value in all threads; parameters: see `is_uniform`."""
    text, file = kernel.reader.text, kernel.file
    word, before, after = text(at), text(at - 1), text(at + 1)
    # the name before or after it decides
    if before == "." or (after == "::" and word in _NAMESPACES):
        return True
    if before == "::" and not (
        text(at - 2) in _NAMESPACES and (file.is_pure(word) or word == "dynamic_shared")
    ):
        return False
    variable = scope.get(word)
    if variable is not None:
        # its value is memory; an array's name is its address
        if variable.shared and not variable.array:
            return False
        is_same = variable.shared or variable.role in roles or (warp and variable.steady)
        return is_same and after != "("
    if (
        word in INDICES | SPECIFIERS | _CONSTANTS | allowed_words
        or file.is_type(word)
        or file.is_pure(word)
    ):
        return True
    # a type of the template: the compiler has to prove that it is plain
    if word in kernel.effects_reader.parameters:
        kernel.effects_reader.assumed.add(word)
        return True
    return after != "(" and word in kernel.constants


def _changes_or_reads_memory(kernel: KernelPlan, at: int, first: int, scope: Scope) -> bool:
    """Return whether the sign at token `at` of an expression changes a variable, takes an address or reads memory."""
    word, after = kernel.reader.text(at), kernel.reader.text(at + 1)
    if word in ASSIGNMENTS or word in STEPS or word in ("[", "->", "->*", ";", "{", "}", "..."):
        return True
    if word not in ("&", "*") or (at > first and kernel.effects_reader.ends_operand(at - 1, scope)):
        return False
    # the "*" of a cast such as (float *) reads nothing
    return word == "&" or after not in (")", "*", "const")


def _skip_same_in_warp(kernel: KernelPlan, at: int, first: int, last: int, scope: Scope) -> int:
    """Return the index after an expression at token `at` that is equal in all lanes of a warp; 0 if there is none.

    Examples are ``threadIdx.y``, ``threadIdx.x / 32`` and ``threadIdx.x < 64``. It is part of
    tokens[first:last].
    """
    reader, text = kernel.reader, kernel.reader.text
    if text(at) == "hostcuda_vote":  # hostcuda_vote(7), the result of __any_sync and its like
        return reader.match[at + 1] + 1
    if text(at) == "threadIdx" and text(at + 1) == "." and text(at + 2) in ("y", "z"):
        return at + 3
    end = _skip_thread_number(kernel, at, scope)
    if not end or end + 1 >= last:
        return 0
    before, sign, number = (
        text(at - 1) if at > first else "(",
        text(end),
        text(end + 1).rstrip("uU"),
    )
    after = text(end + 2) if end + 2 < last else ")"
    if before in ("+", "-") and not kernel.effects_reader.ends_operand(at - 2, scope):
        return 0  # -threadIdx.x / 32, which C++ reads as (-threadIdx.x) / 32
    is_equal = before in _OPENS_CONDITION and after in _ENDS_CONDITION
    # a division binds more tightly than these operators
    if sign == "/" and number in (str(_WARP_SIZE), "warpSize"):
        is_equal = before in _OPENS_CONDITION | {
            "+",
            "-",
            "<",
            ">",
            "<=",
            ">=",
            "==",
            "!=",
            "&",
            "|",
        }
    # else it is a division by 32, or a comparison, which is equal if it splits no warp
    elif (sign, number) != (">>", "5"):
        is_decimal = bool(re.fullmatch(r"0|[1-9]\d*", number))
        is_equal &= sign in ("<", ">=") and is_decimal and int(number) % _WARP_SIZE == 0
    return end + 2 if is_equal else 0


def _skip_thread_number(kernel: KernelPlan, at: int, scope: Scope) -> int:
    """Return the index after ``threadIdx.x``, or after a variable that equals it, at token `at`; 0 for others."""
    text = kernel.reader.text
    if text(at) == "threadIdx":
        end = at + len(_THREAD_NUMBER)
        return end if [text(i) for i in range(at, end)] == _THREAD_NUMBER else 0
    variable = scope.get(text(at))
    if (
        variable is None
        or text(at + 1) in (".", "[", "(", "->", "::")
        or text(at - 1) in (".", "->", "::")
    ):
        return 0
    return at + 1 if variable.is_thread_number else 0


def _mark_steady(kernel: KernelPlan) -> None:
    """Set `is_thread_number` of variables, and `steady` of those that get a value once.

    `find_uniform` then clears `steady` of those whose value differs between the lanes of a warp.
    """
    for step in kernel.steps:
        if (variable := step.variable) and not variable.array:
            first, last = variable.initializer
            variable.steady = first < last
    for step in kernel.steps:
        for variable in step.effects.changes | step.effects.addressed:
            variable.steady &= step.variable is variable  # only its declaration may change it
    for variable in kernel.variables:  # of which const int i = threadIdx.x is a thread's number
        is_integer = variable.type == "scalar" and set(variable.specifiers.split()) <= _INTEGERS
        value = [kernel.reader.text(at) for at in range(*kernel.initializer(variable))]
        variable.is_thread_number = variable.steady and is_integer and value == _THREAD_NUMBER


def find_uniform(kernel: KernelPlan) -> None:
    """Find out which variables of a kernel have the same value in all threads of a block: their `role` is "uniform".

    Also sets `steady` (the same in a warp, set once) and `addressed` (its address is taken) of the
    variables.
    """
    # `steady`, too, is marked first, and cleared below where the first value differs in a warp
    _mark_steady(kernel)
    # At first all are "uniform". A variable that may differ becomes "local", then others that depend
    # on it may differ, until nothing changes.
    changed = True
    while changed:
        changed = False
        for step in kernel.steps:
            for variables in _find_differing(kernel, step):
                for variable in variables:
                    if variable.role == "uniform" and not variable.shared:
                        variable.role, changed = "local", True
            variable = step.variable
            if (
                variable is not None
                and variable.steady
                and not is_uniform(kernel, *kernel.initializer(variable), step.scope, warp=True)
            ):
                variable.steady, changed = False, True
    for step in kernel.steps:
        for variable in step.effects.addressed:
            variable.addressed = True


def _find_differing(kernel: KernelPlan, step: PlanStep) -> Iterator[set[KernelVariable]]:
    """Yield sets of variables that may differ between threads after a step, by the roles of variables so far.

    The caller may change roles between two sets; the next set then follows from the new ones. Of
    changes, only a declaration and an update such as ``v = 1``, ``v += 16`` or ``v++`` can leave a
    variable uniform: of others it is not known what the threads do.
    """
    effects, variable = step.effects, step.variable
    yield effects.addressed
    if variable:  # it is a declaration
        yield effects.changes - {variable}
        initializer = kernel.initializer(variable)
        if variable.array or not is_uniform(
            kernel, *initializer, step.scope, warp=step.warp is not None
        ):
            yield {variable}
    elif step.kind == "loop" and step.node.kind == "for":
        for span in kernel.loop_steps(step):  # its i++
            update = kernel.read_update(*span, step.scope)
            if update is None or not _is_uniform_update(kernel, step, update):
                yield kernel.effects_reader.read_expression(*span, step.scope).changes
    elif step.update and _is_uniform_update(kernel, step, step.update):
        yield effects.changes - {step.update[0]}
    else:  # only some threads may do it, or each with its own values
        yield effects.changes


def _is_uniform_update(kernel: KernelPlan, step: PlanStep, update: Update) -> bool:
    """Return whether all threads that share the variable of an update do it, with the same value.

    `update` is (variable, span of the operand); `step` is the statement or loop that does it.
    """
    (variable, operand), in_warp = update, step.warp is not None
    # else each warp would update the block's variable
    is_shared_by_these = not in_warp or variable.warp is step.warp
    return is_shared_by_these and is_uniform(kernel, *operand, step.scope, warp=in_warp)


def require_uniform(kernel: KernelPlan) -> None:
    """Raise `NeedsFibers` unless all threads of a block reach each barrier, and all lanes of a warp each warp function.

    For that, the conditions around these have to be the same for all threads, or lanes. Also notes
    in `changed_uniformly` where a variable that is the same for all gets another value, and makes a
    "jump" that not all threads take a "statement", which each thread runs.
    """
    for step in kernel.steps:
        line = kernel.line(step.node.first)
        waits, group = (
            ("barrier", "threads")
            if step.warp is None
            else ("warp function", "the lanes of a warp")
        )
        reason = f"depends on values that may differ between {group}"
        if step.kind in ("loop", "if"):
            updates = [kernel.read_update(*span, step.scope) for span in kernel.loop_steps(step)]
            variables = [update[0] for update in updates if update] + [
                counter.declared for counter in step.counters
            ]
            if not _has_uniform_condition(kernel, step) or any(
                variable.role != "uniform" for variable in variables
            ):
                raise NeedsFibers(f"the {waits} in the {step.kind} of line {line} {reason}")
            if not all(updates):
                raise NeedsFibers(f"the loop around its {waits} in line {line} is not understood")
            for variable in variables[: len(updates)]:  # those of the updates come first
                variable.changed_uniformly.append(step.node.first)
        if step.kind == "jump":
            jumps = find_jumps(step.node)
            # if a single warp returns here, or in a kernel without barriers (`direct`) a group of
            # neighboring threads, the others go on
            others_go_on = "return" in jumps and (step.warp is not None or kernel.direct)
            if others_go_on or not is_jump(step.node) or not _has_uniform_condition(kernel, step):
                if jumps - {"return"}:
                    raise NeedsFibers(f"the jump of line {line}, past a {waits}, {reason}")
                # a return of some threads only: each thread does it, and is masked afterwards
                step.kind = "statement"
        if step.update and step.update[0].role == "uniform":  # [0]: the variable
            step.update[0].changed_uniformly.append(step.node.first)


def _has_uniform_condition(kernel: KernelPlan, step: PlanStep) -> bool:
    """Return whether a step's condition, if it has one, is the same for all threads that reach it together."""
    span = step.node.parts.get("condition")
    return span is None or is_uniform(kernel, *span, step.scope, warp=step.warp is not None)
