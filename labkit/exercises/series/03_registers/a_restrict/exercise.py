"""Exercise 03a: a promise alone."""

from labkit.exercises import LAYER_1, Attempt, Exercise, InPlaceOf, Mistake, counted

_REQUESTS = 800  # of a store of all outputs of layer 1: 4 * 80 * 80 / 32


def _count_stores(attempt: Attempt) -> float:
    """Return the stores per output."""
    return attempt.count("global_store_requests", "layer 1") / _REQUESTS


EXERCISE = Exercise(
    title="A promise alone",
    subject=InPlaceOf("registers", "a", LAYER_1),
    lines=1,
    goals=(
        counted(
            "global_store_requests", "layer 1", per=_REQUESTS, what="stores per output", at_most=2
        ),
    ),
    start_reaches=(50,),
    mistakes=(
        Mistake(
            "For nvcc this is enough: no store changes constant memory, so y can overlap nothing else that is "
            "read. The compiler that counts here does not know that of the mask. Let y promise it, too.",
            lambda attempt: (
                _count_stores(attempt) > 2
                and attempt.matches(r"__restrict__ x\b")
                and not attempt.matches(r"__restrict__ y\b")
            ),
        ),
        Mistake(
            "k is not read in this kernel. As long as neither x nor y promises it, y may overlap the inputs.",
            lambda attempt: (
                _count_stores(attempt) > 2
                and attempt.matches(r"__restrict__ k\b")
                and not attempt.matches(r"__restrict__ [xy]\b")
            ),
        ),
        Mistake(
            "This promise is about another pointer. The parameters x, k and y of the kernel promise nothing: "
            "__restrict__ belongs to the parameters.",
            lambda attempt: (
                _count_stores(attempt) > 2
                and "__restrict__" in attempt.source
                and not attempt.matches(r"__restrict__ [xyk]\b")
            ),
        ),
        Mistake(
            "Unrolled or not, the kernel loads an input between two products. As long as y may overlap the inputs, the "
            "sum has to be in memory by then.",
            lambda attempt: (
                _count_stores(attempt) == 50
                and "#pragma unroll" in attempt.source
                and "__restrict" not in attempt.source
            ),
        ),
        Mistake(
            "volatile says the opposite: each access in the text has to happen in memory.",
            lambda attempt: _count_stores(attempt) > 2 and attempt.matches(r"\bvolatile\b"),
        ),
        Mistake(
            "__ldg says how x is loaded, and not that y lies elsewhere. The sum stays in memory as long as a "
            "store to y may change an input.",
            lambda attempt: (
                _count_stores(attempt) > 2
                and "__ldg" in attempt.source
                and "__restrict" not in attempt.source
            ),
        ),
    ),
)
