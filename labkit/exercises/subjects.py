"""How attempts at exercises are run and judged: a kernel in place of a rung's, kernels on arrays, or numbers."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

import hostcuda
from hostcuda.errors import EngineError
from hostcuda.source import warnings_about
from labkit.base.errors import CheckFailed, LabError
from labkit.base.numerals import is_whole
from labkit.exercises.exercise import Case, Counts, LastLaunch
from labkit.ladder.rungs import rung
from labkit.ladder.source import as_path, cell_arguments, read
from labkit.ladder.variants import Variant, variant
from labkit.measure.compare import compare, compare_array, draw_integers, draw_reals, poison, tolerance
from labkit.spec.layers import LENET86, Layer
from labkit.spec.reference import conv_float64, error_scale

_TRIES = 100  # to draw a shape that a rung supports
LAYERS = {"layer 1": LENET86[0], "layer 2": LENET86[1]}
LAYER_1 = {"layer 1": LENET86[0]}
# Two values of K, because each is compiled anew: several rows of tiles with a rest, outputs that fill whole tiles, and
# a map smaller than a tile with more channels and maps than most loops have steps.
HIDDEN = (
    (Layer("several rows of tiles", C=2, H=40, W=23, M=5, K=7), 2),
    (Layer("whole tiles", C=1, H=38, W=54, M=3, K=7), 1),
    (Layer("less than a tile", C=5, H=9, W=13, M=18, K=4), 3),
)


def generator(*texts: str) -> np.random.Generator:
    """Random numbers that follow from texts: from a seed, and from what they are for."""
    return np.random.default_rng([*hashlib.sha256("\n".join(texts).encode()).digest()])


@dataclass(frozen=True)
class InPlaceOf:
    """A kernel in place of a rung's: it gets the rung's arguments and launch.

    Attributes
    ----------
    name : str
        Of the rung.
    letter : str, optional
        Of an exercise of the series: `Rung.solved` has the options of its launch.
    layers : mapping of str to Layer
        Those on which its goals are counted, with one image, by the names that messages give them.
    hidden : tuple of (Layer, batch)
        The shapes on which it is checked besides. Those that the variant does not support are left out.
    chosen : mapping, optional
        The options of its launch, if they are not those for which the solution is recorded.
    seed : str
        What inputs are drawn from: `drawn` sets it.
    moves : bool
        Whether outputs belong to other threads in a solution than in the starting code.
    """

    name: str
    letter: str = ""
    layers: Mapping[str, Layer] = field(default_factory=lambda: LAYERS)
    hidden: tuple[tuple[Layer, int], ...] = HIDDEN
    chosen: Mapping[str, object] | None = None
    seed: str = ""
    moves: bool = False
    headers = ("tensor.cuh",)  # the lab's own

    @cached_property
    def options(self) -> dict:
        """Of the rung, for this exercise."""
        return dict(rung(self.name).solved.get(self.letter, {}) if self.chosen is None else self.chosen)

    def drawn(self, shapes: str, values: str = "") -> Self:
        """The same with a hidden shape drawn from `shapes`, and inputs from `values`.

        Its K is that of another hidden shape: each K is compiled anew.
        """
        random, like = generator(shapes), variant(self.name, **self.options)
        for _ in range(_TRIES if shapes and self.hidden else 0):
            K = int(random.choice([layer.K for layer, _ in self.hidden]))
            C, H, W, M, batch = (int(random.integers(*each)) for each in ((1, 5), (K, 42), (K, 42), (1, 19), (1, 4)))
            if _supported(like, layer := Layer("a drawn shape", C=C, H=H, W=W, M=M, K=K)):
                return replace(self, hidden=(*self.hidden, (layer, batch)), seed=values)
        return replace(self, seed=values)

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """The hidden shapes, then the layers that are counted."""
        like = variant(self.name, **self.options)
        hidden = [Case(layer.name, (layer, batch)) for layer, batch in self.hidden if _supported(like, layer)]
        return (*hidden, *(Case(name, (layer, 1), counted=True) for name, layer in self.layers.items()))

    def variant(self, source: str) -> Variant:
        """The attempt as a variant."""
        return variant(self.name, source, **self.options)

    def source(self, attempt: Variant | Path | str) -> str:
        """The text of an attempt: of a variant, of a file, or the text itself."""
        if isinstance(attempt, Variant):
            wanted = self.variant(attempt.source)
            if (attempt.rung.name, dict(attempt.options)) != (wanted.rung.name, dict(wanted.options)):
                raise LabError(f"this is {attempt.label}, but the exercise asks for {wanted.label}: give it the kernel "
                               "of the cell that names this exercise in its first line")
        text = _text(attempt)
        self.variant(text)  # raises if it has other kernels than asked
        return text

    def prepare(self, source: str) -> None:
        """Compile what the cases need, side by side."""
        self.variant(source).precompile(*(case.what[0] for case in self.cases))

    def inputs(self, case: Case) -> list[tuple[np.ndarray, np.ndarray]]:
        """x and k of each run: integers, then real numbers where nothing is counted."""
        like, random = variant(self.name, **self.options), generator(self.seed, case.name)
        draws = (draw_integers,) if case.counted else (draw_integers, draw_reals)
        return [draw(like, *case.what, random) for draw in draws]

    def execute(self, source: str, case: Case, given: list[tuple]) -> Iterator[dict[str, np.ndarray]]:
        """Run on the `inputs`; yield y [B,M,Ho,Wo] of each run."""
        mine, (layer, batch) = self.variant(source), case.what
        with mine.plan(layer, batch) as plan:
            for x, k in given:
                plan.load(x, k)
                poison(plan, layer, batch, mine.io_dtype)
                plan.run()
                yield {"y": plan.result()}

    def compare(self, source: str, case: Case, runs: Sequence[Mapping[str, np.ndarray]]) -> None:
        """Raise CheckFailed at the first wrong output."""
        mine, (layer, batch) = self.variant(source), case.what
        for run, ((x, k), arrays) in enumerate(zip(self.inputs(case), runs, strict=True)):
            allowed = tolerance(mine.rounding, error_scale(x, k), layer.terms) if run else 0.0
            title = f"on {layer}, B = {batch} ({'real numbers' if run else 'integers'})"
            compare(arrays["y"], conv_float64(x, k), allowed, mine.io_dtype, title, (x, k))

    def measured(self, case: Case, runs: Sequence[Mapping[str, np.ndarray]]) -> Counts:
        """The largest error of a hidden shape's real numbers, relative to sum |x| |k| of the output."""
        if case.counted:
            return {}
        _, (x, k) = self.inputs(case)
        return {"largest_error": float((np.abs(runs[-1]["y"] - conv_float64(x, k)) / error_scale(x, k)).max())}

    def last_launch(self, message: str) -> LastLaunch:
        """The last launch of the rung, on the shape which a message of `compare` names."""
        layer = next(case.what[0] for case in self.cases if f"on {case.what[0]}, B" in message)
        launch = variant(self.name, **self.options).launches(layer)[-1]
        return LastLaunch(launch.kernel, launch.grid, launch.block, (layer.M, layer.Ho, layer.Wo), repr(layer))

    def warnings(self, source: str) -> str:
        """What the host's compiler warns of."""
        mine = self.variant(source)
        return warnings_about(**mine.compiler_arguments(mine.defines(self.cases[-1].what[0])))


@dataclass(frozen=True)
class Output:
    """An array that a kernel writes, as an argument of `launch`.

    Attributes
    ----------
    name : str
        As messages call it.
    expected : ndarray
        What it has to hold in the end: the reference. Shape and dtype are those of the array on the device.
    before : ndarray or number, optional
        What it holds before the launch; by default a NaN of its own, or an integer that is not expected, so that an
        element which no thread stores is wrong.
    allowed : float or ndarray
        The largest error of an element.
    """

    name: str
    expected: np.ndarray
    before: np.ndarray | float | None = None
    allowed: np.ndarray | float = 0.0

    def filled(self) -> np.ndarray:
        """The array before the launch."""
        dtype, before = self.expected.dtype, self.before
        if before is None and dtype.kind == "f":
            return np.full(self.expected.nbytes, 0xFF, np.uint8).view(dtype).reshape(self.expected.shape)
        if before is None:
            info, there = np.iinfo(dtype), {*self.expected.ravel().tolist()}
            before = next((value for value in range(info.max, info.min, -1) if value not in there), info.max)
        return np.array(np.broadcast_to(before, self.expected.shape), dtype, order="C")

    def compare(self, got: np.ndarray, where: str) -> None:
        """Raise CheckFailed if an element is wrong; the message says how many no thread has stored."""
        try:
            compare_array(f"{self.name}, {where},", got, self.expected, self.allowed)
        except CheckFailed as wrong:
            words = f"u{self.expected.itemsize}"
            left = int((got.view(words) == self.filled().view(words)).sum()) if self.before is None else 0
            unset = f"\n{left:,} of its elements hold what they held before the launch: no thread has stored them"
            raise CheckFailed(f"{wrong}{unset if left else ''}") from None


class Before(NamedTuple):
    """An `Output` as the child process gets it: its name, and what it holds before the launch."""

    name: str
    array: np.ndarray


class Launch(NamedTuple):
    """A launch of a kernel: `launch` makes one."""

    kernel: str
    arguments: tuple
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int


def launch(kernel: str, *arguments: object, grid: int | tuple, block: int | tuple, shared: int = 0) -> Launch:
    """A launch, for `Kernels`: ``launch("saxpy", n, 2.0, x, Output("y", 2 * x + y, before=y), grid=4, block=128)``.

    Parameters
    ----------
    kernel : str
        Its name.
    *arguments
        In the kernel's order: arrays that it reads, an `Output` for each that it writes, and scalars. A Python int is
        passed as an int, a float as a float; a NumPy scalar as what it is. Launches that get the same array or the
        same Output share it.
    grid, block : int or tuple of int
        Blocks, and threads of a block, in x or in x, y, z.
    shared : int
        Bytes of dynamic shared memory per block.
    """
    grid, block = ((size,) if isinstance(size, int) else tuple(size) for size in (grid, block))
    return Launch(kernel, arguments, (*grid, 1, 1)[:3], (*block, 1, 1)[:3], shared)


@dataclass(frozen=True)
class Kernels:
    """CUDA C++ on arrays, as of a ``%%cuda`` cell.

    Attributes
    ----------
    launches : callable
        Of random numbers, ``random``, a `numpy.random.Generator`, and of what a case holds, its arguments: the
        `launch`, or several in their order. Inputs that are drawn from `random` are others in each grading, so that no
        attempt can compute or store them. It is called twice, once for the inputs and once for the reference, and has
        to answer alike.
    cases : tuple of Case
    options : callable
        Of the same arguments: the options that the compiler gets for the case.
    headers : tuple of str
        Names that come with the exercise and may be included.
    hidden : sequence of sequences
        Of each number of a case, what is possible: a hidden shape that is another one in each grading.
    seed : str
        What inputs are drawn from: `drawn` sets it.
    """

    launches: Callable[..., Launch | Sequence[Launch]]
    cases: tuple[Case, ...] = ()
    options: Callable[..., tuple[str, ...]] = lambda *what: ()
    headers: tuple[str, ...] = ()
    hidden: Sequence[Sequence] = ()
    seed: str = ""

    def drawn(self, shapes: str, values: str = "") -> Self:
        """The same with a hidden shape drawn from `shapes`, and inputs from `values`."""
        if not (shapes and self.hidden):
            return replace(self, seed=values)
        random = generator(shapes)
        what = tuple(each[random.integers(len(each))] for each in self.hidden)
        names = [*inspect.signature(self.launches).parameters][1:]
        name = ", ".join(f"{name} = {value}" for name, value in zip(names, what, strict=True))
        first = [case.counted for case in self.cases].index(True)
        cases = (*self.cases[:first], Case(name, what), *self.cases[first:])
        return replace(self, cases=cases, seed=values)

    def source(self, attempt: object) -> str:
        """The text of an attempt: of a module of ``%%cuda``, of a file, or the text itself."""
        return _text(attempt)

    def prepare(self, source: str) -> None:
        """Compile what the cases need."""
        hostcuda.ensure_context()
        for case in self.cases:
            self._module(source, case)

    def inputs(self, case: Case) -> list[Launch]:
        """The launches of a case, with a `Before` in place of each `Output`."""
        launches, known = self.launched(case), {}

        def given(each: object) -> object:
            return known.setdefault(id(each), Before(each.name, each.filled())) if isinstance(each, Output) else each

        return [one._replace(arguments=tuple(map(given, one.arguments))) for one in launches]

    def execute(self, source: str, case: Case, given: list[Launch]) -> Iterator[dict[str, np.ndarray]]:
        """Launch the kernels of a case on its `inputs`; yield the arrays that they have written."""
        module = self._module(source, case)
        arrays = {id(each): each for one in given for each in one.arguments if isinstance(each, (np.ndarray, Before))}
        on_device = {key: hostcuda.driver.to_device(
            each.array if isinstance(each, Before) else np.ascontiguousarray(each)) for key, each in arrays.items()}
        for kernel, arguments, grid, block, shared in given:
            passed = [on_device[id(each)] if id(each) in on_device else _scalar(each) for each in arguments]
            module.get_function(kernel)(*passed, grid=grid, block=block, shared=shared)
        yield {each.name: hostcuda.driver.from_device_like(on_device[key], each.array)
               for key, each in arrays.items() if isinstance(each, Before)}

    def compare(self, source: str, case: Case, runs: Sequence[Mapping[str, np.ndarray]]) -> None:
        """Raise CheckFailed at the first wrong element."""
        (got,) = runs
        for each in (each for one in self.launched(case) for each in one.arguments if isinstance(each, Output)):
            each.compare(got[each.name], case.name)

    def measured(self, case: Case, runs: Sequence[Mapping[str, np.ndarray]]) -> Counts:
        """Nothing: the goals of kernels are counters."""
        return {}

    def launched(self, case: Case) -> Sequence[Launch]:
        """The launches of a case, with its inputs and what is expected."""
        found = self.launches(generator(self.seed, case.name), *case.what)
        return [found] if isinstance(found, Launch) else found

    def arguments(self, source: str, case: Case | None = None) -> dict:
        """The arguments of `SourceModule` for a case; by default for the one that is counted."""
        return cell_arguments(source, "attempt", *self.options(*(case or self.cases[-1]).what))

    def _module(self, source: str, case: Case):
        return hostcuda.compiler.SourceModule(**self.arguments(source, case))

    def warnings(self, source: str) -> str:
        """What the host's compiler warns of."""
        return warnings_about(**self.arguments(source))


@dataclass(frozen=True)
class Numbers:
    """An exercise that is answered by numbers.

    Attributes
    ----------
    count : callable
        Of the answer: what the goals are counted from, by the names of cases.
    start : tuple
        The answer that the page begins with.
    solution : callable
        Without arguments: an answer that meets the goals.
    cases : tuple of Case
        None: nothing is launched.
    """

    count: Callable[..., Mapping[str, Counts]]
    start: tuple = ()
    solution: Callable[[], tuple] = tuple
    cases: tuple[Case, ...] = ()

    def drawn(self, shapes: str, values: str = "") -> Self:
        """The same: nothing is launched, and nothing is drawn."""
        return self

    def counts(self, answer: tuple) -> Mapping[str, Counts]:
        """Of an answer.

        Raises
        ------
        LabError
            It has another number of values, or one of another type.
        """
        try:
            inspect.signature(self.count).bind(*answer)
        except TypeError:
            wanted = ", ".join(inspect.signature(self.count).parameters)
            raise LabError(f"the answer is {wanted}; this has {len(answer)} value{'s' * (len(answer) != 1)}") from None
        return self.count(*answer)


def whole_number(value: object, what: str, least: int, most: int) -> int:
    """A value of an answer by numbers that has to be an integer from `least` to `most`.

    Raises
    ------
    LabError
        It is none.
    """
    if not is_whole(value, least, most):
        raise LabError(f"{value!r} is no {what}; it is an integer from {least} to {most:,}")
    return int(value)


def _scalar(value: object) -> object:
    return np.int32(value) if isinstance(value, int) else np.float32(value) if isinstance(value, float) else value


def _supported(which: Variant, layer: Layer) -> bool:
    try:
        which.supports(layer)
    except EngineError:
        return False
    return True


def _text(attempt: object) -> str:
    text = getattr(attempt, "source", attempt)
    if isinstance(text, Path) or (isinstance(text, str) and text.strip()):
        path = as_path(text)
        return read(path) if path else text
    raise LabError(f"an attempt is a kernel cell's variant or module, a .cu file or its text, not {attempt!r}")
