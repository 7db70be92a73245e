"""Commands for exercises of one's own: exercise new, exercise start, exercise test."""

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="exercise", help="Exercises of your own: a folder each.", no_args_is_help=True
)


@app.command()
def new(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="It must not exist.")],
) -> None:
    """Write an exercise to begin with, which passes its test."""
    from labkit.exercises.trial import write_template

    for path in write_template(folder):
        print(path)


@app.command()
def start(
    which: Annotated[str, typer.Argument(metavar="EXERCISE", help="A folder, or a number: 04a.")],
) -> None:
    """Print what is asked and the starting code: the file to hand out.

    It has all functions, also those that the page's cell leaves out, since the lab adds them there.
    """
    from labkit.exercises.exercise import exercise

    print(exercise(which).start, end="")


@app.command("test")
def try_out(
    which: Annotated[
        list[str] | None,
        typer.Argument(metavar="[EXERCISE]...", help="Folders, or numbers; by default the series."),
    ] = None,
) -> None:
    """Grade an exercise's own attempts: starting code, solution, wrong answers, cheats.

    The starting code has to miss, the solution has to pass, each wrong answer has to get its
    sentence, and four cheats must not meet the goals.
    """
    from itertools import chain

    from labkit.exercises.cheats import CHEATS
    from labkit.exercises.exercise import exercise, exercises
    from labkit.exercises.trial import list_cheats, list_trials

    failed = 0
    for task in map(exercise, which or exercises()):
        attempts, tried = [*list_trials(task)], set()
        # `list_cheats` makes cheats from right answers: it is asked last, when the loop has graded the others
        for trial in chain(attempts, list_cheats(attempts)):
            problem = trial.find_problem()  # "" if the answer is the expected one
            failed += bool(problem)
            print(
                f"{'✗' if problem else '✓'} {task.number} {trial.about}{' ' * bool(problem)}{problem}",
                flush=True,
            )
            # "no load" of "a cheat: no load"; "" of other trials
            tried.add(trial.about.partition(": ")[2])
        if missing := {*CHEATS} - tried:
            print(f"– {task.number} cheats that cannot be made of it: {', '.join(sorted(missing))}")
    if failed:
        sys.exit(
            f"labkit: {failed} attempt{'s' * (failed != 1)} did not get the answer that was expected"
        )
