"""Exercise 13b: how many pixels.

Tries find the answer, which is accepted: `labkit.exercises.subjects.Numbers` says why.
"""

import math

from labkit.exercises import Attempt, Exercise, Goal, Mistake, Numbers, counted, whole_number
from labkit.exercises.exercise import format_number
from labkit.records.recorded import recorded
from labkit.spec.devices import device

# Sides are multiples of 8. To the pixel, the third digit of a time would decide.
_IMAGES, _STEP, _MOST = 10_000, 8, 10_000
_TYPES = {"half": "float16", "float": "float32"}


def _link_ms(side: int) -> float:
    """Return the time [ms] of 10,000 images of side x side bytes from page-locked memory to an H200."""
    return float(1e3 * _IMAGES * side**2 / device("H200").measured["to_device_pinned"])


def _read_kernel_ms(dtype: str) -> float:
    """Return the recorded time [ms] of the fused network for 10,000 images on an H200."""
    rows = recorded("H200").network(
        label="fused", dtype=dtype, where="device", pixels="uint8 86x86"
    )
    return float(rows["ms"].item())


def _count_answer(half: object, float: object) -> dict[str, dict[str, float]]:
    """Return for each precision the reader's side, and the link's time over the kernel's, also for the next side."""
    counts = {}
    for (name, dtype), value in zip(_TYPES.items(), (half, float), strict=True):
        side, kernel_ms = (
            whole_number(value, "side in pixels", _STEP, _MOST),
            _read_kernel_ms(dtype),
        )
        is_asked = side % _STEP == 0
        counts[name] = {
            "side": side,
            "link": _link_ms(side) / kernel_ms if is_asked else math.inf,
            "larger": _link_ms(side + _STEP) / kernel_ms,
        }
    return counts


def _find_sides(share: float = 1) -> tuple[int, ...]:
    """Return the largest sides whose pixels take the link no longer than this share of the kernel's time."""
    return tuple(
        math.isqrt(int(share * _count_bytes(dtype))) // _STEP * _STEP for dtype in _TYPES.values()
    )


def _count_bytes(dtype: str) -> float:
    """Return how many bytes the link carries in the kernel's time for one image."""
    return _read_kernel_ms(dtype) / 1e3 / _IMAGES * device("H200").measured["to_device_pinned"]


def _make_goals(name: str) -> tuple[Goal, Goal]:
    """Return the goals for a precision: the link is no slower than the kernel, and would be with the next side."""
    return (
        Goal(
            f"link over kernel, {name}",
            lambda counts: counts[name]["link"],
            at_most=1,
            least="a side that is a multiple of 8",
        ),
        counted("larger", name, what="and with sides 8 pixels longer", at_least=1),
    )


def _explain(attempt: Attempt) -> str:
    """Return sentences about the precisions whose side is wrong: for what it would be the right one."""
    measured, rights = device("H200").measured, _find_sides()
    assumptions = {
        _find_sides(1 / 2): "would be the side if a pixel had two bytes. Here it has one.",
        _find_sides(1 / 4): "would be the side if a pixel had four bytes. Here it has one.",
        _find_sides(1 / 3): "would be the side if a pixel had three bytes. Here it has one.",
        _find_sides(measured["to_device_pageable"] / measured["to_device_pinned"]): (
            "would be the side from pageable memory, or with bits in place of bytes. Here the images are "
            "page-locked, and a pixel has 8 bits."
        ),
    }
    answers = [int(attempt.counts[name]["side"]) for name in _TYPES]
    sides = tuple(answer // _STEP * _STEP for answer in answers)
    # first those that explain both sides
    likely = sorted(assumptions, key=lambda assumed: assumed != sides)
    sentences = []
    for place, (name, dtype) in enumerate(_TYPES.items()):
        answer, side, right = answers[place], sides[place], rights[place]
        link = _link_ms(side) / _read_kernel_ms(dtype)
        if answer == right:
            continue
        if side == right:
            sentences.append(f"{name}: {answer} is no multiple of {_STEP}: round down.")
            continue
        if answers[0] == answers[1] in rights:
            why = "is the side of the other precision, whose kernel takes another time."
        elif abs(side - _count_bytes(dtype)) <= _STEP:
            why = "is the number of pixels of an image. Its side is the square root of that."
        elif side == right + _STEP:
            why = f"is rounded up to a multiple of {_STEP}, so the link takes longer than the kernel: round down."
        elif assumed := next((sides for sides in likely if sides[place] == side), ()):
            why = assumptions[assumed]
        elif side < right:
            why = f"makes the link {format_number(100 * link)} % of the kernel, and larger images still fit."
        else:
            why = f"makes the link {format_number(link)} times as long as the kernel, with {side}² bytes per image."
        prefix = f"{answer} is no multiple of {_STEP}. " if answer != side else ""
        sentences.append(f"{name}: {prefix}{side} {why}")
    return " ".join(sentences)


EXERCISE = Exercise(
    title="How many pixels",
    subject=Numbers(_count_answer, start=(88, 88), solution=_find_sides),
    goals=(*_make_goals("half"), *_make_goals("float")),
    mistakes=(Mistake(_explain, _explain),),
)
