"""Exercise 12b: growing chunks.

Tries find the answer, which is accepted: `labkit.exercises.subjects.Numbers` says why.
"""

import itertools
from collections.abc import Iterable

from labkit.exercises import Exercise, Mistake, Numbers, counted, whole_number
from labkit.exercises.exercise import format_number
from labkit.measure.pipeline import chunk_sizes, excess_pct
from labkit.records.recorded import recorded
from labkit.spec.layers import LENET86

_IMAGES = 10_000
_RUNG = 7  # the page's kernel
_LAYER, _FIRST = "layer 1 of lenet86", LENET86[0]
_MOST, _WITHIN = 8, 1  # chunks, and per cent above the reference time


def _compute_visible_pct(images: int) -> float:
    """Return the time that a first chunk of so many images adds before the way back begins [% of the reference]."""
    into, back = _FIRST.link_ms(_IMAGES, device="H200")
    op_ms = recorded("H200").op_ms(_RUNG, _FIRST, _IMAGES)
    return float(100 * (into + op_ms) / back * images / _IMAGES)


def _count_answer(sizes: object) -> dict[str, dict[str, float]]:
    """Return the excess [%] of the reader's chunks, their number, and what the mistakes look at."""
    if not isinstance(sizes, Iterable):
        sizes = whole_number(sizes, "number of images", 1, _IMAGES)
    chosen = chunk_sizes(_IMAGES, sizes)
    # the last one may be a smaller rest
    equal = {*chosen[:-1]} <= {chosen[0]} and chosen[-1] <= chosen[0]
    # the chunk, counted from 1, that is largest beside the one before it
    growth, grown = max(
        ((b / a, place) for place, (a, b) in enumerate(itertools.pairwise(chosen), 2)),
        default=(1.0, 1),
    )
    above = excess_pct(
        _FIRST,
        _IMAGES,
        recorded("H200").op_ms(_RUNG, _FIRST, _IMAGES),
        chosen,
        streams=2,
        on="H200",
    )
    return {
        _LAYER: {
            "above": above,
            "chunks": float(len(chosen)),
            "first": float(chosen[0]),
            "equal": float(equal),
            "falls": float(max(chosen) == chosen[0] > chosen[-1]),
            "growth": growth,
            "grown": float(grown),
            "of_first": _compute_visible_pct(chosen[0]),
        }
    }


def _compute_solution() -> tuple[tuple[int, ...]]:
    """Return the solution: the sizes of the chunks, each twice as large as the one before; the last takes the rest."""
    # 1 + 2 + 4 + ... is 2^n - 1
    sizes = [_IMAGES * 2**i // (2**_MOST - 1) for i in range(_MOST - 1)]
    return ((*sizes, _IMAGES - sum(sizes)),)


def _is_slow(attempt) -> bool:
    """Return whether the chunks are more than `_WITHIN` per cent above the reference time."""
    return attempt.counts[_LAYER]["above"] > _WITHIN


EXERCISE = Exercise(
    title="Growing chunks",
    subject=Numbers(_count_answer, start=((2500,) * 4,), solution=_compute_solution),
    goals=(
        counted("chunks", _LAYER, at_most=_MOST),
        counted("above", _LAYER, what="% above the reference time", at_most=_WITHIN),
    ),
    mistakes=(
        Mistake(
            "Equal chunks do not help: of n equal chunks the first one is 1/n of the copies to the device and of the "
            "kernels. With eight equal chunks that is too much.",
            lambda attempt: _is_slow(attempt) and attempt.counts[_LAYER]["equal"],
        ),
        Mistake(
            "The sizes fall: the first copy back to the host waits for the first chunk, which is the largest.",
            lambda attempt: _is_slow(attempt) and attempt.counts[_LAYER]["falls"],
        ),
        Mistake(
            lambda attempt: (
                f"The first chunk alone adds {attempt.counts[_LAYER]['of_first']:.4g} %: while it is copied to the "
                "device and computed, nothing is copied back to the host."
            ),
            lambda attempt: attempt.counts[_LAYER]["of_first"] > _WITHIN,
        ),
        Mistake(
            lambda attempt: (
                "The first chunk is small enough, but a later one is so much larger than the one before that the "
                f"copies back to the host wait for it: chunk {attempt.counts[_LAYER]['grown']:.0f} is "
                f"{format_number(attempt.counts[_LAYER]['growth'])} times as large."
            ),
            _is_slow,
        ),
        Mistake(
            "These are fast enough, but too many chunks: each costs three calls. If the sizes grow, fewer are enough.",
            lambda attempt: attempt.counts[_LAYER]["chunks"] > _MOST,
        ),
    ),
)
