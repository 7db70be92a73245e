"""What a message says of wrong results: where they are, and which mistake gives the same ones."""

import numpy as np
import pytest

from labkit.base.errors import CheckFailed
from labkit.exercises.subjects import Output
from labkit.measure.compare import compare, compare_array
from labkit.spec.reference import conv_float64

pytestmark = pytest.mark.core("the sentence that a reader's wrong kernel gets")

RANDOM = np.random.default_rng(3)
X = RANDOM.integers(-9, 10, (2, 3, 22, 25)).astype(np.float32)  # b, c, h, w
K = RANDOM.integers(-9, 10, (4, 3, 5, 5)).astype(np.float32)  # m, c, p, q
RIGHT = conv_float64(X, K)  # 18 rows and 21 columns


def describe(y, dtype=np.float32):
    """Return the message about outputs y of the convolution of X and K."""
    expected = RIGHT.astype(dtype).astype(np.float64)
    with pytest.raises(CheckFailed) as failure:
        compare(np.asarray(y, dtype), expected, 0.0, dtype, inputs=(X, K))
    return str(failure.value)


def without(array, *places):
    """Return a copy of an array with zeros at these places."""
    changed = array.copy()
    changed[places] = 0
    return changed


def lack_halo(side):
    """Return the outputs if a tile of side x side inputs has no halo: what lies beyond counts as 0."""
    y = np.zeros_like(RIGHT)
    for h, w in np.ndindex(RIGHT.shape[2:]):
        down, right = min(5, side - h % side), min(5, side - w % side)
        inputs = X[:, None, :, h : h + down, w : w + right]
        y[:, :, h, w] = (inputs * K[None, :, :, :down, :right]).sum((2, 3, 4))
    return y


EVERY = slice(None)
MISTAKES = {
    "only the first channel was added": conv_float64(X[:, :1], K[:, :1]),
    "the sum begins anew with each channel": conv_float64(X[:, 2:], K[:, 2:]),
    "the last channel was left out": conv_float64(X[:, :2], K[:, :2]),
    "the first channel was left out": conv_float64(X[:, 1:], K[:, 1:]),
    "with the weights of the first one": conv_float64(X, K[:, [0, 0, 0]]),
    "were multiplied with the first channel": conv_float64(X[:, [0, 0, 0]], K),
    "the last row of the mask was left out": conv_float64(X, without(K, EVERY, EVERY, 4)),
    "the first row of the mask was left out": conv_float64(X, without(K, EVERY, EVERY, 0)),
    "the last column of the mask was": conv_float64(X, without(K, EVERY, EVERY, EVERY, 4)),
    "the first column of the mask was": conv_float64(X, without(K, EVERY, EVERY, EVERY, 0)),
    "begins anew with each row": conv_float64(X, without(K, EVERY, EVERY, slice(4))),
    "a tile of 16 x 16 counted as 0": lack_halo(16),
    "a tile of 8 x 8 counted as 0": lack_halo(8),
    "each image was computed from the first one": conv_float64(X[[0, 0]], K),
    "weights of the first one": conv_float64(X, K[[0, 0, 0, 0]]),
    "the sum of a map goes on": RIGHT.cumsum(1),
    "of one channel were taken to lie side by side": conv_float64(
        X, K.reshape(3, 4, 5, 5).transpose(1, 0, 2, 3)
    ),
    "the result of the output behind it": np.roll(RIGHT.reshape(2, 4, -1), -1, 2).reshape(
        RIGHT.shape
    ),
    "the result of the output before it": np.roll(RIGHT.reshape(2, 4, -1), 1, 2).reshape(
        RIGHT.shape
    ),
    "x was read one row too far": np.concatenate([RIGHT[:, :, 1:], RIGHT[:, :, :1]], 2),
    "the wrong ones are 0": without(RIGHT, EVERY, slice(1, 3)),
}


@pytest.mark.parametrize("says", MISTAKES)
def test_the_mistake_that_gives_the_same_outputs_is_named(says):
    y = MISTAKES[says]
    wrong = y != RIGHT
    wrong[:, :, 17 if "row too far" in says else 18 :] = (
        False  # what follows the array is not known
    )
    if "the output" in says:  # else all of y is shifted
        wrong[:, :, :, [0, *range(1, 21, 2), 20]] = False
    text = describe(np.where(wrong, y, RIGHT))
    if "row too far" in says:
        assert "y is shifted by one along h" in text or says in text
    else:
        assert says in text


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rounding_hides_no_mistake(dtype):
    assert "the last channel was left out" in describe(
        conv_float64(X[:, :2], K[:, :2]).astype(dtype), dtype
    )


def test_no_mistake_is_named_that_does_not_give_each_wrong_output():
    y = conv_float64(X[:, :2], K[:, :2])
    y[:, :, ::2] += 1
    assert "looks as if" not in describe(y)


@pytest.mark.parametrize(
    ("places", "says"),
    [
        (np.s_[:, :, :, 20:], "in the last of 21 columns."),
        (np.s_[:, :, 16:], "in the last 2 of 18 rows."),
        (np.s_[1:, :3], "in the last of 2 images and the first 3 of 4 maps."),
        (np.s_[:, :, :, 7::8], "in columns with w % 8 = 7."),
        (np.s_[:, 1::2], "in maps with m % 2 = 1."),
    ],
)
def test_the_place_of_wrong_outputs_is_named(places, says):
    y = RIGHT.copy()
    y[places] = 12_345
    assert f"All wrong ones are {says}" in describe(y)


def describe_array(result, expected):
    """Return the message about an array, without its first line."""
    with pytest.raises(CheckFailed) as failure:
        compare_array("y", result, expected, 0.0)
    return str(failure.value).partition("\n")[2]


NUMBERS = RANDOM.integers(1, 1000, 100)
SQUARE = RANDOM.integers(1, 1000, (20, 20))


@pytest.mark.parametrize(
    ("result", "expected", "says"),
    [
        (without(NUMBERS, slice(96, None)), NUMBERS, "in the last 4 of 100 elements."),
        (without(NUMBERS, slice(31, None, 32)), NUMBERS, "in elements with index % 32 = 31."),
        (without(NUMBERS, slice(96, None)), NUMBERS, "All wrong ones are 0."),
        ([0, *NUMBERS[:-1]], NUMBERS, "has the result of the element before it"),
        (NUMBERS + 7, NUMBERS, "larger than the right one by 7"),
        (NUMBERS * 2, NUMBERS, "each wrong one is 2 times the right one"),
        (SQUARE.T, SQUARE, "rows and columns were exchanged"),
        (without(SQUARE, EVERY, slice(16, None)), SQUARE, "in the last 4 of 20 columns."),
        ([*NUMBERS[:50], 3000, *NUMBERS[51:]], NUMBERS, ""),
    ],
)
def test_the_wrong_elements_of_an_array_are_described(result, expected, says):
    text = describe_array(np.array(result), expected)
    assert (says in text) if says else text == ""


def test_elements_without_a_neighbour_have_no_result_of_it():
    first = SQUARE.copy()
    first[:, 0] = -RANDOM.integers(1, 1000, 20)
    assert "in the first of 20 columns" in describe_array(first, SQUARE)
    assert "looks as if" not in describe_array(first, SQUARE)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_a_mistake_that_an_exercise_lists_is_named_if_it_gives_all_elements(dtype):
    right = np.arange(12).reshape(3, 4).astype(dtype)
    output = Output(
        "y", right, mistakes=lambda: {"each is larger by 5": right + 5, "each is 0": 0 * right}
    )
    mistaken = 0 * right
    with pytest.raises(CheckFailed, match="It looks as if each is 0"):
        output.compare(mistaken, "a case")
    mistaken[1, 1] = 7
    with pytest.raises(CheckFailed) as failure:
        output.compare(mistaken, "a case")
    assert "looks as if each is" not in str(failure.value)


def test_the_place_of_elements_that_are_not_stored_is_named():
    output = Output("y", np.arange(12, dtype=np.float32).reshape(3, 4))
    got = output.make_before()
    got[:, :3] = output.expected[:, :3]
    got[1, 1] = 99
    with pytest.raises(CheckFailed, match=r"stored them\. They are in the last of 4 columns\."):
        output.compare(got, "a case")
