"""Attempts at exercises that are wrong in a typical way, and what the grader says of them."""

from typing import NamedTuple

import pytest

from labkit.base.errors import LabError
from labkit.exercises.exercise import exercise
from labkit.exercises.grade import grade


class Wrong(NamedTuple):
    """A wrong answer: an edited starting code or solution.

    Attributes
    ----------
    about : str
        What is wrong, as the test's name.
    edits : tuple of (str, str)
        Each replaces a text that occurs exactly once.
    says : str
        A part of the grader's answer.
    of : {"start", "solution"}
        What is edited.
    quick : bool
        Whether `make test` runs it; `make thorough` runs all.
    """

    about: str
    edits: tuple[tuple[str, str], ...]
    says: str
    of: str = "start"
    quick: bool = False

    def source(self, number):
        text = getattr(exercise(number), self.of)
        for old, new in self.edits:
            assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
            text = text.replace(old, new)
        return text


def each(wrong):
    """A test of each wrong answer, from those to several exercises by their numbers: it gets its sentence."""
    chosen = [(number, answer) for number, answers in wrong.items() for answer in answers]

    @pytest.mark.parametrize(
        ("number", "answer"),
        [pytest.param(number, answer, id=f"{number} {answer.about}", marks=() if answer.quick else pytest.mark.thorough)
         for number, answer in chosen],
    )
    def test(number, answer):
        said = answered(number, answer)
        assert answer.says in said, said

    return test


def answered(number, answer):
    """The grader's answer to a wrong answer, which never passes, or why it is none."""
    try:
        graded = grade(number, answer.source(number), quiet=True, record=False)
    except LabError as refused:
        return str(refused)
    assert not graded.passed
    return str(graded)
