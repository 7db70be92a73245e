"""Exercise 15a: an unknown kernel.

Tries find the answer, which is accepted: `labkit.exercises.subjects.Numbers` says why.
"""

import math

import numpy as np

from labkit.base.errors import LabError
from labkit.base.numerals import shorten
from labkit.exercises import Attempt, Exercise, Goal, Mistake, Numbers
from labkit.records.recorded import recorded
from labkit.spec.devices import device
from labkit.spec.layers import LENET86

_KERNEL = "the unknown kernel"
_OFF = 4  # per cent that an answer may be off: two digits, and either rate of the memory


def _compute_place() -> tuple[float, float, float]:
    """Return the kernel's operations per byte, its rate over its roof, and over the flat part of the roof [%].

    It is the matrix product of rung 05 on layer 1 of lenet86, whose counters the page prints.
    """
    counters = (
        recorded("H200")
        .counters(5, LENET86[0], "time_ns", "dram_bytes", "thread_ffma_instructions", kernel="gemm")
        .iloc[0]
    )
    ceilings = recorded("H200").ceilings
    flops, size = 2 * counters["thread_ffma_instructions"], counters["dram_bytes"]
    rate, intensity = flops / counters["time_ns"] * 1e9, flops / size
    roof = min(ceilings["reference_float32"], intensity * ceilings["copy"])
    return intensity, 100 * rate / roof, 100 * rate / ceilings["reference_float32"]


def _measure_distance(value: object, right: float, what: str) -> float:
    """Return by how many per cent a reader's number is off; LabError if it is no number above 0."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float, np.number))
        or not 0 < value < 1e30
    ):
        raise LabError(f"{shorten(value)} is no {what}: it is a number above 0, such as 12.5")
    return 100 * abs(float(value) / right - 1)


def _count_answer(intensity: object, of_roof_pct: object) -> dict[str, dict[str, float]]:
    """Return the reader's numbers, and by how many per cent they are off."""
    right = _compute_place()
    off = [
        _measure_distance(value, of, what)
        for value, of, what in (
            (intensity, right[0], "intensity"),
            (of_roof_pct, right[1], "share of the roof in per cent"),
        )
    ]
    return {
        _KERNEL: {
            "intensity": float(intensity),
            "of_roof": float(of_roof_pct),
            "intensity off": off[0],
            "of_roof off": off[1],
        }
    }


def _is_near(attempt, name: str, value: float) -> bool:
    """Return whether the reader's number `name`, "intensity" or "of_roof", is within `_OFF` per cent of a value."""
    return math.isclose(attempt.counts[_KERNEL][name], value, rel_tol=_OFF / 100)


# What makes an intensity wrong by a factor.
_FACTORS = {
    1 / 2: "A multiply-add is two operations: a product and a sum.",
    2: "This is twice the intensity. A multiply-add is two operations, not four.",
    4: "These are operations per float, of four bytes. The intensity is operations per byte.",
    8: "These are operations per 8 bytes. The intensity is operations per byte.",
    1 / 8: "These are operations per bit. The intensity is operations per byte.",
    1
    / 4: "This is a quarter of the intensity. The bytes are counted already, and need no factor for a float.",
    32: "This is 32 times the intensity. The counter counts each thread's multiply-adds, not those of a warp.",
    1
    / 32: "This is the intensity over 32. The counter counts each thread's multiply-adds, not those of a warp.",
}


def _compute_ridge() -> float:
    """Return the intensity at which the slanted part of the roof meets the flat one."""
    ceilings = recorded("H200").ceilings
    return ceilings["reference_float32"] / ceilings["copy"]


def _find_rate() -> float:
    """Return the kernel's rate [TFLOP/s]."""
    return _compute_place()[2] / 100 * recorded("H200").ceilings["reference_float32"] / 1e12


def _explain_factor(attempt: Attempt) -> str:
    """Return what makes an intensity wrong by a factor, or "" if the factor is another one."""
    right = _compute_place()[0]
    return next(
        (
            sentence
            for factor, sentence in _FACTORS.items()
            if _is_near(attempt, "intensity", factor * right)
        ),
        "",
    )


def _find_power(attempt: Attempt, name: str, right: float) -> int:
    """Return the n of 10^n by which a reader's number is too large, a multiple of 3 other than 0; 0 if it is not."""
    power = round(math.log10(attempt.counts[_KERNEL][name] / right))
    return power if power % 3 == 0 and _is_near(attempt, name, right * 10.0**power) else 0


EXERCISE = Exercise(
    title="An unknown kernel",
    subject=Numbers(_count_answer, start=(1, 100), solution=lambda: _compute_place()[:2]),
    goals=(
        Goal(
            "intensity, off by (%)", lambda counts: counts[_KERNEL]["intensity off"], at_most=_OFF
        ),
        Goal(
            "share of its roof, off by (%)",
            lambda counts: counts[_KERNEL]["of_roof off"],
            at_most=_OFF,
        ),
    ),
    mistakes=(
        Mistake(
            "These are the right numbers in the other order: the answer is intensity, of_roof_pct.",
            lambda attempt: (
                _is_near(attempt, "intensity", _compute_place()[1])
                and _is_near(attempt, "of_roof", _compute_place()[0])
            ),
        ),
        Mistake(_explain_factor, _explain_factor),
        Mistake(
            "The intensity is operations per byte. This is bytes per operation.",
            lambda attempt: (
                _is_near(attempt, "intensity", 1 / _compute_place()[0])
                or _is_near(attempt, "intensity", 2 / _compute_place()[0])
            ),
        ),
        Mistake(
            "This is the ridge of this GPU, the flat part of the roof over the memory's rate. The intensity is the "
            "kernel's own: its operations over its bytes.",
            lambda attempt: _is_near(attempt, "intensity", _compute_ridge()),
        ),
        Mistake(
            "The digits of the intensity are right, and the power of ten is not: in which units are the operations "
            "and the bytes?",
            lambda attempt: _find_power(attempt, "intensity", _compute_place()[0]),
        ),
        Mistake(
            "The intensity is not this. Divide the operations, two per multiply-add, by the bytes of device memory.",
            lambda attempt: attempt.counts[_KERNEL]["intensity off"] > _OFF,
        ),
        Mistake(
            "This is the intensity over that of the ridge: how high the slanted roof is there, beside the flat one. "
            "The kernel's own rate is not in it.",
            lambda attempt: _is_near(
                attempt, "of_roof", 100 * _compute_place()[2] / _compute_place()[1]
            ),
        ),
        Mistake(
            "Here the kernel's rate counts a multiply-add as one operation, and the roof as two: that halves it.",
            lambda attempt: _is_near(attempt, "of_roof", _compute_place()[1] / 2),
        ),
        Mistake(
            "The roof at this intensity counts a multiply-add as one operation here, and the kernel's rate as two: "
            "that doubles the share.",
            lambda attempt: _is_near(attempt, "of_roof", _compute_place()[1] * 2),
        ),
        Mistake(
            "This is the share of the FP32 units' rate. The kernel lies to the left of the ridge: there the roof is "
            "the memory's rate times the intensity.",
            lambda attempt: (
                _is_near(attempt, "of_roof", _compute_place()[2])
                or _is_near(attempt, "of_roof", 1e14 * _find_rate() / device("H200").peak_flops)
            ),
        ),
        Mistake(
            "This is the share of the FP32 units' rate, with one operation per multiply-add. The roof here is the "
            "memory's rate times the intensity, and a multiply-add is two operations.",
            lambda attempt: _is_near(attempt, "of_roof", _compute_place()[2] / 2),
        ),
        Mistake(
            "This is what the kernel leaves of its roof. The share is what it reaches.",
            lambda attempt: _is_near(attempt, "of_roof", 100 - _compute_place()[1]),
        ),
        Mistake(
            "This is the roof over the kernel's rate. The share is the rate over the roof.",
            lambda attempt: (
                _is_near(attempt, "of_roof", 1e4 / _compute_place()[1])
                or _is_near(attempt, "of_roof", 1e2 / _compute_place()[1])
            ),
        ),
        Mistake(
            "This is the height of the roof in TFLOP/s. The share is the kernel's own rate over it, in per cent.",
            lambda attempt: _is_near(attempt, "of_roof", _find_rate() / _compute_place()[1] * 100),
        ),
        Mistake(
            "This takes the H100's rate of a copy, and the kernel ran on an H200, whose memory is faster.",
            lambda attempt: _is_near(
                attempt,
                "of_roof",
                _compute_place()[1]
                * recorded("H200").ceilings["copy"]
                / recorded("H100").ceilings["copy"],
            ),
        ),
        Mistake(
            "This takes the memory's rate from the data sheet. The roof of this exercise is that of a copy.",
            lambda attempt: math.isclose(
                attempt.counts[_KERNEL]["of_roof"],
                _compute_place()[1]
                * recorded("H200").ceilings["copy"]
                / device("H200").peak_bandwidth,
                rel_tol=0.01,
            ),
        ),
        Mistake(
            "The share is asked for in per cent.",
            lambda attempt: _is_near(attempt, "of_roof", _compute_place()[1] / 100),
        ),
        Mistake(
            "That is the kernel's rate. Its roof is a rate, too: what is the first over the second, in per cent?",
            lambda attempt: (
                _is_near(attempt, "of_roof", _find_rate())
                or (_is_near(attempt, "of_roof", 1e3 * _find_rate()))
            ),
        ),
        Mistake(
            "The intensity is right, and the share is not. It is a quotient of two rates at this intensity: the "
            "kernel's own one, and that of its roof. What is each of them?",
            lambda attempt: attempt.counts[_KERNEL]["of_roof off"] > _OFF,
        ),
    ),
)
