"""lenet86 in one kernel, on tensor cores: from pixels in host memory to probabilities in host memory.

The kernel is cuda_src/13_network.cu, or that of a step, cuda_src/steps/network. The host arranges
the weights for it once, allocates all buffers once, and issues a batch as one CUDA graph, or in
chunks on streams if it is large.

    with labkit.FusedNetwork("digits", dtype="float32") as network:
        probabilities = network.forward(images)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

import hostcuda
from hostcuda.graphs import Graph
from labkit.base.errors import LabError
from labkit.base.paths import cuda_src
from labkit.ladder.buffers import Buffers, Closing
from labkit.ladder.rung import tiles
from labkit.ladder.source import module_arguments
from labkit.ladder.variants import WGMMA, describe_missing_wgmma
from labkit.networks import lenet86
from labkit.networks.model import KernelSource, accuracy
from labkit.networks.reference.layers import max_pool, relu, softmax
from labkit.networks.reference.lenet86 import POOLS
from labkit.spec.devices import count_blocks_at_once, device
from labkit.spec.reference import conv_float64

SIZE, CLASSES = 86, lenet86.CLASSES
LIMIT = 16.0  # the largest absolute value of a pixel: no map then exceeds the largest half
MOST_HALF = 65504.0  # the largest finite half
CHUNK, STREAMS = 1000, 3
DEVIATIONS = 6  # standard deviations that an error may reach
# k-steps of products per mask; the zeros around it
_K_STEPS, _PADDING = (4, ((0, 0), (0, 0), (1, 1), (1, 2)))
_SUM_ROUNDOFF = 2.0**-22  # of 16 products: tensor cores truncate
# of a float; what is lost below the least half
_FLOAT_ROUNDOFF, _HALF_UNDERFLOW = (2.0**-24, 2.0**-25)
_LEAST_WEIGHT = 2.0**-20  # stands for weights that are zero or nearly so: a scale has to be finite
_SIGNATURE = "PPPPPPifffff"  # the types of the kernel's arguments: a pointer, an int, a float
_CAPABILITY = (8, 0)  # the least compute capability: halves on tensor cores, by mma.m16n8k16
# Of shared memory, per part of the numbers; the kernel's struct `Block`. Rows of a map that no layer
# writes are read; 4 words more keep rows, and images, in different banks.
BLOCK_BYTES = {
    "image": 4 * (86 * 86 // 2 + 4),
    "maps": 4 * (4 * 42 * 40 // 2 + 4),
    "features": 4 * 8 * (1296 // 2 + 4),  # of 8 images
}
_BLOCK_BYTES = sum(BLOCK_BYTES.values())


@dataclass(frozen=True)
class Precision:
    """How the kernel computes in one data type."""

    products: int  # of halves, per product of two numbers
    parts: int  # halves per number
    # largest relative error of a number as the kernel keeps it, beside that of a subnormal low part
    roundoff: float
    # The kernel's warps, blocks (per multiprocessor, at most), and what a warp computes at once of
    # each convolution.
    sizes: dict[str, int]
    # of the step warpgroups: teams of four warps, images whose features wait for the product
    teams: dict[str, int]


PRECISIONS = {
    "float16": Precision(
        1,
        1,
        2.0**-11,
        {"WARPS": 7, "BLOCKS": 4, "PAIRS_1": 5, "PAIRS_2": 6, "GROUPS_2": 1},
        {"TEAMS": 3, "SLOTS": 8},
    ),
    "float32": Precision(
        3,
        2,
        2.0**-22,
        {"WARPS": 10, "BLOCKS": 2, "PAIRS_1": 5, "PAIRS_2": 6, "GROUPS_2": 1},
        {"TEAMS": 2, "SLOTS": 4},
    ),
}


def _choose_power(largest: float) -> float:
    """Return the largest power of two that, times `largest`, is a finite half. 2^-8 leaves room for roundings."""
    return 2.0 ** np.floor(np.log2(MOST_HALF / (largest * (1 + 2.0**-8))))


@dataclass(frozen=True)
class Scales:
    """Powers of two that scale what is stored as halves: the pixels, both convolutions' maps, the weights."""

    pixels: float
    maps: tuple[float, float]
    weights: tuple[float, float, float]

    @classmethod
    def from_weights(cls, weights: dict[str, np.ndarray]) -> Scales:
        """Return the scales for these weights, by name, with which no half overflows if no pixel exceeds `LIMIT`.

        A scale is the largest power of two by which pixels, maps or weights can be multiplied and kept as halves.
        """
        # `largest_value` bounds the inputs of a layer, then its outputs
        largest_value, maps = LIMIT, []
        for name in ("conv1", "conv2"):
            # an output is at most the sum of |k| over its terms, times the largest input
            sums = np.abs(weights[name]).astype(np.float64).sum(axis=(1, 2, 3))
            # `_LEAST_WEIGHT`: a scale has to be finite, also for weights that are all 0
            largest_value *= max(float(sums.max()), _LEAST_WEIGHT)
            maps.append(_choose_power(largest_value))
        largest_weights = (
            max(float(np.abs(weights[name]).max()), _LEAST_WEIGHT)
            for name in ("conv1", "conv2", "fc1")
        )
        return cls(_choose_power(LIMIT), tuple(maps), tuple(map(_choose_power, largest_weights)))

    @property
    def factors(self) -> tuple[float, float, float]:
        """For conv1, conv2 and fc1 the factor that turns a sum of scaled products into the output at its own scale."""
        inputs, outputs = (self.pixels, *self.maps), (*self.maps, 1.0)  # fc1's: floats, unscaled
        return tuple(
            output / (x * w) for x, w, output in zip(inputs, self.weights, outputs, strict=True)
        )


def _split(numbers: np.ndarray, parts: int) -> np.ndarray:
    """Return float32 numbers as halves [parts, ...]: rounded, and if `parts` is 2, the remainders of the rounding."""
    rounded = numbers.astype(np.float16)
    if parts == 1:
        return rounded[None]
    return np.stack([rounded, (numbers - rounded.astype(np.float32)).astype(np.float16)])


def arrange_convolution(k: np.ndarray) -> np.ndarray:
    """Return the mask k [M, C, 7, 7] in the order in which lanes load it, [M/4, C, k-step, lane, register, 2].

    The result is the left matrix, 16 x 16, of products on tensor cores. A product computes squares of
    2 x 2 outputs in 4 maps, from windows of 8 x 8 inputs. A k-step (one product) has two rows of the
    window.

    Rows of the matrix: row r < 8 belongs to map r / 2, and there to the output in row r % 2 and column
    0 of the square; row r + 8 belongs to the output beside it. A lane holds row lane / 4 in registers
    0 and 2, and row lane / 4 + 8 in registers 1 and 3. Registers 0 and 1 belong to the first of the
    k-step's rows of the window, 2 and 3 to the second. A register has two columns, the last axis.
    """
    group, c, k_step, lane, register, column = np.indices(
        (len(k) // 4, k.shape[1], _K_STEPS, 32, 4, 2), sparse=True
    )
    # of the input in its window, and of the output in its square
    input_row, input_column = 2 * k_step + register // 2, lane % 4 * 2 + column
    output_row, output_column = lane // 4 % 2, register % 2
    # The mask's element is the input's place minus the output's; outside of the mask, a zero. + 1,
    # because the padding moves every element down and right by one.
    return np.pad(k, _PADDING)[
        4 * group + lane // 8, c, input_row - output_row + 1, input_column - output_column + 1
    ]


def arrange_windows(k: np.ndarray) -> np.ndarray:
    """Return the mask k [M, C, 7, 7] as the right matrix of wgmma, [C, k-step, half, 2, M, 2, 8].

    A k-step is one wgmma, which adds up 16 terms. The matrix's 4 M columns are the outputs of a square
    of 2 x 2: by row of the square, then map, then column of the square. Half a k-step has 8 terms: the
    inputs of one row of the square's window of 8 x 8.
    """
    c, k_step, half, output_row, m, output_column, input_column = np.indices(
        (k.shape[1], _K_STEPS, 2, 2, len(k), 2, 8), sparse=True
    )
    input_row = 2 * k_step + half  # in the window
    # in the mask: the input's place minus the output's; + 1, because the padding moves it by one
    return np.pad(k, _PADDING)[m, c, input_row - output_row + 1, input_column - output_column + 1]


def arrange_rows(k: np.ndarray) -> np.ndarray:
    """Return the mask k [M, 4, 7, 7] as the left matrix of wgmma, [k-step, warp, lane, register, 2].

    A warp has 4 maps, and 16 rows of the matrix: the outputs of a square of 2 x 2 in each. Rows
    lane / 4 and lane / 4 + 8, in even and odd registers, are the two outputs beside each other in map
    lane / 8, row lane / 4 % 2 of the square. A k-step has 4 columns of a row of the square's window:
    two in each of the four channels (registers 0 and 1), then two more (registers 2 and 3).
    """
    k_step, warp, lane, register, column = np.indices(
        (4 * _K_STEPS, len(k) // 4, 32, 4, 2), sparse=True
    )
    m, c = 4 * warp + lane // 8, lane % 4
    # of the input in its window, and of the output in its square
    input_row, input_column = k_step // 2, k_step % 2 * 4 + register // 2 * 2 + column
    output_row, output_column = lane // 4 % 2, register % 2
    # + 1, because the padding moves every element down and right by one
    return np.pad(k, _PADDING)[m, c, input_row - output_row + 1, input_column - output_column + 1]


def arrange_matrix(w: np.ndarray) -> np.ndarray:
    """Return a matrix [inputs, outputs] as lanes load it: [inputs/16, outputs/16, lane, register, 2].

    It is, transposed, the left matrix of products of 16 x 16 by 16 x 8; PTX fixes a lane's elements
    (mma.m16n8k16). The last axis is the two halves of a register.
    """
    k_step, group, lane, register, half = np.indices(
        (w.shape[0] // 16, w.shape[1] // 16, 32, 4, 2), sparse=True
    )
    inputs = 16 * k_step + register // 2 * 8 + lane % 4 * 2 + half
    outputs = 16 * group + register % 2 * 8 + lane // 4
    return w[inputs, outputs]


@dataclass(frozen=True)
class FusedKernel:
    """One of the kernels: all that the host needs to launch it."""

    path: Path
    # of each convolution: arranges the mask
    arrange: tuple[Callable[[np.ndarray], np.ndarray], ...]
    sizes: Callable[[Precision], dict[str, int]]  # the compile-time parameters
    blocks: Callable[[Precision], int]  # per multiprocessor of the device in use
    warps: Callable[[Precision], int]  # per block
    shared_bytes: Callable[[Precision], int]  # per block


def _count_team_bytes(p: Precision) -> int:
    """Return the bytes of shared memory of a block of steps/network/warpgroups.cu, whose structs these numbers repeat.

    They are those of the weights, and per team of four warps of the maps, an image, and the
    features of SLOTS images.
    """
    # Pieces have 16 bytes. Weights: k-steps x halves x columns of conv1, k-steps x warps x lanes of
    # conv2.
    weight_pieces = 4 * 2 * 16 + 16 * 4 * 32
    map_pieces = 4 * 20 * (11 if p.parts == 1 else 10) + 8 * 20  # `Second::MAP_PIECES`
    # of two halves; 4 more: rows in different banks
    image_words, feature_words = (SIZE * SIZE // 2, 1296 // 2 + 4)
    # + 4: `refused`
    team = 4 * p.parts * (image_words + 4 * map_pieces + p.teams["SLOTS"] * feature_words) + 4
    return 16 * (p.parts * weight_pieces + p.teams["TEAMS"] * tiles(team, 16))


def _count_blocks(p: Precision) -> int:
    """Return how many blocks of 13_network.cu run at once on a multiprocessor of the device in use."""
    return count_blocks_at_once(p.parts * _BLOCK_BYTES, device().shared_opt_in, p.sizes["BLOCKS"])


KERNELS = {
    None: FusedKernel(
        cuda_src() / "13_network.cu",
        (arrange_convolution,) * 2,
        lambda p: {**p.sizes, "BLOCKS": _count_blocks(p)},
        _count_blocks,
        lambda p: p.sizes["WARPS"],
        lambda p: p.parts * _BLOCK_BYTES,
    ),
    "warpgroups": FusedKernel(
        cuda_src() / "steps/network/warpgroups.cu",
        (arrange_windows, arrange_rows),
        lambda p: p.teams,
        lambda p: 1,
        lambda p: 4 * p.teams["TEAMS"],
        _count_team_bytes,
    ),
}


def require_gpu(step: str | None) -> None:
    """Raise LabError if the GPU in use lacks instructions of the kernel of `step`, or of 13_network.cu for None."""
    gpu = device()  # the CPU engine has no compute capability: None
    if gpu.compute_capability and gpu.compute_capability < _CAPABILITY:
        needed, has = (
            ".".join(map(str, version)) for version in (_CAPABILITY, gpu.compute_capability)
        )
        raise LabError(
            f"the fused network needs a GPU of compute capability {needed}, and {gpu.name} has {has}: "
            "take labkit.Network"
        )
    if step and gpu.compute_capability not in (None, WGMMA):  # None: the CPU engine has wgmma
        raise LabError(
            f"the fused network's step {step} {describe_missing_wgmma(gpu)}: leave step={step!r} out"
        )


def _read_kernel(path: Path, without: str | None) -> str:
    """Return the text of a kernel's file, without the line that has the text `without`.

    The line becomes an empty one, so the others keep their numbers. Raises LabError if it is not
    exactly one line.
    """
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if without is not None:
        found = [n for n, line in enumerate(lines) if without in line]
        if len(found) != 1:
            raise LabError(
                f"without={without!r}: {len(found)} lines of {path.name} have this text; "
                "give a text that one line has"
            )
        lines[found[0]] = "\n"
    return "".join(lines)


class FusedNetwork(Closing):
    """lenet86 in one kernel. A context manager: at its end the device's buffers are freed.

    Parameters
    ----------
    weights : str, Path or mapping
        For `labkit.networks.lenet86.load_weights`.
    dtype : {"float32", "float16"}
        float32: three products of halves for a product. On an H100 the largest error of a
        probability was 4e-6 for 500 digits, with the step 1e-5; PyTorch's in FP32 was 6e-7 (`python
        -m recording errors`). No answer changed. Tensor cores truncate the sums. float16: pixels,
        maps and weights are rounded to half; sums are float32.
    step : {"warpgroups"}, optional
        The kernel of this step: products of four warps, which only GPUs of compute capability 9.0
        have, and the CPU engine. By default that of 13_network.cu.
    without : str, optional
        A part of one line of the kernel's file, which is left out: an experiment, such as on what a
        barrier is for.

    Raises
    ------
    LabError
        If the GPU has a compute capability below 8.0, or with a step another one than 9.0; if the
        data type or the step is not listed here, or the weights are not those of a lenet86; if
        `without` is not in exactly one line.
    """

    def __init__(
        self,
        weights: str | Path | dict = "digits",
        dtype: DTypeLike = "float32",
        step: str | None = None,
        without: str | None = None,
    ):
        """Bring the weights into the order and the range that the kernel needs, and copy them to the device."""
        self.dtype, self.step = np.dtype(dtype), step
        if step not in KERNELS:
            raise LabError(
                f"step={step!r}: the fused network has the step {', '.join(filter(None, KERNELS))}"
            )
        if self.dtype.name not in PRECISIONS:
            raise LabError(
                f"dtype={self.dtype.name}: the fused network computes in {' or '.join(PRECISIONS)}"
            )
        require_gpu(step)
        self.weights = lenet86.load_weights(weights)
        self.precision = PRECISIONS[self.dtype.name]
        self.scales = Scales.from_weights(self.weights)
        self._memory, self._functions = Buffers(), {}
        self._kernel = KERNELS[step]
        self._text = _read_kernel(self._kernel.path, without)
        arrangers = (*self._kernel.arrange, arrange_matrix)
        # in the order of the fragments, scaled into the range of half, and split into halves
        arranged = [
            _split(arrange(self.weights[name]) * np.float32(scale), self.precision.parts)
            for name, arrange, scale in zip(
                ("conv1", "conv2", "fc1"), arrangers, self.scales.weights, strict=True
            )
        ]
        # three device buffers
        self._weights = [self._memory.copy_in(np.ascontiguousarray(halves)) for halves in arranged]
        dense = [self.weights[name].ravel() for name in ("fc1_bias", "fc2", "fc2_bias")]
        self._dense = self._memory.copy_in(np.concatenate(dense))

    def __repr__(self) -> str:
        return f"<FusedNetwork{', ' + self.step if self.step else ''} in {self.dtype.name}>"

    def close(self) -> None:
        """Free the device's buffers; a second call does nothing."""
        self._memory.close()

    def function(self, byte_size: tuple[int, int] | None = None) -> Any:
        """Return the prepared kernel for float32 images, or for uint8 images of the height and width `byte_size`.

        It is compiled at its first use. The kernel resizes images of another size than 86 x 86:
        first to 86 rows, then to 86 columns. Between these steps an image lies in the shared
        memory of the second layer's maps, where 86 rows of at most 39 columns fit. Raises LabError
        for wider ones.
        """
        if byte_size not in self._functions:
            height, width = byte_size or (SIZE, SIZE)
            if (height, width) != (SIZE, SIZE) and not (height >= 1 and 1 <= width <= 39):
                raise LabError(
                    f"pixels of {height} x {width}: the device resizes images of at most 39 columns, "
                    f"and takes those of {SIZE} x {SIZE} as they are; resize others with labkit.dataset"
                )
            defines = {
                "PRODUCTS": self.precision.products,
                "LIMIT": f"{LIMIT}f",
                **self._kernel.sizes(self.precision),
            }
            if byte_size is not None:
                defines |= {"SOURCE_H": height, "SOURCE_W": width}
            path, capability = self._kernel.path, device().compute_capability
            options = (f"-D{name}={value}" for name, value in defines.items())
            # The kernel of a step has wgmma instructions, which nvcc compiles for sm_90a alone. The
            # CPU engine has no compute capability.
            arch = "sm_90a" if self.step and capability == WGMMA else None
            module = hostcuda.compiler.SourceModule(
                **module_arguments(self._text, path, *options), arch=arch
            )
            function = module.get_function("network").prepare(_SIGNATURE)
            function.set_attribute(
                hostcuda.driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, self.shared_bytes
            )
            self._functions[byte_size] = function
        return self._functions[byte_size]

    @staticmethod
    def source(beginning: str, step: str | None = None) -> KernelSource:
        """Return the first function whose head has the text `beginning`, "void network", for `labkit.show`.

        It is in 13_network.cu, or in the file of a `step` of rung 13, a key of `KERNELS` such as
        "warpgroups". Raises LabError if no function has such a head.
        """
        path = KERNELS[step].path
        return KernelSource.read(
            path, beginning, f"13 network{', ' + step if step else ''}", path.name
        )

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory per block."""
        return self._kernel.shared_bytes(self.precision)

    def launch(
        self,
        x: Any,
        y: Any,
        B: int,
        source: tuple[int, int] | None = None,
        white: float = 255.0,
        stream: Any = None,
    ) -> None:
        """Launch the kernel without waiting: images in device buffer x, probabilities to device buffer y [B, 10].

        x is float32 [B, 1, 86, 86], or uint8 [B, *source] if `source`, a height and a width, is
        given. `white` is the byte that stands for the brightness 1.
        """
        # as many blocks as the GPU holds at once: each computes several images, one after another
        blocks = min(B, self._kernel.blocks(self.precision) * device().multiprocessors)
        self.function(source).prepared_async_call(
            (blocks, 1, 1),
            (32, self._kernel.warps(self.precision), 1),
            stream,
            x,
            *self._weights,  # of conv1, conv2 and fc1
            self._dense,  # fc1's bias, then the last layer's weights and bias
            y,
            B,
            self.scales.pixels,
            np.float32(1 / white),
            *self.scales.factors,
            shared_size=self.shared_bytes,
        )

    def batch(
        self,
        B: int,
        source: tuple[int, int] | None = None,
        white: float = 255.0,
        x: np.ndarray | None = None,
        chunk: int = CHUNK,
        streams: int = STREAMS,
    ) -> Batch:
        """Return page-locked arrays and device buffers for B images, to run many times.

        `source` is the height and width of images as bytes, `white` the byte that stands for 1, `x` the
        caller's own images. Chunks of `chunk` images take turns on the streams, so that copies overlap
        with kernels.
        """
        return Batch(self, B, source, white, x, chunk, streams)

    def forward(self, images: np.ndarray, white: float = 255.0) -> np.ndarray:
        """Run the network on images in host memory.

        Parameters
        ----------
        images : ndarray, float32 [B, 1, 86, 86] or uint8 [B, h, w]
            Bytes are divided by `white` and resized to 86 x 86 on the device, as `labkit.dataset`
            does it on the host. Copies overlap with the kernels if the array is page-locked.
        white : float
            The byte that stands for 1: 16 for the digits.

        Returns
        -------
        ndarray, float32 [B, 10]
            The probability of each class.

        Raises
        ------
        LabError
            If the images have another shape or data type; if a pixel is a NaN, or its absolute
            value exceeds `LIMIT`.
        """
        images, source = as_pixels(images)
        with self.batch(len(images), source, white, x=images) as batch:
            return batch.run().copy()

    def accuracy(self, images: np.ndarray, labels: np.ndarray) -> float:
        """Return the part of the images that the network classifies correctly, 0 to 1."""
        return accuracy(self.forward(images), labels)


def as_pixels(images: np.ndarray) -> tuple[np.ndarray, tuple[int, int] | None]:
    """Return (images in C order, (height, width) of uint8 images or None for float32); LabError for other shapes."""
    shape = np.shape(images)
    if getattr(images, "dtype", None) == np.uint8 and len(shape) == 3 and shape[0]:
        return np.ascontiguousarray(images), shape[1:]
    if len(shape) != 4 or shape[1:] != (1, SIZE, SIZE) or not shape[0]:
        raise LabError(
            f"the images are {getattr(images, 'dtype', 'no array')} of the shape {shape}; the fused network "
            f"takes float32 [B, 1, {SIZE}, {SIZE}] or uint8 [B, h, w]"
        )
    return np.ascontiguousarray(images, np.float32), None


class Batch(Closing):
    """A batch with everything it needs, allocated once: page-locked arrays, device buffers, a graph or streams.

    Up to `chunk` images are one piece: copy in, kernel, copy out, as one CUDA graph. (The CPU
    engine has no graphs and issues the three steps.) More images are cut into chunks, which take
    turns on the streams.

    Parameters
    ----------
    network, B, source, white
        As for `FusedNetwork.launch`.
    x : ndarray, optional
        The images, in memory of the caller; by default a page-locked array is made.
    chunk, streams : int
        Images per chunk, where the last chunk takes the rest; streams, each with device buffers for
        one chunk.

    Attributes
    ----------
    x : ndarray, float32 [B, 1, 86, 86] or uint8 [B, h, w]
        Fill it in place before `run`.
    y : ndarray, float32 [B, 10]
        Page-locked. The next run writes into it again.
    """

    def __init__(
        self,
        network: FusedNetwork,
        B: int,
        source=None,
        white=255.0,
        x=None,
        chunk=CHUNK,
        streams=STREAMS,
    ):
        """Compile, allocate, and on one stream record a graph; what was allocated is freed if one of these fails."""
        if B < 1 or chunk < 1 or streams < 1:
            raise LabError(f"B={B}, chunk={chunk}, streams={streams}: each is at least 1")
        self.network, self.source, self.white, self._graph = network, source, white, None
        network.function(source)  # compiles it, or refuses the size
        shape, dtype = (
            ((B, 1, SIZE, SIZE), np.float32) if source is None else ((B, *source), np.uint8)
        )
        self._memory = Buffers()
        try:
            from_caller = x is not None
            self.x = x if from_caller else lenet86.allocate_page_locked(shape, dtype)
            self.y = lenet86.allocate_page_locked((B, CLASSES), np.float32)
            self.chunk = min(B, chunk)
            # Of each stream: itself, and device buffers for a chunk's images and probabilities.
            self._lanes = [
                (
                    hostcuda.driver.Stream(),
                    self._memory.new((self.chunk, *shape[1:]), dtype),
                    self._memory.new((self.chunk, CLASSES)),
                )
                for _ in range(min(streams, tiles(B, self.chunk)))
            ]
            # a graph keeps the addresses, and needs page-locked memory
            if len(self._lanes) == 1 and not from_caller:
                self._graph = Graph(self.issue, self._lanes[0][0])
        except BaseException:
            self.close()
            raise

    def issue(self) -> None:
        """Start the copies and the launch of each chunk of images, without waiting for them.

        The chunks take turns on the streams. `_lanes` has, per stream, the stream and the device
        buffers of its inputs x and its outputs y.
        """
        copy_to_device = hostcuda.driver.memcpy_htod_async
        copy_to_host = hostcuda.driver.memcpy_dtoh_async
        starts = range(0, len(self.y), self.chunk)
        # not strict: `cycle` does not end
        for start, (stream, x, y) in zip(starts, itertools.cycle(self._lanes), strict=False):
            # the last slice may end beyond the batch: NumPy shortens it
            images = slice(start, start + self.chunk)
            copy_to_device(x, self.x[images], stream)
            self.network.launch(x, y, len(self.y[images]), self.source, self.white, stream)
            copy_to_host(self.y[images], y, stream)

    def run(self) -> np.ndarray:
        """Compute the probabilities of the images in `x`, wait, and return `y`, into which the next run writes again.

        Raises LabError if a pixel is a NaN, or its absolute value exceeds `LIMIT`.
        """
        if self._graph:  # one stream's copies and launch, recorded
            self._graph.launch()
        else:
            self.issue()
        for stream, _, _ in self._lanes:
            stream.synchronize()
        refused = np.flatnonzero(np.isnan(self.y[:, 0]))  # the kernel gives such an image ten NaN
        if len(refused):
            raise LabError(
                f"image {refused[0]} has a pixel that is a NaN or beyond -{LIMIT:g} to {LIMIT:g}: the fused "
                "network keeps its maps as halves, and chose their scales for these limits. Scale the "
                f"pixels to 0 to 1, or take labkit.Network ({len(refused)} of {len(self.y)} images)"
            )
        return self.y

    def close(self) -> None:
        """Free the device's buffers; a second call does nothing."""
        if self._graph:
            self._graph.close()
            self._graph = None
        self._memory.close()


def bounded(
    images: np.ndarray, weights: dict[str, np.ndarray], dtype: DTypeLike
) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities in float64, and how far off a correct kernel's may be.

    The standard deviation of every rounding's error goes through the network, and the bound is
    `DEVIATIONS` of them at the end. The worst case would say nothing: it lets all errors of three
    layers have the same sign. (Roundings as independent errors: Higham and Mary, SIAM J. Sci.
    Comput. 41(5), 2019.) A number that is kept as halves is off by `Precision.roundoff` of itself,
    and by what is lost below the least half; a sum by 2^-22 sum |x| |w| for each 16 products,
    because tensor cores truncate (see `labkit.measure.check`). ReLU and a maximum enlarge no error,
    and scores that are off by at most e change a probability p by at most p (exp(2 e) - 1).

    Parameters
    ----------
    images : ndarray, float32 [B, 1, 86, 86]
    weights : dict of ndarray
    dtype : {"float32", "float16"}

    Returns
    -------
    (ndarray, ndarray), float64 [B, 10]
    """
    precision, scales = PRECISIONS[np.dtype(dtype).name], Scales.from_weights(weights)
    w = {name: array.astype(np.float64) for name, array in weights.items()}

    def rounding_variance(a, scale):
        """Return the variance of the errors of an array that is stored as halves, multiplied by `scale`."""
        return (precision.roundoff * np.abs(a) + _HALF_UNDERFLOW / scale) ** 2

    def sum_layer(product, x, variance, name, scale, terms):
        """Return the sums of layer `name` and the variance of their errors; `variance` is that of its inputs x.

        `product(inputs, weights)` computes the layer, `scale` is its weights', `terms` are the
        products per sum.
        """
        factors = w[name]
        # Of the sum |x| |w|: the roundings of n additions, of 16 products each, are independent, so
        # their error grows with the root of n. With two parts, the product of low parts that is left
        # out counts as one more.
        growth = (
            np.sqrt(tiles(precision.products * terms, 16) + precision.parts - 1) * _SUM_ROUNDOFF
        )
        of_weights = product(x * x, rounding_variance(factors, scale))
        of_inputs = product(variance, factors * factors)
        of_additions = (growth * product(np.abs(x), np.abs(factors))) ** 2
        return product(x, factors), of_weights + of_inputs + of_additions

    x, scale = np.asarray(images, np.float64), scales.pixels
    variance = rounding_variance(x, scale)
    for i, (name, window) in enumerate(zip(("conv1", "conv2"), POOLS, strict=True)):
        terms, scale = int(np.prod(w[name].shape[1:])), scales.maps[i]
        y, variance = sum_layer(conv_float64, x, variance, name, scales.weights[i], terms)
        # ReLU enlarges no error; any element of a window may be its maximum: the largest variance
        x, variance = max_pool(relu(y), window), max_pool(variance, window)
        variance = variance + rounding_variance(x, scale)
    x, variance = x.reshape(len(x), -1), variance.reshape(len(x), -1)
    y, variance = sum_layer(np.matmul, x, variance, "fc1", scales.weights[2], x.shape[1])
    x = relu(y + w["fc1_bias"])
    scores = x @ w["fc2"] + w["fc2_bias"]
    magnitude = x @ np.abs(w["fc2"]) + np.abs(w["fc2_bias"])
    deviation = np.sqrt(
        variance @ w["fc2"] ** 2 + (len(w["fc2"]) * _FLOAT_ROUNDOFF * magnitude) ** 2
    )
    # the error of a score; 2^-22: the roundings of exp and of the quotient
    error = DEVIATIONS * deviation.max(axis=1, keepdims=True) + 2.0**-22
    probabilities = softmax(scores)
    return probabilities, np.minimum(probabilities * np.expm1(2 * error), 1.0) + _FLOAT_ROUNDOFF
