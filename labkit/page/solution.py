"""Show the lab's own solutions of the exercises."""

from typing import Any

from labkit.base.errors import LabError
from labkit.exercises import progress
from labkit.exercises.exercise import exercise
from labkit.exercises.subjects import InPlaceOf, Numbers
from labkit.ladder import variants
from labkit.ladder.variants import Variant
from labkit.page.listing import Listing, show


class _Solution(Variant):
    """A variant that shows its source, because whoever asks for it wants to read it."""

    def __init__(self, solved: Variant):
        super().__init__(solved.rung, dict(solved.options), solved.source, solved.path, solved.own)

    def __repr__(self) -> str:
        return repr(show(self))

    def _repr_html_(self) -> str:
        return show(self)._repr_html_()


def solution(
    which: int | str, letter: str | None = None, **options: Any
) -> Variant | Listing | tuple:
    """Return the lab's solution of an exercise: ``solution("04a")``.

    Parameters
    ----------
    which : int or str
        The number of the exercise on its page; or the number or the name of a rung.
    letter : str, optional
        The letter of the exercise, if `which` is a rung: ``solution("tiling", "a")`` has the
        options for which the solution is recorded.
    **options
        Options of the rung, in place of those of the exercise's launch.

    Returns
    -------
    Variant, Listing or tuple
        For a kernel in place of a rung, the variant: `labkit.check`, `labkit.profile` and the
        others take it. For other CUDA C++ its text. A notebook shows the source of both in colour.
        For numbers a tuple: ``grade("12a", *solution("12a"))``.

    The exercise is noted in `progress.shown`, because `labkit.grade` does not count a hand-in of
    the code shown here.

    Raises
    ------
    LabError
        There is no such exercise (the message lists those there are), it takes no such option, or
        this edition of the lab has no solutions.
    """
    if letter is not None:
        # `_Solution`: a variant that shows its source
        solved = variants.solution(which, letter, **options)
        # "04a", from rung 4 and "a"
        progress.shown.add(exercise(f"{solved.rung.number:02}{letter}").folder)
        return _Solution(solved)
    task = exercise(which)
    progress.shown.add(task.folder)
    # `task.subject`: what is handed in: a kernel in place of a rung's, numbers, or other code
    if isinstance(task.subject, InPlaceOf):
        name, options = task.subject.name, {**task.subject.options, **options}
        # the ladder has the solutions of the series; that of an exercise of one's own is in its folder
        if task.of_series:
            return _Solution(variants.solution(name, task.subject.letter, **options))
        return _Solution(variants.variant(name, task.solution, **options))
    if options:
        raise LabError(
            f"exercise {task.number} is in place of no rung, so it has no option {', '.join(options)}"
        )
    solved = task.subject.solution() if isinstance(task.subject, Numbers) else task.solution
    if not solved:
        raise LabError(variants.NO_SOLUTIONS)
    return solved if isinstance(solved, tuple) else Listing(task.file.name, solved)
