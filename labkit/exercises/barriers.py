"""Mistakes with barriers of some threads of a block, and with mbarriers: of the practice pages P9 and P10."""

import re

from labkit.exercises import Attempt, Mistake
from labkit.exercises.exercise import join_words
from labkit.exercises.text import find_line

# Of the report of a deadlock: "31 more at bar.sync 2 (attempt.cu:5), which expects 128 and has 32".
BARRIERS_WAITED_FOR = re.compile(r"at bar\.sync (\d+)[^;]*?, which expects (\d+) and has (\d+)")
_BLOCK = 128  # threads: a producer's warp and three of consumers


# One group of it: a warp's number, how many more threads wait, the barrier, the threads that have come to it.
_GROUP = re.compile(
    r"thread \(\d+,(\d+),0\)(?: and (\d+) more)? at bar\.sync (\d+)[^;]*?, which expects \d+ and has \d+"
)
# "wait(4 + stage," and "arrive(FULL,"; group: the number of the barrier
_CALL = re.compile(r"\b(?:wait|arrive)\(\s*([^;,]{1,60}),")


def _name_barrier(number: str, source: str) -> str:
    """Return a barrier's number with its name in a code, and the lines of its calls: "barrier 2 (lines 9 and 21)".

    No lines are named if a call computes its barrier's number, so that any line may be one of this barrier.
    """
    # the heads of the two functions have "int number" there
    calls = [call for call in _CALL.finditer(source) if not call[1].startswith("int ")]
    if not all(re.fullmatch(r"\w+", call[1]) for call in calls):
        return f"barrier {number}"
    names = [number, *re.findall(rf"\b(\w+) = {number}\b", source)]
    lines = [str(find_line(source, call.start())) for call in calls if call[1] in names]
    return f"barrier {number}" + (f" (lines {join_words(lines)})" if lines[1:] else "")


def _explain_standstill(attempt: Attempt) -> str:
    """Return why a barrier of two teams is not complete, from the report of a deadlock; "" if it does not tell."""
    if not _stands_still(attempt):
        return ""
    waiting = BARRIERS_WAITED_FOR.findall(attempt.wrong)
    live = re.search(r"all (\d+) threads wait", attempt.wrong)
    for number, expected, arrived in waiting:
        if int(arrived) % 32:
            return (
                f"Only a part of a warp comes to {_name_barrier(number, attempt.source)}: {arrived} threads are there. "
                "All its lanes have to come. Which condition stands in front of the wait?"
            )
        if int(expected) != _BLOCK:
            return (
                f"At {_name_barrier(number, attempt.source)} {expected} threads are expected. Both teams come to it, "
                f"32 threads and 96: name {_BLOCK}, those that wait and those that only arrive."
            )
    if len(waiting) == 1 and live and int(live[1]) < _BLOCK:
        number, _, arrived = waiting[0]
        barrier = _name_barrier(number, attempt.source)
        return (
            f"{live[1]} threads wait for ever at {barrier}, to which {arrived} of {_BLOCK} "
            "have come: the others have ended. One team comes to it more often than the other. Compare the conditions "
            "of the two, for the first tile and for the last."
        )
    return ""


def _describe_standstill(attempt: Attempt) -> str:
    """Return which warp, or how many threads, wait at which barrier."""
    groups = [
        (
            f"warp {warp}" if more == "31" else f"{int(more or 0) + 1} threads",
            _name_barrier(number, attempt.source),
        )
        for warp, more, number in _GROUP.findall(attempt.wrong)
    ]
    where = join_words([f"{who} at {barrier}" for who, barrier in groups])
    return (
        f"They wait for each other: {where}. Follow both teams from the beginning: at which tile do they come to "
        "different barriers, or one of them once more than the other?"
        if groups
        else "Warps wait for ever at a barrier to which not enough threads come."
    )


def _stands_still(attempt: Attempt) -> bool:
    """Return whether an attempt stands still at barriers with numbers."""
    return "deadlock" in attempt.wrong and "__syncthreads" not in attempt.wrong


# "wait(EMPTY, 32)": groups: what is called, and the number of threads.
_COUNT_OF_THREADS = re.compile(r"\b(wait|arrive)\([^;,]{1,60}, *(\d{1,4})\)")


def _find_count(attempt: Attempt) -> re.Match | None:
    """Return the first call of a barrier that names another number than that of the block's threads, or None."""
    calls = _COUNT_OF_THREADS.finditer(attempt.source)
    return next((call for call in calls if int(call[2]) != _BLOCK), None)


def _explain_count(attempt: Attempt) -> str:
    """Return which line names another number of threads than the block has."""
    call = _find_count(attempt)
    line = find_line(attempt.source, call.start())
    return (
        f"Line {line} names {call[2]} threads. Both teams come to this barrier, 32 threads and 96, so each call "
        f"names {_BLOCK}: those that wait and those that only arrive."
    )


COUNTS_ONE_TEAM = Mistake(
    _explain_count, lambda attempt: attempt.runs_wrong and _find_count(attempt) is not None
)
STANDS_STILL = (
    Mistake(_explain_standstill, _explain_standstill),
    Mistake(_describe_standstill, _stands_still, vague=True),
)
# A barrier of the whole block that not all of its threads reach.
DIVERGES = Mistake(
    "A barrier of the whole block in a branch of one warp: the other warps wait at another place. The two teams meet "
    "at barriers with numbers, bar.sync number, threads.",
    lambda attempt: "divergent barrier" in attempt.findings and not _stands_still(attempt),
)


def _reports(attempt: Attempt, pattern: str) -> bool:
    """Return whether the report of a deadlock at an mbarrier matches a regular expression."""
    return "of the mbarrier in" in attempt.wrong and re.search(pattern, attempt.wrong) is not None


def _announces(source: str) -> bool:
    """Return whether code announces bytes for a phase, besides in the function that the starting code has."""
    return len(re.findall(r"expect\w*\(", source)) > 2


# A wait for the end of phase 0 of `empty` at a stage whose `full` is in phase 0, too, without an arrival.
_NOT_YET_FILLED = (
    r"with parity 0 of the mbarrier in empty\[(\d)\]: its current phase is number 0, with parity 0, and has 0 of"
    r"[\s\S]*mbarrier in full\[\1\]: its current phase is number 0, with parity 0, and has 0 of"
)
# Of rings with an mbarrier: the sentence follows from what the report of a deadlock has counted.
MBARRIER_MISTAKES = (
    Mistake(
        "Compare the two numbers of bytes in the report. What arrive_expect announces is what all copies of this "
        "phase bring together, also when the last tile is shorter.",
        lambda attempt: _reports(attempt, r"bytes are expected[^;]*: \d+ too (?:few|many)"),
    ),
    Mistake(
        "Nobody announces the bytes, so a phase ends before they are copied. The producer arrives with "
        "arrive_expect, in each phase.",
        lambda attempt: attempt.runs_wrong and not _announces(attempt.source),
    ),
    Mistake(
        "More arrive at `empty` than its mbarrier was made for. Who arrives there, each lane or one thread of each "
        "warp?",
        lambda attempt: (
            "too many arrive" in attempt.wrong and re.search(r"mbarrier in empty\b", attempt.wrong)
        ),
    ),
    Mistake(
        "Nobody arrives at `empty`, so no stage is given back, and the producer waits for ever. When may it fill a "
        "stage again?",
        lambda attempt: (
            _reports(attempt, r"mbarrier in empty\b")
            and not attempt.matches(r"arrive\w*\([^;]*\bempty\b")
        ),
    ),
    Mistake(
        "Lane 1 of the producer's warp arrives at `full`, too. One thread alone announces the bytes and copies a tile.",
        lambda attempt: (
            "too many arrive at the mbarrier in full" in attempt.wrong
            and "thread (1, 0, 0) of block" in attempt.wrong
        ),
    ),
    Mistake(
        "The producer fills a stage again too early: the phase before has not ended there. First it waits until the "
        "stage is empty. Which parity has the phase of `empty` that ends when the tile of the lap before is read?",
        lambda attempt: "too many arrive" in attempt.wrong,
    ),
    Mistake(
        "Compare the arrivals in the report: `full` was made for more than one. The producer alone arrives there, once "
        "per tile.",
        lambda attempt: _reports(attempt, r"mbarrier in full\b[^;]*has 1 of (?!1 )\d+ arrivals"),
    ),
    Mistake(
        "Compare the arrivals in the report: fewer have come than the mbarrier was made for. Who arrives at it, a "
        "thread of each warp or all threads?",
        lambda attempt: _reports(attempt, r"has (?!0 )(\d+) of (?!\1 )\d+ arrivals"),
    ),
    Mistake(
        "A thread waits at `empty` in lap 0, when nobody has filled this stage yet, so nobody can give it back. Every "
        "stage is empty then: the producer need not wait, or it waits for parity 1, as the phase before phase 0 has "
        "ended.",
        lambda attempt: _reports(attempt, _NOT_YET_FILLED),
    ),
    Mistake(
        "A thread waits for the end of a phase for which nobody can arrive before it goes on. In lap 0 every stage is "
        "empty. There the producer need not wait, or it waits for parity 1: the phase before phase 0 has ended.",
        lambda attempt: "of the mbarrier in" in attempt.wrong,
        vague=True,
    ),
    Mistake(
        "The mbarriers are used before all threads can see them. Behind the init one needs a barrier of the block.",
        lambda attempt: (
            attempt.findings
            and not attempt.matches(r"__syncthreads|__barrier|bar\.sync|barrier\.sync")
        ),
    ),
    Mistake(
        "Each lane arrives at `empty`, and its mbarrier expects 3 arrivals: three lanes of one warp are enough to "
        "give the stage back, while others still read. Who should arrive, and when?",
        lambda attempt: (
            {"race", "race with a copy"} & {*attempt.findings}
            and attempt.matches(r"mbarrier_init\(&empty\[\w+\], 3\)")
            and attempt.matches(r"mbarrier_arrive\(&empty\b")
            and not attempt.matches(r"== 0\)[^}]{0,99}mbarrier_arrive\(&empty\b")
        ),
    ),
    Mistake(
        "Lane 0 arrives at `empty` for its warp when it has read itself. Nothing says that the other lanes have read "
        "by then.",
        lambda attempt: (
            re.search(r"bulk copy that writes .* reads,", attempt.wrong)
            and "__syncwarp" not in attempt.source
            and attempt.matches(r"== 0\)\s*(?:\w+::)*mbarrier_arrive\(&empty\b")
        ),
    ),
    Mistake(
        "Three warps arrive at `empty`, and its mbarrier is made for fewer: the stage is given back while others still "
        "read.",
        lambda attempt: (
            {"race", "race with a copy"} & {*attempt.findings}
            and attempt.matches(r"mbarrier_init\(&empty\[\w+\], *[12]\)")
        ),
    ),
    Mistake(
        "The consumers wait for the same parity of `full` in each lap, and it changes from lap to lap: 0, 1, 0, 1.",
        lambda attempt: (
            {"race", "race with a copy"} & {*attempt.findings}
            and attempt.matches(r"try_wait_parity\(&full\[\w+\], *[01]\)")
        ),
    ),
    Mistake(
        "A copy writes to a stage while it is read, or a stage is read before it is full. Which parity has the phase, "
        "in this lap, that ends when the stage is full, and which one when it is empty? And does a warp arrive behind "
        "its last read?",
        lambda attempt: {"race", "race with a copy"} & {*attempt.findings},
        vague=True,
    ),
)
