"""What other programs read: results for Gradescope and Classroom 50, tables for the gradebooks of Canvas and Moodle.

Each is written as its reader documents it:

- Gradescope's ``results.json``: gradescope-autograders.readthedocs.io, "Autograder Specifications".
- Classroom 50's ``result.json``: the schema classroom50/result/v1 of github.com/foundation50/classroom50.
- Canvas's table: what its gradebook exports and imports, "How do I import grades in the Gradebook?".
- Moodle's table: docs.moodle.org, "Grade import".
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from hostcuda.files import write
from labkit.base.errors import LabError
from labkit.classroom.grading import Result
from labkit.classroom.roster import Roster, instant
from labkit.classroom.submissions import printable

FORMATS = ("csv", "gradescope", "classroom50", "canvas", "moodle")
# Variables that Classroom 50's runner sets, by the fields of a result.
_RUNNER = {"classroom": ("CLASSROOM",), "assignment": ("ASSIGNMENT",), "owner": ("OWNER", "USERNAME"),
           "submission": ("SUBMISSION_TAG",), "commit": ("COMMIT_URL",), "release": ("RELEASE_URL",),
           "review": ("REVIEW_URL", "COMMIT_URL")}
_SECONDS = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Question:
    """What a part of an answer is worth: the points reached, of those there are, and the grader's answer."""

    name: str
    points: Fraction
    of: Fraction
    text: str


def require(formats: Iterable[str], roster: Roster | None, students: int) -> None:
    """Raise LabError if a format is unknown, or needs what is not there."""
    for name in formats:
        if name not in FORMATS:
            raise LabError(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
        if name in ("canvas", "moodle") and roster is None:
            raise LabError(f"--format {name} needs --roster: the gradebook knows students by the ids that stand there")
        if name == "classroom50" and students > 1:
            raise LabError(f"a result of Classroom 50 is of one student, and here are those of {students}: it is "
                           "written by the autograder that runs in each student's repository")


def of_student(
    formats: Iterable[str], out: Path, name: str, results: Sequence[Result], asked: Mapping[str, Sequence[Question]]
) -> list[Path]:
    """Write the results of a student: ``gradescope/NAME/results.json``, or ``result.json`` for Classroom 50.

    Raises LabError if Classroom 50's runner has not said whose result it is.
    """
    found = {}
    if "gradescope" in formats:
        found[out / "gradescope" / name / "results.json"] = gradescope(results, asked)
    if "classroom50" in formats:
        found[out / "result.json"] = classroom50(results, asked, os.environ)
    return [write(path, json.dumps(content, indent=1) + "\n") for path, content in found.items()]


def gradescope(results: Sequence[Result], asked: Mapping[str, Sequence[Question]]) -> dict:
    """The results of a student for Gradescope: a test per question, which the student sees at once."""
    tests = [
        {"name": each.name, "number": f"{place}.{part}", "score": float(each.points), "max_score": float(each.of),
         "status": "passed" if each.points == each.of and each.of else "failed", "output": each.text,
         "output_format": "text", "visibility": "visible"}
        for place, result in enumerate(results, 1) for part, each in enumerate(asked[result.exercise], 1)
    ]
    verdicts = "\n".join(f"{each.exercise} {each.verdict}. {each.advice}".strip() for each in results)
    seconds = round(sum(each.seconds for each in results), 1)
    return {"score": sum(test["score"] for test in tests), "execution_time": seconds, "output": verdicts,
            "output_format": "text", "visibility": "visible", "tests": tests}


def classroom50(
    results: Sequence[Result], asked: Mapping[str, Sequence[Question]], runner: Mapping[str, str]
) -> dict:
    """The results of a student for Classroom 50, from the variables of its runner; LabError if one is missing.

    Its points are whole, so all of them are multiplied by the least number that makes them whole.
    """
    identity = {name: next((runner[key] for key in keys if runner.get(key)), "") for name, keys in _RUNNER.items()}
    if missing := [_RUNNER[name][0] for name, value in identity.items() if not value]:
        raise LabError(f"--format classroom50 runs in an autograder of Classroom 50, which sets {', '.join(missing)}: "
                       "they say whose result it is")
    questions = [each for result in results for each in asked[result.exercise]]
    whole = math.lcm(*(value.denominator for each in questions for value in (each.points, each.of)))
    tests = [{"test-name": each.name, "passed": each.points == each.of and each.of > 0,
              "score": int(each.points * whole), "max-score": int(each.of * whole), "output": each.text}
             for each in questions]
    now = datetime.now(UTC)
    handed_in = max((instant(each.submitted_at) for each in results if each.submitted_at), default=now)
    return {"schema": "classroom50/result/v1", **identity,
            "assignment_type": runner.get("ASSIGNMENT_TYPE") or "individual",
            "datetime": handed_in.astimezone(UTC).strftime(_SECONDS), "graded_at": now.strftime(_SECONDS),
            "score": sum(test["score"] for test in tests), "max-score": sum(test["max-score"] for test in tests),
            "tests": tests}


def of_class(
    formats: Iterable[str], out: Path, roster: Roster, columns: Mapping[str, tuple[str, Fraction]],
    book: Mapping[tuple[str, str], Fraction],
) -> list[Path]:
    """Write the tables of a class: ``canvas.csv``, ``moodle.csv``.

    `columns` are the title of an exercise and its points, by its number; `book` has the points of a student, by the id
    and the exercise's number, without what is not graded.
    """
    makers = {"canvas": canvas, "moodle": moodle}
    return [write(out / f"{name}.csv", _text(make(roster, columns, book)))
            for name, make in makers.items() if name in formats]


def canvas(roster: Roster, columns: Mapping, book: Mapping) -> list[list[str]]:
    """The rows of a table for Canvas: `id` is the SIS user ID. What is not graded is empty."""
    # Canvas takes a number in parentheses at the end for its own number of an assignment.
    titles = [re.sub(r"\s*\((\d+)\)$", r" \1", f"{number} {title}") for number, (title, _) in columns.items()]
    rows = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *titles],
            ["    Points Possible", "", "", "", "", *(decimal(points) for _, points in columns.values())]]
    return rows + [[shown(each.name), "", each.id, each.email, "", *_cells(each.id, columns, book, "")]
                   for each in roster.people]


def moodle(roster: Roster, columns: Mapping, book: Mapping) -> list[list[str]]:
    """The rows of a table for Moodle: map "ID number" to the user's. What is not graded is "-"."""
    titles = [f"{number} {title}" for number, (title, _) in columns.items()]
    return [["ID number", "Email address", "Name", *titles]] + [
        [each.id, each.email, shown(each.name), *_cells(each.id, columns, book, "-")] for each in roster.people]


def _cells(person: str, columns: Mapping, book: Mapping, none: str) -> list[str]:
    return [decimal(book[person, number]) if (person, number) in book else none for number in columns]


def _text(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


# What a spreadsheet takes for a formula: at the beginning of a cell, and behind what may separate cells elsewhere.
_FORMULA = re.compile(r"(?:^|(?<=[;,\t|]))(?=[-=+@\t\r\uff0b\uff0d\uff1d\uff20])")


def shown(cell: object) -> object:
    """A cell that only people read: a spreadsheet computes no part of its text, a terminal obeys none."""
    return _FORMULA.sub("'", printable(cell)) if isinstance(cell, str) else cell


def decimal(points: Fraction) -> str:
    """Points with a decimal point, and at most four places: 0.3333."""
    return f"{float(points):.4f}".rstrip("0").rstrip(".")
