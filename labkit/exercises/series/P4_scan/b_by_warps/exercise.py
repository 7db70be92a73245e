"""Exercise P4b: a scan by warps."""

from labkit.exercises import Exercise, Mistake, counted
from labkit.exercises.causes import MORE_WARPS
from labkit.exercises.practice import SCAN

_ROWS = "4 rows of 256"
_WARPS = 4 * 8

EXERCISE = Exercise(
    title="By warps",
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
            per=_WARPS,
            what="barriers per warp",
            at_most=1,
            most={"named_barriers": 0},
        ),
        counted(
            "shared_store_bytes",
            _ROWS,
            per=_WARPS,
            what="bytes per warp stored to shared memory",
            at_most=4,
        ),
        counted("busiest_warp", _ROWS, what="memory instructions of the busiest warp", at_most=64),
    ),
    mistakes=(
        MORE_WARPS,
        Mistake(
            "A lane under `apart` gets its own sum back from the shuffle, and must not add it.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"\+= *__shfl_up_sync|__shfl_up_sync\([^;]*;\s*\w+ \+= \w+;")
            ),
        ),
        Mistake(
            "Lane 0 has its own number alone. The sum of all numbers of a warp is in the last lane, 31.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"__shfl_up")
                and attempt.matches(r"\bif \(lane == 0\) \w+\[warp\] = \w+;")
            ),
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
            "The sums of the warps are complete only when all warps have stored theirs: a barrier has to stand "
            "before they are read.",
            lambda attempt: attempt.findings and "__syncthreads" not in attempt.source,
        ),
        Mistake(
            "All lanes of a warp store a number to shared memory, and the other warps need one number of it: the sum "
            "of its 32 numbers, which lane 31 has. Let this lane alone store.",
            lambda attempt: (
                attempt.count("shared_store_bytes", _ROWS) == _WARPS * 32 * 4
                and attempt.count("shared_store_instructions", _ROWS) == _WARPS
                and "__shfl" in attempt.source
            ),
        ),
        Mistake(
            "One barrier is enough: behind it a thread adds the sums of the warps before its own, up to seven, "
            "itself. Nobody has to scan them before.",
            lambda attempt: (
                attempt.count("barriers", _ROWS) == 2 * _WARPS and "__shfl_up" in attempt.source
            ),
        ),
        Mistake(
            "The steps still go through shared memory: within a warp a shuffle takes their place.",
            lambda attempt: attempt.counts and "__shfl" not in attempt.source,
        ),
    ),
)
