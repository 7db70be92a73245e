"""Exercise P6a: tiles that are copied to shared memory asynchronously."""

import re

from labkit.exercises import Attempt, Exercise, Mistake
from labkit.exercises.causes import COPIES_OF_SOME, NO_GROUP_BEHIND
from labkit.exercises.practice import NOT_COPIED, RANKS, make_ranks_goals
from labkit.exercises.text import find_line

# A loop over all numbers of a tile, whether they exist or not: "j < blockDim.x;".
_WHOLE_TILE = re.compile(r"\bfor \([^;]*; *\w+ < (?:blockDim\.x|T|[A-Z]{2,}|\d+) *;")

# "__pipeline_commit(); __pipeline_wait_prior(1)"; group: the number of groups that are not waited for
_WAIT_FOR_OTHERS = re.compile(r"__pipeline_commit\(\);\s*__pipeline_wait_prior\(([1-9])\)")


def _explain_wait(attempt: Attempt) -> str:
    """Return which line does not wait for the only group of a turn, or ""."""
    wait = _WAIT_FOR_OTHERS.search(attempt.source)
    if (
        "has waited for the copy" not in attempt.wrong
        or not wait
        or any(
            attempt.source.count(f"__pipeline_{name}(") > 1 for name in ("commit", "memcpy_async")
        )
    ):
        return ""
    return (
        f"Line {find_line(attempt.source, wait.start(1))} leaves the newest group under way, and that has the copies "
        "of the tile which this turn reads. Here it has to be __pipeline_wait_prior(0)."
    )


EXERCISE = Exercise(
    title="In the background",
    subject=RANKS,
    goals=make_ranks_goals(barriers=2 * 4),
    mistakes=(
        NOT_COPIED,
        COPIES_OF_SOME,
        NO_GROUP_BEHIND,
        Mistake(_explain_wait, _explain_wait),
        Mistake(
            "__pipeline_wait_prior(0) waits for all copies that this thread has committed, and for no others: "
            "first each thread waits, then the barrier tells all of them.",
            lambda attempt: "race with a copy" in attempt.findings,
            vague=True,
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
