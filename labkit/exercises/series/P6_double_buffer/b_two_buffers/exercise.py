"""Exercise P6b: a double buffer.

A cheat would wait for each copy behind a comparison or two: a copy counts only if its thread reads
as much as between two barriers while it is under way. Reads that pass the time, and copies that
nobody needs, are more shared load bytes and copied bytes than the tiles have.
"""

from labkit.exercises import Exercise, Mistake
from labkit.exercises.practice import NOT_COPIED, RANKS, make_ranks_goals

EXERCISE = Exercise(
    title="Two buffers",
    subject=RANKS,
    goals=make_ranks_goals(barriers=4 + 1, overlap=True),
    mistakes=(
        NOT_COPIED,
        Mistake(
            "A buffer is read while a copy into it is under way: its thread has not waited for it, or the buffer "
            "is used again too early. In each turn first wait, then the barrier, then the copies of the next tile.",
            lambda attempt: "race with a copy" in attempt.findings,
        ),
        Mistake(
            "Nobody copies the first tile: its copies have to begin before the loop, as in turn t those of tile t + 1 "
            "begin.",
            lambda attempt: (
                "uninitialized" in attempt.findings
                and attempt.source.count("__pipeline_memcpy_async(") == 1
                and attempt.matches(r"\bfor \([^{}]*\{[^{}]*__pipeline_memcpy_async")
            ),
        ),
        Mistake(
            "Nothing overlaps: each copy is waited for before the block reads a tile again. Start the copies of "
            "the next tile before you compare with the present one, and wait for them behind it.",
            lambda attempt: (
                0 < attempt.count("barriers", "512 numbers") < 16 * 2 * 4
                and not attempt.count("overlapped_bytes", "512 numbers")
            ),
        ),
        Mistake(
            "One buffer needs two barriers per tile. With two, the barrier that says that a tile is complete also "
            "says that nobody reads the one before.",
            lambda attempt: attempt.count("barriers", "512 numbers") >= 16 * 2 * 4,
        ),
    ),
)
