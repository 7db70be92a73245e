"""Write the results of a class as files: a table, a page per student, a ranking, and tables for gradebooks.

All of it is made from the files of `labkit_classroom.grading`, a student at a time, and loads
nothing from any network.
"""

from __future__ import annotations

import csv
import datetime
import functools
import hashlib
import io
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import jinja2

import labkit
from hostcuda.files import write
from labkit.exercises.exercise import Exercise, exercises, format_number
from labkit.exercises.judge import BUDGET
from labkit.notebooks import STYLE
from labkit_classroom import gradebooks
from labkit_classroom.grading import Result, list_orphans, read_result, read_results
from labkit_classroom.roster import Person, Roster, parse_time
from labkit_classroom.rules import Rules
from labkit_classroom.submissions import Submission

_TEMPLATES = Path(__file__).parent / "template"
_COLUMNS = (
    "student",
    "exercise",
    "points",
    "of",
    "verdict",
    "why",
    "submitted_at",
    "clock",
    "late_h",
    "seconds",
    "notes",
)
INVALID = "invalid"  # the verdict of a hand-in that a mark of the instructor excludes


@dataclass(frozen=True)
class Terms:
    """Settings that turn results into points. Changing them needs no new grading.

    Attributes
    ----------
    points : mapping of str to Fraction
        The points of an exercise, by its number, "" for all others; by default those that the
        exercise states.
    partial : Fraction, optional
        The share of the points for a kernel that is clean and right; by default the one that the
        exercise states.
    due : mapping of str to datetime
        The deadline of an exercise, by its number, "" for all others.
    roster : Roster, optional
    only : frozenset of str
        The numbers of the exercises that were assigned; by default all.
    rules : Rules
        What late hand-ins lose, and the marks that a person has given.
    """

    points: Mapping[str, Fraction] = field(default_factory=dict)
    partial: Fraction | None = None
    due: Mapping[str, datetime.datetime] = field(default_factory=dict)
    roster: Roster | None = None
    only: frozenset[str] = frozenset()
    rules: Rules = field(default_factory=Rules)

    @functools.cached_property
    def exercises(self) -> dict[str, Exercise]:
        """The exercises that are known here, by their numbers."""
        return exercises()

    def counts(self, item: Result | Submission) -> bool:
        """Return whether a result or a hand-in is shown: not if it is to an exercise that was not assigned.

        A hand-in to an unknown exercise is shown, with its problem.
        """
        return not self.only or item.exercise in self.only or item.exercise not in self.exercises

    def apply_marks(self, result: Result) -> Result:
        """Return a result, changed to "not passed" if the instructor has marked it as invalid."""
        # a result has a line per question; one without lines could not be graded, and stays as it is
        # find_mark: (why it is invalid, or "", a comment)
        invalid = result.lines and self.rules.find_mark(result)[0]
        return replace(result, passed=False, verdict=INVALID) if invalid else result

    def notes(self, result: Result) -> str:
        """Return, as one text, why a result lost points after grading (invalid, late), and the instructor's comment."""
        late_h, (invalid, comment) = self.late_h(result), self.rules.find_mark(result)
        lost = self.rules.lost_share(late_h)
        late = (
            f"{late_h:.1f} h late: {gradebooks.format_decimal(100 * lost)} % of the points lost"
            if lost
            else ""
        )
        return "; ".join(filter(None, [invalid and f"{INVALID}, because {invalid}", late, comment]))

    def worth(self, number: str) -> Fraction:
        """Return the points that an exercise is worth: those that the instructor set, or else the exercise's own."""
        exercise = self.exercises.get(number)
        points = self.points.get(number, self.points.get(""))  # "": of all other exercises
        # an unknown exercise cannot be graded: its hand-in is shown with 0 points of 1
        return (
            Fraction(exercise.points if exercise else 1).limit_denominator(1000)
            if points is None
            else points
        )

    def questions(self, result: Result) -> list[gradebooks.Question]:
        """Return the questions of a result, with the points for each answer, as gradebooks show them.

        A result that could not be graded has one question, without points. If the hand-in is late,
        each answer loses the same share of its points; if a mark says that it is invalid, all.
        """
        total = self.worth(result.exercise) if result.exercise else Fraction(0)
        if not result.lines:  # it could not be graded
            return [
                gradebooks.Question(
                    name=f"{result.exercise} handed in".strip(),
                    points=Fraction(0),
                    of=total,
                    text=result.verdict,
                )
            ]
        rows = self._share_points(result)  # a row: (name, is_met, share of the points, texts)
        # the notes stand at the first question
        if note := self.notes(result):
            _, _, _, first_texts = rows[0]
            first_texts.append(note)
        # what is left of the points, 0 to 1: nothing if a mark says invalid, less if late
        kept = (result.verdict != INVALID) * (1 - self.rules.lost_share(self.late_h(result)))
        return [
            gradebooks.Question(
                name=name,
                points=Fraction(total * share * kept if is_met else 0),
                of=Fraction(total * share),
                text="\n".join(texts),
                # a question that is worth no points is never right
                right=bool(is_met and total * share and result.verdict != INVALID),
            )
            for name, is_met, share, texts in rows
        ]

    def _share_points(self, result: Result) -> list[tuple[str, bool, Fraction, list[str]]]:
        """Return (name, whether it is met, share of the points, texts) for each question of a graded result.

        A kernel that is clean and right gets the share `partial` of the points. Each goal that it
        meets adds a part of the rest, by the goal's weight, unless the kernel changes more lines
        than it may. The starting code gets nothing. An exercise answered by numbers has only goals.
        """
        exercise = self.exercises.get(result.exercise, Exercise("", None))
        # A line: whether it is met (None: not counted), its text, and what it is about: a goal's
        # name, `BUDGET` for the number of changed lines, or "" for clean and right.
        first = [(ok, text) for ok, text, about in result.lines if not about]
        budget = [(ok, text) for ok, text, about in result.lines if about == BUDGET]
        goals = [(ok, text, about) for ok, text, about in result.lines if about not in ("", BUDGET)]
        # of the points, for clean and right; all of them without goals, none if nothing was run
        share = (
            Fraction(exercise.partial).limit_denominator(1000)
            if self.partial is None
            else self.partial
        )
        share = (share if goals else 1) if first else 0
        weight_of = {
            goal.what: Fraction(goal.weight).limit_denominator(1000) for goal in exercise.goals
        }
        weights = [weight_of.get(goal, Fraction(1)) for _, _, goal in goals]
        right = not result.untouched and all(ok for ok, _ in first)
        short = all(ok is not False for ok, _ in budget)  # not more changed lines than allowed
        # Too many lines cost the goals; without goals, they cost the points for clean and right.
        met = right and (short or bool(goals))
        rows = (
            [(f"{result.exercise} clean and right", met, share, [text for _, text in first])]
            if first
            else []
        )
        for (ok, text, goal), weight in zip(goals, weights, strict=True):
            goal_share = (1 - share) * weight / (sum(weights) or 1)
            rows.append(
                (
                    f"{result.exercise} {goal}",
                    right and short and ok,
                    goal_share,
                    [text, *(more for _, more in budget)],
                )
            )
        return rows

    def late_h(self, result: Result) -> float | None:
        """Return how many hours after the student's deadline a result was handed in; None if in time or unknown."""
        due = self.due.get(result.exercise, self.due.get(""))  # "": of all other exercises
        if due is None or not result.submitted_at:
            return None
        person = self.find_student(result.student)
        deadline = person.extended_deadline(result.exercise, due) if person else due
        hours = (parse_time(result.submitted_at) - deadline).total_seconds() / 3600
        return hours if hours > 0 else None

    def find_student(self, name: str) -> Person | None:
        """Return the student of the roster whom a hand-in's name identifies, or None; None without a roster."""
        return self.roster.find_student(name) if self.roster else None


class Written(NamedTuple):
    """What `write_all` has written: the files, the table first, without the pages; and how many submissions are late.

    `changed` lists the results whose points differ from those in the earlier table, with the same
    text and verdict; `unused` lists the marks of a person for which there is no hand-in.
    """

    files: list[Path]
    late: int
    changed: list[str]
    unused: list[str]


def write_all(
    out: Path, terms: Terms | None = None, ranking: bool = False, formats: Iterable[str] = ()
) -> Written:
    """Write ``grades.csv``, a page per student, and the files that `ranking` and `formats` ask for.

    Parameters
    ----------
    out : Path
        The folder of `labkit_classroom.grading.grade_all`.
    terms : Terms, optional
        How results become points; by default as each exercise states.
    ranking : bool
        Write ``ranking.html``. It shows the students' names, as their files have them, and why
        something could not be graded.
    formats : iterable of str
        What else to write: names of `gradebooks.FORMATS`. LabError if one lacks what it needs, such
        as a roster.
    """
    terms, formats = terms or Terms(), {*formats}
    # Student -> numbers of exercises. The results themselves are read again, a student at a time: a
    # class is large.
    numbers_of: dict[str, list[str]] = defaultdict(list)
    for result in read_results(out):
        if terms.counts(result):
            numbers_of[result.student].append(result.exercise)
    gradebooks.require_formats(formats, terms.roster, len(numbers_of))
    table, late, changed = io.StringIO(), 0, []
    earlier_points = _read_earlier_points(out / "grades.csv")
    # results for the ranking: those that have passed, and those that could not be graded
    met, ungraded = [], []
    sheet = csv.writer(table, lineterminator="\n")
    sheet.writerow([*(["id"] if terms.roster else []), *_COLUMNS])
    # the points of a person at an exercise, and the notes
    book: dict[tuple[str, str], tuple[Fraction, str]] = {}
    other_files, names = [], _choose_file_names(numbers_of)
    for student in sorted(numbers_of):
        graded = (read_result(out, student, number) for number in sorted(numbers_of[student]))
        results = [terms.apply_marks(result) for result in graded if result]
        notes = {result.exercise: terms.notes(result) for result in results}
        person = terms.find_student(student)
        questions = {result.exercise: terms.questions(result) for result in results}
        hours = {result.exercise: terms.late_h(result) for result in results}
        late += sum(hour is not None for hour in hours.values())
        for result in results:
            points, total = _sum_points(questions[result.exercise])
            row = [
                *([person.id if person else ""] if terms.roster else []),
                *_make_row(result, points, total, hours),
            ]
            sheet.writerow(map(gradebooks.escape_formula, [*row, notes[result.exercise]]))
            # other points, though student, exercise, verdict and time are those of the earlier table
            old = earlier_points.get(_make_result_key(result))
            new = gradebooks.format_decimal(points)
            if result.lines and old and old != new:
                changed.append(f"{student} {result.exercise}: {old} -> {new}")
            # what is not graded is an empty cell, and not zero; of a person who has handed in under two
            # names, the better result counts
            if person and result.lines:
                key = person.id, result.exercise
                book[key] = max(book.get(key, (points, "")), (points, notes[result.exercise]))
            if result.passed:
                met.append(replace(result, lines=[]))
            elif ranking and not result.lines:
                ungraded.append(result)
        other_files += gradebooks.write_student(formats, out, names[student], results, questions)
        page = out / f"{names[student]}.html"
        _write_student_page(page, student, results, questions, hours, notes, terms)
    for person in terms.roster.missing(numbers_of) if terms.roster else ():
        # id, then `_COLUMNS`
        row = [person.id, person.name, "", "", "", "nothing handed in", "", "", "", "", 0, ""]
        sheet.writerow(map(gradebooks.escape_formula, row))
    if terms.roster:
        columns = {
            key: (exercise.title, terms.worth(key))
            for key, exercise in terms.exercises.items()
            if key in terms.only or any(key in numbers for numbers in numbers_of.values())
        }
        other_files += gradebooks.write_class(formats, out, terms.roster, columns, book)
    files = [write(out / "grades.csv", table.getvalue()), *other_files]
    if ranking:
        tables = rank_students(met)
        files.append(
            render_page(out / "ranking.html", "ranking.html.j2", rankings=tables, ungraded=ungraded)
        )
    return Written(files, late, changed, _list_unused_marks(terms.rules, numbers_of))


def _write_student_page(
    path: Path,
    student: str,
    results: Sequence[Result],
    questions: Mapping[str, Sequence[gradebooks.Question]],
    hours: Mapping[str, float | None],
    notes: Mapping[str, str],
    terms: Terms,
) -> None:
    """Write the page of one student; questions, hours (how late) and notes are by the exercise's number."""
    render_page(
        path,
        "student.html.j2",
        student=student,
        results=results,
        asked=questions,
        tried=sum(bool(result.exercise) for result in results),
        passed=sum(result.passed for result in results),
        titles={name: exercise.title for name, exercise in terms.exercises.items()},
        points=_format_points,
        hours=hours,
        notes=notes,
        budget=BUDGET,
    )


def _list_unused_marks(rules: Rules, numbers_of: Mapping[str, Iterable[str]]) -> list[str]:
    """Return "student exercise" of each mark without a hand-in; `numbers_of` has each student's exercises."""
    handed_in = {
        (rules.student_key(name), number)
        for name, numbers in numbers_of.items()
        for number in numbers
    }
    return [" ".join(key) for key in rules.marks if key not in handed_in]


def _make_result_key(result: Result) -> tuple:
    """Return the cells that identify a result in ``grades.csv``, as they are shown there."""
    return tuple(
        map(
            gradebooks.escape_formula,
            (result.student, result.exercise, result.verdict, result.submitted_at),
        )
    )


def _read_earlier_points(path: Path) -> dict[tuple, str]:
    """Return the points, as text, in the table of an earlier call by `_make_result_key`; nothing if it was edited."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [*csv.DictReader(file)]
        return {
            (row["student"], row["exercise"], row["verdict"], row["submitted_at"]): row["points"]
            for row in rows
        }
    except (OSError, ValueError, KeyError, csv.Error):  # there is no table, or it was edited
        return {}


def _sum_points(questions: Sequence[gradebooks.Question]) -> tuple[Fraction, Fraction]:
    """Return the sums of the points reached and of the points there are."""
    return sum((question.points for question in questions), Fraction(0)), sum(
        (question.of for question in questions), Fraction(0)
    )


def _format_points(questions: Sequence[gradebooks.Question]) -> str:
    """Return the points of a student at an exercise as text: "0.5 of 1 point"."""
    points, total = map(gradebooks.format_decimal, _sum_points(questions))
    return f"{points} of {total} point{'s' * (total != '1')}"


def _make_row(
    result: Result, points: Fraction, total: Fraction, hours: Mapping[str, float | None]
) -> list:
    """Return the cells of `_COLUMNS`, without the notes; `hours` is how late the student was, by the exercise.

    `points` are those reached, `total` those that there are.
    """
    # first failure
    why = next((text[:1000].replace("\n", "; ") for ok, text, _ in result.lines if ok is False), "")
    late = hours[result.exercise]
    return [
        result.student,
        result.exercise,
        gradebooks.format_decimal(points) if result.lines else "",
        gradebooks.format_decimal(total),
        result.verdict,
        why,
        result.submitted_at,
        result.clock,
        "" if late is None else f"{late:.2f}",
        result.seconds,
    ]


def rank_students(results: Sequence[Result]) -> list[dict]:
    """Rank, for each exercise, the students who have met its goals, for the page ``ranking.html``.

    Returns a dict per exercise: ``number``, ``title``, ``goals`` (their names), and ``rows``, the
    best student first. A row has ``rank``, ``student`` and ``reached`` (a text per goal). The first
    goal decides; equal numbers share a rank. An exercise without goals is left out.
    """
    tables = []
    for exercise in exercises().values():
        met = [result for result in results if result.exercise == exercise.number and result.passed]
        if not (met and exercise.goals):
            continue
        # `at_least` is None for a goal that asks for at most, or exactly, a number
        first = exercise.goals[0]
        sign = -1 if first.at_least is not None else 1  # more is better, or less

        def order(result: Result, first=first, sign=sign) -> tuple[float, str]:
            """Return what to sort by; a result without the number, of an earlier version, comes last."""
            return sign * result.reached.get(first.what, sign * math.inf), result.student

        met.sort(key=order)
        rows, rank, last = [], 0, math.nan  # NaN: equals no number
        for place, result in enumerate(met, 1):
            best = result.reached.get(first.what)
            # an equal number shares the rank
            rank, last = (rank, last) if best == last else (place, best)
            reached = [
                format_number(result.reached.get(goal.what, math.nan)) for goal in exercise.goals
            ]
            rows.append({"rank": rank, "student": result.student, "reached": reached})
        goals = [goal.what for goal in exercise.goals]
        tables.append(
            {"number": exercise.number, "title": exercise.title, "goals": goals, "rows": rows}
        )
    return tables


def _choose_file_names(students: Iterable[str]) -> dict[str, str]:
    """Map each student to a file name that no other student and no other page has, even in another case.

    It is the student's name if that is safe and the only one of its kind, else with a digest behind
    it: "ada_lovelace-1f2e3d".
    """
    safe = {
        name: "".join(
            character if character.isalnum() or character in "-_. " else "_" for character in name
        ).strip(". ")[:50]
        for name in students
    }
    count = Counter(
        [*(file_name.casefold() for file_name in safe.values()), "ranking", "similarity"]
    )
    return {
        name: file_name
        if file_name and file_name == name and count[file_name.casefold()] == 1
        else f"{file_name}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
        for name, file_name in safe.items()
    }


def prune(out: Path, handed_in: Iterable[Submission]) -> list[Result]:
    """Remove from `out` the results of students and exercises that are not among these hand-ins, and their pages.

    Returns the results that were removed.
    """
    gone = list_orphans(out, handed_in)
    names = _choose_file_names({result.student for result in read_results(out)})
    for path, result in gone:
        path.unlink()
        # a student with other results gets a new page by `write_all`
        (out / f"{names[result.student]}.html").unlink(missing_ok=True)
        (out / "gradescope" / names[result.student] / "results.json").unlink(missing_ok=True)
    return [result for _, result in gone]


def render_page(path: Path, template: str, **values) -> Path:
    """Write a page, HTML, to `path` from the template of this file name, and return the path.

    The template gets the `values` by their names, today's date and the lab's version.
    """
    today = datetime.date.today().isoformat()
    return write(
        path,
        _environment()
        .get_template(template)
        .render(today=today, version=labkit.__version__, **values),
    )


@functools.cache
def _environment() -> jinja2.Environment:
    """Return Jinja's environment for this package's templates, with the style sheet as ``style``."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["style"] = STYLE.read_text(encoding="utf-8")
    return environment
