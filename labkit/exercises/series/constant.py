"""The exercises of page 02."""

from labkit.exercises.exercise import Exercise, Goal, Mistake, counted
from labkit.exercises.subjects import LAYERS, InPlaceOf

_FIRST = {"layer 1": LAYERS["layer 1"]}


def _turns(counts):
    """Of a read of constant memory: one, and one more for each further word."""
    reads = counts["layer 1"]["constant_requests"]
    return 1 + counts["layer 1"]["constant_serialized"] / reads if reads else float("nan")


EXERCISES = (
    Exercise(
        number="02a",
        page="constant",
        title="Rotated rows",
        subject=InPlaceOf("constant", "a", _FIRST),
        lines=4,
        goals=(
            Goal("turns per read of constant memory, layer 1", _turns, exactly=7,
                 words="that of the rotated rows: count the different words first"),
        ),
        hints=(
            "The loop counts i, and q is computed from it: two names, so the body needs braces.",
            "The remainder keeps q below K. A row has K elements: how many different ones can 32 lanes ask for?",
        ),
        mistakes=(
            Mistake(
                "x and the mask have to use the same q: a product needs the input that belongs to its weight.",
                lambda attempt: attempt.runs_wrong and "int q = 0" in attempt.source,
            ),
            Mistake(
                "q has to take each value from 0 to K - 1 exactly once, in any lane: (i + threadIdx.x) % K does.",
                lambda attempt: attempt.runs_wrong and "int i" in attempt.source,
            ),
            Mistake(
                "All lanes of a warp still ask for the same element: where a lane begins has to depend on threadIdx.x.",
                lambda attempt: bool(attempt.counts) and _turns(attempt.counts) == 1 and "int i" in attempt.source,
            ),
        ),
    ),
    Exercise(
        number="02b",
        page="constant",
        title="The mask in shared memory",
        subject=InPlaceOf("constant", "b", _FIRST),
        lines=16,
        goals=(
            counted("constant_requests", "layer 1", what="reads of constant memory", exactly=0),
            counted("shared_load_instructions", "layer 1", what="shared loads", at_most=39_200),
            counted("shared_load_conflicts", "layer 1", what="bank conflicts", exactly=0),
            counted("global_load_requests", "layer 1", what="global load requests", at_most=40_400),
        ),
        hints=(
            "A thread without an output still has to copy and to reach both barriers: it may skip the sum, but not "
            "return.",
            "Declare __shared__ float mask[32 * 32] inside of the kernel. At the top of the loop over c, thread "
            "number t of the block copies the elements t, t + threads and so on, below K * K.",
            "One barrier stands after the copy, so that nobody reads too early. Another stands at the end of the loop "
            "over c, so that nobody overwrites what others still read.",
        ),
        mistakes=(
            Mistake(
                "A thread that returns neither copies nor reaches the barriers: a thread without an output skips only "
                "the sum.",
                lambda attempt: attempt.runs_wrong and "return" in attempt.source and "__syncthreads" in attempt.source,
            ),
            Mistake(
                "The mask is copied more than once: the threads of a block share the K * K elements.",
                lambda attempt: attempt.counts.get("layer 1", {}).get("shared_load_instructions", 0) > 0
                and attempt.counts["layer 1"]["global_load_requests"] > 40_400,
            ),
        ),
    ),
)
