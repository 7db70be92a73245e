"""Exercise 18b: out of the cache.

Tries find the answer, which is accepted: `labkit.exercises.subjects.Numbers` says why.
"""

from labkit.exercises import Attempt, Exercise, Goal, Mistake, Numbers, whole_number
from labkit.exercises.exercise import format_number
from labkit.spec.devices import device
from labkit.spec.layers import LENET86

_LAYER, _IMAGES = LENET86[0], 100
_BYTES = _LAYER.bytes(_IMAGES)  # of x, k and y
_L2 = device("H200").l2_bytes
_PAIRS_OF_X = -(-_L2 // (4 * _IMAGES * _LAYER.C * _LAYER.H * _LAYER.W))  # whose x alone fill L2
_PAIRS_OF_Y = -(-_L2 // (4 * _IMAGES * _LAYER.M * _LAYER.Ho * _LAYER.Wo))
_CASE, _MOST = "layer 1, 100 images", 1000


def _count_answer(pairs: object) -> dict[str, dict[str, float]]:
    """Return the bytes that the other runs move between two uses of one pair, over L2's size; and with a pair less."""
    count = whole_number(pairs, "number of pairs", 1, _MOST)
    return {
        _CASE: {
            "pairs": count,
            "between": (count - 1) * _BYTES / _L2,
            "fewer": (count - 2) * _BYTES / _L2,
        }
    }


def _find_fewest() -> tuple[int]:
    """Return the solution: the fewest pairs between whose uses as many bytes are moved as L2 holds."""
    return (1 + -(-_L2 // _BYTES),)


def _find_other_size(attempt: Attempt) -> str:
    """Return "two bytes" or "eight bytes" if the answer is the fewest pairs of numbers of that size; else ""."""
    sizes = {1 + -(-2 * _L2 // _BYTES): "two bytes", 1 + -(-_L2 // (2 * _BYTES)): "eight bytes"}
    return sizes.get(int(attempt.counts[_CASE]["pairs"]), "")


EXERCISE = Exercise(
    title="Out of the cache",
    subject=Numbers(_count_answer, start=(2,), solution=_find_fewest),
    goals=(
        Goal(
            "bytes moved between two uses, over L2's",
            lambda counts: counts[_CASE]["between"],
            at_least=1,
        ),
        Goal("with a pair less", lambda counts: counts[_CASE]["fewer"], at_most=1, words="below 1"),
    ),
    mistakes=(
        Mistake(
            "These pairs together fill L2. Between two uses of one, only the others are moved: it takes one more.",
            lambda attempt: attempt.counts[_CASE]["pairs"] == _find_fewest()[0] - 1,
        ),
        Mistake(
            "A run writes y, too, and that takes its place in L2 as x does: it has over three times the bytes of x.",
            lambda attempt: attempt.counts[_CASE]["pairs"] in (_PAIRS_OF_X, _PAIRS_OF_X + 1),
        ),
        Mistake(
            lambda attempt: (
                f"{attempt.counts[_CASE]['pairs']:.0f} pairs would be the fewest if a number had "
                f"{_find_other_size(attempt)}. Here x, k and y are float: four bytes per number."
            ),
            _find_other_size,
        ),
        Mistake(
            "This is the answer if y alone took place in L2. A run also reads x, which takes place there, too.",
            lambda attempt: attempt.counts[_CASE]["pairs"] == _PAIRS_OF_Y + 1 != _find_fewest()[0],
        ),
        Mistake(
            "A single pair is used again at once: no other bytes are moved in between.",
            lambda attempt: attempt.counts[_CASE]["pairs"] == 1,
        ),
        Mistake(
            lambda attempt: (
                "Between two uses of a pair the others move only "
                f"{format_number(100 * attempt.counts[_CASE]['between'])} % of the bytes that L2 holds: the pair may "
                "still be in it."
            ),
            lambda attempt: attempt.counts[_CASE]["between"] < 1,
        ),
        Mistake(
            lambda attempt: (
                f"That is more than it takes. With {attempt.counts[_CASE]['pairs'] - 1} pairs the others already move "
                f"{format_number(attempt.counts[_CASE]['fewer'])} times the bytes that L2 holds. The data of a "
                "benchmark need memory, too."
            ),
            lambda attempt: attempt.counts[_CASE]["fewer"] >= 1,
        ),
    ),
)
