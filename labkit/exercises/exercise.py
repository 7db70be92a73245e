"""Define exercises: folders with a kernel to start from, its solution, and goals that can be counted.

    a_no_conflicts/
        exercise.py          EXERCISE = Exercise(...): shapes, launch, reference, goals, typical mistakes
        hints.md             a hint per paragraph, from the vaguest to the plainest
        a_no_conflicts.cu    the question, the starting code (between #ifdef SKELETON and #else) and the solution
        wrong.toml           wrong answers, each with a part of the sentence that it gets: `labkit.exercises.trial`

The lab's own exercises are in `series/`, in a folder per page: `04_tiling/a_no_conflicts` is
exercise 04a. Any other folder is an exercise, too, and is named by its path. ``labkit exercise new
FOLDER`` writes one to begin with.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from hostcuda.errors import EngineError
from hostcuda.source import code_only, kernel_names
from labkit.base.errors import LabError
from labkit.base.paths import SERIES, natural_key
from labkit.ladder.source import as_path, find_functions, read, select_view, with_functions

if TYPE_CHECKING:
    from labkit.exercises.subjects import InPlaceOf, Kernels, Numbers

Counts = Mapping[str, float]  # counters of one case, by their friendly names
# The limits of an attempt.
ATTEMPT_S = 300.0  # for the whole attempt, compiler included
RUN_S = 20.0  # of processor time for the launches of a case, which take less than a second
TEXT_S = 3  # of processor time for one of several texts on one case, without the compiler's
TEXT_WAIT_S = 15  # for the same, the compiler included: on a busy machine it waits, too
SOURCE_LINES, SOURCE_CHARACTERS = 1000, 1 << 16  # the rungs have up to 200 lines
FILE_BYTES = 128 << 20  # of the largest file that the compiler or a kernel writes

# Counters whose names do not follow a number well.
_WORDS = {
    "busiest_warp": "memory instructions of a warp",
    "two_way_warps": "warps that store to shared memory and load from it",
    "largest_atomic_result": "as the result of an atomic operation",
    "counter_results": "results of atomic operations on the counter",
    "constant_serialized": "repeated reads of constant memory",
    "constant_requests": "reads of constant memory",
}
# in place of a case's name, for counts of the attempt's text: see `labkit.exercises.text`
SOURCE = "source"


class Case(NamedTuple):
    """Inputs of one shape on which a kernel is run.

    Attributes
    ----------
    name : str
        The name in messages: "layer 2".
    what : object
        What the subject needs to make the inputs: for a convolution, a layer and a batch; for
        `Kernels`, a tuple of arguments.
    counted : bool
        Whether goals are counted on it; the other cases are hidden shapes, which are only checked.
    """

    name: str
    what: object
    counted: bool = False


class LastLaunch(NamedTuple):
    """The last launch of a convolution; it tells which thread computes an output."""

    kernel: str
    grid: Sequence[int]
    block: Sequence[int]
    outputs: tuple[int, int, int]  # the number of maps, and of their rows and columns
    layer: str  # the layer's repr


class Bound(NamedTuple):
    """A limit of a counter, by which a goal tells the work that the exercise asks for from other work.

    Attributes
    ----------
    counter : str
    value : float
        The limit; a share of another counter if `of` names one.
    is_least : bool
        Whether the counter is at least the limit; else it is at most the limit.
    of : str
        The other counter, or "".
    """

    counter: str
    value: float
    is_least: bool
    of: str = ""

    def holds(self, counts: Counts) -> bool:
        """Return whether these counts of one case keep to the limit."""
        # `value` is the limit, or a share of the counter that `of` names
        limit = self.value * counts.get(self.of, 0.0) if self.of else self.value
        number = counts.get(self.counter, 0.0)
        return number >= limit if self.is_least else number <= limit

    def __str__(self) -> str:
        """Return the limit in words: "at least 800 global load requests", "no lane exchanges"."""
        name = name_counter(self.counter)
        if self.of:
            share = Fraction(self.value).limit_denominator(99)
            name = f"{share} as many {name} as {name_counter(self.of)}"
        elif self.value or self.is_least:
            name = f"{format_number(self.value)} {name}"
        else:
            return f"no {name}"
        return f"at {'least' if self.is_least else 'most'} {name}"


@dataclass(frozen=True)
class Goal:
    """A number that an attempt has to reach.

    Attributes
    ----------
    what : str
        Its name and where it is counted: "wavefronts per shared load, layer 1".
    number : callable
        Computes the number from the counts of all cases: by the case's name, by "layer 1, gemm" for
        one kernel of a case, and by `SOURCE` for the attempt's text.
    at_most, at_least, exactly : float, optional
        One of them: the wanted number.
    words : str
        The goal in words that do not give the number, where the reader has to find it.
    weight : float
        The part of the points that the goals of the exercise share.
    predicted : str
        The name under which the page lets the reader predict this number.
    least : str
        In words, the work that it takes: the least, and for some the most. An attempt that does less
        or more reaches infinity, which never meets the goal.
    counters : tuple of str
        The counters that are added up, by their friendly names: the grade names the lines of the
        attempt in which they are counted.
    on : str
        Where they are counted: the name of a case, or of a case and a kernel, "layer 1, gemm".
    bounds : tuple of Bound
        The limits of other counters behind `least`.
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
    counters: tuple[str, ...] = ()
    on: str = ""
    bounds: tuple[Bound, ...] = ()

    def met(self, reached: float) -> bool:
        """Return whether this number meets the goal; NaN never does."""
        # one of `exactly`, `at_most` and `at_least` is given
        if self.exactly is not None:
            return reached == self.exactly
        return reached <= self.at_most if self.at_most is not None else reached >= self.at_least

    def describe(self, reached: float) -> str:
        """Return this number as text, "1.05"; with more digits if it misses the goal by less than these show."""
        text = format_number(reached)
        # "1.05, wanted at most 1.05" would puzzle where the number is 1.0501
        return (
            f"{reached:.6g}" if not self.met(reached) and self.wanted.endswith(f" {text}") else text
        )

    @property
    def wanted(self) -> str:
        """The goal in words: "at most 1.05"."""
        if self.words:  # written by the author: they do not give the number away
            return self.words
        for words, value in (
            ("exactly", self.exactly),
            ("at most", self.at_most),
            ("at least", self.at_least),
        ):
            if value is not None:
                return f"{words} {format_number(value)}"
        raise ValueError(f"the goal {self.what!r} wants nothing")


def counted(
    name: str | tuple[str, ...],
    on: str,
    per: str | float = 1,
    what: str | None = None,
    least: Mapping[str, float] | None = None,
    most: Mapping[str, float | tuple[str, float]] | None = None,
    **wanted: float | str,
) -> Goal:
    """Return a goal for one counter: ``counted("global_store_requests", "layer 1", per=800, exactly=1)``.

    Parameters
    ----------
    name : str or tuple of str
        The counter's friendly name, see `hostcuda.metrics`; several are added up, for work that could
        move from the first to another.
    on : str
        The case on which it is counted, by its name; with the name of a kernel, only in that
        kernel: "layer 1, gemm".
    per : str or float
        Another counter, or a number, by which it is divided.
    what : str, optional
        The goal's name; by default the first counter's name without underscores.
    least : mapping of str to float, optional
        Counters of the same case, with the least value that each has if the work is done. A goal
        that is met by doing nothing, such as no conflicts, needs them. By default only the divisor
        must not be zero.
    most : mapping of str to float or (str, float), optional
        Counters of the same case, with the largest value that each has if the work is done in the
        way that the exercise asks for. A goal that other work could meet, with reads beside it whose
        values nobody needs, needs them. They are looked at only where the number meets the goal.
        A pair is a share of another counter: ``{"busiest_warp": ("shared_load_instructions", 0.1)}``.
    **wanted
        One of `at_most`, `at_least`, `exactly`; and `words`, `weight` and `predicted`, as `Goal`
        takes them.
    """
    names = (name,) if isinstance(name, str) else name
    least = least or ({per: 1} if isinstance(per, str) else {})
    limits = {  # counter -> (the counter of which it is a share, or ""; the limit)
        counter: value if isinstance(value, tuple) else ("", value)
        for counter, value in (most or {}).items()
    }
    least_bounds = [Bound(counter, value, is_least=True) for counter, value in least.items()]
    most_bounds = [
        Bound(counter, value, is_least=False, of=of) for counter, (of, value) in limits.items()
    ]

    def compute_number(counts: Mapping[str, Counts]) -> float:
        """Return the counter over the divisor; for other work than the exercise asks for, an infinity.

        The infinity has the sign that misses the goal. `counts` maps the names of cases to their
        counts.
        """
        missed = -math.inf if "at_least" in wanted else math.inf
        if not all(bound.holds(counts[on]) for bound in least_bounds):
            return missed
        number = sum(counts[on].get(counter, 0.0) for counter in names)
        number /= counts[on][per] if isinstance(per, str) else per
        is_other = not all(bound.holds(counts[on]) for bound in most_bounds)
        return missed if is_other and goal.met(number) else number

    bounds = (*least_bounds, *most_bounds)
    goal = Goal(
        f"{what or name_counter(names[0])}, {on}",
        compute_number,
        least=join_words([*map(str, bounds)]),
        counters=names,
        on=on,
        bounds=bounds,
        **wanted,
    )
    return goal


def join_words(parts: Sequence[str]) -> str:
    """Return texts as a list in words: "a, b and c"; "" for none."""
    # "a, b" and "c"; for a single text the first is empty, for none both are
    texts = [*parts]
    before, last = ", ".join(texts[:-1]), "".join(texts[-1:])
    return " and ".join(filter(None, [before, last]))


def name_counter(name: str) -> str:
    """Return a counter's name as words: "global load requests"."""
    return _WORDS.get(name, name.replace("_", " "))


def format_number(value: float) -> str:
    """Return a number as text: "39,200", "1.05" (three digits below 100), "123.4", "infinite"; "none" for NaN."""
    if not math.isfinite(value):
        return "none" if math.isnan(value) else "infinite"
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.1f}"


@dataclass(frozen=True)
class Attempt:
    """What is known of an attempt, for `Mistake.when`.

    Attributes
    ----------
    source : str
        Its code, without comments and strings.
    counts : mapping of str to counts
        The counts of each counted case; empty if it did not come that far.
    findings : tuple of str
        The kinds of the sanitizer's findings. After a divergent barrier the others are left out:
        they may only follow from it.
    wrong : str
        The text of the grade's first line that is not met, such as "right" and the wrong elements;
        or "".
    """

    source: str
    counts: Mapping[str, Counts] = field(default_factory=dict)
    findings: tuple[str, ...] = ()
    wrong: str = ""

    def count(self, name: str, on: str) -> float:
        """Return the counter `name` of a case `on` ("layer 1", or "layer 1, gemm" for one kernel); 0 if not counted."""
        return self.counts.get(on, {}).get(name, 0)

    def matches(self, pattern: str | re.Pattern) -> bool:
        """Return whether a regular expression matches anywhere in the code."""
        return re.search(pattern, self.source) is not None

    @property
    def runs_wrong(self) -> bool:
        """Whether it runs, and the sanitizer has findings or the results are wrong."""
        # `wrong` is the first line of the grade with ✗: "right on ..." with ✗ says that results are not
        return bool(self.findings) or self.wrong.startswith("right")


@dataclass(frozen=True)
class Mistake:
    """A typical wrong answer, the sentence that it gets in place of the next hint, and the attempts that it fits.

    The sentence may be a function of the attempt, which puts the attempt's numbers into it.
    """

    sentence: str | Callable[[Attempt], str]
    when: Callable[[Attempt], object]  # it fits where this returns something true
    # Whether it fits attempts of many kinds: then what is known of a line comes first.
    vague: bool = False

    def describe(self, attempt: Attempt) -> str:
        """Return the sentence for an attempt that it fits."""
        return self.sentence if isinstance(self.sentence, str) else self.sentence(attempt)


@dataclass(frozen=True)
class Exercise:
    """An exercise, as its ``exercise.py`` defines it.

    Attributes
    ----------
    title : str
    subject : InPlaceOf, Kernels or Numbers
        How an attempt is run and judged, see `labkit.exercises.subjects`.
    goals : tuple of Goal
    start_reaches : tuple of float or None
        The number that the starting code reaches for each goal; None where nothing can be counted,
        or where the inputs decide.
    lines : int or None
        The most lines that may differ from the starting code, each of at most
        `labkit.ladder.source.LINE` characters.
    hints : tuple of str
        From the vaguest to the plainest: each attempt that misses the goal, or is wrong again,
        unlocks the next one. By default the paragraphs of ``hints.md`` in the folder.
    mistakes : tuple of Mistake
        The first one that fits gives its sentence in place of a hint.
    points : float
        The points that it counts for in a class.
    partial : float
        The share of the points for a kernel that is clean and right and misses the goal, from 0 to
        1.
    folder : Path
        The folder that it was loaded from: `load` fills it in.
    seed : str
        The seed from which its inputs and a hidden shape are drawn: `with_seed` sets it.
    """

    title: str
    subject: InPlaceOf | Kernels | Numbers
    goals: tuple[Goal, ...] = ()
    start_reaches: tuple[float | None, ...] = ()
    lines: int | None = None
    hints: tuple[str, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    points: float = 1
    partial: float = 0.25
    folder: Path = Path()
    seed: str = ""

    def with_seed(self, seed: str) -> Exercise:
        """Return a copy with inputs, and a hidden shape to check on, drawn from a seed: none are known beforehand."""
        # The shape is drawn from a hash of the seed. The process in which the attempt runs gets this
        # hash alone: with the seed, the attempt could compute its inputs and so its results.
        return replace(self, seed=seed, subject=self.subject.draw(_hash_for_shapes(seed), seed))

    @property
    def of_series(self) -> bool:
        """Whether it is one of the lab's own exercises, in `series/`."""
        return self.folder.parent.parent == SERIES  # as of series/04_tiling/a_no_conflicts

    @property
    def page(self) -> str:
        """The file name of its notebook, "04_tiling"; empty for an added exercise."""
        return self.folder.parent.name if self.of_series else ""

    @property
    def number(self) -> str:
        """The number by which its page calls it, "04a"; the name of its folder for an added exercise."""
        return _compose_number(self.folder) if self.of_series else self.folder.name

    @property
    def key(self) -> str:
        """The text by which the function `exercise` finds it: its number, or its path from the working directory."""
        return self.number if self.of_series else Path(os.path.relpath(self.folder)).as_posix()

    @cached_property
    def file(self) -> Path | None:
        """The file with its starting code and solution; None for an exercise that is answered by numbers."""
        path = self.folder / f"{self.folder.name}.cu"
        return path if path.is_file() else None

    @cached_property
    def start(self) -> str:
        """The starting code: the text after #ifdef SKELETON in its file; empty if it is answered by numbers."""
        return select_view(read(self.file), skeleton=True) if self.file else ""

    @cached_property
    def solution(self) -> str:
        """The lab's own solution: the text after #else in its file.

        Empty in the students' edition, and for an exercise that is answered by numbers.
        """
        return select_view(read(self.file), skeleton=False) if self.file else ""

    def attempt(self, answer: object) -> str:
        """Return the source text of an answer: text, the Path of a .cu file, or the variant or module of a cell.

        Text, also that of a file, may define only some functions of the starting code: the others are
        taken from there. LabError if the answer is none of these, is too long, has other kernels than
        the starting code, or if there is no start.
        """
        if not self.start:
            raise LabError(
                f"{self.folder} has no starting code: write it into {self.folder.name}.cu, between #ifdef "
                "SKELETON and #else"
            )
        if isinstance(answer, str):
            # before `as_path`, which looks for a file if the text can be a path
            _require_short(answer)
        if isinstance(answer, (str, Path)) and str(answer).strip():
            path = as_path(answer)
            answer = self._complete(_require_short(read(path) if path else answer))
        text = _require_short(self.subject.source(answer))
        start, kernels = (kernel_names(code_only(source)) for source in (self.start, text))
        if set(kernels) != set(start):
            wanted, given = (
                " and ".join(names) or "no __global__ void function" for names in (start, kernels)
            )
            must = (
                f"kernel{'s' * (len(start) > 1)} must be called {wanted}, as in the starting code"
            )
            raise LabError(
                f"exercise {self.number} asks for the kernel {wanted}, and this has {given}: the {must}"
            )
        return text

    def _complete(self, text: str) -> str:
        """Return a text with the starting code's other functions if it is a part of it, else the text itself."""
        kernels = {*kernel_names(code_only(text))}
        if kernels < {*kernel_names(code_only(self.start))} and (
            find_functions(text).keys() & find_functions(self.start).keys()
        ):
            return with_functions(self.start, text)
        return text


def _require_short(text: str) -> str:
    """Return the text unchanged; LabError if it has more characters or lines than an attempt may have."""
    if len(text) > SOURCE_CHARACTERS:
        raise LabError(
            f"this has more than {SOURCE_CHARACTERS:,} characters: an attempt may not have more"
        )
    if (lines := text.count("\n")) > SOURCE_LINES:
        raise LabError(
            f"this has {lines:,} lines and {len(text):,} characters: an attempt may have {SOURCE_LINES:,} "
            f"and {SOURCE_CHARACTERS:,}"
        )
    return text


_added: dict[str, Path] = {}  # the folders of added exercises, by their names


def _compose_number(folder: Path) -> str:
    """Return "04a" for the folder .../04_tiling/a_no_conflicts."""
    return folder.parent.name.partition("_")[0] + folder.name[0]


@functools.cache
def _list_series() -> dict[str, Path]:
    """Map the numbers of the lab's own exercises, such as "04a", to their folders, in the order of the numbers."""
    # git leaves a folder with a __pycache__ of an exercise that is gone
    files = SERIES.glob("*_*/[a-z]_*/exercise.py")
    folders = {_compose_number(path.parent): path.parent for path in files}
    # not by their paths: 07_sizes, with 07c, comes after 07_tuning
    return {number: folders[number] for number in sorted(folders, key=natural_key)}


def add(folder: Path | str) -> Exercise:
    """Load the exercise in a folder, register it under the folder's name for `by_name`, and return it."""
    added = load(Path(folder))
    _added[added.number] = added.folder
    return added


def load(folder: Path) -> Exercise:
    """Execute a folder's ``exercise.py``; return its EXERCISE.

    LabError if there is none, or executing it fails.
    """
    path = folder.expanduser().resolve() / "exercise.py"
    if not path.is_file():
        raise LabError(
            f"{folder} is no exercise: it has no exercise.py. `labkit exercise new {folder}` writes one"
        )
    spec = importlib.util.spec_from_file_location(f"exercise of {path.parent}", path)
    # dataclasses look their module up there
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except EngineError:  # its message says already what to do
        raise
    except (Exception, SystemExit) as error:
        raise LabError(f"{path} fails: {type(error).__name__}: {error}") from error
    if not isinstance(defined := getattr(module, "EXERCISE", None), Exercise):
        raise LabError(f"{path} defines no exercise: write EXERCISE = Exercise(...)")
    return replace(
        defined, folder=path.parent, hints=defined.hints or _read_hints(path.with_name("hints.md"))
    )


def _read_hints(path: Path) -> tuple[str, ...]:
    """Return the paragraphs of a file, each as one line; none if there is no such file."""
    return (
        tuple(" ".join(paragraph.split()) for paragraph in read(path).strip().split("\n\n"))
        if path.is_file()
        else ()
    )


_load_of_series = functools.cache(load)


def exercises() -> dict[str, Exercise]:
    """Map numbers to exercises: those of the series in the order of the pages, then the added ones by folder name."""
    return {
        **{name: _load_of_series(folder) for name, folder in _list_series().items()},
        **{name: load(folder) for name, folder in _added.items()},
    }


def _find_folder(name: str) -> Path | None:
    """Return the folder of the exercise that is called so, or None.

    A number, "04a", "4a" or "p3b", finds one of the series. Otherwise the last part of a name or
    path, without regard to case, finds an added exercise: another person may keep its folder at
    another place.
    """
    # "4a" is made "04a", "p3b" is made "P3b"; :0>2 puts zeros in front, up to two characters
    number = re.fullmatch(r"(\d\d?|P\d\d?)([a-z])", name.strip(), re.IGNORECASE)
    key = f"{number[1].upper():0>2}{number[2].lower()}" if number else ""
    if folder := _list_series().get(key):
        return folder
    last_name = PurePath(name.strip()).name.casefold()
    return next(
        (folder for number, folder in _added.items() if number.casefold() == last_name), None
    )


def by_name(name: str) -> Exercise:
    """Return the lab's exercise with this number, or the added one whose folder's name ends this name or path.

    It opens no folder that the name chooses, so the name may come from a stranger. Raises LabError
    if there is no such exercise; the message lists the exercises that exist.
    """
    if folder := _find_folder(name):
        # One of the series is loaded once per process, an added one each time: its author may be
        # changing it.
        return _load_of_series(folder) if folder in _list_series().values() else load(folder)
    raise LabError(
        f"there is no exercise {name[:60]!r}; there are {', '.join((*_list_series(), *_added))}"
    )


def exercise(which: str | Path) -> Exercise:
    """Return the exercise with this number, "04a", or the one in this folder, whose ``exercise.py`` is executed.

    For names that students write, use `by_name`. LabError if there is no such exercise (the message
    lists those that exist), or if the folder's fails.
    """
    name = str(which).strip()
    is_path = bool(name) and (
        isinstance(which, Path) or "/" in name or os.sep in name or Path(name).is_dir()
    )
    named = _find_folder(name)  # the folder of a known exercise, or None
    # A number of the series wins over a folder of that name; an existing folder over an added
    # exercise.
    if (
        is_path
        and named not in _list_series().values()
        and (named is None or Path(name).expanduser().is_dir())
    ):
        return load(Path(name))
    try:
        return by_name(name)
    except LabError as error:
        raise LabError(f"{error}, and any exercise's folder, by its path") from None


def _hash_for_shapes(seed: str) -> str:
    """Return a hash (64 hex digits) of the seed, from which shapes are drawn; "" without a seed.

    The child process gets this hash and not the seed, so that the attempt cannot compute its
    inputs.
    """
    return hashlib.sha256(f"{seed}\nshapes".encode()).hexdigest() if seed else ""


def hand_over(exercise: Exercise, source: str, folder: Path) -> None:
    """Write an exercise, an attempt's source and the cases' inputs into a folder, for `receive` in a child process.

    The solution, wrong answers, the seed and the expected results are left out: the attempt runs in
    that process, and could read them.
    """
    (folder / "exercise").mkdir()
    for path in exercise.folder.iterdir():
        # `exercise.file` has the solution, wrong.toml the wrong answers
        if path.is_file() and path.name != "wrong.toml" and path != exercise.file:
            (folder / "exercise" / path.name).write_bytes(path.read_bytes())
    (folder / "attempt.cu").write_text(source, encoding="utf-8")
    # The child draws the same hidden shape, one that no page names, from a hash of the seed. With the
    # seed itself the attempt could compute the inputs, and so the results, of every case.
    (folder / "shapes").write_text(_hash_for_shapes(exercise.seed), encoding="utf-8")
    (folder / "inputs").write_bytes(
        pickle.dumps([*map(exercise.subject.inputs, exercise.subject.cases)])
    )


def receive(folder: Path) -> tuple[Exercise, str]:
    """Return (exercise without its solution, source of the attempt) from a folder that `hand_over` has written."""
    loaded = load(folder / "exercise")
    # from the hash in this file the subject draws the same shape, unknown to the attempt, as in the parent
    subject = loaded.subject.draw((folder / "shapes").read_text(encoding="utf-8"))
    return replace(loaded, subject=subject), (folder / "attempt.cu").read_text(encoding="utf-8")
