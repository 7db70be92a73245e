"""lenet86's training in float64, as a reference for its kernels' arrays, one by one, and for its gradients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

import hostcuda
from labkit.ladder.buffers import Buffers
from labkit.ladder.rung import tiles
from labkit.measure.check import Compared
from labkit.networks.reference.layers import U, bound_sum, fully_connected, one_hot
from labkit.networks.reference.lenet86 import LENET86, Lenet86Sizes, forward_numpy
from labkit.spec.reference import conv_float64
from recording.backprop import IDENTITY, PARTS, Lenet86, bands


def random_sizes(random: np.random.Generator) -> Lenet86Sizes:
    """Draw the sizes of a small network: odd, not square, with windows that extend beyond the edge."""
    draw = lambda low, high: int(random.integers(low, high))
    convolutions = tuple((draw(1, 8), draw(1, 6), draw(1, 5)) for _ in range(2))
    return Lenet86Sizes(draw(22, 40), draw(22, 40), convolutions, draw(3, 40), draw(2, 14))


def loss(weights: dict[str, np.ndarray], images: np.ndarray, labels: np.ndarray, pools=LENET86.pools) -> float:
    """Return the mean cross-entropy of images [B, 1, H, W] with labels [B], float64."""
    probabilities = forward_numpy(images.astype(np.float64), weights, conv_float64, pools)
    return -np.log(probabilities[np.arange(len(labels)), labels]).mean()


class Kernels:
    """All kernels of cuda_src/training/lenet86.cu, for `labkit.check`."""

    label = "lenet86 in training"

    def __init__(self, sizes: Lenet86Sizes = LENET86):
        self.sizes = sizes

    def comparisons(self, seed: int) -> Iterator[Compared]:
        """Yield every array that a kernel writes, with the same in float64 from the kernel's own inputs.

        The networks have `sizes` and random ones, with random weights, momentum and images.
        """
        random = np.random.default_rng(seed)
        for sizes, B in ((self.sizes, 2), *((random_sizes(random), int(random.integers(1, 5))) for _ in range(2))):
            weights, momentum = ({name: random.normal(0.1, 1, shape).astype(np.float32) / np.float32(np.sqrt(
                shape[0] if name.startswith("fc") else np.prod(shape[1:]))) for name, shape in sizes.shapes.items()}
                for _ in range(2))
            with poisoned():
                model = Lenet86(B + 1, sizes=sizes)  # room for one image more than there are
            with model:
                model.weights = weights
                model.momentum.write(momentum)
                yield from _compare_arrays(model, random, B, weights, momentum)


@contextmanager
def poisoned() -> Iterator[None]:
    """Fill new device buffers with 0xFF: floats are NaN, and the place of a winner is 255, which no window has."""
    new = Buffers.new

    def filled(self, shape, dtype=np.float32):
        buffer = new(self, shape, dtype)
        hostcuda.driver.memset_d8(buffer, 0xFF, int(np.prod(shape)) * np.dtype(dtype).itemsize)
        return buffer

    with patch.object(Buffers, "new", filled):
        yield


def _compare_arrays(model, random, B, weights, momentum):
    sizes, N = model.sizes, 3
    h, w = (int(n) for n in random.integers(3, 12, 2))
    images = random.random((N, h, w), np.float32)
    maps = (np.float32(IDENTITY) + random.uniform(-0.3, 0.3, (B, 6))).astype(np.float32)
    chosen, labels = (random.integers(0, *most).astype(np.int32) for most in ((N, B), (sizes.classes, N)))
    out = model.memory.copy_out
    with Buffers() as memory:
        order = memory.copy_in(chosen)
        model.sample(memory.copy_in(images), order, memory.copy_in(maps), B, h, w)
        model.forward(B)
        fc2_parts = out(model.parts, (min(PARTS, sizes.hidden), B, sizes.classes))
        model.backward(memory.copy_in(labels), order, B)
    x = [out(x, (B, s.C, s.H, s.W)) for x, s in zip(model.x, sizes.stages, strict=True)]
    d_y, y, winner = ([out(array, (B, s.M, s.Hp, s.Wp), dtype) for array, s in zip(arrays, sizes.stages, strict=True)]
                      for arrays, dtype in ((model.d_y, np.float32), (model.y, np.float32), (model.winner, np.uint8)))
    hidden, d_hidden = (out(array, (B, sizes.hidden)) for array in (model.hidden, model.d_hidden))
    scores, d_scores = (out(array, (B, sizes.classes)) for array in (model.scores, model.d_scores))
    g, features = model.gradients.read(), y[-1].reshape(B, -1)

    yield Compared("sample", x[0][:, 0], *_sample(images, chosen, maps, sizes.H, sizes.W))
    for i, stage in enumerate(sizes.stages):
        yield from _compare_convolution(f"conv{i + 1}", x[i], weights[f"conv{i + 1}"], y[i], winner[i], stage)
    yield Compared("fully_connected_parts, fc2", fc2_parts, *_multiply_in_parts(hidden, weights["fc2"], len(fc2_parts)))
    for name, inputs, result in (("fc1", features, hidden), ("fc2", hidden, scores)):
        expected, bound = _multiply(inputs, weights[name], weights[f"{name}_bias"])
        expected = np.maximum(expected, 0) if name == "fc1" else expected
        yield Compared(f"fully_connected_sum, {name}", result, expected, bound)
    yield from _compare_loss(scores, labels[chosen], model.losses(B), d_scores)
    for name, inputs, d_out, d_in in (("fc2", hidden, d_scores, d_hidden), ("fc1", features, d_hidden, d_y[-1])):
        inputs_1 = np.hstack([inputs, np.ones((B, 1), np.float32)])
        result = np.vstack([g[name], g[f"{name}_bias"]])
        yield Compared(f"fully_connected_weight_gradient, {name}", result, *_multiply(inputs_1.T, d_out))
        expected, bound = (gradient * (inputs > 0) for gradient in _multiply(d_out, weights[name].T))
        yield Compared(f"fully_connected_data_gradient, {name}", d_in.reshape(B, -1), expected, bound)
    for i, stage in enumerate(sizes.stages):
        name, below = f"conv{i + 1}", d_y[0] if i else None
        partial = out(model.partial[i], (B, bands(stage), *weights[name].shape))
        yield from _compare_gradients(name, x[i], weights[name], d_y[i], winner[i], partial, g[name], below, stage)

    rate, mu = np.float32(0.03), np.float32(0.9)
    model.descend(rate, mu)
    v, after = model.momentum.read(), model.weights
    for name, w in weights.items():
        yield Compared(f"descend, momentum of {name}", v[name], *bound_sum(
            lambda old, gradient: mu * old + gradient, 1, momentum[name], g[name], roundings=1))
        yield Compared(f"descend, {name}", after[name], *bound_sum(
            lambda old, step: old + rate * step, 1, w, -v[name], roundings=1))


# ------------------------------------------------------------------------------------------- layers and derivatives
def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Return the logarithms of the probabilities [B, N]."""
    scores = scores - scores.max(axis=1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def windows_of(z: np.ndarray, window: int) -> np.ndarray:
    """Split maps [..., H, W] into windows [..., ceil(H/window), ceil(W/window), window^2], -inf beyond the edge."""
    *rest, H, W = z.shape
    Hp, Wp = -(-H // window), -(-W // window)
    z = np.pad(z, [(0, 0)] * len(rest) + [(0, Hp * window - H), (0, Wp * window - W)], constant_values=-np.inf)
    return z.reshape(*rest, Hp, window, Wp, window).swapaxes(-3, -2).reshape(*rest, Hp, Wp, window * window)


def unpooled(d_y: np.ndarray, place: np.ndarray, window: int, H: int, W: int) -> np.ndarray:
    """Return the derivative for maps [..., H, W] whose windows passed on the element at `place`; others get 0."""
    windows = np.zeros((*d_y.shape, window * window))
    np.put_along_axis(windows, place[..., None].astype(np.intp), d_y[..., None].astype(np.float64), axis=-1)
    *rest, Hp, Wp, _ = windows.shape
    d_z = windows.reshape(*rest, Hp, Wp, window, window).swapaxes(-3, -2).reshape(*rest, Hp * window, Wp * window)
    return d_z[..., :H, :W]


def conv_weight_gradient(x: np.ndarray, d_z: np.ndarray) -> np.ndarray:
    """Return each image's share of the derivative with respect to k of z = conv(x, k): [B, M, C, K, K], float64."""
    Ho, Wo = d_z.shape[2:]
    K = x.shape[2] - Ho + 1
    x, d_z = x.astype(np.float64), d_z.astype(np.float64)
    taps = [np.einsum("bmhw,bchw->bmc", d_z, x[:, :, p : p + Ho, q : q + Wo], optimize=True)
            for p in range(K) for q in range(K)]
    return np.stack(taps, axis=-1).reshape(len(x), d_z.shape[1], x.shape[1], K, K)


def conv_data_gradient(k: np.ndarray, d_z: np.ndarray) -> np.ndarray:
    """Return the derivative with respect to x of z = conv(x, k): [B, C, H, W], float64."""
    (B, _, Ho, Wo), (_, C, K, _) = d_z.shape, k.shape
    d_x = np.zeros((B, C, Ho + K - 1, Wo + K - 1))
    k, d_z = k.astype(np.float64), d_z.astype(np.float64)
    for p in range(K):
        for q in range(K):
            d_x[:, :, p : p + Ho, q : q + Wo] += np.einsum("bmhw,mc->bchw", d_z, k[:, :, p, q], optimize=True)
    return d_x


# ----------------------------------------------------------------------------------- references in float64, with bounds
def _multiply(x, w, bias=0.0):
    return bound_sum(fully_connected, len(w), x, w, bias, roundings=3)


def _multiply_in_parts(x, w, parts):
    """Return the products of each part of the inputs, and their bounds: [parts, B, O]."""
    size = tiles(len(w), parts)
    pairs = [_multiply(x[:, i * size : (i + 1) * size], w[i * size : (i + 1) * size]) for i in range(parts)]
    return tuple(np.stack(arrays) for arrays in zip(*pairs, strict=True))


def _sample(images, chosen, maps, H, W):
    """Sample bilinearly: [B, H, W]. Where rounding decides whether a pixel is in the image, both answers are right."""
    _, h, w = images.shape
    images, maps = images.astype(np.float64), maps.astype(np.float64).reshape(-1, 2, 3)
    down, across = ((np.arange(length) + 0.5) / length - 0.5 for length in (H, W))
    pixel = np.stack(np.broadcast_arrays(down[:, None], across, 1.0))
    at = (np.einsum("bij,jhw->ibhw", maps, pixel) + 0.5) * np.reshape([h, w], (2, 1, 1, 1)) - 0.5
    off = 12 * U * (np.einsum("bij,jhw->ibhw", abs(maps), abs(pixel)) + 1) * np.reshape([h, w], (2, 1, 1, 1))
    last = np.reshape([h - 1, w - 1], (2, 1, 1, 1))
    (y, x), beyond = np.clip(at, 0, last), np.maximum(-at, at - last).max(axis=0) - 0.5
    top, left = y.astype(np.intp), x.astype(np.intp)
    bottom, right = np.minimum(top + 1, h - 1), np.minimum(left + 1, w - 1)
    b = chosen[:, None, None]
    upper = images[b, top, left] * (1 - x + left) + images[b, top, right] * (x - left)
    lower = images[b, bottom, left] * (1 - x + left) + images[b, bottom, right] * (x - left)
    value = upper * (1 - y + top) + lower * (y - top)
    edge = abs(beyond) <= off.max(axis=0)
    return np.where(beyond > 0, 0, value), np.where(edge, 1, off.sum(axis=0) + 6 * U)  # neighbours differ by at most 1


def _compare_convolution(name, x, k, y, winner, stage):
    """Compare pooled maps and winners. A winner is right if no element of its window is larger, beyond rounding."""
    z, error = (windows_of(maps, stage.window) for maps in bound_sum(conv_float64, k[0].size, x, k))
    most, bound = z.max(axis=-1), np.maximum(error, 0).max(axis=-1)
    yield Compared(f"conv_relu_max_pool, {name}", y, np.maximum(most, 0), bound)
    place = np.minimum(winner, stage.window**2 - 1)[..., None].astype(np.intp)
    won = np.where(winner < stage.window**2, np.take_along_axis(z, place, axis=-1)[..., 0], np.nan)
    yield Compared(f"conv_relu_max_pool, winners of {name}", won, most, 2 * bound)


def _compare_loss(scores, labels, loss, d_scores):
    """Compare the loss and its derivative; expf and logf are within 2 ulp (CUDA C++ Programming Guide)."""
    B, N = scores.shape
    logarithms, truth = log_softmax(scores.astype(np.float64)), one_hot(labels, N)
    spread = np.ptp(scores.astype(np.float64), axis=1, keepdims=True)
    relative = (spread + N + 10) * U  # of each exponential, and of their sum
    own = -logarithms[np.arange(B), labels]
    bound = relative[:, 0] + 6 * U * (spread[:, 0] + np.log(N) + own)
    yield Compared("softmax_cross_entropy, loss", loss, own, bound)
    p = np.exp(logarithms)
    bound = (2 * relative * p + 4 * U * (p + truth)) / B + 2.0**-125  # where an exponential is subnormal
    yield Compared("softmax_cross_entropy, d_scores", d_scores, (p - truth) / B, bound)


def _compare_gradients(name, x, k, d_y, winner, partial, d_k, below, stage):
    """Compare the gradients of a convolution, from the windows' winners."""
    Ho, Wo = stage.H - stage.K + 1, stage.W - stage.K + 1
    rows = tiles(stage.Hp, bands(stage))
    for band in range(bands(stage)):
        inside = np.zeros_like(d_y)
        inside[:, :, band * rows : (band + 1) * rows] = d_y[:, :, band * rows : (band + 1) * rows]
        d_z = unpooled(inside, winner, stage.window, Ho, Wo)
        yield Compared(f"conv_weight_gradient, {name}, band {band}", partial[:, band],
                       *bound_sum(conv_weight_gradient, rows * stage.Wp, x, d_z))
    summed = bound_sum(lambda terms: terms.sum(axis=(0, 1)), len(partial) * bands(stage), partial, roundings=0)
    yield Compared(f"sum_rows, gradient of {name}", d_k, *summed)
    if below is not None:
        d_z = unpooled(d_y, winner, stage.window, Ho, Wo)
        terms = stage.M * (tiles(stage.K, stage.window) + 1) ** 2
        expected, bound = (gradient * (x > 0) for gradient in bound_sum(conv_data_gradient, terms, k, d_z))
        yield Compared(f"conv_data_gradient, {name}", below, expected, bound)
