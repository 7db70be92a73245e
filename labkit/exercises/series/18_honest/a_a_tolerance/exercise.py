"""Exercise 18a: a tolerance.

Tries find the answer, which is accepted: `labkit.exercises.subjects.Numbers` says why.
"""

import functools

import numpy as np

from labkit.exercises import Exercise, Goal, Mistake, Numbers, whole_number

_ROWS, _NUMBERS = 500, 4096
_JUDGE, _FINEST = "a judge of row sums", 40


@functools.cache
def _measure_errors() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the largest error of each honest and of each wrong way to add up rows, over the sum of |x| of its row.

    Honest: float sums from the front, from the back, and by 32 lanes. Wrong: without the last
    number, of numbers that are rounded to half, and in half.
    """
    random = np.random.default_rng(18)
    x = random.uniform(0.5, 1, (_ROWS, _NUMBERS)) * random.choice([-1, 1], (_ROWS, _NUMBERS))
    x = x.astype(np.float32)

    def add_up(numbers: np.ndarray, dtype=np.float32) -> np.ndarray:
        """Return the sums of rows, of which each addition is rounded."""
        return np.cumsum(numbers.astype(dtype), axis=1, dtype=dtype)[:, -1].astype(float)

    def measure(sums: np.ndarray) -> float:
        """Return the largest error of these sums of rows, over the sum of |x| of its row."""
        exact, size = x.astype(float).sum(axis=1), np.abs(x).astype(float).sum(axis=1)
        return float(np.max(np.abs(sums - exact) / size))

    lanes = np.cumsum(x.reshape(_ROWS, -1, 32), axis=1, dtype=np.float32)[:, -1]
    honest = add_up(x), add_up(x[:, ::-1]), add_up(lanes)
    rounded = x.astype(np.float16).astype(float).sum(axis=1)
    wrong = add_up(x[:, :-1]), rounded, add_up(x, np.float16)
    return tuple(map(measure, honest)), tuple(map(measure, wrong))


def _count_refused(n: int) -> int:
    """Return how many honest ways to add up have an error above the tolerance 2^-n."""
    honest, _ = _measure_errors()
    return sum(error > 2.0**-n for error in honest)


def _count_accepted(n: int) -> int:
    """Return how many wrong ways to add up have an error within the tolerance 2^-n."""
    _, wrong = _measure_errors()
    return sum(error <= 2.0**-n for error in wrong)


def _count_answer(loosest: object, strictest: object) -> dict[str, dict[str, float]]:
    """Return the counts that the goals ask for, by name, of the reader's exponents n of two tolerances 2^-n.

    They are the exponents; how many wrong ways to add up the loosest tolerance accepts, and the
    next looser one; how many honest ways the strictest one refuses, and the next stricter one.
    """
    for value in (loosest, strictest):
        whole_number(value, "exponent", 1, _FINEST)
    return {
        _JUDGE: {
            "loosest": loosest,
            "strictest": strictest,
            "accepted": _count_accepted(loosest),
            "accepted_looser": _count_accepted(loosest - 1),
            "refused": _count_refused(strictest),
            "refused_stricter": _count_refused(strictest + 1),
        }
    }


def _find_limits() -> tuple[int, int]:
    """Return the solution: the smallest n that accepts nothing wrong, and the largest that refuses nothing honest."""
    return (
        min(n for n in range(1, _FINEST) if not _count_accepted(n)),
        max(n for n in range(1, _FINEST) if not _count_refused(n)),
    )


def _count(name: str):
    """Return the function that a goal takes for a number of `_count_answer`."""
    return lambda counts: counts[_JUDGE][name]


EXERCISE = Exercise(
    title="A tolerance",
    subject=Numbers(_count_answer, start=(10, 24), solution=_find_limits),
    goals=(
        Goal("wrong kernels that the loosest accepts", _count("accepted"), exactly=0),
        Goal("with n smaller by one", _count("accepted_looser"), at_least=1),
        Goal("honest kernels that the strictest refuses", _count("refused"), exactly=0),
        Goal("with n larger by one", _count("refused_stricter"), at_least=1),
    ),
    mistakes=(
        Mistake(
            "One number of 4,096 is 2^-12 of the row: this tolerance sees that it is missing. Numbers rounded to half "
            "are off by 2^-12 each, with either sign, and most of that cancels: they need a stricter one.",
            lambda attempt: attempt.counts[_JUDGE]["loosest"] in (12, 13, 14, 15),
        ),
        Mistake(
            "An error of 2^-24 is that of one rounding. A sum of 4,096 floats is rounded 4,095 times.",
            lambda attempt: attempt.counts[_JUDGE]["strictest"] in (24, 25),
        ),
        Mistake(
            "The two are exchanged: a larger n is the stricter one.",
            lambda attempt: attempt.counts[_JUDGE]["loosest"] > attempt.counts[_JUDGE]["strictest"],
        ),
        Mistake(
            "The bound of the worst case, 4,095 roundings of the same sign, is 2^-12, and no judge: nothing comes near "
            "to it. Try what the honest ways need.",
            lambda attempt: attempt.counts[_JUDGE]["strictest"] in (11, 12, 13),
        ),
    ),
)
