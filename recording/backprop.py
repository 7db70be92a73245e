"""lenet86 and networks of its kind on the engine in use: forward, backward, and a step of gradient descent.

    x [B,1,H,W] -> convolution, ReLU, max-pool [B,M1,..] -> convolution, ReLU, max-pool [B,M2,..]
                -> fully connected, ReLU [B,hidden] -> fully connected [B,classes] -> softmax,
                cross-entropy

The kernels are in cuda_src/training/lenet86.cu. Their first argument here is the number of threads
that have work.
"""

import functools

import numpy as np

import hostcuda
from labkit.ladder.buffers import Buffers, CompiledKernels
from labkit.ladder.rung import tiles
from labkit.networks.model import Arrays, Model
from labkit.networks.reference.lenet86 import LENET86, Lenet86Sizes, Stage, initial_weights

THREADS = 64  # per block: the few threads of a batch of 32 are spread over more multiprocessors
STRIP = 16  # outputs side by side per thread of a convolution, at most: two vectors of AVX2
TERMS = 256  # windows per thread of a weight gradient, about
PARTS = 32  # partial sums of a fully connected layer's output, at most
IDENTITY = (1, 0, 0, 0, 1, 0)  # the map with which `Lenet86.sample` leaves an image as it is


def count_windows(stage: Stage) -> int:
    """Return how many pooling windows, side by side in a row, each thread of the forward kernel computes.

    They cover at most STRIP outputs of the convolution in a row, but at least one window. All
    threads of a row have the same number of windows, except that the last one may have fewer.
    """
    # `stage.Wp`: windows in a row; `tiles` divides and rounds up
    threads_per_row = tiles(stage.Wp, max(1, STRIP // stage.window))
    return tiles(stage.Wp, threads_per_row)  # spread evenly over these threads


def count_bands(stage: Stage) -> int:
    """Return the number of bands that an image is split into for the gradients of a convolution's weights.

    A band is a group of rows of pooling windows, about TERMS windows in all. Each band has partial
    sums of its own, so that several threads can work on one weight.
    """
    rows_per_band = max(1, TERMS // stage.Wp)  # a row has `stage.Wp` windows
    return tiles(stage.Hp, rows_per_band)  # `tiles` divides and rounds up


class Lenet86(Model):
    """lenet86 in training: with room on the device for the forward and the backward pass of `batch` images.

    The weights are `initial_weights(seed, sizes)`, the momentum is 0. The attributes `momentum` and
    `gradients` are `Arrays` with the shapes of the weights.
    """

    network = "lenet86"
    classes = LENET86.classes

    def __init__(self, batch: int, seed: int = 1, sizes: Lenet86Sizes = LENET86):
        """Compile the kernels, and allocate the arrays of both passes."""
        super().__init__(sizes.shapes)
        self.sizes, self.batch = sizes, batch
        self.kernels = [
            _compile_kernels(s.C, s.K, s.window, count_windows(s)) for s in sizes.stages
        ]
        self.momentum, self.gradients = (Arrays(self.memory, sizes.shapes) for _ in range(2))
        self.weights = initial_weights(seed, sizes)
        self.momentum.fill(0)
        new = self.memory.new
        # Of each stage: input, pooled output, and its derivative; winner: the place of the maximum
        # in its window. The last stage's output is the first fully connected layer's input.
        self.x = [new((batch, stage.C, stage.H, stage.W)) for stage in sizes.stages]
        self.y = [*self.x[1:], new((batch, sizes.shapes["fc1"][0]))]
        self.d_y = [new((batch, stage.M, stage.Hp, stage.Wp)) for stage in sizes.stages]
        self.winner = [
            new((batch, stage.M, stage.Hp, stage.Wp), np.uint8) for stage in sizes.stages
        ]
        self.partial = [
            new((batch * count_bands(stage), stage.M, stage.C, stage.K**2))
            for stage in sizes.stages
        ]
        self.hidden, self.d_hidden = new((batch, sizes.hidden)), new((batch, sizes.hidden))
        self.scores, self.d_scores = new((batch, sizes.classes)), new((batch, sizes.classes))
        self.parts = new((PARTS, batch, max(sizes.hidden, sizes.classes)))
        self.loss = new(batch)

    def sample(self, images, chosen, maps, B: int, h: int, w: int) -> None:
        """Fill `x[0]` with B of the `images` [N, h, w], each moved by an affine map and resized for the network.

        `images`, `chosen` (the B numbers of images, int32) and `maps` (six floats per chosen image)
        are device addresses.
        """
        H, W = self.sizes.H, self.sizes.W
        # the first argument of a kernel is its number of threads
        self.kernels[0].sample(B * H * W, images, chosen, maps, self.x[0], B, h, w, H, W)

    def forward(self, B: int) -> None:
        """Compute `scores` from the first B images of `x[0]`; keep what the backward pass needs of each stage.

        A stage is a convolution with its pooling; `kernels` has those compiled for each. `winner`
        gets the place of the largest value in each pooling window, which alone has a gradient.
        """
        for i, (stage, kernels) in enumerate(zip(self.sizes.stages, self.kernels, strict=True)):
            kernels.conv_relu_max_pool(
                # number of threads: each computes `count_windows` pooling windows of a row
                B * stage.M * stage.Hp * tiles(stage.Wp, count_windows(stage)),
                self.x[i],
                self._weights.at(f"conv{i + 1}"),
                self.y[i],
                self.winner[i],
                B,
                stage.H,
                stage.W,
                stage.M,
            )
        self._run_fully_connected("fc1", self.y[-1], self.hidden, B, relu=1)
        self._run_fully_connected("fc2", self.hidden, self.scores, B, relu=0)

    def _run_fully_connected(self, name: str, x, y, B: int, relu: int) -> None:
        """Compute y = x w + bias of a fully connected layer for B images; `relu` (0 or 1) applies ReLU."""
        (inputs, outputs), kernels = self.sizes.shapes[name], self.kernels[0]
        parts, w, bias = (
            min(PARTS, inputs),
            self._weights.at(name),
            self._weights.at(f"{name}_bias"),
        )
        kernels.fully_connected_parts(
            parts * B * outputs, x, w, self.parts, B, inputs, outputs, parts
        )
        kernels.fully_connected_sum(B * outputs, self.parts, bias, y, B, outputs, parts, relu)

    def backward(self, labels, chosen, B: int) -> None:
        """Compute `loss` and `gradients` from `scores`, from the last layer back to the first.

        Image b of the batch has the label labels[chosen[b]]; both are int32 arrays on the device.
        The first argument of a kernel is its number of threads. A convolution's gradients are
        summed per image and band (`count_bands`) first, then over all of these. Only the largest
        value of a pooling window has a gradient: `winner` has its place in the window.
        """
        kernels = self.kernels[0]  # those that are alike for all stages; [i] below: of stage i
        kernels.softmax_cross_entropy(
            B, self.scores, labels, chosen, self.loss, self.d_scores, B, self.sizes.classes
        )
        for name, x, d_x, d_y in (
            ("fc2", self.hidden, self.d_hidden, self.d_scores),
            ("fc1", self.y[-1], self.d_y[-1], self.d_hidden),
        ):
            inputs, outputs = self.sizes.shapes[name]
            kernels.fully_connected_weight_gradient(  # + 1: the bias
                (inputs + 1) * outputs, x, d_y, self.gradients.at(name), B, inputs, outputs
            )
            kernels.fully_connected_data_gradient(
                B * inputs, x, self._weights.at(name), d_y, d_x, B, inputs, outputs
            )
        for i, stage in reversed(list(enumerate(self.sizes.stages))):
            name, kernels, shape = f"conv{i + 1}", self.kernels[i], (B, stage.H, stage.W, stage.M)
            size, bands = stage.M * stage.C * stage.K**2, count_bands(stage)
            kernels.conv_weight_gradient(  # a thread per row of a mask
                B * bands * size // stage.K,
                self.x[i],
                self.d_y[i],
                self.winner[i],
                self.partial[i],
                *shape,
                bands,
            )
            kernels.sum_rows(size, self.partial[i], self.gradients.at(name), B * bands, size)
            if i:  # the images need no gradient
                kernels.conv_data_gradient(
                    B * stage.H * stage.W,
                    self.x[i],
                    self._weights.at(name),
                    self.d_y[i],
                    self.winner[i],
                    self.d_y[i - 1],
                    *shape,
                )

    def descend(self, rate: float, momentum: float) -> None:
        """Take a step of gradient descent: m = momentum * m + gradients, then weights = weights - rate * m."""
        count = self._weights.size
        # all stages have this kernel; its first argument is the number of threads
        self.kernels[0].descend(
            count,
            self._weights.buffer,
            self.momentum.buffer,
            self.gradients.buffer,
            np.float32(rate),
            np.float32(momentum),
            count,
        )

    def losses(self, B: int) -> np.ndarray:
        """Return, after waiting, the cross-entropy of each image of the last `backward`, float32 [B]."""
        return self.memory.copy_out(self.loss, (B,))

    def outputs(self, images: np.ndarray) -> np.ndarray:
        """Return the scores [N, classes] of images [N, 1, h, w], which the device resizes and computes in batches."""
        scores, size = [], images.shape[2:]
        with Buffers() as memory:
            # `sample` shall neither move an image (IDENTITY) nor change their order (0, 1, 2, ...)
            maps = memory.copy_in(np.tile(np.float32(IDENTITY), (self.batch, 1)))
            order = memory.copy_in(np.arange(self.batch, dtype=np.int32))
            x = memory.new((self.batch, *size))
            for start in range(0, len(images), self.batch):
                chunk = np.ascontiguousarray(images[start : start + self.batch], np.float32)
                hostcuda.driver.memcpy_htod(x, chunk)
                self.sample(x, order, maps, len(chunk), *size)
                self.forward(len(chunk))
                scores.append(memory.copy_out(self.scores, (len(chunk), self.sizes.classes)))
        return np.concatenate(scores)


@functools.cache
def _compile_kernels(C: int, K: int, window: int, across: int) -> CompiledKernels:
    """Compile the kernels once per process and convolution; `across` is `count_windows`."""
    # Types of the kernels' arguments, as PyCUDA's `Function.prepare` takes them: P a pointer, i an
    # int, f a float.
    return CompiledKernels(
        "training/lenet86.cu",
        f"-DFIXED_C={C}",
        f"-DFIXED_K={K}",
        f"-DWINDOW={window}",
        f"-DACROSS={across}",
        threads=THREADS,
        sample="PPPPiiiii",
        conv_relu_max_pool="PPPPiiii",
        conv_weight_gradient="PPPPiiiii",
        sum_rows="PPii",
        conv_data_gradient="PPPPPiiii",
        fully_connected_parts="PPPiiii",
        fully_connected_sum="PPPiiii",
        fully_connected_weight_gradient="PPPiii",
        fully_connected_data_gradient="PPPPiii",
        softmax_cross_entropy="PPPPPii",
        descend="PPPffi",
    )
