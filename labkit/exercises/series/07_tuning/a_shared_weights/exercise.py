"""Exercise 07a: shared weights."""

import math

from labkit.exercises import HIDDEN, LAYERS, Exercise, Goal, InPlaceOf, Mistake, counted
from labkit.spec.layers import Layer

_LAYER, _LOADS = "layer 2", "global_load_requests"
# Its maps are no multiple of a block's, it has several groups of them, and a thread of the last
# block has no output.
_PASSES = Layer("channels in two passes", C=5, H=30, W=34, M=18, K=4), 1
_LEAST = 7_840  # loads from shared memory: each brings four weights


def _reads(counts):
    """Return the warps' reads of constant memory; infinity, which meets no goal, if no weights are in shared memory.

    `counts`: case -> name of a counter -> its number.
    """
    layer = counts[_LAYER]
    is_shared = layer.get("shared_load_instructions", 0) >= _LEAST and not layer["lane_exchanges"]
    return layer.get("constant_requests", 0) or (0 if is_shared else math.inf)


EXERCISE = Exercise(
    title="Shared weights",
    subject=InPlaceOf("tuning", "a", {_LAYER: LAYERS[_LAYER]}, (HIDDEN[0], _PASSES)),
    lines=22,
    goals=(
        Goal(
            f"reads of constant memory, {_LAYER}",
            _reads,
            at_most=0,
            least=f"{_LEAST:,} loads from shared memory, and no exchanges between lanes",
        ),
        counted(_LOADS, _LAYER, what="load requests", at_most=6_500),
    ),
    mistakes=(
        Mistake(
            "No barrier is missing here: threads of several groups store weights of different maps to one place. The "
            "array belongs to the block, with all its GROUPS * MAPS maps, from blockIdx.y * GROUPS * MAPS on. A "
            "thread's own begin threadIdx.y * MAPS later.",
            lambda attempt: "both write" in attempt.wrong and "__shared__ array" in attempt.wrong,
        ),
        Mistake(
            "Threads without an output store weights for the others, and all threads of a block have to reach both "
            "barriers: ask first < Ho behind the second barrier, in the loop that sums.",
            lambda attempt: (
                attempt.findings
                and attempt.matches(
                    r"first < Ho[^;{]*;[^;{]*\)\s*\{\s*__sync|first >= Ho[^;{]*\)\s*(?:return|continue)"
                )
            ),
        ),
        Mistake(
            "It takes two barriers. One stands behind the stores: no thread may sum before all weights are there. "
            "The other stands before them: from the second pass on, slow threads still read the weights that fast "
            "ones replace.",
            lambda attempt: attempt.findings and attempt.source.count("__syncthreads()") < 2,
        ),
        Mistake(
            "The last block may have fewer than GROUPS * MAPS maps, and the last pass fewer channels than it has "
            "room for: store a zero for a weight that does not exist.",
            lambda attempt: (
                "out of bounds" in attempt.findings and "__shared__ array" not in attempt.wrong
            ),
        ),
        Mistake(
            "The array belongs to the block, so its first map is blockIdx.y * GROUPS * MAPS. A thread's own maps "
            "begin threadIdx.y * MAPS later: it needs that number for the sums, for y and for the last guard.",
            lambda attempt: attempt.runs_wrong,
        ),
        Mistake(
            "The products still read constant memory. Does the array in shared memory have the name that they "
            "read?",
            lambda attempt: (
                attempt.count("constant_requests", _LAYER) > 0 and "__shared__" in attempt.source
            ),
        ),
        Mistake(
            "The weights come from global memory for every product. Let the block copy those of a channel to "
            "shared memory first: then a load serves all its threads.",
            lambda attempt: attempt.count(_LOADS, _LAYER) > 6_500,
        ),
    ),
)
