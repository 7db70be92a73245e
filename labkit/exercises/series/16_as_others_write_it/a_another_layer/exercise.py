"""Exercise 16a: another layer.

Tries find the answer, which is accepted: `labkit.exercises.subjects.Numbers` says why.
"""

import math

import numpy as np

from labkit.base.errors import LabError
from labkit.base.numerals import shorten
from labkit.exercises import Attempt, Exercise, Goal, Mistake, Numbers, whole_number
from labkit.exercises.exercise import join_words
from labkit.spec.layers import LENET72

_LAYER, _TILE = LENET72[1], "the tile"
_LEAST = 16  # terms of a product in Triton


def _share_pct(terms: int, maps: int) -> float:
    """Return how much of the multiply-adds of a Triton program the layer needs [%]."""
    return 100 * math.prod(
        size / (-(-size // tile) * tile) for size, tile in ((_LAYER.terms, terms), (_LAYER.M, maps))
    )


def _count_answer(TERMS: object, MAPS: object, share_pct: object) -> dict[str, dict[str, float]]:
    """Return the reader's tile, the share [%] of needed products with it, and by how much the reader's share is off."""
    terms, maps = (
        whole_number(value, f"size {name}", 1, 1024)
        for value, name in ((TERMS, "TERMS"), (MAPS, "MAPS"))
    )
    if (
        isinstance(share_pct, bool)
        or not isinstance(share_pct, (int, float, np.number))
        or not 0 <= share_pct <= 100
    ):
        raise LabError(
            f"{shorten(share_pct)} is no share: it is a number of per cent, such as 87.5"
        )
    powers = sum(
        size >= least and size & (size - 1) == 0 for size, least in ((terms, _LEAST), (maps, 1))
    )
    return {
        _TILE: {
            "terms": terms,
            "maps": maps,
            "powers": powers,
            "share": _share_pct(terms, maps),
            "said": float(share_pct),
            "off": abs(share_pct - _share_pct(terms, maps)),
        }
    }


def _count(name: str):
    """Return the function that a goal takes for a number of `_count_answer`."""
    return lambda counts: counts[_TILE][name]


def _explain_sizes(attempt: Attempt) -> str:
    """Return sentences about the sizes that Triton does not take."""
    terms, maps = (int(attempt.counts[_TILE][name]) for name in ("terms", "maps"))
    others = [
        f"{name} = {size}" for name, size in (("TERMS", terms), ("MAPS", maps)) if size & (size - 1)
    ]
    sentences = []
    if others:
        verb = "are no powers" if others[1:] else "is no power"
        sentences.append(f"{join_words(others)} {verb} of two, and tl.arange takes no other sizes.")
    if terms < _LEAST:
        sentences.append(f"TERMS = {terms} is too few: tl.dot takes at least {_LEAST} terms.")
    return " ".join(sentences)


EXERCISE = Exercise(
    title="Another layer",
    subject=Numbers(_count_answer, start=(32, 16, 88), solution=lambda: (16, 32, 74.5)),
    goals=(
        Goal("sizes that Triton takes", _count("powers"), exactly=2),
        Goal("maps that a program computes", _count("maps"), at_least=_LAYER.M),
        Goal("products that are needed (%)", _count("share"), at_least=74, words="the most"),
        Goal("your share, off by (percentage points)", _count("off"), at_most=0.5),
    ),
    mistakes=(
        Mistake(
            _explain_sizes,
            lambda attempt: attempt.counts[_TILE]["powers"] < 2,
        ),
        Mistake(
            "This layer has 24 maps, and a program computes all of them: in implicit_gemm.py MAPS is at least M.",
            lambda attempt: attempt.counts[_TILE]["maps"] < _LAYER.M,
        ),
        Mistake(
            "Half of this MAPS holds all 24 maps, too: more than half of the tile's maps do not exist.",
            lambda attempt: attempt.counts[_TILE]["maps"] >= 2 * _LAYER.M,
        ),
        Mistake(
            "The share is asked for in per cent.",
            lambda attempt: (
                abs(100 * attempt.counts[_TILE]["said"] - attempt.counts[_TILE]["share"]) < 0.5
            ),
        ),
        Mistake(
            "This is the share of the maps, or of the terms, alone. A product is needed if its map and its term both "
            "exist: multiply the two.",
            lambda attempt: any(
                abs(attempt.counts[_TILE]["said"] - share) < 0.5
                for share in (
                    _share_pct(int(attempt.counts[_TILE]["terms"]), _LAYER.M),
                    _share_pct(_LAYER.terms, int(attempt.counts[_TILE]["maps"])),
                )
            ),
        ),
        Mistake(
            "This is the share of the products that are not needed: zeros, and maps that do not exist.",
            lambda attempt: (
                abs(100 - attempt.counts[_TILE]["said"] - attempt.counts[_TILE]["share"]) < 0.5
            ),
        ),
        Mistake(
            "The sizes waste least, and the share is another one. A step holds TERMS terms, and only the last one has "
            "terms that do not exist: all steps together hold how many?",
            lambda attempt: (
                attempt.counts[_TILE]["share"] >= 74 and attempt.counts[_TILE]["off"] > 0.5
            ),
        ),
        Mistake(
            "The last step along the terms is filled with zeros. What does it hold with your TERMS, and what with a "
            "smaller one?",
            lambda attempt: attempt.counts[_TILE]["terms"] > _LEAST,
        ),
    ),
)
