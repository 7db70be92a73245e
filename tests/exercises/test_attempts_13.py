"""The exercises of page 13: wrong numbers, and what the grader says of each."""

import pytest

from labkit import LabError
from labkit.exercises.exercise import exercise
from labkit.exercises.grade import grade

HALF, FLOAT = exercise("13a").subject.solution()


def answer(number, *values):
    graded = grade(number, *values, quiet=True, record=False)
    assert not graded.passed
    return str(graded)


@pytest.mark.parametrize(("values", "says"), [
    ((86, 86), "this is the starting code"),
    ((FLOAT, HALF), "the first number is that of half"),
    ((HALF // 2, FLOAT // 2), "the sides for four bytes per pixel"),
    ((HALF - 1, FLOAT - 1), "it still is with larger images"),
    ((8, 8), "it still is with larger images"),
    ((HALF, FLOAT + 1), "✗ link over kernel, float"),
    ((HALF + 1, FLOAT), "✗ link over kernel, half"),
])
def test_wrong_sides(values, says):
    assert says in answer("13a", *values)


@pytest.mark.parametrize(("chunk", "says"), [
    (1000, "this is the starting code"),
    (132, "fills a quarter of the device"),
    (1056, "it should be small"),
    (10_000, "it should be small"),
    (5000, "begin when the others are done"),
    (600, "begin when the others are done"),
    (264, "✗ chunks: 38, wanted at most 20"),
    (500, "✗ share of the room for blocks that a chunk uses: 0.947, wanted at least 0.99"),
])
def test_wrong_chunks(chunk, says):
    assert says in answer("13b", chunk)


@pytest.mark.parametrize(("number", "values", "says"), [
    ("13a", (50,), "the answer is half, float; this has 1 value"),
    ("13a", (50.5, 76), "50.5 is no side in pixels"),
    ("13b", (0,), "0 is no number of images"),
    ("13b", (True,), "True is no number of images"),
    ("13b", (10_001,), "it is an integer from 1 to 10,000"),
])
def test_what_is_no_answer_is_refused_in_one_sentence(number, values, says):
    with pytest.raises(LabError, match=says) as refused:
        grade(number, *values, quiet=True, record=False)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("number", ["13a", "13b"])
def test_the_solution_meets_the_goal(number):
    assert grade(number, *exercise(number).subject.solution(), quiet=True, record=False).passed
