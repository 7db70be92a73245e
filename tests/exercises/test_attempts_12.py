"""The exercises of page 12: wrong numbers, and what the grader says of each."""

import numpy as np
import pytest

from labkit import LabError
from labkit.exercises.exercise import exercise
from labkit.exercises.grade import grade

GROWING = exercise("12b").subject.solution()[0]


def answer(number, *values):
    graded = grade(number, *values, quiet=True, record=False)
    assert not graded.passed
    return str(graded)


@pytest.mark.parametrize(("values", "says"), [
    ((2, 2), "this is the starting code"),
    ((1, 1), "A single chunk overlaps with nothing"),
    ((6, 3), "✗ % above the reference time, layer 1 of lenet86: 5.41, wanted at most 5"),
    ((7, 2), "✗ % above the reference time, layer 1 of lenet72: 6.77, wanted at most 5"),
    ((3, 7), "The two layers are in the other order"),
    ((9, 3), "fewer chunks are, too"),
    ((100, 100), "fewer chunks are, too"),
])
def test_wrong_numbers_of_chunks(values, says):
    assert says in answer("12a", *values)


@pytest.mark.parametrize(("sizes", "says"), [
    ((2500,) * 4, "this is the starting code"),
    ((1250,) * 8, "Equal chunks do not help"),
    ([1250] * 8, "Equal chunks do not help"),
    (np.full(8, 1250), "Equal chunks do not help"),
    (GROWING[::-1], "The sizes fall"),
    ((50, 9950), "so much larger than the one before"),
    ((10, 20, 40, 80, 160, 320, 640, 1280, 7450), "✗ chunks, layer 1 of lenet86: 9, wanted at most 8"),
    ((1000, 2000, 7000), "How small has it to be for 1 %?"),
])
def test_wrong_sizes_of_chunks(sizes, says):
    assert says in answer("12b", sizes)


@pytest.mark.parametrize(("number", "values", "says"), [
    ("12a", (7,), "the answer is lenet86, lenet72; this has 1 value"),
    ("12a", (7.5, 3), "7.5 is no number of chunks"),
    ("12a", (True, 3), "True is no number of chunks"),
    ("12a", (7, 0), "layer 1 of lenet72: 0 is no number of chunks"),
    ("12a", ("seven", 3), "'seven' is no number of chunks"),
    ("12b", ((5000, 4000),), "the 2 chunks have 9,000 images in total; the batch has 10,000"),
    ("12b", ((-100, 10_100),), "a chunk of -100 images"),
    ("12b", ((0, 10_000),), "a chunk of 0 images"),
    ("12b", ((),), "a chunk of 0 images"),
    ("12b", ("many",), "a chunk of 'm' images"),
    ("12b", GROWING, "the answer is sizes; this has 8 values"),
])
def test_what_is_no_answer_is_refused_in_one_sentence(number, values, says):
    with pytest.raises(LabError, match=says) as refused:
        grade(number, *values, quiet=True, record=False)
    assert "\n" not in str(refused.value)
