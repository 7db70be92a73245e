"""lenet86 and networks of its kind on the engine in use: forward, backward, and a step of gradient descent.

    x [B,1,H,W] -> convolution, ReLU, max-pool [B,M1,..] -> convolution, ReLU, max-pool [B,M2,..]
                -> fully connected, ReLU [B,hidden] -> fully connected [B,classes] -> softmax, cross-entropy

The kernels are in cuda_src/training/lenet86.cu. All weights are in one buffer, in the order of `Sizes.shapes`; so are
their gradients and their momentum.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from labkit import cuda
from labkit.base.errors import LabError
from labkit.ladder.buffers import Buffers, Kernels
from labkit.ladder.rung import tiles
from labkit.measure.check import Compared
from labkit.network import gradients
from labkit.spec.reference import conv_float64, error_scale

THREADS = 64  # per block: the few threads of a batch of 32 are spread over more multiprocessors
STRIP = 16  # outputs side by side per thread of a convolution, at most: two vectors of AVX2
TERMS = 256  # windows per thread of a weight gradient: about
PARTS = 32  # of a fully connected layer's sum, at most
U = 2.0**-24  # the largest relative error of a rounding in float32
IDENTITY = (1, 0, 0, 0, 1, 0)  # of `Step.sample`: the image as it is


class Convolution(NamedTuple):
    """A convolution with M masks of K x K, followed by ReLU and the maximum of windows of `window` x `window`."""

    M: int
    K: int
    window: int


@dataclass(frozen=True)
class Stage:
    """A `Convolution` on images of C x H x W."""

    C: int
    H: int
    W: int
    M: int
    K: int
    window: int

    @property
    def Hp(self) -> int:
        """Rows of the pooled map; a last window may extend beyond the edge."""
        return tiles(self.H - self.K + 1, self.window)

    @property
    def Wp(self) -> int:
        """Columns of the pooled map."""
        return tiles(self.W - self.K + 1, self.window)

    @property
    def across(self) -> int:
        """Windows per thread of the forward kernel, alike for all strips of a row."""
        strips = tiles(self.Wp, max(1, STRIP // self.window))
        return tiles(self.Wp, strips)

    @property
    def bands(self) -> int:
        """Parts of an image's rows of windows that weight gradients are summed over one by one."""
        return tiles(self.Hp, max(1, TERMS // self.Wp))


@dataclass(frozen=True)
class Sizes:
    """The sizes of a network; the default is lenet86."""

    H: int = 86
    W: int = 86
    convolutions: tuple[Convolution, Convolution] = (Convolution(4, 7, 2), Convolution(16, 7, 4))
    hidden: int = 32
    classes: int = 10

    def __post_init__(self):
        for stage in self.stages:
            if min(stage.H, stage.W) < stage.K:
                raise LabError(f"images of {self.H} x {self.W} are too small for masks of {stage.K} x {stage.K}")
            if not 1 <= stage.window <= 16:
                raise LabError(f"windows of {stage.window} x {stage.window} are not between 1 x 1 and 16 x 16")

    @functools.cached_property
    def stages(self) -> tuple[Stage, ...]:
        """Both convolutions with the size of their input."""
        stages, shape = [], (1, self.H, self.W)
        for each in self.convolutions:
            stages.append(Stage(*shape, *each))
            shape = each.M, stages[-1].Hp, stages[-1].Wp
        return tuple(stages)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The weights by name, in their order in memory: a bias follows its matrix [inputs, outputs]."""
        last = self.stages[-1]
        inputs = last.M * last.Hp * last.Wp
        return {
            **{f"conv{i}": (stage.M, stage.C, stage.K, stage.K) for i, stage in enumerate(self.stages, 1)},
            "fc1": (inputs, self.hidden),
            "fc1_bias": (self.hidden,),
            "fc2": (self.hidden, self.classes),
            "fc2_bias": (self.classes,),
        }

    @property
    def windows(self) -> tuple[int, ...]:
        """Of both max-pools."""
        return tuple(each.window for each in self.convolutions)


LENET86 = Sizes()


def initial_weights(seed: int, sizes: Sizes = LENET86) -> dict[str, np.ndarray]:
    """Random weights, normal with the variance 2 / fan-in that suits ReLU (He et al. 2015); biases of 0. float32."""
    random = np.random.RandomState(seed)  # its stream never changes, so a recorded seed keeps its meaning
    weights = {}
    for name, shape in sizes.shapes.items():
        fan_in = np.prod(shape[1:]) if name.startswith("conv") else shape[0]
        normal = random.standard_normal(shape) * np.sqrt(2 / fan_in)
        weights[name] = np.zeros(shape, np.float32) if name.endswith("bias") else normal.astype(np.float32)
    return weights


class Step:
    """A network on the device, with room for the forward and the backward pass of a batch.

    A context manager: at its end the buffers are freed.

    Parameters
    ----------
    weights : dict of ndarray, float32
        By name, as `Sizes.shapes` has them.
    batch : int
        At most so many images per pass.
    sizes : Sizes
    momentum : dict of ndarray, float32, optional
        Like `weights`; default 0.
    """

    label = "lenet86, forward and backward"
    classes = LENET86.classes
    initial_weights = staticmethod(initial_weights)

    def __init__(self, weights, batch, sizes=LENET86, momentum=None):
        self.sizes, self.batch = sizes, batch
        self.kernels = [_kernels(stage.C, stage.K, stage.window, stage.across) for stage in sizes.stages]
        self._memory = Buffers()
        self._written = []  # what the two passes write, with its bytes

        def new(shape, dtype=np.float32):
            buffer = self._memory.new(shape, dtype)
            self._written.append((buffer, int(np.prod(shape)) * np.dtype(dtype).itemsize))
            return buffer

        self._at = dict(zip(sizes.shapes, np.cumsum([0, *map(np.prod, sizes.shapes.values())]).tolist(), strict=False))
        self.count = sum(w.size for w in weights.values())
        self.weights, self.momentum = self._memory.new(self.count), self._memory.new(self.count)
        self.load(weights, momentum)
        self.gradients = new(self.count)
        # Of each stage: input, pooled output, winners, and the output's derivative. The last stage's output is the
        # first fully connected layer's input.
        self.x = [new((batch, stage.C, stage.H, stage.W)) for stage in sizes.stages]
        self.y = [*self.x[1:], new((batch, sizes.shapes["fc1"][0]))]
        self.d_y = [new((batch, stage.M, stage.Hp, stage.Wp)) for stage in sizes.stages]
        self.winner = [new((batch, stage.M, stage.Hp, stage.Wp), np.uint8) for stage in sizes.stages]
        self.partial = [new((batch * stage.bands, stage.M, stage.C, stage.K**2)) for stage in sizes.stages]
        self.hidden, self.d_hidden = new((batch, sizes.hidden)), new((batch, sizes.hidden))
        self.scores, self.d_scores = new((batch, sizes.classes)), new((batch, sizes.classes))
        self.parts = new((PARTS, batch, max(sizes.hidden, sizes.classes)))
        self.loss = new(batch)

    def __enter__(self) -> Step:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Free all buffers."""
        self._memory.close()

    def load(self, weights, momentum=None) -> None:
        """Set the weights and the momentum, by default 0."""
        momentum = momentum or {name: np.zeros(shape) for name, shape in self.sizes.shapes.items()}
        for buffer, arrays in ((self.weights, weights), (self.momentum, momentum)):
            flat = np.concatenate([np.asarray(arrays[name], np.float32).ravel() for name in self.sizes.shapes])
            cuda.driver.memcpy_htod(buffer, flat)

    def _of(self, buffer, name):
        """The address of an array in one of the three buffers."""
        return int(buffer) + 4 * self._at[name]

    def read(self, buffer) -> dict[str, np.ndarray]:
        """`weights`, `momentum` or `gradients` as a dict of float32 arrays."""
        flat = self._memory.copy_out(buffer, (self.count,))
        return {name: flat[self._at[name] :][: np.prod(shape)].reshape(shape).copy()
                for name, shape in self.sizes.shapes.items()}  # fmt: skip

    # ------------------------------------------------------------------------------------------------------ the passes
    def sample(self, images, chosen, maps, B, h, w) -> None:
        """x = B images of h x w, as seen through affine maps; all arguments are device pointers. See the kernel."""
        H, W = self.sizes.H, self.sizes.W
        self.kernels[0].sample(B * H * W, images, chosen, maps, self.x[0], B, h, w, H, W)

    def forward(self, B) -> None:
        """From `x` to `scores`, for B images."""
        for i, (stage, kernels) in enumerate(zip(self.sizes.stages, self.kernels, strict=True)):
            k = self._of(self.weights, f"conv{i + 1}")
            kernels.conv_relu_max_pool(
                B * stage.M * stage.Hp * tiles(stage.Wp, stage.across), self.x[i], k, self.y[i], self.winner[i],
                B, stage.H, stage.W, stage.M)  # fmt: skip
        self._fully_connected("fc1", self.y[-1], self.hidden, B, relu=1)
        self._fully_connected("fc2", self.hidden, self.scores, B, relu=0)

    def _fully_connected(self, name, x, y, B, relu):
        (inputs, outputs), kernels = self.sizes.shapes[name], self.kernels[0]
        parts = min(PARTS, inputs)
        w, bias = self._of(self.weights, name), self._of(self.weights, f"{name}_bias")
        kernels.fully_connected_parts(parts * B * outputs, x, w, self.parts, B, inputs, outputs, parts)
        kernels.fully_connected_sum(B * outputs, self.parts, bias, y, B, outputs, parts, relu)

    def backward(self, labels, chosen, B) -> None:
        """From `scores` to `loss` and `gradients`. The label of image b is labels[chosen[b]], int32 on the device."""
        kernels = self.kernels[0]
        kernels.softmax_cross_entropy(B, self.scores, labels, chosen, self.loss, self.d_scores, B, self.sizes.classes)
        for name, x, d_x, d_y in (("fc2", self.hidden, self.d_hidden, self.d_scores),
                                  ("fc1", self.y[-1], self.d_y[-1], self.d_hidden)):  # fmt: skip
            inputs, outputs = self.sizes.shapes[name]
            kernels.fully_connected_weight_gradient(
                (inputs + 1) * outputs, x, d_y, self._of(self.gradients, name), B, inputs, outputs)  # fmt: skip
            kernels.fully_connected_data_gradient(
                B * inputs, x, self._of(self.weights, name), d_y, d_x, B, inputs, outputs)  # fmt: skip
        for i, stage in reversed(list(enumerate(self.sizes.stages))):
            C, H, W, M, name, kernels = stage.C, stage.H, stage.W, stage.M, f"conv{i + 1}", self.kernels[i]
            size, rows = M * C * stage.K**2, B * stage.bands
            kernels.conv_weight_gradient(
                rows * size // stage.K, self.x[i], self.d_y[i], self.winner[i], self.partial[i], B, H, W, M,
                stage.bands)  # fmt: skip
            kernels.sum_rows(size, self.partial[i], self._of(self.gradients, name), rows, size)
            if i:  # the images need no gradient
                kernels.conv_data_gradient(
                    B * H * W, self.x[i], self._of(self.weights, name), self.d_y[i], self.winner[i], self.d_y[i - 1],
                    B, H, W, M)  # fmt: skip

    def descend(self, rate, momentum) -> None:
        """momentum = `momentum` times itself + gradients; weights -= rate times that."""
        arguments = np.float32(rate), np.float32(momentum), self.count
        self.kernels[0].descend(self.count, self.weights, self.momentum, self.gradients, *arguments)

    def losses(self, B) -> np.ndarray:
        """Wait, and return the cross-entropy of each image of the last `backward`, float32 [B]."""
        return self._memory.copy_out(self.loss, (B,))

    def predicted(self, B) -> np.ndarray:
        """Wait, and return the class of each image of the last `forward`, int [B]."""
        return self._memory.copy_out(self.scores, (B, self.sizes.classes)).argmax(axis=1)

    def loss_and_gradients(self, images, labels) -> tuple[float, dict[str, np.ndarray]]:
        """Mean cross-entropy of images [B,1,H,W] from the host, and its derivative by every weight, float32.

        Raises
        ------
        LabError
            There are more images than there is room for, or they have another size, or labels do not fit them.
        """
        B, shape = len(images), (1, self.sizes.H, self.sizes.W)
        if not 1 <= B <= self.batch or images.shape[1:] != shape:
            raise LabError(f"the images have the shape {images.shape}; there is room for 1 to {self.batch} of {shape}")
        if np.shape(labels) != (B,) or not 0 <= np.min(labels) <= np.max(labels) < self.sizes.classes:
            raise LabError(f"{B} images need as many labels from 0 to {self.sizes.classes - 1}, in one row")
        cuda.driver.memcpy_htod(self.x[0], np.ascontiguousarray(images, np.float32))
        with Buffers() as memory:
            on_device = memory.copy_in(np.asarray(labels, np.int32))
            order = memory.copy_in(np.arange(B, dtype=np.int32))
            self.forward(B)
            self.backward(on_device, order, B)
            return float(self.losses(B).astype(np.float64).mean()), self.read(self.gradients)

    # ------------------------------------------------------------------------------------------------------- the check
    @classmethod
    def comparisons(cls, seed: int) -> Iterator[Compared]:
        """Every array that a kernel writes, beside the same from the kernel's own inputs in float64.

        On lenet86's own sizes and on random ones, with random weights, momentum and images.

        Yields
        ------
        Compared
            Its bound counts roundings: a sum of n products is off by at most (n + 2) u sum |x| |w|.
        """
        random = np.random.default_rng(seed)
        for sizes, B in ((LENET86, 2), *((random_sizes(random), int(random.integers(1, 5))) for _ in range(2))):
            weights, momentum = ({name: random.normal(0.1, 1, shape).astype(np.float32) / np.float32(np.sqrt(
                shape[0] if name.startswith("fc") else np.prod(shape[1:]))) for name, shape in sizes.shapes.items()}
                for _ in range(2))  # fmt: skip
            with cls(weights, B + 1, sizes, momentum) as step:  # room for one image more than there are
                yield from step._compared(random, B, weights, momentum)

    def _compared(self, random, B, weights, momentum):
        sizes, N = self.sizes, 3
        h, w = (int(n) for n in random.integers(3, 12, 2))
        images = random.random((N, h, w), np.float32)
        maps = (np.float32(IDENTITY) + random.uniform(-0.3, 0.3, (B, 6))).astype(np.float32)
        chosen, labels = (random.integers(0, *most).astype(np.int32) for most in ((N, B), (sizes.classes, N)))
        rate, mu = np.float32(0.03), np.float32(0.9)
        for buffer, size in self._written:
            cuda.driver.memset_d8(buffer, 0xFF, size)  # NaN, and a winner's place that no window has
        with Buffers() as memory:
            order = memory.copy_in(chosen)
            self.sample(memory.copy_in(images), order, memory.copy_in(maps), B, h, w)
            self.forward(B)
            fc2_parts = self._memory.copy_out(self.parts, (min(PARTS, sizes.hidden), B, sizes.classes))
            self.backward(memory.copy_in(labels), order, B)
        out = self._memory.copy_out
        x = [out(x, (B, s.C, s.H, s.W)) for x, s in zip(self.x, sizes.stages, strict=True)]
        maps_of = lambda arrays, dtype=np.float32: [
            out(array, (B, s.M, s.Hp, s.Wp), dtype) for array, s in zip(arrays, sizes.stages, strict=True)
        ]
        d_y, y, winner = maps_of(self.d_y), maps_of(self.y), maps_of(self.winner, np.uint8)
        hidden, d_hidden = (out(array, (B, sizes.hidden)) for array in (self.hidden, self.d_hidden))
        scores, d_scores = (out(array, (B, sizes.classes)) for array in (self.scores, self.d_scores))
        g = self.read(self.gradients)

        yield Compared("sample", x[0][:, 0], *_sampled(images, chosen, maps, sizes.H, sizes.W))
        for i, stage in enumerate(sizes.stages):
            yield from _convolved(f"conv{i + 1}", x[i], weights[f"conv{i + 1}"], y[i], winner[i], stage)
        flat = y[-1].reshape(B, -1)
        yield Compared("fully_connected_parts, fc2", fc2_parts, *_in_parts(hidden, weights["fc2"], len(fc2_parts)))
        for name, inputs, result in (("fc1", flat, hidden), ("fc2", hidden, scores)):
            expected, bound = _product(inputs, weights[name], weights[f"{name}_bias"])
            expected = np.maximum(expected, 0) if name == "fc1" else expected
            yield Compared(f"fully_connected_sum, {name}", result, expected, bound)
        yield from _lost(scores, labels[chosen], self.losses(B), d_scores)
        for name, inputs, d_out, d_in in (("fc2", hidden, d_scores, d_hidden), ("fc1", flat, d_hidden, d_y[-1])):
            inputs_1 = np.hstack([inputs, np.ones((B, 1), np.float32)])
            result = np.vstack([g[name], g[f"{name}_bias"]])
            yield Compared(f"fully_connected_weight_gradient, {name}", result, *_product(inputs_1.T, d_out))
            expected, bound = _product(d_out, weights[name].T)
            live = inputs > 0
            yield Compared(f"fully_connected_data_gradient, {name}", d_in.reshape(B, -1), expected * live, bound * live)
        for i, stage in enumerate(sizes.stages):
            name, below = f"conv{i + 1}", d_y[0] if i else None
            partial = out(self.partial[i], (B, stage.bands, *weights[name].shape))
            yield from _gradients_of(name, x[i], weights[name], d_y[i], winner[i], partial, g[name], below, stage)

        self.descend(rate, mu)
        v, w = self.read(self.momentum), self.read(self.weights)
        for name in weights:
            old_v, old_w = momentum[name].astype(np.float64), weights[name].astype(np.float64)
            new_v, new_w = mu * old_v + g[name], old_w - rate * v[name].astype(np.float64)
            yield Compared(f"descend, momentum of {name}", v[name], new_v, 2 * U * (abs(mu * old_v) + abs(g[name])))
            yield Compared(f"descend, {name}", w[name], new_w, 2 * U * (abs(old_w) + abs(rate * v[name])))


# ----------------------------------------------------------------------------------- references in float64, with bounds
def random_sizes(random: np.random.Generator) -> Sizes:
    """Of a small network: odd, not square, with windows that extend beyond the edge."""
    draw = lambda low, high: int(random.integers(low, high))
    convolutions = tuple(Convolution(draw(1, 8), draw(1, 6), draw(1, 5)) for _ in range(2))
    return Sizes(draw(22, 40), draw(22, 40), convolutions, draw(3, 40), draw(2, 14))


def _product(x, w, bias=0.0):
    """x w + bias and the bound of its error."""
    x, w, bias = (np.asarray(each, np.float64) for each in (x, w, bias))
    return x @ w + bias, (len(w) + 3) * U * (abs(x) @ abs(w) + abs(bias))


def _in_parts(x, w, parts):
    """The products of each part of the inputs: [parts, B, O]."""
    each = tiles(len(w), parts)
    pairs = [_product(x[:, i * each : (i + 1) * each], w[i * each : (i + 1) * each]) for i in range(parts)]
    return tuple(np.stack(arrays) for arrays in zip(*pairs, strict=True))


def _sampled(images, chosen, maps, H, W):
    """Bilinear samples [B, H, W]. Where rounding decides whether a pixel is in the image, both answers are right."""
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


def _convolved(name, x, k, y, winner, stage):
    """Pooled maps and their winners. A winner is right if no element of its window is larger, beyond rounding."""
    z = gradients.windows_of(conv_float64(x, k), stage.window)
    error = np.where(np.isfinite(z), gradients.windows_of((k[0].size + 2) * U * error_scale(x, k), stage.window), 0)
    most, bound = z.max(axis=-1), error.max(axis=-1)
    yield Compared(f"conv_relu_max_pool, {name}", y, np.maximum(most, 0), bound)
    place = np.minimum(winner, stage.window**2 - 1)[..., None].astype(np.intp)
    won = np.where(winner < stage.window**2, np.take_along_axis(z, place, axis=-1)[..., 0], np.nan)
    yield Compared(f"conv_relu_max_pool, winners of {name}", won, most, 2 * bound)


def _lost(scores, labels, loss, d_scores):
    """Loss and its derivative. expf and logf are right to 2 units in the last place (CUDA C++ Programming Guide)."""
    B, N = scores.shape
    logarithms, truth = gradients.log_softmax(scores.astype(np.float64)), np.eye(N)[labels]
    spread = np.ptp(scores.astype(np.float64), axis=1, keepdims=True)
    relative = (spread + N + 10) * U  # of each exponential, and of their sum
    own = -logarithms[np.arange(B), labels]
    bound = relative[:, 0] + 6 * U * (spread[:, 0] + np.log(N) + own)
    yield Compared("softmax_cross_entropy, loss", loss, own, bound)
    p = np.exp(logarithms)
    bound = (2 * relative * p + 4 * U * (p + truth)) / B + 2.0**-125  # where an exponential is subnormal
    yield Compared("softmax_cross_entropy, d_scores", d_scores, (p - truth) / B, bound)


def _gradients_of(name, x, k, d_y, winner, partial, d_k, below, stage):
    """The gradients of a convolution, from the windows' winners."""
    Ho, Wo = stage.H - stage.K + 1, stage.W - stage.K + 1
    rows = tiles(stage.Hp, stage.bands)
    for band in range(stage.bands):
        inside = np.zeros_like(d_y)
        inside[:, :, band * rows : (band + 1) * rows] = d_y[:, :, band * rows : (band + 1) * rows]
        d_z = gradients.unpooled(inside, winner, stage.window, Ho, Wo)
        expected, scale = (gradients.conv_weight_gradient(*pair, stage.K) for pair in ((x, d_z), (abs(x), abs(d_z))))
        bound = (rows * stage.Wp + 2) * U * scale
        yield Compared(f"conv_weight_gradient, {name}, band {band}", partial[:, band], expected, bound)
    terms = partial.astype(np.float64)
    bound = partial.shape[0] * stage.bands * U * abs(terms).sum(axis=(0, 1))
    yield Compared(f"sum_rows, gradient of {name}", d_k, terms.sum(axis=(0, 1)), bound)
    if below is not None:
        d_z = gradients.unpooled(d_y, winner, stage.window, Ho, Wo)
        expected, scale = (gradients.conv_data_gradient(*pair) for pair in ((k, d_z), (abs(k), abs(d_z))))
        bound = (stage.M * (tiles(stage.K, stage.window) + 1) ** 2 + 2) * U * scale
        yield Compared(f"conv_data_gradient, {name}", below, expected * (x > 0), bound * (x > 0))


@functools.cache
def _kernels(C, K, window, across) -> Kernels:
    """Compiled at first use, once per process and convolution."""
    return Kernels(
        "training/lenet86.cu", f"-DFIXED_C={C}", f"-DFIXED_K={K}", f"-DWINDOW={window}", f"-DACROSS={across}",
        threads=THREADS, sample="PPPPiiiii", conv_relu_max_pool="PPPPiiii", conv_weight_gradient="PPPPiiiii",
        sum_rows="PPii", conv_data_gradient="PPPPPiiii", fully_connected_parts="PPPiiii",
        fully_connected_sum="PPPiiii", fully_connected_weight_gradient="PPPiii",
        fully_connected_data_gradient="PPPPiii", softmax_cross_entropy="PPPPPii", descend="PPPffi",
    )  # fmt: skip
