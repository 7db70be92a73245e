"""The lab's own solutions of the exercises."""

from __future__ import annotations

from labkit.base.errors import LabError
from labkit.exercises.exercise import exercise
from labkit.exercises.subjects import InPlaceOf, Numbers
from labkit.ladder import variants
from labkit.ladder.variants import Variant
from labkit.page.listing import Listing


def solution(which: int | str, letter: str | None = None, **options) -> Variant | Listing | tuple:
    """The lab's solution of an exercise: ``solution("04a")``.

    Parameters
    ----------
    which : int or str
        The exercise, as its page calls it; or the number or the name of a rung.
    letter : str, optional
        That of the exercise, if `which` is a rung: ``solution("tiling", "a")`` has the options for which the solution
        is recorded.
    **options
        Of the rung, in place of those of the exercise's launch.

    Returns
    -------
    Variant, Listing or tuple
        For a kernel in place of a rung, the variant: `labkit.show`, `labkit.profile` and the others take it. For other
        CUDA C++ its text, which a notebook shows in colour. For numbers a tuple: ``grade("12a", *solution("12a"))``.

    Raises
    ------
    LabError
        There is no such exercise, and the message lists those there are; or it takes no such option; or this edition of
        the lab has no solutions.
    """
    if letter is not None:
        return variants.solution(which, letter, **options)
    asked = exercise(which)
    if isinstance(asked.subject, InPlaceOf):
        return variants.solution(asked.subject.name, asked.subject.letter, **{**asked.subject.options, **options})
    if options:
        raise LabError(f"exercise {asked.number} is in place of no rung, so it has no option {', '.join(options)}")
    found = asked.subject.solution() if isinstance(asked.subject, Numbers) else asked.solution
    if not found:
        raise LabError(variants.NO_SOLUTIONS)
    return found if isinstance(found, tuple) else Listing(asked.file.name, found)
