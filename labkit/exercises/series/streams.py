"""The exercises of page 12: answered by numbers, and counted by the arithmetic of `labkit.schedule`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from labkit.base.errors import LabError
from labkit.exercises.exercise import Exercise, Goal, Mistake
from labkit.exercises.subjects import Numbers
from labkit.measure.pipeline import chunk_sizes, schedule, span_ms
from labkit.records.recorded import recorded
from labkit.spec.layers import LENET72, LENET86, Layer

_IMAGES = 10_000
_RUNG = 7  # the page's kernel
_FIRST = {"layer 1 of lenet86": LENET86[0], "layer 1 of lenet72": LENET72[0]}
_SLACK = 5  # 12a: per cent above the reference time
_MOST, _WITHIN = 8, 1  # 12b: chunks, and per cent above the reference time
_ABOVE = "% above the reference time"


def _above(layer: Layer, chunk: int | Sequence[int]) -> float:
    """How far the layer time on two streams of an H200 is above the link's reference time, in per cent."""
    op_ms = recorded("H200").op_ms(_RUNG, layer, _IMAGES)
    planned = span_ms(schedule(layer, _IMAGES, op_ms, chunk, streams=2, on="H200"))
    return 100 * (float(planned / layer.link_reference_ms(_IMAGES, device="H200")) - 1)


# ------------------------------------------------------------------------------------------------- 12a: how many
def _equal(lenet86: object, lenet72: object) -> dict[str, dict[str, float]]:
    found = {}
    for (name, layer), count in zip(_FIRST.items(), (lenet86, lenet72), strict=True):
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not 1 <= count <= _IMAGES:
            raise LabError(f"{name}: {count!r} is no number of chunks; it is an integer from 1 to {_IMAGES:,}")
        fewer = _above(layer, math.ceil(_IMAGES / (count - 1))) if count > 1 else math.inf
        found[name] = {"above": _above(layer, math.ceil(_IMAGES / count)), "fewer": fewer, "chunks": float(count)}
    return found


def _fewest() -> tuple[int, ...]:
    """Beside the way back only the first chunk is visible: its way in, and its kernel."""
    found = []
    for layer in _FIRST.values():
        into, back = layer.link_ms(_IMAGES, device="H200")
        op_ms = recorded("H200").op_ms(_RUNG, layer, _IMAGES)
        found.append(math.ceil((into + op_ms) / (_SLACK / 100 * back)))
    return tuple(found)


def _goals_of(name: str) -> tuple[Goal, Goal]:
    return (
        Goal(f"{_ABOVE}, {name}", lambda counts: counts[name]["above"], at_most=_SLACK),
        Goal(f"and with one chunk fewer, {name}", lambda counts: counts[name]["fewer"], at_least=_SLACK),
    )


def _on_each(attempt) -> list:
    return [attempt.counts[name] for name in _FIRST]


# ------------------------------------------------------------------------------------------------- 12b: how large
_LAYER = "layer 1 of lenet86"


def _grow(sizes: object) -> dict[str, dict[str, float]]:
    chosen = chunk_sizes(_IMAGES, sizes)
    equal = {*chosen[:-1]} <= {chosen[0]} and chosen[-1] <= chosen[0]
    return {_LAYER: {"above": _above(_FIRST[_LAYER], chosen), "chunks": float(len(chosen)), "first": float(chosen[0]),
                     "equal": float(equal), "falls": float(chosen[0] > chosen[-1]),
                     "growth": max((b / a for a, b in itertools.pairwise(chosen)), default=1.0)}}


def _growing(factor: int = 2) -> tuple[tuple[int, ...]]:
    """Each chunk is `factor` times the one before; the last takes what is left."""
    sizes = [_IMAGES * factor**i // (factor**_MOST - 1) for i in range(_MOST - 1)]
    return ((*sizes, _IMAGES - sum(sizes)),)


def _slow(attempt) -> bool:
    return attempt.counts[_LAYER]["above"] > _WITHIN


EXERCISES = (
    Exercise(
        number="12a",
        page="streams",
        title="The fewest chunks",
        subject=Numbers(_equal, start=(2, 2), solution=_fewest),
        goals=(*_goals_of("layer 1 of lenet86"), *_goals_of("layer 1 of lenet72")),
        hints=(
            "The way back is the longer one, and it is busy from the end of the first kernel on. So what is added to "
            "the reference time?",
            "Before the way back begins, the first chunk comes in and is computed. With n chunks that is the n-th part "
            "of the whole way in and of the whole op time.",
            "(way in + op time) / n may be at most 5 % of the way back. The cells above print all three.",
        ),
        mistakes=(
            Mistake(
                "The two layers are in the other order: the first number is that of lenet86.",
                lambda attempt: tuple(int(each["chunks"]) for each in _on_each(attempt)) == _fewest()[::-1]
                and len({*_fewest()}) > 1,
            ),
            Mistake(
                "Within 5 % this is, but fewer chunks are, too: each chunk costs three calls.",
                lambda attempt: all(each["above"] <= _SLACK for each in _on_each(attempt))
                and any(each["fewer"] < _SLACK for each in _on_each(attempt)),
            ),
            Mistake(
                "A single chunk overlaps with nothing: its copy in, its kernel and its copy out follow each other.",
                lambda attempt: any(each["chunks"] == 1 for each in _on_each(attempt)),
            ),
        ),
    ),
    Exercise(
        number="12b",
        page="streams",
        title="Growing chunks",
        subject=Numbers(_grow, start=((2500,) * 4,), solution=_growing),
        goals=(
            Goal(f"chunks, {_LAYER}", lambda counts: counts[_LAYER]["chunks"], at_most=_MOST),
            Goal(f"{_ABOVE}, {_LAYER}", lambda counts: counts[_LAYER]["above"], at_most=_WITHIN),
        ),
        hints=(
            "Only the first chunk is visible before the way back begins. How small has it to be for 1 %?",
            "While a chunk goes back, the next one comes in. How much larger may that one be, if the way back must not "
            "wait for it?",
            "An image takes about three times as long back as in. So each chunk may be two or three times as large as "
            "the one before.",
        ),
        mistakes=(
            Mistake(
                "Equal chunks do not help: the first of n is the n-th part of the way in, and no eight are enough.",
                lambda attempt: _slow(attempt) and bool(attempt.counts[_LAYER]["equal"]),
            ),
            Mistake(
                "The sizes fall: the way back waits for the first chunk, which is the largest.",
                lambda attempt: _slow(attempt) and bool(attempt.counts[_LAYER]["falls"]),
            ),
            Mistake(
                "The first chunk is small enough, but a later one is so much larger than the one before that the way "
                "back waits for it.",
                lambda attempt: _slow(attempt) and attempt.counts[_LAYER]["growth"] > 4
                and attempt.counts[_LAYER]["first"] <= 150,
            ),
        ),
    ),
)
