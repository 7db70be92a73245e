"""What truncated sums cost the fused network in float, part by part: the kernels' sums, emulated in NumPy.

Tensor cores align 16 products and the sum so far to the largest of them, and drop what is below 26
bits of it; then they drop what is below 24 bits of the new sum. Both kernels add three products of
halves for one: low high, high low and high high. `PARTS` has their order. Each part is emulated with
all others in float64.
"""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from labkit import dataset
from labkit.networks import fused
from labkit.networks.fused import Scales
from labkit.networks.lenet86 import load_weights
from labkit.networks.reference.layers import max_pool, relu, softmax
from labkit.networks.reference.lenet86 import POOLS, forward_numpy
from labkit.spec.reference import conv_float64

BITS, ALIGNED = 24, 26  # of a sum, of what is added to it
SMALL, LARGE = ((0, 1), (1, 0)), ((0, 0),)  # products: which half of the input, of the weight
CANDIDATES, WINDOW = 400, 8
Step = list[tuple[int, int, int]]  # the terms of a product: channel, row and column of the window


def truncate(values: np.ndarray, largest: np.ndarray, bits: int) -> np.ndarray:
    """Return the values, in which only `bits` bits remain, counted from the highest bit of `largest`: the rest is 0.

    truncate(5.75, 4.0, 3) is 5.0: the highest bit of 4.0 stands for 4, and the bits for 4, 2 and 1 remain.
    `largest` broadcasts to `values`.
    """
    unit = np.ldexp(1.0, np.frexp(largest)[1] - bits)  # what the lowest bit that remains stands for
    return np.trunc(values / unit) * unit


def add_truncated(total: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Return `total` [...] plus 16 products, `terms` [..., 16], added as tensor cores add them.

    Each value is cut to ALIGNED bits, counted from the highest bit of the largest of them, and the sum
    is cut to BITS bits of its own.
    """
    largest = np.maximum(np.abs(terms).max(axis=-1), np.abs(total))
    added = truncate(terms, largest[..., None], ALIGNED).sum(axis=-1)
    added += truncate(total, largest, ALIGNED)
    return truncate(added, np.abs(added), BITS)


def list_by_channel(channels: int) -> list[Step]:
    """Return the steps, of 16 products each, in which page 13's kernel adds: two rows of a channel's window per step.

    A product is given as (channel, row, column) in the window.
    """
    return [
        [(c, row, column) for row in (first, first + 1) for column in range(WINDOW)]
        for c in range(channels)
        for first in range(0, WINDOW, 2)
    ]


def list_by_row(channels: int) -> list[Step]:
    """Return the steps in which the kernel of the step "warpgroups" adds: half a row of all channels' windows per step.

    With four channels these are 16 products; one is given as (channel, row, column) in the window.
    """
    return [
        [(c, row, column) for c in range(channels) for column in range(first, first + WINDOW // 2)]
        for row in range(WINDOW)
        for first in (0, WINDOW // 2)
    ]


def order_products(steps: list[Step], small_first: bool) -> Iterator[tuple[Step, tuple[int, int]]]:
    """Yield (step, product) in the order in which a kernel adds: of each step the small products, then the large one.

    With `small_first`, the small products of all steps come first. Each factor is split into two
    halves: 0, the large one, and 1, the rest. A product, one of SMALL and LARGE, says which halves of
    the two factors are multiplied: (0, 1).
    """
    # a pass goes through all steps with its products
    passes = (SMALL, LARGE) if small_first else (SMALL + LARGE,)
    for products in passes:
        yield from itertools.product(steps, products)


def _split(values: np.ndarray, scale: float) -> np.ndarray:
    """Return two halves, [2, ...] in float64, whose sum is about the values times `scale`, a power of two."""
    return fused._split((values * scale).astype(np.float32), 2).astype(np.float64)


def convolve(
    x: np.ndarray,
    k: np.ndarray,
    scales: tuple[float, float],
    list_steps: Callable[[int], list[Step]],
    small_first: bool,
) -> np.ndarray:
    """Return the convolution of x [B,C,H,W] and k [M,C,7,7] with sums truncated as on tensor cores, [B,M,H-6,W-6].

    x and k are multiplied by their `scales`, then each factor is split into two halves. `list_steps`
    maps the number of channels to the steps of 16 products in which a kernel adds; `small_first` is
    as for `order_products`.
    """
    height, width = x.shape[2] - k.shape[2] + 1, x.shape[3] - k.shape[3] + 1
    # padded, as the kernels' windows of 8 x 8 are: a row and a column of zeros after the mask's 7
    halves, masks = (
        np.pad(_split(array, scale), [(0, 0)] * 3 + [(0, 1)] * 2)
        for array, scale in zip((x, k), scales, strict=True)
    )
    windows = np.lib.stride_tricks.sliding_window_view(halves, (WINDOW, WINDOW), axis=(3, 4))
    total = np.zeros((len(x), len(k), height, width))
    for step, (of_x, of_k) in order_products(list_steps(x.shape[1]), small_first):
        c, row, column = map(list, zip(*step, strict=True))  # 16 of each
        # NumPy puts the axis of the 16 first, because slices separate the lists; it becomes the last
        terms = np.moveaxis(windows[of_x][:, c, :height, :width, row, column], 0, -1)
        weights = masks[of_k][:, c, row, column]  # [M,16]; terms [B,H-6,W-6,16]
        for m in range(len(k)):
            total[:, m] = add_truncated(total[:, m], terms * weights[m])
    return total / np.prod(scales)


def connect(
    features: np.ndarray, weights: np.ndarray, scales: tuple[float, float], warps: int, apart: bool
) -> np.ndarray:
    """Return features [B,1296] times weights [1296,32] with sums truncated as on tensor cores, [B,32].

    Each factor is split into two halves, a large and a small one; a product of two factors is then
    one LARGE product and several SMALL ones. The products are added in steps of 16, which `warps`
    warps take in turns. With `apart` a warp adds the small products to a sum of their own. The sums
    of the warps are added exactly. `scales`: features and weights are multiplied by these before
    they are split.
    """
    steps = features.shape[1] // 16
    # [0]: the large halves, [1]: the small ones; SMALL and LARGE are pairs of such indices
    x = _split(features.reshape(-1, steps, 16), scales[0])
    w = _split(weights.reshape(steps, 16, -1), scales[1])
    result = np.zeros((len(features), weights.shape[1]))
    for warp in range(warps):
        sums = np.zeros((2, *result.shape))  # of the large products, and of the small ones
        for step, (of_x, of_w) in itertools.product(range(warp, steps, warps), SMALL + LARGE):
            which_sum = int(apart and (of_x, of_w) in SMALL)
            terms = x[of_x][:, step, None, :] * w[of_w][step].T  # [B,32,16]
            sums[which_sum] = add_truncated(sums[which_sum], terms)
        result += sums.sum(axis=0)
    return result / np.prod(scales)


# The arguments of `convolve` for both convolutions, those of `connect`: as the kernels add, and other ways.
PARTS = {
    "page 13": ((list_by_channel, False), (list_by_channel, False), (10, True)),
    "warpgroups": ((list_by_channel, False), (list_by_row, True), (4, True)),
    "warpgroups, small products among the large": (
        (list_by_channel, False),
        (list_by_row, False),
        (4, False),
    ),
}
NAMES = ("conv1", "conv2", "fc1")


class Emulation:
    """The forward pass of the digits of which the network is least certain: `images` of the first `candidates`.

    The attribute `expected` has the probabilities in float64.
    """

    def __init__(self, images: int, candidates: int = CANDIDATES):
        """Choose the digits whose largest probability is the least."""
        self._weights = load_weights("digits")
        self._exact = {name: array.astype(np.float64) for name, array in self._weights.items()}
        self._scales = Scales.from_weights(self._weights)
        digits = dataset("digits", size=86).images[:candidates]
        probabilities = [forward_numpy(chunk, self._weights) for chunk in np.array_split(digits, 8)]
        least_certain = np.argsort(np.concatenate(probabilities).max(axis=1))[:images]
        self._x = digits[least_certain].astype(np.float64)
        self.expected = self.forward()

    def forward(self, conv1=None, conv2=None, fc1=None) -> np.ndarray:
        """Return the probabilities of the images, with the sums of some layers truncated as on tensor cores.

        `conv1` and `conv2` are the last arguments of `convolve` (list_steps, small_first), `fc1`
        those of `connect` (warps, apart): values of PARTS. A layer whose argument is None is
        computed in float64.
        """
        # `scales` and `factors`: what inputs and weights are multiplied by before they are split into
        # halves. A layer's inputs are the pixels, or the maps of the layer before.
        x, scales = self._x, self._scales
        for i, (name, ways) in enumerate((("conv1", conv1), ("conv2", conv2))):
            factors = (scales.pixels, *scales.maps)[i], scales.weights[i]
            y = (
                convolve(x, self._weights[name], factors, *ways)
                if ways
                else conv_float64(x, self._exact[name])
            )
            x = max_pool(relu(y), POOLS[i])  # POOLS: the sides of the windows
        x = x.reshape(len(x), -1)
        factors = scales.maps[1], scales.weights[2]
        hidden = connect(x, self._weights["fc1"], factors, *fc1) if fc1 else x @ self._exact["fc1"]
        hidden = relu(hidden + self._exact["fc1_bias"])
        return softmax(hidden @ self._exact["fc2"] + self._exact["fc2_bias"])


def measure_parts(images: int = 12) -> pd.DataFrame:
    """Measure how much each part of a kernel adds to the error of the probabilities by truncating its sums.

    Returns a row per kernel and part (a layer, or "all"): the largest and the mean error, over the
    probabilities of `images` images. All other parts are computed in float64.
    """
    emulation, rows = Emulation(images), []
    for kernel, ways in PARTS.items():
        parts = dict(zip(NAMES, ways, strict=True))  # a layer -> how the kernel adds there
        for part, emulated in (*((name, {name: parts[name]}) for name in NAMES), ("all", parts)):
            error = np.abs(emulation.forward(**emulated) - emulation.expected)
            rows.append(
                {"kernel": kernel, "part": part, "largest": error.max(), "mean": error.mean()}
            )
    return pd.DataFrame(rows)
