"""Exercise 14b: the rate of a mini-batch.

Tries find the answer, which is accepted: `labkit.exercises.subjects.Numbers` says why.
"""

import functools
import math

import numpy as np

from labkit.base.errors import LabError
from labkit.base.numerals import shorten
from labkit.exercises import Exercise, Mistake, Numbers, counted
from labkit.networks.images import dataset
from labkit.networks.lenet28 import Lenet28

_HELD_OUT = "held-out digits"
# six images of 360 fewer than 0.25 reaches, seven more than 0.2: rounding moves one or two
_LEAST = 0.68
_UNTRAINED = 0.25  # a lower accuracy: the ten outputs are nearly equal
_MOST = 1e30  # float32 holds it


def _count_answer(rate: object) -> dict[str, dict[str, float]]:
    """Return the reader's rate and the accuracy that it reaches.

    LabError if it is no positive number.
    """
    # an integer of any length is compared exactly
    if (
        isinstance(rate, bool)
        or not isinstance(rate, (int, float, np.number))
        or not -_MOST <= rate <= _MOST
    ):
        raise LabError(f"the rate is a number up to {_MOST:.0e}, such as 0.2, not {shorten(rate)}")
    if rate <= 0:
        raise LabError(f"a rate of {rate} does not train: take one above 0")
    return {_HELD_OUT: {"rate": float(rate), "accuracy": _train_and_test(float(rate))}}


@functools.cache
def _train_and_test(rate: float) -> float:
    """Return the accuracy after five passes, 50 images per step; without atomics, every run gives the same."""
    train, test = (dataset("digits", split, size=28) for split in ("train", "test"))
    with Lenet28("unrolled", batch=50, rate=rate) as model:
        for _ in range(5):
            model.epoch(train.images, train.labels)
        return float(model.accuracy(test.images, test.labels))


def _misses_goal(attempt) -> bool:
    """Return whether the accuracy is below the goal's."""
    return attempt.counts[_HELD_OUT]["accuracy"] < _LEAST


EXERCISE = Exercise(
    title="The rate of a mini-batch",
    subject=Numbers(_count_answer, start=(0.1,), solution=lambda: (0.3,)),
    goals=(counted("accuracy", _HELD_OUT, at_least=_LEAST),),
    mistakes=(
        Mistake(
            "With this rate the steps jump over the minimum. The sigmoids of s1 then end near 0, where their slope "
            "is small, and all ten outputs stay near 0.1. A mean of 50 gradients is steadier than one, but it "
            "points no further.",
            lambda attempt: (
                attempt.counts[_HELD_OUT]["rate"] > 0.5
                and attempt.counts[_HELD_OUT]["accuracy"] < _UNTRAINED
            ),
        ),
        Mistake(
            "The first steps with this rate jump over the minimum, and the weights come back only slowly: a "
            "little smaller is better.",
            lambda attempt: _misses_goal(attempt) and attempt.counts[_HELD_OUT]["rate"] > 0.5,
        ),
        Mistake(
            "This is 0.1 divided by 50. The gradient of a step is the mean of 50 already, not their sum: it "
            "is as large as that of one image, and there are 50 times fewer updates.",
            lambda attempt: math.isclose(attempt.counts[_HELD_OUT]["rate"], 0.1 / 50, rel_tol=0.01),
        ),
        Mistake(
            "This is less than the rate of single images, and there are 50 times fewer updates: the weights do "
            "not get far enough.",
            lambda attempt: _misses_goal(attempt) and attempt.counts[_HELD_OUT]["rate"] < 0.1,
        ),
        Mistake(
            "With this rate the weights get farther than with 0.1, and not yet far enough.",
            lambda attempt: (
                _misses_goal(attempt) and 0.1 < attempt.counts[_HELD_OUT]["rate"] <= 0.25
            ),
        ),
    ),
)
