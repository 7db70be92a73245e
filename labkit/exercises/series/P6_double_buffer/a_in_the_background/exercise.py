"""Exercise P6a: tiles that are copied to shared memory asynchronously."""

import re

from labkit.exercises import Exercise, Mistake
from labkit.exercises.practice import NOT_COPIED, RANKS, make_ranks_goals

# A loop over all numbers of a tile, whether they exist or not: "j < blockDim.x;".
_WHOLE_TILE = re.compile(r"\bfor \([^;]*; *\w+ < (?:blockDim\.x|T|[A-Z]{2,}|\d+) *;")

EXERCISE = Exercise(
    title="In the background",
    subject=RANKS,
    goals=make_ranks_goals(barriers=2 * 4),
    mistakes=(
        NOT_COPIED,
        Mistake(
            "__pipeline_wait_prior(0) waits for all copies that this thread has committed, and for no others: "
            "first each thread waits, then the barrier tells all of them.",
            lambda attempt: "race with a copy" in attempt.findings,
        ),
        Mistake(
            "The last block may have more threads than there are numbers left: only threads with i < n store a rank.",
            lambda attempt: (
                "out of bounds" in attempt.findings and "write of 4 bytes at rank[" in attempt.wrong
            ),
        ),
        Mistake(
            "The last tile may have fewer numbers than the block has threads: copy, and compare with, only those "
            "that exist.",
            lambda attempt: (
                ("out of bounds" in attempt.findings and " at x[" in attempt.wrong)
                or ("uninitialized" in attempt.findings and attempt.matches(_WHOLE_TILE))
            ),
        ),
    ),
)
