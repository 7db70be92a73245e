"""Small changes of the words of a kernel, one of which may undo a slip: another comparison, name, number or term.

`change_words` yields them with their rank: those with 0 undo the more frequent mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, pairwise, product

from hostcuda.source import split_spans
from labkit.exercises.differences import WORD, Difference
from labkit.exercises.kernel_parts import DECLARATION, DECLARED, FIRST, NAME, KernelPart
from labkit.exercises.text import find_line

_WARP = 32  # lanes: a number that is written for others, and others for it
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
    "__shfl_up_sync": ["__shfl_down_sync"],
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
_TYPES = {"int", "unsigned", "float", "double", "half", "const"}  # before a name: it is declared
# "> rows || c >": the comparison, what is between, and the comparison again
_TWICE = re.compile(
    r"(?<![<>=\-])([<>]=?)(?![<>=])([^<>;{}\n]{1,200}(?:\|\||&&)[^<>;{}\n]{1,100})(\1)(?![<>=])"
)
_ELEMENT = re.compile(r"(\w+)\[(\d)\] = ([^;{}\n]{1,200});")
_INITIALIZER = re.compile(r"= \{([^{};]{1,600})\};")
# "/ 2" and "% 2" in one line, in either order
_QUOTIENT = re.compile(r"(?<![/*])([/%])(?![/*=])")
# "n / C1, w = n % K": the number that is divided, and the two numbers that divide it
_DIVIDED = re.compile(r"\b(\w+) / (\w+)([^{}]{1,100}?)\b\1 % (\w+)")
# "half * C * K", where K * K may be meant
_WIDTH = re.compile(r"(?<!\bK \* )(?<=[\w)] \* )K\b(?! \*|\w)")
# "min(96, n)" behind "for (int tile = 0;"
_MINIMUM = re.compile(r"\bmin\((?:(\d+|[A-Z]\w*), (\w+)|(\w+), (\d+|[A-Z]\w*))\)")
_COUNTED = re.compile(r"\bfor \((?:int|unsigned) (\w+) = [^;{}\n]{1,60};")
# "gridDim.x * gridDim.y * blockDim.x"
_EXTENTS = re.compile(r"\b(?:grid|block)Dim\.[xyz](?: \* (?:grid|block)Dim\.[xyz])+")
# "outputs = n - 95" and "first = 2 * m"
_DERIVED = re.compile(r"\b(\w+) = (?:(?:\d+ \* )([A-Za-z_]\w*)|([A-Za-z_]\w*) [-+*/] \w+) *[,;]")
# "window += ROWS * PITCH", "window + c * ROWS * PITCH": how far a pointer goes
_STRIDE = re.compile(r"(?:(?<=\+= )|(?<=\+ ))(?:\w+ \* )+\w+(?=[;,)])")
_BLOCKS = {"32", "64", "128", "256"}  # a number of threads, in place of blockDim.x
_TWIN = re.compile(r"\b(\w+_)([ab])\b")  # "of_a"
_FACTOR = re.compile(r"(?<=\* )\d+\b(?!\.)")
# "ROWS + 8"
_TERM = re.compile(r"\b([A-Za-z_]\w*) ([+-]) (\d{1,4})\b")
# "m * Ho + " in an index
_SUMMAND = re.compile(r"(?<=[\[(])[\w.]+(?: \* [\w.]+)* \+ (?=[\w(])")
# a call whose arguments have no further brackets than an index
_CALL = re.compile(r"\b([A-Za-z_]\w*)\(((?:[^()\[\];{}\n]|\[[^\[\]\n]{0,100}\]){3,200})\)")
_COPIES = re.compile(r"\bfor \((auto )(?=\w+ :)")
_THREAD = re.compile(r"\b(\w+) = threadIdx\.x\b(?! *[-+*/%&|^>])")
_THREAD_Y = re.compile(r"\b(\w+) = threadIdx\.y\b(?! *[-+*/%&|^>])")
# "float top = 0;", and what stands in for a number beyond the end: "i < n ? x[i] : 0"
_START = re.compile(
    r"(?:\b(?:float|double) (?P<name>\w+) =|\?[^?:;{}]{1,100} :) (?P<zero>0(?:\.0*)?f?)(?=[,;)])"
)
# "Ho * Wo": the pixels of an output, and of an input; "K * K" may lack a factor before it
_SIZES = {"Ho * Wo": "H * W", "H * W": "Ho * Wo", "K * K": "C * K * K"}
_SIZE = re.compile(r"\b(?:Ho \* Wo|H \* W|(?<!\bC \* )K \* K)\b")
# What is not tried, because it may do no harm where it is wrong: "(n + b - 1) / b" without the - 1, and "<=" in a
# loop whose step doubles, which makes an iteration more that adds nothing.
_ROUNDS_UP = re.compile(r"\+ ?([\w.]+) ?(-) ?1\) ?/ ?\1\b")
_DOUBLES = re.compile(r"<(?= ?[\w.]+; ?\w+ (?:\*= 2|<<= 1)\))")
_ROUNDED = re.compile(r"\b([A-Za-z_][\w.]*) / (\d+|[A-Za-z_]\w*)(?=[,;)])")
_MOST_LOOPS = 3  # before a minimum, whose counters may belong in it
_MOST_EXCHANGED = 3  # parameters that stand for each other
_MOST_FACTORS = 4  # numbers in a line of which one is replaced
_MOST_DECLARATIONS = 100  # of several names each
_MOST_STARTS = 16  # numbers that begin with 0
_LONGEST = 200  # line in which names are exchanged
_MOST_ELEMENTS = 6  # of a list whose elements are exchanged


def change_words(code: str, kernels: Sequence[KernelPart]) -> Iterator[tuple[int, Difference]]:
    """Yield small changes within a line, each with its rank."""
    yield from _refer_to_elements(code)
    yield from _replace_starts(code)
    yield from _exchange_sizes(code)
    yield from _round_up(code)
    yield from _replace_factors(code, kernels)
    siblings = _list_siblings(code)
    yield from _exchange_words(code, kernels, siblings)
    yield from _exchange_names(code, siblings)
    yield from _replace_twins(code, kernels)
    yield from _exchange_twice(code)
    yield from _exchange_quotients(code)
    yield from _equate_divisors(code)
    yield from _square_widths(code)
    yield from _take_rest(code)
    yield from _drop_extents(code)
    yield from _halve_strides(code)
    yield from _exchange_arguments(code)
    yield from _repeat_terms(code)
    yield from _drop_terms(code)
    yield from _exchange_elements(code)
    yield from _shift_indices(code)


def _list_code_lines(code: str, begin: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield the position, the number and the text of each line of code[begin:end]."""
    start, number = begin, find_line(code, begin)
    for line in code[begin:end].split("\n"):
        yield start, number, line
        start, number = start + len(line) + 1, number + 1


def _exchange_words(
    code: str, kernels: Sequence[KernelPart], siblings: Mapping[str, Sequence[str]]
) -> Iterator[tuple[int, Difference]]:
    """Yield changes of a word or two, each with its rank: comparisons have 0, numbers 3."""
    matches = [*WORD.finditer(code)]
    words = ["", "", *(match[0] for match in matches), "", ""]
    names = {name: [*others] for name, others in _NAMES.items()}
    for name, others in siblings.items():
        names[name] = [*names.get(name, []), *others]
    for kernel in kernels:
        if len(kernel.integers) <= _MOST_EXCHANGED:  # one is easily taken for another
            for name in kernel.integers:
                others = [each for each in kernel.integers if each != name]
                names[name] = [*names.get(name, []), *others]
        # what is computed from another number is easily taken for it: "outputs = n - 95", "first = 2 * m"
        for name, doubled, changed in _DERIVED.findall(code, kernel.begin, kernel.end):
            origin = doubled or changed
            names[origin] = [*names.get(origin, []), name]
            if origin in kernel.integers:
                names[name] = [*names.get(name, []), origin]
    # a thread's number in its block and its lane; the first warp may have other work
    for name in dict.fromkeys(_THREAD.findall(code)):
        names[name] = [*names.get(name, []), f"{name} % {_WARP}"]
    for name in dict.fromkeys(_THREAD_Y.findall(code)):
        names[name] = [*names.get(name, []), f"({name} - 1)"]
    known = {*words}
    others_of = {
        name: [each for each in dict.fromkeys(others) if each in known or not each.isidentifier()]
        for name, others in names.items()
    }
    rounding = {match.start(2) for match in _ROUNDS_UP.finditer(code)}
    for place, match in enumerate(matches):
        line = find_line(code, match.start())
        if match.start() in rounding or _DOUBLES.match(code, match.start()):
            continue
        for rank, right, count in _list_others(words, place + 2, others_of):
            end = matches[place + count - 1].end()
            yield rank, Difference(match.start(), end, right, line, line)


def _list_siblings(code: str) -> dict[str, list[str]]:
    """Return for each name those that are declared together with it."""
    siblings: dict[str, dict[str, None]] = {}
    for declaration in islice(DECLARATION.finditer(code), _MOST_DECLARATIONS):
        declared = DECLARED.findall(declaration[1])
        for name in declared:
            siblings.setdefault(name, {}).update(dict.fromkeys(declared))
    return {name: [other for other in others if other != name] for name, others in siblings.items()}


def _exchange_names(
    code: str, siblings: Mapping[str, Sequence[str]]
) -> Iterator[tuple[int, Difference]]:
    """Yield each line with two names exchanged that are declared together, and stand in it once each."""
    for start, number, line in _list_code_lines(code, 0, len(code)):
        places: dict[str, list[re.Match]] = {}
        for match in NAME.finditer(line) if len(line) <= _LONGEST else ():
            places.setdefault(match[0], []).append(match)
        for one, other in combinations(places, 2):
            if other not in siblings.get(one, ()) or len(places[one]) + len(places[other]) > 2:
                continue
            first, second = places[one][0], places[other][0]
            right = f"{other}{line[first.end() : second.start()]}{one}"
            phrase = f"with `{one}` and `{other}` exchanged in line {number}"
            begin, end = start + first.start(), start + second.end()
            yield 1, Difference(begin, end, right, number, number, phrase)


def _replace_twins(code: str, kernels: Sequence[KernelPart]) -> Iterator[tuple[int, Difference]]:
    """Yield each line of a kernel with `of_b` wherever it has `of_a`: names that differ in their last letter."""
    known = {name[0] for name in NAME.finditer(code)}
    for kernel in kernels:
        for start, number, line in _list_code_lines(code, kernel.begin, kernel.end):
            for name, letter in dict.fromkeys(_TWIN.findall(line) if len(line) <= _LONGEST else ()):
                twin = f"{name}{'b' if letter == 'a' else 'a'}"
                if twin in known:
                    text = re.sub(rf"\b{name}{letter}\b", twin, line)
                    phrase = f"with `{twin}` in place of `{name}{letter}` in line {number}"
                    yield 1, Difference(start, start + len(line), text, number, number, phrase)


def _exchange_twice(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield a comparison that stands twice in a line, as in ``r > rows || c > columns``, changed at both places."""
    for match in _TWICE.finditer(code):
        other = _OTHERS[match[1]][0]
        line = find_line(code, match.start())
        yield 0, Difference(match.start(1), match.end(3), f"{other}{match[2]}{other}", line, line)


def _exchange_quotients(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each line that has one ``/`` and one ``%`` with the two exchanged."""
    for start, number, line in _list_code_lines(code, 0, len(code)):
        signs = [*_QUOTIENT.finditer(line)]
        if sorted(sign[1] for sign in signs) == ["%", "/"]:
            (one, other), between = signs, line[signs[0].end() : signs[1].start()]
            right = f"{other[1]}{between}{one[1]}"
            phrase = f"with `/` and `%` exchanged in line {number}"
            begin, end = start + one.start(), start + other.end()
            yield 1, Difference(begin, end, right, number, number, phrase)


def _equate_divisors(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each ``n / a`` with ``n % b`` close behind with one divisor in both: the extent of the inner index."""
    for match in _DIVIDED.finditer(code):
        _, quotient, _, remainder = match.groups()
        if quotient != remainder:
            for group, right in ((2, remainder), (4, quotient)):
                line = find_line(code, match.start(group))
                yield 0, Difference(*match.span(group), right, line, line)


def _square_widths(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each product that ends with one K, as in ``half * C * K``, with ``K * K`` in its place."""
    for match in _WIDTH.finditer(code):
        line = find_line(code, match.start())
        phrase = f"with `K * K` in place of `K` in line {line}"
        yield 1, Difference(match.start(), match.end(), "K * K", line, line, phrase)


def _take_rest(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each ``min(96, n)`` in a loop over tiles with ``n - 96 * tile`` in place of n: what the last tile has."""
    for match in _MINIMUM.finditer(code):
        size, total = match[1] or match[4], match[2] or match[3]
        line = find_line(code, match.start())
        counters = dict.fromkeys(_COUNTED.findall(code, 0, match.start()))
        for counter in [*reversed(counters)][:_MOST_LOOPS]:
            right = f"{total} - {size} * {counter}"
            phrase = f"with `{right}` in place of `{total}` in line {line}"
            text = f"min({size}, {right})"
            yield 1, Difference(match.start(), match.end(), text, line, line, phrase)


def _drop_extents(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each product of a grid's and a block's extents without one of them."""
    for match in _EXTENTS.finditer(code):
        extents = match[0].split(" * ")
        line = find_line(code, match.start())
        for place, extent in enumerate(extents):
            right = " * ".join([*extents[:place], *extents[place + 1 :]])
            phrase = f"without the factor `{extent}` in line {line}"
            yield 1, Difference(match.start(), match.end(), right, line, line, phrase)


def _halve_strides(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each step of a pointer by a product, ``words += ROWS * PITCH``, half and twice as far: words or halves."""
    for match in _STRIDE.finditer(code):
        line = find_line(code, match.start())
        for factor in ("/ 2", "* 2"):
            phrase = f"with `{match[0]} {factor}` in place of `{match[0]}` in line {line}"
            yield 1, Difference(match.end(), match.end(), f" {factor}", line, line, phrase)


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
    if before == "<" and behind == "*" and word.isidentifier():
        yield 2, f"2 * {word}", 1
    if before == "*" and word.isidentifier() and behind in (*")];,", "+"):
        yield 3, f"{word} * {_WARP}", 1
    if word in _OTHERS:
        for other in _OTHERS[word]:
            yield 0, other, 1
    # not to an element: one of a local array may have no value yet
    elif word == "=" and before_last not in _TYPES and before not in (",", "]"):
        yield 1, "+=", 1
    elif word in ("x", "y") and before == ".":  # an index, or an element of a vector
        yield 1, "y" if word == "x" else "x", 1
    elif word in names and before not in (".", "->", *_TYPES) and behind != "=":
        for other in names[word]:
            yield 1, other, 1
    elif word in ("+", "-") and behind == "1" and second != "." and before not in ("=", "(", ","):
        yield 2, "", 2
    elif word.isdigit() and int(word) <= _LARGEST and "." not in (before, behind):
        if word in _BLOCKS:
            yield 1, "blockDim.x", 1
            yield 1, "blockDim.x / 2", 1
        neighbors = {2 * int(word), int(word) // 2}
        others = {*neighbors, int(word) + 1, int(word) - 1, _WARP}
        for number in others - {int(word)} if int(word) > 3 else others - {int(word), _WARP}:
            # how many copies may still be under way is easily wrong by one
            if before_last == "__pipeline_wait_prior":
                yield FIRST, str(number), 1
            else:  # of a factor, the double or the half comes before a parameter in its place
                yield 1 if before == "*" and number in neighbors else 3, str(number), 1


def _replace_factors(code: str, kernels: Sequence[KernelPart]) -> Iterator[tuple[int, Difference]]:
    """Yield each line in which a number is a factor, ``* 8``, with a parameter or half of it in place of the number.

    The number is replaced at all places of the line where it is a factor.
    """
    for kernel in kernels:
        for start, number, line in _list_code_lines(code, kernel.begin, kernel.end):
            factors = _FACTOR.findall(line)
            if len(factors) > _MOST_FACTORS:
                continue
            for factor, name in product(dict.fromkeys(factors), kernel.integers):
                for right in (name, f"{name} / 2"):
                    text = re.sub(rf"(?<=\* ){factor}\b(?!\.)", right, line)
                    phrase = f"with `* {right}` in place of `* {factor}` in line {number}"
                    yield 2, Difference(start, start + len(line), text, number, number, phrase)


def _repeat_terms(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each use of a name to which a number is added elsewhere, as in ``ROWS + 8``, with this number added."""
    added = {match[1]: match[0] for match in _TERM.finditer(code)}
    for match in NAME.finditer(code):
        name, line = match[0], find_line(code, match.start())
        is_declared = code.startswith(" = ", match.end())
        if name in added and not is_declared and not code.startswith(added[name], match.start()):
            phrase = f"with `{added[name]}` in place of `{name}` in line {line}"
            right = f"({added[name]})"
            yield 1, Difference(match.start(), match.end(), right, line, line, phrase)


def _drop_terms(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each sum in brackets without its first term: it may be in a pointer or a variable already."""
    for match in _SUMMAND.finditer(code):
        line = find_line(code, match.start())
        yield 0, Difference(match.start(), match.end(), "", line, line)


def _refer_to_elements(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each loop ``for (auto each : sums)`` over copies of elements with references to them."""
    for match in _COPIES.finditer(code):
        line = find_line(code, match.start())
        phrase = f"with `auto &` in place of `auto`, which copies each element, in line {line}"
        yield 0, Difference(match.start(1), match.end(1), "auto &", line, line, phrase)


def _replace_starts(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each 0 with which a largest or smallest number begins, or that stands in for one, as an infinity."""
    kinds = [
        (name[1], infinity)
        for kind, infinity in (("max", "-INFINITY"), ("min", "INFINITY"))
        for name in re.finditer(rf"\b(\w+) = f?{kind}f?\(", code)
    ]
    infinities = dict(kinds[:_MOST_STARTS])  # by the name of the largest or smallest number
    for match in islice(_START.finditer(code), _MOST_STARTS):
        begin, end = match.span("zero")
        line, name = find_line(code, begin), match["name"]
        for infinity in {of for of_name, of in infinities.items() if name in (of_name, None)}:
            phrase = f"with {infinity} in place of 0 in line {line}"
            yield 0, Difference(begin, end, infinity, line, line, phrase)


def _exchange_sizes(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each ``Ho * Wo`` with ``H * W`` in its place, the other way round, and each ``K * K`` times C."""
    for match in _SIZE.finditer(code):
        line, right = find_line(code, match.start()), _SIZES[match[0]]
        phrase = f"with `{right}` in place of `{match[0]}` in line {line}"
        yield 0, Difference(match.start(), match.end(), right, line, line, phrase)


def _round_up(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each quotient that stands alone, as in ``tiles = n / 96``, rounded up."""
    for match in _ROUNDED.finditer(code):
        line = find_line(code, match.start())
        phrase = f"with the quotient `{match[0]}` in line {line} rounded up"
        right = f"({match[1]} + {match[2]} - 1) / {match[2]}"
        yield 1, Difference(match.start(), match.end(), right, line, line, phrase)


def _shift_indices(code: str) -> Iterator[tuple[int, Difference]]:
    """Yield each index of an array, and each bound of a loop, one further and one less far."""
    for match in re.finditer(
        r"(?<=\w)\[([^\[\]\n]{1,100})\]|(?<=<) ([^<>=;()\n]{1,60})(?=;)", code
    ):
        end = match.end(1) if match[1] else match.end(2)
        line = find_line(code, end)
        for step in (" + 1", " - 1"):
            yield 3, Difference(end, end, step, line, line)


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
