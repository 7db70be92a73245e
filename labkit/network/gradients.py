"""Gradients in float64 to check kernels with: by differences, and by the chain rule in NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labkit.base.errors import LabError
from labkit.spec.reference import conv_float64


def finite_differences(
    loss: Callable[[dict[str, np.ndarray]], float],
    weights: dict[str, np.ndarray],
    count: int | None = None,
    seed: int = 0,
    step: float = 1e-5,
) -> dict[str, np.ndarray]:
    """The gradient of a loss by central differences: (loss(w + step) - loss(w - step)) / (2 step), per element.

    Parameters
    ----------
    loss : callable
        A scalar function of a dict like `weights`. It gets float64 arrays and must not change them.
    weights : dict of ndarray
        Where to differentiate. Unchanged.
    count : int, optional
        At most so many elements of each array, drawn at random; by default all of them.
    seed : int
        For the draw.
    step : float
        The error is about step^2 times the third derivative plus 1e-16 / step times the loss. A maximum or a ReLU whose
        decision changes between the two losses makes the difference meaningless.

    Returns
    -------
    dict of ndarray, float64
        Shaped like `weights`; NaN where an element was not drawn.

    Raises
    ------
    LabError
        If a loss is NaN or infinite.
    """
    random = np.random.default_rng(seed)
    point = {name: np.array(w, np.float64) for name, w in weights.items()}
    gradients = {name: np.full(w.shape, np.nan) for name, w in point.items()}
    for name, w in point.items():
        flat, gradient = w.reshape(-1), gradients[name].reshape(-1)
        drawn = range(flat.size) if count is None or count >= flat.size else random.choice(flat.size, count, False)
        for i in drawn:
            original, losses = flat[i], []
            for moved in (original + step, original - step):
                flat[i] = moved
                losses.append(float(loss(point)))
            flat[i] = original
            if not np.isfinite(losses).all():
                raise LabError(f"the loss is {losses[0]} and {losses[1]} beside element {i} of {name}: it has no "
                               "gradient there")
            gradient[i] = (losses[0] - losses[1]) / (2 * step)
    return gradients


# ------------------------------------------------------------------------------------- layers, and their derivatives
def windows_of(z: np.ndarray, window: int) -> np.ndarray:
    """The windows of maps [..., H, W], as [..., ceil(H/window), ceil(W/window), window^2]; -inf beyond the edge."""
    *rest, H, W = z.shape
    Hp, Wp = -(-H // window), -(-W // window)
    z = np.pad(z, [(0, 0)] * len(rest) + [(0, Hp * window - H), (0, Wp * window - W)], constant_values=-np.inf)
    return z.reshape(*rest, Hp, window, Wp, window).swapaxes(-3, -2).reshape(*rest, Hp, Wp, window * window)


def unpooled(d_y: np.ndarray, place: np.ndarray, window: int, H: int, W: int) -> np.ndarray:
    """The derivative by maps [..., H, W] of which each window passed on the element at `place`: 0 elsewhere."""
    windows = np.zeros((*d_y.shape, window * window))
    np.put_along_axis(windows, place[..., None].astype(np.intp), d_y[..., None].astype(np.float64), axis=-1)
    *rest, Hp, Wp, _ = windows.shape
    d_z = windows.reshape(*rest, Hp, Wp, window, window).swapaxes(-3, -2).reshape(*rest, Hp * window, Wp * window)
    return d_z[..., :H, :W]


def conv_weight_gradient(x: np.ndarray, d_z: np.ndarray, K: int) -> np.ndarray:
    """[B, M, C, K, K]: what each image adds to the derivative by the masks of z = conv(x, k)."""
    Ho, Wo = d_z.shape[2:]
    x, d_z = x.astype(np.float64), d_z.astype(np.float64)
    taps = [np.einsum("bmhw,bchw->bmc", d_z, x[:, :, p : p + Ho, q : q + Wo], optimize=True)
            for p in range(K) for q in range(K)]  # fmt: skip
    return np.stack(taps, axis=-1).reshape(len(x), d_z.shape[1], x.shape[1], K, K)


def conv_data_gradient(k: np.ndarray, d_z: np.ndarray) -> np.ndarray:
    """[B, C, H, W]: the derivative by x of z = conv(x, k)."""
    (B, _, Ho, Wo), (_, C, K, _) = d_z.shape, k.shape
    d_x = np.zeros((B, C, Ho + K - 1, Wo + K - 1))
    k, d_z = k.astype(np.float64), d_z.astype(np.float64)
    for p in range(K):
        for q in range(K):
            d_x[:, :, p : p + Ho, q : q + Wo] += np.einsum("bmhw,mc->bchw", d_z, k[:, :, p, q], optimize=True)
    return d_x


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """The logarithms of the probabilities [B, N]."""
    scores = scores - scores.max(axis=1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def _forward(weights, images, pools):
    """The scores [B, classes] in float64, and what `loss_and_gradients` needs of the way there."""
    x, stages = images.astype(np.float64), []
    for i, window in enumerate(pools, 1):
        z = conv_float64(x, weights[f"conv{i}"])
        windows = windows_of(z, window)
        y = np.maximum(windows.max(axis=-1), 0)
        stages.append((x, y, windows.argmax(axis=-1), z.shape[2:]))
        x = y
    flat = x.reshape(len(x), -1)
    hidden = np.maximum(flat @ weights["fc1"] + weights["fc1_bias"], 0)
    return hidden @ weights["fc2"] + weights["fc2_bias"], stages, flat, hidden


def loss(weights: dict[str, np.ndarray], images: np.ndarray, labels: np.ndarray, pools=(2, 4)) -> float:
    """The mean cross-entropy of a batch in float64: convolution, ReLU and max-pool, twice; fully connected, twice.

    Parameters
    ----------
    weights : dict of ndarray
        conv1, conv2, fc1, fc1_bias, fc2, fc2_bias.
    images : ndarray [B, 1, H, W]
    labels : ndarray, int [B]
    pools : sequence of int
        Windows of the max-pools, in ceil mode.
    """
    return -log_softmax(_forward(weights, images, pools)[0])[np.arange(len(labels)), labels].mean()


def loss_and_gradients(
    weights: dict[str, np.ndarray], images: np.ndarray, labels: np.ndarray, pools=(2, 4)
) -> tuple[float, dict[str, np.ndarray]]:
    """`loss`, and its derivative by every weight by the chain rule, float64."""
    weights = {name: w.astype(np.float64) for name, w in weights.items()}
    scores, stages, flat, hidden = _forward(weights, images, pools)
    B, logarithms = len(images), log_softmax(scores)
    d_scores = (np.exp(logarithms) - np.eye(scores.shape[1])[labels]) / B  # probability minus truth
    d_hidden = (d_scores @ weights["fc2"].T) * (hidden > 0)
    gradients = {"fc1": flat.T @ d_hidden, "fc1_bias": d_hidden.sum(axis=0),
                 "fc2": hidden.T @ d_scores, "fc2_bias": d_scores.sum(axis=0)}  # fmt: skip
    d_y = (d_hidden @ weights["fc1"].T).reshape(stages[-1][1].shape)
    for i, (x, y, place, size) in reversed(list(enumerate(stages, 1))):
        d_z = unpooled(d_y * (y > 0), place, pools[i - 1], *size)
        gradients[f"conv{i}"] = conv_weight_gradient(x, d_z, weights[f"conv{i}"].shape[2]).sum(axis=0)
        d_y = conv_data_gradient(weights[f"conv{i}"], d_z)
    return float(-logarithms[np.arange(B), labels].mean()), {name: gradients[name] for name in weights}
