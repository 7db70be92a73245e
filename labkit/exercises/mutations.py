"""Small changes of a kernel, one of which may undo a slip: another comparison, a number more, a barrier.

They need no solution: a run shows which of them makes a wrong kernel right.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, pairwise, product
from typing import NamedTuple

from hostcuda.source import code_only, find_pairs, split_spans
from labkit.exercises.differences import WORD, Difference, apply, is_balanced
from labkit.exercises.text import find_line

_WARP = 32  # lanes: a number that is written for others, and others for it
_FIRST = -1  # rank of a change that comes first also if it is in no suspected line
_MOST = 160  # changes of a text that are listed
_NEAR = 3  # lines before and behind a suspected one that get a barrier
_LARGEST = 1024  # number that gets a neighbor, its double and its half
# what a word is mistaken for
_OTHERS = {
    "<": ["<="],
    "<=": ["<"],
    ">": [">="],
    ">=": [">"],
    "==": ["!="],
    "!=": ["=="],
    "&&": ["||"],
    "||": ["&&"],
    "/": ["%"],
    "%": ["/"],
    "+=": ["="],
    "signed": ["unsigned"],
    "char": ["unsigned char"],
    "__shfl_down_sync": ["__shfl_xor_sync"],  # gives the sum to all lanes
}
# names that are exchanged easily
_NAMES = {
    "h": ["w"],
    "w": ["h"],
    "H": ["Ho", "W"],
    "W": ["Wo", "H"],
    "Ho": ["H", "Wo"],
    "Wo": ["W", "Ho"],
    "p": ["q"],
    "q": ["p"],
    "row": ["column"],
    "column": ["row"],
    "rows": ["columns"],
    "columns": ["rows"],
    "gridDim": ["blockDim"],
    "blockDim": ["gridDim"],
    "M": ["C"],
    "C": ["M"],
}
# "const int tx = threadIdx.x, ty = threadIdx.y;"
_DECLARATION = re.compile(r"\b(?:int|unsigned|float|half|size_t) (\w+ = [^;{}]{0,300});")
_DECLARED = re.compile(r"(?:^|, *)(\w+) = ")
_TYPES = {"int", "unsigned", "float", "double", "half", "const"}  # before a name: it is declared
_INDICES = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
_STATEMENT_END = re.compile(r"[;{}] *$", re.MULTILINE)
# a line that is one statement, and declares nothing
_STATEMENT = re.compile(
    r"^[ \t]*((?!(?:return|break|continue|else|do|const|int|unsigned|float|double|half|auto)\b)"
    r"[\w*(][^{}\n]{0,300};)[ \t]*$",
    re.MULTILINE,
)
_CONDITION = re.compile(r"\bif (?=\()")
# "> rows || c >": the comparison, what is between, and the comparison again
_TWICE = re.compile(
    r"(?<![<>=\-])([<>]=?)(?![<>=])([^<>;{}\n]{1,200}(?:\|\||&&)[^<>;{}\n]{1,100})(\1)(?![<>=])"
)
_ZEROED = re.compile(r"(?<!\()\b(?:int|unsigned|float|double) ([^;(){}\n]{1,100}\b0(?:\.0*)?f?);")
_WRITES = re.compile(r"atomic\w+\(|\*?\w+(?:\[[^\]]*\])+ *[-+*/|&^]?=(?!=)")  # to memory
_LOOP = re.compile(r"\b(?:for|while) \(")
_ELEMENT = re.compile(r"(\w+)\[(\d)\] = ([^;{}\n]{1,200});")
_INITIALIZER = re.compile(r"= \{([^{};]{1,600})\};")
# an element of an array in memory, whose index may have one pair of brackets in it
_INDEXED = re.compile(r"\b(\w+)\[((?:[^\[\]{};]|\[[^\[\]{};]*\]){1,200})\]")
# "/ 2" and "% 2" in one line, in either order
_QUOTIENT = re.compile(r"(?<![/*])([/%])(?![/*=])")
_BLOCKS = {"32", "64", "128", "256"}  # a number of threads, in place of blockDim.x
_KERNEL = re.compile(r"\b__global__\s+(?:void\s+)?\w+\s*\(")
_INTEGERS = re.compile(r"\b(?:int|unsigned|size_t) (\w+)\s*(?:,|$)")
_FACTOR = re.compile(r"(?<=\* )\d+\b(?!\.)")
# "if (i >= n) return;"
_NAME = re.compile(r"\b[A-Za-z_]\w*\b(?!\.)")
_BOUNDED = re.compile(r"\w (?:<|>=) ([A-Za-z_]\w*)\b(?![\[(.])")
# "ROWS + 8"
_TERM = re.compile(r"\b([A-Za-z_]\w*) ([+-]) (\d{1,4})\b")
# a call whose arguments have no further brackets than an index
# "m * Ho + " in an index
_SUMMAND = re.compile(r"(?<=[\[(])[\w.]+(?: \* [\w.]+)* \+ (?=[\w(])")
_CALL = re.compile(r"\b([A-Za-z_]\w*)\(((?:[^()\[\];{}\n]|\[[^\[\]\n]{0,100}\]){3,200})\)")
_COPIES = re.compile(r"\bfor \((auto )(?=\w+ :)")
_CARRY = re.compile(r"\bif (?=\((\w+) >=? (\w+)\)\s*\{?\s*\1 -= \2\b)")
# "float top = 0;"
_START = re.compile(r"\b(?:float|double) (\w+) = (0(?:\.0*)?f?)(?=[,;])")
# "Ho * Wo": the pixels of an output, and of an input
_SIZES = re.compile(r"\b(?:Ho \* Wo|H \* W)\b")
_ROUNDS_UP = re.compile(
    r"- ?1\) ?/"
)  # without it, "(n + 31) / 32" is too large, which may do no harm
_ROUNDED = re.compile(r"\b([A-Za-z_]\w*) / (\d+|[A-Za-z_]\w*)(?=[,;)])")
# a condition before a statement that does not leave the kernel or the loop, and has no else
_GUARD = re.compile(
    r"\bif \([^;{}\n]{1,200}\)(?=\s*(?!return|break|continue)\w[^;{}]{0,300}(?:;|\{)(?!\s*else\b))"
)
_EARLY = re.compile(r"\bif \([^;{}\n]{1,200}\)\s*(?:return;|\{\s*return;\s*\})")
_RETURN = re.compile(r"\bif \((\w+) >= (\w+)\)\s*(?:return;|\{\s*return;\s*\})")
_MOST_CONDITIONS = 6  # that a suspected statement is put under
_MOST_EXCHANGED = 3  # parameters that stand for each other
_MOST_FACTORS = 4  # numbers in a line of which one is replaced
_MOST_LOOPS = 6  # behind a declaration, at the beginning of which it is set again
_MOST_BOUNDS = 4  # parameters with which an index is compared
_MOST_PAIRS = 24  # of an index and a bound
_MOST_ELEMENTS = 6  # of a list whose elements are exchanged


def list_mutations(
    source: str, suspects: Collection[int] = (), solution: str = ""
) -> list[Difference]:
    """Return small changes of a wrong kernel, to be tried one by one: one that helps tells where the mistake is.

    Those in suspected lines come first, then those in lines that the solution does not have, then those
    that undo the more frequent mistakes.

    Parameters
    ----------
    source : str
    suspects : collection of int
        The numbers of the lines that a finding names. Barriers are added near them alone.
    solution : str
        The text of right code.
    """
    code = code_only(source)
    kernels = _list_kernels(code)
    begin = code.find("{", max(code.find("__global__"), 0))  # of the first kernel's body
    found = [
        *_drop_returns(code, kernels),
        *_repeat_carries(code),
        *_refer_to_elements(code),
        *_replace_starts(code),
        *_exchange_sizes(code),
        *_round_up(code),
        *_drop_guards(code, kernels),
        *_set_again_in_loops(code),
        *_set_before_loops(code),
        *_keep_threads(code, kernels),
        *_replace_factors(code, kernels),
        *_exchange_words(code, kernels),
        *_exchange_names(code, kernels),
        *_exchange_twice(code),
        *_exchange_quotients(code),
        *_drop_conditions(code),
        *_add_barriers(code, suspects),
        *_add_conditions(code, suspects),
        *_add_bounds(code, kernels, suspects),
        *_exchange_statements(code),
        *_exchange_arguments(code),
        *_repeat_terms(code),
        *_drop_terms(code),
        *_exchange_elements(code),
        *_repeat_behind_loops(code),
        *_shift_indices(code),
        *_leave_out_statements(code),
    ]
    right = {tuple(WORD.findall(line)) for line in code_only(solution).split("\n")}
    own = {  # the numbers of the lines that the solution does not have
        number
        for number, line in enumerate(code.split("\n"), 1)
        if tuple(WORD.findall(line)) not in right
    }
    # (rank, 0 is the likeliest; change). Left out are changes before the first kernel's body, and of a
    # string: `code`, from which they are made, does not have it.
    ranked = [
        (rank, change)
        for rank, change in found
        if change.begin > begin and '"' not in source[change.begin : change.end]
    ]
    # suspected lines first, then those that set what these use
    setting = _find_setting_lines(code, suspects)
    ranked.sort(
        key=lambda each: (
            each[0] != _FIRST,
            each[1].first not in suspects,
            each[1].first not in own & setting,
            each[1].first not in own,
            each[1].first not in setting,
            each[0],
        )
    )
    by_text: dict[str, Difference] = {}  # each text once
    for _, change in ranked:
        if len(by_text) < _MOST and (text := apply(source, [change])) != source:
            by_text.setdefault(text, change)
    return [*by_text.values()]


def _find_setting_lines(code: str, suspects: Collection[int]) -> set[int]:
    """Return the numbers of the lines that set a variable which a suspected line uses."""
    lines = code.split("\n")
    used = {
        word
        for number in suspects
        if 0 < number <= len(lines)
        for word in WORD.findall(lines[number - 1])
    }
    return {
        number
        for number, line in enumerate(lines, 1)
        if used & {*re.findall(r"\b(\w+) [-+*/]?=(?!=)", line)}
    }


def _exchange_words(code: str, kernels: Sequence[_KernelPart]) -> Iterator[tuple[int, Difference]]:
    """Yield changes of a word or two, each with its rank: comparisons have 0, numbers 3."""
    matches = [*WORD.finditer(code)]
    words = ["", "", *(match[0] for match in matches), "", ""]
    names = _list_siblings(code, kernels)
    for place, match in enumerate(matches):
        line = find_line(code, match.start())
        if _ROUNDS_UP.match(code, match.start()):
            continue
        for rank, right, count in _list_others(words, place + 2, names):
            end = matches[place + count - 1].end()
            yield rank, Difference(match.start(), end, right, line, line)


def _list_siblings(code: str, kernels: Sequence[_KernelPart]) -> dict[str, list[str]]:
    """Return the names that each name is easily taken for: those that are declared together with it, and usual ones."""
    names = {name: [*others] for name, others in _NAMES.items()}
    for declaration in _DECLARATION.finditer(code):
        siblings = _DECLARED.findall(declaration[1])
        for name in siblings:
            names[name] = [*names.get(name, []), *(each for each in siblings if each != name)]
    for kernel in kernels:
        if len(kernel.integers) <= _MOST_EXCHANGED:  # one is easily taken for another
            for name in kernel.integers:
                others = (each for each in kernel.integers if each != name)
                names[name] = [*names.get(name, []), *others]
    return names


def _exchange_names(code: str, kernels: Sequence[_KernelPart]) -> Iterator[tuple[int, Difference]]:
    """Yield each line with two names exchanged that are easily taken for each other, and stand in it once each."""
    names = _list_siblings(code, kernels)
    for start, number, line in _list_lines(code, 0, len(code)):
        places: dict[str, list[re.Match]] = {}
        for match in _NAME.finditer(line):
            places.setdefault(match[0], []).append(match)
        for one, other in combinations(places, 2):
            if other not in names.get(one, ()) or len(places[one]) + len(places[other]) > 2:
                continue
            first, second = places[one][0], places[other][0]
            right = f"{other}{line[first.end() : second.start()]}{one}"
            phrase = f"with `{one}` and `{other}` exchanged in line {number}"
            begin, end = start + first.start(), start + second.end()
            yield 1, Difference(begin, end, right, number, number, phrase)


def _exchange_twice(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield a comparison that stands twice in a line, as in ``r > rows || c > columns``, changed at both places."""
    for match in _TWICE.finditer(code):
        other = _OTHERS[match[1]][0]
        line = find_line(code, match.start())
        yield 0, Difference(match.start(1), match.end(3), f"{other}{match[2]}{other}", line, line)


def _exchange_quotients(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each line that has one ``/`` and one ``%`` with the two exchanged."""
    for start, number, line in _list_lines(code, 0, len(code)):
        signs = [*_QUOTIENT.finditer(line)]
        if sorted(sign[1] for sign in signs) == ["%", "/"]:
            (one, other), between = signs, line[signs[0].end() : signs[1].start()]
            right = f"{other[1]}{between}{one[1]}"
            phrase = f"with `/` and `%` exchanged in line {number}"
            begin, end = start + one.start(), start + other.end()
            yield 1, Difference(begin, end, right, number, number, phrase)


def _list_others(
    words: Sequence[str], place: int, names: Mapping[str, Sequence[str]]
) -> Iterator[tuple[int, str, int]]:
    """Yield what may belong in place of a word: (rank, text, number of words that it replaces)."""
    before_last, before, word, behind, second = words[place - 2 : place + 3]
    if word == "/" and re.fullmatch(r"\w+", behind) and second not in (".", "%", "[", "(", "->"):
        yield 1, f"/ {behind} % {behind}", 2
    if before == "+" and word.isidentifier() and behind not in (*"*/%([.", "->"):
        yield 3, f"2 * {word}", 1
    if behind == "+" and word.isidentifier() and before in (*"[(=,",):
        yield 1 if second == "2" else 3, f"2 * {word}", 1
    if word in ("+", "-") and re.fullmatch(r"[\w)\]]+", before) and behind != "1":
        yield 3, "-" if word == "+" else "+", 1
    if before == "*" and word.isidentifier() and behind in (*")];,", "+"):
        yield 3, f"{word} * {_WARP}", 1
    if word in _OTHERS:
        for other in _OTHERS[word]:
            yield 0, other, 1
    # not to an element: one of a local array may have no value yet
    elif word == "=" and before_last not in _TYPES and before not in (",", "]"):
        yield 1, "+=", 1
    elif word in ("x", "y") and before == "." and before_last in _INDICES:
        yield 1, "y" if word == "x" else "x", 1
    elif word in names and before not in (".", "->", *_TYPES) and behind != "=":
        for other in names[word]:
            if other in words:
                yield 1, other, 1
    elif word in ("+", "-") and behind == "1" and second != "." and before not in ("=", "(", ","):
        yield 2, "", 2
    elif word.isdigit() and int(word) <= _LARGEST and "." not in (before, behind):
        if word in _BLOCKS:
            yield 1, "blockDim.x", 1
            yield 1, "blockDim.x / 2", 1
        others = {2 * int(word), int(word) // 2, int(word) + 1, int(word) - 1, _WARP}
        for number in others - {int(word)} if int(word) > 3 else others - {int(word), _WARP}:
            # how many copies may still be under way is easily wrong by one
            yield _FIRST if before_last == "__pipeline_wait_prior" else 3, str(number), 1


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
    code: str, kernels: Sequence[_KernelPart], suspects: Collection[int]
) -> Iterator[tuple[int, Difference]]:
    """Yield the suspected statements under the condition that an index is less than a parameter of the kernel."""
    for kernel in kernels:
        for statement in _STATEMENT.finditer(code, kernel.begin, kernel.end):
            line, begin = find_line(code, statement.start(1)), statement.start(1)
            if line not in suspects or _LOOP.match(statement[1]):
                continue
            indices = dict.fromkeys(index for _, index in _INDEXED.findall(statement[1]))
            names = dict.fromkeys(name for index in indices for name in _NAME.findall(index))
            bounds = dict.fromkeys(_BOUNDED.findall(code, kernel.begin, kernel.end))
            pairs = [
                *product(indices, kernel.integers),
                # a variable of the index and what another one is compared with
                *((name, bound) for name, bound in product(names, bounds) if name != bound),
            ]
            for index, bound in pairs[:_MOST_PAIRS]:
                condition = f"{index} < {bound}"
                phrase = f"with the condition `{condition}` before line {line}"
                yield 0, Difference(begin, begin, f"if ({condition}) ", line, line, phrase)


class _KernelPart(NamedTuple):
    """A kernel in the code: the positions of its body's braces, and the names of its first integer parameters."""

    begin: int
    end: int
    integers: Sequence[str]


def _list_kernels(code: str) -> list[_KernelPart]:
    """Return the kernels that are defined in the code."""
    heads = {begin: end for begin, end, _ in find_pairs(code, "()")}
    bodies = {begin: end for begin, end, _ in find_pairs(code, "{}")}
    found = []
    for match in _KERNEL.finditer(code):
        opening = match.end() - 1
        begin = code.find("{", heads.get(opening, len(code)))
        if begin in bodies and not code[heads[opening] + 1 : begin].strip():
            integers = _INTEGERS.findall(code[opening + 1 : heads[opening]])[:_MOST_BOUNDS]
            found.append(_KernelPart(begin, bodies[begin], integers))
    return found


def _replace_factors(code: str, kernels: Sequence[_KernelPart]) -> Iterator[tuple[int, Difference]]:
    """Yield each line in which a number is a factor, ``* 8``, with a parameter or half of it in place of the number.

    The number is replaced at all places of the line where it is a factor.
    """
    for kernel in kernels:
        for start, number, line in _list_lines(code, kernel.begin, kernel.end):
            factors = _FACTOR.findall(line)
            if len(factors) > _MOST_FACTORS:
                continue
            for factor, name in product(dict.fromkeys(factors), kernel.integers):
                for right in (name, f"{name} / 2"):
                    text = re.sub(rf"(?<=\* ){factor}\b(?!\.)", right, line)
                    phrase = f"with `* {right}` in place of `* {factor}` in line {number}"
                    yield 2, Difference(start, start + len(line), text, number, number, phrase)


def _list_lines(code: str, begin: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield the position, the number and the text of each line of code[begin:end]."""
    start, number = begin, find_line(code, begin)
    for line in code[begin:end].split("\n"):
        yield start, number, line
        start, number = start + len(line) + 1, number + 1


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


def _exchange_elements(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield two elements of an array with each other's values: of ``= {p, q}``, or of ``a[0] = p; a[1] = q;``."""
    for match in _INITIALIZER.finditer(code):
        elements = [match[1][slice(*span)] for span in split_spans(match[1], ",")]
        line, last = find_line(code, match.start(1)), find_line(code, match.end(1))
        if len(elements) > _MOST_ELEMENTS:
            continue
        for one, other in combinations(range(len(elements)), 2):
            right = elements.copy()
            right[one], right[other] = elements[other], elements[one]
            phrase = f"with elements {one} and {other} of the list in line {line} exchanged"
            yield 2, Difference(match.start(1), match.end(1), ",".join(right), line, last, phrase)
    assignments = [*_ELEMENT.finditer(code)]
    for place, one in enumerate(assignments):
        for other in assignments[place + 1 : place + _MOST_ELEMENTS]:
            if one[1] != other[1] or one[3] == other[3]:
                continue
            first, last = find_line(code, one.start()), find_line(code, other.start())
            between = code[one.end(3) : other.start(3)]
            phrase = f"with the values of `{one[1]}[{one[2]}]` and `{one[1]}[{other[2]}]` exchanged"
            right = f"{other[3]}{between}{one[3]}"
            yield 2, Difference(one.start(3), other.end(3), right, first, last, phrase)


def _exchange_arguments(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each two neighboring arguments of a call, as in ``make_half2(low, high)``, exchanged."""
    for match in _CALL.finditer(code):
        arguments = [match[2][slice(*span)].strip() for span in split_spans(match[2], ",")]
        line = find_line(code, match.start())
        if match[1] in ("if", "for", "while") or not 2 <= len(arguments) <= _MOST_ELEMENTS:
            continue
        for place, (one, other) in enumerate(pairwise(arguments)):
            if one != other:
                right = ", ".join([*arguments[:place], other, one, *arguments[place + 2 :]])
                phrase = f"with arguments {place + 1} and {place + 2} of `{match[1]}` in line {line} exchanged"
                yield 3, Difference(match.start(2), match.end(2), right, line, line, phrase)


def _repeat_terms(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each use of a name to which a number is added elsewhere, as in ``ROWS + 8``, with this number added."""
    added = {match[1]: match[0] for match in _TERM.finditer(code)}
    for match in _NAME.finditer(code):
        name, line = match[0], find_line(code, match.start())
        is_declared = code.startswith(" = ", match.end())
        if name in added and not is_declared and not code.startswith(added[name], match.start()):
            phrase = f"with `{added[name]}` in place of `{name}` in line {line}"
            right = f"({added[name]})"
            yield 1, Difference(match.start(), match.end(), right, line, line, phrase)


def _refer_to_elements(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each loop ``for (auto each : sums)`` over copies of elements with references to them."""
    for match in _COPIES.finditer(code):
        line = find_line(code, match.start())
        phrase = f"with `auto &` in place of `auto`, which copies each element, in line {line}"
        yield 0, Difference(match.start(1), match.end(1), "auto &", line, line, phrase)


def _replace_starts(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each largest or smallest number that begins with 0, beginning with an infinity."""
    for match in _START.finditer(code):
        name, line = match[1], find_line(code, match.start())
        for kind, infinity in (("max", "-INFINITY"), ("min", "INFINITY")):
            if re.search(rf"\b{name} = f?{kind}f?\(", code):
                phrase = f"with `{name} = {infinity}` in place of 0 in line {line}"
                yield 0, Difference(match.start(2), match.end(2), infinity, line, line, phrase)


def _exchange_sizes(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each ``Ho * Wo`` with ``H * W`` in its place, and the other way round."""
    for match in _SIZES.finditer(code):
        line, right = find_line(code, match.start()), "H * W" if "o" in match[0] else "Ho * Wo"
        phrase = f"with `{right}` in place of `{match[0]}` in line {line}"
        yield 0, Difference(match.start(), match.end(), right, line, line, phrase)


def _round_up(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each quotient that stands alone, as in ``tiles = n / 96``, rounded up."""
    for match in _ROUNDED.finditer(code):
        line = find_line(code, match.start())
        phrase = f"with the quotient `{match[0]}` in line {line} rounded up"
        right = f"({match[1]} + {match[2]} - 1) / {match[2]}"
        yield 1, Difference(match.start(), match.end(), right, line, line, phrase)


def _drop_guards(code: str, kernels: Sequence[_KernelPart]) -> Iterator[tuple[int, Difference]]:
    """Yield the kernel without each condition before a statement: threads may miss work that others need."""
    for kernel in kernels:
        for match in _GUARD.finditer(code, kernel.begin, kernel.end):
            if is_balanced(match[0]):
                line = find_line(code, match.start())
                yield 1, Difference(match.start(), match.end(), "", line, line)


def _drop_terms(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each sum in brackets without its first term: it may be in a pointer or a variable already."""
    for match in _SUMMAND.finditer(code):
        line = find_line(code, match.start())
        yield 2, Difference(match.start(), match.end(), "", line, line)


def _repeat_carries(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each ``if (p >= K) p -= K;`` as a loop: once may not be enough."""
    for match in _CARRY.finditer(code):
        line = find_line(code, match.start())
        phrase = f"with `while` in place of `if` in line {line}"
        yield 0, Difference(match.start(), match.start() + 2, "while", line, line, phrase)


def _drop_returns(code: str, kernels: Sequence[_KernelPart]) -> Iterator[tuple[int, Difference]]:
    """Yield the kernel without each of its early returns: threads may miss work that other threads need."""
    for kernel in kernels:
        for match in _EARLY.finditer(code, kernel.begin, kernel.end):
            line, last = find_line(code, match.start()), find_line(code, match.end())
            yield _FIRST, Difference(match.start(), match.end(), "", line, last)


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
            for each in _DECLARATION.finditer(code, start, end)
            for name in _DECLARED.findall(each[1])
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


def _shift_indices(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each index of an array, and each bound of a loop, one further and one less far."""
    for match in re.finditer(
        r"(?<=\w)\[([^\[\]\n]{1,100})\]|(?<=<) ([^<>=;()\n]{1,60})(?=;)", code
    ):
        end = match.end(1) if match[1] else match.end(2)
        line = find_line(code, end)
        for step in (" + 1", " - 1"):
            yield 3, Difference(end, end, step, line, line)


def _leave_out_statements(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield the kernel without each of its statements that has a line of its own."""
    for statement in _STATEMENT.finditer(code):
        line = find_line(code, statement.start(1))
        # under an if of the line before, nothing would be left
        if not code[: statement.start()].rstrip().endswith((")", "else")):
            yield 3, Difference(statement.start(1), statement.end(1), "", line, line)


def _set_again_in_loops(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield variables that a declaration before a loop sets to 0, set to 0 again at the beginning of the loop."""
    loops = [*_list_loops(code)]
    for declaration in _ZEROED.finditer(code):
        names = re.findall(r"(\w+) = 0(?:\.0*)?f?(?=[,;])", f"{declaration[1]};")
        behind = [loop for loop in loops if loop[0] >= declaration.end()]
        for start, begin, _ in behind[:_MOST_LOOPS]:
            line = find_line(code, start)
            for name in names:
                phrase = f"with `{name} = 0;` at the beginning of the loop in line {line}"
                yield 0, Difference(begin + 1, begin + 1, f" {name} = 0;", line, line, phrase)


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


def _keep_threads(code: str, kernels: Sequence[_KernelPart]) -> Iterator[tuple[int, Difference]]:
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
