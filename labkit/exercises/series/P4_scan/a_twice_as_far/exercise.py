"""Exercise P4a: a scan from an empty cell."""

import re

from labkit.exercises import Attempt, Exercise, Mistake, counted
from labkit.exercises.practice import SCAN
from labkit.exercises.text import find_line

_ROWS = "4 rows of 256"

# "if (i >= apart) part[1 - now][i] = part[now][i] + ...;" without an else; groups: the array and the buffer stored to
_STORED_IF = re.compile(
    r"\bif \((?:[^()]{1,40}&& )?(\w+|threadIdx\.x) >= (\w+)(?: && [^()]{1,40})?\)\s*\{?\s*"
    r"(?P<array>\w+)\[(?P<to>[^\]]{1,40})\]\[\1\] = "
    r"(?P=array)\[(?!(?P=to)\])[^\]]{1,40}\]\[\1\] \+ [^;]{1,80};(?!\s*\}?\s*else)"
)


def _explain_places_not_copied(attempt: Attempt) -> str:
    """Return which line leaves the places below the distance out of the other buffer, or ""."""
    step = _STORED_IF.search(attempt.source)
    if not step or attempt.source.count(f"{step['array']}[{step['to']}][{step[1]}] =") > 1:
        return ""
    line = find_line(attempt.source, step.start())
    return (
        f"Line {line} stores only where {step[1]} >= {step[2]}, and the next step reads the whole other buffer. Each "
        f"place below {step[2]} has to be there, too: copy it, without an addition."
    )


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
            _explain_places_not_copied,
            lambda attempt: (
                "uninitialized" in attempt.findings and _explain_places_not_copied(attempt)
            ),
        ),
        Mistake(
            "A step needs two barriers: all threads have loaded before the first one adds, and all have added "
            "before the next step loads.",
            # with two arrays in turn, one is enough
            lambda attempt: (
                "race" in attempt.findings
                and len(re.findall(r"__shared__[^;]*;", attempt.source)) == 1
                and not attempt.matches(r"__shared__[^;]*(?:\]\[|,)")
            ),
            vague=True,
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
            vague=True,
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
            "y is taken from one buffer, however many steps there were. After another step the sums are in the other "
            "one: take y from the buffer that the last step has written.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"\b(\w+) (?:= 1 - \1|\^= 1|= !\1|= \1 \^ 1);")
                and attempt.matches(r"\by\[[^;=]{1,80}\] = \w+\[[01]\]\[")
                and len(re.findall(r"\by\[[^;=]{1,80}\] =(?!=)", attempt.source)) == 1
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
