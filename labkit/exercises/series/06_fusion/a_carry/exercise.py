"""Exercise 06a: carry."""

import functools
import re

from labkit.exercises import LAYERS, SOURCE, Attempt, Exercise, Goal, InPlaceOf, Mistake
from labkit.exercises.arithmetic import Change, Follower, NotKnown, find_body
from labkit.exercises.exercise import join_words
from labkit.exercises.text import count_features
from labkit.spec.layers import Layer

_ADDS_ALL = re.compile(r"\bq \+= (?:TILE|16);")
# A digit of TILE: "TILE % K", "TILE / (K * K)".
_OF_TILE = re.compile(r"\b(?:TILE|16)(?: *[/%] *(?:K\b|\(K \* K\)))+")
_ANY_K = (
    (Layer("K = 1", C=40, H=5, W=6, M=3, K=1), 1),
    (Layer("K = 2", C=9, H=8, W=11, M=5, K=2), 2),
    (Layer("K = 3", C=7, H=12, W=9, M=18, K=3), 2),
)


def _still_divides(attempt: Attempt) -> bool:
    """Return whether the loop computes a digit from the row by a division, as the starting code does."""
    return attempt.matches(r"\brow\b[^;]*[/%]")


def _grows(digit: str, attempt: Attempt) -> bool:
    """Return whether the loop adds something to this digit, or sets it."""
    loop = attempt.source.partition("for (int step")[2]
    return bool(re.search(rf"\b{digit} *(?:\+?=(?!=)|\+\+)|(?:\+\+|& *){digit}\b", loop))


def _goes_back(digit: str, attempt: Attempt) -> bool:
    """Return whether the loop subtracts something from this digit, or sets it."""
    loop = attempt.source.partition("for (int step")[2]
    return bool(re.search(rf"\b{digit} *(?:[-%]?=(?!=))|& *{digit}\b", loop))


def _changes(digit: str, attempt: Attempt, before: str = "", behind: str = "") -> bool:
    """Return whether the loop may change this digit, before or behind a text in it."""
    loop = attempt.source.partition("for (int step")[2]
    loop = loop.partition(before)[0] if before else loop
    loop = loop.rpartition(behind)[2] if behind else loop
    return bool(re.search(rf"\b{digit} *(?:[-+]?=(?!=)|\+\+|--)|(?:\+\+|--|&) *{digit}\b", loop))


def _carries_p_first(attempt: Attempt) -> bool:
    """Return whether q carries into p behind the last comparison of p with K, and before the next load."""
    loop = attempt.source.partition("for (int step")[2]
    load = loop.find("x[")
    into_p = r"(?:\+\+p|\bp\+\+|\bp \+= 1)\b|\bp\+\+"
    carries = [
        match.end()
        for match in re.finditer(
            rf"\bq *(?:>=|==) *K\b[^;}}]*(?:;[^;}}]*)?(?:{into_p})|\bp \+= [^;]*\bq *(?:>=|==) *K\b",
            loop,
        )
    ]
    compares = [match.start() for match in re.finditer(r"\bp *(?:>=|==) *K\b(?! *-)", loop)]
    # with the load behind or before all of them, nothing is compared between carry and load
    return bool(
        carries and compares and max(compares) < carries[0] and not compares[0] < load < carries[0]
    )


_MOST_CHANGES = 8  # of digits in a step, that are listed
_BUDGET = 600_000  # tokens that all threads read: the solution's read 290,000
_TILE, _FAR = 16, 256  # _FAR: H and W so large that the index of an input shows its three digits
# What a step does to a digit: with the K of a shape.
_STEP = {
    "q": "A step adds TILE % K = {0} to q. When q has reached K, it goes back by K and carries one to p.",
    "p": "A step adds TILE / K % K = {1} to p, and one more if q carries. When p has reached K, it goes back by K and "
    "carries one to c.",
    "c": "A step adds TILE / (K * K) = {2} to c, and one more if p carries.",
}


def _split(row: int, base: int) -> tuple[int, int, int]:
    """Return the three digits of a number: the last two are below `base`."""
    return row // base // base, row // base % base, row % base


@functools.lru_cache(maxsize=4)
def _follow_digits(source: str) -> str:
    """Return where the digits (c, p, q) of an attempt first differ from those of the row; "" if that is not known."""
    body, line = find_body(source, "conv")
    budget = _BUDGET
    # Channels and K of the shapes that are checked.
    for channels, K in ((7, 3), (9, 2), (4, 7), (40, 1)):
        wrong = []
        for thread in range(_TILE):
            names = {
                "FIXED_K": K,
                "TILE": _TILE,
                "C": channels,
                "H": _FAR,
                "W": _FAR,
                "M": 16,
                "B": 1,
            }
            names |= {f"{part}.{axis}": 0 for part in ("blockIdx", "threadIdx") for axis in "xyz"}
            follower = Follower({**names, "threadIdx.y": thread}, "x", budget)
            try:
                follower.follow(body, line)
            except NotKnown:
                return ""
            budget = follower.budget
            rows = range(thread, channels * K * K, _TILE)
            if len(follower.taken) < len(rows):
                return ""
            for step, (row, taken) in enumerate(zip(rows, follower.taken, strict=False)):
                if taken.index < 0:
                    return ""
                if (got := _split(taken.index, _FAR)) != _split(row, K):
                    before = follower.taken[step - 1].changes if step else 0
                    changes = follower.changes[before : taken.changes]
                    wrong.append((step, row, got, changes))
                    break
        if wrong:
            step, row, got, changes = min(wrong, key=lambda first: first[:2])
            return _describe_digits(K, row, got, changes if step else [], source)
    return ""


def _describe_digits(
    K: int, row: int, got: tuple[int, int, int], changes: list[Change], source: str
) -> str:
    """Return the sentences about a row whose digits are wrong, and what changed them since the row before."""
    right = _split(row, K)
    name, wrong, wanted = next(
        (name, is_, should_be)
        for name, is_, should_be in zip("qpc", got[::-1], right[::-1], strict=True)
        if is_ != should_be
    )
    text = (
        f"Take K = {K}. Row {row} has (c, p, q) = {right}, and your kernel loads {got} for it: {name} is {wrong}, "
        f"not {wanted}."
    )
    changes = [of for of in changes if of.name in ("c", "p", "q") and of.before != of.after]
    if not changes:
        return text
    step = _STEP[name].format(*_split(_TILE, K)[::-1])
    if len(changes) > _MOST_CHANGES:
        return f"{text} {step}"
    made = join_words([f"line {line} makes {name} {after}" for line, name, _, after in changes])
    text += f" From row {row - _TILE}, {_split(row - _TILE, K)}, {made}."
    lower = {"p": "q", "c": "p"}.get(name)
    back = [
        i for i, of in enumerate(changes) if of.name == lower and of.after == (of.before or 0) - K
    ]
    looks = re.compile(rf"\b{name} \+= [^;]*\b{lower} >= K\b")
    asked = [n for n, words in enumerate(source.splitlines(), 1) if looks.search(words)]
    if wrong == wanted - 1 and len(back) == len(asked) == 1 and changes[back[0]].line < asked[0]:
        return (
            f"{text} Line {changes[back[0]].line} takes K off {lower} before line {asked[0]} asks whether {lower} has "
            f"reached K, so {name} misses the carry. Carry first, then take K off."
        )
    return f"{text} {step}"


EXERCISE = Exercise(
    title="Carry",
    subject=InPlaceOf("fusion", "a", {"layer 2": LAYERS["layer 2"]}, _ANY_K),
    lines=10,
    goals=(
        Goal(
            "divisions and remainders in loops",
            lambda counts: counts[SOURCE]["divisions_in_loops"],
            counters=("divisions_in_loops",),
            on=SOURCE,
            exactly=0,
        ),
    ),
    start_reaches=(4,),
    mistakes=(
        Mistake(
            "The digits have to begin with the thread's own row, threadIdx.y: its c, p and q come from divisions "
            "before the loop.",
            # Only m takes threadIdx.y before the loop.
            lambda attempt: (
                attempt.runs_wrong
                and not _still_divides(attempt)
                and attempt.source.partition("for (int step")[0].count("threadIdx.y") < 2
            ),
        ),
        Mistake(
            "One carry may not be enough: a step adds TILE = 16 to q, more than two times 7. Carry with while in "
            "place of if; or add the digits of TILE, and none carries more than once.",
            lambda attempt: (
                attempt.runs_wrong
                and attempt.matches(_ADDS_ALL)
                and "if (q >= K)" in attempt.source
            ),
        ),
        Mistake(
            "The first q is threadIdx.y here, up to 15. A digit is below K: c, p and q of the first row come from "
            "divisions before the loop, as in the starting code.",
            lambda attempt: (
                attempt.runs_wrong
                and attempt.matches(r"\bq = threadIdx\.y[,;]")
                and "while" not in attempt.source
            ),
        ),
        Mistake(
            "In the loop c never grows. When p has reached K, it carries one to c, as q does to p.",
            lambda attempt: (
                attempt.runs_wrong and not _still_divides(attempt) and not _grows("c", attempt)
            ),
        ),
        Mistake(
            "In the loop p never grows. When q has reached K, it carries one to p.",
            lambda attempt: (
                attempt.runs_wrong and not _still_divides(attempt) and not _grows("p", attempt)
            ),
        ),
        Mistake(
            "In the loop a digit only grows: when q or p has reached K and carries, it has to go back by K.",
            lambda attempt: (
                attempt.runs_wrong
                and not _still_divides(attempt)
                and not all(_goes_back(digit, attempt) for digit in ("p", "q"))
            ),
        ),
        Mistake(
            "q goes back before p looks at it, or p before c: then the digit has never reached K, and nothing is "
            "carried. Carry first, and let the digit go back afterwards.",
            lambda attempt: (
                attempt.runs_wrong
                and not _still_divides(attempt)
                and attempt.matches(
                    r"\bq -= q >= K[^;]*;[^}]{0,500}\bp \+=[^;]*\(q >= K\)|"
                    r"\bp -= p >= K[^;]*;[^}]{0,500}\bc \+=[^;]*\(p >= K\)"
                )
            ),
        ),
        Mistake(
            "p is compared with K before q carries into it: the carry may make p equal to K, and the next step loads "
            "with this p. Carry from the last digit up: q into p, then p into c.",
            lambda attempt: (
                attempt.runs_wrong and not _still_divides(attempt) and _carries_p_first(attempt)
            ),
        ),
        Mistake(
            "The digits go on before they are used for the first time: so the first step loads the rows of the second.",
            lambda attempt: (
                attempt.runs_wrong
                and not _still_divides(attempt)
                and _changes("q", attempt, before="x[")
                and not _changes("q", attempt, behind="x[")
            ),
        ),
        Mistake(
            lambda attempt: _follow_digits(attempt.source),
            lambda attempt: attempt.runs_wrong and _follow_digits(attempt.source),
            vague=True,
        ),
        Mistake(
            "Do the digits stay those of the row? Take the K of this shape. Write down (c, p, q) of each row below "
            "K * K, follow your additions and carries for one step, and compare with the digits of the row 16 further.",
            lambda attempt: (
                not _still_divides(attempt)
                and (
                    attempt.wrong.startswith("right")
                    or ("out of bounds" in attempt.findings and " at x[" in attempt.wrong)
                )
            ),
            vague=True,
        ),
        Mistake(
            "TILE / K and TILE % K are constants: the compiler computes them, and no thread divides. But this goal "
            "reads the text of the loop. Compute them before the loop, as `constexpr int DQ = TILE % K`.",
            lambda attempt: (
                attempt.counts
                and attempt.counts[SOURCE]["divisions_in_loops"] > 0
                and not count_features(_OF_TILE.sub("", attempt.source))["divisions_in_loops"]
            ),
        ),
        Mistake(
            "A function or a lambda that the loop calls runs once per step, as if its text stood in the loop: its "
            "divisions count.",
            lambda attempt: (
                attempt.counts
                and attempt.counts[SOURCE]["divisions_in_loops"] > 0
                and not re.search(r"[/%]", attempt.source.partition("for (int step")[2])
            ),
        ),
        Mistake(
            "The digits are carried, but the loop still divides: quotients and remainders by a constant count, "
            "too. A digit that has reached K needs a comparison and a subtraction.",
            lambda attempt: attempt.counts and not attempt.matches(r"\brow\b[^;]*[/%]"),
        ),
        Mistake(
            "This divides less often, and the goal is a loop without any division or remainder. The digits of a "
            "step follow from those of the step before, by additions and comparisons with K.",
            lambda attempt: attempt.counts and 0 < attempt.counts[SOURCE]["divisions_in_loops"] < 4,
        ),
    ),
)
