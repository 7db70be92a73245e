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
_LEAST_WAIT = 0.01  # per cent of the link's time: a shorter one is not named
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
    copied = done = waits = 0.0  # when the last copy so far, and the last kernel, have ended
    for start in range(0, _IMAGES, chunk):
        size = min(chunk, _IMAGES - start)  # the last chunk has the rest
        copied += link_ms * size / _IMAGES
        waits = max(done - copied, 0)  # for the kernel before it
        done = max(done, copied) + size * image_ms
    return {
        _CASE: {
            "chunk": float(chunk),
            "filled": chunk / (math.ceil(chunk / room) * room),
            "room": float(room),
            "visible": 100 * (done - copied) / link_ms,
            "waits": 100 * waits / link_ms,
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


def _describe_end(attempt: Attempt) -> str:
    """Return a sentence with what is computed after the last copy."""
    counts = attempt.counts[_CASE]
    chunk, last = (
        format_number(images) for images in (counts["chunk"], (_IMAGES - 1) % counts["chunk"] + 1)
    )
    if counts["chunks"] == 1:
        return "The device is filled, but a single chunk overlaps with nothing: all of it is computed after the copy."
    if counts["waits"] < _LEAST_WAIT:
        return (
            "The device is filled, but no copy hides what is computed after the last one: the last chunk has "
            f"{last} of the images. It should be small."
        )
    return (
        f"The device is filled. But the last copy, of {last} images, is short: when it ends, the kernel of the {chunk} "
        f"before still runs, for {counts['waits']:.2f}% of the link's time. The kernel of the last chunk begins only "
        f"then, and takes {counts['visible'] - counts['waits']:.2f}%. With chunks that are smaller than {chunk}, and a "
        "last one that is small, too, both parts are short."
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
            _describe_end,
            lambda attempt: (
                attempt.counts[_CASE]["filled"] >= _LEAST
                and attempt.counts[_CASE]["visible"] > _MOST
            ),
        ),
    ),
)
