"""Who is in a class, until when each student may hand in, and how times are read."""

from __future__ import annotations

import contextlib
import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from labkit.base.errors import LabError

_EXTENSION = "extension"


@dataclass(frozen=True)
class Person:
    """A row of a roster.

    Attributes
    ----------
    name, id, email : str
        `id` is the key by which a gradebook knows the student.
    extensions : mapping of str to str
        By the exercise, "" for all: hours that are added to the deadline, or a time of its own.
    """

    name: str
    id: str
    email: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)

    def extended_deadline(self, exercise: str, due: datetime) -> datetime:
        """Return until when this student may hand in an exercise: `due`, the others' deadline, or a later time."""
        # hours ("48"), or a time; "": that of all exercises without their own
        extension = self.extensions.get(exercise.lower()) or self.extensions.get("") or "0"
        return max(due, extend_deadline(extension, due))


@dataclass(frozen=True)
class Roster:
    """The students of a class, and its columns of extensions, as `read_roster` reads them from a file."""

    people: tuple[Person, ...]
    extensions: tuple[str, ...] = ()  # the columns' names: "extension", "extension 04a"

    @cached_property
    def _students_by_name(self) -> dict[str, Person | None]:
        """Map each name that a hand-in may carry to its student, or to None where two students share it."""
        rows: dict[str, set[int]] = defaultdict(set)
        for row, person in enumerate(self.people):
            for name in (person.id, person.email, person.email.partition("@")[0], person.name):
                rows[normalize_name(name)].add(row)
        return {
            name: self.people[min(places)] if len(places) == 1 else None
            for name, places in rows.items()
            if name
        }

    def find_student(self, name: str) -> Person | None:
        """Return the student whom an id, an e-mail address or its first part, or a name identifies, or None."""
        return self._students_by_name.get(normalize_name(name))

    def _add_likely_owner(self, student: str) -> str:
        """Return a hand-in's name with the student whom its first words may name: "ada lab 4 (of Ada Lovelace?)"."""
        words = normalize_name(student).split()
        begins = (" ".join(words[:count]) for count in range(len(words), 0, -1))
        person = next(
            (self._students_by_name[name] for name in begins if name in self._students_by_name),
            None,
        )
        return f"{student} (of {person.name}?)" if person else student

    def missing(self, students: Iterable[str]) -> list[Person]:
        """Return the people of the roster who have handed in nothing; `students` are the names of all hand-ins."""
        ids = {person.id for student in students if (person := self.find_student(student))}
        return [person for person in self.people if person.id not in ids]

    def report(self, students: Iterable[str], exercises: Iterable[str] = ()) -> list[str]:
        """Return a line per kind of problem: hand-ins missing or doubled, unknown names, unknown extensions.

        `students` are the names of all hand-ins, `exercises` the numbers that there are.
        """
        # id of a person -> the names of hand-ins; "": of names that the roster lacks
        names: dict[str, list[str]] = defaultdict(list)
        for student in sorted({*students}):
            person = self.find_student(student)
            names[person.id if person else ""].append(student)
        twice = [
            f"{person.name} ({', '.join(names[person.id])})"
            for person in self.people
            if len(names.get(person.id, ())) > 1
        ]
        problems = (
            ("nothing handed in", [person.name for person in self.missing(students)]),
            ("handed in under two names", twice),
            ("not in the roster", [self._add_likely_owner(name) for name in names.get("", ())]),
            (
                "extension of no exercise: columns of the roster",
                self._list_unknown_extensions(exercises),
            ),
        )
        return [f"{len(who):5}  {what}: {', '.join(who)}" for what, who in problems if who]

    def _list_unknown_extensions(self, exercises: Iterable[str]) -> list[str]:
        """Return the names of the roster's columns, such as "extension 99z", that name none of these exercises."""
        numbers = {"", *(number.lower() for number in exercises)}
        return [
            column
            for column in self.extensions
            if column.removeprefix(_EXTENSION).strip() not in numbers
        ]


def read_roster(path: Path) -> Roster:
    """Read a roster from a CSV file with the columns name, id and email, in any order.

    A column `extension`, or ``extension 04a`` for one exercise, holds hours that are added to the
    deadline, or another deadline. Other columns are ignored. LabError if the file cannot be read,
    lacks a column or an id, has an id twice, or has an extension that cannot be read.
    """
    people, columns = {}, {}
    for line, row in read_table(path, ("name", "id", "email")):
        columns = {
            name: name.removeprefix(_EXTENSION).strip()
            for name in row
            if name.startswith(_EXTENSION)
        }
        extensions = {columns[name]: row[name] for name in columns if row[name]}
        if not row["id"] or row["id"] in people:
            what = f"the id {row['id']!r} is there twice" if row["id"] else "there is no id"
            raise LabError(f"{path}, line {line}: {what}. Gradebooks know students by their ids")
        try:
            for value in extensions.values():  # refuse now what cannot be read; any time will do
                extend_deadline(value, datetime.now(UTC))
        except LabError as error:
            raise LabError(f"{path}, line {line}: {error}") from None
        people[row["id"]] = Person(row["name"], row["id"], row["email"], extensions)
    # `columns` is the same in each row: column -> exercise. The roster keeps the columns' names.
    return Roster((*people.values(),), (*columns,))


def read_table(path: Path, needed: Iterable[str]) -> list[tuple[int, dict[str, str]]]:
    """Return (line number, row) of each row of a CSV file that is not empty, whose cells are separated by , or ;.

    A row maps columns, in lower case, to texts. LabError if the file cannot be read, or lacks a
    `needed` column.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            head = file.readline()
            file.seek(0)
            # spreadsheets of some languages write ; because their numbers have a comma
            reader = csv.reader(file, delimiter=";" if head.count(";") > head.count(",") else ",")
            names = [name.strip().lower() for name in next(reader, [])]
            # not strict: a row may be shorter or longer than the header
            rows = [
                (reader.line_num, dict(zip(names, map(str.strip, row), strict=False)))
                for row in reader
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        remedy = (
            "Save it as CSV UTF-8"
            if isinstance(error, UnicodeDecodeError)
            else "It has to be a CSV file in UTF-8"
        )
        raise LabError(
            f"{path} cannot be read: {getattr(error, 'strerror', error)}. {remedy}"
        ) from None
    if missing := [name for name in needed if name not in names]:
        raise LabError(
            f"{path} has no column {missing[0]!r}: it needs {', '.join(needed)}, and has {', '.join(names)}"
        )
    return [(line, dict.fromkeys(names, "") | row) for line, row in rows if any(row.values())]


def parse_time(text: str) -> datetime:
    """Return the time, in UTC, that a text with an offset from UTC states; LabError if it states none."""
    with contextlib.suppress(ValueError, OverflowError):
        time = datetime.fromisoformat(text.strip())
        if time.tzinfo:
            return time.astimezone(UTC)
    raise LabError(
        f"{text!r} is no time with an offset from UTC: write it like 2026-12-01T23:59+01:00"
    )


def extend_deadline(text: str, due: datetime) -> datetime:
    """Return the extended deadline: `text` has the hours after `due` ("48"), or the new deadline as a time.

    Raises LabError if it is neither.
    """
    try:
        return due + timedelta(hours=float(text))
    except (ValueError, OverflowError):
        return parse_time(text)


def normalize_name(name: str) -> str:
    """Return a name in lower case, with one space between its words: "ada lovelace" for "Ada_Lovelace"."""
    return re.sub(r"[\s_.,-]+", " ", name).strip().casefold()
