"""Exercise P9a: a producer warp hands tiles over to consumer warps."""

import re

from labkit.exercises import Attempt, Exercise, Mistake, counted
from labkit.exercises.barriers import BARRIERS_WAITED_FOR, COUNTS_ONE_TEAM, DIVERGES, STANDS_STILL
from labkit.exercises.practice import PRODUCED_RANKS

_ON = "480 numbers"  # 5 blocks; each loads 5 tiles of 3 requests, and its own numbers by 3
# A loop whose body begins with a wait, and stores numbers of x: "for (...) { wait(EMPTY, ALL); ... tile[j] = x[i];".
_WAITS_FIRST = re.compile(
    r"\bfor \([^{}]*\)\s*\{\s*wait\((\w+)[^;]*;[^{}]*\] = (?:[^;{}]*\? )?x\[",
)


def _waits_first(attempt: Attempt) -> bool:
    """Return whether the producer waits for the consumers before its first store, and they for it.

    By the report, its warp waits at one barrier and the consumers at another. By the text, its loop
    begins with that wait, and only one other wait is for this barrier.
    """
    counts = {arrived for _, _, arrived in BARRIERS_WAITED_FOR.findall(attempt.wrong)}
    loop = _WAITS_FIRST.search(attempt.source)
    return (
        counts == {"32", "96"}
        and loop is not None
        and len(re.findall(rf"\bwait\(\s*{loop[1]}\b", attempt.source)) == 2
    )


EXERCISE = Exercise(
    title="One buffer",
    subject=PRODUCED_RANKS,
    goals=(
        counted(
            "global_load_requests",
            _ON,
            what="load requests",
            at_most=5 * (5 + 1) * 3,
            least={"unique_bytes": 2 * 4 * 480},
        ),
        counted(
            "barriers",
            _ON,
            what="uses of __syncthreads()",
            exactly=0,
            # Each of five tiles is handed over to three warps, whose lanes read all of it.
            least={"named_barriers": 5 * 5 * 4, "shared_load_bytes": 5 * 96 * 480 * 4},
            # and do so each on its own: no warp has the work of the 15, or loads tiles and compares
            most={"busiest_warp": ("shared_load_instructions", 1 / 12), "two_way_warps": 0},
        ),
    ),
    mistakes=(
        COUNTS_ONE_TEAM,
        Mistake(
            "A thread that returns comes to no barrier behind it, and each barrier counts on all threads. A consumer "
            "without a number has to come to each of them, too: guard its load and its store, not its way.",
            lambda attempt: (
                "deadlock" in attempt.wrong
                and re.search(
                    r"\bif \([^{};]*\)\s*(?:\{\s*)?return;", attempt.source.rpartition("wait(")[0]
                )
            ),
        ),
        Mistake(
            "The producer waits for `empty` before it has filled the tile for the first time, and the consumers wait "
            "for `full`. At the beginning the tile is empty, without a consumer's word. Then the consumers need not "
            "come to `empty` after the last tile, either.",
            _waits_first,
        ),
        *STANDS_STILL,
        DIVERGES,
        Mistake(
            "A tile is handed over twice: it is full when the producer has stored it, and empty when the consumers "
            "have read it. Both need a barrier, the first behind the stores and the second behind the loop that "
            "compares.",
            lambda attempt: "race" in attempt.findings,
            vague=True,
        ),
        Mistake(
            "The last tile may have fewer numbers than T: compare only with those that exist.",
            lambda attempt: (
                "uninitialized" in attempt.findings
                and attempt.matches(r"\bj < (?:T|96); (?:\+\+j|j\+\+)\)\s*\{?\s*smaller \+=")
            ),
        ),
        Mistake(
            "Each consumer warp loads the tiles itself. One warp loads a tile for all three.",
            lambda attempt: attempt.count("global_load_requests", _ON) > 5 * (5 + 1) * 3,
        ),
        Mistake(
            "Barrier 0 is that of __syncthreads(). Take a number from 1 to 15.",
            lambda attempt: (
                attempt.count("barriers", _ON) > 0 and "__syncthreads" not in attempt.source
            ),
        ),
        Mistake(
            "It works, with barriers of all threads. Let the two teams meet at barriers with numbers.",
            lambda attempt: attempt.count("barriers", _ON) > 0,
        ),
    ),
)
