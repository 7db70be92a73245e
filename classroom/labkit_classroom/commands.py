"""Commands for a class: autograder, grade, similarity, student."""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from labkit.base.errors import LabError

Named = Annotated[
    list[str] | None,
    typer.Option(
        "--exercise",
        metavar="EXERCISE",
        help="A folder of your own; or 04a: then only those named count.",
    ),
]


def grade(
    submissions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SUBMISSION...",
            help="Notebooks, .cu files (04a.cu in a student's folder, or alice_04a.cu), or "
            "folders of them. Without any, show earlier results again.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder to write to.")
    ] = Path("grades"),
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Also write for gradescope, classroom50, canvas or moodle.",
        ),
    ] = None,
    roster: Annotated[
        Path | None,
        typer.Option("--roster", metavar="CSV", help="The class: name, id, email, and extension."),
    ] = None,
    student: Annotated[
        str,
        typer.Option(
            "--student", metavar="NAME", help="The student of all files, whatever the names."
        ),
    ] = "",
    due: Annotated[
        list[str] | None,
        typer.Option(
            "--due",
            metavar="[EXERCISE=]TIME",
            help="When hand-ins are due: 2026-12-01T23:59+01:00.",
        ),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(
            "--rules", metavar="TOML", help="Late points, groups, and marks that you have given."
        ),
    ] = None,
    points: Annotated[
        list[str] | None,
        typer.Option("--points", metavar="[EXERCISE=]N", help="The points of an exercise."),
    ] = None,
    partial: Annotated[
        str | None,
        typer.Option(
            "--partial", metavar="SHARE", help="Share of the points if only the goal is missed."
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Grade again what an earlier version of exercise or lab graded."
        ),
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove results whose hand-in is no longer among these.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the results as JSON, not as a table.")
    ] = False,
    ranking: Annotated[
        bool, typer.Option("--ranking", help="Write a page that ranks who met a goal.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", metavar="N", min=1, help="Submissions at a time; by default one per core."
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            "--dask", metavar="ADDRESS", help="Grade on the workers of this Dask scheduler."
        ),
    ] = None,
    named: Named = None,
    seed: Annotated[
        str,
        typer.Option(
            "--seed",
            metavar="TEXT",
            help="Seed of inputs and hidden shapes; each result has its own.",
        ),
    ] = "",
    unsafe: Annotated[
        bool,
        typer.Option("--unsafe", help="Run others' kernels without a sandbox where there is none."),
    ] = False,
) -> None:
    """Grade what students have handed in: a table, a page for each.

    It writes what gradebooks read, too. Each kernel runs in a sandbox. A run that was stopped goes
    on where it was; what has not changed is not graded again.
    """
    from dataclasses import asdict, replace

    from tqdm import tqdm

    import hostcuda
    from labkit_classroom import gradebooks, grades, grading, sandbox
    from labkit_classroom.roster import parse_time, read_roster
    from labkit_classroom.rules import Rules, read_rules
    from labkit_classroom.submissions import escape, explain_missing, list_unused_entries
    from labkit_classroom.submissions import submissions as handed_in

    hostcuda.engine()  # refuses an unknown one, before anything is written
    only = _add_exercises(named)
    people = read_roster(roster) if roster else None
    terms = grades.Terms(
        points=_convert_each(points, _parse_number),
        partial=None if partial is None else _parse_number(partial, 1),  # a share: 1 at most
        due=_convert_each(due, parse_time),
        roster=people,
        only=only,
        rules=read_rules(rules, people) if rules else Rules(),
    )
    # checked before minutes of work; the number of students is not known yet
    gradebooks.require_formats(formats or (), terms.roster, students=0)
    _require_folders(out, submissions or [], prune)
    # exercises of earlier results that are not known here; a result without lines could not be graded:
    # its exercise may never have existed
    if lost := {result.exercise for result in grading.read_results(out) if result.lines} - {
        *terms.exercises
    }:
        raise LabError(
            f"{out} holds results of {', '.join(sorted(lost))}, which is no exercise of the lab: give the "
            "folder of the exercise with --exercise"
        )
    everything = terms.rules.share_groups(handed_in(submissions, student)) if submissions else []
    everything += explain_missing(everything, only)  # as hand-ins that say what is missing
    to_grade = [submission for submission in everything if terms.counts(submission)]
    starts = grading.list_changed_starts(out, to_grade)  # before `grade_all` notes today's
    with (
        tqdm(total=len(to_grade), unit="submission", file=sys.stderr, disable=None) as bar,
        _open_executor(dask, jobs, len(to_grade)) as executor,
    ):
        failed = grading.grade_all(to_grade, out, executor, unsafe, again, bar.update, seed)
    if walls := sandbox.describe_unusual():
        print(walls, file=sys.stderr)
    removed = grades.prune(out, everything) if prune else []
    keys = [(submission.student, submission.exercise) for submission in to_grade]
    output = grades.write_all(out, terms, ranking, formats or ())  # results of earlier runs, too
    results = (
        (grading.read_result(out, *name) for name in keys)
        if keys
        else filter(terms.counts, grading.read_results(out))
    )
    # what is printed below: of these hand-ins, if any are given. None: one without a result.
    here = map(terms.apply_marks, filter(None, results))
    if as_json:
        print(json.dumps([asdict(result) for result in here], indent=1))
        return
    # of the lines, which need memory, only whether there are any is printed
    here = [replace(result, lines=result.lines[:1]) for result in here]
    students = {result.student for result in here}
    _print_verdicts(here, failed, removed, output, again)
    for line in terms.roster.report(students, terms.exercises) if terms.roster else ():
        print(escape(line))
    one_folder = len(submissions or ()) == 1 and not student
    _print_counts(
        besides=len(grading.list_orphans(out, everything)) if to_grade else 0,
        left_out=len(everything) - len(to_grade),
        unused_entries=list_unused_entries(Path(submissions[0])) if one_folder else [],
        starts=starts,
        late=output.late,
        outdated=_count_outdated(here),
    )
    _print_files(output.files, len(students))


def _print_verdicts(here: list, failed: list, removed: list, output, again: bool) -> None:
    """Print how often each verdict occurs, and lists of results: changed, removed, without points, not graded.

    `here` are the results of these hand-ins, `failed` those that could not be graded this time,
    `removed` those that were pruned; `output` is what `grades.write_all` returned. What changed is
    printed if the results were graded `again`.
    """
    counts, changed, stopped, ungraded = _sort_results(here)
    ungraded += [
        f"{result.student} {result.exercise}: {result.verdict}; the earlier result stands"
        for result in failed
    ]
    gone = [f"{result.student} {result.exercise}".strip() for result in removed]
    changes = (("verdicts changed", changed), ("points changed", output.changed)) if again else ()
    for what, lines in (
        *changes,
        ("marks without a hand-in", output.unused),
        ("removed", gone),
        ("no points, because", stopped),
        ("not graded", ungraded),
    ):
        if what == "no points, because":
            for verdict, count in counts.most_common():
                print(f"{count:5}  {verdict}")
        if lines:
            print("\n".join([f"{len(lines):5}  {what}:", *(f"{'':7}{line}" for line in lines)]))


def _count_outdated(results: list) -> int:
    """Return how many of the results were graded with an earlier version of the exercise or of the lab."""
    from labkit_classroom import grading

    tasks = grading.digest_tasks()
    return sum(
        bool(result.lines) and result.grader != tasks.get(result.exercise) for result in results
    )


def _print_counts(
    besides: int,
    left_out: int,
    unused_entries: list[str],
    starts: list[str],
    late: int,
    outdated: int,
) -> None:
    """Print a line for each of these numbers, or lengths of lists, that is not 0."""
    from labkit_classroom.submissions import escape

    for count, what in (
        (besides, "of earlier hand-ins that are not among these count, too: --prune removes them"),
        (left_out, "of exercises that --exercise does not name: left out"),
        (
            len(unused_entries),
            f"in manifest.csv without a file: {escape(', '.join(unused_entries))}",
        ),
        (
            len(starts),
            f"changed starting code since the last grading: {', '.join(starts)}. A hand-in "
            "that equals an earlier one counts as the starting code, too",
        ),
        (late, "late"),
        (
            outdated,
            "graded with an earlier version of the exercise or the lab: --again grades them again",
        ),
    ):
        if count:
            print(f"{count:5}  {what}")


def _print_files(files: list[Path], students: int) -> None:
    """Print the files that were written, the table last; of many results.json only their common folder."""
    table, *others = dict.fromkeys(
        path if path.name != "results.json" else path.parents[1] for path in files
    )
    for path in others:
        print(path)
    print(
        f"{table}, and a page for {f'each of {students} students' if students > 1 else 'one student'}"
    )


def _require_folders(out: Path, submissions: list[str], prune: bool) -> None:
    """Raise LabError if `out` has no results to show, or other files; or to `prune`, if a whole class is not given."""
    from labkit_classroom.grading import owns_results

    if not submissions and not (out / "results").is_dir():
        raise LabError(
            f"there are no results in {out}: give notebooks, .cu files, or folders of them"
        )
    others = {path.name for path in out.iterdir()} - {"similarity.html"} if out.is_dir() else set()
    if others and not owns_results(out):
        raise LabError(
            f"{out} has files that `labkit grade` did not write: {', '.join(sorted(others)[:3])}. Give it a "
            "new folder with --out, or move these away"
        )
    if prune and not (submissions and all(Path(path).is_dir() for path in submissions)):
        raise LabError(
            "--prune removes the results of all hand-ins that are not given: give the folder of the class"
        )


def _sort_results(results: list) -> tuple[Counter, list[str], list[str], list[str]]:
    """Return a count of the verdicts, and three lists of lines: what a regrade changed, students' faults, not graded.

    A result with the student's fault has lines, and its verdict begins with `grading.NO_RESULT`:
    "not right yet: the program took longer than 60 s" counts as "not right yet". One without lines
    could not be graded.
    """
    from labkit_classroom.grading import NO_RESULT

    counts, changed, stopped, ungraded = Counter(), [], [], []
    for result in results:
        fault = result.verdict.startswith(NO_RESULT)
        counts.update(
            [result.verdict.partition(":")[0] if fault else result.verdict] if result.lines else []
        )
        name = " ".join(filter(None, [result.student, result.exercise]))
        if result.before:
            changed.append(f"{name}: {result.before} -> {result.verdict} ({result.regraded})")
        if fault:
            stopped.append(f"{name}: {result.verdict.removeprefix(NO_RESULT)}")
        if not result.lines:
            ungraded.append(f"{name}: {result.verdict}")
    return counts, changed, stopped, ungraded


def _add_exercises(given: list[str] | None) -> frozenset[str]:
    """Add exercises in folders to the lab; return the numbers of all `given` if one is the lab's, else an empty set.

    The empty set stands for all exercises.
    """
    from labkit.exercises.exercise import add, exercise

    tasks = [exercise(task) for task in given or ()]
    for task in tasks:
        if not task.of_series:
            add(task.folder)
    return (
        frozenset(task.number for task in tasks)
        if any(task.of_series for task in tasks)
        else frozenset()
    )


def _convert_each(given: list[str] | None, convert: Callable) -> dict:
    """Return a dict of values given as "04a=2", or "2" for all: {"04a": convert("2")}, or {"": convert("2")}.

    Raises LabError for an exercise that does not exist, and whatever `convert` raises.
    """
    from labkit.exercises.exercise import by_name

    pairs = (text.rpartition("=")[::2] for text in given or ())
    return {by_name(name).number if name else "": convert(value) for name, value in pairs}


def _parse_number(text: str, most: int = 10**6) -> Fraction:
    """Return the number from 0 to `most` that a text such as "0.5" or "1/3" states; LabError if it states none."""
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        value = Fraction(-1)
    if not 0 <= value <= most:
        raise LabError(f"{text!r} is no number from 0 to {most}")
    return value


@contextlib.contextmanager
def _open_executor(dask: str | None, jobs: int | None, most: int) -> Iterator[Executor]:
    """Yield the executor that grades at most `most` kernels.

    It is on this machine, with `jobs` at a time, or on the workers of the Dask scheduler at the
    address `dask`. Raises LabError if Dask is not installed, or there is no such scheduler.
    """
    from labkit_classroom import grading

    if dask is None:
        with grading.start_workers(jobs, most) as executor:
            yield executor
        return
    try:
        from dask.distributed import Client
    except ImportError:
        raise LabError("--dask needs Dask: pip install distributed") from None
    try:
        client = Client(dask)
    except (OSError, ValueError) as error:
        raise LabError(f"there is no Dask scheduler at {dask!r}: {error}") from None
    with client:
        yield client.get_executor()


def similarity(
    submissions: Annotated[
        list[str], typer.Argument(metavar="SUBMISSION...", help="As `labkit grade` takes them.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The page to write.")] = Path(
        "grades/similarity.html"
    ),
    most: Annotated[
        int, typer.Option("--most", metavar="N", min=1, help="Pairs to show for each exercise.")
    ] = 20,
    named: Named = None,
) -> None:
    """Show hand-ins that are alike, side by side.

    It is a reason to look, not a verdict.
    """
    from labkit_classroom import similarity
    from labkit_classroom.submissions import submissions as handed_in

    only = _add_exercises(named)
    given = [
        submission
        for submission in handed_in(submissions)
        if not only or submission.exercise in only
    ]
    compared = [submission for submission in given if not submission.problem]
    if not compared:
        raise LabError(
            f"there is nothing to compare: {given[0].problem if given else 'no hand-in to these exercises'}"
        )
    alike = similarity.find_pairs(compared, most)
    page = similarity.write_page(out, alike)
    for pair in alike[:most]:
        print(f"{100 * pair.alike:4.0f} %  {pair.exercise}  {' and '.join(pair.students)}")
    print(*(f"        {line}\n" for line in similarity.report_short(compared)), sep="", end="")
    print(
        *(
            f"        not compared: {submission.student}: {submission.problem}\n"
            for submission in given
            if submission.problem
        ),
        sep="",
        end="",
    )
    print(f"{page}: a reason to look, not a verdict")


def autograder(
    asked: Annotated[
        list[str] | None,
        typer.Argument(metavar="EXERCISE...", help="Numbers, or folders of your own."),
    ] = None,
    gradescope: Annotated[
        bool, typer.Option("--gradescope", help="Gradescope's zip for these exercises.")
    ] = False,
    image: Annotated[bool, typer.Option("--image", help="A folder with a Containerfile.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="PATH", help="By default build/grader.zip or build/grader."),
    ] = None,
) -> None:
    """Write a grader that runs in a container."""
    from labkit.exercises.exercise import exercise
    from labkit_classroom import autograder

    # exactly one of the two
    if gradescope == image or (gradescope and not asked):
        raise LabError("say --gradescope with the exercises of the assignment, or --image")
    tasks = [exercise(key) for key in dict.fromkeys(asked or ())]  # each once
    if gradescope:
        points = float(sum(task.points for task in tasks))
        print(
            f"{autograder.write_zip(out or Path('build/grader.zip'), tasks)}: {points:g} points in all"
        )
    else:
        folder = out or Path("build/grader")
        print(
            f"{folder}: {len(autograder.write_image(folder, tasks))} files; podman build -t grader {folder}"
        )


def student(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder.")] = Path(
        "build/student"
    ),
    nbgrader: Annotated[
        bool, typer.Option("--nbgrader", help="Mark the exercises' cells for nbgrader.")
    ] = False,
) -> None:
    """Write an edition of the lab without solutions."""
    from labkit_classroom import student

    files = student.write_edition(out, nbgrader)
    print(f"{out}: {len(files)} files")
