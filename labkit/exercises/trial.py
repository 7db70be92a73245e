"""Begin exercises, and try them: the start misses, the solution passes, each wrong answer gets its sentence.

Wrong answers are in the ``wrong.toml`` of the exercise's folder, with a table for each one:

    ["no barrier after the copy"]
    says = "is a barrier missing"
    of = "solution"
    edits = [["__syncthreads();    // the mask is complete", ""]]

``says`` is a part of the grader's answer. An edit replaces a text that occurs exactly once: in the
starting code, or in the code that ``of`` names. In place of edits, ``file`` names a .cu file of the
folder, and ``answer`` lists numbers. A name that begins with "cheat: " says what a cheat does in
place of the exercise's lesson, and its ``says`` which number stops it. Then `labkit.exercises.cheats`
are tried, which must not meet all goals.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hostcuda.files import write
from labkit.base.errors import LabError
from labkit.exercises.cheats import GRADED, make_cheats
from labkit.exercises.exercise import Exercise
from labkit.exercises.grade import grade
from labkit.exercises.judge import Grade
from labkit.exercises.subjects import Numbers
from labkit.ladder.source import read

START, SOLUTION = "the starting code", "the solution"
_KEYS = {"says", "of", "edits", "file", "answer"}


@dataclass(frozen=True)
class Trial:
    """An attempt, and the answer that the grader should give to it."""

    exercise: Exercise
    about: str  # `START`, `SOLUTION`, or the name of a wrong answer or a cheat
    attempt: tuple  # the arguments of `grade` after the exercise
    says: str = ""  # a part of the answer to a wrong attempt
    # the seed of the grading, which cheats alone have: it tells them from other trials
    seed: str = ""

    @property
    def is_cheat(self) -> bool:
        """Whether it is one of the exercise's own wrong answers, which gets around the lesson: named "cheat: ...".

        The cheats that `list_cheats` makes of any kernel are none of these: they have a `seed`.
        """
        return self.about.startswith("cheat: ")

    @cached_property
    def graded(self) -> Grade | LabError:
        """The grader's answer, or the LabError with which it refuses the attempt.

        The grader's search for the lines that have to change is slow: it is left out if the answer has
        `says`, the text that it should have, without it.
        """
        try:
            for search in (False, True):
                answer = grade(
                    self.exercise.key,
                    *self.attempt,
                    quiet=True,
                    record=False,
                    seed=self.seed,
                    search=search,
                )
                if self.says in str(answer):
                    break
        except LabError as refused:
            return refused
        return answer

    def find_problem(self) -> str:
        """Return what is wrong with the grader's answer, followed by that answer; "" if it is the expected one.

        Expected are: of the solution, that it passes; of a cheat, that a goal is missed; of the starting
        code and of a wrong answer, that it does not pass and the answer has the text `says`.
        """
        # only the cheats that are made of any kernel have a seed
        graded, is_made_cheat = self.graded, bool(self.seed)
        if isinstance(graded, LabError):
            # a made cheat that is refused has met no goal
            is_expected = is_made_cheat or (self.says and self.says in str(graded))
            return "" if is_expected else f"is refused: {graded}"
        if is_made_cheat:
            is_expected = not (graded.passed or graded.long)
            problem = "meets every goal, also those that it should not"
        elif self.about == SOLUTION:
            is_expected = graded.passed and not graded.mistake
            problem = "does not pass, or not in silence"
        elif graded.passed:
            is_expected, problem = False, "passes"
        else:  # the starting code, or a wrong answer
            is_expected, problem = self.says in str(graded), f"is not told {self.says!r}"
        return "" if is_expected else f"{problem}:\n{graded}"


def write_template(folder: Path) -> list[Path]:
    """Copy the template of an exercise, a kernel on arrays, to a folder; return its files.

    LabError if it exists.
    """
    if folder.exists() or folder.is_symlink():
        raise LabError(f"{folder} exists: name a new folder")
    files = sorted(
        path for path in (Path(__file__).parent / "template").iterdir() if path.is_file()
    )
    return [
        write(folder / path.name.replace("template", folder.resolve().name), read(path))
        for path in files
    ]


def list_cheats(tried: list[Trial]) -> Iterator[Trial]:
    """Yield the cheats of an exercise; `tried` are its trials: cheats are made from those that are right."""
    exercise = tried[0].exercise
    if not isinstance(exercise.subject, Numbers):
        # Wrong answers may compute the right results, with too many accesses: a grade then has "✓
        # right on ...".
        right_trials = [
            trial
            for trial in tried
            if trial.about != SOLUTION
            and isinstance(trial.graded, Grade)
            and any(line.ok and line.text.startswith("right") for line in trial.graded.lines)
        ]
        texts = [exercise.subject.source(trial.attempt[0]) for trial in right_trials]
        for about, text in make_cheats(exercise, [exercise.solution, *texts]):
            # another seed than the one with which results were stored: those are wrong now
            yield Trial(exercise, f"a cheat: {about}", (text,), seed=GRADED)


def list_trials(exercise: Exercise) -> Iterator[Trial]:
    """Yield the trials of an exercise: starting code, solution, wrong answers of ``wrong.toml``.

    Raises LabError if ``wrong.toml`` is damaged, or does not fit the kernel; the message names the
    wrong answer.
    """
    numbers = isinstance(exercise.subject, Numbers)
    yield Trial(exercise, START, exercise.subject.start if numbers else (exercise.start,))
    yield Trial(
        exercise, SOLUTION, exercise.subject.solution() if numbers else (exercise.solution,)
    )
    path = exercise.folder / "wrong.toml"
    if not path.is_file():
        return
    try:
        wrong = tomllib.loads(read(path))
    except tomllib.TOMLDecodeError as error:
        raise LabError(f"{path} is no TOML: {error}") from None
    for about, entry in wrong.items():
        # "says" is a part of the grader's answer; "edits" are of the starting code or, with "of", of
        # the solution
        if not isinstance(entry, dict) or not entry.get("says") or {*entry} - _KEYS:
            raise LabError(
                f"{path}, {about!r}: give it says, and edits, file or answer, and nothing else but of"
            )
        yield Trial(exercise, about, _make_attempt(exercise, about, entry), entry["says"])


def _make_attempt(exercise: Exercise, about: str, entry: dict) -> tuple:
    """Return the attempt that an entry of ``wrong.toml`` named `about` describes: a tuple of numbers, a path or a text.

    Raises LabError if an edit's old text does not occur exactly once.
    """
    if "answer" in entry:
        return tuple(entry["answer"])
    if "file" in entry:
        return (exercise.folder / entry["file"],)
    text = exercise.solution if entry.get("of") == "solution" else exercise.start
    for old, new in entry.get("edits", ()):
        if (count := text.count(old)) != 1:
            raise LabError(
                f"{exercise.folder / 'wrong.toml'}, {about!r}: {old!r} occurs {count} times, and an edit "
                "needs a text that occurs once"
            )
        text = text.replace(old, new)
    return (text,)
