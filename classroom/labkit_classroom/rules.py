"""Read an instructor's rules: what late hand-ins lose, who hands in together, and the marks that a person has given.

They are applied whenever results are shown, so that no regrade loses them. docs/instructors.md
shows a file.
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from labkit.base.errors import LabError
from labkit.exercises.exercise import by_name
from labkit_classroom.grading import Result
from labkit_classroom.roster import Roster, normalize_name
from labkit_classroom.submissions import Submission

_LATE = {"lost_per_day": 1, "at_most": 1, "grace_hours": 10_000}  # the most that each can be


@dataclass(frozen=True)
class Rules:
    """The tables of a file of rules."""

    late: Mapping[str, float] = field(default_factory=dict)  # grace_hours, lost_per_day, at_most
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)  # name -> members
    # (`student_key`, number of the exercise) -> (why it is invalid, a comment), either may be ""
    marks: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    roster: Roster | None = None

    def student_key(self, student: str) -> str:
        """Return the key that stands for a student, whatever the name of a hand-in: the roster's id, or else the name.

        The name is in lower case: "ada lovelace".
        """
        person = self.roster.find_student(student) if self.roster else None
        return person.id if person else normalize_name(student)

    def find_mark(self, item: Result) -> tuple[str, str]:
        """Return why the instructor calls a result invalid, and the instructor's comment; either may be empty."""
        return self.marks.get((self.student_key(item.student), item.exercise), ("", ""))

    def lost_share(self, late_h: float | None) -> Fraction:
        """Return the share of its points, 0 to 1, that a hand-in loses because it came `late_h` hours late."""
        # each day that has begun after the hours of grace counts; self.late: the numbers of the rules file
        days = math.ceil(max(0, (late_h or 0) - self.late.get("grace_hours", 0)) / 24)
        shares = days * self.late.get("lost_per_day", 0), self.late.get("at_most", 1)
        return Fraction(min(shares)).limit_denominator(1000)

    def share_groups(self, handed_in: Iterable[Submission]) -> list[Submission]:
        """Give a group's hand-in to each of its members who has handed in nothing to that exercise.

        A group's hand-ins are those of its members and those under the group's name; the last one to
        an exercise counts. Returns the hand-ins of all students; none is under a group's name.
        """
        # a key stands for a student, or a group, whatever the name of a hand-in
        items = [(self.student_key(item.student), item) for item in handed_in]
        names = {key: item.student for key, item in items}
        own = {(key, item.exercise) for key, item in items}
        groups = {
            self.student_key(group): {self.student_key(member): member for member in members}
            for group, members in self.groups.items()
        }
        shared = []
        for group, members in groups.items():
            of_group = [
                item for key, item in items if item.exercise and (key in members or key == group)
            ]
            # exercise -> hand-in. Sorted so that the latest without a problem replaces the others.
            last = {
                item.exercise: item
                for item in sorted(of_group, key=lambda item: (not item.problem, item.submitted_at))
            }
            # named as in the member's own hand-ins; without any, as in the list of the group
            shared += [
                replace(item, student=names.get(key, member))
                for key, member in members.items()
                for number, item in last.items()
                if (key, number) not in own
            ]
        return [item for key, item in items if key not in groups] + shared


def read_rules(path: Path, roster: Roster | None = None) -> Rules:
    """Read from a TOML file what late hand-ins lose, which students work in groups, and the instructor's marks.

    A mark is a comment on a student's hand-in to an exercise, or the reason why it is invalid.

    Raises LabError, which says what is wrong, if the file has anything else, a student in two
    groups, or a student who is not in the roster.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise LabError(f"{path} cannot be read: {getattr(error, 'strerror', error)}") from None

    def require(right: bool, sentence: str) -> None:
        """Raise a LabError, the file and the sentence, unless `right`."""
        if not right:
            raise LabError(f"{path}: {sentence}")

    late, groups, marks = (
        given.get(name, empty) for name, empty in (("late", {}), ("groups", {}), ("marks", []))
    )
    require(
        given.keys() <= {"late", "groups", "marks"},
        "its tables are late, groups and marks, and no others",
    )
    require(
        isinstance(late, dict)
        and late.keys() <= _LATE.keys()
        and all(
            # not isinstance: True is an int
            type(value) in (int, float) and 0 <= value <= _LATE[name]
            for name, value in late.items()
        ),
        "late has lost_per_day and at_most, which are shares from 0 to 1, and grace_hours",
    )
    require(
        isinstance(groups, dict)
        and all(
            isinstance(members, list) and all(isinstance(name, str) for name in members)
            for members in groups.values()
        ),
        'a group is a list of names: blue = ["alice", "bob"]',
    )
    require(
        isinstance(marks, list)
        and all(
            isinstance(mark, dict)
            # both of these, and no others
            and {*mark} - {"invalid", "comment"} == {"student", "exercise"}
            and all(isinstance(text, str) for text in mark.values())
            for mark in marks
        ),
        "each of marks has the texts student and exercise, and invalid or comment",
    )
    rules = Rules(late, groups, {}, roster)  # {}: the marks, which are added below
    students = [name for members in groups.values() for name in members]
    # a group that has the name of a student of the roster is in it twice, so that it is refused
    named = [*students, *groups, *(name for name in groups if roster and roster.find_student(name))]
    doubled = [name for name, count in Counter(map(rules.student_key, named)).items() if count > 1]
    # "".join(doubled[:1]): the first, or "" if there is none
    require(
        not doubled,
        f"{''.join(doubled[:1])} is there twice: a student has one group, and no student has its name",
    )
    for mark in marks:
        # the student of a mark may be a group: then all its members get the mark
        for name in groups.get(mark["student"], [mark["student"]]):
            students.append(name)
            key = rules.student_key(name), by_name(mark["exercise"]).number
            # A student may have several marks, one of them as a member of a group: their texts are
            # joined, (invalid, comment) by kind.
            earlier = rules.marks.get(key, ("", ""))
            kinds = zip(earlier, (mark.get("invalid"), mark.get("comment")), strict=True)
            rules.marks[key] = tuple("; ".join(filter(None, texts)) for texts in kinds)
    unknown = [name for name in students if roster and not roster.find_student(name)]
    require(not unknown, f"the roster has no student {''.join(unknown[:1])}")
    return rules
