"""Every exercise of the series: its starting code misses the goal, its solution meets it."""

import re

import pytest

from hostcuda import untrusted
from labkit.exercises.exercise import exercises
from labkit.exercises.grade import grade
from labkit.exercises.subjects import Numbers
from labkit.notebooks import execute

EXERCISES = exercises()
KERNELS = [number for number, each in EXERCISES.items() if not isinstance(each.subject, Numbers)]
NUMBERS = sorted(set(EXERCISES) - set(KERNELS))
# `make test` takes one exercise of each sort: a module, a rung, a rung of two kernels, tensor cores, numbers.
QUICK = ("00a", "04a", "05a", "09a", "12a")


def series(numbers):
    """A test of exercises; `make thorough` runs it on all of them."""
    marks = {number: () if number in QUICK else pytest.mark.thorough for number in numbers}
    return pytest.mark.parametrize("number", [pytest.param(number, marks=marks[number]) for number in numbers])


@pytest.fixture(scope="module")
def grades():
    """The grades that the pages print, by exercise: of the starting code, which nbval grades again and compares."""
    found = {}
    for path in execute.series():
        for cell in execute.read(path).nb.cells:
            if match := re.match(r'lab\.grade\("(\w+)"', cell.source):
                assert "nbval-ignore-output" not in cell.metadata.get("tags", [])
                found[match[1]] = "".join(output.text for output in cell.outputs).splitlines()
    return found


@pytest.mark.parametrize("number", KERNELS)
def test_the_starting_code_misses_the_goal(number, grades):
    """It is right, clean, and not what is asked for."""
    verdict, clean, right, *others = grades[number]
    assert verdict == f"{number} {EXERCISES[number].title}: goal missed: this is the starting code"
    assert clean.startswith("✓ clean under memcheck, ") and right.startswith("✓ right on ")
    goals = others[-len(EXERCISES[number].goals) :]
    assert any(line.startswith("✗ ") for line in goals) and all(line[:2] in ("✓ ", "✗ ") for line in goals)


@series(KERNELS)
def test_the_solution_meets_it(number):
    solved = grade(number, EXERCISES[number].solution, quiet=True, record=False)
    assert solved.passed, solved


@pytest.mark.parametrize("number", KERNELS)
def test_a_sandbox_takes_both(number):
    for source in (EXERCISES[number].start, EXERCISES[number].solution):
        untrusted.refuse(source, EXERCISES[number].subject.headers)


@series(NUMBERS)
def test_numbers_meet_the_goal_or_miss_it(number):
    subject = EXERCISES[number].subject
    assert not grade(number, *subject.start, quiet=True, record=False).passed
    solved = grade(number, *subject.solution(), quiet=True, record=False)
    assert solved.passed, solved


@pytest.mark.parametrize("number", EXERCISES)
def test_it_has_hints_and_a_countable_goal(number):
    asked = EXERCISES[number]
    assert len(asked.hints) >= 2
    assert asked.goals
    assert asked.lines or isinstance(asked.subject, Numbers)
