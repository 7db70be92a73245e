"""Mistakes that exercises of several pages share: each sentence names the line and the cause.

A cause is named only where the attempt's results, its finding or its counts agree with its text.
"""

import re
from collections.abc import Callable

from labkit.exercises import Attempt, Mistake
from labkit.exercises.text import find_line

_WARP = 32

# The place of a finding in shared memory behind the end: "counts[4][47] of the __shared__ array counts, 48 past the
# end of its 4 x 256 unsigneds", or "element 8 of the __shared__ array part, one past the end of its 8 elements".
_BEYOND_ROWS = re.compile(
    r"(?:\bat \w+\[(\d+)\](?:\[\d+\])*|\bat element (\d+)) of the __shared__ array (\w+), \w+ past the end of its "
    r"(\d+) (?:x|elements)[\s\S]{1,600}?\n *thread \((\d+), 0, 0\)"
)


def _make(explain: Callable[[Attempt], str], vague: bool = False) -> Mistake:
    """Return the mistake of the attempts for which a function returns a sentence, not ""."""
    return Mistake(explain, explain, vague)


def _explain_more_warps(attempt: Attempt) -> str:
    """Return which warp has no place in a shared array with a place, or a row, per warp; or ""."""
    beyond = _BEYOND_ROWS.search(attempt.wrong)
    if not beyond or not attempt.matches(r"/ *(?:32|warpSize)\b|>> *5\b"):
        return ""
    index, element, array, places, thread = beyond.groups()
    place, warp = int(index or element), int(thread) // _WARP
    # a larger index does not fit by being the number of the thread's warp alone
    if not place == warp >= int(places):
        return ""
    what = "rows" if index else "elements"
    return (
        f"Thread {thread} is in warp {warp}, and `{array}` has {places} {what}, 0 to {int(places) - 1}: this block has "
        "more warps. A block may have up to 1,024 threads, which are 32 warps."
    )


MORE_WARPS = _make(_explain_more_warps)

# "const signed char value", "(char)pixels[i]", "int8_t v"; not "unsigned char"
_SIGNED = re.compile(r"(?<!unsigned )(?<!\w)(signed char|char|int8_t)\b(?: *\)| +(\w+))?")
_BEFORE_BINS = re.compile(r"\bat (?:\w+\[|element )-(\d{1,3})\b")


def _explain_signed_pixel(attempt: Attempt) -> str:
    """Return which line makes a pixel of 128 or more negative, or ""."""
    before = _BEFORE_BINS.search(attempt.wrong)
    signed = _SIGNED.search(attempt.source)
    if "out of bounds" not in attempt.findings or not (before and signed):
        return ""
    if not 1 <= int(before[1]) <= 128:
        return ""
    what = f"`{signed[2]}` is a {signed[1]}" if signed[2] else f"the type is {signed[1]}"
    return (
        f"Line {find_line(attempt.source, signed.start())}: {what}, which holds -128 to 127 here. A pixel of 128 or "
        f"more becomes negative: {256 - int(before[1])} becomes -{before[1]}. Take unsigned char."
    )


SIGNED_PIXEL = _make(_explain_signed_pixel)

# "for (int d = 32; d > 0; d /= 2) sum += __shfl_down_sync(mask, sum, d)"
_BEGINS_AT_32 = re.compile(
    r"\bfor \((?:int|unsigned) (\w+) = (?:32|warpSize); *\1 (?:> 0|>= 1); *\1 (?:/= 2|>>= 1)\)\s*\{?\s*"
    r"(\w+) (?:\+=|= \2 \+) __shfl_(?:down|xor)_sync\(\w+, \2, \1\b"
)


def _explain_own_sum_twice(attempt: Attempt) -> str:
    """Return which loop of exchanges begins with lanes 32 apart, or ""."""
    loop = _BEGINS_AT_32.search(attempt.source)
    if not (attempt.wrong.startswith("right") and loop):
        return ""
    return (
        f"Line {find_line(attempt.source, loop.start())} begins with lanes that are 32 apart, and a warp has 32 lanes: "
        "this exchange gives a lane its own number, and it is added a second time. So each sum is doubled. Begin with "
        "lanes 16 apart."
    )


OWN_SUM_TWICE = _make(_explain_own_sum_twice)


def _explain_lost_warps(attempt: Attempt) -> str:
    """Return which line lets thread 0 alone add, where each warp has a sum of its own; or ""."""
    if (
        not attempt.wrong.startswith("right")
        or not attempt.matches(r"__shfl|__reduce")
        or attempt.matches("__shared__")
    ):
        return ""
    names = "|".join(
        [r"threadIdx\.x", *re.findall(r"\b(\w+) = threadIdx\.x *[,;]", attempt.source)]
    )
    adds = re.search(
        rf"\bif \((?:(?:{names}) == 0|!(?:{names}))\)\s*\{{?\s*atomicAdd\(", attempt.source
    )
    if not adds:
        return ""
    return (
        f"Line {find_line(attempt.source, adds.start())}: a block may have several warps, and behind the exchanges "
        "lane 0 of each has the sum of its own warp. Only thread 0 of the block adds, so those of the other warps are "
        "lost. Let lane 0 of every warp add: threadIdx.x % 32 == 0."
    )


LOST_WARPS = _make(_explain_lost_warps)

_COPY = "__pipeline_memcpy_async("
# "me = blockIdx.x * blockDim.x + t"
_OWN_NUMBER = re.compile(
    r"\b(\w+) = (?:blockIdx\.x \* [\w.]+ \+ [\w.]+|[\w.]+ \+ blockIdx\.x \* [\w.]+) *[,;]"
)


def _explain_copies_of_some(attempt: Attempt) -> str:
    """Return which line lets only threads with a number of their own copy their part of a tile, or ""."""
    if "uninitialized" not in attempt.findings:
        return ""
    own_numbers = _OWN_NUMBER.findall(attempt.source)
    conditions = [rf"{name} < n" for name in own_numbers]
    conditions += [
        named
        for condition in conditions
        for named in re.findall(rf"\b(?:bool|auto) (\w+) = {condition} *;", attempt.source)
    ]
    for copy in re.finditer(re.escape(_COPY), attempt.source):
        begin = max(attempt.source.rfind(sign, 0, copy.start()) for sign in ";}") + 1
        guard = attempt.source[begin : copy.start()]
        opened = guard.rfind("if (")
        condition = next(
            (
                each
                for each in conditions
                if re.search(rf"(?<!!)\b{each}\b", guard[max(opened, 0) :])
            ),
            "",
        )
        call = attempt.source[copy.start() : attempt.source.find(";", copy.start())]
        copies_own = any(re.search(rf"\b{name}\b", call) for name in own_numbers)
        if opened >= 0 and "||" not in guard and condition and not copies_own:
            return (
                f"Line {find_line(attempt.source, begin + opened)} lets only threads copy that have a number of their "
                f"own, `{condition}`. The last block may have few of them, and a tile needs the copies of all threads: "
                "what counts is whether the copied number exists."
            )
    return ""


COPIES_OF_SOME = _make(_explain_copies_of_some)

# "if (...) { ...; __pipeline_commit(); } __pipeline_wait_prior(1)"; group: the number of groups that are not waited for
_COMMITS_SOMETIMES = re.compile(
    r"\bif \([^;{}]{1,200}\)\s*\{[^{}]{0,600}__pipeline_commit\(\);\s*\}(?!\s*else)[^{}]{0,300}"
    r"(?P<wait>__pipeline_wait_prior\(([1-9])\))"
)


def _explain_no_group_behind(attempt: Attempt) -> str:
    """Return which line leaves the newest group under way, where another does not always commit one; or ""."""
    steps = _COMMITS_SOMETIMES.search(attempt.source)
    if "has waited for the copy" not in attempt.wrong or not steps:
        return ""
    newest = "newest one" if steps[2] == "1" else f"{steps[2]} newest ones"
    wait, condition = (
        find_line(attempt.source, place) for place in (steps.start("wait"), steps.start())
    )
    return (
        f"Line {wait} waits for all groups but the {newest}. In a turn in which the condition of line {condition} is "
        "false, no group is committed behind that of the tile which is read, so nobody waits for it. Commit in each "
        "turn, also an empty group, or wait for 0 groups there."
    )


NO_GROUP_BEHIND = _make(_explain_no_group_behind)

_UNSTORED = re.compile(r"no thread has stored them\. They are in the last (\d+) of (\d+) columns")
_REGISTERS = re.compile(r"(?<!__shared__ )\b(?:float|double) (\w+)\[(\w+)\]")


def _find_unstored(attempt: Attempt) -> tuple[int, int]:
    """Return (the columns that are stored, the columns of a row) where no thread stores the last ones; else (0, 0)."""
    found = _UNSTORED.search(attempt.wrong)
    return (int(found[2]) - int(found[1]), int(found[2])) if found else (0, 0)


def _explain_few_registers(attempt: Attempt) -> str:
    """Return which array of a lane is too short for its part of a row, or ""."""
    stored, columns = _find_unstored(attempt)
    for array in _REGISTERS.finditer(attempt.source) if stored else ():
        number = re.search(rf"\b{array[2]}(?: =|) (\d+)", attempt.source)
        size = array[2] if array[2].isdigit() else number[1] if number else ""
        if size and int(size) * _WARP == stored:
            return (
                f"Line {find_line(attempt.source, array.start())}: a lane has {size} numbers, `{array[0]}`, so a warp "
                f"has {stored} of a row. This row has {columns:,}, and no thread stores its columns from {stored} on. "
                f"It takes {-(-columns // _WARP)} numbers per lane."
            )
    return ""


FEW_REGISTERS = _make(_explain_few_registers)


def _explain_unstored(attempt: Attempt) -> str:
    """Return which columns no thread stores, or ""."""
    stored, columns = _find_unstored(attempt)
    return stored and (
        f"No thread stores the columns {stored} to {columns - 1}: which loop should reach them? "
        "Where does it begin, how far apart are the columns of a lane, and where does it end?"
    )


UNSTORED_COLUMNS = _make(_explain_unstored, vague=True)


def _explain_two_infinite(attempt: Attempt) -> str:
    """Return which line subtracts -INFINITY from itself in lanes that have no number of a short row, or ""."""
    row = re.search(r"\by, \d+ rows of (\d+),", attempt.wrong)
    shuffle = attempt.source.find("__shfl")
    if (
        "nan" not in attempt.wrong
        or not row
        or int(row[1]) >= _WARP
        or shuffle < 0
        or attempt.matches(r"[!=]= *-INFINITY|> *-INFINITY|\bisinf\b|\bisfinite\b")
    ):
        return ""
    for name in re.findall(r"\b(\w+) = -INFINITY\b", attempt.source):
        if power := re.compile(rf"\b(?:__)?expf?\({name} - \w+\)").search(attempt.source, shuffle):
            line = find_line(attempt.source, power.start())
            return (
                f"This row has {row[1]} numbers: the lanes {row[1]} to 31 have none, and their `{name}` stays "
                f"-INFINITY. Where two of them exchange, {power[0]} in line {line} is the exponential of -INFINITY - "
                "-INFINITY, which is nan. Such a lane has the sum 0."
            )
    return ""


TWO_INFINITE = _make(_explain_two_infinite)

# "float2 *C = (float2 *)c"
_PAIRS = re.compile(
    r"\bfloat2 \*\s*(?:const )?(\w+) = (?:\(float2 \*\)|reinterpret_cast<float2 \*>)"
)


def _explain_pairs(attempt: Attempt) -> str:
    """Return which line counts single floats in the index of a float2 pointer, or ""."""
    names = "|".join(_PAIRS.findall(attempt.source))
    for index in (
        re.finditer(rf"\b(?:{names})\[([^\[\];]{{1,100}})\]", attempt.source) if names else ()
    ):
        if re.search(r"/ *2\b|>> *1\b", index[1]):
            continue
        column = re.search(r"\b2 \* \w+\b|\b\w+ \* 2\b", index[1])
        pitch = re.search(r"(?:\b[a-z]\w*|\+ 8\)) \* 8\b(?! \*)", index[1])
        if column or pitch:
            return (
                f"Line {find_line(attempt.source, index.start())}: this pointer is one to float2, so its index counts "
                "pairs of floats. A row of c, 8 floats, has 4 of them, and the columns 2 t and 2 t + 1 are number t "
                "of their row."
            )
    return ""


SINGLE_FLOATS = Mistake(
    _explain_pairs, lambda attempt: attempt.runs_wrong and _explain_pairs(attempt)
)

# "b + blockIdx.x * 128"; groups: the matrix, the factor
_PRODUCT_BEGINS = re.compile(r"(?<![\w.])([ab])\)? \+ blockIdx\.x \* (\d+)(?: \* (\d+))? *[,;)]")


def _explain_next_product(attempt: Attempt) -> str:
    """Return which line lets the product of a block begin at a place that does not depend on K, or ""."""
    begin = _PRODUCT_BEGINS.search(attempt.source)
    if "The first, [1," not in attempt.wrong or not begin:
        return ""
    columns = 16 if begin[1] == "a" else 8
    return (
        "The first product is right, and the second one is not. In line "
        f"{find_line(attempt.source, begin.start())} the matrix {begin[1]} of block 1 begins at a place that does not "
        f"depend on K, and such a matrix has K * {columns} numbers."
    )


def _explain_right_first(attempt: Attempt) -> str:
    """Return the question about the places at which products begin, if the first one is right; or ""."""
    return "The first, [1," in attempt.wrong and (
        "The first product is right, and the second one is not: at which number do a, b and c of block 1 begin?"
    )


NEXT_PRODUCT = _make(_explain_next_product)
RIGHT_FIRST_PRODUCT = _make(_explain_right_first, vague=True)

# "(const uchar4 *)pixels" and "n / 4"
_FOURS = re.compile(
    r"\((?:const )?(?:uchar|float|int|uint)4 \*\)|reinterpret_cast<(?:const )?\w+4 \*>"
)
_FOURTH = re.compile(r"\bn (?:/ 4|>> 2)\b(?! \* 4)")


def _explain_lost_rest(attempt: Attempt) -> str:
    """Return which line loses the last n % 4 of n numbers, if nothing else takes them; or ""."""
    begin = attempt.source.find("{")
    body = attempt.source[begin:]
    fourth = _FOURTH.search(body)
    # each use of n is a fourth of it
    if (
        not attempt.wrong.startswith("right")
        or not (fourth and _FOURS.search(body))
        or re.search(r"\bn\b", _FOURTH.sub("", body))
    ):
        return ""
    line = find_line(attempt.source, begin + fourth.start())
    return (
        f"Line {line}: `{fourth[0]}` drops a remainder, so the last n % 4 numbers, up to three, come to no thread. "
        "They need loads of their own."
    )


LOST_REST = _make(_explain_lost_rest)

# "shift = upper * Wo;", and a pointer into x
_OUTPUT_ROWS = re.compile(r"\b(\w+) = (?:[^;,]*\? )?\w+ \* Wo\b(?: : 0)? *[,;]")
_INTO_X = re.compile(r"\*(?:const )?(?:__restrict__ )?(\w+) = x \+")


def _explain_rows_of_outputs(attempt: Attempt) -> str:
    """Return which line adds a number of rows of y to an index of x, or ""."""
    arrays = "|".join(["x", *_INTO_X.findall(attempt.source)])
    for name in _OUTPUT_ROWS.findall(attempt.source) if attempt.runs_wrong else ():
        if index := re.search(rf"\b(?:{arrays})\[(?:[^\];]* \+ )?{name}\]", attempt.source):
            return (
                f"Line {find_line(attempt.source, index.start())}: `{name}` counts elements of y, whose rows are Wo "
                "long. The rows of x are W long, so the same number of rows is further there."
            )
    return ""


ROWS_OF_OUTPUTS = _make(_explain_rows_of_outputs)
