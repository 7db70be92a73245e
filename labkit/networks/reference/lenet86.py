"""lenet86 and its kind in NumPy: two convolutions with ReLU and max-pool, two fully connected layers, softmax."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from labkit.ladder.rung import tiles
from labkit.networks.reference.layers import fully_connected, max_pool, relu, softmax
from labkit.spec.reference import conv_numpy


@dataclass(frozen=True)
class Stage:
    """A convolution of C x H x W with M masks of K x K, then ReLU and the maximum of each window x window."""

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


@dataclass(frozen=True)
class Lenet86Sizes:
    """The sizes of a network; the default is lenet86."""

    H: int = 86  # rows and columns of an image
    W: int = 86
    # Of each convolution: masks, their side, and the side of the max-pool's windows, 1 to 16.
    convolutions: tuple[tuple[int, int, int], ...] = ((4, 7, 2), (16, 7, 4))
    hidden: int = 32  # outputs of the fully connected layers
    classes: int = 10

    @functools.cached_property
    def stages(self) -> tuple[Stage, ...]:
        """All convolutions in order, each with the size of its input."""
        stages, shape = [], (1, self.H, self.W)
        for convolution in self.convolutions:
            stages.append(Stage(*shape, *convolution))  # C, H, W, then M, K, pooling window
            shape = stages[-1].M, stages[-1].Hp, stages[-1].Wp
        return tuple(stages)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The weights' shapes by name, in their order in memory: a bias follows its matrix [inputs, outputs]."""
        last_stage = self.stages[-1]
        return {
            **{
                f"conv{i}": (stage.M, stage.C, stage.K, stage.K)
                for i, stage in enumerate(self.stages, 1)
            },
            "fc1": (last_stage.M * last_stage.Hp * last_stage.Wp, self.hidden),
            "fc1_bias": (self.hidden,),
            "fc2": (self.hidden, self.classes),
            "fc2_bias": (self.classes,),
        }

    @property
    def pools(self) -> tuple[int, ...]:
        """The sides of the max-pools' windows."""
        return tuple(stage.window for stage in self.stages)


LENET86 = Lenet86Sizes()
POOLS = LENET86.pools


def initial_weights(seed: int, sizes: Lenet86Sizes = LENET86) -> dict[str, np.ndarray]:
    """Return random float32 weights, normal with the variance 2 / fan-in for ReLU (He et al. 2015); biases are 0."""
    # RandomState's numbers are the same in every NumPy, so a recorded seed keeps its meaning
    random = np.random.RandomState(seed)
    weights = {}
    for name, shape in sizes.shapes.items():
        fan_in = np.prod(shape[1:]) if name.startswith("conv") else shape[0]
        normal = random.standard_normal(shape) * np.sqrt(2 / fan_in)
        weights[name] = (
            np.zeros(shape, np.float32) if name.endswith("bias") else normal.astype(np.float32)
        )
    return weights


def forward_numpy(
    images: np.ndarray,
    weights: Mapping[str, np.ndarray],
    conv: Callable[[np.ndarray, np.ndarray], np.ndarray] = conv_numpy,
    pools: Sequence[int] = POOLS,
) -> np.ndarray:
    """Return the probabilities [B, classes] of images [B, 1, H, W], in the data type that `conv` returns.

    `conv` maps x [B,C,H,W] and k [M,C,K,K] to y [B,M,Ho,Wo]; `pools` are the sides of the
    max-pools' windows, which may extend beyond the edge.
    """
    x = images
    for name, window in zip(("conv1", "conv2"), pools, strict=True):
        x = max_pool(relu(conv(x, weights[name])), window)
    x = relu(fully_connected(x.reshape(len(x), -1), weights["fc1"], weights["fc1_bias"]))
    return softmax(fully_connected(x, weights["fc2"], weights["fc2_bias"]))
