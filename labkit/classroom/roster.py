"""Who is in a class, until when they may hand in, and the times at which they did."""

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
        `id` is what a gradebook knows the student by.
    extensions : mapping of str to str
        By the exercise, "" for all: hours that are added to the time when it is due, or a time of its own.
    """

    name: str
    id: str
    email: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)

    def until(self, exercise: str, due: datetime) -> datetime:
        """Until when this student may hand in: never earlier than the others."""
        given = self.extensions.get(exercise.lower()) or self.extensions.get("") or "0"
        return max(due, extended(given, due))


@dataclass(frozen=True)
class Roster:
    """The students of a class, and the columns of extensions, as its file lists them: `read_roster`."""

    people: tuple[Person, ...]
    extensions: tuple[str, ...] = ()

    @cached_property
    def _known(self) -> dict[str, Person | None]:
        """Each by all that a file or a folder may be named after; None by what two of them share."""
        found: dict[str, set[int]] = defaultdict(set)
        for place, each in enumerate(self.people):
            for name in (each.id, each.email, each.email.partition("@")[0], each.name):
                found[_plain(name)].add(place)
        return {name: self.people[min(places)] if len(places) == 1 else None for name, places in found.items() if name}

    def person(self, student: str) -> Person | None:
        """Whose a name of a hand-in is: an id, an e-mail address, what stands before its @, or a name."""
        return self._known.get(_plain(student))

    def _begins(self, student: str) -> str:
        """A name of a hand-in, and who it may be: somebody whom its first words name."""
        words = _plain(student).split()
        begins = (" ".join(words[:count]) for count in range(len(words), 0, -1))
        person = next((self._known[name] for name in begins if name in self._known), None)
        return f"{student} (of {person.name}?)" if person else student

    def missing(self, students: Iterable[str]) -> list[Person]:
        """Those of whom nothing is there."""
        there = {person.id for student in students if (person := self.person(student))}
        return [each for each in self.people if each.id not in there]

    def report(self, students: Iterable[str], exercises: Iterable[str] = ()) -> list[str]:
        """What does not fit: who is missing or has two names, names that nobody has, extensions of no exercise."""
        names: dict[str, list[str]] = defaultdict(list)
        for student in sorted({*students}):
            person = self.person(student)
            names[person.id if person else ""].append(student)
        twice = [f"{each.name} ({', '.join(own)})" for each in self.people if len(own := names.get(each.id, ())) > 1]
        missing = [each.name for each in self.missing(students)]
        found = (("nothing handed in", missing), ("handed in under two names", twice),
                 ("not in the roster", [self._begins(each) for each in names.get("", ())]),
                 ("extension of no exercise: columns of the roster", self._unknown(exercises)))
        return [f"{len(who):5}  {what}: {', '.join(who)}" for what, who in found if who]

    def _unknown(self, exercises: Iterable[str]) -> list[str]:
        known = {"", *(each.lower() for each in exercises)}
        return [each for each in self.extensions if each.removeprefix(_EXTENSION).strip() not in known]


def read_roster(path: Path) -> Roster:
    """The roster in a CSV file with the columns name, id and email, in any order.

    A column `extension`, or ``extension 04a`` for one exercise, holds hours that are added to the time when it is due,
    or a time of its own. Other columns are ignored.

    Raises
    ------
    LabError
        The file cannot be read, has no such columns, has no id in a row or one twice, or an extension is none.
    """
    people, columns = {}, {}
    for line, row in table(path, ("name", "id", "email")):
        columns = {name: name.removeprefix(_EXTENSION).strip() for name in row if name.startswith(_EXTENSION)}
        given = {columns[name]: row[name] for name in columns if row[name]}
        if not row["id"] or row["id"] in people:
            what = f"the id {row['id']} is there twice" if row["id"] else "there is no id"
            raise LabError(f"{path}, line {line}: {what}. Gradebooks know students by their ids")
        try:
            for value in given.values():
                extended(value, datetime.now(UTC))
        except LabError as error:
            raise LabError(f"{path}, line {line}: {error}") from None
        people[row["id"]] = Person(row["name"], row["id"], row["email"], given)
    return Roster((*people.values(),), (*columns,))


def table(path: Path, needed: Iterable[str]) -> list[tuple[int, dict[str, str]]]:
    """The rows of a CSV file with the numbers of their lines; names of columns in lower case, separated by , or ;.

    Raises
    ------
    LabError
        The file cannot be read, or a column is missing.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            head = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=";" if head.count(";") > head.count(",") else ",")
            names = [name.strip().lower() for name in next(reader, [])]
            rows = [(reader.line_num, dict(zip(names, map(str.strip, row), strict=False))) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        remedy = "Save it as CSV UTF-8" if isinstance(error, UnicodeDecodeError) else "It has to be a CSV file in UTF-8"
        raise LabError(f"{path} cannot be read: {error}. {remedy}") from None
    if missing := [name for name in needed if name not in names]:
        raise LabError(f"{path} has no column {missing[0]!r}: it needs {', '.join(needed)}, and has {', '.join(names)}")
    return [(line, dict.fromkeys(names, "") | row) for line, row in rows if any(row.values())]


def instant(text: str) -> datetime:
    """Return a time in UTC, of a text with its offset from UTC; LabError if it is none, or UTC has none such."""
    with contextlib.suppress(ValueError, OverflowError):
        found = datetime.fromisoformat(text.strip())
        if found.tzinfo:
            return found.astimezone(UTC)
    raise LabError(f"{text!r} is no time with an offset from UTC: write it like 2026-12-01T23:59+01:00")


def extended(text: str, due: datetime) -> datetime:
    """The time that an extension gives: so many hours later, or a time of its own; LabError if it is neither."""
    try:
        return due + timedelta(hours=float(text))
    except (ValueError, OverflowError):
        return instant(text)


def _plain(name: str) -> str:
    return re.sub(r"[\s_.,-]+", " ", name).strip().casefold()
