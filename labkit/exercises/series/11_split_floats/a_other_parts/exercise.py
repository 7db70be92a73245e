"""Exercise 11a: other parts.

Tries find the answer, which is accepted: `labkit.exercises.subjects.Numbers` says why.
"""

from __future__ import annotations

import itertools

import numpy as np

from labkit.exercises import Attempt, Exercise, Goal, Mistake, Numbers, counted, whole_number

_BITS = {"BF16": 8, "TF32": 11}  # significant bits
_LARGEST = 2.0**-21  # the largest error, relative to the product
_MOST = 16  # products of 4 parts of x and 4 of k


def _round_to_bits(x: np.ndarray, bits: int) -> np.ndarray:
    """Return float64 values of x, rounded to `bits` significant bits."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(fraction, bits)), exponent - bits)


def _split_into_parts(x: np.ndarray, bits: int, count: int) -> list[np.ndarray]:
    """Return `count` arrays of numbers of `bits` bits, the largest first, whose sum is as near to x as possible."""
    parts = []
    for _ in range(count):
        parts.append(_round_to_bits(x - sum(parts), bits))
    return parts


def _measure_error(bits: int, products: int) -> float:
    """Return the largest relative error of a product of floats as the sum of the `products` largest products of parts.

    Each float has four parts of `bits` bits.
    """
    x, k = (
        np.random.default_rng(11).uniform(1, 2, (2, 10_000)).astype(np.float32).astype(np.float64)
    )
    # The largest first: part i is about 2^(-bits * i) of its float, so pairs with the same i + j
    # are equally large.
    order = sorted(itertools.product(range(4), repeat=2), key=lambda pair: (sum(pair), pair))
    of_x, of_k = _split_into_parts(x, bits, 4), _split_into_parts(k, bits, 4)
    total = sum(of_x[i] * of_k[j] for i, j in order[:products])
    return float(np.max(np.abs(total - x * k) / (x * k)))


def _count_answer(BF16: object, TF32: object) -> dict[str, dict[str, float]]:
    """Return for each type the reader's number of products, their error, and the error with one product fewer."""
    counts = {}
    for name, value in zip(_BITS, (BF16, TF32), strict=True):
        count = whole_number(value, "number of products", 1, _MOST)
        counts[name] = {
            "products": count,
            "error": _measure_error(_BITS[name], count),
            "fewer": _measure_error(_BITS[name], count - 1) if count > 1 else 1.0,
        }
    return counts


def _find_fewest() -> tuple[int, ...]:
    """Return the solution: the fewest products whose error is small enough, for BF16 and for TF32."""
    return tuple(
        next(n for n in range(1, _MOST) if _measure_error(bits, n) <= _LARGEST)
        for bits in _BITS.values()
    )


def _make_goals(name: str) -> tuple[Goal, Goal]:
    """Return the goals for "BF16" or "TF32": `_count_answer`'s error is small, with a product less it is not."""
    return (
        counted(
            "error", name, per=_LARGEST, what="error of a product, in units of 2^-21", at_most=1
        ),
        counted("fewer", name, per=_LARGEST, what="with one product fewer", at_least=1),
    )


def _explain(attempt: Attempt) -> str:
    """Return sentences about the types whose number of products is wrong: which product is left out, or too many."""
    pairs = sorted(
        map(sum, itertools.product(range(4), repeat=2))
    )  # i + j, the largest product first
    sentences = []
    for name, bits in _BITS.items():
        count = int(attempt.counts[name]["products"])
        if attempt.counts[name]["error"] > _LARGEST:
            left = pairs[count]
            sentences.append(
                f"{name}, {count} product{'s' * (count > 1)}: the largest one that is left out is of parts i and "
                f"j with i + j = {left}, counted from 0. It is about 2^-{bits * left} of the whole: it is needed, as "
                "is each other pair with this sum."
            )
        elif attempt.counts[name]["fewer"] < _LARGEST:
            last = pairs[count - 1]
            sentences.append(
                f"{name}: not all of the {count} matter. The last one is of parts i and j with i + j = {last}, "
                f"counted from 0: about 2^-{bits * last} of the whole."
            )
    return " ".join(sentences)


EXERCISE = Exercise(
    title="Other parts",
    subject=Numbers(_count_answer, start=(1, 1), solution=_find_fewest),
    goals=(*_make_goals("BF16"), *_make_goals("TF32")),
    mistakes=(
        Mistake(
            "Parts of BF16 have 8 bits: two of them are 16, and a float has 24. It needs three parts, and more "
            "products than those of two.",
            lambda attempt: (
                attempt.counts["BF16"]["products"] in (3, 4)
                and attempt.counts["TF32"]["products"] == 3
            ),
        ),
        Mistake(_explain, _explain),
    ),
)
