"""The exercises of page 11: answered by numbers, which are tried on random floats."""

from __future__ import annotations

import itertools

import numpy as np

from labkit.base.errors import LabError
from labkit.exercises.exercise import Exercise, Goal, Mistake
from labkit.exercises.subjects import Numbers

_BITS = {"BF16": 8, "TF32": 11}
_LARGEST = 2.0**-21  # of what is left out, relative to the product
_MOST = 16


def _rounded(x: np.ndarray, bits: int) -> np.ndarray:
    """x with `bits` significant bits."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(fraction, bits)), exponent - bits)


def _parts(x: np.ndarray, bits: int, count: int) -> list[np.ndarray]:
    """`count` numbers of so many bits, which add up to x as nearly as they can, the largest first."""
    parts = []
    for _ in range(count):
        parts.append(_rounded(x - sum(parts), bits))
    return parts


def _left_out(bits: int, products: int) -> float:
    """The largest error of a product of floats, as a sum of so many products of parts, the largest first."""
    x, k = np.random.default_rng(11).uniform(1, 2, (2, 10_000)).astype(np.float32).astype(np.float64)
    order = sorted(itertools.product(range(4), repeat=2), key=lambda each: (sum(each), each))
    of_x, of_k = _parts(x, bits, 4), _parts(k, bits, 4)
    total = sum(of_x[i] * of_k[j] for i, j in order[:products])
    return float(np.max(np.abs(total - x * k) / (x * k)))


def _products(BF16: object, TF32: object) -> dict[str, dict[str, float]]:
    found = {}
    for name, value in zip(_BITS, (BF16, TF32), strict=True):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= _MOST:
            raise LabError(f"{value!r} is no number of products; it is an integer from 1 to {_MOST}")
        found[name] = {"products": int(value), "error": _left_out(_BITS[name], int(value)),
                       "fewer": _left_out(_BITS[name], int(value) - 1) if value > 1 else 1.0}
    return found


def _fewest() -> tuple[int, ...]:
    return tuple(next(n for n in range(1, _MOST) if _left_out(bits, n) <= _LARGEST) for bits in _BITS.values())


def _goals_of(name: str) -> tuple[Goal, Goal]:
    return (
        Goal(f"error of a product, in units of 2^-21, {name}", lambda counts: counts[name]["error"] / _LARGEST,
             at_most=1),
        Goal(f"with one product fewer, {name}", lambda counts: counts[name]["fewer"] / _LARGEST, at_least=1),
    )


# ------------------------------------------------------------------------------------------- 11b: small beside large
_PIXEL = "a pixel 2^n times smaller"
_FARTHEST = 60


def _kept(n: int) -> tuple[float, float]:
    """Of pixels about 2^n times smaller than the largest: their largest relative error, the share that becomes 0."""
    pixels = np.ldexp(np.random.default_rng(11).uniform(1, 2, 10_000).astype(np.float32), 14 - n)
    high = pixels.astype(np.float16)
    both = high.astype(np.float64) + (pixels - high).astype(np.float16)
    return float(np.max(np.abs(both - pixels) / pixels)), float(np.mean(both == 0))


def _distances(exact: object, there: object) -> dict[str, dict[str, float]]:
    for value in (exact, there):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < _FARTHEST:
            raise LabError(f"{value!r} is no exponent; it is an integer from 0 to {_FARTHEST - 1}")
    counts = {"exact": exact, "there": there, "error": _kept(exact)[0], "farther": _kept(exact + 1)[0]}
    return {_PIXEL: {**counts, "gone": _kept(there)[1], "beyond": _kept(there + 1)[1]}}


def _farthest() -> tuple[int, int]:
    exact = max(n for n in range(_FARTHEST) if _kept(n)[0] <= 2.0**-22)
    return exact, max(n for n in range(_FARTHEST) if _kept(n)[1] == 0)


EXERCISES = (
    Exercise(
        number="11a",
        page="split_floats",
        title="Other parts",
        subject=Numbers(_products, start=(3, 3), solution=_fewest),
        goals=(*_goals_of("BF16"), *_goals_of("TF32")),
        hints=(
            "What does the first part of a number leave, relative to the number? And the first two?",
            "Count the parts from 0. With parts of n bits, part i of a number is 2^(-n i) of it or less. The product "
            "of part i and part j is at most 2^(-n (i + j)) of the whole product.",
            "With 8 bits, the products with i + j = 2 are 2^-16 of the whole: they are needed. Those with i + j = 3 "
            "are not. Count the pairs.",
        ),
        mistakes=(
            Mistake(
                "Parts of BF16 have 8 bits: two of them are 16, and a float has 24. It needs three parts, and more "
                "products than those of two.",
                lambda attempt: attempt.counts["BF16"]["products"] in (3, 4),
            ),
            Mistake(
                "Three parts make nine products, but not all of them matter.",
                lambda attempt: attempt.counts["BF16"]["products"] == 9,
            ),
            Mistake(
                "TF32 has as many bits as half: what holds for the products of half holds for its products, too.",
                lambda attempt: attempt.counts["TF32"]["products"] != 3,
            ),
        ),
    ),
    Exercise(
        number="11b",
        page="split_floats",
        title="Small beside large",
        subject=Numbers(_distances, start=(11, 24), solution=_farthest),
        goals=(
            Goal("error, in units of 2^-22", lambda counts: counts[_PIXEL]["error"] * 2**22, at_most=1),
            Goal("error with n larger by one", lambda counts: counts[_PIXEL]["farther"] * 2**22, at_least=1.5),
            Goal("share of pixels that become 0", lambda counts: counts[_PIXEL]["gone"], exactly=0),
            Goal("with n larger by one", lambda counts: counts[_PIXEL]["beyond"], at_least=0.99),
        ),
        hints=(
            "After scaling the largest pixel is 2^14 or more. How large is a pixel 2^n times smaller, and how large is "
            "its low part?",
            "Halves below 2^-14 are 2^-24 apart. So the low part is off by 2^-25 at most, however small it is.",
            "An error of 2^-25 is 2^-22 of a pixel of 2^-3, and 2^-3 = 2^14 / 2^17. A pixel under 2^-25 is nearer to 0 "
            "than to the smallest half.",
        ),
        mistakes=(
            Mistake(
                "The first number is the distance at which the high part becomes subnormal. The low part is about "
                "2^-12 of its pixel, so it loses bits long before.",
                lambda attempt: attempt.counts[_PIXEL]["exact"] in (27, 28, 29),
            ),
            Mistake(
                "At the second distance the pixel becomes subnormal. It is still there, with fewer bits.",
                lambda attempt: attempt.counts[_PIXEL]["there"] in (28, 29),
            ),
            Mistake(
                "The largest pixel is scaled to 2^14, not to 1: both distances are larger by 14.",
                lambda attempt: (
                    attempt.counts[_PIXEL]["exact"] == _farthest()[0] - 14
                    or attempt.counts[_PIXEL]["there"] == _farthest()[1] - 14
                ),
            ),
        ),
    ),
)
