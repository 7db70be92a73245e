"""Exercise 12a: the fewest chunks.

Tries find the answer, which is accepted: `labkit.exercises.subjects.Numbers` says why.
"""

import math

from labkit.exercises import Exercise, Goal, Mistake, Numbers, counted, whole_number
from labkit.measure.pipeline import excess_pct
from labkit.records.recorded import recorded
from labkit.spec.layers import LENET72, LENET86

_IMAGES = 10_000
_RUNG = 7  # the page's kernel
_FIRST = {"layer 1 of lenet86": LENET86[0], "layer 1 of lenet72": LENET72[0]}
_SLACK = 5  # per cent above the reference time


def _count_answer(lenet86: object, lenet72: object) -> dict[str, dict[str, float]]:
    """Return for each layer the reader's number of chunks, and the excess [%] with it and with one chunk fewer."""
    counts = {}
    for (name, layer), count in zip(_FIRST.items(), (lenet86, lenet72), strict=True):
        count = whole_number(count, f"number of chunks of {name}", 1, _IMAGES)
        op_ms = recorded("H200").op_ms(_RUNG, layer, _IMAGES)
        above, fewer = (  # no chunk at all is infinitely slow
            excess_pct(layer, _IMAGES, op_ms, math.ceil(_IMAGES / n), streams=2, on="H200")
            if n
            else math.inf
            for n in (count, count - 1)
        )
        counts[name] = {"above": above, "fewer": fewer, "chunks": float(count)}
    return counts


def _compute_solution() -> tuple[int, ...]:
    """Return the fewest chunks per layer: only the first chunk's way in and kernel add to the time of the way back."""
    counts = []
    for layer in _FIRST.values():
        into, back = layer.link_ms(_IMAGES, device="H200")
        op_ms = recorded("H200").op_ms(_RUNG, layer, _IMAGES)
        counts.append(math.ceil((into + op_ms) / (_SLACK / 100 * back)))
    return tuple(counts)


def _make_goals(name: str) -> tuple[Goal, Goal]:
    """Return the goals for a layer: its excess is small enough, and would not be with one chunk fewer."""
    return (
        counted("above", name, what="% above the reference time", at_most=_SLACK),
        counted("fewer", name, what="and with one chunk fewer", at_least=_SLACK),
    )


def _list_counts(attempt) -> list:
    """Return the dict of `_count_answer` for each layer."""
    return [attempt.counts[name] for name in _FIRST]


EXERCISE = Exercise(
    title="The fewest chunks",
    subject=Numbers(_count_answer, start=(2, 2), solution=_compute_solution),
    goals=(*_make_goals("layer 1 of lenet86"), *_make_goals("layer 1 of lenet72")),
    mistakes=(
        Mistake(
            "This is within 5 %, but so are fewer chunks, and each chunk costs three calls.",
            lambda attempt: (
                all(counts["above"] <= _SLACK for counts in _list_counts(attempt))
                and any(counts["fewer"] < _SLACK for counts in _list_counts(attempt))
            ),
        ),
        Mistake(
            "A single chunk overlaps with nothing: its copy in, its kernel and its copy out follow each other.",
            lambda attempt: any(counts["chunks"] == 1 for counts in _list_counts(attempt)),
        ),
    ),
)
