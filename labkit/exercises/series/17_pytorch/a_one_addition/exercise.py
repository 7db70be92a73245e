"""Exercise 17a: one addition per warp."""

import re

import numpy as np

from labkit.exercises import Attempt, Case, Exercise, Kernels, Mistake, Output, counted, launch
from labkit.exercises.causes import OWN_SUM_TWICE
from labkit.exercises.exercise import join_words
from labkit.exercises.subjects import draw_summands
from labkit.exercises.text import find_line

_ON, _MAPS, _AREA, _THREADS = "12 maps of 1,000 pixels", 12, 1000, 256
_WARPS = _MAPS * _THREADS // 32
# A warp loads and stores four times, and adds once; a tree in shared memory, over a block, takes 25 instructions more.
_BUSIEST, _EXCHANGES = 4 * 3 + 1 + 27, 2 * 5
_EXACT = 2**24  # up to it, float32 holds every integer
_UNIT = 2.0**-12  # of the numbers: an int would lose it

# The loop of the exchanges: lanes 16, 8, 4, 2 and 1 apart, in either order.
_TREE = (
    r"= 16; *\w+ (?:> 0|>= 1)?; *\w+ (?:/= 2|>>= 1)|= 1; *\w+ (?:< 32|<= 16); *\w+ (?:\*= 2|<<= 1)"
)


def gradients(random: np.random.Generator, images: int, channels: int, area: int):
    """Return the launch of the gradients dx and db of y = relu(x + b), from dy and y, with a block per map.

    The sums of db are exact in any order.
    """
    shape = (images, channels, area)
    sign = random.choice([-1, 1], shape)
    dy = draw_summands(random, shape, _EXACT // (images * area)) * sign
    dy = (_UNIT * dy).astype(np.float32)
    y = random.normal(size=shape).astype(np.float32).clip(0)  # half of them are 0
    dx = np.where(y > 0, dy, np.float32(0))
    return launch(
        "gradients",
        dy,
        y,
        Output("dx", dx),
        Output("db", dx.sum(axis=(0, 2), dtype=np.float64).astype(np.float32), before=0),
        channels,
        area,
        grid=images * channels,
        block=_THREADS,
    )


# The loop of the exchanges with other ends: "apart = 16; apart > 1; apart /= 2"; groups: begin, comparison, end, step
_HALVES = re.compile(
    r"\bfor \(int (?P<name>\w+) = (?P<begin>\d\d?); (?P=name) (?P<is_left>>=?|<=?) (?P<end>\d\d?); "
    r"(?P=name) (?P<step>/= 2|>>= 1|\*= 2|<<= 1)\)\s*\{?\s*(?P<sum>\w+) \+= __shfl_(?:down|xor)_sync\("
    r"\w+, (?P=sum), (?P=name)\)"
)


def _explain_missing_exchange(attempt: Attempt) -> str:
    """Return which exchanges the loop over the lanes leaves out, or ""."""
    loop = _HALVES.search(attempt.source)
    if not loop or attempt.source.count("__shfl") > 1:
        return ""
    end = int(loop["end"]) + (loop["is_left"] in (">", "<="))
    halves = loop["step"] in ("/= 2", ">>= 1")
    if halves != loop["is_left"].startswith(">"):
        return ""
    steps = (16, 8, 4, 2, 1)
    begin = int(loop["begin"])
    made = [step for step in steps if (end <= step <= begin if halves else begin <= step < end)]
    missing = [step for step in steps if step not in made]
    if begin not in steps or not made or not missing:
        return ""
    line = find_line(attempt.source, loop.start())
    return (
        f"The loop in line {line} exchanges between lanes that are {join_words(map(str, made))} apart. Those "
        f"{join_words(map(str, missing))} apart are missing, so lane 0 has the sum of "
        f"{2 ** len(made)} lanes, not of 32."
    )


EXERCISE = Exercise(
    title="One addition per warp",
    subject=Kernels(
        gradients,
        (
            Case("2 images of 3 maps of 300 pixels", (2, 3, 300)),
            Case("maps of 5 pixels", (3, 2, 5)),
            Case(_ON, (3, 4, _AREA), counted=True),
        ),
        hidden=(range(1, 5), range(1, 6), range(1, 700)),
    ),
    lines=8,
    goals=(
        counted(
            "global_store_sectors",
            _ON,
            what="sectors stored, and each lane's addition",
            at_most=_MAPS * _AREA // 8 + _WARPS,
            weight=2,
            least={"unique_bytes": 3 * 4 * _MAPS * _AREA},
            most={
                "shared_atomic_requests": 0,
                "busiest_warp": _BUSIEST,
                "lane_exchanges": _WARPS * _EXCHANGES,
            },
        ),
        counted(
            "global_load_requests",
            _ON,
            what="load requests",
            at_most=2 * _MAPS * -(-_AREA // 32),
            least={"unique_bytes": 3 * 4 * _MAPS * _AREA},
        ),
    ),
    start_reaches=(13500, 768),
    mistakes=(
        OWN_SUM_TWICE,
        Mistake(
            "Several blocks add to one element of db at the same time: only atomicAdd keeps all sums.",
            lambda attempt: attempt.runs_wrong and not attempt.matches("atomicAdd"),
        ),
        Mistake(
            "A block has eight warps, and each has a sum of its own: lane 0 of every warp adds, threadIdx.x % 32 == 0.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"threadIdx\.x == 0|!threadIdx\.x")
                and "__shared__" not in attempt.source
            ),
        ),
        Mistake(
            "Each lane adds what it has after the exchanges, and only lane 0 has the sum of the warp: let that lane "
            "alone add.",
            lambda attempt: (
                "db, " in attempt.wrong
                and attempt.matches("__shfl_down")
                and not attempt.matches(r"\bif \([^;{}]*\)\s*\{?\s*atomicAdd")
            ),
        ),
        Mistake(
            _explain_missing_exchange,
            lambda attempt: "db, " in attempt.wrong and _explain_missing_exchange(attempt),
        ),
        Mistake(
            "dx is right, and db is not. Lane 0 has the sum of the warp only if all 32 lanes take part in every "
            "exchange, with the lanes 16, 8, 4, 2 and 1 apart.",
            lambda attempt: (
                "db, " in attempt.wrong and attempt.matches("__shfl") and not attempt.matches(_TREE)
            ),
            vague=True,
        ),
        Mistake(
            "dx is right, and db is not. Follow a number of dx to db: into the thread's sum, through the exchanges, "
            "and by one addition per warp. Where is it lost, or taken twice?",
            lambda attempt: "db, " in attempt.wrong and attempt.matches("__shfl"),
            vague=True,
        ),
        Mistake(
            "dx is still asked for, an element for each element of dy: 0 where y is 0.",
            lambda attempt: "dx, " in attempt.wrong,
            vague=True,
        ),
        Mistake(
            "Each lane still adds its own sum. Bring the sums of a warp together first, by shuffles, and let one lane "
            "add.",
            lambda attempt: attempt.count("reduction_sectors", _ON) == 32 * _WARPS,
        ),
        Mistake(
            "Each value is still added to db by itself, inside the loop: keep a sum in a register.",
            lambda attempt: attempt.count("reduction_sectors", _ON) >= _MAPS * _AREA,
        ),
    ),
)
