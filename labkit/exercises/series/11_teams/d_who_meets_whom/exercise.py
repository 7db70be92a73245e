"""Exercise 11d: who meets whom."""

import re

import numpy as np

from labkit.exercises import Attempt, Case, Exercise, Kernels, Mistake, Output, counted, launch
from labkit.exercises.arithmetic import compute
from labkit.exercises.exercise import join_words
from labkit.exercises.text import find_line

_TAPS, _WIDTH = 7, 128
_COMPUTE, _FETCH, _STORE = 4, 2, 1  # warps
_ROWS, _BLOCKS = 20, 4
_ON = f"{_ROWS} rows in {_BLOCKS} blocks"
_MEETINGS = _ROWS * ((_COMPUTE + _FETCH) + (_COMPUTE + _STORE))
# A compute warp loads the weights once, and for each row seven values of each lane; it stores one.
_BUSIEST = _TAPS + _ROWS // _BLOCKS * (_TAPS + 1)


def filter_rows(random: np.random.Generator, rows: int, blocks: int):
    """Return the launch of a filter: an output is the sum of `_TAPS` neighbours in its row, times weights.

    All numbers are small integers, so that the sums are exact.
    """
    x = random.integers(-99, 100, (rows, _WIDTH + _TAPS - 1)).astype(np.float32)
    a = random.integers(-9, 10, _TAPS).astype(np.float32)
    y = np.lib.stride_tricks.sliding_window_view(x, _TAPS, axis=1) @ a
    block = (32, _COMPUTE + _FETCH + _STORE)  # the warps that compute, that load and that store
    return launch("filter", x, a, Output("y", y.astype(np.float32)), rows, grid=blocks, block=block)


# A call of `barrier` with another number of warps than that of its two teams.
_OTHER_COUNT = re.compile(
    r"\bbarrier\((?:IMAGE, (?!(?:COMPUTE \+ FETCH|FETCH \+ COMPUTE|6)\))"
    r"|OUTPUT, (?!(?:COMPUTE \+ STORE|STORE \+ COMPUTE|5)\)))"
)


_CALL = re.compile(r"\bbarrier\((IMAGE|OUTPUT), ([\w +*()]{1,60})\);")
_TEAMS = {"COMPUTE": _COMPUTE, "FETCH": _FETCH, "STORE": _STORE}
# Where the code of each team begins.
_BEGINS = ("if (warp < COMPUTE)", "else if (warp < COMPUTE + FETCH)", "else {")


def _describe_counts(attempt: Attempt) -> str:
    """Return who waits at a barrier for how many warps, if not for those of the teams that come to it; or ""."""
    begins = [0]
    for text in _BEGINS:
        begins.append(attempt.source.find(text, begins[-1] + 1))
    if -1 in begins:
        return ""
    for barrier in ("IMAGE", "OUTPUT"):
        calls = []  # (line, team, number of warps)
        for call in _CALL.finditer(attempt.source, begins[1]):
            if call[1] == barrier:
                line = find_line(attempt.source, call.start())
                team = [*_TEAMS][sum(begin < call.start() for begin in begins[2:])]
                calls.append((line, team, compute(call[2], _TEAMS)))
        teams = [team for team in _TEAMS if team in {team for _, team, _ in calls}]
        warps = sum(_TEAMS[team] for team in teams)
        if not calls or {number for *_, number in calls} == {warps}:
            continue
        if any(number is None for *_, number in calls):
            return ""
        waits = join_words([f"line {line} waits for {number} warps" for line, _, number in calls])
        if len(teams) == 1:
            come = f"Only the {teams[0]} warps come to it: which team do they meet there?"
        else:
            come = f"The teams that come to it have {' + '.join(teams)} = {warps} warps."
        return f"Warps wait for each other for ever. At barrier {barrier}, {waits}. {come}"
    return ""


def _find_shared_number(attempt: Attempt) -> str:
    """Return which barriers with a number per buffer, as in "IMAGE + turn", share a number; or ""."""
    names = [
        re.search(rf"\bbarrier\({name} \+ (\w+),", attempt.source) for name in ("IMAGE", "OUTPUT")
    ]
    # numbers that are 0 and 1 in turns
    if not all(names) or not all(
        re.search(rf"\b{name[1]} = 0\b", attempt.source)
        and re.search(rf"\b{name[1]} (?:\^= 1|= 1 - {name[1]}|= !{name[1]})", attempt.source)
        for name in names
    ):
        return ""
    return (
        f"IMAGE + {names[0][1]} is 1 or 2, and OUTPUT + {names[1][1]} is 2 or 3: two meetings share the barrier with "
        "number 2. Each meeting needs numbers of its own."
    )


def _find_array(attempt: Attempt) -> str:
    """Return the array of a race, "images" or "out"; or ""."""
    array = re.search(r"__shared__ array (images|out)\b", attempt.wrong)
    return array[1] if array else ""


# Barriers and accesses to shared memory, as the solution has them: compute, fetch, store.
_ACCESS = re.compile(r"\b(?:barrier\((?:IMAGE|OUTPUT)\b|images\[|out\[)")
_RIGHT_ORDER = [
    *("barrier(IMAGE", "images[", "out[", "barrier(OUTPUT"),
    *("images[", "barrier(IMAGE"),
    *("barrier(OUTPUT", "out["),
]

EXERCISE = Exercise(
    title="Who meets whom",
    subject=Kernels(
        filter_rows,
        (
            Case("7 rows in 2 blocks", (7, 2)),
            Case(_ON, (_ROWS, _BLOCKS), counted=True),
        ),
        hidden=(range(1, 12), range(1, 4)),
    ),
    lines=8,
    goals=(
        counted(
            "named_barriers",
            _ON,
            what="warps that come to named barriers",
            exactly=_MEETINGS,
            # what passes through shared memory: the windows, and the sums
            least={
                "shared_load_bytes": _ROWS * _WIDTH * (_TAPS + 1) * 4,
                "unique_bytes": 4 * _ROWS * (2 * _WIDTH + _TAPS - 1),
            },
            most={"busiest_warp": _BUSIEST, "two_way_warps": _BLOCKS * _COMPUTE},
        ),
        counted("barriers", _ON, what="uses of __syncthreads()", exactly=0),
    ),
    mistakes=(
        Mistake(
            "A barrier of the whole block waits for all three teams, and each team comes to another one. Let two "
            "teams meet at barriers with numbers: barrier(n, warps).",
            lambda attempt: "__syncthreads" in attempt.source,
        ),
        Mistake(
            _find_shared_number,
            lambda attempt: (
                attempt.runs_wrong
                and attempt.matches(r"\bIMAGE = 1, OUTPUT = 2\b")
                and _find_shared_number(attempt)
            ),
        ),
        Mistake(
            _describe_counts,
            lambda attempt: "deadlock" in attempt.wrong and _describe_counts(attempt),
        ),
        Mistake(
            "Warps wait for each other for ever. The second argument is the number of warps of both teams that meet "
            "there, and both teams come equally often: once per row.",
            lambda attempt: "deadlock" in attempt.wrong or "divergent barrier" in attempt.findings,
            vague=True,
        ),
        Mistake(
            "A race, and no barrier at IMAGE: who says that a row is there, and that the one before is no longer "
            "read?",
            lambda attempt: "race" in attempt.findings and "barrier(IMAGE" not in attempt.source,
        ),
        Mistake(
            "A race, and no barrier at OUTPUT: who says that the sums of a row are complete, and that those before "
            "are stored?",
            lambda attempt: "race" in attempt.findings and "barrier(OUTPUT" not in attempt.source,
        ),
        Mistake(
            "IMAGE and OUTPUT are the same barrier here, so warps that wait for an image count for the sums, too: "
            "each of the two needs a number of its own.",
            lambda attempt: (
                "race" in attempt.findings and attempt.matches(r"IMAGE = (\d+), OUTPUT = \1\b")
            ),
        ),
        Mistake(
            "A race: a barrier lets its warps go on before all of both teams are there. It waits for COMPUTE + FETCH "
            "warps at IMAGE, and for COMPUTE + STORE at OUTPUT.",
            lambda attempt: "race" in attempt.findings and attempt.matches(_OTHER_COUNT),
        ),
        Mistake(
            lambda attempt: (
                f"A race in `{_find_array(attempt)}`: its two teams meet where they should, and then they use one "
                "buffer at the same time. Each team begins with buffer 0, and takes the other one in its next turn."
            ),
            lambda attempt: (
                "race" in attempt.findings
                and _find_array(attempt)
                and _ACCESS.findall(attempt.source.partition("if (warp <")[2]) == _RIGHT_ORDER
            ),
        ),
        Mistake(
            lambda attempt: (
                f"A race in `{_find_array(attempt)}`: its two teams meet, but at the wrong place. Who gives comes to "
                "the barrier after its last store, who takes comes before its first load."
            ),
            lambda attempt: "race" in attempt.findings and _find_array(attempt),
            vague=True,
        ),
        Mistake(
            "The second argument of `barrier` is a number of warps: it makes 32 threads of each by itself.",
            lambda attempt: attempt.matches(r"\bbarrier\(\w+, (?:32 \*|[^;]*\* 32\))"),
        ),
        Mistake(
            "It works, with a barrier more than needed: no fetch warp reads what another one has copied. So nobody "
            "needs a barrier of the fetch warps alone, such as TEAM.",
            lambda attempt: attempt.count("named_barriers", _ON) == _MEETINGS + _ROWS * _FETCH,
        ),
        Mistake(
            "It works, with more meetings than two buffers need. While one is filled, the other is read: a single "
            "barrier per row hands over both.",
            lambda attempt: attempt.count("named_barriers", _ON) > _MEETINGS,
        ),
    ),
)
