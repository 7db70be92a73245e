"""Exercise P9b: a ring of three stages between a producer warp and consumer warps."""

import re

import numpy as np

from labkit.exercises import (
    Attempt,
    Case,
    Exercise,
    Kernels,
    Mistake,
    Output,
    counted,
    draw_summands,
    launch,
)
from labkit.exercises.barriers import COUNTS_ONE_TEAM, DIVERGES, STANDS_STILL
from labkit.exercises.text import find_line

_ON, _N, _WINDOW = "960 numbers", 960, 96
_TILES, _STAGES, _WARPS = 10, 3, 4


def sums(random: np.random.Generator, n: int):
    """Return the launch of one block that computes all sums of 96 neighbours among n numbers, of up to 31 bits."""
    x = (draw_summands(random, n, 2**31 // _WINDOW) * random.choice([-1, 1], n)).astype(np.int32)
    windows = np.lib.stride_tricks.sliding_window_view(x, _WINDOW)
    y = Output("y", windows.sum(axis=1, dtype=np.int32))
    return launch("sums", x, n, y, grid=1, block=(32, 4))


def _names_next_tile(attempt: Attempt) -> bool:
    """Return whether a tile, or a number of tiles, beside that of the loop is named: i + 1, tile - 1, ++next."""
    # the number of tiles and of a consumer's warp have a - 1, too
    rest = re.sub(r"\w+ - 1\) / \w+|threadIdx\.y - 1|\+\+\w+\)|\w+\+\+\)", "", attempt.source)
    return re.search(r"[+-] *[12]\b|\+\+", rest) is not None


# "wait(4 + i % 3,", and "arrive(4 + (i + 1) % 3,"; groups: the first barrier, the tile, the stages
_WAIT = re.compile(r"\bwait\((\w+) \+ (\w+) % (\w+),")
_ARRIVE_NEXT = re.compile(r"\barrive\((\w+) \+ \((\w+) \+ 1\) % (\w+),")


def _explain_release(attempt: Attempt) -> str:
    """Return which line releases the stage of the tile after the one that its turn is done with, or ""."""
    waits = {wait.groups(): wait.start() for wait in _WAIT.finditer(attempt.source)}
    release = _ARRIVE_NEXT.search(attempt.source)
    if not release or release.groups() not in waits:
        return ""
    _, tile, stages = release.groups()
    # the turn itself waits for the tile after its own: it reads both, and the next turn the later one again
    if not attempt.matches(rf"\bwait\(\w+ \+ \({tile} \+ 1\) % {stages},"):
        return ""
    line, waited = (
        find_line(attempt.source, place) for place in (release.start(), waits[release.groups()])
    )
    return (
        f"Line {line} releases the stage of tile {tile} + 1, which the next turn reads again. What turn {tile} is done "
        f"with is tile {tile}: its stage is {tile} % {stages}, and the producer waits for such a one in line {waited}."
    )


# "if (k > 3) wait(", the producer's first wait for an empty stage; groups: the tile, the comparison, a number
_FIRST_WAIT = re.compile(r"\bif \((\w+) (>=?) (\w+)\)\s*\{?\s*wait\(")


def _explain_first_wait(attempt: Attempt) -> str:
    """Return which line lets the producer wait for an empty stage one tile too late or too early; or ""."""
    wait = _FIRST_WAIT.search(attempt.source)
    if not (attempt.runs_wrong and wait and attempt.matches(r"% 3\b|\bSTAGES = 3\b")):
        return ""
    number = {"3": 3, "STAGES": 3}.get(wait[3], int(wait[3]) if wait[3] in ("1", "2", "4") else 0)
    first = number + (wait[2] == ">")
    line = find_line(attempt.source, wait.start())
    if first == _STAGES + 1:
        return (
            f"Line {line} lets the producer wait from tile {first} on. Tile {_STAGES} takes the stage of tile 0, too, "
            f"and nobody waits until that is read. Wait from tile {_STAGES} on."
        )
    if first == _STAGES - 1:
        return (
            f"Line {line} lets the producer wait from tile {first} on. Tile {first} takes a stage that no tile has had "
            f"before: nobody says that it is empty. Wait from tile {_STAGES} on."
        )
    return ""


_EACH_WAIT = re.compile(r"(?<!void )\bwait\(([^;]{1,100})\);")
_NEXT_TILE = re.compile(
    r"\b(\w+) = \(?(?!\1\b)\w+ \+ 1\)?(?: % \w+)?[,;]"
)  # "next = (tile + 1) % 3;"


def _explain_first_tile(attempt: Attempt) -> str:
    """Return which line is the consumers' only wait, and waits for the tile after the loop's; or ""."""
    waits = [*_EACH_WAIT.finditer(attempt.source)]
    names = {*_NEXT_TILE.findall(attempt.source)}
    ahead = [wait for wait in waits if "+ 1)" in wait[1] or names & {*re.findall(r"\w+", wait[1])}]
    if len(waits) != 2 or ahead != waits[1:]:  # the first one is the producer's
        return ""
    return (
        f"Line {find_line(attempt.source, ahead[0].start())} waits for the next tile, and no line waits for the first: "
        "nobody says that tile 0 is full before the first outputs read it. The consumers need one more wait, before "
        "their loop."
    )


def _reads_behind_the_ring(attempt: Attempt) -> bool:
    """Return whether a consumer reads the element behind the last stage, as by the report."""
    return "out of bounds" in attempt.findings and bool(
        re.search(
            r"\bread of [^\n]* at \w+\[3\]\[0\] of the __shared__ array \w+, one past the end of its 3 x 96",
            attempt.wrong,
        )
    )


EXERCISE = Exercise(
    title="A ring",
    subject=Kernels(
        sums,
        (
            Case("96 numbers", (96,)),
            Case("97 numbers", (97,)),
            Case("500 numbers", (500,)),
            Case("12,300 numbers", (12_300,)),  # more than shared memory holds without a ring
            Case(_ON, (_N,), counted=True),
        ),
        hidden=(range(96, 900),),
    ),
    goals=(
        counted(
            "global_load_requests",
            _ON,
            what="load requests",
            at_most=_N / 32,
            least={"unique_bytes": 4 * (2 * _N - _WINDOW + 1)},
        ),
        counted(
            "barriers",
            _ON,
            what="uses of __syncthreads()",
            exactly=0,
            # Each of ten tiles is handed over to three warps, which share the sums; no warp stores tiles and adds.
            least={"named_barriers": _WARPS * _TILES, "shared_load_instructions": 27 * _WINDOW / 4},
            most={"busiest_warp": ("shared_load_instructions", 1 / 2), "two_way_warps": 0},
        ),
        # At `full` all warps come for each tile, at `empty` for each but the first three: fewer
        # stages need more, so the producer is as far ahead as three stages let it be.
        counted(
            "named_barriers",
            _ON,
            what="warps that come to named barriers",
            at_most=_WARPS * (_TILES + _TILES - _STAGES),
            least={"named_barriers": _WARPS * _TILES, "shared_load_instructions": 27 * _WINDOW / 4},
        ),
    ),
    mistakes=(
        Mistake(
            "A sum that begins in the last stage goes on in the next tile, and that lies in stage 0: behind the last "
            "stage the ring has no element. A number's place follows from its tile, whose stage is the tile's number "
            "% 3.",
            _reads_behind_the_ring,
        ),
        COUNTS_ONE_TEAM,
        Mistake(
            _explain_release,
            lambda attempt: "deadlock" in attempt.wrong and _explain_release(attempt),
        ),
        Mistake(
            "Nobody tells the producer that a stage is empty. It runs ahead, stores over a tile that is still read, "
            "and arrives at a barrier for `full` twice.",
            lambda attempt: (
                "deadlock" in attempt.wrong
                and attempt.source.count("arrive(") == attempt.source.count("wait(") == 2
            ),
        ),
        Mistake(
            "The producer waits at `empty` before it has filled a stage for the first time, and the consumers wait at "
            "`full`. Which stages are empty at the beginning, without a consumer's word?",
            lambda attempt: (
                re.search(r"thread \(0,0,0\) and 31 more at bar\.sync \d+", attempt.wrong)
                and re.search(
                    r", which expects \d+ and has 32; thread \(0,1,0\) and 95 more", attempt.wrong
                )
                and not attempt.matches(r"if \(\w+ >=? ")
            ),
        ),
        Mistake(
            "Everybody waits here, and nobody only arrives. The producer need not wait until the consumers have read "
            "a full stage, nor they until an empty one is filled again: one side arrives, and the other waits.",
            lambda attempt: "deadlock" in attempt.wrong and attempt.source.count("arrive(") == 1,
        ),
        Mistake(_explain_first_wait, _explain_first_wait),
        *STANDS_STILL,
        DIVERGES,
        Mistake(
            "A sum reaches into two tiles. It may begin when both are full, and a stage may be released when no later "
            "sum reads its tile. Which tile of the two does your last sum read, and which stage do you release?",
            lambda attempt: "race" in attempt.findings and not _names_next_tile(attempt),
            vague=True,
        ),
        Mistake(
            _explain_first_tile,
            lambda attempt: "race" in attempt.findings and _explain_first_tile(attempt),
        ),
        Mistake(
            "Each stage needs two barriers of its own, six numbers for three stages. Here a barrier of `full` and one "
            "of `empty` have the same number.",
            lambda attempt: (
                attempt.runs_wrong
                and attempt.matches(r"\bSTAGES = 3\b")
                and attempt.matches(r"\bEMPTY = FULL \+ [012]\b|\bFULL = 1, EMPTY = [123]\b")
            ),
        ),
        Mistake(
            "A stage is written while it is read, or read before it is full. The producer arrives at `full` after its "
            "last store to a stage. From the fourth tile on, it waits for `empty` of its stage before it stores. The "
            "consumers wait for two tiles before the first outputs, then for one more each time. They release a stage "
            "when the outputs that begin in it are done, and no stage before.",
            lambda attempt: "race" in attempt.findings,
            vague=True,
        ),
        Mistake(
            "The consumers read an element that no thread has stored: before its stage is full, or beyond the 96 "
            "numbers of an output.",
            lambda attempt: "uninitialized" in attempt.findings,
            vague=True,
        ),
        Mistake(
            "Numbers are loaded more than once. A tile stays in the ring until the outputs that begin in it are done.",
            lambda attempt: attempt.count("global_load_requests", _ON) > _N / 32,
        ),
        Mistake(
            "A warp arrives at a barrier where the others no longer come: the barrier is left half full. The last "
            "three tiles are not replaced. So nobody waits for their `empty`, and the consumers need not arrive there.",
            # each barrier that is complete has four warps
            lambda attempt: (
                attempt.count("barriers", _ON) == 0
                and attempt.count("named_barriers", _ON) % _WARPS != 0
            ),
        ),
        Mistake(
            "It works, but in a ring of two stages all tiles but the first two wait for `empty`. With three stages, "
            "all but the first three do.",
            lambda attempt: (
                attempt.counts
                and attempt.count("barriers", _ON) == 0
                and attempt.matches(r"\bSTAGES\s*=\s*2\s*[;,]")
            ),
        ),
        Mistake(
            "It works, but more often than for seven tiles a warp comes to `empty`. The first three tiles find their "
            "stages empty. A ring of three stages needs the wait and the release only for a tile that takes the place "
            "of another.",
            lambda attempt: (
                attempt.count("barriers", _ON) == 0
                and attempt.count("named_barriers", _ON) > _WARPS * (_TILES + _TILES - _STAGES)
            ),
        ),
        Mistake(
            "It works, with barriers of all threads. Let the two teams meet at barriers with numbers.",
            lambda attempt: attempt.count("barriers", _ON) > 0,
        ),
    ),
)
