"""Exercise 11b: small beside large.

Tries find the answer, which is accepted: `labkit.exercises.subjects.Numbers` says why.
"""

import numpy as np

from labkit.exercises import Attempt, Exercise, Goal, Mistake, Numbers, whole_number

_PIXEL = "a pixel 2^n times smaller"
_FARTHEST = 60  # for larger n, nothing is left of a pixel


def _measure_loss(n: int) -> tuple[float, float]:
    """Return, for pixels 2^n times below the largest, the largest relative error and the share that becomes 0.

    The largest pixel is scaled to 2^14. Each pixel is split into two halves, `high` and the rest.
    """
    pixels = np.ldexp(np.random.default_rng(11).uniform(1, 2, 10_000).astype(np.float32), 14 - n)
    high = pixels.astype(np.float16)
    both = high.astype(np.float64) + (pixels - high).astype(np.float16)
    return float(np.max(np.abs(both - pixels) / pixels)), float(np.mean(both == 0))


def _count_answer(exact: object, there: object) -> dict[str, dict[str, float]]:
    """Return the loss at the reader's distances: the error at `exact`, the share of zeros at `there`; and at n + 1."""
    for value in (exact, there):
        whole_number(value, "exponent", 0, _FARTHEST - 1)
    counts = {
        "exact": exact,
        "there": there,
        "error": _measure_loss(exact)[0],
        "farther": _measure_loss(exact + 1)[0],
    }
    return {
        _PIXEL: {**counts, "gone": _measure_loss(there)[1], "beyond": _measure_loss(there + 1)[1]}
    }


def _find_farthest() -> tuple[int, int]:
    """Return the solution: the largest n with an error up to 2^-22, and the largest at which no pixel is 0."""
    exact = max(n for n in range(_FARTHEST) if _measure_loss(n)[0] <= 2.0**-22)
    return exact, max(n for n in range(_FARTHEST) if _measure_loss(n)[1] == 0)


def _explain(attempt: Attempt) -> str:
    """Return sentences about the distances that are wrong."""
    counts = attempt.counts[_PIXEL]
    exact, there = int(counts["exact"]), int(counts["there"])
    right = _find_farthest()
    sentences = []
    scaled = "The largest pixel is scaled to 2^14, not to 1: the {} distance is larger by 14."
    if exact == right[0] - 14:
        sentences.append(scaled.format("first"))
    elif exact in (27, 28, 29):
        sentences.append(
            "The first number is about the distance from which on the high part is subnormal. The low part is about "
            "2^-12 of its pixel, so it loses bits long before."
        )
    elif counts["error"] > 2.0**-22:
        sentences.append(
            f"The first n is too large: pixels begin at 2^{14 - exact} there. A low part that is a subnormal half is "
            f"off by up to 2^-25, which is 2^{exact - 39} of such a pixel."
        )
    elif counts["farther"] <= 2.0**-22:
        sentences.append(
            "The first n is not the largest: with n larger by one both parts of each pixel are still exact to 2^-22. "
            "Subnormal halves are 2^-24 apart, so a low part is off by up to 2^-25."
        )
    if there == right[1] - 14:
        sentences.append(scaled.format("second"))
    elif there in (28, 29):
        place = "At" if there == 29 else "Beyond"
        sentences.append(
            f"{place} the second distance a pixel is subnormal. It is still there, with fewer bits."
        )
    elif counts["gone"]:
        sentences.append(
            f"The second n is too large: each pixel is below 2^{15 - there} there, and the smallest positive number of "
            "type half is 2^-24. Which pixels are nearer to 0 than to 2^-24?"
        )
    elif counts["beyond"] == 0:
        sentences.append(
            "The second n is not the largest: with n larger by one still no pixel is 0. What becomes of a pixel below "
            "2^-24, the smallest half?"
        )
        if there == right[1] - 1:
            sentences.append(
                "(All pixels are larger than 2^-25 there. 2^-25 itself would become 0, but it does not count.)"
            )
    return " ".join(sentences)


EXERCISE = Exercise(
    title="Small beside large",
    subject=Numbers(_count_answer, start=(11, 24), solution=_find_farthest),
    goals=(
        Goal("error, in units of 2^-22", lambda counts: counts[_PIXEL]["error"] * 2**22, at_most=1),
        Goal(
            "error with n larger by one",
            lambda counts: counts[_PIXEL]["farther"] * 2**22,
            at_least=1.5,
        ),
        Goal("share of pixels that become 0", lambda counts: counts[_PIXEL]["gone"], exactly=0),
        Goal("with n larger by one", lambda counts: counts[_PIXEL]["beyond"], at_least=0.99),
    ),
    mistakes=(Mistake(_explain, _explain),),
)
