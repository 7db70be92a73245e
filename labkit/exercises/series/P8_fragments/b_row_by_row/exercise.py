"""Exercise P8b: a longer sum on tensor cores, with a matrix whose rows are one behind the other."""

import re

from hostcuda.source import loops
from labkit.exercises import Attempt, Case, Exercise, Kernels, Mistake
from labkit.exercises.causes import NEXT_PRODUCT, RIGHT_FIRST_PRODUCT, SINGLE_FLOATS
from labkit.exercises.practice import (
    EXCHANGED_REGISTERS,
    OTHER_LANES,
    SINGLE_SUMS,
    has_own_products,
    make_product_goals,
    products,
)

# The next row of a column of b, as a part of an index: "(k + 1) * 8".
_NEXT_ROW = r"\([\w *+]+ \+ 1\) *\* *8\b"


def _exchanges_halves(attempt: Attempt) -> bool:
    """Return whether a word of b is put together with the half of the next row in its lower 16 bits."""
    named = re.findall(rf"\b(\w+) = [^,;|<]*{_NEXT_ROW}[^,;|<]*[,;]", attempt.source)
    for half in (*(rf"\b{name}\b" for name in named), rf"\bb\[{_NEXT_ROW} \+ \w+\]"):
        if attempt.matches(
            # not shifted, before or behind the other half, which is; or as the first argument
            rf"(?<!\w){half}\)* *\|[^;|]*<< *16|<< *16\)* *\| *[\w(]*(?<!\w){half}|"
            rf"__halves2half2\([\w(]*(?<!\w){half}\)*,"
        ):
            return True
    return False


def _has_short_rows(attempt: Attempt) -> bool:
    """Return whether rows of 8 words are counted in a statement, "g * 8 +", that is not about c, whose rows have 8."""
    return any(
        re.search(r"\bg *\* *8 *\+", statement)
        and not re.search(r"\b[cC]\b|\bout\b|\bfloat2\b|\bd\[\d\]", statement)
        for statement in re.split(r"[;{}]", attempt.source)
    )


EXERCISE = Exercise(
    title="Row by row",
    subject=Kernels(
        products,
        (
            Case("a product, K = 16", (1, 16, True)),
            Case("2 products, K = 64", (2, 64, True), counted=True),
        ),
        hidden=(range(1, 4), range(16, 161, 16), [True]),
    ),
    goals=make_product_goals(
        "2 products, K = 64", loads=2 * 4 * 8, moved=2 * (2 * 24 * 64 + 512), operations=2 * 4
    ),
    mistakes=(
        SINGLE_FLOATS,
        NEXT_PRODUCT,
        RIGHT_FIRST_PRODUCT,
        Mistake(
            "A register of b has two rows of one column, the first in its lower 16 bits: shift the half of row k + 1 "
            "to the left by 16, not that of row k.",
            lambda attempt: attempt.wrong.startswith("right") and _exchanges_halves(attempt),
        ),
        Mistake(
            "This reads b as in P8a, where its columns are one behind the other. Here its rows are: row k of column g "
            "is b[k * 8 + g], and the two halves of a register come from two rows.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"\b(?:b|columns)\[(?:column|g) *\* *(?:16|K|8)\b")
            ),
        ),
        Mistake(
            "The two halves of a register are rows k and k + 1 of one column. Here the second one is the next "
            "element in memory. In b, whose rows are stored one behind the other, that is the next column.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"\bb\[([^\[\]]+)\][^;\[\]]*\bb\[\1 \+ 1\]")
            ),
        ),
        OTHER_LANES,
        SINGLE_SUMS,
        EXCHANGED_REGISTERS,
        Mistake(
            "Here a row of a has K halves, K / 2 words: row g begins at word g * K / 2, not at 8 g.",
            lambda attempt: attempt.wrong.startswith("right") and _has_short_rows(attempt),
        ),
        Mistake(
            "Each block has a product of its own: begin at element 16 K blockIdx.x of a, 8 K blockIdx.x of b, and "
            "128 blockIdx.x of c.",
            lambda attempt: attempt.wrong.startswith("right") and not has_own_products(attempt),
        ),
        Mistake(
            "d is set to zero in each step of 16, inside the loop over k: only the products of the last step remain.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and any(
                    re.search(r"\bd\[\w+\] = 0|\bfloat d\[4\] = \{", loop) and "mma(" in loop
                    for loop in loops(attempt.source)
                )
            ),
        ),
        Mistake(
            "c is stored in each step of 16, and only the last store counts: the stores stand inside the loop over k. "
            "When is d complete?",
            lambda attempt: (
                attempt.count("global_store_requests", "2 products, K = 64") > 2 * 2
                and any(
                    re.search(r"\] = (?:make_float2\()?d\[0\]", loop)
                    for loop in loops(attempt.source)
                )
            ),
        ),
    ),
)
