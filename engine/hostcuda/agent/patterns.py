"""Which elements of a result are wrong, in words that lead to the index that is wrong."""

from __future__ import annotations

import numpy as np

_MOST_OF_THEM = 0.9  # the share of elements that a pattern has to explain


def describe_errors(
    got: np.ndarray,
    want: np.ndarray,
    wrong: np.ndarray,
    unwritten: np.ndarray,
    shape: tuple[int, ...],
    block: int,
) -> str:
    """Return in words where an array's wrong elements are, how they are wrong, and if the right values are elsewhere.

    `got` and `want` are the array and the right one, flat and of float; `wrong` and `unwritten` (by
    any thread: a part of the wrong ones) are masks of elements. `shape` is the array's own shape, and
    `block` the number of threads per block.
    """
    written = wrong & ~unwritten
    where = _describe_places(written if written.any() else wrong, shape, block)
    if not written.any():
        return f"{where}, none of them written"
    if unwritten.any():  # two causes: each has its elements
        values = _describe_values(got[written], want[written])
        places = _describe_places(unwritten, shape, block)
        return f"{', '.join(filter(None, [where, values]))}; not written: {places}"
    # of less than four elements, or of equal ones, no order can be told
    order = _describe_order(got, want, shape, block) if wrong.size >= 4 and np.ptp(want) else ""
    return ", ".join(filter(None, [where, _describe_values(got[written], want[written]), order]))


def _describe_places(wrong: np.ndarray, shape: tuple[int, ...], block: int) -> str:
    """Return where the flat mask `wrong` is True: "all of rows 2 to 5", or "elements 0 to 3 of each 8"."""
    places = np.flatnonzero(wrong)
    if wrong.all():
        return "every element"
    if len(places) == 1:
        return f"element {places[0]} alone"
    if len(shape) == 2 and min(shape) > 1:
        plane = wrong.reshape(shape)
        rows, columns = (np.flatnonzero(plane.any(axis)) for axis in (1, 0))
        # every crossing of these rows and columns is wrong
        if len(rows) * len(columns) == len(places) and "…" not in (
            _format_indices(rows) + _format_indices(columns)
        ):
            parts = [
                f"{name}s {_format_indices(lines)}"
                for name, lines, most in (("row", rows, shape[0]), ("column", columns, shape[1]))
                if len(lines) < most
            ]
            return f"all of {' in '.join(parts)}"
        if edge := _describe_edge(~plane):
            return edge
    if places[-1] - places[0] + 1 == len(places):
        return f"elements {_format_indices(places)}" + f" (the last {len(places)})" * bool(
            wrong[-1]
        )
    # threads of a block or warp, a row, even or odd
    for period in dict.fromkeys((block, 32, shape[-1], 2)):
        if 1 < period <= wrong.size // 2:
            table = wrong[: wrong.size - wrong.size % period].reshape(-1, period)
            inside = np.flatnonzero(table.any(0))
            if len(inside) < period and table[:, inside].mean() > _MOST_OF_THEM:
                of_block = " (a block's threads)" * (period == block)
                return f"elements {_format_indices(inside)} of each {period}{of_block}"
    return f"{len(places)} elements from {places[0]} to {places[-1]}"


def _describe_edge(right: np.ndarray) -> str:
    """Return "the edge: all but rows 1 to 8 in columns 1 to 8" if exactly such a rectangle of a plane is right.

    `right` is a mask of two dimensions. "" if less than half is right, or the right elements form no
    rectangle.
    """
    rows, columns = (np.flatnonzero(right.any(axis)) for axis in (1, 0))
    if right.mean() < 0.5 or len(rows) * len(columns) != right.sum():
        return ""
    if any(np.ptp(lines) + 1 != len(lines) for lines in (rows, columns)):
        return ""
    return f"the edge: all but rows {_format_indices(rows)} in columns {_format_indices(columns)}"


def _format_indices(numbers: np.ndarray) -> str:
    """Return sorted indices as text: "4 to 9", or "1, 3, 7"; of more than five the first five and an ellipsis."""
    if len(numbers) > 1 and numbers[-1] - numbers[0] + 1 == len(numbers):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers[:5])) + ", …" * (len(numbers) > 5)


def _describe_values(got: np.ndarray, want: np.ndarray) -> str:
    """Return how the wrong values `got` follow from the right ones, `want`: "2 times the right value"; or ""."""
    if lost := int((~np.isfinite(got)).sum()):
        return f"{lost} of them NaN or infinite"
    if len(got) < 2 or not np.isfinite(want).all():
        return ""
    if np.ptp(got) == 0:
        is_bound = bool(got[0] == 0 and (want < 0).all())
        where = ", where negative values are right: does a maximum begin at 0?" * is_bound
        return f"all of them {got[0]:g}{where}"
    if np.array_equal(got, np.trunc(want)):
        return "the right values without their fractions, as if integers were divided"
    for bits in (32, 16):
        if not np.mod(got - want, 2.0**bits).any():
            return f"off by multiples of 2^{bits}: an integer of {bits} bits overflowed, so convert it before"
    close = {"rtol": 1e-3, "atol": 1e-6 * float(np.abs(want).max())}
    if np.allclose(got - want, np.mean(got - want), **close):
        return f"off by {np.mean(got - want):.4g}"
    # the least-squares fit of got = factor · want
    factor = float(got @ want / (want @ want)) if want.any() else 0.0
    return (
        f"{factor:.4g} times the right value"
        if factor and np.allclose(got, factor * want, **close)
        else ""
    )


def _describe_order(got: np.ndarray, want: np.ndarray, shape: tuple[int, ...], block: int) -> str:
    """Return how the values `got` are the right ones, `want`, at wrong places, e.g. "transposed"; or ""."""
    close = {"rtol": 1e-3, "atol": 1e-6}
    for shift in dict.fromkeys((1, block, shape[-1])):
        for sign, ours, theirs in (
            ("-", got[shift:], want[:-shift]),
            ("+", got[:-shift], want[shift:]),
        ):
            if len(ours) > 2 and np.isclose(ours, theirs, **close).mean() > _MOST_OF_THEM:
                of_block = " (a block's threads)" * (1 < shift == block)
                return f"element i has the right value of element i {sign} {shift}{of_block}"
    if np.allclose(got, want[::-1], **close):
        return "in reverse order"
    if len(shape) == 2 and np.allclose(got, want.reshape(shape).T.ravel(), **close):
        return "transposed"
    return (
        "the right values at other places"
        if np.allclose(np.sort(got), np.sort(want), **close)
        else ""
    )
