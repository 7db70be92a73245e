"""Write results for Gradescope and Classroom 50, and tables for the gradebooks of Canvas and Moodle.

Each file follows the documentation of the program that reads it:

- Gradescope's ``results.json``: gradescope-autograders.readthedocs.io, "Autograder Specifications".
- Classroom 50's ``result.json``: the schema classroom50/result/v1 of
  github.com/foundation50/classroom50.
- Canvas's table: what its gradebook exports and imports, "How do I import grades in the
  Gradebook?".
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
from labkit_classroom.grading import Result
from labkit_classroom.roster import Roster, parse_time
from labkit_classroom.submissions import escape

FORMATS = ("csv", "gradescope", "classroom50", "canvas", "moodle")
# The variables of Classroom 50's runner, by the field of a result that they give.
_RUNNER = {
    "classroom": ("CLASSROOM",),
    "assignment": ("ASSIGNMENT",),
    "owner": ("OWNER", "USERNAME"),
    "submission": ("SUBMISSION_TAG",),
    "commit": ("COMMIT_URL",),
    "release": ("RELEASE_URL",),
    "review": ("REVIEW_URL", "COMMIT_URL"),
}
_SECONDS = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Question:
    """A graded part of an answer, with its points."""

    name: str
    points: Fraction  # reached
    of: Fraction  # that can be reached
    text: str  # the grader's, on this part
    right: bool = False  # met, and worth points; also if being late took them


def require_formats(formats: Iterable[str], roster: Roster | None, students: int) -> None:
    """Raise LabError if one of the formats is unknown, or cannot be written: without a roster, or for many students."""
    for name in formats:
        if name not in FORMATS:
            raise LabError(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
        if name in ("canvas", "moodle") and roster is None:
            raise LabError(
                f"--format {name} needs --roster: the gradebook knows students by the ids that stand there"
            )
        if name == "classroom50" and students > 1:
            raise LabError(
                f"a result of Classroom 50 is of one student, and here are those of {students}: it is "
                "written by the autograder that runs in each student's repository"
            )


def write_student(
    formats: Iterable[str],
    out: Path,
    name: str,
    results: Sequence[Result],
    questions: Mapping[str, Sequence[Question]],
) -> list[Path]:
    """Write the results of one student in the formats that have a file per student; return the files.

    They are ``gradescope/NAME/results.json`` for Gradescope and ``result.json`` for Classroom 50,
    in the folder `out`; other formats are ignored. `questions` are by the exercise's number. Raises
    LabError if Classroom 50's runner has not said whose result it is.
    """
    contents = {}
    if "gradescope" in formats:
        contents[out / "gradescope" / name / "results.json"] = make_gradescope_result(
            results, questions
        )
    if "classroom50" in formats:
        contents[out / "result.json"] = make_classroom50_result(results, questions, os.environ)
    return [write(path, json.dumps(content, indent=1) + "\n") for path, content in contents.items()]


def make_gradescope_result(
    results: Sequence[Result], questions: Mapping[str, Sequence[Question]]
) -> dict:
    """Return a student's results as a dict in the form of Gradescope's JSON: a test per question.

    `questions` are by the exercise's number. The student sees all tests at once.
    """
    tests = [
        {
            "name": item.name,
            "number": f"{result_number}.{question_number}",
            "score": float(item.points),
            "max_score": float(item.of),
            "status": "passed" if item.right else "failed",
            "output": item.text,
            "output_format": "text",
            "visibility": "visible",
        }
        for result_number, result in enumerate(results, 1)
        for question_number, item in enumerate(questions[result.exercise], 1)
    ]
    verdicts = "\n".join(
        f"{result.exercise} {result.verdict}. {result.advice}".strip() for result in results
    )
    seconds = round(sum(result.seconds for result in results), 1)
    return {
        "score": sum(test["score"] for test in tests),
        "execution_time": seconds,
        "output": verdicts,
        "output_format": "text",
        "visibility": "visible",
        "tests": tests,
    }


def make_classroom50_result(
    results: Sequence[Result],
    questions: Mapping[str, Sequence[Question]],
    runner: Mapping[str, str],
) -> dict:
    """Return a student's results as a dict in the form of Classroom 50's JSON.

    `questions` are by the exercise's number. `runner` has the environment variables of Classroom
    50's runner, which say who the student is; raises LabError if one is missing. The points in this
    JSON are whole numbers, so all points are multiplied by the least number that makes them whole.
    Its time is that of the latest hand-in.
    """
    # _RUNNER maps a field of the JSON to the variables that may hold it, the best one first
    identity = {
        name: next((runner[key] for key in keys if runner.get(key)), "")
        for name, keys in _RUNNER.items()
    }
    if missing := [_RUNNER[name][0] for name, value in identity.items() if not value]:
        raise LabError(
            f"--format classroom50 runs in an autograder of Classroom 50, which sets {', '.join(missing)}: "
            "they say whose result it is"
        )
    items = [item for result in results for item in questions[result.exercise]]
    factor = math.lcm(*(value.denominator for item in items for value in (item.points, item.of)))
    tests = [
        {
            "test-name": item.name,
            "passed": item.right,
            "score": int(item.points * factor),
            "max-score": int(item.of * factor),
            "output": item.text,
        }
        for item in items
    ]
    now = datetime.now(UTC)
    # the latest of the results' times; now if none of them is known
    handed_in = max(
        (parse_time(result.submitted_at) for result in results if result.submitted_at), default=now
    )
    return {
        "schema": "classroom50/result/v1",
        **identity,
        "assignment_type": runner.get("ASSIGNMENT_TYPE") or "individual",
        "datetime": handed_in.astimezone(UTC).strftime(_SECONDS),
        "graded_at": now.strftime(_SECONDS),
        "score": sum(test["score"] for test in tests),
        "max-score": sum(test["max-score"] for test in tests),
        "tests": tests,
    }


def write_class(
    formats: Iterable[str],
    out: Path,
    roster: Roster,
    columns: Mapping[str, tuple[str, Fraction]],
    book: Mapping[tuple[str, str], tuple[Fraction, str]],
) -> list[Path]:
    """Write the tables of a class to `out`, and return the files: ``canvas.csv``, ``moodle.csv``.

    `columns` maps the number of an exercise to its title and its points. `book` maps (student's id,
    exercise's number) to the points reached and a note; an exercise that is not graded is not in
    it.
    """
    makers = {"canvas": list_canvas_rows, "moodle": list_moodle_rows}
    return [
        write(out / f"{name}.csv", _format_csv(make(roster, columns, book)))
        for name, make in makers.items()
        if name in formats
    ]


def list_canvas_rows(roster: Roster, columns: Mapping, book: Mapping) -> list[list[str]]:
    """Return the rows of the CSV file that Canvas reads, the header first; a cell is empty if not graded.

    `columns` maps an exercise's number to its title and its points. `book` maps (student's id,
    exercise's number) to the points reached and a note.
    """
    # Canvas takes a number in parentheses at the end for its own number of an assignment.
    titles = [
        re.sub(r"\s*\((\d+)\)$", r" \1", f"{number} {title}")
        for number, (title, _) in columns.items()
    ]
    rows = [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *titles],
        [
            "    Points Possible",  # Canvas knows this row by its text, spaces included
            "",
            "",
            "",
            "",
            *(format_decimal(points) for _, points in columns.values()),
        ],
    ]
    return rows + [
        [
            escape_formula(row.name),
            "",
            row.id,
            row.email,
            "",
            *_list_cells(row.id, columns, book, ""),
        ]
        for row in roster.people
    ]


def list_moodle_rows(roster: Roster, columns: Mapping, book: Mapping) -> list[list[str]]:
    """Return the rows of the CSV file that Moodle reads, the header first; a cell is "-" if not graded.

    `columns` maps an exercise's number to its title and its points. `book` maps (student's id,
    exercise's number) to the points reached and a note. Exercises with notes have a second column.
    """
    with_notes = {exercise for (_, exercise), (_, note) in book.items() if note}
    noted = [number for number in columns if number in with_notes]
    titles = [f"{number} {title}" for number, (title, _) in columns.items()]
    titles += [f"{number} {columns[number][0]} (feedback)" for number in noted]
    rows = [["ID number", "Email address", "Name", *titles]]
    for person in roster.people:
        notes = [book.get((person.id, number), (0, ""))[1] for number in noted]  # "": no note
        rows.append(
            [
                person.id,
                person.email,
                escape_formula(person.name),
                *_list_cells(person.id, columns, book, "-"),
                *map(escape_formula, notes),
            ]
        )
    return rows


def _list_cells(student_id: str, columns: Mapping, book: Mapping, none: str) -> list[str]:
    """Return a student's points at each exercise of `columns` as text; `none` for one that is not graded."""
    return [
        format_decimal(book[student_id, number][0]) if (student_id, number) in book else none
        for number in columns
    ]


def _format_csv(rows: Iterable[Sequence[str]]) -> str:
    """Return rows of cells as the text of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


# Where a spreadsheet reads a formula: at the beginning of a cell, and after a character that may
# separate cells.
_FORMULA = re.compile(
    r"(?:^(?= *{0})|(?<=[;,\t|])(?={0}))".format(r"[-=+@\t\r\uff0b\uff0d\uff1d\uff20]")
)


def escape_formula(cell: object) -> object:
    """Return a cell of a table so that no spreadsheet evaluates it as a formula: "=1+1" becomes "'=1+1".

    Control characters are escaped, too. A cell that is no text is returned as it is.
    """
    # _FORMULA matches the empty place before a formula
    return _FORMULA.sub("'", escape(cell)) if isinstance(cell, str) else cell


def format_decimal(points: Fraction) -> str:
    """Return points with a decimal point and at most four places, like "0.3333"; "2" for a whole number."""
    return f"{float(points):.4f}".rstrip("0").rstrip(".")
