"""Run and judge attempts at exercises: a kernel in place of a rung's, kernels on arrays, or numbers.

Of a kernel, the child process gets `inputs` and calls `prepare`, `warnings` and `execute`; its
parent calls `compare` and `measure`. So nothing of the expected results comes near the attempt.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

import hostcuda
from hostcuda import checking
from hostcuda.source import warnings_about
from labkit.base.errors import CheckFailed, LabError
from labkit.base.numerals import is_whole, shorten
from labkit.exercises.exercise import Case, Counts, LastLaunch
from labkit.ladder.rungs import rung
from labkit.ladder.source import as_path, cell_arguments, read
from labkit.ladder.variants import Variant, can_compute, variant
from labkit.measure.compare import (
    compare,
    compare_array,
    draw_integers,
    draw_large_integers,
    draw_reals,
    poison,
    tolerance,
)
from labkit.measure.symptoms import locate_elements
from labkit.spec.layers import LENET86, Layer
from labkit.spec.reference import conv_float64, error_scale

_SAME = 1e-5  # the relative difference up to which floats are those that a mistake gives
_TRIES = 100  # attempts to draw a shape that a rung supports
LAYERS = {"layer 1": LENET86[0], "layer 2": LENET86[1]}
LAYER_1 = {"layer 1": LENET86[0]}
# Only two values of K, because each one is compiled anew. The shapes: several rows of tiles with a
# rest, outputs that fill whole tiles, and a map smaller than a tile with more channels and maps
# than most loops have steps.
HIDDEN = (
    (Layer("several rows of tiles", C=2, H=40, W=23, M=5, K=7), 2),
    (Layer("whole tiles", C=1, H=38, W=54, M=3, K=7), 1),
    (Layer("less than a tile", C=5, H=9, W=13, M=18, K=4), 3),
)


def draw_floats(random: np.random.Generator, shape: int | Sequence[int]) -> np.ndarray:
    """Return float32 numbers of both signs up to 4096 that need every bit: copies in fewer bits differ from them."""
    return (random.integers(1 - 2**24, 2**24, shape) / 2**12).astype(np.float32)


def draw_summands(
    random: np.random.Generator, shape: int | Sequence[int], most: int | np.ndarray
) -> np.ndarray:
    """Return integers from -most / 4 to most [int64], for sums that are nearly as large as a format holds.

    So `most` is the format's largest number over the number of summands. Most of the integers are
    positive, so their sum grows, and a kernel that drops its upper bits is wrong.
    """
    return random.integers(-(most // 4), most + 1, shape)


def make_generator(*texts: str) -> np.random.Generator:
    """Return a random generator that is seeded with a hash of texts: a seed, and what the numbers are for."""
    return np.random.default_rng([*hashlib.sha256("\n".join(texts).encode()).digest()])


@dataclass(frozen=True)
class InPlaceOf:
    """A kernel in place of a rung's: it gets the rung's arguments and launch.

    Attributes
    ----------
    name : str
        The name of the rung.
    letter : str, optional
        The letter of an exercise of the series: by it, the rung's `solved` has options of the
        launch, {"tile": 32}.
    layers : mapping of str to Layer
        The layers on which its goals are counted, with one image, by their names in messages.
    hidden : tuple of (Layer, batch)
        More shapes on which it is checked. Shapes that the variant does not support are left out.
    chosen : mapping, optional
        The options of its launch, if they differ from those for which the solution is recorded.
    also : mapping of str to (Layer, mapping)
        More layers on which its goals are counted, each launched with options of its own.
    seed : str
        The seed of the inputs: `draw` sets it.
    moves : bool
        Whether outputs belong to other threads in a solution than in the starting code.
    exponents : (int, int)
        In the run with real numbers, maps differ by powers of two between these: 2^lowest to
        2^highest. A sum of integers has one unit for all of them.
    """

    name: str
    letter: str = ""
    layers: Mapping[str, Layer] = field(default_factory=lambda: LAYERS)
    hidden: tuple[tuple[Layer, int], ...] = HIDDEN
    chosen: Mapping[str, object] | None = None
    also: Mapping[str, tuple[Layer, Mapping[str, object]]] = field(default_factory=dict)
    seed: str = ""
    moves: bool = False
    exponents: tuple[int, int] = (0, 0)
    headers = ("tensor.cuh",)  # the lab's own

    @cached_property
    def options(self) -> dict:
        """The options of the launch: `chosen`, or those of the rung for the exercise `letter`, such as {"tile": 32}."""
        return dict(
            rung(self.name).solved.get(self.letter, {}) if self.chosen is None else self.chosen
        )

    def draw(self, shapes: str, values: str = "") -> Self:
        """Return a copy with one more hidden shape, drawn from `shapes`, and inputs from `values`.

        On a hidden shape, which no page names, an attempt is only checked. `shapes` and `values` are
        texts that seed the draws; with "" for `shapes` none is drawn. The drawn one has the K of
        another hidden shape, because a new K would be compiled anew.
        """
        random, rung_variant = make_generator(shapes), variant(self.name, **self.options)
        for _ in range(_TRIES if shapes and self.hidden else 0):  # until the rung supports one
            K = int(random.choice([layer.K for layer, _ in self.hidden]))
            # A small shape: up to 4 channels, 41 x 41 inputs, 18 maps and 3 images.
            C, H, W, M, batch = (
                int(random.integers(*limit))
                for limit in ((1, 5), (K, 42), (K, 42), (1, 19), (1, 4))
            )
            if can_compute(rung_variant, layer := Layer("a drawn shape", C=C, H=H, W=W, M=M, K=K)):
                return replace(self, hidden=(*self.hidden, (layer, batch)), seed=values)
        return replace(self, seed=values)

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """The inputs on which an attempt is run: a case per hidden shape, then one per layer whose goals are counted.

        The counted ones have one image.
        """
        rung_variant = variant(self.name, **self.options)
        hidden = [
            Case(layer.name, (layer, batch))
            for layer, batch in self.hidden
            if can_compute(rung_variant, layer)
        ]
        return (
            *hidden,
            *(Case(name, (layer, 1), counted=True) for name, layer in self.layers.items()),
            *(Case(name, (layer, 1), counted=True) for name, (layer, _) in self.also.items()),
        )

    def variant(self, source: str, case: str = "") -> Variant:
        """Return the source of an attempt as a variant of the rung, with the options of a case, by its name."""
        # `also`: name of a case -> (its layer, options of its launch)
        _, options = self.also.get(case, (None, {}))
        return variant(self.name, source, **{**self.options, **options})

    def source(self, attempt: Variant | Path | str) -> str:
        """Return the text of an attempt: of a variant, of a file, or the text itself.

        LabError if it is none of these, is of another rung or options, or has other kernels than
        the rung.
        """
        if isinstance(attempt, Variant):
            asked = self.variant(attempt.source)
            if (attempt.rung.name, dict(attempt.options)) != (asked.rung.name, dict(asked.options)):
                raise LabError(
                    f"this is {attempt.label}, but the exercise asks for {asked.label}: give it the kernel "
                    "of the cell that names this exercise in its first line"
                )
        text = _read_text(attempt)
        # made only because it raises LabError if the text has other kernels than the rung
        self.variant(text)
        return text

    def prepare(self, source: str) -> None:
        """Compile a source for the layers of all cases, in parallel."""
        attempt = self.variant(source)
        # layers with the exercise's options, then those with options of their own
        usual = [case.what[0] for case in self.cases if case.name not in self.also]
        attempt.precompile(*map(attempt.defines, usual))
        for name, (layer, _) in self.also.items():
            attempt = self.variant(source, name)
            attempt.precompile(attempt.defines(layer))

    def inputs(self, case: Case) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return images x and masks k of each run: of small integers, then of real numbers.

        A counted case has one run, of large integers.
        """
        rung_variant, random = (
            variant(self.name, **self.options),
            make_generator(self.seed, case.name),
        )
        if case.counted:
            # `what` is (layer, batch)
            return [draw_large_integers(rung_variant, *case.what, random)]
        integers, (x, k) = (
            draw(rung_variant, *case.what, random) for draw in (draw_integers, draw_reals)
        )
        # The masks of the maps, in random order, times powers of two from 2^lowest to 2^highest. If
        # these differ, sums in integers, which have one unit for all maps, are wrong.
        exponents = random.permutation(np.linspace(*self.exponents, len(k), dtype=int))
        return [integers, (x, np.ldexp(k, exponents[:, None, None, None]))]

    def execute(
        self, source: str, case: Case, inputs: list[tuple]
    ) -> Iterator[dict[str, np.ndarray]]:
        """Run a source on what `inputs` returned for the case; yield {"y": outputs [B,M,Ho,Wo]} of each run."""
        attempt, (layer, batch) = self.variant(source, case.name), case.what
        with attempt.plan(layer, batch) as plan:
            for x, k in inputs:
                plan.load(x, k)
                # fill y with NaN: an output that is not stored is wrong
                poison(plan)
                plan.run()
                yield {"y": plan.result()}

    def compare(self, source: str, case: Case, runs: Sequence[Mapping[str, np.ndarray]]) -> None:
        """Raise CheckFailed if an output of `execute` is wrong; `runs` has the arrays that each run yielded."""
        attempt, (layer, batch) = self.variant(source, case.name), case.what
        for run, ((x, k), arrays) in enumerate(zip(self.inputs(case), runs, strict=True)):
            # Run 0 has integers, whose sums are exact, so that the output is rounded once; run 1 has
            # real numbers.
            allowed, expected = 0.0, conv_float64(x, k)
            if run:
                allowed = tolerance(attempt.rounding, error_scale(x, k), layer.terms)
            else:
                expected = expected.astype(attempt.io_dtype).astype(np.float64)
            title = f"on {layer}, B = {batch} ({'real numbers' if run else 'integers'})"
            compare(arrays["y"], expected, allowed, attempt.io_dtype, title, (x, k))

    def measure(self, case: Case, runs: Sequence[Mapping[str, np.ndarray]]) -> Counts:
        """Return {"largest_error": error for real numbers over sum |x| |k| of the output}; {} for a counted case.

        `runs` has the arrays that each run of `execute` yielded.
        """
        if case.counted:  # it has no run with real numbers
            return {}
        _, (x, k) = self.inputs(case)  # the second run has real numbers
        return {
            "largest_error": float(
                (np.abs(runs[-1]["y"] - conv_float64(x, k)) / error_scale(x, k)).max()
            )
        }

    def last_launch(self, message: str) -> LastLaunch:
        """Return the last launch of the rung's kernels, from which it follows which thread computes an output.

        The layer is the one in `message`, of `compare`: "on LAYER, B = 2".
        """
        layer = next(case.what[0] for case in self.cases if f"on {case.what[0]}, B" in message)
        launch = variant(self.name, **self.options).launches(layer)[-1]
        return LastLaunch(
            launch.kernel, launch.grid, launch.block, (layer.M, layer.Ho, layer.Wo), repr(layer)
        )

    def warnings(self, source: str) -> str:
        """Return the warnings of the host's compiler about a source, as text."""
        attempt = self.variant(source)
        layer, _ = self.cases[-1].what  # any: the warnings are about the text
        return warnings_about(**attempt.compiler_arguments(attempt.defines(layer)))


@dataclass(frozen=True)
class Output:
    """An array that a kernel writes, as an argument of `launch`.

    Attributes
    ----------
    name : str
        The name in messages.
    expected : ndarray
        The values that it has to hold in the end, with the shape and dtype of the array on the
        device.
    before : ndarray or number, optional
        The values before the launch; by default a special NaN, or an integer that is not expected,
        so that an element which no thread stores is wrong.
    allowed : float or ndarray
        The largest error of an element.
    mistakes : callable
        Returns what typical wrong kernels give in place of `expected`, by a clause that says what
        they do: "numbers that are equal are counted, too". It is called if the array is wrong. Where two
        of them give the same, both are told.
    """

    name: str
    expected: np.ndarray
    before: np.ndarray | float | None = None
    allowed: np.ndarray | float = 0.0
    mistakes: Callable[[], Mapping[str, np.ndarray]] = dict

    def make_before(self) -> np.ndarray:
        """Return a new array with the values before the launch."""
        dtype, before = self.expected.dtype, self.before
        if before is None and dtype.kind == "f":  # a NaN with all bits set: no numbers give it
            return (
                np.full(self.expected.nbytes, 0xFF, np.uint8)
                .view(dtype)
                .reshape(self.expected.shape)
            )
        if before is None:  # the largest integer that is not expected
            info, values = np.iinfo(dtype), {*self.expected.ravel().tolist()}
            before = next(
                (value for value in range(info.max, info.min, -1) if value not in values), info.max
            )
        return np.array(np.broadcast_to(before, self.expected.shape), dtype, order="C")

    def compare(self, got: np.ndarray, where: str) -> None:
        """Raise CheckFailed if an element of `got` is wrong; it names the case, `where`, and the cause if known.

        That is how many elements are unset, and where, or a mistake that gives all elements of `got`.
        """
        try:
            compare_array(f"{self.name}, {where},", got, self.expected, self.allowed)
        except CheckFailed as wrong:
            # results that three mistakes or more give tell none of them
            clauses = [*self._list_mistakes_of(got)]
            causes = [f"It looks as if {', or '.join(clauses)}."] if 0 < len(clauses) <= 2 else []
            # given values before the launch, such as 0, may be right afterwards: they tell nothing
            unset = [] if self.before is not None else self._describe_unset(got)
            raise CheckFailed("\n".join([str(wrong), *unset, *causes])) from None

    def _describe_unset(self, got: np.ndarray) -> list[str]:
        """Return how many elements no thread has stored, and where they are; [] if there are none."""
        words = f"u{self.expected.itemsize}"  # compare bits: a NaN is not equal to itself
        unset = np.flatnonzero(got.view(words) == self.make_before().view(words)).tolist()
        if not unset:
            return []
        where = locate_elements(unset, got.shape)
        return [
            f"{len(unset):,} of its elements hold what they held before the launch: no thread has stored them"
            + (f". They are in {where}." if where else "")
        ]

    def _list_mistakes_of(self, got: np.ndarray) -> Iterator[str]:
        """Yield what kernels do that give all elements of `got`."""
        for clause, mistaken in self.mistakes().items():
            if (
                np.allclose(got, mistaken, rtol=_SAME, atol=_SAME**2, equal_nan=True)
                if got.dtype.kind == "f"
                else np.array_equal(got, mistaken)
            ):
                yield clause


class Before(NamedTuple):
    """An `Output` as the child process gets it: its name, and its values before the launch."""

    name: str
    array: np.ndarray


class ArrayLaunch(NamedTuple):
    """A launch of a kernel: `launch` makes one."""

    kernel: str
    arguments: tuple
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int  # bytes of dynamic shared memory per block
    first: int = 0  # the number of the block that the grader runs first


def launch(
    kernel: str,
    *arguments: object,
    grid: int | tuple,
    block: int | tuple,
    shared: int = 0,
    first: int = 0,
) -> ArrayLaunch:
    """Return a launch for `Kernels`: ``launch("fill", n, Output("y", np.ones(n)), grid=4, block=128)``.

    Parameters
    ----------
    kernel : str
        The kernel's name.
    *arguments
        In the kernel's order: arrays that it reads, an `Output` for each array that it writes, and
        scalars. A Python int is passed as an int, a float as a float, and a NumPy scalar as its own
        type. Launches that get the same array or the same Output share it.
    grid, block : int or tuple of int
        Blocks of the grid, and threads of a block, in x or in x, y, z.
    shared : int
        Bytes of dynamic shared memory per block.
    first : int
        The number of the block that the grader runs first: drawn from `random`, it keeps an attempt
        from relying on an order of the blocks.
    """
    grid, block = ((size,) if isinstance(size, int) else tuple(size) for size in (grid, block))
    # 1 in the dimensions that are not given
    return ArrayLaunch(kernel, arguments, (*grid, 1, 1)[:3], (*block, 1, 1)[:3], shared, first)


@dataclass(frozen=True)
class Kernels:
    """CUDA C++ kernels on arrays, like those of a ``%%cuda`` cell.

    Attributes
    ----------
    launches : callable
        Called with ``random``, a `numpy.random.Generator`, and the arguments that a case holds;
        returns the `launch`, or several in their order. Inputs that are drawn from `random` differ
        in each grading, so that no attempt can compute or store them. It is called twice, for the
        inputs and for the reference, and has to return the same both times.
    cases : tuple of Case
    options : callable
        Called with the arguments that a case holds; returns the compiler's options for the case.
    headers : tuple of str
        Headers that come with the exercise and may be included.
    hidden : sequence of sequences
        The possible values of each argument of a case: each grading draws a hidden shape from them.
    seed : str
        The seed of the inputs: `draw` sets it.
    """

    launches: Callable[..., ArrayLaunch | Sequence[ArrayLaunch]]
    cases: tuple[Case, ...] = ()
    options: Callable[..., tuple[str, ...]] = lambda *arguments: ()
    headers: tuple[str, ...] = ()
    hidden: Sequence[Sequence] = ()
    seed: str = ""

    def draw(self, shapes: str, values: str = "") -> Self:
        """Return a copy with a hidden shape drawn from `shapes`, and inputs from `values`: texts that seed the draws.

        The drawn case comes before the counted ones. With "" for `shapes` there is none.
        """
        if not (shapes and self.hidden):
            return replace(self, seed=values)
        random = make_generator(shapes)
        arguments = tuple(possible[random.integers(len(possible))] for possible in self.hidden)
        names = [*inspect.signature(self.launches).parameters][1:]  # without `random`
        # not strict: parameters with a default may be left out
        name = ", ".join(f"{name} = {value}" for name, value in zip(names, arguments, strict=False))
        first_counted = [case.counted for case in self.cases].index(True)
        cases = (*self.cases[:first_counted], Case(name, arguments), *self.cases[first_counted:])
        return replace(self, cases=cases, seed=values)

    def source(self, attempt: object) -> str:
        """Return the text of an attempt: of a module of ``%%cuda``, of a file, or the text itself."""
        return _read_text(attempt)

    def prepare(self, source: str) -> None:
        """Start the engine, and compile a source for all cases."""
        hostcuda.ensure_context()
        for case in self.cases:
            self._compile(source, case)

    def inputs(self, case: Case) -> list[ArrayLaunch]:
        """Return the launches of a case, with a `Before` in place of each `Output`.

        So the process in which the attempt runs has no expected values.
        """
        # id of an Output -> its Before: launches may share one
        launches, handed_over = (self.make_launches(case), {})

        def hide_expected(argument: object) -> object:
            """Return a `Before` for an `Output`, and any other argument unchanged."""
            if not isinstance(argument, Output):
                return argument
            return handed_over.setdefault(
                id(argument), Before(argument.name, argument.make_before())
            )

        return [
            call._replace(arguments=tuple(map(hide_expected, call.arguments))) for call in launches
        ]

    def execute(
        self, source: str, case: Case, inputs: list[ArrayLaunch]
    ) -> Iterator[dict[str, np.ndarray]]:
        """Do the launches that `inputs` returned for the case; yield once: name of an `Output` -> its array on exit."""
        module = self._compile(source, case)
        arguments_of_all = (argument for call in inputs for argument in call.arguments)
        # By id, because launches that share an array share its memory on the device.
        arrays = {
            id(array): array
            for array in arguments_of_all
            if isinstance(array, (np.ndarray, Before))
        }
        on_device = {
            key: hostcuda.driver.to_device(
                array.array if isinstance(array, Before) else np.ascontiguousarray(array)
            )
            for key, array in arrays.items()
        }
        for kernel, arguments, grid, block, shared, first in inputs:
            if checking.TOOLS:  # only in the engine's check mode
                checking.begin_with(first)  # this block: no attempt may rely on the order of blocks
            parameters = [
                on_device.get(id(argument), _as_scalar(argument)) for argument in arguments
            ]
            module.get_function(kernel)(*parameters, grid=grid, block=block, shared=shared)
        yield {
            output.name: hostcuda.driver.from_device_like(on_device[key], output.array)
            for key, output in arrays.items()
            if isinstance(output, Before)
        }

    def compare(self, source: str, case: Case, runs: Sequence[Mapping[str, np.ndarray]]) -> None:
        """Raise CheckFailed if an array of `execute`, which yields once, has a wrong element."""
        (got,) = runs
        for output in (
            argument for call in self.make_launches(case) for argument in call.arguments
        ):
            if isinstance(output, Output):
                output.compare(got[output.name], case.name)

    def measure(self, case: Case, runs: Sequence[Mapping[str, np.ndarray]]) -> Counts:
        """Return {}: nothing is measured from the results, because the goals of kernels are counters."""
        return {}

    def make_launches(self, case: Case) -> Sequence[ArrayLaunch]:
        """Return the launches of a case, with inputs and expected results; LabError if their function does not fit."""
        try:
            launches = self.launches(make_generator(self.seed, case.name), *case.what)
        except TypeError as error:
            raise LabError(
                f"the launches fail on {case.name}: {error}. Their function gets `random` first, a "
                "numpy.random.Generator from which it draws the inputs, then the values of the case; this "
                f"one has the parameters {inspect.signature(self.launches)}"
            ) from error
        return [launches] if isinstance(launches, ArrayLaunch) else launches

    def arguments(self, source: str, case: Case | None = None) -> dict:
        """Return keyword arguments of `SourceModule` for a case; by default for the last one, which is counted."""
        # "attempt": the file's name in messages; `options` gives the compiler's options for a case
        return cell_arguments(source, "attempt", *self.options(*(case or self.cases[-1]).what))

    def _compile(self, source: str, case: Case):
        """Return the SourceModule of a source for a case."""
        return hostcuda.compiler.SourceModule(**self.arguments(source, case))

    def warnings(self, source: str) -> str:
        """Return the warnings of the host's compiler about a source, as text."""
        return warnings_about(**self.arguments(source))


@dataclass(frozen=True)
class Numbers:
    """An exercise that is answered by numbers.

    Each try gets the counts of its answer, and nothing limits the tries: a loop over `lab.grade`
    finds 18b's number in 6 of them and 13c's in 24. That is accepted: the reader's own process
    counts, and could also compute the answer; what is to be learned is why a number is right.

    Attributes
    ----------
    count : callable
        Called with the answer; returns the counts for the goals, by the names of cases.
    start : tuple
        The answer that the page begins with.
    solution : callable
        Called without arguments; returns an answer that meets the goals.
    """

    count: Callable[..., Mapping[str, Counts]]
    start: tuple = ()
    solution: Callable[[], tuple] = tuple

    def draw(self, shapes: str, values: str = "") -> Self:
        """Return the subject itself: nothing is launched, and nothing is drawn."""
        return self

    def counts(self, answer: tuple) -> Mapping[str, Counts]:
        """Return the numbers by which an answer is judged, as {name of a case: {counter: number}}.

        LabError if it has too many or too few values.
        """
        try:
            inspect.signature(self.count).bind(*answer)
        except TypeError:
            names = ", ".join(inspect.signature(self.count).parameters)
            raise LabError(
                f"the answer is {names}; this has {len(answer)} value{'s' * (len(answer) != 1)}"
            ) from None
        return self.count(*answer)


def whole_number(value: object, what: str, least: int, most: int) -> int:
    """Return a reader's value as an int.

    LabError, with its name `what`, if it is no integer from `least` to `most`.
    """
    if not is_whole(value, least, most):
        raise LabError(f"{shorten(value)} is no {what}; it is an integer from {least} to {most:,}")
    return int(value)


def _as_scalar(value: object) -> object:
    """Return a scalar as the kernel's parameter takes it: Python's int and float are 64 bits wide, C's 32."""
    return (
        np.int32(value)
        if isinstance(value, int)
        else np.float32(value)
        if isinstance(value, float)
        else value
    )


def _read_text(attempt: object) -> str:
    """Return the text of an attempt: its `source` if it has one, the content of a file, or the text itself.

    Raises LabError if it is none of these, or an empty text.
    """
    text = getattr(attempt, "source", attempt)
    if isinstance(text, Path) or (isinstance(text, str) and text.strip()):
        path = as_path(text)
        return read(path) if path else text
    raise LabError(
        f"an attempt is a kernel cell's variant or module, a .cu file or its text, not {attempt!r}"
    )
