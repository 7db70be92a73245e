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

THREADS = 64  # per block: few registers are left idle by a batch of 32
STRIP = 12  # outputs side by side per thread of a convolution, at most
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
        """Windows per thread of the forward kernel."""
        return max(1, STRIP // self.window)

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
        first, second = self.stages
        inputs = second.M * second.Hp * second.Wp
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

    classes = LENET86.classes
    initial_weights = staticmethod(initial_weights)

    def __init__(self, weights, batch, sizes=LENET86, momentum=None):
        self.sizes, self.batch = sizes, batch
        self.kernels = [_kernels(stage.C, stage.K, stage.window, stage.across) for stage in sizes.stages]
        self._memory = Buffers()
        new = self._memory.new
        self._at = dict(zip(sizes.shapes, np.cumsum([0, *map(np.prod, sizes.shapes.values())]).tolist(), strict=False))
        self.count = sum(w.size for w in weights.values())
        self.weights, self.momentum, self.gradients = new(self.count), new(self.count), new(self.count)
        self.load(weights, momentum)
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
    def sample(self, images, chosen, maps, B, h, w):
        """x = B images of h x w, as seen through affine maps; all arguments are device pointers. See the kernel."""
        H, W = self.sizes.H, self.sizes.W
        self.kernels[0].sample(B * H * W, images, chosen, maps, self.x[0], B, h, w, H, W)

    def forward(self, B):
        """From `x` to `scores`, for B images."""
        for i, (stage, kernels) in enumerate(zip(self.sizes.stages, self.kernels, strict=True)):
            kernels.conv_relu_max_pool(
                B * stage.M * stage.Hp * tiles(stage.Wp, stage.across), self.x[i], self._of(self.weights, f"conv{i + 1}"),
                self.y[i], self.winner[i], B, stage.H, stage.W, stage.M)  # fmt: skip
        self._fully_connected("fc1", self.y[-1], self.hidden, B, relu=1)
        self._fully_connected("fc2", self.hidden, self.scores, B, relu=0)

    def _fully_connected(self, name, x, y, B, relu):
        (inputs, outputs), kernels = self.sizes.shapes[name], self.kernels[0]
        parts = min(PARTS, inputs)
        w, bias = self._of(self.weights, name), self._of(self.weights, f"{name}_bias")
        kernels.fully_connected_parts(parts * B * outputs, x, w, self.parts, B, inputs, outputs, parts)
        kernels.fully_connected_sum(B * outputs, self.parts, bias, y, B, outputs, parts, relu)

    def backward(self, labels, chosen, B):
        """From `scores` to `loss` and `gradients`; image b has the label labels[chosen[b]], both int32 on the device."""
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
                rows * size // stage.K, self.x[i], self.d_y[i], self.winner[i], self.partial[i], B, H, W, M, stage.bands)
            kernels.sum_rows(size, self.partial[i], self._of(self.gradients, name), rows, size)
            if i:  # the images need no gradient
                kernels.conv_data_gradient(
                    B * H * W, self.x[i], self._of(self.weights, name), self.d_y[i], self.winner[i], self.d_y[i - 1],
                    B, H, W, M)  # fmt: skip

    def descend(self, rate, momentum):
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
        """Mean cross-entropy of images [B,1,H,W] from the host, and its derivative by every weight, float32."""
        B = len(images)
        cuda.driver.memcpy_htod(self.x[0], np.ascontiguousarray(images, np.float32))
        with Buffers() as memory:
            on_device = memory.copy_in(np.asarray(labels, np.int32))
            order = memory.copy_in(np.arange(B, dtype=np.int32))
            self.forward(B)
            self.backward(on_device, order, B)
            return float(self.losses(B).astype(np.float64).mean()), self.read(self.gradients)


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
