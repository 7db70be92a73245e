"""Exercise 03a: a promise alone."""

from labkit.exercises import LAYERS, Exercise, InPlaceOf, Mistake, counted

_FIRST = {"layer 1": LAYERS["layer 1"]}
_REQUESTS = 800  # of a store of all outputs of layer 1: 4 * 80 * 80 / 32


EXERCISE = Exercise(
    title="A promise alone",
    subject=InPlaceOf("registers", "a", _FIRST),
    lines=1,
    goals=(counted("global_store_requests", "layer 1", per=_REQUESTS, what="stores per output", at_most=2),),
    hints=(
        "Between two products the kernel loads an input. Why may the compiler not keep y in a register meanwhile?",
        "As long as y might overlap another array, the stored value might be the next input. Which of the three "
        "pointers has to promise that it does not?",
    ),
    mistakes=(
        Mistake(
            "y has to promise it, too: for all the compiler knows, y still overlaps the mask.",
            lambda attempt: bool(attempt.counts) and "__restrict__" in attempt.source
            and attempt.counts["layer 1"]["global_store_requests"] > 2 * _REQUESTS,
        ),
    ),
)
