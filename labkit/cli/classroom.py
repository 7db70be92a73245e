"""Commands for a class: grade, student."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def grade(
    submissions: Annotated[
        list[Path],
        typer.Argument(metavar="SUBMISSION...", help="Notebooks, .cu files (04a.cu in a student's folder, or "
                       "alice_04a.cu), or folders of them."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write to.")] = Path("grades"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON, too.")] = False,
    ranking: Annotated[bool, typer.Option("--ranking", help="Write a page that ranks those who met a goal.")] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", min=1, help="Submissions at a time; by default one per core.")
    ] = None,
    own: Annotated[
        list[Path] | None,
        typer.Option("--exercise", metavar="FOLDER", help="An exercise of your own; it is named by its folder."),
    ] = None,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Run others' kernels without a sandbox where there is none.")
    ] = False,
) -> None:
    """Grade what students have handed in: a table, a page for each.

    Each kernel runs in a sandbox. A run that was stopped goes on where it was; what has not changed is not graded
    again.
    """
    from collections import Counter

    from tqdm import tqdm

    from labkit.classroom import grades, grading
    from labkit.classroom.submissions import submissions as handed_in
    from labkit.exercises.exercise import add

    for folder in own or ():
        add(folder)
    found = handed_in(submissions)
    with tqdm(total=len(found), unit="submission", file=sys.stderr, disable=None) as bar:
        results = grading.grade_all(found, out, jobs, unsafe, lambda result: bar.update())
    written = grades.write_all(grading.read_results(out), out, ranking)  # those of earlier runs, too
    if as_json:
        print(json.dumps([vars(each) for each in results], indent=1))
    else:
        for verdict, count in Counter(each.verdict for each in results if each.lines).most_common():
            print(f"{count:5}  {verdict}")
        if ungraded := [each for each in results if not each.lines]:
            print(f"{len(ungraded):5}  not graded:")
        for each in ungraded:
            print(f"{'':7}{' '.join(filter(None, [each.student, each.exercise]))}: {each.verdict}")
        students = len({each.student for each in results})
        print(f"{written[0]}, and a page for {f'each of {students} students' if students > 1 else 'one student'}")


def student(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder.")] = Path("build/student"),
    nbgrader: Annotated[bool, typer.Option("--nbgrader", help="Mark the exercises' cells for nbgrader.")] = False,
) -> None:
    """Write an edition of the lab without solutions."""
    from labkit.classroom import student

    files = student.write_edition(out, nbgrader)
    print(f"{out}: {len(files)} files")
