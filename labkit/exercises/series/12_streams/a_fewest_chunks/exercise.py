"""Exercise 12a: the fewest chunks.

Tries find the answer, which is accepted: `labkit.exercises.subjects.Numbers` says why.
"""

import math
from collections import defaultdict

from labkit.exercises import Attempt, Exercise, Goal, Mistake, Numbers, counted, whole_number
from labkit.exercises.exercise import format_number
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


def _find_assumption(count: int, into: float, back: float, op_ms: float) -> str:
    """Return which time was taken for the visible one, if this number of chunks follows from a wrong one; or ""."""
    for visible, sentence in (
        (
            into,
            "would be right if only the copy of the first chunk to the device were visible. Before the first copy "
            "back to the host begins, the first chunk is computed, too.",
        ),
        (
            into + op_ms + back,
            "would be right if the first chunk's copy back to the host were visible, too. That copy is a part of the "
            "reference time.",
        ),
        (
            back,
            "would be right if 1/n of the copies back to the host were visible. What is visible is 1/n of the copies "
            "to the device and of the kernels.",
        ),
    ):
        if count == math.ceil(visible / (_SLACK / 100 * back)):
            return sentence
    return ""


def _explain(attempt: Attempt) -> str:
    """Return sentences about the layers whose number of chunks is wrong."""
    solution = dict(zip(_FIRST, _compute_solution(), strict=True))
    wrong = [name for name in _FIRST if attempt.counts[name]["chunks"] != solution[name]]
    layers = defaultdict(list)  # by what is said of them
    for name in wrong:
        count = int(attempt.counts[name]["chunks"])
        into, back = _FIRST[name].link_ms(_IMAGES, device="H200")
        op_ms = recorded("H200").op_ms(_RUNG, _FIRST[name], _IMAGES)
        above = format_number(attempt.counts[name]["above"])
        if count == 1:
            why = (
                "overlaps with nothing: its copy in, its kernel and its copy out follow each other."
            )
        elif count in solution.values() and len(wrong) == 1:
            share = format_number(100 * into / back)
            why = (
                f"is right for the other layer. Here the copies to the device take {share} % of the time of the copies "
                "back to the host."
            )
        elif count == solution[name] - 1:
            why = (
                f"is one too few: it leaves {above} % visible, 1/{count} of the copies to the device and of the "
                "kernels. Is the quotient rounded down, or the kernel forgotten?"
            )
        elif not (why := _find_assumption(count, into, back, op_ms)):
            visible = (
                f"1/{count} of the time of the copies to the device and of the kernels is {above} % of the time of the "
                "copies back to the host"
            )
            why = (
                f"is more than it takes: {visible}, and {_SLACK} % are permitted. Each chunk costs three calls."
                if count > solution[name]
                else f"is too few: {visible}."
            )
        layers[f"{count} {why}"].append(name)
    return " ".join(f"{' and '.join(names)}: {why}" for why, names in layers.items())


EXERCISE = Exercise(
    title="The fewest chunks",
    subject=Numbers(_count_answer, start=(2, 2), solution=_compute_solution),
    goals=(*_make_goals("layer 1 of lenet86"), *_make_goals("layer 1 of lenet72")),
    mistakes=(Mistake(_explain, _explain),),
)
