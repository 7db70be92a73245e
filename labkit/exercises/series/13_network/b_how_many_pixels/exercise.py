"""Exercise 13b: how many pixels.

Tries find the answer, which is accepted: `labkit.exercises.subjects.Numbers` says why.
"""

import math

from labkit.base.errors import LabError
from labkit.exercises import Attempt, Exercise, Goal, Mistake, Numbers, counted, whole_number
from labkit.exercises.exercise import format_number
from labkit.records.recorded import recorded
from labkit.spec.devices import device

# Sides are multiples of 8. To the pixel, the third digit of a time would decide.
_IMAGES, _STEP = 10_000, 8
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
    """Return for each precision the reader's side, and the link's time over the kernel's, also for the next side.

    LabError if a side is no multiple of 8.
    """
    counts = {}
    for (name, dtype), value in zip(_TYPES.items(), (half, float), strict=True):
        side, kernel_ms = whole_number(value, "side in pixels", _STEP, 1000), _read_kernel_ms(dtype)
        if side % _STEP:
            raise LabError(f"{side} is no multiple of {_STEP}")
        counts[name] = {
            "side": side,
            "link": _link_ms(side) / kernel_ms,
            "larger": _link_ms(side + _STEP) / kernel_ms,
        }
    return counts


def _compute_solution() -> tuple[int, ...]:
    """Return the largest sides at which the transfer of the images takes no longer than the kernel."""
    rate = device("H200").measured["to_device_pinned"]  # bytes per second
    return tuple(
        math.isqrt(int(_read_kernel_ms(dtype) / 1e3 / _IMAGES * rate)) // _STEP * _STEP
        for dtype in _TYPES.values()
    )


def _make_goals(name: str) -> tuple[Goal, Goal]:
    """Return the goals for a precision: the link is no slower than the kernel, and would be with the next side."""
    return (
        counted("link", name, what="link over kernel", at_most=1),
        counted("larger", name, what="and with sides 8 pixels longer", at_least=1),
    )


def _explain(attempt: Attempt) -> str:
    """Return sentences about the precisions whose side is wrong: for what it would be the right one."""
    measured, sentences = device("H200").measured, []
    for (name, dtype), right in zip(_TYPES.items(), _compute_solution(), strict=True):
        side, link = int(attempt.counts[name]["side"]), attempt.counts[name]["link"]
        bytes_of_image = _read_kernel_ms(dtype) / 1e3 / _IMAGES * measured["to_device_pinned"]
        pageable = _read_kernel_ms(dtype) / 1e3 / _IMAGES * measured["to_device_pageable"]
        if side == right:
            continue
        sides = {
            math.isqrt(int(bytes_of_image / 2))
            // _STEP
            * _STEP: "if a pixel had two bytes. Here it has one",
            math.isqrt(int(bytes_of_image / 4))
            // _STEP
            * _STEP: "if a pixel had four bytes. Here it has one",
            math.isqrt(int(pageable))
            // _STEP
            * _STEP: "from pageable memory. Here the images are page-locked",
        }
        if side in sides:
            why = f"would be the side {sides[side]}."
        elif side == right + _STEP:
            why = "is rounded up to a multiple of 8, so the link takes longer than the kernel: round down."
        elif side < right:
            why = f"makes the link {format_number(100 * link)} % of the kernel, and larger images still fit."
        else:
            why = f"makes the link {format_number(link)} times as long as the kernel, with {side}² bytes per image."
        sentences.append(f"{name}: {side} {why}")
    return " ".join(sentences)


EXERCISE = Exercise(
    title="How many pixels",
    subject=Numbers(_count_answer, start=(88, 88), solution=_compute_solution),
    goals=(*_make_goals("half"), *_make_goals("float")),
    mistakes=(Mistake(_explain, _explain),),
)
