"""Layers and their derivatives in NumPy, the bound of a kernel's rounding errors, and differences of a loss."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labkit.base.errors import LabError
from labkit.ladder.rung import tiles

U = 2.0**-24  # the largest relative error of one rounding to nearest in float32


def relu(x: np.ndarray) -> np.ndarray:
    """Return max(x, 0), element by element."""
    return np.maximum(x, 0)


def sigmoid(z: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-z)), element by element."""
    return 1 / (1 + np.exp(-z))


def slope(y: np.ndarray) -> np.ndarray:
    """Return the derivative of the sigmoid, from its result y."""
    return y * (1 - y)


def softmax(x: np.ndarray) -> np.ndarray:
    """Return probabilities from scores [B, N], each row by itself."""
    powers = np.exp(x - x.max(axis=1, keepdims=True))  # without the maximum, exp overflows
    return powers / powers.sum(axis=1, keepdims=True)


def one_hot(labels: np.ndarray, classes: int) -> np.ndarray:
    """Return 1 for each image's class and 0 for the others: float64 [B, classes]."""
    return np.eye(classes)[labels]


def fully_connected(x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return y [B, O] = x [B, I] w [I, O] + bias [O]."""
    return x @ w + bias


def max_pool(x: np.ndarray, window: int) -> np.ndarray:
    """Return the maximum of each `window` x `window` elements of x [..., H, W]; a last window is cut at the edge."""
    Ho, Wo = (tiles(length, window) for length in x.shape[-2:])  # rounded up
    y = np.full((*x.shape[:-2], Ho, Wo), -np.inf, x.dtype)
    for p in range(window):
        for q in range(window):
            elements = x[..., p::window, q::window]  # element (p, q) of every window that has one
            maxima = y[..., : elements.shape[-2], : elements.shape[-1]]  # a view of y
            np.maximum(maxima, elements, out=maxima)
    return y


def growth(terms: int, roundings: int) -> float:
    """Return the largest error of a sum of `terms` products in float32, as a fraction of sum |x| |w|.

    A sum of n products, in any order, is off by at most n u sum |x| |w| (Jeannerod and Rump, SIAM
    J. Matrix Anal. Appl. 34(2), 2013), u = 2^-24; each of `roundings` further operations adds a
    factor 1 + u.
    """
    return (1 + terms * U) * (1 + U) ** roundings - 1


def bound_sum(
    function: Callable[..., np.ndarray], terms: int, *arrays: np.ndarray, roundings: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return sums of `terms` products in float64, and the largest error of each if a kernel computes it in float32.

    Both arrays have the shape that `function` returns.

    `function` maps the arrays, such as x and w, to the sums. Its products have a factor from each
    array, so the same function of their absolute values is sum |x| |w|. `roundings` is the number of
    further operations that round the sum, see `growth`.
    """
    arrays = [np.asarray(array, np.float64) for array in arrays]
    return function(*arrays), growth(terms, roundings) * function(*map(np.abs, arrays))


def finite_differences(
    loss: Callable[[dict[str, np.ndarray]], float],
    weights: dict[str, np.ndarray],
    count: int | None = None,
) -> dict[str, np.ndarray]:
    """Compute a loss's gradient by central differences: (loss(w + step) - loss(w - step)) / (2 step), per element.

    The error is about step^2 times the third derivative plus 1e-16 / step times the loss, for a
    step of 1e-5. A maximum or a ReLU whose decision changes between the two losses makes the
    difference meaningless.

    Parameters
    ----------
    loss : callable
        A scalar function of a dict like `weights`. It gets float64 arrays and must not change them.
    weights : dict of ndarray
        Where to differentiate; it does not change.
    count : int, optional
        At most so many elements of each array, drawn at random; by default all of them.

    Returns
    -------
    dict of ndarray, float64
        Shaped like `weights`; NaN where an element was not drawn.

    Raises
    ------
    LabError
        If a loss is NaN or infinite.
    """
    random, step = np.random.default_rng(0), 1e-5
    weights_64 = {name: np.array(w, np.float64) for name, w in weights.items()}
    gradients = {name: np.full(w.shape, np.nan) for name, w in weights_64.items()}
    for name, w in weights_64.items():
        # views: to set an element of `values` changes `weights_64`, which the loss gets
        values, gradient = w.reshape(-1), gradients[name].reshape(-1)
        size = values.size
        for index in (
            range(size)
            if count is None or count >= size
            else random.choice(size, count, replace=False)
        ):
            value, losses = values[index], []
            for shifted in (value + step, value - step):
                values[index] = shifted
                losses.append(float(loss(weights_64)))
            values[index] = value
            if not np.isfinite(losses).all():
                raise LabError(
                    f"the loss is {losses[0]} and {losses[1]} beside element {index} of {name}: it has no "
                    "gradient there"
                )
            gradient[index] = (losses[0] - losses[1]) / (2 * step)
    return gradients
