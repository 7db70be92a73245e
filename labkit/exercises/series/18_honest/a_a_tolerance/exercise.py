"""Exercise 18a: a tolerance.

Tries find the answer, which is accepted: `labkit.exercises.subjects.Numbers` says why.
"""

import functools

import numpy as np

from labkit.exercises import Attempt, Exercise, Goal, Mistake, Numbers, whole_number
from labkit.exercises.exercise import join_words

_ROWS, _NUMBERS = 500, 4096
_JUDGE, _FINEST = "a judge of row sums", 40
# The ways to add up, in the order of `_measure_errors`.
_HONEST = "sums from the front", "sums from the back", "sums by 32 lanes"
_WRONG = "sums without the last number", "sums of numbers rounded to half", "sums in half"


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


def _explain(attempt: Attempt) -> str:
    """Return sentences about the exponents that are wrong: which ways to add up pass, or are refused."""
    counts, (honest, wrong) = attempt.counts[_JUDGE], _measure_errors()
    loosest, strictest = int(counts["loosest"]), int(counts["strictest"])
    if loosest > strictest:
        return "The two are exchanged: a larger n is the stricter one."
    sentences = []
    if counts["accepted"]:
        names = [name for name, error in zip(_WRONG, wrong, strict=True) if error <= 2.0**-loosest]
        sentences.append(f"The tolerance 2^-{loosest} accepts {join_words(names)}.")
        if loosest in (12, 13, 14, 15, 16):
            sentences.append(
                "Numbers rounded to half are off by up to 2^-12 each, with either sign, and most of that cancels: they "
                "need a stricter one."
            )
    elif not counts["accepted_looser"]:
        sentences.append(
            f"2^-{loosest} is not the loosest: twice as large, it would still accept nothing wrong."
        )
    if counts["refused"]:
        names = [
            name for name, error in zip(_HONEST, honest, strict=True) if error > 2.0**-strictest
        ]
        sentences.append(
            f"The tolerance 2^-{strictest} refuses {join_words(names)}. An error of 2^-24 is that of one rounding, "
            "and a sum of 4,096 floats is rounded 4,095 times."
        )
    elif not counts["refused_stricter"]:
        sentences.append(
            f"2^-{strictest} is not the strictest: half as large, it would still refuse nothing honest."
        )
        if strictest in (11, 12, 13):
            sentences.append(
                "It is about the bound of the worst case, 4,095 roundings of the same sign, and nothing comes near to "
                "that."
            )
    return " ".join(sentences)


EXERCISE = Exercise(
    title="A tolerance",
    subject=Numbers(_count_answer, start=(10, 24), solution=_find_limits),
    goals=(
        Goal("wrong kernels that the loosest accepts", _count("accepted"), exactly=0),
        Goal("with n smaller by one", _count("accepted_looser"), at_least=1),
        Goal("honest kernels that the strictest refuses", _count("refused"), exactly=0),
        Goal("with n larger by one", _count("refused_stricter"), at_least=1),
    ),
    mistakes=(Mistake(_explain, _explain),),
)
