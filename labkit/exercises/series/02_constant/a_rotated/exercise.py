"""Exercise 02a: rotated rows."""

import math

from labkit.exercises import LAYER_1, Attempt, Exercise, Goal, InPlaceOf, Mistake
from labkit.exercises.arithmetic import list_taken
from labkit.exercises.exercise import join_words

_READS = 39_200  # of the mask by the warps of layer 1: K * K by each of 800
_BYTES = 4 * (86 * 86 + 4 * 80 * 80)  # of global memory: input and output, and no second mask


def _count_turns_per_read(counts):
    """Return the turns per read of constant memory: one, and one per further word that lanes ask for.

    Infinity with fewer reads than needed, or with more: those would be of other elements. So it is
    if the mask comes from global memory.
    """
    layer = counts["layer 1"]
    is_read = layer["constant_requests"] == _READS and layer["unique_bytes"] <= _BYTES
    return 1 + layer["constant_serialized"] / _READS if is_read else math.inf


_SHAPE = {"B": 1, "C": 1, "H": 40, "W": 40, "M": 1, "K": 7, "blockDim.x": 16, "blockDim.y": 16}


def _describe_row(attempt: Attempt) -> str:
    """Return which elements of a row of the mask a thread takes, if not each of them once; "" if that is not known."""
    K = _SHAPE["K"]
    for lane in range(_SHAPE["blockDim.x"]):
        names = {f"{part}.{axis}": 0 for part in ("blockIdx", "threadIdx") for axis in "xyz"}
        taken = list_taken(attempt.source, "conv", "mask", {**_SHAPE, **names, "threadIdx.x": lane})
        row = taken[:K]
        # It takes one row behind the other. A negative number may be one of unsigned ints, which wraps.
        if (
            len(taken) != K * K
            or min(taken) < 0
            or taken != [first + K * p for p in range(K) for first in row]
        ):
            return ""
        if sorted(row) != [*range(K)]:
            return (
                f"With K = {K}, the thread with threadIdx.x = {lane} takes elements {join_words([*map(str, row)])} of "
                f"the first row of the mask. It should take each from 0 to {K - 1} once."
            )
    return ""


EXERCISE = Exercise(
    title="Rotated rows",
    subject=InPlaceOf("constant", "a", LAYER_1),
    lines=4,
    goals=(
        Goal(
            "turns per read of constant memory, layer 1",
            _count_turns_per_read,
            exactly=7,
            predicted="turns_per_read",
            words="as many as you count on paper for the rotated rows",
            least="exactly 49 reads of constant memory per warp, and no mask in global memory",
            counters=("constant_serialized",),
            on="layer 1",
        ),
    ),
    start_reaches=(1,),
    mistakes=(
        Mistake(
            "x and the mask have to use the same q: a product needs the input that belongs to its weight.",
            lambda attempt: (
                attempt.runs_wrong
                and (
                    ("int q = 0" in attempt.source and "threadIdx.x) % K" in attempt.source)
                    or attempt.matches(r"\bw \+ i\]|\* K \+ i\]")
                    or attempt.matches(r"\bx\[[^;\]]{1,80} \+ q\] \* mask\[[^;]{1,80}% K\]")
                )
            ),
        ),
        Mistake(
            "q begins at threadIdx.x % K and ends at K - 1, so the elements before its first one are left out. Behind "
            "K - 1 it has to go on at 0, until it has taken K values.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"\bint q = threadIdx\.x % K; q < K;")
            ),
        ),
        Mistake(_describe_row, lambda attempt: attempt.runs_wrong and _describe_row(attempt)),
        Mistake(
            "q has to take each value from 0 to K - 1 exactly once, in any lane: (i + threadIdx.x) % K does.",
            lambda attempt: (
                attempt.runs_wrong
                and "int i" in attempt.source
                and not attempt.matches(
                    r"\bint q = \((?:i \+ threadIdx\.x|threadIdx\.x \+ i)\) % K;"
                )
            ),
            vague=True,
        ),
        Mistake(
            "Neighbouring lanes have the same threadIdx.y, and so the same h: they still ask for the same element. "
            "Lanes are counted along threadIdx.x.",
            lambda attempt: (
                attempt.counts
                and attempt.matches(r"\+ (?:threadIdx\.y|h)\) % K")
                and "+ threadIdx.x) % K" not in attempt.source
            ),
        ),
        Mistake(
            "All lanes of a warp still ask for the same element: where a lane begins has to depend on threadIdx.x.",
            lambda attempt: (
                attempt.counts
                and _count_turns_per_read(attempt.counts) == 1
                and "int i" in attempt.source
            ),
        ),
        Mistake(
            lambda attempt: (
                f"On average, the lanes of a warp ask for {_count_turns_per_read(attempt.counts):.3g} different "
                "elements at a time. A row has K, and neighbouring lanes should begin at neighbouring ones: with (i + "
                "threadIdx.x) % K they do."
            ),
            lambda attempt: attempt.counts and 1 < _count_turns_per_read(attempt.counts) < 7,
        ),
    ),
)
