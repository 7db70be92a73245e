"""Exercise P7b: rows of uneven lengths, taken from a queue."""

import re

from labkit.exercises import Attempt, Exercise, Mistake, counted
from labkit.exercises.causes import OWN_SUM_TWICE
from labkit.exercises.practice import make_row_goals, make_uneven_rows
from labkit.exercises.text import find_line

# "if (lane == 0) row = atomicAdd(next, 1)"
_TAKES_PER_WARP = re.compile(
    r"\((?:!?\(?threadIdx\.x (?:% 32|& 31)\)?|!?lane)(?: == 0)?\)\s*\{?\s*(?:const )?(?:int )?\w+ = atomicAdd\(&?next"
)


def _takes_for_block(attempt: Attempt) -> bool:
    """Return whether thread 0 takes a row, and no shared memory brings it to other threads."""
    return attempt.matches(r"threadIdx\.x == 0\)\s*\{?\s*row = atomicAdd") and not attempt.matches(
        "__shared__"
    )


def _name_first_row(attempt: Attempt) -> str:
    """Return which line begins with the row of the block's number, " Line 4 takes ..."; "" if none does."""
    first = re.search(r"\brow = blockIdx\.x;", attempt.source)
    if not first:
        return ""
    line = find_line(attempt.source, first.start())
    return f" Line {line} takes the row of the block's number instead."


EXERCISE = Exercise(
    title="From a queue",
    subject=make_uneven_rows(with_counter=True),
    goals=(
        *make_row_goals(taken=48 + 4),
        counted(
            "atomic_requests",
            "48 rows",
            what="atomic requests with a result",
            at_most=48 + 4,
            weight=3,
            # It takes each row from *next, and from no queue of its own in another array.
            least={"counter_results": 48},
            # A queue counts from at most 5, once per row and twice per block. No other memory is
            # touched than 4,315 numbers, 49 beginnings, 48 totals and the queue.
            most={
                "largest_atomic_result": 5 + 48 + 2 * 4,
                "unique_bytes": 4 * (4315 + 49 + 48 + 1),
            },
        ),
        counted(
            "barriers",
            "48 rows",
            per=2,
            what="barriers of the blocks",
            at_most=2 * (48 + 4),
            most={"named_barriers": 0},
        ),
    ),
    mistakes=(
        OWN_SUM_TWICE,
        Mistake(
            "Two blocks may take a row at the same time, and get the same one: the queue's number has to grow by an "
            "atomic addition.",
            lambda attempt: (
                "race between blocks" in attempt.findings
                and attempt.matches(r"\*next\)?\+\+|\*next \+=|\+\+\*next")
            ),
        ),
        Mistake(
            "The rows are dealt out before the launch: here a block takes one with atomicAdd(next, 1) when it is "
            "free.",
            lambda attempt: attempt.wrong and not attempt.matches(r"\batomic\w+\([^;]*\bnext\b"),
        ),
        Mistake(
            "Here each thread takes a row of its own, and adds only a part of its numbers. One thread takes a row for "
            "the whole block, and the others read the row's number in shared memory.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"\+ threadIdx\.x\b")
                and not attempt.matches(r"__shared__|__shfl|threadIdx\.x == 0|!threadIdx\.x")
            ),
        ),
        Mistake(
            "A block takes one row, and the queue's number grows by more than one: the rows between belong to nobody.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(
                    r"atomicAdd\((?:&?next|next \+ 0|&next\[0\]), *(?:\w+Dim\.x|[2-9]|[1-9]\d+)\)"
                )
            ),
        ),
        Mistake(
            "Lane 0 of every warp takes a row here, so each warp has rows of its own, and *next grows by one more per "
            "warp at the end, not per block. A row belongs to a block: its thread 0 takes one for all of its warps.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and "next, " in attempt.wrong
                and attempt.matches(_TAKES_PER_WARP)
                and not attempt.matches("__shared__")
            ),
        ),
        Mistake(
            "A shuffle hands a number to the lanes of one warp. The row that thread 0 has taken comes to the first "
            "warp alone: the other warps need it by shared memory.",
            lambda attempt: (
                attempt.runs_wrong and _takes_for_block(attempt) and attempt.matches("__shfl")
            ),
        ),
        Mistake(
            "Only thread 0 knows the row: `row` is a variable of each thread, and in the others it has no value. Let "
            "it be __shared__.",
            lambda attempt: attempt.runs_wrong and _takes_for_block(attempt),
        ),
        Mistake(
            "It works, with more barriers than two per row. One says that the row's number is there, and the other "
            "that all threads have used it.",
            lambda attempt: attempt.count("barriers", "48 rows") > 2 * 2 * (48 + 4),
        ),
        Mistake(
            lambda attempt: (
                "The rows before *next are taken already: the first row of a block is what its atomicAdd returns."
                f"{_name_first_row(attempt)}"
            ),
            lambda attempt: attempt.wrong.startswith("right") and "expected 0," in attempt.wrong,
        ),
        Mistake(
            "Several warps of the block add to the total of its row at the same time, and only atomicAdd keeps all of "
            "their sums.",
            lambda attempt: (
                "race" in attempt.findings
                and re.search(r"\buse total\[", attempt.wrong)
                and attempt.matches(r"\btotal\[[^\];]*\] (?:\+= |= total\[)")
            ),
        ),
        Mistake(
            "One thread takes a row for its block, and the others read its number in shared memory. Which barrier "
            "says that the number is there? Which one says that all threads have used it, before the next number "
            "comes?",
            lambda attempt: {"race", "divergent barrier"} & set(attempt.findings),
            vague=True,
        ),
    ),
)
