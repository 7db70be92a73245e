"""The network lenet28, trained on the engine in use by the kernels of an experiment.

    image [28,28] -> c1 [6,24,24]: masks of 5 x 5 and a bias per map, sigmoid
                  -> s1 [6,6,6]: one filter of 4 x 4 for all maps, stride 4, one bias, sigmoid
                  -> f [10]: fully connected 216 -> 10 with biases, sigmoid

The loss of an image is the sum over the ten outputs of the binary cross-entropy. Its derivative
with respect to the value before the last sigmoid is output - target. A step subtracts rate x
gradient of one image, or of the mean over a mini-batch. The rate is that of f and of s1's filter;
as in report 001, the rates of c1 are the 24 x 24th part of it, and that of s1's bias the 216th:
each of these gradients is a sum of that many terms.

The kernels are in cuda_src/training/lenet28: a file per experiment, which replaces the kernels that
it is about.
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
from hostcuda import processes
from hostcuda.profile import Profile, watch
from hostcuda.source import code_only, kernel_names
from labkit.base.errors import LabError
from labkit.base.numerals import is_whole
from labkit.base.paths import cuda_src
from labkit.ladder.buffers import Buffers
from labkit.ladder.rung import tiles
from labkit.ladder.source import module_arguments
from labkit.measure.check import Compared
from labkit.networks.lenet28_experiments import (
    ARGUMENTS,
    EXPERIMENTS,
    FILES,
    TYPES,
    WRITES,
    find_file,
)
from labkit.networks.model import Arrays, KernelSource, Model, as_labels
from labkit.networks.reference import lenet28 as reference
from labkit.networks.reference.layers import bound_sum, growth, one_hot, sigmoid, slope
from labkit.networks.reference.lenet28 import Sizes, random_sizes
from labkit.spec.devices import device

MOST_ROWS = 128  # rows of blocks that share a mini-batch
FORWARD_BATCH = 256  # images of a forward pass without training
MOST_PER_LAUNCH = 10_000  # images per launch of one_launch, which cannot be interrupted


def _path(file):
    """Return the path of a file of kernels: …/training/lenet28/loops.cu for "loops"."""
    return cuda_src() / "training" / "lenet28" / f"{file}.cu"


def _compiler_arguments(file, sizes):
    """Return the keyword arguments of `SourceModule` for a file of kernels, "loops", and a network's `Sizes`."""
    return module_arguments(_path(file).read_text(), _path(file), *sizes.defines)


@functools.cache
def _compile(file, sizes):
    """Return the compiled module of a file of kernels, "loops", for a network's `Sizes`; it is compiled once."""
    return hostcuda.compiler.SourceModule(**_compiler_arguments(file, sizes))


@functools.cache
def _compile_own(text, sizes):
    """Return the compiled module of a reader's kernels, which may use all that lenet28.h declares for these sizes."""
    loops = _compiler_arguments("loops", sizes)
    return hostcuda.compiler.SourceModule(
        **{**loops, "source": f'#include "lenet28.h"\n#line 1 "own kernels"\n{text}'}
    )


def precompile(experiments: list[str], networks: list[Sizes]) -> None:
    """Compile the files of some experiments for networks of these sizes in parallel, into the engine's disk cache.

    Raises hostcuda.driver.CompileError if the compiler refuses a file.
    """
    capability = device().compute_capability
    # the CPU engine has neither a compute capability nor an architecture
    arch = "sm_{}{}".format(*capability) if capability else None
    # "loops", because `Lenet28.outputs` takes its kernels from loops.cu in every experiment.
    jobs = {
        (file, sizes)
        for name in experiments
        for sizes in networks
        for file in {find_file(name, kernel) for kernel in EXPERIMENTS[name].kernels} | {"loops"}
    }
    with ThreadPoolExecutor(16) as pool:  # many, because the threads only wait for compilers
        for future in [
            pool.submit(hostcuda.compiler.compile, **_compiler_arguments(*job), arch=arch)
            for job in jobs
        ]:
            future.result()  # raises the compiler's error


class Lenet28(Model):
    """lenet28 with its training, by the kernels of an experiment.

    Parameters
    ----------
    experiment : str
        One of `EXPERIMENTS` of lenet28_experiments, such as "loops", "atomics", "together" or
        "minibatch".
    batch : int
        Images per step, up to 65535; the step uses the mean of their gradients.
    seed : int
        Seed of the initial weights, see `initial_weights`.
    rate : float
        Learning rate of f and of s1's filter; the others are divided, see `Sizes.divisors`.
    sizes : Sizes
        By default lenet28's.
    own : str, optional
        The text of your own kernels, in place of those of the same names, with the same arguments
        and launches.

    Raises
    ------
    LabError
        There is no such experiment, or it takes one image per step; the batch is no number of
        images, or the rate no learning rate; `own` has none of the experiment's kernels.

    Examples
    --------
    >>> digits = lab.dataset("digits", "train", size=28)
    >>> with lab.Lenet28("together") as model:
    ...     seconds = model.epoch(digits.images, digits.labels)
    """

    network = "lenet28"

    def __init__(
        self,
        experiment: str = "together",
        batch: int = 1,
        seed: int = 1,
        rate: float = 0.1,
        sizes: Sizes | None = None,
        own: str = "",
    ):
        """Check the parameters, allocate, and set the first weights; kernels are compiled when they are needed."""
        if experiment not in EXPERIMENTS:
            raise LabError(
                f"lenet28 has no experiment {experiment!r}; it has {', '.join(EXPERIMENTS)}"
            )
        if not is_whole(batch, most=65535):
            raise LabError(f"batch = {batch!r}: a step takes 1 to 65535 images")
        if batch > 1 and not EXPERIMENTS[experiment].batches:
            several = ", ".join(name for name, other in EXPERIMENTS.items() if other.batches)
            raise LabError(
                f"{experiment} takes one image per step, not {batch}; mini-batches: {several}"
            )
        if not 0 <= rate < np.inf:
            raise LabError(f"rate = {rate}: the learning rate is a number, 0 or more")
        # those of the reader's text, without comments and strings
        self._own = kernel_names(code_only(own))
        if own and not set(self._own) & set(EXPERIMENTS[experiment].kernels):
            raise LabError(
                f"own has the kernels {', '.join(self._own) or 'none'}; {experiment} launches "
                f"{', '.join(EXPERIMENTS[experiment].kernels)}"
            )
        self.experiment, self.batch, self.seed, self.rate = experiment, int(batch), seed, rate
        self.sizes = sizes = sizes or Sizes()
        self.own = own
        super().__init__(sizes.weights)
        self.stream: object = None  # on which the launches are issued; None: the default stream
        # The loaded (images, labels); (file, kernel) -> function; number of images -> launches of a
        # step.
        self._data, self._functions, self._prepared = (None, None), {}, {}
        # Of "deterministic" each row of blocks writes a part of its own, and `update` adds them in
        # their order.
        self._parts = min(self.batch, MOST_ROWS) if experiment == "deterministic" else 1
        self._gradient = Arrays(self.memory, sizes.weights, self._parts)
        self._values = Arrays(self.memory, sizes.values, self.batch)
        self._pointers = {
            "weights": self._weights.buffer,
            "gradient": self._gradient.buffer,
            "values": self._values.buffer,
        }
        self._gradient.fill(0)
        self.weights = reference.initial_weights(seed, sizes)

    def __repr__(self) -> str:
        images = "one image" if self.batch == 1 else f"{self.batch} images"
        return f"lenet28, {self.experiment}: {images} per step, {len(self.kernels)} launches"

    @property
    def label(self) -> str:
        """The name that `check` prints: "lenet28 minibatch, batch 100, own kernels" (if some are the reader's)."""
        batch = f", batch {self.batch}" if self.batch > 1 else ""
        return f"lenet28 {self.experiment}{batch}{', own kernels' if self.own else ''}"

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels of a training step, in the order of their launches."""
        return EXPERIMENTS[self.experiment].kernels

    def source(self, kernel: str) -> KernelSource:
        """Return the text of a kernel, for `labkit.show` and `labkit.diff`; LabError if the experiment lacks it.

        An experiment is a version of the training: which kernels make a step, and from which files.
        """
        if kernel not in self.kernels:
            raise LabError(
                f"{self.experiment} launches no kernel {kernel!r}; it launches {', '.join(self.kernels)}"
            )
        file = find_file(self.experiment, kernel)
        if file == "deterministic":
            file = "minibatch"  # deterministic.cu includes it
        return KernelSource.read(
            _path(file),
            f"void {kernel}(",
            f"{self.experiment}, {kernel}",
            f"training/lenet28/{file}.cu",
        )

    def load(self, images: np.ndarray, labels: np.ndarray, order: np.ndarray | None = None) -> int:
        """Copy images, labels and their order to the device; return the number of images.

        The parameters are those of `epoch`. Images and labels are copied only if they are other
        arrays than at the last call. Raises LabError for images of another shape, labels that are
        no classes, or an order that has not, for each image, the index of one of them.
        """
        if self._data[0] is not images or self._data[1] is not labels:
            x, y = self._as_images(images), as_labels(labels, len(images))
            if y.min() < 0 or y.max() >= self.sizes.classes:
                raise LabError(
                    f"the labels go from {y.min()} to {y.max()}; there are the classes 0 to "
                    f"{self.sizes.classes - 1}"
                )
            for name, array in (
                ("images", x),
                ("labels", y.astype(np.int32)),
                ("order", np.empty(len(x), np.int32)),  # its buffer alone: filled below
            ):
                if name in self._pointers:
                    self.memory.free(self._pointers.pop(name))
                self._pointers[name] = self.memory.copy_in(array)
            self._prepared.clear()  # its launches have the addresses of the freed buffers
            self._data = images, labels
        count = len(labels)
        order = np.arange(count) if order is None else np.asarray(order)
        if order.shape != (count,) or order.min() < 0 or order.max() >= count:
            raise LabError(
                f"order holds the number of an image in each of its {count} places, from 0 to {count - 1}"
            )
        self._order = np.ascontiguousarray(order, np.int32)
        hostcuda.driver.memcpy_htod(self._pointers["order"], self._order)
        return count

    def _as_images(self, images):
        """Return images [N,1,side,side] or [N,side,side] as float32 [N,side,side]; LabError for other shapes."""
        x, side = np.asarray(images), self.sizes.side
        if x.shape[1:] not in ((side, side), (1, side, side)) or not len(x):
            raise LabError(
                f"the images have the shape {x.shape}; lenet28 takes [N, 1, {side}, {side}], as "
                f"labkit.dataset(size={side}).images has them"
            )
        return np.ascontiguousarray(x.reshape(len(x), side, side), np.float32)

    def _prepare_function(self, file, kernel):
        """Return the kernel of this name as a prepared function: from the reader's text, if it has it, else `file`."""
        if (file, kernel) not in self._functions:
            module = (
                _compile_own(self.own, self.sizes)
                if kernel in self._own
                else _compile(file, self.sizes)
            )
            function = module.get_function(kernel)
            # ARGUMENTS: "weights values B"
            types = "".join(TYPES.get(name, "P") for name in ARGUMENTS[kernel].split())
            self._functions[file, kernel] = function.prepare(types)
        return self._functions[file, kernel]

    def launches(self, count: int) -> list[Callable[[int], None]]:
        """Return the launches of a step with `count` images: functions that take the first image's place in the order.

        They issue the launch and return. Their arguments are bound once for each `count`.
        """
        if count not in self._prepared:
            self._prepared[count] = [
                self._bind_launch(find_file(self.experiment, name), name, count, self._pointers)
                for name in self.kernels
            ]
            if self.experiment == "constant_input":  # copies the image to constant memory first
                self._prepared[count].insert(0, self._copy_to_constant())
        return self._prepared[count]

    def _bind_launch(self, file, kernel, count, buffers):
        """Return a function (place) that launches a kernel of `file` for `count` images from this place in the order.

        `buffers` maps the name of an argument to a device buffer.
        """
        # a `Threads`: how many, per block, and what the rows of the grid are
        launch = FILES[file][kernel]
        block = launch.block(self.sizes)
        rows = {"B": count, "rows": min(count, MOST_ROWS), "1": 1}[launch.rows]
        grid = tiles(launch.threads(self.sizes), block), rows
        # The gradient is a sum over `count` images, and a step uses the mean; in `train` each image
        # is a step.
        numbers = {
            "B": count,
            "parts": self._parts,
            "rate": self.rate / (1 if kernel == "train" else count),
        }
        argument_names = ARGUMENTS[kernel].split()
        arguments = [
            numbers[name] if name in numbers else int(buffers[name]) for name in argument_names
        ]
        launch_kernel = self._prepare_function(file, kernel).prepared_async_call
        threads = (block, 1, 1)
        if "order" not in argument_names:
            return lambda place: launch_kernel(grid, threads, self.stream, *arguments)
        order_place = argument_names.index("order")
        before = arguments[:order_place]
        order = arguments[order_place]
        after = arguments[order_place + 1 :]
        # `order` is the address of an int32 array: 4 bytes per place.
        return lambda place: launch_kernel(
            grid, threads, self.stream, *before, order + 4 * place, *after
        )

    def _copy_to_constant(self):
        """Return a function (place) that copies the image at this place in the order to the kernel's constant array."""
        # its address, its bytes
        target, size = _compile("constant_input", self.sizes).get_global("image")
        images, copy_on_device = int(self._pointers["images"]), hostcuda.driver.memcpy_dtod
        return lambda place: copy_on_device(target, images + int(self._order[place]) * size, size)

    def issue(self, count: int, first: int = 0) -> None:
        """Issue a training step with `count` of the loaded images, without waiting for it.

        They are the images from place `first` of the order on.
        """
        for launch in self.launches(count):
            launch(first)

    def epoch(
        self, images: np.ndarray, labels: np.ndarray, order: np.ndarray | None = None
    ) -> float:
        """Train on every image once.

        Parameters
        ----------
        images : ndarray [N, 1, side, side] or [N, side, side]
            They are copied to the device, where they stay as long as the same arrays are given.
        labels : ndarray of int [N]
        order : ndarray of int [N], optional
            Indices of the images in the order of training. By default 0 to N - 1.

        Returns
        -------
        float
            Seconds from the first launch to the end of the last kernel.
        """
        count = self.load(images, labels, order)
        # one launch may take many images one after another, each a step of its own
        size = MOST_PER_LAUNCH if self.experiment == "one_launch" else self.batch
        starts = range(0, count, size)
        # Compiled before the clock starts: all steps have as many images as the first, but perhaps
        # the last.
        for images_per_step in {min(size, count - start) for start in (0, starts[-1])}:
            self.launches(images_per_step)
        hostcuda.driver.Context.synchronize()
        start_time = time.perf_counter()
        for start in starts:
            self.issue(min(size, count - start), start)
        hostcuda.driver.Context.synchronize()
        return time.perf_counter() - start_time

    def outputs(self, images: np.ndarray) -> np.ndarray:
        """Return the network's outputs for images as in `epoch`, float32 [N, classes], by the kernels of loops.cu.

        They run in batches of `FORWARD_BATCH` images, in buffers of their own.
        """
        x, N = self._as_images(images), len(images)
        results, batch = [], min(N, FORWARD_BATCH)
        with Buffers() as memory:
            values = Arrays(memory, self.sizes.values, batch)
            buffers = {
                "images": memory.copy_in(x),
                "order": memory.copy_in(np.arange(N, dtype=np.int32)),
                # any: fp_f computes from them only the loss's derivatives, which are not read
                "labels": memory.copy_in(np.zeros(N, np.int32)),
                "weights": self._weights.buffer,
                "values": values.buffer,
            }
            for start in range(0, N, batch):
                count = min(batch, N - start)
                for kernel in ("fp_c1", "fp_s1", "fp_f"):
                    self._bind_launch("loops", kernel, count, buffers)(start)
                results.append(values.read(count)["f"])
        return np.concatenate(results)

    def comparisons(self, seed: int) -> Iterator[Compared]:
        """Yield every array that a training step writes with its float64 reference: of this model and two others.

        The others have random sizes, so that a kernel which is right for one size alone is found.

        The reference is computed from the kernel's own inputs, the arrays that earlier kernels have
        written.
        """
        rng = np.random.default_rng(seed)
        takes_batches = EXPERIMENTS[self.experiment].batches
        shapes = [(self.sizes, self.batch)]
        # One small batch, and one over MOST_ROWS, where blocks add the gradients of several images.
        shapes += [
            (sizes, fewest + int(rng.integers(1, 5)) if takes_batches else 1)
            for sizes, fewest in zip(random_sizes(seed), (1, MOST_ROWS), strict=True)
        ]
        precompile([self.experiment], [sizes for sizes, _ in shapes])
        for sizes, batch in shapes:
            # another rate than the default: a kernel that has it as a constant is wrong
            with Lenet28(
                self.experiment, batch, seed, rate=0.3, sizes=sizes, own=self.own
            ) as model:
                yield from model._compare(rng)

    def _compare(self, rng):
        """Run one step on random images; yield every array that it wrote, with its reference and error bound."""
        old_weights, x, targets, values, parts = self._run_random_step(rng)
        s, has_gradient = self.sizes, len(self.kernels) > 1  # one_launch keeps none in memory
        sizes = f"side {s.side}, K {s.K}, {s.maps} maps, pool {s.pool}, {s.classes} classes, batch {self.batch}"
        # a weight's name -> the sum of its gradient's parts, and the largest error of that sum
        gradient = {}
        for name, (expected, bound) in _compute_expected(
            old_weights, x, targets, values, s
        ).items():
            # The last kernel that writes the array; of one_launch "train", which writes them all.
            kernel = next(
                (writer for writer in reversed(self.kernels) if writer in WRITES[name]), "train"
            )
            weight = name.removeprefix("gradient ")
            if name in values:
                result = values[name]
            elif has_gradient:
                result = parts[weight].sum(0, np.float64)
                gradient[weight] = bound_sum(
                    lambda arrays: arrays.sum(0), self._parts, parts[weight], roundings=0
                )
            else:  # one_launch: not compared itself, only the weights that follow from it
                gradient[weight] = expected, bound
                continue
            yield Compared(f"{kernel}, {name}, {sizes}", result, expected, bound)
        if has_gradient:  # `update` sets the gradient to zero for the next step
            remains = np.concatenate([array.ravel() for array in self._gradient.read().values()])
            yield Compared(
                f"update, gradient, {sizes}",
                remains,
                np.zeros(remains.shape),
                np.zeros(remains.shape),
            )
        for name, new_weights in self.weights.items():
            (g, error), w = gradient[name], old_weights[name].astype(np.float64)
            # a float, as the kernel gets it
            rate = float(np.float32(self.rate / self.batch)) / s.divisors[name]
            # 4 roundings
            bound = rate * error + growth(0, 4) * (np.abs(w) + rate * (np.abs(g) + error))
            yield Compared(f"{self.kernels[-1]}, {name}, {sizes}", new_weights, w - rate * g, bound)

    def _run_random_step(self, rng):
        """Run a step on random images; return what `_compute_expected` takes, and the gradient before the update.

        That is (weights before the step by name, images [B,side,side], targets [B,classes], the
        arrays of `Sizes.values` by name, the gradient's parts by name [parts, ...]).
        """
        B, s = self.batch, self.sizes
        images = rng.random((B + 3, s.side, s.side)).astype(np.float32)  # 3 more than a step takes
        labels = rng.integers(0, s.classes, B + 3)
        order = rng.permutation(B + 3)
        self.load(images, labels, order)
        old_weights = self.weights
        self._values.fill(0xFF)  # NaN
        *launches, update = self.launches(B)  # the last kernel changes the weights
        for launch in launches:
            launch(0)
        parts = self._gradient.read()  # the update sets it to zero
        update(0)
        x, targets = images[order[:B]].astype(np.float64), one_hot(labels[order[:B]], s.classes)
        return old_weights, x, targets, self._values.read(), parts

    def profile(self, engine: str | None = None) -> Profile:
        """Return the counters of one step on random images, by running it in a process of its own under a profiler.

        `engine` is "gpu" or "cpu", by default the one in use. Raises EngineError if the process
        failed.
        """
        # without nvcc, which would add registers and occupancy
        result = watch(self._build_command(), engine, timeout=600, capture=True, nvcc=False)
        result.ended.require("profiling lenet28")
        return result

    def _build_command(self):
        """Return the command line, a list of str, that runs `_main` of this module for this model."""
        numbers = map(str, (self.batch, *astuple(self.sizes)))
        return processes.own_program("labkit.networks.lenet28", self.experiment, self.own, *numbers)


def _compute_expected(weights, x, targets, values, s):
    """Return a dict: name of each array of a step to (float64 reference, largest error of a correct kernel).

    Each reference follows from `values`, the arrays that the kernels computed before it. `weights`
    are those before the step, `x` are images [B,side,side], `targets` [B,classes], `s` the
    network's `Sizes`. A name is one of `values`, or "gradient " and a weight.
    """
    w, v = (
        {name: array.astype(np.float64) for name, array in arrays.items()}
        for arrays in (weights, values)
    )
    expected = {}
    for name, compute_sums, inputs, terms in (
        ("c1", reference.before_c1, x, s.K**2),
        ("s1", reference.before_s1, v["c1"], s.pool**2),
        ("f", reference.before_f, v["s1"], s.features),
    ):
        # + 1: the bias
        z, error = bound_sum(
            compute_sums, terms + 1, inputs, w[name], w[f"{name}_bias"], roundings=0
        )
        y, error = sigmoid(z), error / 4  # the slope of the sigmoid is at most 1/4
        # expf is off by 2 ulp (CUDA's documentation), 4 units of roundoff; one addition and one
        # division follow.
        expected[name] = y, error + growth(4, 2) * (y + error)
    # roundings: two of slope(y) = y (1 - y), one of the product
    expected["d_f"] = bound_sum(lambda difference: difference, 1, v["f"] - targets, roundings=0)
    expected["d_s1"] = bound_sum(
        reference.backward_s1, s.classes, w["f"], v["d_f"], slope(v["s1"]), roundings=3
    )
    expected["d_c1"] = bound_sum(
        reference.backward_c1, 1, w["s1"], v["d_s1"], slope(v["c1"]), roundings=3
    )
    # The error of a sum is proportional to the sum of the absolute values of its products.
    scales = reference.parameter_gradients(
        np.abs(x), {name: np.abs(array) for name, array in v.items()}
    )
    terms = {
        "c1": s.c1**2,
        "c1_bias": s.c1**2,
        "s1": s.features,
        "s1_bias": s.features,
        "f": 1,
        "f_bias": 1,
    }
    for name, gradient in reference.parameter_gradients(x, v).items():
        expected[f"gradient {name}"] = gradient, growth(len(x) * terms[name], 1) * scales[name]
    return expected


def _main(experiment: str, own: str, *numbers: str) -> None:
    """Train one step on random images, for `profile`; `numbers` are the batch and the fields of `Sizes`, as text."""
    batch, *sizes = map(int, numbers)
    rng, sizes = np.random.default_rng(3), Sizes(*sizes)
    with Lenet28(experiment, batch, sizes=sizes, own=own) as model:
        model.epoch(
            rng.random((batch, sizes.side, sizes.side), np.float32),
            rng.integers(0, sizes.classes, batch),
        )


if __name__ == "__main__":
    _main(*sys.argv[1:])
