"""Exercise 07c: three points.

Tries find the answer, which is accepted: `labkit.exercises.subjects.Numbers` says why.
"""

from functools import cache

from labkit.base.errors import LabError
from labkit.base.numerals import shorten
from labkit.exercises import Attempt, Exercise, Goal, Mistake, Numbers, whole_number
from labkit.exercises.exercise import join_words
from labkit.records.recorded import recorded
from labkit.spec.layers import LENET72

_LAYER, _CASE, _PAIRS = LENET72[1], "lenet72 layer 2", 3
_KNOWN = (4, 8)  # of rung 07 on this layer: the page before prints it
_MOST_NUMBERS, _MOST_TWICE, _MOST_SUMS = 0.35, 5.0, 40
_PER_LOAD = 4  # weights in a load of 16 bytes


@cache
def _read_times() -> dict[tuple[int, int], float]:
    """Return the recorded op time [ms] of the fastest block for each pair (ROWS, MAPS) of the sweep on an H200."""
    swept = (
        recorded("H200").sweep().query("layer == @_LAYER.name and batch == 1000 and unroll.isna()")
    )
    times = swept.groupby(["rows", "maps"])["op_ms"].min()
    return {(int(rows), int(maps)): float(ms) for (rows, maps), ms in times.items()}


def _as_pair(value: object) -> tuple[int, int]:
    """Return a reader's pair (ROWS, MAPS) as two ints; LabError if it is none, or the sweep did not time it."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise LabError(f"{shorten(value)} is no pair; a pair is (rows, maps), such as (8, 8)")
    rows, maps = (
        whole_number(size, f"number of {name}", 1, 32)
        for size, name in zip(value, ("rows", "maps"), strict=True)
    )
    if (rows, maps) not in (times := _read_times()):
        if (maps, rows) in times:
            raise LabError(
                f"({rows}, {maps}) is {rows} rows in {maps} maps, which were not timed. {maps} rows in {rows} maps "
                f"were: a pair is (rows, maps)"
            )
        swept_rows, swept_maps = (sorted({pair[axis] for pair in times}) for axis in (0, 1))
        raise LabError(
            f"{rows} rows in {maps} maps were not timed; the sweep has "
            f"{', '.join(map(str, swept_rows))} rows in {', '.join(map(str, swept_maps))} maps"
        )
    return rows, maps


def _count_numbers(rows: int, maps: int) -> float:
    """Return how many numbers a thread loads per multiply-add."""
    return (rows + _LAYER.K - 1 + maps * _LAYER.K) / (rows * maps * _LAYER.K)


def _count_twice(rows: int) -> float:
    """Return how many per cent of the outputs of a map are computed twice."""
    return 100 * (-(-_LAYER.Ho // rows) * rows / _LAYER.Ho - 1)


def _list_pairs(attempt: Attempt) -> list[tuple[int, int]]:
    """Return the reader's pairs (rows, maps)."""
    pairs = [attempt.counts[f"pair {i}"] for i in range(_PAIRS)]
    return [(int(pair["rows"]), int(pair["maps"])) for pair in pairs]


def _explain_twice(attempt: Attempt) -> str:
    """Return a sentence about the pairs that compute too many outputs twice; "" if there are none."""
    several = sorted({rows for rows, _ in _list_pairs(attempt) if _count_twice(rows) > _MOST_TWICE})
    threads = [-(-_LAYER.Ho // rows) for rows in several]
    each = [
        f"with {rows} rows, {count} threads compute {count * rows}"
        for rows, count in zip(several, threads, strict=True)
    ]
    return several and (
        f"A map of this layer has {_LAYER.Ho} rows. Its last thread moves up, and computes outputs of its neighbour "
        f"again: {join_words(each)}."
    )


def _explain_numbers(attempt: Attempt) -> str:
    """Return a sentence about the pairs that load too many numbers; "" if there are none."""
    K = _LAYER.K
    each = [
        f"({rows}, {maps}) loads {rows + K - 1} + {maps * K} numbers for {rows * maps * K} multiply-adds"
        for rows, maps in _list_pairs(attempt)
        if _count_numbers(rows, maps) > _MOST_NUMBERS
    ]
    return each and (
        f"A thread with few outputs loads much for each: per column of the mask ROWS + {K - 1} inputs and {K} weights "
        f"per map. {join_words(each)}."
    )


def _explain_loads(attempt: Attempt) -> str:
    """Return a sentence about the pairs whose weights no load of 16 bytes can bring; "" if there are none."""
    each = [f"({rows}, {maps})" for rows, maps in _list_pairs(attempt) if maps % _PER_LOAD]
    return each and (
        "A row of weights in shared memory has one for each map of the thread, four bytes each. Every row begins at a "
        "multiple of 16 bytes only if the number of maps is a multiple of four, which it is not in "
        f"{join_words(each)}."
    )


def _explain_sums(attempt: Attempt) -> str:
    """Return a sentence about the pairs with too many sums; "" if there are none."""
    each = [
        f"({rows}, {maps}) has {rows * maps}"
        for rows, maps in _list_pairs(attempt)
        if rows * maps > _MOST_SUMS
    ]
    return each and (
        f"A sum is a register, and {_LAYER.K**2} multiply-adds in the unrolled code. With 64 sums the code was too "
        f"long on layer 2 of lenet86, with 32 it was not; {join_words(each)}."
    )


def _count_answer(pair_1: object, pair_2: object, pair_3: object) -> dict[str, dict[str, float]]:
    """Return how many of the reader's pairs keep each rule, and the shortest recorded time of them over the sweep's.

    LabError if a value is no pair of the sweep, or the kernel's own one, or a pair is there twice.
    """
    pairs = [_as_pair(value) for value in (pair_1, pair_2, pair_3)]
    if _KNOWN in pairs:
        raise LabError(f"{_KNOWN} is the pair of rung 07: choose three others")
    if len(set(pairs)) < _PAIRS:
        raise LabError("a pair is there twice: these are three different points to time")
    times = _read_times()
    numbers = [_count_numbers(*pair) for pair in pairs]
    twice = [_count_twice(rows) for rows, _ in pairs]
    return {
        **{f"pair {i}": {"rows": rows, "maps": maps} for i, (rows, maps) in enumerate(pairs)},
        _CASE: {
            "few_numbers": sum(number <= _MOST_NUMBERS for number in numbers),
            "few_twice": sum(percent <= _MOST_TWICE for percent in twice),
            "whole_loads": sum(maps % _PER_LOAD == 0 for _, maps in pairs),
            "few_sums": sum(rows * maps <= _MOST_SUMS for rows, maps in pairs),
            "slower": min(times[pair] for pair in pairs) / min(times.values()),
        },
    }


def _count(name: str):
    """Return the function that a goal takes for a number of `_count_answer`."""
    return lambda counts: counts[_CASE][name]


EXERCISE = Exercise(
    title="Three points",
    subject=Numbers(
        _count_answer,
        start=((1, 1), (8, 8), (14, 4)),
        solution=lambda: ((4, 4), (7, 4), (9, 4)),
    ),
    goals=(
        Goal(
            f"pairs with at most {_MOST_NUMBERS} numbers per multiply-add",
            _count("few_numbers"),
            exactly=_PAIRS,
        ),
        Goal(
            f"pairs that compute at most {_MOST_TWICE:.0f} % of the outputs twice",
            _count("few_twice"),
            exactly=_PAIRS,
        ),
        Goal("pairs with loads of 16 bytes", _count("whole_loads"), exactly=_PAIRS),
        Goal(f"pairs with at most {_MOST_SUMS} sums", _count("few_sums"), exactly=_PAIRS),
        Goal("your fastest pair over the fastest of 60", _count("slower"), at_most=1.1),
    ),
    mistakes=(
        Mistake(_explain_twice, _explain_twice),
        Mistake(_explain_numbers, _explain_numbers),
        Mistake(_explain_loads, _explain_loads),
        Mistake(_explain_sums, _explain_sums),
    ),
)
