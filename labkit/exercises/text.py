"""Read the text of a kernel: counts for goals, sums that nothing sets to zero, mistakes that any kernel may have."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from hostcuda.source import code_only, find_pairs, find_statement_end, loops
from labkit.exercises.exercise import Attempt

# The operators, and functions that divide.
_DIVISION = re.compile(
    r"[/%]|\b(?:l{0,2}div|f?mod[fl]?|divides|modulus|remainder[fl]?|__f?div\w*)\b(?= *[({<])"
)
_MACRO = re.compile(r"(?m)^[ \t]*#[ \t]*define[ \t]+(\w+).*")
# The heads of functions, "load(int i) {", and of lambdas, "load = [&](int i) {"; groups: either
# name.
_FUNCTION = re.compile(
    r"\b(\w+)\s*\([^(){};]{0,1000}\)\s*(?:const\s*)?\{|"
    r"\b(\w+)\s*=\s*\[[^\[\]{}]{0,200}\]\s*(?:\([^(){};]{0,1000}\))?[^(){};]{0,200}\{"
)
_DEEPEST = 8  # the deepest braces in which functions are looked for
_JUMP = re.compile(r"\bgoto\s+(\w+)")
_LABEL = re.compile(r"(?m)(?<![?\w])\b([A-Za-z_]\w*)\s*:(?!:)")
# "  float sum[4][2];"
_ARRAY = re.compile(r"(?m)^[ \t]*(?:float|double|int) (\w+)(?:\[[^\]]*\])+;")
# A name, with what stands around it: "sum[i] +=", also "sum[i][index[j]] =".
_USE = re.compile(
    r"(?P<is_member>(?:\.|->)\s*)?\b(?P<name>[A-Za-z_]\w*)"
    r"(?=(?P<index>(?:\[(?:[^\[\]]|\[[^\[\]]*\])*\])+)?\s{0,99}(?P<operator>\+=|=(?!=))?)"
)
# Sources of floats: their types, functions that return or convert to them, and constants except in
# a half's value.
_FLOATS = re.compile(
    r"\b(?!__float)\w*(?:float|double)\w*|\b__f(?!loat)\w+_r[nzud]\b|\bfma\b|##"
    r"|\b(?!(?:if|half|sizeof)\b)[a-z]\w*f(?= *\()|(?<![\w.])(?:\d+\.\d*|\.\d+|\d+(?=[fFeE]))[\w.]*"
)
# "__float2half(0.5f)"
_HALF_CONSTANT = re.compile(r"\b__(?:float|double)2half\w*\([-+\d.fFeE ]*\)")
# A quotient that rounds down the work per thread or block: "n / (gridDim.x * blockDim.x)", "columns / 32".
_DROPPED = re.compile(
    r"(?<!<= )(?<!1 \+ )\b(?:n|rows|columns) / "
    r"(?:\([^()]*Dim[^()]*\)|\w*threads\b|warpSize\b|32\b|gridDim\.x\b)(?! \+ 1\b)"
)
# "workers = gridDim.x * blockDim.x": the number of all threads
_ALL_THREADS = re.compile(r"\b(\w+) = (?:gridDim\.x \* blockDim\.x|blockDim\.x \* gridDim\.x)[,;]")
_EXCHANGED = str.maketrans("/%", "%/")
# the most characters of a text whose mistakes are explained: the rungs have up to 12,000
EXPLAINED = 20_000
_BLANKS = 6000  # the longest run of blanks and line ends: comments are some, too
_STATEMENT = 1000  # the most characters of a statement of such a text: the rungs have up to 190
# A loop without braces whose body begins with a declaration, and so ends there.
_BODY = re.compile(
    r"\b(?:for|while) \([^{}]{0,300}?\)\s{0,300}(?:const )?(?:int|unsigned|float) \w+ = "
)
# A for whose body is a semicolon.
_EMPTY_BODY = re.compile(r"\bfor \([^;{}]{0,200};[^;{}]{0,200};[^;{}()]{0,200}\)[ \n]{0,40};")

# A store to a row of y behind a comparison with H: "if (row < H) y[row * Wo + w] =", also "y[(h + 1) * Wo".
_INPUT_ROWS = re.compile(
    r"\bif \((\w+(?: \+ \w+)?) < H\b[^;{}]{0,80}\)\s*\{?\s*y\[\(?\1\)? \* Wo\b"
)

# What may stand for an index of a thread or a block: a group's rank, a special register.
_OTHER_INDEX = re.compile(r"_rank\b|_index\b|\basm\b")
# A statement that is a shuffle: "; __shfl_down_sync(...);".
_UNUSED_SHUFFLE = re.compile(r"[;{}]\s*(__shfl\w*\([^;{}]{0,300};)")
BARRIER = re.compile(r"\b__sync\w+|\bsync\w*\(|\bwait\w*\(")
# Code with one of these may order accesses in ways that the text does not show.
_OTHER_ORDER = re.compile(r"\basm\b|\bptx\b|\bcuda::")
_KERNEL_HEAD = re.compile(r"\b__global__\b[^;{}]*\{")
_LOOP = re.compile(r"\b(?:for|while|do)\b")
_LOOPS = 50  # before a line that are looked at: a hand-in may have thousands
# "race, line 8: threads (31,0,0) and (32,0,0) of a block write and read ..., and line 5: ..."
_RACE = re.compile(
    r"race, line (\d+): threads \((\d+),(\d+),(\d+)\) and \((\d+),(\d+),(\d+)\) of a block "
    r"(both write|write and read|read and write|)"
)
# What to say if both accesses are in one line, by what they do.
_CHANGED = (
    "Line {} changes an element that another thread reads in the same line, and no barrier stands between: should it "
    "read what was there before, or the changed one?"
)
_SAME_LINE = {
    "both write": "Two threads write one element in line {}, and no barrier stands between: does each thread have an "
    "index of its own, or do several change one element?",
    "write and read": _CHANGED,
    "read and write": _CHANGED,
}
_OTHER_LINE = re.compile(r"(?m)^ *and line (\d+)\b")

# A word of C++: a name, a number, an operator.
_WORD = re.compile(r"\w+|[-+*/%&|^<>=!]=|&&|\|\||<<|>>|\+\+|--|\S")
_SLIPS, _LONGEST = 2, 150  # lines that may differ from the solution, and the most words of one
_COMPARISONS = {"<", "<=", ">", ">=", "==", "!="}
_CONDITIONS = {*_COMPARISONS, "&&", "||"}
_MOST_WORDS = 9  # that a line lacks, or has in addition
_TYPES = {"char", "signed", "short", "int", "unsigned", "half", "float", "double"}
_MISSING = {
    "*": "a factor",
    "/": "a divisor",
    "%": "a remainder",
    "+": "a term",
    "-": "a term",
    "if": "a condition",
    "&&": "a condition",
    "||": "a condition",
    "[": "an index",
}


def find_line(source: str, place: int) -> int:
    """Return the number of the line of a position in a source, from 1."""
    return source.count("\n", 0, place) + 1


def is_explained(code: str) -> bool:
    """Return whether a code is short enough for its mistakes to be explained, and its semicolons are not far apart.

    A pattern with several parts like ``[^;]*`` is tried at many places of a statement: at one of
    20,000 characters it would go on for hours, and for seconds at as many blanks.
    """
    return (
        len(code) <= EXPLAINED
        and max(map(len, re.findall(r"\s+", code)), default=0) <= _BLANKS
        and all(len(" ".join(statement.split())) <= _STATEMENT for statement in code.split(";"))
    )


def count_features(code: str) -> dict[str, float]:
    """Count in a kernel's code ``divisions_in_loops`` (with remainders) and ``floats`` (types, conversions, constants).

    Returns a dict with these two names, for goals on the text.
    """
    divisions = len(_DIVISION.findall(_find_repeated_code(code)))
    # without "__float2half(0.5f)", which is a constant of type half
    floats = len(_FLOATS.findall(_HALF_CONSTANT.sub("", code)))
    return {"divisions_in_loops": divisions, "floats": floats}


def _find_repeated_code(code: str) -> str:
    """Return the code that may run many times: loops, also by goto, and all functions and macros that they name."""
    code = code.replace("\\\n", " ")
    # position of { -> position of its }
    closing = {begin: end for begin, end, depth in find_pairs(code, "{}") if depth < _DEEPEST}
    definitions = {macro[1]: macro[0] for macro in _MACRO.finditer(code)}
    # a match ends with the { of the body
    definitions |= {
        function[1] or function[2]: code[function.end() : closing.get(function.end() - 1, -1) + 1]
        for function in _FUNCTION.finditer(code)
    }
    last_jumps = {jump[1]: jump.start() for jump in _JUMP.finditer(code)}
    texts, end = [*loops(code)], 0
    # the code from a label to the last jump to it, once if such loops overlap
    for label in _LABEL.finditer(code):
        begin, end = max(label.end(), end), max(last_jumps.get(label[1], 0), end)
        texts.append(code[begin:end])
    for text in texts:  # it grows by the functions and macros that a text names, each once
        texts += [
            definitions.pop(name) for name in {*re.findall(r"\w+", text)} & definitions.keys()
        ]
    return "\n".join(texts)


def find_unset_sums(code: str) -> list[str]:
    """Return declarations, "float sum[4];", of arrays that are added to and never set; compilers do not warn there.

    An array that is used in another way than by an element, as in ``f(sum)``, may be set there.
    """
    # names of arrays with elements that are added to; that are set, or used in another way
    added, other = set(), set()
    for use in _USE.finditer(code):
        if use["is_member"] or not use["index"] or use["operator"] == "=":
            other.add(use["name"])
        elif use["operator"]:
            added.add(use["name"])
    sums = added - other
    return [array[0].strip() for array in _ARRAY.finditer(code) if array[1] in sums]


def list_causes(attempt: Attempt, right_lines: Iterable[str]) -> Iterator[str]:
    """Yield sentences for mistakes that any kernel may have; `right_lines` are of right code, to be compared with.

    `attempt.wrong` begins with the question of the grade that has ✗, "compiles", "clean under ..."
    or "right", and goes on with the compiler's messages, the sanitizer's finding or the message
    about wrong results.
    """
    code = attempt.source
    if attempt.wrong.startswith("compiles"):
        yield from _find_syntax(code)
        if (moved := re.search(r"read-only parameter '(\w+)'", attempt.wrong)) and re.search(
            rf"\* ?const (?:\w+ )?{moved[1]}\b", code
        ):
            yield (
                f"A const behind the * belongs to the pointer: then `{moved[1]}` may not be moved to its image. It "
                "promises nothing about other arrays."
            )
    if "__shfl" in attempt.wrong and {"divergent barrier", "exited lanes"} & {*attempt.findings}:
        yield (
            "Every lane that the mask of a shuffle names has to execute it: with 0xffffffff all 32 lanes. Move the "
            "shuffle out of the if or the loop that only some lanes run, and let the if decide who uses its result."
        )
    if match := re.search(r"'(\w+)' (?:may be|is) used uninitialized", attempt.wrong):
        yield (
            f"`{match[1]}` may be read before it has a value: a local variable begins undefined. initcheck looks at "
            "memory, not at registers. Set it where it is declared; a sum begins at 0."
        )
    if not attempt.runs_wrong:
        return
    yield from _find_barrier_in_loop(code, attempt.wrong)
    yield from _find_input_rows(code, attempt.wrong)
    # no y[...] or y + ...
    if "nothing was written" in attempt.wrong and not re.search(r"(?<!\.)\by(?:\[| \+ )", code):
        yield "No result is stored: a local variable ends with its thread. Store its value to y when it is complete."
    yield from _find_exchanged(code, right_lines)
    if attempt.wrong.startswith("right"):
        yield from _find_lost(code)
    if "uninitialized" in attempt.findings:
        yield from _find_copies_of_itself(code)


def list_unused(attempt: Attempt, right_lines: Iterable[str]) -> Iterator[str]:
    """Yield sentences for an index that right code has and a wrong one does not, and a shuffle whose result is lost."""
    if not attempt.runs_wrong:
        return
    code, right = attempt.source, "\n".join(right_lines)
    for name, group in (("threadIdx", "threads of a block"), ("blockIdx", "blocks")):
        # `_OTHER_INDEX`: what may stand for such an index, as `thread_rank`
        if name in right and name not in code and not _OTHER_INDEX.search(code):
            yield f"`{name}` is not used here, so all {group} do the same work, and store or add the same."
    if match := _UNUSED_SHUFFLE.search(code):
        line = find_line(code, match.start(1))
        yield f"Line {line}: nobody uses what this shuffle returns, and a shuffle changes no variable by itself."


def _find_syntax(code: str) -> Iterator[str]:
    """Yield a sentence for each common cause why this code may not compile."""
    if re.search(r"\brestrict\b", code):
        yield "`restrict` is a word of C. CUDA C++ spells it __restrict__, with two underscores on each side."
    if re.search(r"\b__restrict__\s*\*", code):
        yield (
            "__restrict__ belongs behind the *: it is a promise about the pointer, not about the numbers that it "
            "points to."
        )
    if match := _EMPTY_BODY.search(code):
        line = find_line(code, match.start())
        yield (
            f"A semicolon stands behind the head of the for in line {line}: so its body is empty, and what follows is "
            "no part of the loop."
        )
    if match := _BODY.search(code):
        yield (
            f"The loop in line {find_line(code, match.start())} has no braces, so only the first "
            "statement belongs to its body. Write { before the body and } behind it."
        )
    if code.count("{") != code.count("}"):
        yield f"There are {code.count('{')} {{ and {code.count('}')} }}: each {{ needs a }}. Which one is missing?"


def _find_barrier_in_loop(code: str, wrong: str) -> Iterator[str]:
    """Yield a sentence if a divergent barrier stands in a loop whose head names threadIdx."""
    found = re.search(r"divergent barrier, line (\d+)", wrong)
    lines = code.splitlines(keepends=True)
    if not found or not 0 < int(found[1]) <= len(lines):
        return
    begin = sum(map(len, lines[: int(found[1]) - 1]))
    for loop in [*_LOOP.finditer(code, 0, begin)][-_LOOPS:]:
        head = code[loop.start() : begin].partition("{")[0].partition("\n")[0]
        if "threadIdx" in head and begin < find_statement_end(code, loop.start()):
            first = find_line(code, loop.start())
            yield (
                f"The barrier in line {found[1]} stands in the loop of line {first}, which begins or ends at another "
                "number in each thread: a thread that makes fewer passes misses the barrier. It belongs where all "
                "threads come equally often."
            )
            return


def _find_input_rows(code: str, wrong: str) -> Iterator[str]:
    """Yield a sentence if a store goes beyond y because its row is compared with H, the rows of the input."""
    for store in _INPUT_ROWS.finditer(code) if " at y[" in wrong else ():
        line = find_line(code, store.end())
        if re.search(rf"out of bounds, line {line}: write ", wrong):
            yield (
                f"Line {line} stores to row {store[1]} of a map, and the condition compares it with H, the number of "
                "rows of the input. A map has Ho rows."
            )


def _find_exchanged(code: str, right_lines: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each line that becomes one of the right lines if / and % are exchanged."""
    right = {"".join(line.split()) for line in right_lines}  # without blanks
    for number, line in enumerate(code.splitlines(), 1):
        text = "".join(line.split())
        if (
            text not in right
            and text != (exchanged := text.translate(_EXCHANGED))
            and exchanged in right
        ):
            yield (
                f"Line {number} has / and % exchanged: the quotient says which row or group an element is in, the "
                "remainder its place there."
            )


def _find_lost(code: str) -> Iterator[str]:
    """Yield sentences for what makes results too small: a remainder that no thread takes, or an int for a fraction."""
    match = _DROPPED.search(code)
    for name in () if match else dict.fromkeys(_ALL_THREADS.findall(code)):
        match = match or re.search(rf"(?<=\w < )n / {name}(?=;)", code)  # the bound of a loop
    quotient, divisor = (match[0], match[0].partition(" / ")[2]) if match else ("", "")
    # "n % gridDim.x" or "gridDim.x - 1": the remainder may be taken elsewhere
    if match and quotient.replace("/", "%") not in code and f"{divisor} - 1" not in code:
        owner = "block" if divisor == "gridDim.x" else "thread"
        yield (
            f"`{quotient}` drops the remainder: what is left over belongs to no {owner}. Round the quotient up, and "
            f"let no {owner} go beyond the end."
        )
    # not the counter of a for
    for name in dict.fromkeys(re.findall(r"(?<!\()\bint (\w+) = 0\b", code)):
        added = re.findall(rf"\b{name} \+= ([^;{{}}]{{0,300}});", code)
        # Floats are added: products of elements, in balanced parentheses (else it is the step of a
        # loop), or powers.
        if any(
            ("*" in term and "[" in term and term.count("(") == term.count(")"))
            or term.startswith(("exp(", "expf("))
            for term in added
        ):
            yield f"`{name}` is an int, so whatever is added loses its fraction: sum floats in a float."


def _find_copies_of_itself(code: str) -> Iterator[str]:
    """Yield a sentence for each shared array that is filled from itself, as in ``x[i] = x[n + i]``."""
    for name in dict.fromkeys(re.findall(r"__shared__ \w+ (\w+)\[", code)):
        filled = re.findall(rf"\b{name}\[[^=;]{{0,300}}\]\s*=(?!=)([^;]{{0,300}});", code)
        if filled and all(f"{name}[" in term for term in filled):
            yield (
                f"`{name}` is filled from itself: inside the kernel this name is the shared array's, which "
                "hides any array of that name outside. Copy from the pointer that the kernel gets."
            )


def explain_race(finding: str, source: str) -> str:
    """Return where no barrier stands between the two accesses of a race, and whether one warp makes both; or "".

    `finding` is the grade's text of a race within a block. "" also if the text does not show what
    orders the threads.
    """
    # the finding begins with "race, line 8: threads (31,0,0) and (32,0,0) of a block write and read",
    # and names the line of the other access further on
    race, other = _RACE.search(finding), _OTHER_LINE.search(finding)
    code = code_only(source)
    if not (race and other) or len(source) > EXPLAINED or _OTHER_ORDER.search(code):
        return ""
    first, last = sorted((int(race[1]), int(other[1])))
    begins = [0]  # position of each line
    for line in code.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    bodies = [
        (body.start(), find_statement_end(code, body.end() - 1))
        for body in _KERNEL_HEAD.finditer(code)
    ]
    if last >= len(begins) or not any(
        begin < begins[first - 1] and begins[last] <= end for begin, end in bodies
    ):
        return ""  # not both in one kernel: a function may be called from anywhere
    # the code between the last access and the first one of a loop's next iteration, or None
    again = _find_way_back(code, begins[first - 1], begins[last - 1], begins[last])
    comes_back_without_barrier = again is not None and not BARRIER.search(again)
    if first == last:
        what = _SAME_LINE.get(race[8], "").format(first)  # race[8]: "both write", "write and read"
        if what and comes_back_without_barrier:
            what += " The loop comes back to this line without a barrier."
    else:
        what = ""
        if not BARRIER.search(code, begins[first - 1], begins[last]):
            what = (
                f"No barrier stands between line {first} and line {last}: which of the two comes first, "
                "for all threads?"
            )
        elif comes_back_without_barrier:
            what = (
                f"A barrier stands between line {first} and line {last}, and none between line {last} "
                f"and line {first} of the next iteration of their loop."
            )
    x, y, z, other_x, other_y, other_z = map(int, race.groups()[1:7])
    is_one_warp = not (y or z or other_y or other_z) and x // 32 == other_x // 32
    if what and is_one_warp:
        what += " Both threads are lanes of one warp: it takes at least a __syncwarp to order them."
    return what


def _find_way_back(code: str, first: int, last: int, end: int) -> str | None:
    """Return the code from the end of the line at `last` round the innermost loop to the line at `first`, or None.

    The positions are those of two lines and of the second one's end. None if no loop has both.
    """
    begins = [loop.start() for loop in _LOOP.finditer(code, 0, first)]
    for begin in reversed(begins[-_LOOPS:]):
        behind = find_statement_end(code, begin)
        if last < behind:
            return code[end:behind] + code[begin:first]
    return None


def list_slips(attempt: Attempt, solution: str) -> Iterator[str]:
    """Yield a sentence for the first line of a wrong attempt that is the solution but for a word or two.

    Only such a line can be wrong if all others are the solution's. Of a kernel that goes another
    way nothing is said.
    """
    if not attempt.runs_wrong:
        return
    others = find_other_lines(attempt.source, solution)
    slips = [describe_slip(words, right_words) for _, words, right_words in others]
    if others and all(slips):
        yield f"Line {others[0][0]} {slips[0]}"


def find_other_lines(
    code: str, solution: str
) -> list[tuple[int, tuple[str, ...], tuple[str, ...]]]:
    """Return (number, words, the solution's words) of each line of a code that is not the solution's.

    [] if that is none or more than two lines, or if the code has another number of lines: it then
    computes in another way.
    """
    lines, right = [*_read_lines(code)], [words for _, words in _read_lines(solution)]
    if len(lines) != len(right):
        return []
    others = [
        (number, words, right_words)
        for (number, words), right_words in zip(lines, right, strict=True)
        if words != right_words
    ]
    return others if len(others) <= _SLIPS else []


def _read_lines(code: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield (number, words) of each line that is not blank."""
    for number, line in enumerate(code.splitlines(), 1):
        if words := tuple(_WORD.findall(line)):
            yield number, words


def find_condition_slip(words: Sequence[str], right: Sequence[str]) -> str:
    """Return the end of a sentence if a line differs from the right one by a comparison, && or ||; else "".

    "has `&&`, where one of the conditions is enough: ||." `words` are the line's, `right` the right ones.
    """
    # not strict: lines of other lengths are sorted out next
    pairs = {(a, b) for a, b in zip(words, right, strict=False) if a != b}
    is_condition = len(words) == len(right) and {*itertools.chain(*pairs)} <= _CONDITIONS
    return _describe_exchanged(words, right) if is_condition else ""


def describe_slip(words: Sequence[str], right: Sequence[str]) -> str:
    """Return how a line's words differ from the right ones, as the end of a sentence; "" if not by a word or two.

    Of ["i", "+", "j"], with the right words ["j", "+", "i"]: "has `i` and `j` exchanged."
    """
    if max(len(words), len(right)) > _LONGEST:
        return ""
    if len(words) == len(right) and (description := _describe_exchanged(words, right)):
        return description
    if [word for word in words if word not in "()"] == [word for word in right if word not in "()"]:
        return "has other parentheses: which operation comes first?"
    if sorted(words) == sorted(right):
        return (
            "has the right words in another order: which index, bracket or operation belongs where?"
        )
    return _describe_edits(words, right)


def _describe_edits(words: Sequence[str], right: Sequence[str]) -> str:
    """Return what a line lacks, or has in addition or in place of it, as the end of a sentence.

    It is "" if that is more than `_MOST_WORDS`, or a brace or a semicolon, or cannot be named.
    """
    edits = [
        edit
        for edit in SequenceMatcher(None, right, words, autojunk=False).get_opcodes()
        if edit[0] != "equal"
    ]
    lacked = [word for _, begin, end, *_ in edits for word in right[begin:end]]
    added = [word for *_, begin, end in edits for word in words[begin:end]]
    if max(len(lacked), len(added)) > _MOST_WORDS or {*"{};"} & {*lacked, *added}:
        return ""
    if not added and {"=", "+=", "-="} & {*lacked}:
        return "lacks an assignment: what else has to change there?"
    if not added and (kind := _name_missing(lacked)):
        return f"lacks {kind}: compare it with what the index or the condition should say."
    if lacked == ["++"] and added[:1] == ["+="]:
        return f"has the step `{' '.join(added)}`: what happens to the elements between?"
    if not lacked and len(edits) == 1:
        return f"has `{' '.join(added).replace(' . ', '.')}`, which does not belong there."
    if lacked and len(edits) == 1 and "".join(added).isdigit():
        place = "a name belongs" if len(lacked) == 1 else "an expression belongs"
        return f"has the number {added[0]}, where {place}: which size or index is meant there?"
    return ""


def _name_missing(words: Sequence[str]) -> str:
    """Return what these words are, "a term", by the operator at one of their ends or else the first one; or ""."""
    ends = (words[0], words[-1])
    if not {*ends} & {*_MISSING} and {"?", *_COMPARISONS} & {*words}:
        return "a condition"
    operators = [word for word in (*ends, *words) if word in _MISSING]
    return _MISSING[operators[0]] if operators else ""


def _describe_exchanged(words: Sequence[str], right: Sequence[str]) -> str:
    """Return which word of a line stands for another one, as the end of a sentence; "" if not known, or several."""
    places = [i for i, pair in enumerate(zip(words, right, strict=True)) if pair[0] != pair[1]]
    pairs = {(right[i], words[i]) for i in places}
    if len(pairs) == 2 and len(names := {name for pair in pairs for name in pair}) == 2:
        return "has `{}` and `{}` exchanged.".format(*sorted(names))
    if len(pairs) != 1:
        return ""
    ((before, word),) = pairs
    pair = {before, word}
    if pair in ({"<", "<="}, {">", ">="}):
        belongs = "does not belong" if "=" in word else "belongs"
        return (
            f"has `{word}` in a comparison: the case in which both sides are equal {belongs} to it."
        )
    if pair <= {"<", "<=", ">", ">="} or pair == {"==", "!="}:
        return f"has `{word}` in a comparison: the condition is the wrong way round."
    if pair == {"&&", "||"}:
        needs = (
            "one of the conditions is enough" if before == "||" else "both conditions have to hold"
        )
        return f"has `{word}`, where {needs}: {before}."
    if pair <= {"=", "+=", "-="}:
        return f"has `{word}`: = forgets what was there, += adds to it, and -= takes away from it."
    if pair <= {"x", "y", "z"} and words[places[0] - 1] == ".":
        member = words[places[0] - 2] + f".{word}"  # "threadIdx.y"
        if not member.startswith(("thread", "block", "grid")):
            return f"has `{member}`, where `.{before}` belongs."
        return f"has `{member}`: what do x and y count here, and along which of them are lanes neighbours?"
    if before.isdigit() and word.isdigit():
        if "__pipeline_wait_prior" in words[max(places[0] - 2, 0) : places[0]]:
            return f"waits until at most {word} batches of copies are under way: how many may that be here?"
        if "__shared__" in words:
            return f"has the number {word}: compare the array's size with the largest index of any thread."
        if words[places[0] - 1] in _COMPARISONS:
            return f"compares with {word}: for which values does the loop or the condition end too early, or too late?"
        return f"has the number {word}, where another number belongs: what does it count, and from where?"
    if pair <= _TYPES:
        return f"has the type `{word}`: does it hold each value here, with its digits and its fraction?"
    if (before, word) == ("__shfl_xor_sync", "__shfl_down_sync"):
        return f"has `{word}`, after which only lane 0 has the result of all lanes: with `{before}` every lane has it."
    if before.isidentifier() and word.isidentifier():
        if words[places[0] + 1 : places[0] + 2] == ("(",):
            return f"calls `{word}`, where another function belongs: what does each of them give to which thread?"
        return (
            f"has `{word}`, where another name belongs: which size, index or value is meant there?"
        )
    return f"has `{word}`, where another operator belongs." if pair <= {*"+-*/%"} else ""
