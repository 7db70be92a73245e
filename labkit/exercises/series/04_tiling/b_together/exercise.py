"""Exercise 04b: no sum without an output."""

import re

from labkit.exercises import LAYERS, Attempt, Exercise, InPlaceOf, Mistake, counted
from labkit.exercises.arithmetic import describe_tile_rows

_WAVEFRONTS = "wavefronts_per_shared_load"
# Threads leave a pass or the kernel; or a condition has a barrier, or the loop that loads the
# inputs, inside of it.
_SKIPS = re.compile(
    r"\b(?:continue|return);|\bif \(h < Ho && w < Wo\)\s*(?:\{[^}]*__syncthreads|for \(int i)|"
    r"\bif \([^;{}]*\bh < Ho\b[^;{}]*\bSIDE\b"
)

_LEAST = {"shared_load_instructions": 100_000}
# Inputs and weights are loaded once per tile: in 3,088 requests.
_MOST = {"global_load_requests": 3_500, "lane_exchanges": 0}

# "if (h >= Ho || w >= Wo) continue;", with a barrier behind it in the text.
_EXITS = re.compile(
    r"\bif \([^;{}]*\b(?:Ho|Wo)\b[^;{}]*\)\s*\{?\s*(continue|return);[\s\S]*?__syncthreads\("
)


def _find_exit(attempt: Attempt) -> str:
    """Return the statement by which threads without an output miss a barrier: "continue" or "return"; or ""."""
    found = _EXITS.search(attempt.source)
    return found[1] if found else ""


EXERCISE = Exercise(
    title="No sum without an output",
    subject=InPlaceOf("tiling", "b", {"layer 2": LAYERS["layer 2"]}),
    lines=5,
    goals=(
        counted(_WAVEFRONTS, "layer 2", at_most=1.05, least=_LEAST, most=_MOST),
        counted("shared_load_wavefronts", "layer 2", at_most=205_000, least=_LEAST, most=_MOST),
    ),
    start_reaches=(1.2, 338688),
    mistakes=(
        Mistake(
            lambda attempt: (
                f"`{_find_exit(attempt)}` leaves out more than the sum: such a thread does not come to each barrier at "
                "which the others wait. Threads without an output load inputs for the others, and all threads of a "
                "block have to reach both barriers. Leave out the loops of the sum alone."
            ),
            lambda attempt: attempt.findings and _find_exit(attempt),
        ),
        Mistake(
            "Threads without an output load inputs for the others, and all threads of a block have to reach both "
            "barriers: put the condition before the loops of the sum, and nowhere else.",
            lambda attempt: attempt.findings and attempt.matches(_SKIPS),
            vague=True,
        ),
        Mistake(
            "h < Ho || w < Wo is also true for threads beyond the map in one direction. An output needs both, with &&.",
            lambda attempt: (
                attempt.count("shared_load_wavefronts", "layer 2") > 205_000
                and attempt.matches(r"\bif \(h < Ho \|\| w < Wo\)")
            ),
        ),
        Mistake(
            "H and W are the sizes of the input: more threads are inside of it than have an output. An output needs "
            "h < Ho and w < Wo.",
            lambda attempt: (
                attempt.count("shared_load_wavefronts", "layer 2") > 205_000
                and attempt.matches(r"\bif \([^;{]*\bh < H && w < W\)")
            ),
        ),
        Mistake(
            "There are more wavefronts than with all sums: inside the loops the condition is asked for each "
            "product, and neighbouring weights are no longer loaded together. Ask once, before the loops.",
            lambda attempt: (
                attempt.count("shared_load_wavefronts", "layer 2") > 282_240  # if all threads sum
                and attempt.counts["layer 2"][_WAVEFRONTS] <= 1.05
                and attempt.matches(r"\bfor \(int [pqn] [^{;]*;[^;]*;[^;)]*\)\s*\{?\s*if \(")
            ),
        ),
        Mistake(
            "The condition holds for each thread of a block or for none: the maps of a thread begin at m, which "
            "is the same for all threads of its block. Which threads have no output follows from h and w.",
            lambda attempt: (
                attempt.count("shared_load_wavefronts", "layer 2") > 205_000
                and attempt.matches(r"\bif \(m < M\)")
            ),
        ),
        Mistake(
            "A tile may extend beyond the map to the right and below. This condition asks for one of the two only.",
            lambda attempt: (
                attempt.count("shared_load_wavefronts", "layer 2") > 205_000
                and attempt.matches(r"\bif \((?:h < Ho|w < Wo)\)")
            ),
        ),
        Mistake(
            lambda attempt: (
                "Threads without an output sum nothing now. What is left are the conflicts of 04a: two rows of a warp "
                f"share banks, because of the length of a row of `tile`. {describe_tile_rows(attempt.source)}"
            ),
            lambda attempt: (
                attempt.count(_WAVEFRONTS, "layer 2") > 1.05
                and attempt.matches(r"\bif \(h < Ho && w < Wo\)\s*\{?\s*(?:#pragma unroll\s*)?for")
                and describe_tile_rows(attempt.source)
            ),
        ),
        Mistake(
            "The conflicts are gone. What is left are sums of threads without an output: those beyond the last column "
            "or the last row of the map.",
            lambda attempt: (
                attempt.count("shared_load_wavefronts", "layer 2") == 282_240  # all threads sum
                and attempt.counts["layer 2"][_WAVEFRONTS] <= 1.05
            ),
        ),
        Mistake(
            "SIDE + 1 is the padding for a column, whose words lie a row apart. Here a warp reads two rows, and "
            "with 23 words per row their banks still overlap.",
            lambda attempt: (
                attempt.count(_WAVEFRONTS, "layer 2") > 1.05 and "][SIDE + 1]" in attempt.source
            ),
        ),
    ),
)
