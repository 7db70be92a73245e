"""Exercise 06a: carry."""

import re

from labkit.exercises import LAYERS, SOURCE, Exercise, Goal, InPlaceOf, Mistake
from labkit.exercises.text import count_features
from labkit.spec.layers import Layer

_ADDS_ALL = re.compile(r"\bq \+= (?:TILE|16);|\bq = threadIdx\.y[,;]")
# A digit of TILE: "TILE % K", "TILE / (K * K)".
_OF_TILE = re.compile(r"\b(?:TILE|16)(?: *[/%] *(?:K\b|\(K \* K\)))+")
_ANY_K = (
    (Layer("K = 1", C=40, H=5, W=6, M=3, K=1), 1),
    (Layer("K = 2", C=9, H=8, W=11, M=5, K=2), 2),
    (Layer("K = 3", C=7, H=12, W=9, M=18, K=3), 2),
)

EXERCISE = Exercise(
    title="Carry",
    subject=InPlaceOf("fusion", "a", {"layer 2": LAYERS["layer 2"]}, _ANY_K),
    lines=10,
    goals=(
        Goal(
            "divisions and remainders in loops",
            lambda counts: counts[SOURCE]["divisions_in_loops"],
            counters=("divisions_in_loops",),
            on=SOURCE,
            exactly=0,
        ),
    ),
    start_reaches=(4,),
    mistakes=(
        Mistake(
            "The digits have to begin with the thread's own row, threadIdx.y: its c, p and q come from divisions "
            "before the loop.",
            # Only m takes threadIdx.y before the loop.
            lambda attempt: (
                attempt.wrong
                and attempt.source.partition("for (int step")[0].count("threadIdx.y") < 2
            ),
        ),
        Mistake(
            "One carry may not be enough: a step adds TILE = 16 to q, more than two times 7. Carry with while in "
            "place of if; or add the digits of TILE, and none carries more than once.",
            lambda attempt: (
                attempt.runs_wrong
                and attempt.matches(_ADDS_ALL)
                and "if (q >= K)" in attempt.source
            ),
        ),
        Mistake(
            "The digits are not those of the row. Write down (c, p, q) of the rows 0, 16, 32, 48 and 64 for the K "
            "of this shape, and follow your additions and carries from each to the next.",
            lambda attempt: attempt.wrong.startswith("right"),
        ),
        Mistake(
            "TILE / K and TILE % K are constants: the compiler computes them, and no thread divides. But this goal "
            "reads the text of the loop. Compute them before the loop, as `constexpr int DQ = TILE % K`.",
            lambda attempt: (
                attempt.counts
                and attempt.counts[SOURCE]["divisions_in_loops"] > 0
                and not count_features(_OF_TILE.sub("", attempt.source))["divisions_in_loops"]
            ),
        ),
        Mistake(
            "The digits are carried, but the loop still divides: quotients and remainders by a constant count, "
            "too. A digit that has reached K needs a comparison and a subtraction.",
            lambda attempt: attempt.counts and not attempt.matches(r"\brow\b[^;]*[/%]"),
        ),
    ),
)
