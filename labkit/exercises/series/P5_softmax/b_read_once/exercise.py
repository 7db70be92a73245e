"""Exercise P5b: softmax that reads its input once."""

import re

from labkit.exercises import Attempt, Case, Exercise, Kernels, Mistake, counted
from labkit.exercises.causes import FEW_REGISTERS, TWO_INFINITE, UNSTORED_COLUMNS
from labkit.exercises.exercise import join_words
from labkit.exercises.practice import NO_LARGEST, OTHER_LARGEST, softmax

_ROWS = "8 rows of 256"

# An element of an array other than y: "kept[i] = expf(x[i] - largest)".
_KEEPS_EXPONENTIALS = re.compile(
    r"\b(?!y\[)\w+(?:\[[^\[\];]*(?:\[[^\[\];]*\][^\[\];]*)?\])+ = (?:__)?expf?\(\s*x\["
)
# "y[i] *= ", "= y[i]", "= expf(y[i])": but no address
_READS_Y = re.compile(
    r"\by\[[^\];]*\] *[-+*/]=|[=(,+*/-] *(?<!&)\by\[[^\];]*\](?! *=(?!=))|\by\[[^\];]*\] [-+*/] "
)
_TWO_THREADS = re.compile(r"threads \(\d+,(\d+),\d+\) and \(\d+,(\d+),\d+\) of a block")


def _are_of_two_rows(finding: str) -> bool:
    """Return whether the two threads of a race, by the text of its finding, are of two warps: each has a row."""
    threads = _TWO_THREADS.search(finding)
    return threads is not None and threads[1] != threads[2]


# "kept[threadIdx.y][threadIdx.x] = x[i]" in the loop over a row
_ONE_PLACE = re.compile(
    r"\bfor \([^;]*;[^;]*;[^;)]*\+= 32\)[^;]*(?<!x)(?<!y)\[threadIdx\.x\] = (?:\w+ \+ )?x\["
)


def _list_loads(attempt: Attempt) -> list[str]:
    """Return the numbers of the lines that load from x, "x[i]"."""
    lines = enumerate(attempt.source.splitlines(), 1)
    return [str(number) for number, line in lines if re.search(r"\bx\[", line)]


def _explain_two_loads(attempt: Attempt) -> str:
    """Return the sentence about two loads of x per number."""
    return (
        f"Two loads per number are left, in lines {join_words(_list_loads(attempt))}. The first one can keep the "
        "number in shared memory: then no other line has to load it again."
    )


EXERCISE = Exercise(
    title="Read once",
    subject=Kernels(
        softmax,
        (
            Case("5 rows of 100", (5, 100, 1)),
            Case("2 rows of 1,024", (2, 1024, 1)),
            Case("5 rows of 7", (5, 7, 1)),
            Case("3 rows of numbers up to 2,000", (3, 40, 2000)),
            Case("3 rows of numbers up to -2,000", (3, 50, -2000)),
            Case(_ROWS, (8, 256, 1), counted=True),
        ),
        hidden=(range(1, 10), range(1, 1025), range(-3000, 3001)),
    ),
    goals=(
        counted(
            "global_load_requests",
            _ROWS,
            what="load requests",
            at_most=64,
            weight=4,
            least={"unique_bytes": 2 * 4 * 2048},
        ),
        counted("global_store_requests", _ROWS, what="store requests", at_most=64),
        counted("barriers", _ROWS, exactly=0, most={"named_barriers": 0}),
        counted("shared_conflicts", _ROWS, what="bank conflicts", exactly=0),
    ),
    mistakes=(
        TWO_INFINITE,
        NO_LARGEST,
        OTHER_LARGEST,
        FEW_REGISTERS,
        Mistake(
            "The four warps of a block have a row each: shared memory needs a place for each number of each row.",
            lambda attempt: (
                ("race" in attempt.findings and _are_of_two_rows(attempt.wrong))
                or ("out of bounds" in attempt.findings and "__shared__" in attempt.wrong)
            ),
        ),
        Mistake(
            "The exponential of an exponential: where exponentials are kept in place of numbers, the last loop only "
            "divides.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"\b(\w+)\[\w+\] = expf\([^}]*\bexpf\(\1\[")
            ),
        ),
        Mistake(
            "A row belongs to one warp. Shuffles exchange numbers within it, and __syncwarp orders its lanes: nothing "
            "has to wait for the other warps of the block.",
            lambda attempt: attempt.count("barriers", _ROWS) > 0,
        ),
        Mistake(
            "Each lane has one place in shared memory, and up to 32 numbers: the next pass writes over the one "
            "before. A row has up to 1,024 numbers.",
            lambda attempt: attempt.wrong.startswith("right") and attempt.matches(_ONE_PLACE),
        ),
        Mistake(
            "Two loads per number are left: one for the largest number, and one for the exponential that is kept. Keep "
            "the number itself in the first loop; the second can put the exponential in its place.",
            lambda attempt: (
                attempt.count("global_load_requests", _ROWS) == 128
                and attempt.matches(_KEEPS_EXPONENTIALS)
                and len(re.findall(r"\bx\[", attempt.source)) == 2
            ),
        ),
        Mistake(
            _explain_two_loads,
            lambda attempt: (
                attempt.count("global_load_requests", _ROWS) == 128
                and not attempt.matches(_READS_Y)
                and len(_list_loads(attempt)) > 1
            ),
        ),
        Mistake(
            "The numbers wait in global memory: loads of what a kernel itself has stored to y count, too.",
            lambda attempt: (
                attempt.count("global_load_requests", _ROWS) > 64
                and (
                    attempt.matches(_READS_Y)
                    # more stores than results: they go to y, since there is no other place
                    or (
                        "__shared__" not in attempt.source
                        and attempt.count("global_store_requests", _ROWS) > 64
                    )
                )
            ),
        ),
        Mistake(
            "Lanes of a warp meet in one bank: neighbouring lanes keep their numbers in words that do not lie side by "
            "side. Which index of the array in shared memory is the last one?",
            lambda attempt: attempt.count("shared_conflicts", _ROWS) > 0,
            vague=True,
        ),
        UNSTORED_COLUMNS,
    ),
)
