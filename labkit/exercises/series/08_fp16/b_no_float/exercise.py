"""Exercise 08b: no float.

A cheat would sum integers, in a unit that all products have: the masks of maps differ by 2^16, so those
of the smallest are lost. Halves whose last bits are lost in one long sum have a larger error, too.
"""

import re

from hostcuda.source import loops
from labkit.exercises import (
    HIDDEN,
    LAYERS,
    SOURCE,
    Attempt,
    Exercise,
    Goal,
    InPlaceOf,
    Mistake,
    counted,
)
from labkit.spec.layers import Layer

_LONG = Layer("3136 products", C=64, H=10, W=11, M=4, K=7)
_ROUNDING = 2.0**-11  # the largest relative error of one rounding to half

# In each turn of the loop over i, a part of so many products is added to the sum.
_SHORT_PARTS = re.compile(
    r"; *i \+= (2|4|8)\)\s*(?:\{[^}]*?)?\bsum = __hadd2\((?:sum\b|[^;]*, sum\);)"
    r"|\bi\)? % (2|4|8) == \d\)\s*\{?\s*sum = __hadd2\(sum\b"
)
# The part begins at zero before each product.
_ZERO_PER_PRODUCT = re.compile(
    r"; *\+\+i\)\s*\{?\s*(?:half2 )?part = __\w*half2\w*\([^;]*[;,]\s*part = __hfma2"
)
# A product is added to the sum at once, in the statement behind it or in the same.
_PRODUCT_ADDED = re.compile(
    r"\b(\w+) = __hmul2\([^;]*[;,]\s*(\w+) = __hadd2\((?:\2, \1|\1, \2)\)|__hadd2\([^;]*__hmul2\("
)


def _count_terms(attempt: Attempt) -> int:
    """Return the number of products in a part that is added inside of the loop over i; 0 if there is none."""
    parts = _SHORT_PARTS.search(attempt.source)
    return int(parts[1] or parts[2]) if parts else 0


def _adds_products_alone(attempt: Attempt) -> bool:
    """Return whether the loop over the steps has no addition but that of products, by __hfma2 or behind __hmul2."""
    loop = next((text for text in loops(attempt.source) if "__syncthreads" in text), "")
    if "__hfma2(" not in loop and re.search(_PRODUCT_ADDED, loop):
        return loop.count("__hadd2(") == 1
    return "__hfma2(" in loop and not re.search(r"__hadd|\bpart\b[^;]* \+|\+=(?! TILE)", loop)


EXERCISE = Exercise(
    title="No float",
    subject=InPlaceOf(
        "fp16",
        "b",
        {"layer 2": LAYERS["layer 2"]},
        (*HIDDEN[::2], (_LONG, 1)),
        {"step": "half2"},
        exponents=(-11, 5),  # masks and sums stay in the range of a half
    ),
    lines=3,
    goals=(
        counted(
            "largest_error",
            _LONG.name,
            per=_ROUNDING,
            at_most=4.6,
            what="largest error in units of 2^-11",
        ),
        Goal(
            "floats: variables, conversions, constants",
            lambda counts: counts[SOURCE]["floats"],
            counters=("floats",),
            on=SOURCE,
            exactly=0,
        ),
    ),
    start_reaches=(None, 0),
    mistakes=(
        Mistake(
            "The text still makes floats, or doubles, which count, too. A conversion such as __low2float gives "
            "one, and so does a constant such as 0.5f. __hfma2 and __hadd2 take halves and give halves: keep both "
            "levels in half2.",
            lambda attempt: attempt.counts and attempt.counts[SOURCE]["floats"] > 0,
        ),
        Mistake(
            "The part begins with the sum of the steps before, so all products are still added to one long sum, and "
            "lose their last bits there. A sum of few products is small: what should a part begin with?",
            lambda attempt: (
                not attempt.wrong
                and attempt.counts
                and attempt.matches(r"\bpart = sum;")
                and attempt.matches(r"\bsum = part;")
            ),
        ),
        Mistake(
            lambda attempt: (
                f"A part has only {_count_terms(attempt)} products here, so {3136 // _count_terms(attempt):,} parts "
                "are added to one large sum, each with an error of its own. Fewer and longer parts: which products of "
                "a step belong together?"
            ),
            lambda attempt: (
                not attempt.wrong
                and attempt.count("largest_error", _LONG.name) > 4.6 * _ROUNDING
                and _count_terms(attempt) > 1
            ),
        ),
        Mistake(
            "In the loop over the steps nothing is added but single products. So each sum there goes on through all "
            "steps, and a product that is added to a large sum loses its last bits. Sum the products of one step "
            "alone, then add that part.",
            lambda attempt: (
                not attempt.wrong
                and attempt.count("largest_error", _LONG.name) > 4.6 * _ROUNDING
                and _adds_products_alone(attempt)
            ),
        ),
        Mistake(
            "The part is set to zero before each product, so only the last product of a step is left in it: it has to "
            "begin at zero once per step.",
            lambda attempt: attempt.runs_wrong and attempt.matches(_ZERO_PER_PRODUCT),
        ),
        Mistake(
            "The part has no value when the first product is added to it: it has to begin at zero in each step.",
            lambda attempt: (
                attempt.wrong
                and "half2 part;" in attempt.source
                and not attempt.matches(r"\bpart = (?!__hfma2)")
            ),
        ),
        Mistake(
            "Each step adds its part, and the part still has the products of the steps before: it has to begin at "
            "zero in each step.",
            lambda attempt: (
                attempt.wrong
                and "__hadd2" in attempt.source
                and attempt.source.find(" part") < attempt.source.find("for (int step")
                and not re.search(
                    r"\bpart = (?!__hfma2)", attempt.source.partition("for (int step")[2]
                )
            ),
        ),
        Mistake(
            "After each product the sum gets the whole part, with the products before it. Add the part once per step, "
            "after the loop over i.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(
                    r", part\)\s*,\s*sum = __hadd2\(|\{\s*part = __hfma2\([^;]*;\s*sum = __hadd2\("
                )
            ),
        ),
        Mistake(
            "The result holds the last step only: the part has to be added to the sum of the steps before.",
            lambda attempt: attempt.wrong.startswith("right") and attempt.matches(r"\bsum = part;"),
        ),
    ),
)
