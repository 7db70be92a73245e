"""Exercise 07a: shared weights."""

import math
import re

from labkit.exercises import HIDDEN, LAYERS, Bound, Exercise, Goal, InPlaceOf, Mistake, counted
from labkit.spec.layers import Layer

_LAYER, _LOADS, _MOST = "layer 2", "global_load_requests", 10_000
# Its maps are no multiple of a block's, and a thread of the last tiles has no output.
_CHANNELS = Layer("several channels", C=5, H=30, W=34, M=18, K=4), 1
_LEAST = 11_760  # loads from shared memory: each brings four weights
_MOST_GROUPS = 12_000
# An array or an index with the map before the place in its mask.
_MAP_BY_MAP = re.compile(r"\[MAPS\]\[|\* (?:TERMS|\(K \* K\)|K \* K) \+ (?:p|t)\b")
_GROUPS = counted(
    "shared_load_groups",
    _LAYER,
    what="loads of weights, four side by side as one",
    at_most=_MOST_GROUPS,
    least={"shared_load_instructions": _LEAST},
)


def _count_reads(counts):
    """Return the warps' reads of constant memory; infinity, which meets no goal, if no weights are in shared memory.

    `counts`: case -> name of a counter -> its number.
    """
    layer = counts[_LAYER]
    is_shared = layer.get("shared_load_instructions", 0) >= _LEAST and not layer["lane_exchanges"]
    return layer.get("constant_requests", 0) or (0 if is_shared else math.inf)


EXERCISE = Exercise(
    title="Shared weights",
    subject=InPlaceOf("tuning", "a", {_LAYER: LAYERS[_LAYER]}, (HIDDEN[0], _CHANNELS)),
    lines=20,
    goals=(
        Goal(
            f"reads of constant memory, {_LAYER}",
            _count_reads,
            at_most=0,
            least=f"{_LEAST:,} loads from shared memory, and no exchanges between lanes",
            counters=("constant_requests",),
            on=_LAYER,
            bounds=(
                Bound("shared_load_instructions", _LEAST, True),
                Bound("lane_exchanges", 0, False),
            ),
        ),
        counted(_LOADS, _LAYER, what="load requests", at_most=_MOST),
        _GROUPS,
    ),
    mistakes=(
        Mistake(
            "Threads without an output store weights for the others, and all threads of a block have to reach both "
            "barriers: no thread may return or leave the loop over c early. Ask for first < Ho && w < Wo in the loop "
            "over q, and before the stores of y.",
            lambda attempt: (
                attempt.findings
                and " at k[" not in attempt.wrong
                and attempt.matches(
                    r"c < C &&[^;{]*;[^;{]*\)\s*\{\s*__sync|\)\s*(?:return|continue)\s*;"
                )
            ),
        ),
        Mistake(
            "It takes two barriers. One stands behind the stores: no thread may sum before all weights are there. "
            "The other stands before them: from the second channel on, slow threads still read the weights that "
            "fast ones replace.",
            lambda attempt: attempt.findings and attempt.source.count("__syncthreads()") < 2,
        ),
        Mistake(
            "A thread without an output has a place in the block, but none in y: its store writes outside of y, or "
            "over the output of another thread. Ask for first < Ho && w < Wo before the stores of y, too.",
            lambda attempt: (
                "out of bounds" in attempt.findings
                and " at y[" in attempt.wrong
                # behind the sums, nothing asks which threads have an output
                and not re.search(
                    r"\bfirst < Ho\b|\bw < Wo\b|\bif \(\w+(?: &&|\))",
                    attempt.source.rpartition("sum[m][r] +=")[2],
                )
            ),
        ),
        Mistake(
            "The last block may have fewer than MAPS maps: store a zero for a weight of a map that does not exist.",
            lambda attempt: (
                "out of bounds" in attempt.findings
                and " at k[" in attempt.wrong
                and not attempt.matches(r"< M\b[^;]*\bk\[")
            ),
        ),
        Mistake(
            "The array has a place for each of the K * K weights of a channel in each of MAPS maps.",
            lambda attempt: (
                "out of bounds" in attempt.findings and "__shared__ array" in attempt.wrong
            ),
            vague=True,
        ),
        Mistake(
            "Follow one weight: element (p, q) of map m0 + m and channel c is k[((m0 + m) * C + c) * K * K + p * K + "
            "q]. Where in the array is it stored, and where is it read?",
            lambda attempt: attempt.runs_wrong and "divergent barrier" not in attempt.findings,
            vague=True,
        ),
        Mistake(
            "The products still read constant memory. Does the array in shared memory have the name that they "
            "read?",
            lambda attempt: (
                attempt.count("constant_requests", _LAYER) > 0 and "__shared__" in attempt.source
            ),
        ),
        Mistake(
            "The block copies its weights more than once. Does each thread copy other weights? The number of a thread "
            "in its block is threadIdx.y * blockDim.x + threadIdx.x, and of threads blockDim.x * blockDim.y.",
            # The products read shared memory: what is left is the copy.
            lambda attempt: (
                attempt.count(_LOADS, _LAYER) > _MOST
                and attempt.count("shared_load_instructions", _LAYER) >= _LEAST
            ),
        ),
        Mistake(
            "The weights come from global memory for every product. Let the block copy those of a channel to "
            "shared memory first: then a load serves all its threads.",
            lambda attempt: attempt.count(_LOADS, _LAYER) > _MOST,
        ),
        Mistake(
            "With one float more per row, only every fourth row begins at a multiple of 16 bytes, so four weights "
            "cannot be loaded together. All lanes read the same weight here: there is no conflict to avoid.",
            lambda attempt: (
                attempt.count("shared_load_groups", _LAYER) > _MOST_GROUPS
                and attempt.matches(r"\]\[(?:MAPS \+ 1|1 \+ MAPS)\]")
            ),
        ),
        Mistake(
            "The array has doubles. A load brings 16 bytes at most, so four weights come together only as floats.",
            lambda attempt: (
                attempt.count("shared_load_groups", _LAYER) > _MOST_GROUPS
                and attempt.matches(r"__shared__[^;]*\bdouble\b")
            ),
        ),
        Mistake(
            "The weights that a thread needs one after the other are not side by side. For each p and q it needs those "
            "of its maps, so the map is the last index, and a row has a multiple of four floats: mask[t][m].",
            lambda attempt: (
                attempt.count("shared_load_groups", _LAYER) > _MOST_GROUPS
                and attempt.matches(_MAP_BY_MAP)
            ),
        ),
    ),
)
