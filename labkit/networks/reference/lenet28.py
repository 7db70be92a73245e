"""lenet28 in NumPy: its sizes, forward pass, loss and gradients in float64; `labkit.networks.lenet28` describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from labkit.base.errors import LabError
from labkit.networks.reference.layers import one_hot, sigmoid, slope
from labkit.spec.reference import conv_float64

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Sizes:
    """The sizes of the network; by default lenet28's."""

    side: int = 28  # of an image
    K: int = 5  # the side of a mask
    maps: int = 6  # of c1
    pool: int = 4  # the side of s1's filter, its stride
    classes: int = 10  # the outputs

    def __post_init__(self):
        """Raise LabError for sizes that do not fit together."""
        if min(self.side, self.K, self.maps, self.pool, self.classes) < 1 or self.side < self.K:
            raise LabError(f"{self}: all sizes are at least 1, and K is at most side")
        if self.c1 % self.pool:
            raise LabError(
                f"{self}: the maps of c1 have the side {self.c1}, which pool = {self.pool} does not divide"
            )

    @property
    def c1(self) -> int:
        """The side of the maps of c1, the convolution."""
        return self.side - self.K + 1

    @property
    def s1(self) -> int:
        """The side of the maps of s1, the filter with a stride."""
        return self.c1 // self.pool

    @property
    def outputs(self) -> int:
        """The number of outputs of c1, the convolution: all maps together."""
        return self.maps * self.c1**2

    @property
    def features(self) -> int:
        """The number of outputs of s1, the filter: all maps together. They are the inputs of f, the last layer."""
        return self.maps * self.s1**2

    @property
    def weights(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the parameters by name, in the order of `struct Weights` in lenet28.h."""
        return {
            "c1": (self.maps, self.K, self.K),
            "c1_bias": (self.maps,),
            "s1": (self.pool, self.pool),
            "s1_bias": (1,),
            "f": (self.classes, self.features),
            "f_bias": (self.classes,),
        }

    @property
    def values(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what both passes compute for an image, by name, in the order of `struct Values` in lenet28.h.

        "c1" is the output of a layer, "d_c1" the derivative of the loss with respect to its value
        before the sigmoid.
        """
        shapes = {
            "c1": (self.maps, self.c1, self.c1),
            "s1": (self.maps, self.s1, self.s1),
            "f": (self.classes,),
        }
        return shapes | {f"d_{name}": shape for name, shape in shapes.items()}

    @property
    def divisors(self) -> dict[str, int]:
        """The number by which the learning rate is divided for each parameter: in lenet28 576 for c1, 1 for f.

        The gradients of c1 are sums over all places of a map, that of s1's bias over all outputs of s1: so
        their steps would be larger. The filter s1 has the full rate, as in the published report that lenet28 is from.
        """
        return {
            "c1": self.c1**2,
            "c1_bias": self.c1**2,
            "s1": 1,
            "s1_bias": self.features,
            "f": 1,
            "f_bias": 1,
        }

    @property
    def sums(self) -> pd.DataFrame:
        """A DataFrame of the sums that a step of one image computes: of which layer, how many, and products per sum."""
        import pandas as pd  # here, because it loads slowly

        rows = [
            ("c1, forward", self.outputs, self.K**2),
            ("s1, forward", self.features, self.pool**2),
            ("f, forward", self.classes, self.features),
            ("gradient of s1", self.pool**2, self.features),
            ("gradient of c1", self.maps * self.K**2, self.c1**2),
        ]
        return pd.DataFrame(rows, columns=["sums of", "how many", "products each"])

    @property
    def defines(self) -> tuple[str, ...]:
        """The sizes as options of the compiler, such as "-DK=5"."""
        sizes = {
            "SIDE": self.side,
            "K": self.K,
            "MAPS": self.maps,
            "POOL": self.pool,
            "CLASSES": self.classes,
        }
        return tuple(f"-D{name}={value}" for name, value in sizes.items())


def random_sizes(seed: int) -> list[Sizes]:
    """Return random sizes of two small networks, so that a check of kernels is not made on lenet28's alone."""
    rng = np.random.default_rng(seed)
    sizes = []
    for _ in range(2):
        # Each from a range without its second end; s1 is the side of the pooled maps. The side of
        # the images is such that the windows of the pool fit without a rest.
        pool, s1, K, maps, classes = (
            int(rng.integers(*ends)) for ends in ((1, 5), (2, 6), (1, 7), (1, 8), (2, 12))
        )
        sizes.append(Sizes(side=pool * s1 + K - 1, K=K, maps=maps, pool=pool, classes=classes))
    return sizes


def initial_weights(seed: int, sizes: Sizes = Sizes()) -> dict[str, np.ndarray]:
    """Return random parameters, uniform from -0.5 to 0.5, float32; shapes as in `Sizes.weights`."""
    # RandomState's numbers are the same in every NumPy, so a recorded seed keeps its meaning
    random = np.random.RandomState(seed)
    return {
        name: random.uniform(-0.5, 0.5, shape).astype(np.float32)
        for name, shape in sizes.weights.items()
    }


def before_c1(images: np.ndarray, masks: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the sums of c1, the convolution, before its sigmoid [B,maps,c1,c1], from images [B,side,side]."""
    return conv_float64(images[:, None], masks[:, None]) + bias[:, None, None]


def before_s1(c1: np.ndarray, s1: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the sums of s1 before its sigmoid [B,maps,s1,s1], from c1 [B,maps,c1,c1] and its filter [pool,pool].

    All maps share the filter and the `bias` [1].
    """
    return np.einsum("bmhpwq,pq->bmhw", split_windows(c1, len(s1)), s1) + bias


def before_f(s1: np.ndarray, f: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the sums of f, the last layer, before its sigmoid [B,classes], from s1 [B,maps,s1,s1]."""
    return s1.reshape(len(s1), -1) @ f.T + bias


def split_windows(c1: np.ndarray, pool: int) -> np.ndarray:
    """Return the windows of c1 [B,maps,side,side] that the filter reads: a view [B,maps,s1,pool,s1,pool].

    Its element [b,m,h,p,w,q] is in row p and column q of the window of output (h,w) of s1.
    """
    B, maps, side, _ = c1.shape
    return c1.reshape(B, maps, side // pool, pool, side // pool, pool)


def forward(weights: Mapping[str, np.ndarray], images: np.ndarray) -> dict[str, np.ndarray]:
    """Run the forward pass of images [B,side,side] in float64; return {"c1": …, "s1": …, "f": …}, after their sigmoids.

    These are convolution [B,maps,c1,c1], pooling [B,maps,s1,s1] and outputs [B,classes]. `weights`
    have the names and shapes of `Sizes.weights`: "c1", "c1_bias" and so on.
    """
    values, y = {}, images
    for name, compute_sums in (("c1", before_c1), ("s1", before_s1), ("f", before_f)):
        values[name] = y = sigmoid(compute_sums(y, weights[name], weights[f"{name}_bias"]))
    return values


def loss(weights: Mapping[str, np.ndarray], images: np.ndarray, labels: np.ndarray) -> float:
    """Return the binary cross-entropy of the outputs for images [B,side,side], summed over outputs and images."""
    z = before_f(forward(weights, images)["s1"], weights["f"], weights["f_bias"])
    # log(1 + exp(z)) - t z for a target t, from the value z before the sigmoid: it cannot overflow
    return float((np.logaddexp(0, z) - one_hot(labels, z.shape[1]) * z).sum())


def backward_s1(f: np.ndarray, d_f: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return the loss's derivatives with respect to the values before s1's sigmoid, [B,maps,s1,s1].

    f [classes,features] are weights, d_f [B,classes] the derivatives before f's sigmoid; `slopes`:
    the sigmoid's at s1.
    """
    return (d_f @ f).reshape(slopes.shape) * slopes


def backward_c1(s1: np.ndarray, d_s1: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return the loss's derivatives with respect to the values before c1's sigmoid, [B,maps,c1,c1].

    s1 [pool,pool] is the filter, d_s1 [B,maps,s1,s1] derivatives before s1's sigmoid; `slopes`: the
    sigmoid's at c1.
    """
    # s1 at (h, w) depends on c1 at (h * pool + p, w * pool + q), with the weight s1[p, q]
    return np.einsum("bmhw,pq->bmhpwq", d_s1, s1).reshape(slopes.shape) * slopes


def parameter_gradients(
    images: np.ndarray, values: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the gradient of the loss by parameter, summed over images [B,side,side].

    `values` are the arrays of the forward and backward pass by name: `Sizes.values`, each with a
    first dimension B. "d_c1" is the loss's derivative with respect to c1 before its sigmoid.
    """
    s1, d_f, d_s1, d_c1 = (values[name] for name in ("s1", "d_f", "d_s1", "d_c1"))
    # the sides of the mask and of the filter, from those of the maps
    K = images.shape[1] - d_c1.shape[2] + 1
    pool = d_c1.shape[2] // d_s1.shape[2]
    windows = sliding_window_view(images, (K, K), axis=(1, 2))  # [B,c1,c1,K,K]
    return {
        "c1": np.einsum("bmhw,bhwpq->mpq", d_c1, windows),
        "c1_bias": d_c1.sum((0, 2, 3)),
        "s1": np.einsum("bmhw,bmhpwq->pq", d_s1, split_windows(values["c1"], pool)),
        "s1_bias": d_s1.sum(keepdims=True).reshape(1),
        "f": d_f.T @ s1.reshape(len(s1), -1),
        "f_bias": d_f.sum(0),
    }


def gradients(
    weights: Mapping[str, np.ndarray], images: np.ndarray, labels: np.ndarray
) -> dict[str, np.ndarray]:
    """Return a dict, shaped like `weights`: the derivative of `loss` by every parameter, float64, by the chain rule."""
    values = forward(weights, images)
    # the derivative of the cross-entropy before the sigmoid: output minus target
    values["d_f"] = values["f"] - one_hot(labels, values["f"].shape[1])
    values["d_s1"] = backward_s1(weights["f"], values["d_f"], slope(values["s1"]))
    values["d_c1"] = backward_c1(weights["s1"], values["d_s1"], slope(values["c1"]))
    return parameter_gradients(images, values)
