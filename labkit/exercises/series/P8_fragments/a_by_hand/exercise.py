"""Exercise P8a: the fragments of one product on tensor cores."""

import re

from labkit.exercises import Attempt, Case, Exercise, Kernels, Mistake
from labkit.exercises.causes import RIGHT_FIRST_PRODUCT, SINGLE_FLOATS
from labkit.exercises.practice import (
    EXCHANGED_REGISTERS,
    OTHER_LANES,
    SINGLE_SUMS,
    has_own_products,
    make_product_goals,
    products,
)
from labkit.exercises.text import find_line

# "*B = (const unsigned *)b": an array of words
_WORDS = re.compile(r"\*\s*(?:const )?(\w+) = \((?:const )?(?:unsigned|unsigned int|uint32_t) \*\)")


def _explain_halves(attempt: Attempt) -> str:
    """Return which line goes 8 words further where it should be 8 halves, or ""."""
    names = "|".join(_WORDS.findall(attempt.source))
    index = names and re.search(
        rf"\b(?:{names})\[[^\[\]]{{0,60}}?(?<!\* )\bt \+ (8)\]", attempt.source
    )
    if not index:
        return ""
    line = find_line(attempt.source, index.start(1))
    return (
        f"Line {line} goes 8 words further, t + 8. Eight rows of b, like eight columns of a, are 8 halves, and a word "
        "has two of them: t + 4."
    )


# "(const unsigned *)a + blockIdx.x * 256": a pointer to words, moved by as many as a matrix has halves
_MOVED_BY_HALVES = re.compile(
    r"\(const unsigned (?:int )?\*\)\s*"
    r"(?:a \+ blockIdx\.x \* (256|16 \* 16)|b \+ blockIdx\.x \* (128|16 \* 8|8 \* 16))\b(?! *[/*])"
)


def _explain_block(attempt: Attempt) -> str:
    """Return which line moves a pointer to words by a number of halves, or ""."""
    moved = _MOVED_BY_HALVES.search(attempt.source)
    if not moved:
        return ""
    halves, words = ("256", "128") if moved[1] else ("128", "64")
    return (
        f"Line {find_line(attempt.source, moved.start())} moves a pointer to words, of two halves each. A block's "
        f"matrix has {halves} halves, which are {words} words."
    )


EXERCISE = Exercise(
    title="By hand",
    subject=Kernels(
        products,
        (Case("a product", (1, 16, False)), Case("5 products", (5, 16, False), counted=True)),
        hidden=(range(1, 9), [16], [False]),
    ),
    goals=make_product_goals("5 products", loads=5 * 6, moved=5 * (2 * 384 + 512), operations=5),
    mistakes=(
        SINGLE_FLOATS,
        Mistake(_explain_block, lambda attempt: attempt.runs_wrong and _explain_block(attempt)),
        RIGHT_FIRST_PRODUCT,
        Mistake(
            "Two instructions per product: one m16n8k16 adds all 16 terms. For it, a lane gives four words of a "
            "and two of b at once.",
            lambda attempt: attempt.count("matrix_operations", "5 products") == 2 * 5,
        ),
        OTHER_LANES,
        SINGLE_SUMS,
        Mistake(_explain_halves, lambda attempt: attempt.runs_wrong and _explain_halves(attempt)),
        EXCHANGED_REGISTERS,
        Mistake(
            "d[0] and d[2] do not lie side by side in c. Two neighbours of a row are d[0] and d[1], of row g, and "
            "d[2] and d[3], of row g + 8.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"make_float2\(\w+\[0\], *\w+\[2\]\)")
            ),
        ),
        Mistake(
            "Here b is stored column by column: its column g begins at word 8 g, and word t of it has rows 2t and "
            "2t + 1.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"\bt\b[^\[\];]*\* *8 *\+ *g\b")
            ),
        ),
        Mistake(
            "Each block has a product of its own: begin at element 256 blockIdx.x of a, and 128 blockIdx.x of b and c.",
            lambda attempt: attempt.wrong.startswith("right") and not has_own_products(attempt),
        ),
    ),
)
