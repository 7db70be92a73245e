"""Exercise P7a: rows of uneven lengths, dealt out to the blocks of a persistent grid."""

from labkit.exercises import Exercise, Mistake, counted
from labkit.exercises.practice import make_row_goals, make_uneven_rows

EXERCISE = Exercise(
    title="Dealt out",
    subject=make_uneven_rows(with_counter=False),
    goals=(
        *make_row_goals(),
        counted(
            "busiest_warp", "48 rows", what="memory instructions of the busiest warp", at_most=128
        ),
    ),
    mistakes=(
        Mistake(
            "Each number costs an atomic addition: let a thread add up its numbers of a row in a register first.",
            lambda attempt: attempt.count("reduction_requests", "48 rows") > 2 * 48,
        ),
    ),
)
