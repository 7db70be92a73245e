"""The exercises of page 13: answered by numbers, and counted from the recorded times of the fused network."""

from __future__ import annotations

import math

import numpy as np

from labkit.base.errors import LabError
from labkit.exercises.exercise import Exercise, Goal, Mistake
from labkit.exercises.subjects import Numbers
from labkit.networks.fused import PRECISIONS
from labkit.records.recorded import recorded
from labkit.spec.devices import device

_IMAGES, _MULTIPROCESSORS, _SIDE = 10_000, 132, 86
_TYPES = {"half": "float16", "float": "float32"}
_LEAST, _MOST = 0.99, 2.0  # 13b: share of the room for blocks, and per cent of the link's time


def _link_ms(side: int) -> float:
    """The time of 10,000 images of side x side bytes from page-locked memory to an H200 [ms]."""
    return float(1e3 * _IMAGES * side**2 / device("H200").measured["to_device_pinned"])


def _kernel_ms(dtype: str) -> float:
    """The recorded time of the fused network for 10,000 images on an H200 [ms]."""
    rows = recorded("H200").network(label="fused", dtype=dtype, where="device", pixels="uint8 86x86")
    return float(rows["ms"].item())


def _integer(value: object, most: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= most:
        raise LabError(f"{value!r} is no {what}; it is an integer from 1 to {most:,}")
    return int(value)


# ------------------------------------------------------------------------------------------------- 13a: the side
def _sides(half: object, float: object) -> dict[str, dict[str, float]]:
    found = {}
    for (name, dtype), value in zip(_TYPES.items(), (half, float), strict=True):
        side, kernel_ms = _integer(value, 1000, "side in pixels"), _kernel_ms(dtype)
        found[name] = {"side": side, "link": _link_ms(side) / kernel_ms, "larger": _link_ms(side + 1) / kernel_ms}
    return found


def _largest() -> tuple[int, ...]:
    """Where the bytes of the images take as long as the kernel."""
    rate = device("H200").measured["to_device_pinned"]
    return tuple(math.isqrt(int(_kernel_ms(dtype) / 1e3 / _IMAGES * rate)) for dtype in _TYPES.values())


def _goals_of(name: str) -> tuple[Goal, Goal]:
    return (
        Goal(f"link over kernel, {name}", lambda counts: counts[name]["link"], at_most=1),
        Goal(f"and with sides one pixel longer, {name}", lambda counts: counts[name]["larger"], at_least=1),
    )


def _both(attempt, holds) -> bool:
    return all(holds(attempt.counts[name]) for name in _TYPES)


# ------------------------------------------------------------------------------------------------- 13b: the chunk
_CASE = "half, from bytes"


def _chunk(images: object) -> dict[str, dict[str, float]]:
    chunk = _integer(images, _IMAGES, "number of images")
    room = _MULTIPROCESSORS * PRECISIONS["float16"].sizes["BLOCKS"]
    last = chunk * _kernel_ms("float16") / _IMAGES
    return {_CASE: {"chunk": float(chunk), "filled": chunk / (math.ceil(chunk / room) * room), "room": float(room),
                    "visible": 100 * last / _link_ms(_SIDE), "chunks": float(math.ceil(_IMAGES / chunk))}}


def _one_turn() -> tuple[int]:
    """As many images as there is room for blocks."""
    return (_MULTIPROCESSORS * PRECISIONS["float16"].sizes["BLOCKS"],)


EXERCISES = (
    Exercise(
        number="13a",
        page="network",
        title="How many pixels",
        subject=Numbers(_sides, start=(86, 86), solution=_largest),
        goals=(*_goals_of("half"), *_goals_of("float")),
        hints=(
            "The kernel takes the same time for images of any size, because it resizes them. What does the link take?",
            "An image of n x n pixels has n² bytes, and the link carries 55.2 GB/s.",
            "n² = 55.2 GB/s times the kernel's time for one image. The recorded table has it for 10,000.",
        ),
        mistakes=(
            Mistake(
                "The two are in the other order: the first number is that of half.",
                lambda attempt: tuple(int(attempt.counts[name]["side"]) for name in _TYPES) == _largest()[::-1],
            ),
            Mistake(
                "These are the sides for four bytes per pixel. Here a pixel is one byte.",
                lambda attempt: tuple(attempt.counts[name]["side"] for name in _TYPES)
                == tuple(side // 2 for side in _largest()),
            ),
            Mistake(
                "With these the link is the shorter one, but it still is with larger images.",
                lambda attempt: _both(attempt, lambda each: each["larger"] < 1),
            ),
        ),
    ),
    Exercise(
        number="13b",
        page="network",
        title="A chunk for streams",
        subject=Numbers(_chunk, start=(1000,), solution=_one_turn),
        goals=(
            Goal("share of the room for blocks that a chunk uses", lambda counts: counts[_CASE]["filled"],
                 at_least=_LEAST),
            Goal("the last chunk's kernel, % of the link's time", lambda counts: counts[_CASE]["visible"],
                 at_most=_MOST),
            Goal("chunks", lambda counts: counts[_CASE]["chunks"], at_most=20),
        ),
        hints=(
            "Which part of the kernels is visible if all but the last one run while the link is busy?",
            "A block has one image at a time. How many blocks does the device have room for at once?",
            "132 multiprocessors with four blocks each. What happens to the 529th image?",
        ),
        mistakes=(
            Mistake(
                "One multiprocessor has room for four of these blocks: this fills a quarter of the device.",
                lambda attempt: attempt.counts[_CASE]["chunk"] == _MULTIPROCESSORS,
            ),
            Mistake(
                "The images beyond a multiple of 528 begin when the others are done, and most blocks wait for them.",
                lambda attempt: attempt.counts[_CASE]["filled"] < _LEAST
                and attempt.counts[_CASE]["chunk"] > attempt.counts[_CASE]["room"],
            ),
            Mistake(
                "The device is filled, but nothing hides the kernel of the last chunk: it should be small.",
                lambda attempt: attempt.counts[_CASE]["filled"] >= _LEAST
                and attempt.counts[_CASE]["visible"] > _MOST,
            ),
        ),
    ),
)
