"""Exercise 17b: channels last."""

import re

import numpy as np

from labkit.exercises import Attempt, Case, Exercise, Kernels, Mistake, Output, counted, launch
from labkit.exercises.exercise import format_number
from labkit.exercises.subjects import draw_floats
from labkit.exercises.text import find_line

_ON, _N = "2 images of 16 channels", 2 * 320 * 16


def bias_relu(random: np.random.Generator, images: int, area: int, channels: int, blocks: int):
    """Return the launch of relu(x + b), whose channels are the last dimension in memory."""
    x, b = draw_floats(random, (images, area, channels)), draw_floats(random, channels)
    y = Output("y", np.maximum(x + b, np.float32(0)))
    return launch("bias_relu", x, b, y, x.size, channels, area, grid=blocks, block=256)


# "c = threadIdx.x % C", or "c = first % C"
_CHANNEL = re.compile(r"= \(?([\w. *+]{1,100}?)\)? % C\b")


def _explain_fixed_channel(attempt: Attempt) -> str:
    """Return which line takes the channel from the thread, or computes it once, before the loop; or ""."""
    channel = _CHANNEL.search(attempt.source)
    if not channel or attempt.matches(r"% C[\s\S]*% C"):
        return ""
    line = find_line(attempt.source, channel.start())
    if channel[1] == "threadIdx.x":
        return (
            f"Line {line} takes the channel from the thread's number in its block. Behind the first block's elements "
            "it is that of element i only where C divides the block's number of threads. Take i % C, in the loop."
        )
    loop = re.search(r"\b(?:for|while)\b", attempt.source)
    if not loop or loop.start() < channel.start():
        return ""
    return (
        f"Line {line} computes the channel once, before the loop. Each pass takes another element, whose channel is "
        "another one unless C divides the step. Take i % C, in the loop."
    )


EXERCISE = Exercise(
    title="Channels last",
    subject=Kernels(
        bias_relu,
        (
            Case("2 images of 5 channels", (2, 77, 5, 2)),
            Case("an image of 1 channel", (1, 300, 1, 1)),
            Case(_ON, (2, 320, 16, 4), counted=True),
        ),
        hidden=(range(1, 4), range(1, 200), range(1, 40), range(1, 5)),
    ),
    lines=3,
    goals=(
        counted(
            "global_store_sectors",
            _ON,
            per=_N / 32,
            what="sectors per store",
            at_most=4,
            least={"unique_bytes": 2 * 4 * _N},
        ),
        counted(
            "global_load_sectors",
            _ON,
            per=_N / 32,
            what="sectors per pair of loads, x and b",
            at_most=6,
            least={"unique_bytes": 2 * 4 * _N},
        ),
    ),
    start_reaches=(32, 33),
    mistakes=(
        Mistake(
            "This address is that of [B, C, area], where each channel has a plane of its own. In [B, area, C], which "
            "index counts elements side by side?",
            lambda attempt: (
                attempt.wrong.startswith("right") and attempt.matches(r"\) \* area \+ \w+")
            ),
        ),
        Mistake(
            "Neighbours in memory are now neighbouring channels: the channel of element i is i % C, not i / area % C.",
            lambda attempt: (
                attempt.wrong.startswith("right") and attempt.matches(r"/ *area *% *C\b")
            ),
        ),
        Mistake(
            _explain_fixed_channel,
            lambda attempt: attempt.wrong.startswith("right") and _explain_fixed_channel(attempt),
        ),
        Mistake(
            "The bias belongs to the channel. Of element i of [B, area, C], which index is the last?",
            lambda attempt: attempt.wrong.startswith("right") and not attempt.matches(r"\bi % C\b"),
            vague=True,
        ),
        Mistake(
            "Right, but the lanes of a warp still count through pixels, and those are C elements apart. Let lane and "
            "address count alike: element i lies at i.",
            lambda attempt: (
                attempt.count("global_store_sectors", _ON)
                > 4 * attempt.count("global_store_requests", _ON)
            ),
            vague=True,
        ),
        Mistake(
            lambda attempt: (
                "Right, but elements are stored more than once: "
                f"{format_number(attempt.count('global_store_requests', _ON))} store requests, where "
                f"{format_number(_N / 32)} are enough. By how much does a thread's i grow?"
            ),
            lambda attempt: attempt.count("global_store_requests", _ON) > 1.5 * _N / 32,
        ),
    ),
)
