"""Exercise 07b: nothing to wait for."""

import re

from labkit.exercises import HIDDEN, LAYER_1, Attempt, Exercise, InPlaceOf, Mistake, counted
from labkit.exercises.arithmetic import compute
from labkit.spec.layers import Layer

# Its masks come in two passes, and a thread of the last block has no output.
_PASSES = Layer("channels in two passes", C=5, H=30, W=34, M=18, K=4), 1
_BARRIERS = counted(
    "barriers",
    "layer 1",
    per=20,
    what="barriers per block",
    at_most=1,  # of 20 blocks
    least={"barriers": 20, "shared_load_instructions": 1960},
    most={"named_barriers": 0},
)
_UNLIKE = re.compile(
    r"\bif \([^;{]*\b(?:first|h|n|w|mine|threadIdx)\b[^;{]*\)\s*\{?\s*__syncthreads"
)
# The second barrier, without a condition, between the stores of the masks and the sums.
_AFTER_STORES = re.compile(r"\bmask\[t\]\[m\] =[^;]*;\s*\}\s*__syncthreads\(\);\s*for \(int c\b")
# The condition of the first barrier, in the loop over the passes.
_CONDITION = re.compile(
    r"\bc0 \+= CHANNELS\) \{\s*if \(([^;{}]{1,80})\)\s*\{?\s*__syncthreads\(\);"
)


def _describe_skipped(attempt: Attempt) -> str:
    """Return in which pass after the first one the first barrier's condition does not hold; "" if in none."""
    condition = _CONDITION.search(attempt.source)
    names = {"C": 9, "CHANNELS": 3}
    for c0, which in ((3, "second"), (6, "third")) if condition else ():
        if compute(condition[1], {**names, "c0": c0}) == 0:
            return f"Take C = 9 and CHANNELS = 3: in the {which} pass c0 is {c0}, and `{condition[1]}` does not hold. "
    return ""


EXERCISE = Exercise(
    title="Nothing to wait for",
    subject=InPlaceOf("tuning", "b", LAYER_1, (*HIDDEN[:2], _PASSES)),
    lines=2,
    goals=(_BARRIERS,),
    start_reaches=(2,),
    mistakes=(
        Mistake(
            "All threads of a block have to decide alike whether they wait. c0 is the same for all; threadIdx, and "
            "what follows from it, is not.",
            lambda attempt: attempt.wrong and attempt.matches(_UNLIKE),
        ),
        Mistake(
            "Each pass has other masks: the copy has to run in all of them. Only the barrier before it is not needed "
            "in the first pass.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"\bif \((?:c0 == 0|!c0)\)\s*\{?\s*for \(int i\b")
            ),
        ),
        Mistake(
            "The second barrier stays as it is: no thread may sum before all masks are stored.",
            lambda attempt: (
                {"uninitialized", "race"} & {*attempt.findings}
                and not attempt.matches(_AFTER_STORES)
            ),
            vague=True,
        ),
        Mistake(
            lambda attempt: (
                f"{_describe_skipped(attempt)}From the second pass on, slow threads may still read the masks that "
                "fast ones replace: there the barrier is needed."
            ),
            lambda attempt: "race" in attempt.findings and attempt.matches(_AFTER_STORES),
        ),
        Mistake(
            "The barrier has moved, but it still runs in every pass: leave it out where there is nothing to wait "
            "for.",
            lambda attempt: attempt.counts and _BARRIERS.number(attempt.counts) == 2,
        ),
    ),
)
