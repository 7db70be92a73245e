"""Exercise 16a: four outputs, one window.

The reader changes a kernel in Triton, and the page runs it on a processor: `labkit.measure.tiles`.
What is graded are the numbers that the page prints then, so nothing runs here. A checksum tells the
right outputs from those of typical mistakes.

Tries find the answer, which is accepted: `labkit.exercises.subjects.Numbers` says why.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from labkit.exercises import Attempt, Exercise, Goal, Mistake, Numbers, whole_number
from labkit.measure.tiles import compute_checksum, make_inputs
from labkit.spec.layers import LENET86, Layer

# those of the page
SHAPES = (
    (LENET86[1], 1),
    (Layer("a rectangle", C=3, H=15, W=13, M=5, K=4), 2),
    (Layer("a small map", C=5, H=11, W=9, M=18, K=4), 3),
)
_LAYER, _CASE = LENET86[1], "layer 2"
_SIDE = _LAYER.K + 1  # of the window that the four outputs of a square need
_WINDOW = _LAYER.C * _SIDE**2
_ONE_WINDOW = _LAYER.terms  # the inputs that one output needs

# Where the mask of an output lies in the window of its square, by the output's place in the square, (down, right).
_PLACES: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "right": lambda down, right: (down, right),
    "unmoved": lambda down, right: (0, 0),
    "rows": lambda down, right: (down, 0),
    "columns": lambda down, right: (0, right),
    "backwards": lambda down, right: (-down, -right),
    "narrow": lambda down, right: (down, right),
    "twice down": lambda down, right: (down, down),
    "twice right": lambda down, right: (right, right),
    "from one": lambda down, right: (down, right),
    "clamped": lambda down, right: (down, right),
}
_PLACED = {
    "unmoved": "The four sums of a square are equal: in each, input (p, q) of the window meets weight (p, q). Output "
    "(down, right) of the square has its window down rows lower and right columns further. Which weight does input "
    "(p, q) meet there?",
    "rows": "The weights move with down, and not with right: the second output of a row is the first again.",
    "columns": "The weights move with right, and not with down: the second row of a square is the first again.",
    "backwards": "The weights move the wrong way. Input (0, 0) of the window is none of output (1, 1), whose first "
    "input is (1, 1): there it meets weight (0, 0).",
    "twice down": "`row` and `col` both move with down: `col` belongs to right.",
    "twice right": "`row` and `col` both move with right: `row` belongs to down.",
    "from one": "Row 0 and column 0 of the weights are left out: the limits are 0 <= row and 0 <= col, not 0 < row and "
    "0 < col.",
    "clamped": "Where row or col is -1, these outputs take the weights of row 0 or column 0 once more. There is no "
    "weight there: `exists` has to ask for 0 <= row and 0 <= col.",
    "narrow": f"The weights move, but the window has K x K inputs: the last row and column are missing, and with them "
    f"terms of three of the four outputs. A square of layer 2 needs {_SIDE} x {_SIDE} inputs per channel.",
}
_POOLS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "right": lambda four: np.maximum(four.max(axis=-1), 0),
    "negative": lambda four: four.max(axis=-1),
    "mean": lambda four: four.mean(axis=-1),
    "mean of ReLU": lambda four: np.maximum(four, 0).mean(axis=-1),
    "ReLU of mean": lambda four: np.maximum(four.mean(axis=-1), 0),
}
_POOLED = {
    "negative": "All weights are where they should be, and each pool is the largest of its four. But some pools are "
    "negative: where is the ReLU?",
    "mean": "All weights are where they should be, but this is the mean of the four sums, and without a ReLU.",
    "mean of ReLU": "All weights are where they should be, but this is the mean of the four, not the largest.",
    "ReLU of mean": "All weights are where they should be, but this is the mean of the four, not the largest.",
}


def _sum_squares(layer: Layer, batch: int, place: str) -> np.ndarray:
    """Return the four sums of each square [B, M, rows, columns, 4], with masks where `_PLACES` has them."""
    x, k = (values.astype(np.float32) for values in make_inputs(layer, batch))
    K, side = layer.K, layer.K + 1
    if place == "from one":
        k = k.copy()
        k[..., 0, :] = k[..., 0] = 0
    weights = np.zeros((4, layer.M, layer.C, side, side), np.float32)
    for output, mask in enumerate(weights):
        first_row, first_column = _PLACES[place](output // 2, output % 2)
        rows, columns = (slice(max(first, 0), first + K) for first in (first_row, first_column))
        if place == "clamped":
            # the window's row or column -> that of the weights, which has none from K on
            row, column = (np.arange(side) - first for first in (first_row, first_column))
            exists = np.outer(row < K, column < K)
            mask[:] = k[:, :, row.clip(0, K - 1)][..., column.clip(0, K - 1)] * exists
            continue
        mask[:, :, rows, columns] = k[:, :, max(-first_row, 0) :, max(-first_column, 0) :]
    if place == "narrow":
        weights[..., K:, :] = weights[..., K:] = 0
    windows = np.lib.stride_tricks.sliding_window_view(x, (side, side), axis=(2, 3))[:, :, ::2, ::2]
    return np.einsum("bchwpq,fmcpq->bmhwf", windows, weights, optimize=True)


@cache
def _list_checksums(place: str = "right", pool: str = "right") -> tuple[int, ...]:
    """Return the checksums of all shapes, for masks and pools as `_PLACES` and `_POOLS` name them."""
    return tuple(
        compute_checksum(_POOLS[pool](_sum_squares(layer, batch, place)).astype(np.float16))
        for layer, batch in SHAPES
    )


def _list_said(attempt: Attempt) -> tuple[int, ...]:
    """Return the checksums of an answer."""
    return tuple(int(attempt.counts[_CASE][f"checksum {i}"]) for i in range(len(SHAPES)))


def _explain_outputs(attempt: Attempt) -> str:
    """Return a sentence about a mistake that gives these checksums; "" if none is known."""
    said = _list_said(attempt)
    for place in _PLACES:
        for pool in _POOLS:
            if (place, pool) != ("right", "right") and said == _list_checksums(place, pool):
                return _PLACED.get(place) or _POOLED[pool]
    return ""


def _count_answer(
    inputs: object, checksum_1: object, checksum_2: object, checksum_3: object
) -> dict[str, dict[str, float]]:
    """Return how many inputs a square loads, the checksums, and how many of them are those of the right outputs."""
    loads = whole_number(inputs, "number of inputs", 0, 1_000_000)
    said = [
        whole_number(value, "checksum", 0, 9999) for value in (checksum_1, checksum_2, checksum_3)
    ]
    return {
        _CASE: {
            "inputs": loads,
            **{f"checksum {i}": value for i, value in enumerate(said)},
            "right": sum(map(int.__eq__, said, _list_checksums())),
        }
    }


def _solve() -> tuple[int, ...]:
    """Return the answer."""
    return _WINDOW, *_list_checksums()


def _count(name: str):
    """Return the function that a goal takes for a number of `_count_answer`."""
    return lambda counts: counts[_CASE][name]


EXERCISE = Exercise(
    title="Four outputs, one window",
    subject=Numbers(_count_answer, start=(196, 9690, 5184, 8012), solution=_solve),
    goals=(
        Goal(
            "inputs that a square of layer 2 loads",
            _count("inputs"),
            exactly=_WINDOW,
            words="as many as its four outputs need together",
        ),
        Goal("shapes whose outputs are right", _count("right"), exactly=len(SHAPES)),
    ),
    mistakes=(
        Mistake(_explain_outputs, _explain_outputs),
        Mistake(
            "These are the checksums of the right outputs in another order: the answer has them in the order in which "
            "the page prints them.",
            lambda attempt: (
                _list_said(attempt) != _list_checksums()
                and sorted(_list_said(attempt)) == sorted(_list_checksums())
            ),
        ),
        Mistake(
            "Right on layer 2 alone. The other two shapes have masks of 4 x 4, and other numbers of channels and maps: "
            "does the text have a size of layer 2, such as 7 in place of K?",
            lambda attempt: (
                _list_said(attempt)[0] == _list_checksums()[0]
                and attempt.counts[_CASE]["right"] == 1
            ),
        ),
        Mistake(
            f"These are {_SIDE} x {_SIDE} inputs, those of one channel. Layer 2 has {_LAYER.C} channels.",
            lambda attempt: attempt.counts[_CASE]["inputs"] == _SIDE**2,
        ),
        Mistake(
            f"{4 * _ONE_WINDOW} are four windows of {_LAYER.K} x {_LAYER.K} inputs, in {_LAYER.C} channels: in the "
            "page's kernel each output loads its own. Here the four share a window.",
            lambda attempt: attempt.counts[_CASE]["inputs"] == 4 * _ONE_WINDOW,
        ),
        Mistake(
            f"{_ONE_WINDOW} inputs are the window of one output. The outputs are right, so their kernel loads more.",
            lambda attempt: (
                attempt.counts[_CASE]["inputs"] == _ONE_WINDOW
                and attempt.counts[_CASE]["right"] == len(SHAPES)
            ),
        ),
        Mistake(
            "The outputs are right, but the count is that of another kernel. Per channel of layer 2, four neighbours "
            "need the inputs of a square of which side?",
            lambda attempt: attempt.counts[_CASE]["right"] == len(SHAPES),
        ),
    ),
)
