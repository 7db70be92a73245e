"""lab.solution answers for every exercise, in the form that its grader takes."""

import pickle

import pytest

import labkit as lab
from labkit.exercises.exercise import exercises
from labkit.exercises.subjects import InPlaceOf, Numbers
from labkit.ladder import variants
from labkit.page.listing import Listing

pytestmark = pytest.mark.thorough("every exercise: minutes; the notebooks grade a few")

TRAINS = "14b"  # several networks, to know what its goals reach


@pytest.mark.parametrize("number", [pytest.param(number, marks=pytest.mark.thorough if number == TRAINS else ())
                                    for number in exercises()])
def test_every_exercise_has_one(number):
    asked, solution = exercises()[number], lab.solution(number)
    if isinstance(asked.subject, Numbers):
        assert all(goal.met(goal.number(asked.subject.counts(solution))) for goal in asked.goals)
    else:
        assert asked.subject.source(solution).rstrip() == asked.solution.rstrip()
        assert asked.solution.splitlines()[-3] in str(lab.show(solution))
        assert isinstance(solution, Listing) != isinstance(asked.subject, InPlaceOf)
        assert repr(solution).strip() == asked.solution.strip()  # and so shows the last line of a cell
        assert solution._repr_html_() == lab.show(solution)._repr_html_()


def test_a_solution_is_a_variant_like_any_other():
    solution = lab.solution("04a")
    assert solution == pickle.loads(pickle.dumps(solution)) == variants.solution("tiling", "a")
    assert repr(variants.solution("tiling", "a")) == f"<Variant {solution.label}>"


def test_options_are_those_of_the_exercise_or_the_readers():
    assert dict(lab.solution("10b").options)["blocks"] == 1
    assert dict(lab.solution("10b", blocks=2).options)["blocks"] == 2
    assert dict(lab.solution("speed_of_light", "b").options)["blocks"] is None
    with pytest.raises(lab.LabError, match="14a is in place of no rung, so it has no option tile"):
        lab.solution("14a", tile=8)


def test_an_unknown_exercise_is_refused_in_one_sentence():
    with pytest.raises(lab.LabError, match="there is no exercise '99z'; there are ") as refused:
        lab.solution("99z")
    assert "\n" not in str(refused.value)
