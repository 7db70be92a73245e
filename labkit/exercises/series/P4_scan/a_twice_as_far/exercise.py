"""Exercise P4a: a scan from an empty cell."""

from labkit.exercises import Exercise, Mistake, counted
from labkit.exercises.practice import SCAN

_ROWS = "4 rows of 256"

EXERCISE = Exercise(
    title="Twice as far",
    subject=SCAN,
    goals=(
        counted(
            "global_load_requests",
            _ROWS,
            what="load requests",
            at_most=32,
            least={"unique_bytes": 2 * 4 * 1024},
        ),
        counted(
            "barriers",
            _ROWS,
            per=4 * 8,
            what="barriers per warp",
            at_most=17,
            most={"named_barriers": 0},
        ),
        counted(
            "shared_conflicts",
            _ROWS,
            what="bank conflicts",
            exactly=0,
            least={"shared_instructions": 32},
        ),
        counted("busiest_warp", _ROWS, what="memory instructions of the busiest warp", at_most=56),
    ),
    mistakes=(
        Mistake(
            "A step needs two barriers: all threads have loaded before the first one adds, and all have added "
            "before the next step loads.",
            lambda attempt: "race" in attempt.findings,
        ),
        Mistake(
            "The row in shared memory has nothing before its first number: where `apart` is larger than "
            "threadIdx.x there is nothing to add.",
            lambda attempt: "out of bounds" in attempt.findings and "before its" in attempt.wrong,
        ),
        Mistake(
            "A row of x and y has `columns` numbers: row blockIdx.x begins at blockIdx.x * columns. The block may have "
            "more threads than that.",
            lambda attempt: (
                attempt.runs_wrong
                and attempt.matches(r"blockIdx\.x \* blockDim\.x|blockDim\.x \* blockIdx\.x")
            ),
        ),
        Mistake(
            "The block is rounded up to whole warps: the threads from `columns` on have no number in the row. They "
            "take 0 in its place, store nothing, and still reach every barrier.",
            lambda attempt: (
                "out of bounds" in attempt.findings and "__shared__" not in attempt.wrong
            ),
        ),
        Mistake(
            "A step adds an input here. What is needed is the sum that lies `apart` before, as the step before has "
            "left it in shared memory.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"\b(\w+) (?:\*= 2|<<= 1)\)\s*\{[^}]{0,500}\bx\[[^\];]* - \1\]")
            ),
        ),
        Mistake(
            "Each number is loaded many times: load it once, and exchange sums through shared memory.",
            lambda attempt: attempt.count("global_load_requests", _ROWS) > 32,
        ),
        Mistake(
            "The sum at a place has to include its own number.",
            lambda attempt: "The first, [0, 0]: 0," in attempt.wrong,
        ),
    ),
)
