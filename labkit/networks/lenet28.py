"""The network lenet28, trained on the engine in use by the kernels of an experiment.

    image [28,28] -> c1 [6,24,24]: masks of 5 x 5 and a bias per map, sigmoid
                  -> s1 [6,6,6]: one filter of 4 x 4 for all maps, stride 4, one bias, sigmoid
                  -> f [10]: fully connected 216 -> 10 with biases, sigmoid

The loss of an image is the sum over the ten outputs of the binary cross-entropy. Its derivative with respect to the
value before the last sigmoid is output - target. A step subtracts rate x gradient of one image, or of the mean over a
mini-batch. The rate is that of f and of s1's filter; as in report 001, the rates of c1 are the 24 x 24th part of it,
and that of s1's bias the 216th: each of these gradients is a sum of that many terms.

The kernels are in cuda_src/training/lenet28: a file per experiment, which replaces the kernels that it is about.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple

import numpy as np

import hostcuda
from hostcuda.profile import Profile, watch
from hostcuda.source import code_only, kernel_names
from labkit.base.errors import LabError
from labkit.base.numerals import is_whole
from labkit.base.paths import cuda_src
from labkit.ladder.buffers import Buffers
from labkit.ladder.rung import tiles
from labkit.ladder.source import module_arguments
from labkit.measure.check import Compared
from labkit.networks.lenet28_experiments import ARGUMENTS, EXPERIMENTS, FILES, TYPES, WRITES, find_file
from labkit.networks.model import Arrays, KernelSource, Model, as_labels
from labkit.networks.reference.layers import bound_sum, growth, one_hot, sigmoid, slope
from labkit.networks.reference.lenet28 import (
    Sizes,
    backward_c1,
    backward_s1,
    before_c1,
    before_f,
    before_s1,
    initial_weights,
    parameter_gradients,
    random_sizes,
)
from labkit.spec.devices import device

MOST_ROWS = 128  # rows of blocks that share a mini-batch
FORWARD_BATCH = 256  # images of a forward pass without training
MOST_PER_LAUNCH = 10_000  # images per launch of one_launch, which cannot be interrupted


def _path(file):
    return cuda_src() / "training" / "lenet28" / f"{file}.cu"


def _compiler_arguments(file, sizes):
    return module_arguments(_path(file).read_text(), _path(file), *sizes.defines)


@functools.cache
def _module(file, sizes):
    return hostcuda.compiler.SourceModule(**_compiler_arguments(file, sizes))


@functools.cache
def _compile_own(text, sizes):
    loops = _compiler_arguments("loops", sizes)
    return hostcuda.compiler.SourceModule(**{**loops, "source": f'#include "lenet28.h"\n#line 1 "own kernels"\n{text}'})


def precompile(experiments: list[str], several: list[Sizes]) -> None:
    """Compile the files of some experiments for some sizes in parallel, into the engine's cache on disk."""
    capability = device().compute_capability
    arch = "sm_{}{}".format(*capability) if capability else None
    jobs = {(file, sizes): None for name in experiments for sizes in several
            for file in {find_file(name, kernel) for kernel in EXPERIMENTS[name].kernels} | {"loops"}}
    with ThreadPoolExecutor(16) as pool:
        for future in [pool.submit(hostcuda.compiler.compile, **_compiler_arguments(*job), arch=arch) for job in jobs]:
            future.result()


# ------------------------------------------------------------------------------------------------ the engine
class Lenet28(Model):
    """lenet28 with its training, by the kernels of an experiment.

    Parameters
    ----------
    experiment : str
        One of `EXPERIMENTS` of lenet28_experiments: loops, atomics, register, unrolled, shared_c1, shared_s1,
        shared_mask, shared_input, constant_input, shuffle, shared_sum, together, minibatch, deterministic, one_launch.
    batch : int
        Images per step, up to 65535; the step uses the mean of their gradients.
    seed : int
        Seed of the initial weights, see `initial_weights`.
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

    network = "lenet28"

    def __init__(self, experiment: str = "together", batch: int = 1, seed: int = 1, rate: float = 0.1,
                 sizes: Sizes | None = None, own: str = ""):
        if experiment not in EXPERIMENTS:
            raise LabError(f"lenet28 has no experiment {experiment!r}; it has {', '.join(EXPERIMENTS)}")
        if not is_whole(batch, most=65535):
            raise LabError(f"batch = {batch!r}: a step takes 1 to 65535 images")
        if batch > 1 and not EXPERIMENTS[experiment].batches:
            several = ", ".join(name for name, other in EXPERIMENTS.items() if other.batches)
            raise LabError(f"{experiment} takes one image per step, not {batch}; mini-batches: {several}")
        if not 0 <= rate < np.inf:
            raise LabError(f"rate = {rate}: the learning rate is a number, 0 or more")
        self._own = kernel_names(code_only(own))
        if own and not set(self._own) & set(EXPERIMENTS[experiment].kernels):
            raise LabError(f"own has the kernels {', '.join(self._own) or 'none'}; {experiment} launches "
                           f"{', '.join(EXPERIMENTS[experiment].kernels)}")
        self.experiment, self.batch, self.seed, self.rate = experiment, int(batch), seed, rate
        self.sizes = sizes = sizes or Sizes()
        self.own = own
        super().__init__(sizes.weights)
        self.stream: object = None  # on which the launches are issued; None: the default stream
        self._data, self._functions, self._prepared = (None, None), {}, {}
        self._parts = min(self.batch, MOST_ROWS) if experiment == "deterministic" else 1
        self._gradient = Arrays(self.memory, sizes.weights, self._parts)
        self._values = Arrays(self.memory, sizes.values, self.batch)
        self._pointers = {"weights": self._weights.buffer, "gradient": self._gradient.buffer,
                          "values": self._values.buffer}
        self._gradient.fill(0)
        self.weights = initial_weights(seed, sizes)

    def __repr__(self) -> str:
        images = "one image" if self.batch == 1 else f"{self.batch} images"
        return f"lenet28, {self.experiment}: {images} per step, {len(self.kernels)} launches"

    @property
    def label(self) -> str:
        """The name that `check` prints."""
        batch = f", batch {self.batch}" if self.batch > 1 else ""
        return f"lenet28 {self.experiment}{batch}{', own kernels' if self.own else ''}"

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels of a step, in the order of their launches."""
        return EXPERIMENTS[self.experiment].kernels

    def source(self, kernel: str) -> KernelSource:
        """Return the text of a kernel, for `labkit.show` and `labkit.diff`.

        Raises LabError if the experiment does not launch such a kernel.
        """
        if kernel not in self.kernels:
            raise LabError(f"{self.experiment} launches no kernel {kernel!r}; it launches {', '.join(self.kernels)}")
        file = find_file(self.experiment, kernel)
        if file == "deterministic":
            file = "minibatch"  # deterministic.cu includes it
        return KernelSource.of(_path(file), f"void {kernel}(", f"{self.experiment}, {kernel}",
                               f"training/lenet28/{file}.cu")

    # ------------------------------------------------------------------------------------------------- data
    def load(self, images: np.ndarray, labels: np.ndarray, order: np.ndarray | None = None) -> int:
        """Copy images, labels and their order to the device; return the number of images. See `epoch`."""
        if self._data[0] is not images or self._data[1] is not labels:
            x, y = self._as_images(images), as_labels(labels, len(images))
            if y.min() < 0 or y.max() >= self.sizes.classes:
                raise LabError(f"the labels go from {y.min()} to {y.max()}; there are the classes 0 to "
                               f"{self.sizes.classes - 1}")
            for name, array in (("images", x), ("labels", y.astype(np.int32)), ("order", np.empty(len(x), np.int32))):
                if name in self._pointers:
                    self.memory.free(self._pointers.pop(name))
                self._pointers[name] = self.memory.copy_in(array)
            self._prepared.clear()
            self._data = images, labels
        count = len(labels)
        order = np.arange(count) if order is None else np.asarray(order)
        if order.shape != (count,) or order.min() < 0 or order.max() >= count:
            raise LabError(f"order holds the number of an image in each of its {count} places, from 0 to {count - 1}")
        self._order = np.ascontiguousarray(order, np.int32)
        hostcuda.driver.memcpy_htod(self._pointers["order"], self._order)
        return count

    def _as_images(self, images):
        """Return images as the kernels take them: float32 [N,side,side]."""
        x, side = np.asarray(images), self.sizes.side
        if x.shape[1:] not in ((side, side), (1, side, side)) or not len(x):
            raise LabError(f"the images have the shape {x.shape}; lenet28 takes [N, 1, {side}, {side}], as "
                           f"labkit.dataset(size={side}).images has them")
        return np.ascontiguousarray(x.reshape(len(x), side, side), np.float32)

    # ------------------------------------------------------------------------------------------------- steps
    def _prepare_function(self, file, kernel):
        """Return a kernel, ready to launch: of the reader's text, if it has one of this name, else of the file."""
        if (file, kernel) not in self._functions:
            module = _compile_own(self.own, self.sizes) if kernel in self._own else _module(file, self.sizes)
            function = module.get_function(kernel)
            types = "".join(TYPES.get(name, "P") for name in ARGUMENTS[kernel].split())
            self._functions[file, kernel] = function.prepare(types)
        return self._functions[file, kernel]

    def launches(self, count: int) -> list[Callable[[int], None]]:
        """Return the launches of a step with `count` images, as functions of the first image's place in the order."""
        if count not in self._prepared:
            self._prepared[count] = [self._bind_launch(kernel, count) for kernel in self.kernels]
            if self.experiment == "constant_input":
                self._prepared[count].insert(0, self._copy_to_constant())
        return self._prepared[count]

    def _bind_launch(self, kernel, count):
        """Return a launch as a function of the first image's place; all other arguments are bound now."""
        file, s = find_file(self.experiment, kernel), self.sizes
        launch = FILES[file][kernel]
        block = launch.block(s)
        grid = tiles(launch.threads(s), block), {"B": count, "rows": min(count, MOST_ROWS), "1": 1}[launch.rows]
        numbers = {"B": count, "parts": self._parts, "rate": self.rate / (1 if kernel == "train" else count)}
        argument_names = ARGUMENTS[kernel].split()
        arguments = [numbers[name] if name in numbers else int(self._pointers[name]) for name in argument_names]
        launch_kernel, threads = self._prepare_function(file, kernel).prepared_async_call, (block, 1, 1)
        if "order" not in argument_names:
            return lambda place: launch_kernel(grid, threads, self.stream, *arguments)
        order_place = argument_names.index("order")
        before, order, after = arguments[:order_place], arguments[order_place], arguments[order_place + 1 :]
        return lambda place: launch_kernel(grid, threads, self.stream, *before, order + 4 * place, *after)

    def _copy_to_constant(self):
        """Return a copy of an image to constant memory, as a function of its place in the order."""
        target, size = _module("constant_input", self.sizes).get_global("image")
        images, copy_on_device = int(self._pointers["images"]), hostcuda.driver.memcpy_dtod
        return lambda place: copy_on_device(target, images + int(self._order[place]) * size, size)

    def issue(self, count: int, first: int = 0) -> None:
        """Issue a step with `count` of the loaded images, from place `first` of their order on, without waiting."""
        for launch in self.launches(count):
            launch(first)

    def epoch(self, images: np.ndarray, labels: np.ndarray, order: np.ndarray | None = None) -> float:
        """Train on every image once.

        Parameters
        ----------
        images : ndarray [N, 1, side, side] or [N, side, side]
            They are copied to the device, where they stay as long as the same arrays are given.
        labels : ndarray of int [N]
        order : ndarray of int [N], optional
            The images in another order.

        Returns
        -------
        float
            Seconds from the first launch to the end of the last kernel.
        """
        count = self.load(images, labels, order)
        size = MOST_PER_LAUNCH if self.experiment == "one_launch" else self.batch
        starts = range(0, count, size)
        for images_per_step in {min(size, count - start) for start in (0, starts[-1])}:
            self.launches(images_per_step)  # compiled before the clock starts
        hostcuda.driver.Context.synchronize()
        start_time = time.perf_counter()
        for start in starts:
            self.issue(min(size, count - start), start)
        hostcuda.driver.Context.synchronize()
        return time.perf_counter() - start_time

    # ----------------------------------------------------------------------------------------------- answers
    def outputs(self, images: np.ndarray) -> np.ndarray:
        """Return f of each image, by the kernels of loops: float32 [N, classes]."""
        x, N = self._as_images(images), len(images)
        results, batch = [], min(N, FORWARD_BATCH)
        with Buffers() as memory:
            values = Arrays(memory, self.sizes.values, batch)
            pointers = {"images": memory.copy_in(x), "order": memory.copy_in(np.arange(N, dtype=np.int32)),
                        "labels": memory.copy_in(np.zeros(N, np.int32)), "weights": self._weights.buffer,
                        "values": values.buffer}
            for start in range(0, N, batch):
                count = min(batch, N - start)
                for kernel in ("fp_c1", "fp_s1", "fp_f"):
                    launch = FILES["loops"][kernel]
                    arguments = [int(pointers[name]) + (4 * start if name == "order" else 0)
                                 for name in ARGUMENTS[kernel].split()]
                    block = launch.block(self.sizes)
                    grid = tiles(launch.threads(self.sizes), block), count
                    self._prepare_function("loops", kernel).prepared_call(grid, (block, 1, 1), *arguments)
                results.append(values.read(count)["f"])
        return np.concatenate(results)

    # ------------------------------------------------------------------------------------------------- check
    def comparisons(self, seed: int) -> Iterator[Compared]:
        """Yield every array that a step writes, for this model and for two of random sizes, beside float64.

        The float64 result is computed from the kernel's own inputs, the arrays that earlier kernels have written.
        """
        rng = np.random.default_rng(seed)
        batches = EXPERIMENTS[self.experiment].batches
        shapes = [(self.sizes, self.batch)]
        shapes += [(sizes, fewest + int(rng.integers(1, 5)) if batches else 1)  # the last: several images per block
                   for sizes, fewest in zip(random_sizes(seed), (1, MOST_ROWS), strict=False)]
        precompile([self.experiment], [sizes for sizes, _ in shapes])
        for sizes, batch in shapes:
            with Lenet28(self.experiment, batch, seed, rate=0.3, sizes=sizes, own=self.own) as model:
                yield from model._compare(rng)

    def _compare(self, rng):
        """Yield every array of one step on random images, beside float64."""
        old_weights, x, targets, values, parts = self._run_random_step(rng)
        s, has_gradient = self.sizes, len(self.kernels) > 1  # one_launch keeps none, only its update is compared
        sizes = f"side {s.side}, K {s.K}, {s.maps} maps, pool {s.pool}, {s.classes} classes, batch {self.batch}"
        gradient = {}  # a weight's name -> its gradient, and the largest error of the kernel that sums the parts
        for name, (expected, bound) in _compute_expected(old_weights, x, targets, values, s).items():
            kernel = next((writer for writer in reversed(self.kernels) if writer in WRITES[name]), "train")
            weight = name.removeprefix("gradient ")
            if name in values:
                result = values[name]
            elif has_gradient:
                result = parts[weight].sum(0, np.float64)
                gradient[weight] = bound_sum(lambda part: part.sum(0), self._parts, parts[weight], roundings=0)
            else:
                gradient[weight] = expected, bound
                continue
            yield Compared(f"{kernel}, {name}, {sizes}", result, expected, bound)
        if has_gradient:
            remains = np.concatenate([array.ravel() for array in self._gradient.read().values()])
            yield Compared(f"update, gradient, {sizes}", remains, np.zeros(remains.shape), np.zeros(remains.shape))
        for name, new_weights in self.weights.items():
            (g, error), w = gradient[name], old_weights[name].astype(np.float64)
            rate = float(np.float32(self.rate / self.batch)) / s.divisors[name]
            bound = rate * error + growth(0, 4) * (np.abs(w) + rate * (np.abs(g) + error))
            yield Compared(f"{self.kernels[-1]}, {name}, {sizes}", new_weights, w - rate * g, bound)

    def _run_random_step(self, rng):
        """Run a step; return the weights before it, its images and targets, its values, and the gradient's parts."""
        B, s = self.batch, self.sizes
        images = rng.random((B + 3, s.side, s.side)).astype(np.float32)  # 3 more than a step takes
        labels = rng.integers(0, s.classes, B + 3)
        order = rng.permutation(B + 3)
        self.load(images, labels, order)
        old_weights = self.weights
        self._values.fill(0xFF)  # NaN
        *launches, update = self.launches(B)
        for launch in launches:
            launch(0)
        parts = self._gradient.read()  # the update sets it to zero
        update(0)
        x, targets = images[order[:B]].astype(np.float64), one_hot(labels[order[:B]], s.classes)
        return old_weights, x, targets, self._values.read(), parts

    # ---------------------------------------------------------------------------------------------- evidence
    def profile(self, engine: str | None = None) -> Profile:
        """Count the memory accesses of one step on random images, in a process of its own.

        Raises EngineError if the process failed.
        """
        result = watch(self._build_command(), engine, timeout=600, capture=True, nvcc=False)
        result.ended.require("profiling lenet28")
        return result

    def _build_command(self):
        numbers = map(str, (self.batch, *astuple(self.sizes)))
        return [sys.executable, "-m", "labkit.networks.lenet28", self.experiment, self.own, *numbers]


def _compute_expected(weights, x, targets, values, s):
    """Return for every array of a step the true one, from the arrays before it, and the bound of a kernel's error."""
    w, v = ({name: array.astype(np.float64) for name, array in arrays.items()} for arrays in (weights, values))
    expected = {}
    # The slope of the sigmoid is at most 1/4; then expf (2 ulp, CUDA's documentation), one addition, one division.
    for name, compute_sums, inputs, terms in (("c1", before_c1, x, s.K**2), ("s1", before_s1, v["c1"], s.pool**2),
                                        ("f", before_f, v["s1"], s.features)):
        z, error = bound_sum(compute_sums, terms + 1, inputs, w[name], w[f"{name}_bias"], roundings=0)
        y, error = sigmoid(z), error / 4
        expected[name] = y, error + growth(4, 2) * (y + error)
    expected["d_f"] = bound_sum(lambda difference: difference, 1, v["f"] - targets, roundings=0)
    expected["d_s1"] = bound_sum(backward_s1, s.classes, w["f"], v["d_f"], slope(v["s1"]), roundings=3)
    expected["d_c1"] = bound_sum(backward_c1, 1, w["s1"], v["d_s1"], slope(v["c1"]), roundings=3)
    scales = parameter_gradients(np.abs(x), {name: np.abs(array) for name, array in v.items()})
    terms = {"c1": s.c1**2, "c1_bias": s.c1**2, "s1": s.features, "s1_bias": s.features, "f": 1, "f_bias": 1}
    for name, gradient in parameter_gradients(x, v).items():
        expected[f"gradient {name}"] = gradient, growth(len(x) * terms[name], 1) * scales[name]
    return expected


def _main(experiment: str, own: str, *numbers: str) -> None:
    """Train one step on random images: `profile` counts its accesses."""
    batch, *sizes = map(int, numbers)
    rng, sizes = np.random.default_rng(3), Sizes(*sizes)
    with Lenet28(experiment, batch, sizes=sizes, own=own) as model:
        model.epoch(rng.random((batch, sizes.side, sizes.side), np.float32), rng.integers(0, sizes.classes, batch))


if __name__ == "__main__":
    _main(*sys.argv[1:])
