"""Exercise 13a: one exchange."""

import re

import numpy as np

from labkit.exercises import Case, Exercise, Kernels, Mistake, Output, counted, launch
from labkit.networks.fused import arrange_matrix

_ON, _COUNT = "5 tiles", 5
_WORK = {"matrix_operations": 2 * _COUNT, "unique_bytes": 4 * _COUNT * (2 * 64 + 16)}


def pool(random: np.random.Generator, count: int):
    """Return the launch that multiplies and pools `count` tiles: of four maps, the maxima of four windows of 4 x 4.

    Row 8 w + 2 m + h of a product is output (h, w) of map m in a square of 2 x 2; its columns are
    eight squares side by side, two per window. A window has two such rows of squares. All numbers
    are whole, so the sums are exact.
    """
    a = random.integers(-31, 32, (16, 16))
    b = random.integers(-31, 32, (count, 2, 16, 8))  # tile, row of squares, term, square
    # The last term, 31 times 0 or -1000, makes all outputs of some windows negative: there ReLU
    # decides.
    a[:, 15] = 31
    b[:, :, 15] = np.repeat(random.choice([0, -1000], (count, 1, 4), p=[0.7, 0.3]), 2, axis=2)
    outputs = (a @ b).reshape(count, 2, 2, 4, 2, 4, 2)  # tile, row, w, map, h, window, square
    y = Output("y", outputs.max(axis=(1, 2, 4, 6), initial=0).astype(np.float32))
    # the words of b in the order in which lanes load them, of two neighbouring terms each
    lane, register, column = np.indices((32, 2, 2), sparse=True)
    words = b[:, :, register * 8 + lane % 4 * 2 + column, lane // 4].astype(np.float16)
    # so that a lane finds the words of a that it needs side by side
    weights = arrange_matrix(a.T.astype(np.float16))
    return launch("pool", weights, np.ascontiguousarray(words), y, grid=count, block=32)


EXERCISE = Exercise(
    title="One exchange",
    subject=Kernels(
        pool,
        (Case("a tile", (1,)), Case("33 tiles", (33,)), Case(_ON, (_COUNT,), counted=True)),
        hidden=(range(2, 60),),
    ),
    lines=10,
    goals=(
        counted(
            "shared_instructions",
            _ON,
            what="loads and stores of shared memory",
            exactly=0,
            least=_WORK,
        ),
        counted(
            "lane_exchanges",
            _ON,
            per=_COUNT,
            what="exchanges between lanes, per tile",
            exactly=1,
            least=_WORK,
            # per lane 16 bytes of a and twice 8 of b; the two products leave the sums where they are
            most={"global_load_bytes": 32 * 32 * _COUNT, "matrix_operations": 2 * _COUNT},
        ),
    ),
    start_reaches=(120, 0),
    mistakes=(
        Mistake(
            "A lane has eight of the 16 outputs of its window, and nothing brings it the other eight: they are in the "
            "registers of another lane.",
            lambda attempt: (
                attempt.wrong.startswith("right") and not attempt.matches("shfl|__shared__")
            ),
        ),
        Mistake(
            "A window whose outputs are all negative has the maximum 0: ReLU. Begin the maximum with 0.",
            # only a maximum that did not begin with 0 is negative
            lambda attempt: (
                attempt.wrong.startswith("right")
                and re.search(r": -[^ ]+, expected 0,", attempt.wrong)
                and "shfl" in attempt.source
            ),
        ),
        Mistake(
            "The other half of the window is four lanes away, in lane ^ 4. Here the lanes exchange with others.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"__shfl_(?:up_sync|\w+\([^;]*, *(?:\w+ \^ )?(?!4\b)\d+ *\))")
            ),
        ),
        Mistake(
            "The two halves of a window each have a maximum, and here one is added to the other. That of the window "
            "is the larger of the two.",
            lambda attempt: (
                attempt.wrong.startswith("right") and attempt.matches(r"\+= *__shfl|\+ *__shfl")
            ),
        ),
        Mistake(
            "A shuffle down brings the number of a higher lane: lane 0 gets that of lane 4. So the lanes with below == "
            "0 have the maximum of the window, and here the others store.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"__shfl_down_sync\([^;]*, *4\)")
                and attempt.matches(r"\bif \(below\)\s*\{?\s*y\[")
            ),
        ),
        Mistake(
            "A lane has four outputs of each of its two products: sum[0] and sum[1] are eight outputs of its window. "
            "Here it takes only the four of sum[below].",
            lambda attempt: (
                attempt.wrong.startswith("right")
                # all of its rows that are read; "2" is that of the declaration
                and {*re.findall(r"(?<!mma\()\bsum\[([^\]]+)\]\[", attempt.source)}
                == {"2", "below"}
            ),
        ),
        Mistake(
            "A window is 4 x 4 here: a lane has eight of its 16 outputs, and lane ^ 4 has the others. The steps are "
            "the maximum of the lane's own eight sums, that of the two lanes, and a store to map * 4 + window. Which "
            "of them is another one here?",
            lambda attempt: attempt.wrong.startswith("right") and "shfl" in attempt.source,
            vague=True,
        ),
        Mistake(
            "The two lanes of a window still meet in shared memory. A shuffle brings the number from the other lane's "
            "register: __shfl_xor_sync(0xffffffff, number, 4).",
            lambda attempt: (
                0 < attempt.count("shared_instructions", _ON) < 120
                and not attempt.count("lane_exchanges", _ON)
            ),
        ),
        Mistake(
            "It works without shared memory, with more exchanges than one. A maximum may be taken in any order: first "
            "that of the lane's own eight sums, then exchange this one number.",
            lambda attempt: (
                not attempt.count("shared_instructions", _ON)
                and attempt.count("lane_exchanges", _ON) > _COUNT
            ),
        ),
        Mistake(
            "The exchange is there, and so is shared memory: what does a lane still read from it that it has in "
            "registers?",
            lambda attempt: (
                attempt.count("shared_instructions", _ON) and attempt.count("lane_exchanges", _ON)
            ),
        ),
    ),
)
