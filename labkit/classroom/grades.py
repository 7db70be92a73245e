"""The results of a class as files: a table, a page per student, a ranking, and what gradebooks read.

All of it is made from the files of `labkit.classroom.grading`, a student at a time, and loads nothing from any network.
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
from labkit.base.numerals import three
from labkit.classroom import gradebooks
from labkit.classroom.grading import BUDGET, Result, others, read_result, read_results
from labkit.classroom.roster import Person, Roster, instant
from labkit.classroom.submissions import Submission
from labkit.exercises.exercise import Exercise, exercises, number
from labkit.notebooks import STYLE

_TEMPLATES = Path(__file__).parent / "template"
_COLUMNS = ("student", "exercise", "points", "of", "verdict", "why", "submitted_at", "clock", "late_h",
            "seconds")


@dataclass(frozen=True)
class Terms:
    """How results become grades. To change any of it grades nothing again.

    Attributes
    ----------
    points : mapping of str to Fraction
        What an exercise counts for, by its number, "" for all others; by default what the exercise says.
    partial : Fraction, optional
        The share of the points for a kernel that is clean and right; by default what the exercise says.
    due : mapping of str to datetime
        Until when an exercise may be handed in, by its number, "" for all others.
    roster : Roster, optional
    only : frozenset of str
        The numbers of the exercises that were assigned; by default all.
    """

    points: Mapping[str, Fraction] = field(default_factory=dict)
    partial: Fraction | None = None
    due: Mapping[str, datetime.datetime] = field(default_factory=dict)
    roster: Roster | None = None
    only: frozenset[str] = frozenset()

    @functools.cached_property
    def exercises(self) -> dict[str, Exercise]:
        """Those that are known here, by their numbers."""
        return exercises()

    def counts(self, each: Result | Submission) -> bool:
        """Whether it is shown: not if it is of an exercise that was not assigned."""
        return not self.only or each.exercise in self.only or each.exercise not in self.exercises

    def worth(self, number: str) -> Fraction:
        """The points of an exercise."""
        known = self.exercises.get(number)
        own = self.points.get(number, self.points.get(""))
        return Fraction(known.points if known else 1).limit_denominator(1000) if own is None else own

    def questions(self, result: Result) -> list[gradebooks.Question]:
        """What is asked, with the points for each answer.

        A kernel that is clean and right gets the share, each goal that it meets besides a part of the rest by the
        goal's weight, unless it changes more lines than it may. The starting code gets nothing. An exercise that is
        answered by numbers has its goals alone.
        """
        asked = self.exercises.get(result.exercise, Exercise("", None))
        total = self.worth(result.exercise) if result.exercise else Fraction(0)
        if not result.lines:
            return [gradebooks.Question(f"{result.exercise} handed in".strip(), Fraction(0), total, result.verdict)]
        first = [(ok, text) for ok, text, part in result.lines if not part]
        budget = [(ok, text) for ok, text, part in result.lines if part == BUDGET]
        goals = [(ok, text, part) for ok, text, part in result.lines if part not in ("", BUDGET)]
        share = Fraction(asked.partial).limit_denominator(1000) if self.partial is None else self.partial
        share = (share if goals else 1) if first else 0
        weights = {goal.what: Fraction(goal.weight).limit_denominator(1000) for goal in asked.goals}
        weigh = [weights.get(part, Fraction(1)) for _, _, part in goals]
        right = not result.untouched and all(ok for ok, _ in first)
        short = all(ok is not False for ok, _ in budget)
        met = right and (short or bool(goals))
        found = [(f"{result.exercise} clean and right", met, share, [text for _, text in first])] if first else []
        for (ok, text, part), weight in zip(goals, weigh, strict=True):
            found.append((f"{result.exercise} {part}", right and short and ok, (1 - share) * weight / (sum(weigh) or 1),
                          [text, *(more for _, more in budget)]))
        return [gradebooks.Question(name, Fraction(total * of if met else 0), Fraction(total * of), "\n".join(texts))
                for name, met, of, texts in found]

    def late_h(self, result: Result) -> float | None:
        """Hours after the time when it was due for this student; None if it was in time, or nobody knows."""
        due = self.due.get(result.exercise, self.due.get(""))
        if due is None or not result.submitted_at:
            return None
        person = self.person(result.student)
        until = person.until(result.exercise, due) if person else due
        hours = (instant(result.submitted_at) - until).total_seconds() / 3600
        return hours if hours > 0 else None

    def person(self, student: str) -> Person | None:
        """Whose hand-in it is, if there is a roster and they are in it."""
        return self.roster.person(student) if self.roster else None


class Written(NamedTuple):
    """What `write_all` has written: the files, first the table; the pages; how many submissions are late.

    `changed` are those whose points are others than in the table that was there, with the same text and verdict.
    """

    files: list[Path]
    pages: list[Path]
    late: int
    changed: list[str]


def write_all(
    out: Path, terms: Terms | None = None, ranking: bool = False, formats: Iterable[str] = ()
) -> Written:
    """Write ``grades.csv`` and a page per student from the results in a folder, and what is asked for besides.

    Parameters
    ----------
    out : Path
        The folder of `labkit.classroom.grading.grade_all`.
    terms : Terms, optional
    ranking : bool
        Write ``ranking.html``. It shows the students' names, as their files have them, and why something could not be
        graded.
    formats : iterable of str
        What else to write: names of `gradebooks.FORMATS`.

    Raises
    ------
    LabError
        A format lacks what it needs, such as a roster.
    """
    terms, formats = terms or Terms(), {*formats}
    places: dict[str, list[str]] = defaultdict(list)
    for each in read_results(out):
        if terms.counts(each):
            places[each.student].append(each.exercise)
    gradebooks.require(formats, terms.roster, len(places))
    text, late, met, ungraded, before, changed = io.StringIO(), 0, [], [], _points_before(out / "grades.csv"), []
    sheet = csv.writer(text, lineterminator="\n")
    sheet.writerow([*(["id"] if terms.roster else []), *_COLUMNS])
    book: dict[tuple[str, str], Fraction] = {}  # the points of a person at an exercise
    made, pages, names = [], [], _names(places)
    for student in sorted(places):
        own = [found for name in sorted(places[student]) if (found := read_result(out, student, name))]
        person = terms.person(student)
        asked = {each.exercise: terms.questions(each) for each in own}
        hours = {each.exercise: terms.late_h(each) for each in own}
        late += sum(each is not None for each in hours.values())
        for each in own:
            points, of = _sums(asked[each.exercise])
            row = [*([person.id if person else ""] if terms.roster else []), *_row(each, points, of, hours)]
            sheet.writerow(map(gradebooks.shown, row))
            old, new = before.get(_same(each)), gradebooks.decimal(points)
            if each.lines and old and old != new:
                changed.append(f"{student} {each.exercise}: {old} -> {new}")
            if person and each.lines:  # what is not graded is an empty cell, and not zero
                key = person.id, each.exercise
                book[key] = max(book.get(key, points), points)
            if each.passed:
                met.append(replace(each, lines=[]))
            elif ranking and not each.lines:
                ungraded.append(each)
        made += gradebooks.of_student(formats, out, names[student], own, asked)
        titles = {name: known.title for name, known in terms.exercises.items()}
        pages.append(page(out / f"{names[student]}.html", "student.html.j2", student=student, results=own,
                           tried=sum(bool(each.exercise) for each in own), passed=sum(each.passed for each in own),
                           titles=titles, points=_points, asked=asked, hours=hours, budget=BUDGET))
    for person in terms.roster.missing(places) if terms.roster else ():
        row = [person.id, person.name, "", "", "", "nothing handed in", "", "", "", "", 0]
        sheet.writerow(map(gradebooks.shown, row))
    if terms.roster:
        columns = {each: (known.title, terms.worth(each)) for each, known in terms.exercises.items()
                   if each in terms.only or any(each in tried for tried in places.values())}
        made += gradebooks.of_class(formats, out, terms.roster, columns, book)
    files = [write(out / "grades.csv", text.getvalue()), *made]
    if ranking:
        files.append(page(out / "ranking.html", "ranking.html.j2", rankings=rankings(met), ungraded=ungraded))
    return Written(files, pages, late, changed)


def _same(each: Result) -> tuple:
    return tuple(map(gradebooks.shown, (each.student, each.exercise, each.verdict, each.submitted_at)))


def _points_before(path: Path) -> dict[tuple, str]:
    """The points in a table of an earlier call, by `_same`."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [*csv.DictReader(file)]
        return {(row["student"], row["exercise"], row["verdict"], row["submitted_at"]): row["points"] for row in rows}
    except (OSError, ValueError, KeyError, csv.Error):  # there is none, or it was edited
        return {}


def _sums(questions: Sequence[gradebooks.Question]) -> tuple[Fraction, Fraction]:
    return sum((each.points for each in questions), Fraction(0)), sum((each.of for each in questions), Fraction(0))


def _points(questions: Sequence[gradebooks.Question]) -> str:
    points, of = map(gradebooks.decimal, _sums(questions))
    return f"{points} of {of} point{'s' * (of != '1')}"


def _row(each: Result, points: Fraction, of: Fraction, hours: Mapping[str, float | None]) -> list:
    why = next((text.replace("\n", "; ") for ok, text, _ in each.lines if ok is False), "")
    late = hours[each.exercise]
    return [each.student, each.exercise, gradebooks.decimal(points) if each.lines else "",
            gradebooks.decimal(of), each.verdict, why, each.submitted_at, each.clock,
            "" if late is None else f"{late:.2f}", each.seconds]


def rankings(results: Sequence[Result]) -> list[dict]:
    """For each exercise its title, its goals and the students who met them, the best number of the first goal first.

    Equal numbers share a rank. Times stand beside it, for each device that has measured one.
    """
    found = []
    for asked in exercises().values():
        met = [each for each in results if each.exercise == asked.number and each.passed]
        if not met:
            continue
        first = asked.goals[0]
        sign = -1 if first.at_least is not None else 1
        met.sort(key=lambda each: (sign * each.reached.get(first.what, math.inf), each.student))
        devices = sorted({device for each in met for device in each.op_ms})
        rows, rank, last = [], 0, None
        for place, each in enumerate(met, 1):
            best = each.reached.get(first.what)
            rank, last = (rank, last) if best == last else (place, best)
            reached = [number(each.reached.get(goal.what, math.nan)) for goal in asked.goals]
            times = [three(each.op_ms[device]) if device in each.op_ms else "" for device in devices]
            rows.append({"rank": rank, "student": each.student, "reached": reached + times})
        goals = [goal.what for goal in asked.goals] + [f"op time on the {device} (ms)" for device in devices]
        found.append({"number": asked.number, "title": asked.title, "goals": goals, "rows": rows})
    return found


def _names(students: Iterable[str]) -> dict[str, str]:
    """Students' names as those of files, which no other student and no other page has, even in another case."""
    safe = {name: "".join(c if c.isalnum() or c in "-_. " else "_" for c in name).strip(". ")[:50] for name in students}
    often = Counter([*(each.casefold() for each in safe.values()), "ranking", "similarity"])
    return {name: each if each and each == name and often[each.casefold()] == 1 else
            f"{each}-{hashlib.sha256(name.encode()).hexdigest()[:6]}" for name, each in safe.items()}


def prune(out: Path, handed_in: Iterable[Submission]) -> list[Result]:
    """Remove the results of hand-ins that are not among these, and what was made of them: which they were."""
    gone = others(out, handed_in)
    names = _names({each.student for each in read_results(out)})
    for path, each in gone:
        path.unlink()
        (out / f"{names[each.student]}.html").unlink(missing_ok=True)
        (out / "gradescope" / names[each.student] / "results.json").unlink(missing_ok=True)
    return [each for _, each in gone]


def page(path: Path, template: str, **values) -> Path:
    """Write a page from one of the templates."""
    today = datetime.date.today().isoformat()
    return write(path, _templates().get_template(template).render(today=today, version=labkit.__version__, **values))


@functools.cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, trim_blocks=True,
                                     lstrip_blocks=True)
    environment.globals["style"] = STYLE.read_text(encoding="utf-8")
    return environment
