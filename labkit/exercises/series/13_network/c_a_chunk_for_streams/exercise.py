"""Exercise 13c: a chunk for streams.

Tries find the answer, which is accepted: `labkit.exercises.subjects.Numbers` says why.
"""

import math

from labkit.exercises import Attempt, Exercise, Goal, Mistake, Numbers, whole_number
from labkit.exercises.exercise import format_number
from labkit.networks.fused import PRECISIONS
from labkit.records.recorded import recorded
from labkit.spec.devices import device

_IMAGES, _MULTIPROCESSORS, _SIDE = 10_000, 132, 86
_LEAST, _MOST = 0.99, 2.0  # share of the room for blocks, and per cent of the link's time
_CASE = "half, from bytes"


def _count_answer(images: object) -> dict[str, dict[str, float]]:
    """Return for the reader's chunk the share of the room that it fills, and the time after the last copy [%]."""
    chunk = whole_number(images, "number of images", 1, _IMAGES)
    # Blocks at a time, one per image: BLOCKS of the fused kernel run on a multiprocessor at once.
    room = _MULTIPROCESSORS * PRECISIONS["float16"].sizes["BLOCKS"]
    link_ms = 1e3 * _IMAGES * _SIDE**2 / device("H200").measured["to_device_pinned"]
    # One row: the op time of 10,000 images that are on the device already.
    rows = recorded("H200").network(
        label="fused", dtype="float16", where="device", pixels="uint8 86x86"
    )
    image_ms = float(rows["ms"].item()) / _IMAGES
    copied = done = 0.0  # when the last copy so far, and the last kernel, have ended
    for start in range(0, _IMAGES, chunk):
        size = min(chunk, _IMAGES - start)  # the last chunk has the rest
        copied += link_ms * size / _IMAGES
        done = max(done, copied) + size * image_ms
    return {
        _CASE: {
            "chunk": float(chunk),
            "filled": chunk / (math.ceil(chunk / room) * room),
            "room": float(room),
            "visible": 100 * (done - copied) / link_ms,
            "chunks": float(math.ceil(_IMAGES / chunk)),
        }
    }


def _compute_solution() -> tuple[int]:
    """Return the solution: as many images as the device has room for, one block per image."""
    return (_MULTIPROCESSORS * PRECISIONS["float16"].sizes["BLOCKS"],)


def _describe_last_wave(attempt: Attempt) -> str:
    """Return a sentence with the images and the empty places of the last wave of a chunk."""
    chunk, room = (int(attempt.counts[_CASE][name]) for name in ("chunk", "room"))
    rest = chunk % room
    waves = f"{chunk // room} full wave{'s' * (chunk >= 2 * room)} of {room}"
    return (
        f"A chunk of {chunk:,} images is {waves} and a last one of {rest}. The last one begins when the others are "
        f"done, and {room - rest} of the places for blocks stay empty in it."
    )


EXERCISE = Exercise(
    title="A chunk for streams",
    subject=Numbers(_count_answer, start=(1000,), solution=_compute_solution),
    goals=(
        Goal(
            "share of the room for blocks that a chunk uses",
            lambda counts: counts[_CASE]["filled"],
            at_least=_LEAST,
        ),
        Goal(
            "kernels after the last copy, % of the link's time",
            lambda counts: counts[_CASE]["visible"],
            at_most=_MOST,
        ),
        Goal("chunks", lambda counts: counts[_CASE]["chunks"], at_most=20),
    ),
    mistakes=(
        Mistake(
            "One multiprocessor has room for four of these blocks: this fills a quarter of the device.",
            lambda attempt: attempt.counts[_CASE]["chunk"] == _MULTIPROCESSORS,
        ),
        Mistake(
            lambda attempt: (
                f"A chunk of this size has {int(attempt.counts[_CASE]['chunk'])} blocks, one per image, and the "
                "device has room for more at once: some of its places stay empty. How many multiprocessors are there, "
                "and how many of these blocks has one of them room for?"
            ),
            lambda attempt: (
                attempt.counts[_CASE]["filled"] < _LEAST
                and attempt.counts[_CASE]["chunk"] < attempt.counts[_CASE]["room"]
            ),
        ),
        Mistake(
            _describe_last_wave,
            lambda attempt: (
                attempt.counts[_CASE]["filled"] < _LEAST
                and attempt.counts[_CASE]["chunk"] > attempt.counts[_CASE]["room"]
            ),
        ),
        Mistake(
            lambda attempt: (
                "The device is filled, but no copy hides what is computed after the last one: the last chunk has "
                f"{format_number((_IMAGES - 1) % attempt.counts[_CASE]['chunk'] + 1)} of the images, one before it "
                f"{format_number(attempt.counts[_CASE]['chunk'])}. Both should be small."
                if attempt.counts[_CASE]["chunks"] > 1
                else "The device is filled, but a single chunk overlaps with nothing: all of it is computed after the "
                "copy."
            ),
            lambda attempt: (
                attempt.counts[_CASE]["filled"] >= _LEAST
                and attempt.counts[_CASE]["visible"] > _MOST
            ),
        ),
    ),
)
