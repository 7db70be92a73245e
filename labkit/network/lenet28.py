"""The network lenet28, trained on the engine at hand by the kernels of an experiment.

    image [28,28] -> c1 [6,24,24]: masks of 5 x 5 and a bias per map, sigmoid
                  -> s1 [6,6,6]: one filter of 4 x 4 for all maps, stride 4, one bias, sigmoid
                  -> f [10]: fully connected 216 -> 10 with biases, sigmoid

The loss of an image is the sum over the ten outputs of the binary cross-entropy, whose derivative by the value before
the last sigmoid is output - target. A step subtracts rate x gradient of one image, or of the mean over a mini-batch.
The rate is that of f and of s1's filter; as in report 001, the rates of c1 are the 24 x 24th part of it, and that of
s1's bias the 216th: each of these gradients is a sum of so many terms.

The kernels are in cuda_src/training/lenet28: a file per experiment, which replaces the kernels that it is about.
"""

from __future__ import annotations

import functools
import re
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from tqdm import tqdm

from labkit import cuda
from labkit.base.errors import LabError
from labkit.base.paths import cuda_src
from labkit.ladder.buffers import Buffers
from labkit.ladder.rung import tiles
from labkit.ladder.source import code_only, kernel_names, module_arguments
from labkit.measure.check import Compared
from labkit.network.lenet28_experiments import ARGUMENTS, EXPERIMENTS, FILES, TYPES, WRITES, file_of
from labkit.network.lenet28_reference import (
    Sizes,
    backward_c1,
    backward_s1,
    before_c1,
    before_f,
    before_s1,
    initial_weights,
    parameter_gradients,
    random_sizes,
    sigmoid,
    targets,
)
from labkit.spec.devices import device

if TYPE_CHECKING:
    from labkit.evidence.profile import Profile
    from labkit.evidence.sanitize import Findings

U = 2.0**-24  # the largest relative error of one rounding to nearest in float32
MOST_ROWS = 128  # rows of blocks that share a mini-batch
FORWARD_BATCH = 256  # images of a forward pass without training
MOST_PER_LAUNCH = 10_000  # images, of one_launch: until then it cannot be interrupted


@dataclass(frozen=True)
class KernelSource:
    """A kernel as an experiment has it: `labkit.show` and `labkit.diff` take it.

    Attributes
    ----------
    label, file_name, source : str
        "atomics, fp_c1"; the kernel's file; its text, with the comment above it.
    """

    label: str
    file_name: str
    source: str


def _path(file):
    return cuda_src() / "training" / "lenet28" / f"{file}.cu"


def _compiler_arguments(file, sizes):
    return module_arguments(_path(file).read_text(), _path(file), *sizes.defines)


@functools.cache
def _module(file, sizes):
    return cuda.compiler.SourceModule(**_compiler_arguments(file, sizes))


@functools.cache
def _own_module(text, sizes):
    given = _compiler_arguments("loops", sizes)
    return cuda.compiler.SourceModule(**{**given, "source": f'#include "lenet28.h"\n#line 1 "own kernels"\n{text}'})


def precompile(experiments: list[str], several: list[Sizes]) -> None:
    """Compile the files of some experiments for some sizes in parallel, into the engine's cache on disk."""
    capability = device().compute_capability
    arch = "sm_{}{}".format(*capability) if capability else None
    jobs = {(file, sizes): None for name in experiments for sizes in several
            for file in {file_of(name, kernel) for kernel in EXPERIMENTS[name].kernels} | {"loops"}}  # fmt: skip
    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(cuda.compiler.compile, **_compiler_arguments(*job), arch=arch) for job in jobs]:
            done.result()


# ------------------------------------------------------------------------------------------------ the engine
class Lenet28:
    """lenet28 with its training, by the kernels of an experiment.

    Parameters
    ----------
    experiment : str
        Of `labkit.network.lenet28_experiments.EXPERIMENTS`: loops, atomics, register, unrolled, shared_c1, shared_s1,
        shared_mask, shared_input, constant_input, shuffle, shared_sum, together, minibatch, deterministic, one_launch.
    batch : int
        Images per step, up to 65535; the step uses the mean of their gradients.
    seed : int
        Of the initial weights, see `initial_weights`.
    rate : float
        Learning rate of f and of s1's filter; the others are divided, see `Sizes.divisors`.
    sizes : Sizes
        By default lenet28's.
    own : str, optional
        The text of your own kernels, in place of those of the same names: their arguments and launches are the
        experiment's.

    Raises
    ------
    LabError
        There is no such experiment, or it takes one image per step; the batch is no number of images, or the rate no
        learning rate; `own` has none of the experiment's kernels.

    Examples
    --------
    >>> digits = lab.dataset("digits", "train", size=28)
    >>> with lab.Lenet28("together") as model:
    ...     seconds = model.epoch(digits.images, digits.labels)
    """

    def __init__(self, experiment: str = "together", batch: int = 1, seed: int = 1, rate: float = 0.1,
                 sizes: Sizes | None = None, own: str = ""):  # fmt: skip
        if experiment not in EXPERIMENTS:
            raise LabError(f"lenet28 has no experiment {experiment!r}; it has {', '.join(EXPERIMENTS)}")
        if isinstance(batch, bool) or not isinstance(batch, (int, np.integer)) or not 1 <= batch <= 65535:
            raise LabError(f"batch = {batch!r}: a step takes 1 to 65535 images")
        if batch > 1 and not EXPERIMENTS[experiment].batches:
            several = ", ".join(name for name, each in EXPERIMENTS.items() if each.batches)
            raise LabError(f"{experiment} takes one image per step, not {batch}; mini-batches: {several}")
        if not 0 <= rate < np.inf:
            raise LabError(f"rate = {rate}: the learning rate is a number, 0 or more")
        self._own = kernel_names(code_only(own))
        if own and not set(self._own) & set(EXPERIMENTS[experiment].kernels):
            raise LabError(f"own has the kernels {', '.join(self._own) or 'none'}; {experiment} launches "
                           f"{', '.join(EXPERIMENTS[experiment].kernels)}")  # fmt: skip
        self.experiment, self.batch, self.seed, self.rate = experiment, int(batch), seed, rate
        self.sizes = sizes = sizes or Sizes()
        self.own = own
        self._buffers = Buffers()
        self._data, self._functions, self._prepared = (None, None), {}, {}
        self._parts = min(self.batch, MOST_ROWS) if experiment == "deterministic" else 1
        self._parameters = sum(int(np.prod(shape)) for shape in sizes.weights.values())
        self._per_image = sum(int(np.prod(shape)) for shape in sizes.values.values())
        new = self._buffers.new
        self._pointers = {"weights": new(self._parameters), "gradient": new((self._parts, self._parameters)),
                          "values": new((self.batch, self._per_image))}  # fmt: skip
        self._fill("gradient", 0)
        self.weights = initial_weights(seed, sizes)

    def __enter__(self) -> Lenet28:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the device memory; a second call does nothing."""
        self._buffers.close()

    def __repr__(self) -> str:
        images = "one image" if self.batch == 1 else f"{self.batch} images"
        return f"lenet28, {self.experiment}: {images} per step, {len(self.kernels)} launches"

    @property
    def label(self) -> str:
        """As `check` names it."""
        batch = f", batch {self.batch}" if self.batch > 1 else ""
        return f"lenet28 {self.experiment}{batch}{', own kernels' if self.own else ''}"

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels of a step, in the order of their launches."""
        return EXPERIMENTS[self.experiment].kernels

    def source(self, kernel: str) -> KernelSource:
        """The text of a kernel, for `labkit.show` and `labkit.diff`.

        Raises
        ------
        LabError
            If the experiment does not launch such a kernel.
        """
        if kernel not in self.kernels:
            raise LabError(f"{self.experiment} launches no kernel {kernel!r}; it launches {', '.join(self.kernels)}")
        file = file_of(self.experiment, kernel)
        if file == "deterministic":
            file = "minibatch"  # which it includes
        text = _path(file).read_text()
        found = re.search(rf'((?://[^\n]*\n)*)extern "C" __global__ void {kernel}\(.*?\n\}}\n', text, re.S)
        return KernelSource(f"{self.experiment}, {kernel}", f"training/lenet28/{file}.cu", found[0])

    # ---------------------------------------------------------------------------------------------- weights
    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The parameters, copied from the device, float32; shapes as in `Sizes.weights`. They can be set."""
        return self._split(self._read("weights", (self._parameters,)), self.sizes.weights)

    @weights.setter
    def weights(self, arrays: Mapping[str, ArrayLike]) -> None:
        for name, shape in self.sizes.weights.items():
            if name not in arrays or np.shape(arrays[name]) != shape:
                found = f"has the shape {np.shape(arrays[name])}" if name in arrays else "is missing"
                raise LabError(f"the weights of lenet28: {name} {found}; it has to have {shape}")
        flat = np.concatenate([np.ravel(arrays[name]) for name in self.sizes.weights]).astype(np.float32)
        cuda.driver.memcpy_htod(self._pointers["weights"], flat)

    @staticmethod
    def _split(flat, shapes):
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1]
        parts = np.split(flat, ends, axis=-1)
        return {name: part.reshape(*flat.shape[:-1], *shape) for (name, shape), part in
                zip(shapes.items(), parts, strict=True)}  # fmt: skip

    def _read(self, name, shape):
        return self._buffers.copy_out(self._pointers[name], shape)

    def _fill(self, name, byte):
        sizes = {"gradient": self._parts * self._parameters, "values": self.batch * self._per_image}
        cuda.driver.memset_d8(self._pointers[name], byte, 4 * sizes[name])

    # ------------------------------------------------------------------------------------------------- data
    def _load(self, images, labels):
        """Bring a data set to the device, unless it is there; the number of its images."""
        if self._data[0] is images and self._data[1] is labels:
            return len(labels)
        x, y = self._fitting(images), _labels(labels, len(images))
        if y.min() < 0 or y.max() >= self.sizes.classes:
            raise LabError(f"the labels go from {y.min()} to {y.max()}; there are the classes 0 to "
                           f"{self.sizes.classes - 1}")  # fmt: skip
        for name in ("images", "labels", "order"):
            if name in self._pointers:
                self._buffers.free(self._pointers.pop(name))
        for name, array in (("images", x), ("labels", y.astype(np.int32))):
            self._pointers[name] = self._buffers.copy_in(array)
        self._pointers["order"] = self._buffers.new(len(x), np.int32)
        self._prepared.clear()
        self._data = images, labels
        return len(x)

    def _fitting(self, images):
        """Images as the kernels take them: float32 [N,side,side]."""
        x, side = np.asarray(images), self.sizes.side
        if x.shape[1:] not in ((side, side), (1, side, side)) or not len(x):
            raise LabError(f"the images have the shape {x.shape}; lenet28 takes [N, 1, {side}, {side}], as "
                           f"labkit.dataset(size={side}).images has them")  # fmt: skip
        return np.ascontiguousarray(x.reshape(len(x), side, side), np.float32)

    # ------------------------------------------------------------------------------------------------- steps
    def _function(self, file, kernel):
        if (file, kernel) not in self._functions:
            module = _own_module(self.own, self.sizes) if kernel in self._own else _module(file, self.sizes)
            function = module.get_function(kernel)
            types = "".join(TYPES.get(name, "P") for name in ARGUMENTS[kernel].split())
            self._functions[file, kernel] = function.prepare(types)
        return self._functions[file, kernel]

    def _launches(self, count):
        """The launches of a step with `count` images, as functions of the address of their numbers."""
        if count not in self._prepared:
            self._prepared[count] = [
                self._launch(file_of(self.experiment, kernel), kernel, count) for kernel in self.kernels
            ]
            if self.experiment == "constant_input":
                self._prepared[count].insert(0, self._copy_to_constant())
        return self._prepared[count]

    def _launch(self, file, kernel, count):
        launch, s = FILES[file][kernel], self.sizes
        block = launch.block(s)
        grid = tiles(launch.threads(s), block), {"B": count, "rows": min(count, MOST_ROWS), "1": 1}[launch.rows]
        own = {"B": count, "parts": self._parts, "rate": self.rate / (1 if kernel == "train" else count), "order": None}
        arguments = [own[name] if name in own else int(self._pointers[name]) for name in ARGUMENTS[kernel].split()]
        call, threads = self._function(file, kernel).prepared_call, (block, 1, 1)
        if None not in arguments:
            return lambda order: call(grid, threads, *arguments)
        at = arguments.index(None)
        before, after = arguments[:at], arguments[at + 1 :]
        return lambda order: call(grid, threads, *before, order, *after)

    def _copy_to_constant(self):
        to, size = _module("constant_input", self.sizes).get_global("image")
        images, first, copy = int(self._pointers["images"]), int(self._pointers["order"]), cuda.driver.memcpy_dtod

        def launch(order):
            copy(to, images + int(self._order[(order - first) // 4]) * size, size)

        return launch

    def step(self, images: np.ndarray, labels: np.ndarray) -> None:
        """One step: an update from these images.

        Parameters
        ----------
        images : ndarray [B, 1, side, side] or [B, side, side]
            As many as `batch`, or fewer.
        labels : ndarray of int [B]
        """
        count = self._load(images, labels)
        if count > self.batch:
            raise LabError(f"a step of {self.batch} images cannot take {count}: see `epoch`, or batch = {count}")
        self._set_order(np.arange(count))
        self._run(count)
        cuda.driver.Context.synchronize()

    def _set_order(self, order):
        self._order = np.ascontiguousarray(order, np.int32)
        cuda.driver.memcpy_htod(self._pointers["order"], self._order)

    def _run(self, count, first=0):
        order = int(self._pointers["order"]) + 4 * first
        for launch in self._launches(count):
            launch(order)

    def epoch(self, images: np.ndarray, labels: np.ndarray, order: np.ndarray | None = None,
              progress: bool = False) -> float:  # fmt: skip
        """Train on every image once.

        Parameters
        ----------
        images : ndarray [N, 1, side, side] or [N, side, side]
            They are copied to the device, where they stay as long as the same arrays are given.
        labels : ndarray of int [N]
        order : ndarray of int [N], optional
            The images in another order.
        progress : bool
            Show it, on a terminal.

        Returns
        -------
        float
            Seconds from the first launch to the end of the last kernel.
        """
        count = self._load(images, labels)
        order = np.arange(count) if order is None else np.asarray(order)
        if order.shape != (count,) or order.min() < 0 or order.max() >= count:
            raise LabError(f"order holds the number of an image in each of its {count} places, from 0 to {count - 1}")
        self._set_order(order)
        size = MOST_PER_LAUNCH if self.experiment == "one_launch" else self.batch
        starts = range(0, count, size)
        for each in {min(size, count - start) for start in (0, starts[-1])}:
            self._launches(each)  # compiled before the clock starts
        cuda.driver.Context.synchronize()
        begin = time.perf_counter()
        for start in tqdm(starts, unit="step", disable=None if progress else True, mininterval=0.5):
            self._run(min(size, count - start), start)
        cuda.driver.Context.synchronize()
        return time.perf_counter() - begin

    # ----------------------------------------------------------------------------------------------- answers
    def outputs(self, images: np.ndarray) -> np.ndarray:
        """f of each image, by the kernels of loops: float32 [N, classes]."""
        x, N = self._fitting(images), len(images)
        results, most = [], min(N, FORWARD_BATCH)
        with Buffers() as buffers:
            at = {"images": buffers.copy_in(x), "order": buffers.copy_in(np.arange(N, dtype=np.int32)),
                  "labels": buffers.copy_in(np.zeros(N, np.int32)), "weights": self._pointers["weights"],
                  "values": buffers.new((most, self._per_image))}  # fmt: skip
            for start in range(0, N, most):
                count = min(most, N - start)
                for kernel in ("fp_c1", "fp_s1", "fp_f"):
                    launch = FILES["loops"][kernel]
                    arguments = [int(at[name]) + 4 * start * (name == "order") for name in ARGUMENTS[kernel].split()]
                    grid = tiles(launch.threads(self.sizes), 128), count
                    self._function("loops", kernel).prepared_call(grid, (128, 1, 1), *arguments)
                values = buffers.copy_out(at["values"], (count, self._per_image))
                results.append(self._split(values, self.sizes.values)["f"])
        return np.concatenate(results)

    def accuracy(self, images: np.ndarray, labels: np.ndarray) -> float:
        """The part of the images whose largest output is that of their class."""
        return float((self.outputs(images).argmax(1) == _labels(labels, len(images))).mean())

    # ------------------------------------------------------------------------------------------------- check
    def comparisons(self, seed: int) -> Iterator[Compared]:
        """What `labkit.check` compares: every array that a step writes, for this model and for two of random sizes.

        Each array is compared with what float64 makes of the same inputs, the arrays that the kernels before have
        written. A sum of n products has an error of at most n U sum |x| |y| in any order (see `check.tolerance`); every
        further operation adds a rounding, expf at most four.
        """
        rng = np.random.default_rng(seed)
        several = EXPERIMENTS[self.experiment].batches
        shapes = [(self.sizes, self.batch)]
        shapes += [(sizes, least + int(rng.integers(1, 5)) if several else 1)  # the last: several images per block
                   for sizes, least in zip(random_sizes(seed), (1, MOST_ROWS), strict=False)]  # fmt: skip
        precompile([self.experiment], [sizes for sizes, _ in shapes])
        for sizes, batch in shapes:
            with Lenet28(self.experiment, batch, seed, rate=0.3, sizes=sizes, own=self.own) as model:
                yield from model._comparisons(rng)

    def _comparisons(self, rng):
        B, s = self.batch, self.sizes
        images = rng.random((B + 3, s.side, s.side)).astype(np.float32)
        labels = rng.integers(0, s.classes, B + 3)
        order = rng.permutation(B + 3)
        self._load(images, labels)
        self._set_order(order)
        before = self.weights
        self._fill("values", 0xFF)  # NaN
        *steps, update = self._launches(B)
        at = int(self._pointers["order"])
        for launch in steps:
            launch(at)
        if steps:
            parts = self._read("gradient", (self._parts, self._parameters))
        update(at)
        values = self._split(self._read("values", (B, self._per_image)), s.values)
        x, t = images[order[:B]].astype(np.float64), targets(labels[order[:B]], s.classes)
        sizes = f"side {s.side}, K {s.K}, {s.maps} maps, pool {s.pool}, {s.classes} classes, batch {B}"
        compared = _expected(before, x, t, values)
        gradient = {name: compared[f"gradient {name}"] for name in s.weights}
        for name, (expected, bound) in compared.items():
            kernel = next((each for each in reversed(self.kernels) if each in WRITES[name]), "train")
            if name in values:
                result = values[name]
            elif steps:
                result = self._split(parts, s.weights)[name.removeprefix("gradient ")].sum(0, np.float64)
            else:  # one_launch keeps no gradient; its update is compared below
                continue
            yield Compared(f"{kernel}, {name}, {sizes}", result, expected, bound)
        if steps:  # the gradient as the update got it
            gradient = {name: (part.sum(0, np.float64), self._parts * U * np.abs(part).sum(0, np.float64))
                        for name, part in self._split(parts, s.weights).items()}  # fmt: skip
            left = self._read("gradient", (self._parts, self._parameters))
            yield Compared(f"update, gradient, {sizes}", left, np.zeros(left.shape), np.zeros(left.shape))
        for name, after in self.weights.items():
            (g, error), w = gradient[name], before[name].astype(np.float64)
            rate = float(np.float32(self.rate / B)) / s.divisors[name]
            bound = rate * error + (_growth(0, 4) - 1) * (np.abs(w) + rate * (np.abs(g) + error))
            yield Compared(f"{self.kernels[-1]}, {name}, {sizes}", after, w - rate * g, bound)

    # ---------------------------------------------------------------------------------------------- evidence
    def kernel_times(self, images: np.ndarray, labels: np.ndarray, steps: int = 50) -> dict[str, float]:
        """The mean time of each kernel of a step, in microseconds, from the trace of the engine.

        Parameters
        ----------
        images, labels : ndarray
            As for `epoch`; the steps go through them in turn.
        steps : int
            Traced, after as many to warm up.

        Returns
        -------
        dict of str to float
            Kernel -> microseconds, in the order of the launches; "memcpy" for copies between them.

        Raises
        ------
        LabError
            On a GPU without CUPTI.
        """
        from labkit.measure.trace import trace  # here, because it imports pandas

        count = self._load(images, labels)
        self._set_order(np.arange(count))
        starts = [n * self.batch % max(1, count - self.batch + 1) for n in range(steps)]
        for start in starts:
            self._run(min(self.batch, count), start)
        cuda.driver.Context.synchronize()
        with trace() as traced:
            for start in starts:
                self._run(min(self.batch, count), start)
        rows = traced.records[traced.records["kind"] != "api"]
        names = rows["name"].where(rows["kind"] == "kernel", "memcpy")
        sums = rows["duration_ms"].groupby(names).sum() * 1e3 / steps
        return {name: float(sums[name]) for name in (*self.kernels, "memcpy") if name in sums}

    def launch_us(self, launches: int = 5000) -> float:
        """What a launch costs the host: the time per launch of the update, one after the other, in microseconds.

        Raises
        ------
        LabError
            The experiment has no such kernel.
        """
        if "update" not in self.kernels:
            raise LabError(f"{self.experiment} launches no update, whose launches are timed: take another experiment")
        self._load(np.zeros((1, self.sizes.side, self.sizes.side), np.float32), np.zeros(1, int))
        *_, update = self._launches(1)
        order = int(self._pointers["order"])
        update(order)
        cuda.driver.Context.synchronize()
        begin = time.perf_counter()
        for _ in range(launches):
            update(order)
        cuda.driver.Context.synchronize()
        return (time.perf_counter() - begin) / launches * 1e6

    def profile(self, engine: str | None = None) -> Profile:
        """Count the memory accesses of one step on random images, in a process of its own.

        Raises
        ------
        LabError
            If the process failed.
        """
        from labkit.evidence import profile

        found = profile.watch(self._command(), engine, timeout=600, capture=True, nvcc=False)
        found.ended.require("profiling lenet28")
        return found

    def sanitize(self, tool: str = "all", engine: str | None = None) -> Findings:
        """Search one step for invalid addresses, races, uninitialized memory and divergent barriers.

        Raises
        ------
        LabError
            If the process failed without a finding.
        """
        from labkit.evidence import sanitize

        found = sanitize.watch(self._command(), tool, engine, timeout=600, capture=True)
        if found.table.empty or found.ended.interrupted:
            found.ended.require("sanitizing lenet28", found.note)
        return found

    def _command(self):
        numbers = map(str, (self.batch, *astuple(self.sizes)))
        return [sys.executable, "-m", "labkit.network.lenet28", self.experiment, self.own, *numbers]


def _labels(labels, count):
    y = np.asarray(labels)
    if y.shape != (count,):
        raise LabError(f"{count} images need as many labels, in one row; there are labels of the shape {y.shape}")
    return y


def _growth(terms: int, roundings: int) -> float:
    """The factor of a sum's error with so many products, and of the roundings after it."""
    return (1 + terms * U) * (1 + U) ** roundings


def _expected(weights, x, t, values):
    """Of every array of a step: the true one from the arrays before it, and the bound of a kernel's error."""
    w = {name: each.astype(np.float64) for name, each in weights.items()}
    w_abs = {name: np.abs(each) for name, each in w.items()}
    v = {name: each.astype(np.float64) for name, each in values.items()}
    v_abs = {name: np.abs(each) for name, each in v.items()}
    found = {}
    # The slope of the sigmoid is at most 1/4; then expf (2 ulp, CUDA's documentation), one addition, one division.
    for name, before, inputs, terms in (
        ("c1", before_c1, x, w["c1"][0].size + 1),
        ("s1", before_s1, v["c1"], w["s1"].size + 1),
        ("f", before_f, v["s1"], w["f"].shape[1] + 1),
    ):
        y = sigmoid(before(w, inputs))
        error = (_growth(terms, 0) - 1) * before(w_abs, np.abs(inputs)) / 4
        found[name] = y, error + (_growth(4, 2) - 1) * (y + error)
    found["d_f"] = v["f"] - t, U * np.abs(v["f"] - t)
    found["d_s1"] = (backward_s1(w, v["s1"], v["d_f"]),
                     (_growth(w["f"].shape[0], 3) - 1) * backward_s1(w_abs, v["s1"], v_abs["d_f"]))  # fmt: skip
    found["d_c1"] = (backward_c1(w, v["c1"], v["d_s1"]),
                     (_growth(1, 3) - 1) * backward_c1(w_abs, v["c1"], v_abs["d_s1"]))  # fmt: skip
    B, terms = len(x), {"c1": v["c1"][0, 0].size, "s1": v["s1"][0].size, "f": 1}
    scales = parameter_gradients(np.abs(x), v_abs)
    for name, gradient in parameter_gradients(x, v).items():
        n = B * terms[name.removesuffix("_bias")]
        found[f"gradient {name}"] = gradient, (_growth(n, 1) - 1) * scales[name]
    return found


def _main(experiment: str, own: str, *numbers: str) -> None:
    """One step on random images: what `profile` and `sanitize` watch."""
    batch, *sizes = map(int, numbers)
    rng, sizes = np.random.default_rng(3), Sizes(*sizes)
    with Lenet28(experiment, batch, sizes=sizes, own=own) as model:
        model.step(rng.random((batch, sizes.side, sizes.side), np.float32), rng.integers(0, sizes.classes, batch))


if __name__ == "__main__":
    _main(*sys.argv[1:])
