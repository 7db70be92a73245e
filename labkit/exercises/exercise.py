"""What an exercise is: a folder with a kernel to start from, its solution, and goals that can be counted.

    a_no_conflicts/
        exercise.py          EXERCISE = Exercise(...): shapes, launch, reference, goals, hints, typical mistakes
        a_no_conflicts.cu    what is asked, the starting code and the solution
        wrong.toml           wrong answers, each with a part of the sentence that it gets: `labkit.exercises.trial`

Starting code and solution are two views of one file, so that they cannot drift apart:

    #ifdef SKELETON
        __shared__ float tile[SIDE][SIDE];
    #else
        __shared__ float tile[SIDE][SIDE + 2];
    #endif

The lab's own exercises are in `series/`, in a folder per page: `04_tiling/a_no_conflicts` is exercise 04a. Any other
folder is an exercise, too, and is named by its path. ``labkit exercise new FOLDER`` writes one to begin with.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import math
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from hostcuda.errors import EngineError
from hostcuda.source import code_only, kernel_names
from labkit.base.errors import LabError
from labkit.base.paths import SERIES
from labkit.ladder.source import read, view

if TYPE_CHECKING:
    import numpy as np

Counts = Mapping[str, float]  # counters of one case, by their friendly names
# What an attempt may take of the machine.
ATTEMPT_S = 300.0  # for all of it, compiler included
RUN_S = 20.0  # of processor time, for the launches of a case: they take less than a second
SOURCE_LINES, SOURCE_CHARACTERS = 1000, 1 << 16  # the rungs have up to 200 lines
FILE_BYTES = 128 << 20  # of the largest file that the compiler or a kernel writes

SOURCE = "source"  # in place of a case: what is counted in the attempt's text, see `labkit.exercises.text`


class Case(NamedTuple):
    """What a kernel is run on.

    Attributes
    ----------
    name : str
        As messages call it: "layer 2".
    what : object
        What the subject needs to make the inputs: for a convolution, a layer and a batch; for `Kernels`, a tuple of
        arguments.
    counted : bool
        Whether goals are counted on it; the other cases are hidden shapes, for the check alone.
    """

    name: str
    what: object
    counted: bool = False


class LastLaunch(NamedTuple):
    """The last launch of a convolution, to say which thread computes an output."""

    kernel: str
    grid: Sequence[int]
    block: Sequence[int]
    outputs: tuple[int, int, int]  # maps, and their rows and columns
    layer: str  # its repr


class Subject(Protocol):
    """How an attempt at an exercise is run and judged. The child process executes, the parent compares."""

    cases: Sequence[Case]
    headers: Sequence[str]  # those that come with the exercise: a kernel may include them

    def drawn(self, shapes: str, values: str = "") -> Self:
        """The same with a hidden shape drawn from the text `shapes`, and inputs drawn from the text `values`."""

    def inputs(self, case: Case) -> object:
        """What the child process gets for a case: inputs, and nothing of what is expected."""

    def source(self, attempt: object) -> str:
        """The text of an attempt; raises LabError if it cannot be one."""

    def prepare(self, source: str) -> None:
        """Compile what the cases need."""

    def execute(self, source: str, case: Case, given: object) -> Iterable[dict[str, np.ndarray]]:
        """Run the kernel on a case, with its `inputs`, once or several times; yield the arrays that each run writes."""

    def compare(self, source: str, case: Case, runs: Sequence[Mapping[str, np.ndarray]]) -> None:
        """Raise CheckFailed if an array is wrong."""

    def measured(self, case: Case, runs: Sequence[Mapping[str, np.ndarray]]) -> Counts:
        """Numbers for goals that follow from the results, beside the counters."""

    def warnings(self, source: str) -> str:
        """What the host's compiler warns of."""

    def last_launch(self, message: str) -> LastLaunch:
        """Of a convolution: that of the shape which a message of `compare` names."""


@dataclass(frozen=True)
class Goal:
    """A number that an attempt has to reach.

    Attributes
    ----------
    what : str
        Its name and where it is counted: "wavefronts per shared load, layer 1".
    number : callable
        Of the counts of all cases, by the case's name; of one kernel of a case by "layer 1, gemm"; of the attempt's
        text by `SOURCE`.
    at_most, at_least, exactly : float, optional
        One of them: what is wanted.
    words : str
        What is wanted, in place of the number: for a number that the reader has to find.
    weight : float
        Its part of the points that the goals of the exercise share.
    predicted : str
        The name under which the page lets the reader predict this number.
    least : str
        In words, the work that it takes: the number of an attempt that does less is infinite, and never what is wanted.
    """

    what: str
    number: Callable[[Mapping[str, Counts]], float]
    at_most: float | None = None
    at_least: float | None = None
    exactly: float | None = None
    words: str = ""
    weight: float = 1
    predicted: str = ""
    least: str = ""

    def met(self, reached: float) -> bool:
        """Whether this number is what is wanted; NaN never is."""
        if self.exactly is not None:
            return reached == self.exactly
        return reached <= self.at_most if self.at_most is not None else reached >= self.at_least

    @property
    def wanted(self) -> str:
        """The goal in words: "at most 1.05"."""
        if self.words:
            return self.words
        for words, value in (("exactly", self.exactly), ("at most", self.at_most), ("at least", self.at_least)):
            if value is not None:
                return f"{words} {number(value)}"
        raise ValueError(f"the goal {self.what!r} wants nothing")


def counted(
    name: str, on: str, per: str | float = 1, what: str | None = None, least: Mapping[str, float] | None = None,
    **wanted: float | str,
) -> Goal:
    """A goal for one counter: ``counted("global_store_requests", "layer 1", per=800, what="stores", exactly=1)``.

    Parameters
    ----------
    name : str
        The counter's friendly name, see `hostcuda.metrics`.
    on : str
        The name of the case on which it is counted; with the name of a kernel, that kernel's share: "layer 1, gemm".
    per : str or float
        Another counter, or a number, by which it is divided.
    what : str, optional
        Its words; by default the counter's name without underscores.
    least : mapping of str to float, optional
        Counters of the same case, and how large they are at least where the work is done: a goal that is met by doing
        nothing, such as no conflicts, needs them. By default there is something to divide by.
    **wanted
        One of `at_most`, `at_least`, `exactly`, and its `words`, `weight` and `predicted`, as `Goal` takes them.
    """

    least = least or ({per: 1} if isinstance(per, str) else {})

    def reached(counts: Mapping[str, Counts]) -> float:
        if any(counts[on].get(each, 0.0) < value for each, value in least.items()):
            return -math.inf if "at_least" in wanted else math.inf
        return counts[on].get(name, 0.0) / (counts[on][per] if isinstance(per, str) else per)

    words = " and ".join(f"at least {number(value)} {each.replace('_', ' ')}" for each, value in least.items())
    return Goal(f"{what or name.replace('_', ' ')}, {on}", reached, least=words, **wanted)


def number(value: float) -> str:
    """A count or a ratio as messages show it: "39,200", "1.05"."""
    if value != value:
        return "none"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3g}" if abs(value) < 100 else f"{value:,.1f}"


@dataclass(frozen=True)
class Attempt:
    """What is known of an attempt, for `Mistake.when`.

    Attributes
    ----------
    source : str
        Its code, without comments and strings.
    counts : mapping of str to counts
        Of each counted case; empty if it did not come that far.
    findings : tuple of str
        The kinds of the sanitizer's findings. After a divergent barrier others may only follow from it, and are left
        out.
    wrong : str
        What is wrong with its results; empty if nothing is.
    """

    source: str
    counts: Mapping[str, Counts] = field(default_factory=dict)
    findings: tuple[str, ...] = ()
    wrong: str = ""

    def count(self, name: str, on: str) -> float:
        """Return the counter of a case, or of one kernel of a case; 0 if it did not come that far."""
        return self.counts.get(on, {}).get(name, 0)

    @property
    def runs_wrong(self) -> bool:
        """Whether it runs, and the sanitizer has findings or the results are wrong."""
        return bool(self.findings) or self.wrong.startswith("right")


@dataclass(frozen=True)
class Mistake:
    """A typical wrong answer, and the sentence that it gets in place of the next hint."""

    sentence: str
    when: Callable[[Attempt], bool]


@dataclass(frozen=True)
class Exercise:
    """An exercise, as its ``exercise.py`` defines it.

    Attributes
    ----------
    title : str
    subject : Subject
        How an attempt is run and judged.
    goals : tuple of Goal
    lines : int or None
        The most lines that may differ from the starting code.
    hints : tuple of str
        From the vaguest to the plainest: each attempt that misses the goal, or is wrong again, unlocks the next.
    mistakes : tuple of Mistake
        The first that fits says its sentence in place of a hint.
    points : float
        What it counts for in a class.
    partial : float
        The share of the points for a kernel that is clean and right and misses the goal, from 0 to 1.
    folder : Path
        Where it was found: `exercise` fills it in.
    seed : str
        What its inputs and a hidden shape are `drawn` from.
    """

    title: str
    subject: Subject
    goals: tuple[Goal, ...] = ()
    lines: int | None = None
    hints: tuple[str, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    points: float = 1
    partial: float = 0.25
    folder: Path = Path()
    seed: str = ""

    def drawn(self, seed: str) -> Exercise:
        """The same with inputs and a hidden shape that follow from a seed: who does not know it cannot know them."""
        return replace(self, seed=seed, subject=self.subject.drawn(_shapes(seed), seed))

    @property
    def of_series(self) -> bool:
        """Whether it is one of the lab's own."""
        return self.folder.parent.parent == SERIES

    @property
    def page(self) -> str:
        """The file name of the notebook that poses it: "04_tiling"; empty for an exercise of one's own."""
        return self.folder.parent.name if self.of_series else ""

    @property
    def number(self) -> str:
        """What its page calls it, "04a"; the name of its folder for an exercise of one's own."""
        return _number(self.folder) if self.of_series else self.folder.name

    @property
    def key(self) -> str:
        """What `exercise` finds it by, here and now: the number, or the path."""
        return self.number if self.of_series else Path(os.path.relpath(self.folder)).as_posix()

    @cached_property
    def file(self) -> Path | None:
        """The file with its starting code and solution; None for an exercise that is answered by numbers."""
        path = self.folder / f"{self.folder.name}.cu"
        return path if path.is_file() else None

    @cached_property
    def start(self) -> str:
        """The starting code; empty for an exercise that is answered by numbers."""
        return view(read(self.file), skeleton=True) if self.file else ""

    @cached_property
    def solution(self) -> str:
        """The lab's own solution; empty for an exercise that is answered by numbers."""
        return view(read(self.file), skeleton=False) if self.file else ""

    def attempt(self, given: object) -> str:
        """The text of an attempt.

        Raises LabError if it cannot be one, is too long, or has other kernels than the starting code; or there is none.
        """
        if not self.start:
            raise LabError(f"{self.folder} has no starting code: write it into {self.folder.name}.cu, between #ifdef "
                           "SKELETON and #else")
        if isinstance(given, str):
            _short(given)  # before it is read
        text = _short(self.subject.source(given))
        asked, found = (kernel_names(code_only(source)) for source in (self.start, text))
        if set(found) != set(asked):
            wanted, has = (" and ".join(names) or "no __global__ void function" for names in (asked, found))
            must = f"kernel{'s' * (len(asked) > 1)} must be called {wanted}, as in the starting code"
            raise LabError(f"exercise {self.number} asks for the kernel {wanted}, and this has {has}: the {must}")
        return text


def _short(text: str) -> str:
    if len(text) > SOURCE_CHARACTERS:
        raise LabError(f"this has more than {SOURCE_CHARACTERS:,} characters: an attempt may not have more")
    if (lines := text.count("\n")) > SOURCE_LINES:
        raise LabError(f"this has {lines:,} lines and {len(text):,} characters: an attempt may have {SOURCE_LINES:,} "
                       f"and {SOURCE_CHARACTERS:,}")
    return text


# ---------------------------------------------------------------------------------------------------------------------
# Where they are

_added: dict[str, Path] = {}  # folders by the name of the exercise


def _number(folder: Path) -> str:
    return folder.parent.name.partition("_")[0] + folder.name[0]


@functools.cache
def _series() -> dict[str, Path]:
    """The folders of the lab's own exercises by their numbers, in the order of the pages."""
    return {_number(folder): folder for folder in sorted(SERIES.glob("*_*/[a-z]_*"))}


def add(folder: Path | str) -> Exercise:
    """Let an exercise of one's own be found by the name of its folder, as those of the series are by their numbers."""
    found = load(Path(folder))
    _added[found.number] = found.folder
    return found


def load(folder: Path) -> Exercise:
    """The exercise in a folder. Raises LabError if there is none, or its ``exercise.py`` fails."""
    path = folder.expanduser().resolve() / "exercise.py"
    if not path.is_file():
        raise LabError(f"{folder} is no exercise: it has no exercise.py. `labkit exercise new {folder}` writes one")
    spec = importlib.util.spec_from_file_location(f"exercise of {path.parent}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except EngineError:
        raise
    except Exception as error:
        raise LabError(f"{path} fails: {type(error).__name__}: {error}") from error
    if not isinstance(found := getattr(module, "EXERCISE", None), Exercise):
        raise LabError(f"{path} defines no exercise: write EXERCISE = Exercise(...)")
    return replace(found, folder=path.parent)


_of_series = functools.cache(load)


def exercises() -> dict[str, Exercise]:
    """All exercises by their numbers, in the order of the pages; then those that were added."""
    return {**{name: _of_series(folder) for name, folder in _series().items()},
            **{name: load(folder) for name, folder in _added.items()}}


def _folder(name: str) -> Path | None:
    """Return the folder of the lab's exercise with this number, or of the added one that a name or a path ends with."""
    match = re.fullmatch(r"(\d\d?|P\d)([a-z])", name.strip(), re.IGNORECASE)
    if folder := _series().get(f"{match[1].upper():0>2}{match[2].lower()}" if match else ""):
        return folder
    own = PurePath(name.strip()).name.casefold()  # others may keep it at another place
    return next((folder for number, folder in _added.items() if number.casefold() == own), None)


def by_name(name: str) -> Exercise:
    """Return the lab's exercise with this number, or the added one that a name or a path ends with.

    No path is followed, so the name may be one that a stranger has written. Raises LabError if there is no such
    exercise; the message lists those there are.
    """
    if folder := _folder(name):
        return _of_series(folder) if folder in _series().values() else load(folder)
    raise LabError(f"there is no exercise {name[:60]!r}; there are {', '.join((*_series(), *_added))}")


def exercise(which: str | Path) -> Exercise:
    """The exercise that a page calls by this number, "04a", or that lies in this folder, whose code is executed.

    What is handed in is looked up by `by_name`. Raises LabError if there is no such exercise; the message lists those
    there are; or if the folder has none, or one that fails.
    """
    text = str(which).strip()
    own = bool(text) and (isinstance(which, Path) or "/" in text or os.sep in text or Path(text).is_dir())
    folder = _folder(text)
    if own and folder not in _series().values() and (folder is None or Path(text).expanduser().is_dir()):
        return load(Path(text))
    try:
        return by_name(text)
    except LabError as error:
        raise LabError(f"{error}, and any folder of an exercise, given by its path") from None


def _shapes(seed: str) -> str:
    """What shapes are drawn from: a child process knows it, and it tells nothing of the seed."""
    return hashlib.sha256(f"{seed}\nshapes".encode()).hexdigest() if seed else ""


def hand_over(asked: Exercise, source: str, folder: Path) -> None:
    """Write what a child process reads: `received` gives it back there.

    What stays here: the solution, wrong answers, the seed, and what is expected.
    """
    (folder / "exercise").mkdir()
    for path in asked.folder.iterdir():
        if path.is_file() and path.name != "wrong.toml" and path != asked.file:
            (folder / "exercise" / path.name).write_bytes(path.read_bytes())
    (folder / "attempt.cu").write_text(source, encoding="utf-8")
    (folder / "shapes").write_text(_shapes(asked.seed), encoding="utf-8")
    (folder / "inputs").write_bytes(pickle.dumps([*map(asked.subject.inputs, asked.subject.cases)]))


def received(folder: Path) -> tuple[Exercise, str]:
    """The exercise, without its solution, and the text of the attempt that `hand_over` has written."""
    found = load(folder / "exercise")
    subject = found.subject.drawn((folder / "shapes").read_text(encoding="utf-8"))
    return replace(found, subject=subject), (folder / "attempt.cu").read_text(encoding="utf-8")
