"""Exercise 02b: the mask in shared memory."""

from labkit.exercises import LAYERS, Exercise, InPlaceOf, Mistake, counted

_FIRST = {"layer 1": LAYERS["layer 1"]}


EXERCISE = Exercise(
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
)
