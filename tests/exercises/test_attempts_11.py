"""The exercise of page 11: wrong numbers, and what the grader says of each."""

import pytest

from labkit import LabError
from labkit.exercises.exercise import exercise
from labkit.exercises.grade import grade


def answer(*values):
    graded = grade("11a", *values, quiet=True, record=False)
    assert not graded.passed
    return str(graded)


@pytest.mark.parametrize(("values", "says"), [
    ((3, 3), "this is the starting code"),
    ((4, 3), "It needs three parts"),
    ((9, 3), "not all of them matter"),
    ((6, 4), "TF32 has as many bits as half"),
    ((5, 3), "✗ error of a product, in units of 2^-21, BF16"),
    ((7, 3), "✗ with one product fewer, BF16"),
])  # fmt: skip
def test_wrong_numbers_of_products(values, says):
    assert says in answer(*values)


@pytest.mark.parametrize("value", [0, 17, True, 2.5, "six"])
def test_what_is_no_number_of_products_is_refused(value):
    with pytest.raises(LabError, match="is no number of products"):
        grade("11a", value, 3, quiet=True, record=False)


def test_the_solution_meets_the_goal():
    assert exercise("11a").subject.solution() == (6, 3)
    assert grade("11a", 6, 3, quiet=True, record=False).passed
