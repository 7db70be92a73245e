"""Gradients in float64 to check kernels with: by differences, and by the chain rule in NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labkit.base.errors import LabError


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
