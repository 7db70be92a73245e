"""Exercise 10a: words again."""

import re
from typing import NamedTuple

from hostcuda.source import find_statement_end
from labkit.exercises import Attempt, Exercise, InPlaceOf, Mistake, counted
from labkit.spec.layers import Layer

# Eight maps are two groups, and four windows per stack cover 32 rows of outputs. A row of 32 outputs is
# stored from registers, so that all loads from shared memory are of words.
_NAME = "four channels, eight maps"
_LAYER = {_NAME: Layer(_NAME, C=4, H=38, W=38, M=8, K=7)}
_LOADS = "shared_load_instructions"
_INSTRUCTIONS = 1024  # of the tensor cores

# "mma(sum[g][row - step], weights[g][step], b0, b1);": group and window, group and k-step
_MMA = re.compile(
    r"\bmma\(\s*sum\[([^\[\]]{1,60})\]\[([^\[\]]{1,60})\],\s*weights\[([^\[\]]{1,60})\]\[([^\[\]]{1,60})\]"
)
_LOOP = re.compile(r"\bfor \(int (\w+) = 0; \1 < ([\w +*/-]{1,60});")
# "row < PAIRS + STEPS;", or "N = PAIRS + STEPS;" and "row < N;"
_ONE_MORE_PAIR = re.compile(
    r"; \w+ < PAIRS \+ STEPS;|\b(\w+) = PAIRS \+ STEPS;[^\0]{0,2000}?; \w+ < \1;"
)
_WORD = re.compile(r"\b(?:words|window)\[")
_DIFFERENCE = re.compile(r"(\w+) - (\w+)")
# The pairs of rows of a stack, and numbers of them that leave out the last ones.
_TOO_FEW_ROWS = {"PAIRS", "STEPS", "PAIRS + STEPS - 2"}
_WHAT = {"PAIRS": "windows", "STEPS": "k-steps", "GROUPS": "groups"}  # by the number of them


def _read_function(attempt: Attempt) -> str:
    """Return the code of `multiply`, without the compiler's directives."""
    code = attempt.source.partition("void multiply(")[2].partition("void store_four(")[0]
    return re.sub(r"(?m)^[ \t]*#[^\n]*", "", code)


def _list_loops_around(code: str, place: int) -> list[tuple[str, str]]:
    """Return (counter, its end) of each loop of a code around a place, from outside to inside."""
    return [
        (loop[1], " ".join(loop[2].split()))
        for loop in _LOOP.finditer(code, 0, place)
        if place < find_statement_end(code, loop.start())
    ]


def _list_loops_around_loads(attempt: Attempt) -> list[str]:
    """Return the ends of the loops around the first load of a word, such as "PAIRS", from outside to inside."""
    code = _read_function(attempt)
    load = _WORD.search(code)
    return [end for _, end in _list_loops_around(code, load.start())] if load else []


def _find_product(attempt: Attempt) -> tuple[str, str, dict[str, str]]:
    """Return the window and the k-step of the only product, and the loops around it, as counter -> its end.

    A name that is defined in the function, "int n = row - step;", is replaced by its value. Without
    a product, or with several, the window and the k-step are "".
    """
    code = _read_function(attempt)
    products = [*_MMA.finditer(code)]
    if len(products) != 1:
        return "", "", {}
    values = dict(
        re.findall(r"\bint (\w+) = ([^;<>=]{1,60});", re.sub(r"\bfor \([^;]*;", "", code))
    )
    window, step = (
        values.get(products[0][group].strip(), products[0][group].strip()) for group in (2, 4)
    )
    return window, step, dict(_list_loops_around(code, products[0].start()))


class _Guard(NamedTuple):
    """The condition before the product, which keeps the number of a window or a k-step in its bounds."""

    value: str  # that number, as a difference of two counters: "row - step"
    # a regular expression for the difference, or the name of a variable that has it
    pattern: str
    end: str  # the number of windows or k-steps, "PAIRS" or "STEPS"
    conditions: str  # all conditions of the function


def _find_guard(attempt: Attempt) -> _Guard | None:
    """Return the guard of the only product; None if it needs none, or if bounds of loops may replace it."""
    window, step, loops = _find_product(attempt)
    code = _read_function(attempt)
    for value, end in ((window, "PAIRS"), (step, "STEPS")):
        counters = _DIFFERENCE.fullmatch(value)
        if counters and {*counters.groups()} <= loops.keys():
            name = re.search(rf"\bint (\w+) = {re.escape(value)};", code)
            pattern = rf"(?:{re.escape(value)}|{name[1] if name else '(?!)'})"
            conditions = " ".join(re.findall(r"\bif \(([^{};]{1,200})\)", code))
            # with a continue the condition is the opposite one
            is_clear = not re.search(r"\b(?:min|max|unsigned)\(|\?|\bcontinue\b|!\(", code)
            return _Guard(value, pattern, end, conditions) if is_clear else None
    return None


def _describe_guard(attempt: Attempt) -> str:
    """Return which bound the condition before the product lacks, or by how much one is wrong; or ""."""
    guard = _find_guard(attempt)
    if not guard:
        return ""
    value, pattern, end, conditions = guard
    what, (first, second) = _WHAT[end], value.split(" - ")
    has_lower = re.search(
        rf"\b(?:0|-1) <=? {pattern}|{pattern} >=? (?:0|-1)|\b{first} >=? {second}\b|\b{second} <=? {first}\b",
        conditions,
    )
    has_upper = re.search(
        rf"{pattern} <=? \w|\b{end}(?: - 1)? >=? {pattern}|\b{first} <=? {second} \+ ", conditions
    )
    if not has_lower and not has_upper:
        return (
            f"`{value}` goes from below 0 to above {end} - 1, and there are {what} 0 to {end} - 1 alone: `mma` "
            "needs a condition."
        )
    lacks = "the condition before `mma` lacks this bound."
    if not has_upper:
        return f"`{value}` is also {end} and more, and there are {end} {what}: {lacks}"
    if not has_lower:
        return f"`{value}` is also negative, and there are no such {what}: {lacks}"
    one = what.removesuffix("s")
    if re.search(rf"{pattern} <= {end}\b(?! -)|\b{end} >= {pattern}", conditions):
        return f"The condition lets {one} {end} through, and the last one is {end} - 1."
    if re.search(rf"\b0 < {pattern}|{pattern} > 0\b", conditions):
        return f"The condition leaves out {one} 0."
    other = re.search(rf"{pattern} <=? (\w+)\b", conditions)
    if other and other[1] != end:
        return f"The condition compares with {other[1]}: the number of {what} is {end}."
    return ""


def _describe_window(attempt: Attempt) -> str:
    """Return why the product goes to a wrong window, or ""."""
    window, _, loops = _find_product(attempt)
    if not window:
        return ""
    ends = {counter: end for counter, end in loops.items() if end not in ("GROUPS", "C")}
    if window.isdigit():
        return f"All products are added to the sums of window {window}. To which window does each one belong?"
    if ends.get(window) == "STEPS":
        return (
            f"`{window}` is the k-step, and the sums are those of a window. The window whose k-step `{window}` is a "
            f"pair of rows begins {window} pairs above it."
        )
    parts = re.fullmatch(r"(\w+) ([+-]) (\w+)", window)
    if not parts or {parts[1], parts[3]} - {*ends}:
        return ""
    if parts[2] == "+" or ends[parts[1]] == "STEPS":
        return (
            "k-step `step` of window n is the pair of rows n + step. So this pair is of window row - step; your "
            f"window is {window}."
        )
    return ""


def _describe_step(attempt: Attempt) -> str:
    """Return why the product gets the weights of a wrong k-step, or ""."""
    _, step, loops = _find_product(attempt)
    end = loops.get(step, "")
    if "PAIRS" in end:
        return (
            f"`weights[g]` has a word for each of the STEPS k-steps, and `{step}` counts up to {end}: for a window, "
            "the k-step of a pair of rows depends on where the window begins."
        )
    parts = re.fullmatch(r"(\w+) ([+-]) (\w+)", step)
    if (
        not parts
        or {parts[1], parts[3]} - {*loops}
        or "STEPS" in (loops[parts[1]], loops[parts[3]])
    ):
        return ""
    if parts[2] == "+" or loops[parts[1]] == "PAIRS":
        return (
            "Pair of rows n + step is k-step `step` of window n. So this pair is k-step row - n of window n; your "
            f"k-step is {step}."
        )
    return ""


# "mma(sum[0][n], weights[g][step], b0[n], b1[n])": the numbers of groups, and of the pair of rows if words are kept
_GROUPS = re.compile(
    r"\bmma\(\s*sum\[(\w+)\]\[[^\[\]]{1,60}\],\s*weights\[(\w+)\]\[[^\[\]]{1,60}\],\s*\w+(?:\[(\w+)\])?"
)


def _describe_numbers(attempt: Attempt) -> str:
    """Return which number of the product is the same for all groups, or leaves out the window or the k-step; or ""."""
    code = _read_function(attempt)
    product = _GROUPS.search(code)
    if not product:
        return ""
    to_group, of_group, pair = product.groups()
    if to_group.isdigit():
        return f"The products of all groups are added to the sums of group {to_group}."
    if of_group.isdigit():
        return f"All groups are multiplied by the weights of group {of_group}."
    if pair and dict(_list_loops_around(code, product.start())).get(pair) in ("PAIRS", "STEPS"):
        return (
            "The words of window n in k-step `step` are those of pair of rows n + step; yours are those of pair "
            f"`{pair}`."
        )
    return ""


def _describe_rows(attempt: Attempt) -> str:
    """Return how many pairs of rows the loop around the loads leaves out, or ""."""
    ends = _list_loops_around_loads(attempt)
    code = _read_function(attempt)
    load = _WORD.search(code)
    row = load and re.match(r"\w+\[(\w+) \* PITCH\b", code[load.start() :])
    end = dict(_list_loops_around(code, load.start())).get(row[1], "") if row else ""
    if end not in _TOO_FEW_ROWS or len({*ends} - {"C", "GROUPS"}) > 1:
        return ""
    return (
        f"The loop over pairs of rows makes {end} iterations. A stack of PAIRS windows has PAIRS + STEPS - 1 pairs: "
        "window 0 has STEPS of them, and each further window one more."
    )


def _describe_loads(attempt: Attempt) -> str:
    """Return which loops around the loads of words load the same words again, or "" if that is not known."""
    ends = _list_loops_around_loads(attempt)
    if "PAIRS" in ends and "STEPS" in ends:
        also = " So does each group." if "GROUPS" in ends else ""
        return (
            "Each window loads its words anew: pair of rows 3, for example, is loaded for window 0 in k-step 3, for "
            f"window 1 in k-step 2, and so on.{also} Let a loop go over the pairs of rows of the stack, and load there."
        )
    if any("PAIRS +" in end or "STEPS +" in end for end in ends):
        inside = [f"over {_WHAT[end]}" for end in ("STEPS", "GROUPS") if end in ends]
        if inside:
            return (
                f"The two words of a pair of rows are loaded inside the loop {' and the one '.join(inside)}, so again "
                "in each iteration. Where should the loads stand?"
            )
    return ""


def _loads_weights_often(attempt: Attempt) -> bool:
    """Return whether `load` stands in a loop over rows, k-steps, windows or groups."""
    code = _read_function(attempt)
    load = re.search(r"\bload\(weights\b", code)
    return bool(load) and {end for _, end in _list_loops_around(code, load.start())} > {"C"}


# `b1`: the word one row below that of `b0`.
_OTHER_WORD = re.compile(r"\bb1 = [^;,]{1,100}\+ (PITCH \* 2|2 \* PITCH|PITCH|1)\]")
_TWO_PAIRS = re.compile(
    r"\b(?:words|window)\[(?:2 \* \w+|\w+ \* 2|\(2 \* \w+ \+ \w+\)|\(\w+ \* 2 \+ \w+\)) \* PITCH(?! /)"
)
_HALF_A_PAIR = re.compile(r"\bb0 = \w+\[\(?[\w +]{1,40}\)? \* PITCH / 2\]")

EXERCISE = Exercise(
    title="Words again",
    subject=InPlaceOf(
        "speed_of_light",
        "a",
        _LAYER,
        (
            (Layer("seven windows per stack", C=2, H=33, W=15, M=8, K=7), 2),
            (Layer("one channel", C=1, H=20, W=21, M=5, K=4), 2),
        ),
    ),
    lines=24,
    goals=(
        counted(
            _LOADS,
            _NAME,
            per=_INSTRUCTIONS,
            what="loads of words per instruction",
            at_most=0.44,
            least={"matrix_operations": _INSTRUCTIONS},
            most={"global_load_requests": 560, "lane_exchanges": 0},  # with the loads of `arrange`
        ),
    ),
    start_reaches=(2,),
    mistakes=(
        Mistake(
            "A stack of PAIRS windows lies on PAIRS + STEPS - 1 pairs of rows: the first window on STEPS of them, and "
            "each further one begins a pair later. PAIRS + STEPS is one more.",
            lambda attempt: (
                "out of bounds" in attempt.findings
                and _ONE_MORE_PAIR.search(_read_function(attempt))
            ),
        ),
        Mistake(
            lambda attempt: (
                f"`b1` is the word below that of `b0`, in the next row: PITCH / 2 words further. Yours is "
                f"{_OTHER_WORD.search(_read_function(attempt))[1]} further."
            ),
            lambda attempt: attempt.runs_wrong and _OTHER_WORD.search(_read_function(attempt)),
        ),
        Mistake(
            "A row has PITCH / 2 words, and a pair of rows PITCH: your next pair begins one row below this one.",
            lambda attempt: attempt.runs_wrong and _HALF_A_PAIR.search(_read_function(attempt)),
        ),
        Mistake(
            "A row has PITCH halves, PITCH / 2 words. So PITCH words are two rows already: your rows lie twice as far "
            "apart.",
            lambda attempt: attempt.runs_wrong and _TWO_PAIRS.search(_read_function(attempt)),
        ),
        Mistake(
            "Nothing loads the weights of a channel: with several channels, `load` brings them to `weights`.",
            lambda attempt: (
                attempt.runs_wrong and not re.search(r"\bload\(|\bmask\[", _read_function(attempt))
            ),
        ),
        Mistake(
            "Each channel gets the weights of channel 0: `mask` has those of channel c STEPS * 32 words of 16 bytes "
            "further, for each channel before it.",
            lambda attempt: (
                attempt.runs_wrong
                and re.search(r"\bload\(weights, mask\)", _read_function(attempt))
                and not re.search(r"\bmask \+?= ", _read_function(attempt))
            ),
        ),
        Mistake(
            "`mask` moves on from channel to channel, and `load` adds c times as much again: one of the two is enough.",
            lambda attempt: (
                attempt.runs_wrong
                and re.search(r"\bmask \+= ", _read_function(attempt))
                and re.search(r"\bload\(weights, mask \+ c\b", _read_function(attempt))
            ),
        ),
        Mistake(
            "Each channel reads the words of channel 0: channel c begins ROWS * PITCH / 2 words further for each "
            "channel before it.",
            lambda attempt: attempt.runs_wrong and "ROWS" not in _read_function(attempt),
        ),
        Mistake(
            "`window` moves on from channel to channel, and its place is computed with c again: one of the two is "
            "enough.",
            lambda attempt: (
                attempt.runs_wrong
                and re.search(r"\bwindow \+= ROWS\b", _read_function(attempt))
                and re.search(r"\bwindow \+ c \* ROWS\b", _read_function(attempt))
            ),
        ),
        Mistake(_describe_rows, lambda attempt: attempt.runs_wrong and _describe_rows(attempt)),
        Mistake(_describe_window, lambda attempt: attempt.runs_wrong and _describe_window(attempt)),
        Mistake(_describe_step, lambda attempt: attempt.runs_wrong and _describe_step(attempt)),
        Mistake(
            _describe_numbers, lambda attempt: attempt.runs_wrong and _describe_numbers(attempt)
        ),
        Mistake(_describe_guard, lambda attempt: attempt.runs_wrong and _describe_guard(attempt)),
        Mistake(
            "The words are loaded once now, and the weights again and again: `load` stands in an inner loop. A "
            "channel's weights serve all its rows.",
            lambda attempt: (
                not attempt.runs_wrong
                and attempt.count(_LOADS, _NAME) <= 0.44 * _INSTRUCTIONS
                and attempt.count("global_load_requests", _NAME) > 560
                and _loads_weights_often(attempt)
            ),
        ),
        Mistake(
            _describe_loads,
            lambda attempt: (
                attempt.count(_LOADS, _NAME) > 0.44 * _INSTRUCTIONS and _describe_loads(attempt)
            ),
        ),
    ),
)
