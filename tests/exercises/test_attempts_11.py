"""The exercises of page 11: wrong numbers, and what the grader says of each."""

import pytest

from labkit import LabError
from labkit.exercises.exercise import exercise
from labkit.exercises.grade import grade


def answer(number, *values):
    graded = grade(number, *values, quiet=True, record=False)
    assert not graded.passed
    return str(graded)


@pytest.mark.parametrize(("values", "says"), [
    ((3, 3), "this is the starting code"),
    ((4, 3), "It needs three parts"),
    ((9, 3), "not all of them matter"),
    ((6, 4), "TF32 has as many bits as half"),
    ((5, 3), "✗ error of a product, in units of 2^-21, BF16"),
    ((7, 3), "✗ with one product fewer, BF16"),
])
def test_wrong_numbers_of_products(values, says):
    assert says in answer("11a", *values)


@pytest.mark.parametrize("value", [0, 17, True, 2.5, "six"])
def test_what_is_no_number_of_products_is_refused(value):
    with pytest.raises(LabError, match="is no number of products"):
        grade("11a", value, 3, quiet=True, record=False)


@pytest.mark.parametrize(("values", "says"), [
    ((11, 24), "this is the starting code"),
    ((28, 39), "The low part is about 2^-12 of its pixel"),
    ((17, 28), "It is still there, with fewer bits"),
    ((3, 39), "scaled to 2^14, not to 1"),
    ((17, 25), "scaled to 2^14, not to 1"),
    ((18, 39), "✗ error, in units of 2^-22: 2"),
    ((17, 40), "✗ share of pixels that become 0: 1"),
])
def test_wrong_distances(values, says):
    assert says in answer("11b", *values)


@pytest.mark.parametrize("value", [-1, 60, False, 1.5])
def test_what_is_no_exponent_is_refused(value):
    with pytest.raises(LabError, match="is no exponent"):
        grade("11b", 17, value, quiet=True, record=False)


@pytest.mark.parametrize(("number", "solution"), [("11a", (6, 3)), ("11b", (17, 39))])
def test_the_solution_meets_the_goal(number, solution):
    assert exercise(number).subject.solution() == solution
    assert grade(number, *solution, quiet=True, record=False).passed
