"""Small changes of the statements of a kernel, one of which may undo a slip: a barrier, a condition, a sum set again.

`change_statements` yields them with their rank: those with 0 undo the more frequent mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice, pairwise, product

from hostcuda.source import find_pairs
from labkit.exercises.differences import WORD, Difference, is_balanced
from labkit.exercises.kernel_parts import DECLARATION, DECLARED, FIRST, NAME, KernelPart
from labkit.exercises.text import find_line

_NEAR = 3  # lines before and behind a suspected one that get a barrier
_STATEMENT_END = re.compile(r"[;{}] *$", re.MULTILINE)
# a line that is one statement, and declares nothing
_STATEMENT = re.compile(
    r"^[ \t]*((?!(?:return|break|continue|else|do|const|int|unsigned|float|double|half|auto)\b)"
    r"[\w*(][^{}\n]{0,300};)[ \t]*$",
    re.MULTILINE,
)
_CONDITION = re.compile(r"\bif (?=\()")
_ZEROED = re.compile(r"(?<!\()\b(?:int|unsigned|float|double) ([^;(){}\n]{1,100}\b0(?:\.0*)?f?);")
_FILLED = re.compile(r"[\w:]*\bfill_fragment\([^;{}]{1,100}\);")
_WRITES = re.compile(r"atomic\w+\(|\*?\w+(?:\[[^\]]*\])+ *[-+*/|&^]?=(?!=)")  # to memory
_LOOP = re.compile(r"\b(?:for|while) \(")
# an element of an array in memory, whose index may have one pair of brackets in it
_INDEXED = re.compile(r"\b(\w+)\[((?:[^\[\]{};]|\[[^\[\]{};]*\]){1,200})\]")
_BOUNDED = re.compile(r"\w (?:<|>=) ([A-Za-z_]\w*)\b(?![\[(.])")
_CARRY = re.compile(r"\bif (?=\((\w+) >=? (\w+)\)\s*\{?\s*\1 -= \2\b)")
# a condition before a statement that does not leave the kernel or the loop, and has no else
_GUARD = re.compile(
    r"\bif \([^;{}\n]{1,200}\)(?=\s*(?!return|break|continue)\w[^;{}]{0,300}(?:;|\{)(?!\s*else\b))"
)
_EARLY = re.compile(r"\bif \([^;{}\n]{1,200}\)\s*(?:return;|\{\s*return;\s*\})")
_RETURN = re.compile(r"\bif \((\w+) >= (\w+)\)\s*(?:return;|\{\s*return;\s*\})")
_MOST_CONDITIONS = 6  # that a suspected statement is put under
_MOST_LOOPS = 6  # behind a declaration, at the beginning of which it is set again
_MOST_PAIRS = 24  # of an index and a bound


def change_statements(
    code: str, kernels: Sequence[KernelPart], suspects: Collection[int]
) -> Iterator[tuple[int, Difference]]:
    """Yield small changes of statements, each with its rank. Barriers and bounds are added near suspected lines."""
    yield from _drop_returns(code, kernels)
    yield from _repeat_carries(code)
    yield from _drop_guards(code, kernels)
    yield from _set_again_in_loops(code)
    yield from _set_before_loops(code)
    yield from _keep_threads(code, kernels)
    yield from _drop_conditions(code)
    yield from _add_barriers(code, suspects)
    yield from _add_conditions(code, suspects)
    yield from _add_bounds(code, kernels, suspects)
    yield from _exchange_statements(code)
    yield from _repeat_behind_loops(code)
    yield from _leave_out_statements(code)


def _drop_conditions(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield for each && and || the text without its left side, and without its right one."""
    for operator in re.finditer(r"&&|\|\|", code):
        line = find_line(code, operator.start())
        left, right = _find_sides(code, operator.start(), operator.end())
        yield 0, Difference(operator.start(), right, "", line, line)
        yield 0, Difference(left, operator.end(), "", line, line)


def _find_sides(code: str, begin: int, end: int) -> tuple[int, int]:
    """Return where the left side of the operator at `begin` begins, and where its right side ends."""
    sides = []
    for place, step, opening in ((begin - 1, -1, ")"), (end, 1, "(")):
        depth = 0
        while 0 <= place < len(code):
            sign = code[place]
            if sign in "()[]":
                depth += 1 if sign in (opening, "]" if step < 0 else "[") else -1
            if depth < 0 or (not depth and sign in "&|?:,;={}"):
                break
            place += step
        sides.append(place + 1 if step < 0 else place)
    return sides[0], sides[1]


def _add_barriers(code: str, suspects: Collection[int]) -> Iterator[tuple[int, Difference]]:
    """Yield a barrier behind each statement near the suspected lines."""
    for end in _STATEMENT_END.finditer(code):
        line = find_line(code, end.start())
        if any(abs(line - suspect) <= _NEAR for suspect in suspects):
            yield 0, Difference(end.end(), end.end(), "\n__syncthreads();", line, line)


def _add_conditions(code: str, suspects: Collection[int]) -> Iterator[tuple[int, Difference]]:
    """Yield the suspected statements under each condition that the kernel asks in another line."""
    pairs = {begin: end for begin, end, _ in find_pairs(code, "()")}
    conditions = {
        code[match.end() + 1 : pairs[match.end()]]: find_line(code, match.start())
        for match in _CONDITION.finditer(code)
        if match.end() in pairs
    }
    for statement in _STATEMENT.finditer(code):
        line, begin = find_line(code, statement.start(1)), statement.start(1)
        if line not in suspects or _LOOP.match(statement[1]):
            continue
        for condition, asked in [*conditions.items()][:_MOST_CONDITIONS]:
            if asked != line:
                phrase = f"with the condition of line {asked} before line {line}, too"
                yield 0, Difference(begin, begin, f"if ({condition}) ", line, line, phrase)


def _add_bounds(
    code: str, kernels: Sequence[KernelPart], suspects: Collection[int]
) -> Iterator[tuple[int, Difference]]:
    """Yield the suspected statements under the condition that an index is less than a parameter of the kernel."""
    for kernel in kernels:
        for statement in _STATEMENT.finditer(code, kernel.begin, kernel.end):
            line, begin = find_line(code, statement.start(1)), statement.start(1)
            if line not in suspects or _LOOP.match(statement[1]):
                continue
            indices = dict.fromkeys(index for _, index in _INDEXED.findall(statement[1]))
            names = dict.fromkeys(name for index in indices for name in NAME.findall(index))
            bounds = dict.fromkeys(_BOUNDED.findall(code, kernel.begin, kernel.end))
            # the indices with the parameters; their variables with what others are compared with
            pairs = chain(product(indices, kernel.integers), product(names, bounds))
            for index, bound in islice(pairs, _MOST_PAIRS):
                if index == bound:
                    continue
                condition = f"{index} < {bound}"
                phrase = f"with the condition `{condition}` before line {line}"
                yield 0, Difference(begin, begin, f"if ({condition}) ", line, line, phrase)


def _exchange_statements(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each two statements in neighboring lines the other way round."""
    statements = [*_STATEMENT.finditer(code)]
    for one, other in pairwise(statements):
        first, last = find_line(code, one.start(1)), find_line(code, other.start(1))
        if last == first + 1 and one[1] != other[1]:
            between = code[one.end(1) : other.start(1)]
            phrase = f"with lines {first} and {last} the other way round"
            right = f"{other[1]}{between}{one[1]}"
            yield 2, Difference(one.start(1), other.end(1), right, first, last, phrase)


def _list_loops(code: str) -> Iterator[tuple[int, int, int]]:
    """Yield the positions of each loop whose body is in braces: of its head, and of the two braces."""
    heads = {begin: end for begin, end, _ in find_pairs(code, "()")}
    bodies = {begin: end for begin, end, _ in find_pairs(code, "{}")}
    for loop in _LOOP.finditer(code):
        head = heads.get(loop.end() - 1, len(code))
        begin = code.find("{", head)
        if begin in bodies and not code[head + 1 : begin].strip():
            yield loop.start(), begin, bodies[begin]


def _repeat_behind_loops(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each statement of a loop that writes to memory, with its condition, once more behind the loop."""
    for start, begin, end in _list_loops(code):
        declared = {
            name
            for each in DECLARATION.finditer(code, start, end)
            for name in DECLARED.findall(each[1])
        }
        for statement in _STATEMENT.finditer(code, begin, end):
            line, text = find_line(code, statement.start(1)), statement[1]
            head = code[: statement.start()].rstrip()
            before = head.rpartition("\n")[2].strip()
            lines = f"line {line}"
            if before.startswith("if (") and before.endswith(")"):
                text, lines = f"{before} {text}", f"lines {find_line(code, len(head))} and {line}"
            if not _WRITES.match(statement[1]) or declared & {*WORD.findall(text)}:
                continue
            last = find_line(code, end)
            phrase = f"with {lines} once more behind line {last}"
            yield 2, Difference(end + 1, end + 1, f"\n{text}", last, last, phrase)


def _leave_out_statements(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield the kernel without each of its statements that has a line of its own."""
    for statement in _STATEMENT.finditer(code):
        line = find_line(code, statement.start(1))
        # under an if of the line before, nothing would be left
        if not code[: statement.start()].rstrip().endswith((")", "else")):
            yield 3, Difference(statement.start(1), statement.end(1), "", line, line)


def _set_again_in_loops(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield what is set to 0 before a loop, by a declaration or in a fragment, set again at the loop's beginning."""
    loops = [*_list_loops(code)]
    # (where it is set, [(statement that sets it again, its words in the phrase)])
    settings = [
        (
            declaration.end(),
            [
                (f"{name} = 0;", f"`{name} = 0;`")
                for name in re.findall(r"(\w+) = 0(?:\.0*)?f?(?=[,;])", f"{declaration[1]};")
            ],
        )
        for declaration in _ZEROED.finditer(code)
    ]
    settings += [
        (fill.end(), [(fill[0], f"line {find_line(code, fill.start())} again")])
        for fill in _FILLED.finditer(code)
    ]
    for end, statements in settings:
        behind = [loop for loop in loops if loop[0] >= end]
        for start, begin, _ in behind[:_MOST_LOOPS]:
            line = find_line(code, start)
            for statement, words in statements:
                phrase = f"with {words} at the beginning of the loop in line {line}"
                yield FIRST, Difference(begin + 1, begin + 1, f" {statement}", line, line, phrase)


def _set_before_loops(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield variables that the first statement of a loop's body declares with 0, declared before the loop."""
    for start, begin, _ in _list_loops(code):
        declaration = _ZEROED.match(
            code, begin + 1 + len(code[begin + 1 :]) - len(code[begin + 1 :].lstrip())
        )
        if declaration:
            line = find_line(code, declaration.start())
            right = f"{declaration[0]} {code[start : begin + 1]}"
            phrase = f"with `{declaration[0]}` before the loop in line {find_line(code, start)}"
            yield (
                0,
                Difference(start, declaration.end(), right, find_line(code, start), line, phrase),
            )


def _keep_threads(code: str, kernels: Sequence[KernelPart]) -> Iterator[tuple[int, Difference]]:
    """Yield each early return of threads without an element as a condition at each use of the element.

    ``if (i >= n) return;`` goes; x[i] is read as x[i < n ? i : 0], and written under ``if (i < n)``. So
    these threads, too, fill shared memory for the others and come to each barrier.
    """
    if "__shared__" not in code:
        return
    for kernel in kernels:
        for match in _RETURN.finditer(code, kernel.begin, kernel.end):
            index, bound = match.groups()
            line, rest = find_line(code, match.start()), code[match.end() : kernel.end]
            assigned = rf"\[{index}\]\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)"
            rest = re.sub(
                rf"^([ \t]*)(?=\w+{assigned})", rf"\1if ({index} < {bound}) ", rest, flags=re.M
            )
            rest = re.sub(
                rf"(?!{assigned})\[{index}\](?!\s*(?:\+\+|--))",
                f"[{index} < {bound} ? {index} : 0]",
                rest,
            )
            phrase = (
                f"with `{index} < {bound}` asked where element `{index}` is read or written, in place of the return "
                f"in line {line}"
            )
            yield 0, Difference(match.start(), kernel.end, rest, line, line, phrase)


def _drop_returns(code: str, kernels: Sequence[KernelPart]) -> Iterator[tuple[int, Difference]]:
    """Yield the kernel without each of its early returns: threads may miss work that other threads need."""
    for kernel in kernels:
        for match in _EARLY.finditer(code, kernel.begin, kernel.end):
            line, last = find_line(code, match.start()), find_line(code, match.end())
            yield FIRST, Difference(match.start(), match.end(), "", line, last)


def _drop_guards(code: str, kernels: Sequence[KernelPart]) -> Iterator[tuple[int, Difference]]:
    """Yield the kernel without each condition before a statement: threads may miss work that others need."""
    for kernel in kernels:
        for match in _GUARD.finditer(code, kernel.begin, kernel.end):
            if is_balanced(match[0]):
                line = find_line(code, match.start())
                yield 1, Difference(match.start(), match.end(), "", line, line)


def _repeat_carries(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each ``if (p >= K) p -= K;`` as a loop: once may not be enough."""
    for match in _CARRY.finditer(code):
        line = find_line(code, match.start())
        phrase = f"with `while` in place of `if` in line {line}"
        yield 0, Difference(match.start(), match.start() + 2, "while", line, line, phrase)
