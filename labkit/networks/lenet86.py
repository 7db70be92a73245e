"""The network lenet86: on the engine in use, with any convolution inside, and in NumPy to verify it.

    images [B,1,86,86] -> conv1 [B,4,80,80] -> ReLU, max-pool 2/2 [B,4,40,40]
                       -> conv2 [B,16,34,34] -> ReLU, max-pool 4/4, ceil mode [B,16,9,9]
                       -> fully connected, ReLU [B,32] -> fully connected [B,10] -> softmax [B,10]

The convolutions have no bias; the fully connected layers have.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

import hostcuda
from labkit.base import manifest
from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.ladder import variants
from labkit.ladder.buffers import Buffers, Closing, CompiledKernels, DeviceBuffer
from labkit.ladder.rung import tiles
from labkit.ladder.variants import Variant
from labkit.networks.model import accuracy, as_labels, require_shapes
from labkit.networks.reference.lenet86 import LENET86 as SIZES
from labkit.networks.reference.lenet86 import forward_numpy
from labkit.spec.layers import LENET86

if TYPE_CHECKING:
    import pandas as pd

CLASSES = SIZES.classes
WEIGHT_SHAPES = SIZES.shapes


def load_weights(
    which: str | Path | Mapping[str, np.ndarray] = "digits",
) -> dict[str, np.ndarray]:
    """Return the weights of a trained lenet86.

    Parameters
    ----------
    which : str, Path or mapping
        A data set whose weights are in data/weights, an .npz file of `python -m recording train`,
        or arrays by name.

    Returns
    -------
    dict of ndarray, float32
        conv1 [4,1,7,7], conv2 [16,4,7,7], fc1 [1296,32], fc1_bias [32], fc2 [32,10], fc2_bias [10].

    Raises
    ------
    LabError
        If there are none, the file is damaged, or an array has a wrong shape.
    """
    if isinstance(which, (str, Path)):
        path = _find_weights(which)
        arrays = _read_weights(path)
    else:
        if not isinstance(which, Mapping):
            raise LabError(
                f'{which!r} names no weights: take a data set such as "digits", a file, or arrays'
            )
        path, arrays = "the weights", dict(which)
    weights = require_shapes(arrays, WEIGHT_SHAPES, path, "lenet86")
    for name, w in weights.items():
        if not np.isfinite(w).all():
            raise LabError(
                f"{path}: {name} holds NaN or infinity; train it again with a lower --rate"
            )
    return weights


def provenance(which: str | Path = "digits") -> dict[str, Any]:
    """Return how the weights `which` of `load_weights` were trained: a dict of data, seed, settings, accuracies.

    Raises LabError if there are none, or their .json file cannot be read.
    """
    path = _find_weights(which).with_suffix(".json")
    try:
        return json.loads(manifest.read(path))
    except ValueError as error:
        raise LabError(
            f"cannot read {path} ({error}); `python -m recording train` writes it"
        ) from None


def _find_weights(which):
    """Return the path of a file of weights, given as a path or as a data set's name; LabError if there is none."""
    is_path = isinstance(which, Path) or str(which).endswith(".npz")
    path = Path(which).expanduser() if is_path else data_dir() / "weights" / f"lenet86-{which}.npz"
    if not path.is_file():
        raise LabError(
            f"there are no weights {path}. Train them in a checkout: python -m recording "
            "train --dataset digits|mnist|fashion-mnist"
        )
    return path


def _read_weights(path):
    """Return the arrays of a .npz file by name; LabError if it is damaged or has another digest than in its .json."""
    content = manifest.read(path)
    if path.with_suffix(".json").is_file():
        recorded = provenance(path).get("sha256")
        if recorded and hashlib.sha256(content).hexdigest() != recorded:
            raise LabError(
                f"{path} is not the file that {path.with_suffix('.json').name} describes: its "
                f"SHA-256 differs. Restore both, or train again: python -m recording train"
            )
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise LabError(
            f"{path} is no .npz file, or a damaged one ({error}); train again: "
            "python -m recording train"
        ) from None


@dataclass(frozen=True)
class ForwardTimes:
    """The times of one forward pass."""

    # The kernels of conv1 and conv2, between events around `Plan.run`: no copies, no conversions to
    # half and back.
    op_ms: tuple[float, float]
    # Each convolution with its allocations, the copies of its input and mask to the device, and
    # that of its output back; None if the pass kept its data on the device.
    layer_ms: tuple[float, float] | None
    total_s: float  # from the images in host memory to the probabilities in host memory


class Network:
    """lenet86 on the engine in use, a GPU or the CPU engine.

    Parameters
    ----------
    weights : str, Path or mapping
        For `load_weights`.
    conv : Variant, number or name of a rung, or a pair of these, optional
        The convolution of both layers, or of each. Default: 01 baseline.
    streams : mapping, optional
        Arguments of `labkit.Pipeline`: ``{"chunk": 1000, "streams": 3}``. With `course` the
        convolutions then go through pipelines, and the layer times are those from and to
        page-locked memory.

    Attributes
    ----------
    weights : dict of ndarray
    conv : (Variant, Variant)
    layers : (Layer, Layer)
    times : ForwardTimes or None
        The times of the last forward pass.

    Raises
    ------
    LabError
        If a variant cannot compute its layer.
    """

    layers = tuple(LENET86)

    def __init__(
        self,
        weights: str | Path | Mapping[str, np.ndarray] = "digits",
        conv: Variant | int | str | Sequence[Variant | int | str] | None = None,
        streams: Mapping[str, Any] | None = None,
    ):
        """Read the weights, and find out whether the variants can compute the layers."""
        chosen = variants.as_variants(1 if conv is None else conv)
        self.conv = tuple(2 * chosen if len(chosen) == 1 else chosen)
        if len(self.conv) != 2:
            raise LabError(
                f"conv is one variant for both layers, or a pair of variants; not {len(self.conv)} of them"
            )
        self._kernels = [
            variant.on(layer) for variant, layer in zip(self.conv, self.layers, strict=True)
        ]
        self.weights = load_weights(weights)
        self.streams = streams
        self.times = None

    def __repr__(self):
        first, second = (variant.label for variant in self.conv)
        return f"<Network with {first}{'' if first == second else ' and ' + second}>"

    def forward(self, images: np.ndarray, course: bool = False) -> np.ndarray:
        """Run the network on one batch, and note in `.times` how long it took.

        Parameters
        ----------
        images : ndarray, float32 [B, 1, 86, 86]
        course : bool
            Copy the input of each convolution from host memory to the device and its output back: that
            gives layer times. So does the program of the course on parallel programming that this network
            comes from, where the host computes everything else. (Here ReLU, pooling and the rest run on
            the device all the same.) Otherwise the data stays there up to the probabilities.

        Returns
        -------
        ndarray, float32 [B, 10]
            The probability of each class.

        Raises
        ------
        LabError
            If the images have another shape.
        hostcuda.driver.MemoryError
            If the batch does not fit into the device's memory; nothing stays allocated.
        """
        images = self._as_images(images)
        kernels = _kernels()
        for kernel in self._kernels:
            kernel.module()  # compiled before the clock starts
        B, op_ms, layer_ms = len(images), [], []
        start = time.perf_counter()
        with Buffers() as memory:
            # a layer's input: on the device, or while x is None in host memory
            x, host_input = (None, images)
            for index, (layer, window) in enumerate(zip(self.layers, SIZES.pools, strict=True)):
                if course and self.streams:  # copies in chunks, beside the kernels
                    y = self._stream(memory, index, host_input, op_ms, layer_ms)
                else:
                    layer_start = time.perf_counter()
                    if x is None:
                        x = memory.copy_in(host_input)
                    y = memory.new(layer.y_shape(B))
                    op_ms.append(self._convolve(memory, index, B, x, y))
                    memory.free(x)
                    if course:
                        memory.copy_out(y, layer.y_shape(B))
                        layer_ms.append((time.perf_counter() - layer_start) * 1e3)
                shape = B, layer.M, tiles(layer.Ho, window), tiles(layer.Wo, window)
                x = memory.new(shape)
                kernels.relu_max_pool(
                    int(np.prod(shape)),  # threads: one per result
                    y,
                    x,
                    B * layer.M,
                    layer.Ho,
                    layer.Wo,
                    window,
                    window,
                    *shape[2:],
                )
                memory.free(y)
                if course and index == 0:  # conv2's input, too, begins in host memory
                    host_input = memory.copy_out(x, shape)
                    memory.free(x)
                    x = None
            probabilities = self._classify(memory, kernels, B, x)
        self.times = ForwardTimes(
            tuple(op_ms), tuple(layer_ms) if course else None, time.perf_counter() - start
        )
        return probabilities

    def batch(self, B: int, x: np.ndarray | None = None) -> NetworkBatch:
        """Return all arrays and device buffers for B images, to run many times.

        `x` is the caller's own array of images, by default a new one in page-locked memory.
        """
        return NetworkBatch(self, B, x)

    def accuracy(self, images: np.ndarray, labels: np.ndarray) -> float:
        """Return the part of the images that the network classifies correctly, 0 to 1."""
        return accuracy(self.forward(images), labels)

    def course_table(
        self, images: np.ndarray, labels: np.ndarray, batches: Sequence[int] = (100, 1000, 10000)
    ) -> pd.DataFrame:
        """Measure op times, layer times, total time and accuracy at several batch sizes.

        The reports of students of a course on parallel programming, which are published, have such a table.

        Parameters
        ----------
        images : ndarray, float32 [N, 1, 86, 86]
        labels : ndarray, int [N]
            A batch larger than N starts again at the first image; the last column is the number of
            distinct images.
        batches : sequence of int

        Returns
        -------
        DataFrame
            batch, op time 1 ms, op time 2 ms, layer time 1 ms, layer time 2 ms, total s, accuracy,
            distinct images.

        Raises
        ------
        LabError
            If a batch is smaller than 1, or there is not one label per image.
        """
        # here, because pandas loads slowly and `labkit doctor` needs only the weights
        import pandas as pd

        labels = as_labels(labels, len(images))
        # Loads the kernels, which else the first launch of each would do, while it is timed.
        self.forward(images[:1], course=True)
        rows = []
        for batch in batches:
            if batch < 1:
                raise LabError(f"a batch needs at least one image, not {batch}")
            numbers = np.arange(batch) % len(labels)
            probabilities = self.forward(images[numbers], course=True)
            rows.append(
                {
                    "batch": batch,
                    **{f"op time {number} ms": ms for number, ms in enumerate(self.times.op_ms, 1)},
                    **{
                        f"layer time {number} ms": ms
                        for number, ms in enumerate(self.times.layer_ms, 1)
                    },
                    "total s": self.times.total_s,
                    "accuracy": accuracy(probabilities, labels[numbers]),
                    "distinct images": min(batch, len(labels)),
                }
            )
        return pd.DataFrame(rows)

    def forward_numpy(self, images: np.ndarray) -> np.ndarray:
        """Return the probabilities by NumPy with the same weights, the reference: float32 [B, 10]."""
        return forward_numpy(images, self.weights)

    def _as_images(self, images):
        """Return images as float32 [B, C, H, W] in C order; LabError for another shape or an empty batch."""
        shape = np.shape(images)
        expected = self.layers[0].x_shape(1)[1:]  # (C, H, W)
        if len(shape) != 4 or shape[1:] != expected or shape[0] < 1:
            raise LabError(
                f"the images have the shape {shape}; lenet86 takes [B, {expected[0]}, {expected[1]}, "
                f"{expected[2]}], as labkit.dataset(size={expected[1]}).images has them"
            )
        return np.ascontiguousarray(images, np.float32)

    def _convolve(self, memory, index, B, x, y):
        """Run conv1 (index 0) or conv2 (1) on B images, from device buffer x to y, both float32; return its time [ms].

        A variant that computes in half gets converted copies, which `memory` allocates; the time is
        without that.
        """
        variant, layer = self.conv[index], self.layers[index]
        is_half = variant.io_dtype == np.float16
        x_size, y_size = (int(np.prod(shape)) for shape in (layer.x_shape(B), layer.y_shape(B)))
        x_io, y_io = x, y
        if is_half:
            x_io, y_io = memory.new(x_size, np.float16), memory.new(y_size, np.float16)
            _kernels().float_to_half(x_size, x, x_io, x_size)
        start, stop = hostcuda.driver.Event(), hostcuda.driver.Event()
        with self._kernels[index].plan(B, x=x_io, y=y_io) as plan:
            # Every time: two layers may share one module, and so its __constant__ mask.
            plan.load(k=self.weights[f"conv{index + 1}"])
            start.record()
            plan.run()
            stop.record()
            stop.synchronize()
        if is_half:
            _kernels().half_to_float(y_size, y_io, y, y_size)
            memory.free(x_io, y_io)
        return stop.time_since(start)

    def _stream(self, memory, index, host_input, op_ms, layer_ms):
        """Run conv1 (index 0) or conv2 (1) on a host array in chunks on streams; return a device buffer, float32.

        Appends the time of its kernels to the list `op_ms` and that of the layer to `layer_ms`.
        """
        # here, because it imports pandas
        from labkit.measure.pipeline import Pipeline, busy_ms, host_arrays

        variant, layer, B = self.conv[index], self.layers[index], len(host_input)
        arrays = host_arrays(layer, B, variant.io_dtype)  # x and y, page-locked
        np.copyto(arrays[0], host_input, casting="same_kind")
        start = time.perf_counter()
        with Pipeline(variant, layer, B, host=arrays, **self.streams) as pipeline:
            y = pipeline.run(k=self.weights[f"conv{index + 1}"])
            layer_ms.append((time.perf_counter() - start) * 1e3)
            # while at least one kernel ran
            op_ms.append(float(busy_ms(pipeline.timeline)["kernel"]))
        return memory.copy_in(y.astype(np.float32, copy=False))

    def _classify(self, memory, kernels, B, x):
        """Run the fully connected layers and softmax on device buffer x [B, 1296]; return an array [B, 10]."""
        for layer, with_relu in (("fc1", 1), ("fc2", 0)):
            inputs, outputs = WEIGHT_SHAPES[layer]
            w = memory.copy_in(self.weights[layer])
            bias = memory.copy_in(self.weights[f"{layer}_bias"])
            y = memory.new((B, outputs))
            kernels.fully_connected(B * outputs, x, w, bias, y, B, inputs, outputs, with_relu)
            x = y
        y = memory.new((B, CLASSES))
        kernels.softmax(B, x, y, B, CLASSES)
        return memory.copy_out(y, (B, CLASSES))


class NetworkBatch(Closing):
    """A batch of `Network` with everything it needs, allocated once: host arrays, device buffers, plans.

    It launches the kernels of `Network.forward`, a convolution's and those of 00_network.cu, one
    after the other on the default stream. All maps stay on the device.

    Parameters
    ----------
    network : Network
        Both of its convolutions are in float32.
    B : int
        Images.
    x : ndarray, float32 [B, 1, 86, 86], optional
        The images, in memory of the caller: `y` then is in ordinary memory. By default both arrays
        are page-locked.

    Attributes
    ----------
    x, y : ndarray
        The images and, float32 [B, 10], the probabilities. Fill `x` in place before `run`.
    device_x, device_y : device buffers
        The same on the device: `launch` reads one and writes the other.
    steps : dict of str to callable
        Launches each layer, in their order: conv1, pool1, conv2, pool2, fc1, fc2, softmax.

    Raises
    ------
    LabError
        If a convolution is in half, x has another shape or data type, or there is too little
        page-locked memory.
    hostcuda.driver.MemoryError
        If the batch does not fit into the device's memory; nothing stays allocated.
    """

    def __init__(self, network: Network, B: int, x: np.ndarray | None = None):
        """Allocate, copy the weights to the device, collect the launches; if one fails, what was allocated is freed."""
        if any(variant.io_dtype != np.float32 for variant in network.conv):
            raise LabError(f"{network!r}: a batch of it needs both convolutions in float32")
        shape = network.layers[0].x_shape(B)
        if x is None:
            self.x = allocate_page_locked(shape, np.float32)
            self.y = allocate_page_locked((B, CLASSES), np.float32)
        elif (x.shape, x.dtype) != (shape, np.float32):
            raise LabError(
                f"the images are {x.dtype} of the shape {x.shape}; a batch of {B} takes float32 {list(shape)}"
            )
        else:
            self.x, self.y = x, np.zeros((B, CLASSES), np.float32)
        self.steps: dict[str, Callable[[], None]] = {}
        self._memory, self._plans = Buffers(), []
        try:
            self.device_x = self._memory.new(self.x.shape)
            features = self._add_convolutions(network, B)
            self.device_y = self._add_rows(network.weights, B, features)
        except BaseException:
            self.close()
            raise

    def _add_convolutions(self, network: Network, B: int) -> DeviceBuffer:
        """Add the steps of both convolutions and their pools; return the buffer of the features."""
        kernels, x = _kernels(), self.device_x
        layers = zip(network._kernels, network.layers, SIZES.pools, strict=True)
        for number, (kernel, layer, window) in enumerate(layers, 1):
            y = self._memory.new(layer.y_shape(B))
            plan = kernel.plan(B, x=x, y=y)
            self._plans.append(plan)
            plan.load(k=network.weights[f"conv{number}"])
            self.steps[f"conv{number}"] = plan.run
            Ho, Wo = tiles(layer.Ho, window), tiles(layer.Wo, window)
            outputs = B * layer.M * Ho * Wo
            x = self._memory.new(outputs)
            self.steps[f"pool{number}"] = functools.partial(
                kernels.relu_max_pool,
                *(outputs, y, x, B * layer.M, layer.Ho, layer.Wo, window, window, Ho, Wo),
            )
        return x

    def _add_rows(self, weights: Mapping[str, np.ndarray], B: int, x: DeviceBuffer) -> DeviceBuffer:
        """Add the fully connected layers and softmax on the features x; return the buffer of the probabilities."""
        kernels, copy_in = _kernels(), self._memory.copy_in
        for layer, with_relu in (("fc1", 1), ("fc2", 0)):
            inputs, outputs = WEIGHT_SHAPES[layer]
            w = copy_in(weights[layer])
            bias = copy_in(weights[f"{layer}_bias"])
            y = self._memory.new((B, outputs))
            self.steps[layer] = functools.partial(
                kernels.fully_connected,
                *(B * outputs, x, w, bias, y, B, inputs, outputs, with_relu),
            )
            x = y
        y = self._memory.new((B, CLASSES))
        self.steps["softmax"] = functools.partial(kernels.softmax, B, x, y, B, CLASSES)
        return y

    def launch(self, mark: Callable[[], None] = lambda: None) -> None:
        """Launch all layers, from `device_x` to `device_y`, without waiting.

        `mark` is called before each and after the last one, for example to time them separately.
        """
        for launch_layer in self.steps.values():
            mark()
            launch_layer()
        mark()

    def run(self) -> np.ndarray:
        """Compute the probabilities of the images in `x`, wait, and return `y`; the next run writes into it again."""
        hostcuda.driver.memcpy_htod(self.device_x, self.x)
        self.launch()
        hostcuda.driver.memcpy_dtoh(self.y, self.device_y)
        return self.y

    def close(self) -> None:
        """Free the device's buffers; a second call does nothing."""
        self.steps = {}  # the launches: their buffers are freed next
        for plan in self._plans:
            plan.close()
        self._memory.close()


def allocate_page_locked(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Return zeros in page-locked host memory, of the shape [images, ...]; LabError if there is too little memory."""
    try:
        return hostcuda.driver.pagelocked_zeros(shape, dtype)
    except (hostcuda.driver.MemoryError, hostcuda.driver.LogicError, MemoryError) as error:
        size = np.prod(shape, dtype=np.int64) * np.dtype(dtype).itemsize / 1e9
        raise LabError(
            f"cannot allocate {size:.2f} GB of page-locked memory for {shape[0]:,} images ({error}): take "
            "a smaller batch, or the network's `forward`, which takes ordinary memory"
        ) from error


@functools.cache
def _kernels() -> CompiledKernels:
    """Return the compiled kernels, each a method of the number of outputs and the kernel's arguments; compiled once."""
    return CompiledKernels(
        "00_network.cu",
        relu_max_pool="PPiiiiiii",
        fully_connected="PPPPiiii",
        softmax="PPii",
        float_to_half="PPq",
        half_to_float="PPq",
    )  # arguments: P a pointer, i an int, q an int64
