"""The convolution without a GPU: plain loops (the specification), NumPy (fast), float64 (the reference)."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from labkit.base.errors import LabError


def conv_loops(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Compute the convolution with seven plain loops: the specification of every kernel.

    Parameters
    ----------
    x : array [B, C, H, W]
    k : array [M, C, K, K]

    Returns
    -------
    array [B, M, H-K+1, W-K+1] of float32
        Summed in double precision and rounded once. A few million multiply-adds per second: for
        tiny shapes.
    """
    (B, C, H, W), (M, C, K, K) = _require_shapes(x, k)
    Ho, Wo = H - K + 1, W - K + 1
    y = np.empty((B, M, Ho, Wo), np.float32)
    for b in range(B):
        for m in range(M):
            for h in range(Ho):
                for w in range(Wo):
                    total = 0.0
                    for c in range(C):
                        for p in range(K):
                            for q in range(K):
                                total += float(x[b, c, h + p, w + q]) * float(k[m, c, p, q])
                    y[b, m, h, w] = total
    return y


def conv_numpy(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Compute the convolution of `conv_loops` with NumPy, in float32.

    `sliding_window_view` gives all K x K windows without a copy; `tensordot` unrolls those of one
    output row into a matrix and multiplies it by the masks: im2col and a GEMM, in pieces that stay
    in the cache.

    Parameters
    ----------
    x : array [B, C, H, W], cast to float32
    k : array [M, C, K, K], cast to float32

    Returns
    -------
    array [B, M, H-K+1, W-K+1] of float32
    """
    return _convolve(x, k, np.float32)


def conv_float64(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Compute the reference for kernels in float32 and float16: in float64, exact to about 1e-16 of `error_scale`.

    Takes x [B, C, H, W] and k [M, C, K, K]; returns y [B, M, H-K+1, W-K+1], float64.
    """
    return _convolve(x, k, np.float64)


def error_scale(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return sum |x| |k| of each output, float64 [B, M, Ho, Wo]: the scale of its rounding error.

    A relative error says nothing where large terms cancel; the error of a computed sum of n
    products is at most about n u sum |x| |k|, whatever its value, with the unit roundoff u (Higham,
    Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1).
    """
    return _convolve(np.abs(x), np.abs(k), np.float64)


def _convolve(x, k, dtype) -> np.ndarray:
    """Return the convolution y [B, M, Ho, Wo] of x [B, C, H, W] and k [M, C, K, K], computed in `dtype`."""
    (B, _, H, W), (M, _, K, _) = _require_shapes(x, k)
    x, k = np.asarray(x, dtype), np.asarray(k, dtype)
    y = np.empty((B, M, H - K + 1, W - K + 1), dtype)
    for b in range(B):
        windows = sliding_window_view(x[b], (K, K), axis=(1, 2))  # [C, Ho, Wo, K, K]
        # small products: a BLAS starts no threads for them, which would cost more
        for h in range(H - K + 1):
            y[b, :, h] = np.tensordot(k, windows[:, h], axes=((1, 2, 3), (0, 2, 3)))
    return y


def _require_shapes(x, k):
    """Return the shapes of x [B, C, H, W] and k [M, C, K, K]; LabError if they do not fit each other."""
    x_shape, k_shape = np.shape(x), np.shape(k)
    if len(x_shape) != 4 or len(k_shape) != 4:
        raise LabError(
            f"x has the shape {x_shape} and k {k_shape}; they have to be [B, C, H, W] and [M, C, K, K]"
        )
    if x_shape[1] != k_shape[1]:
        raise LabError(
            f"x {x_shape} has C = {x_shape[1]} channels, but k {k_shape} has C = {k_shape[1]}"
        )
    if k_shape[2] != k_shape[3] or k_shape[2] > min(x_shape[2:]):
        raise LabError(f"k {k_shape} has to be square and no larger than the images of x {x_shape}")
    return x_shape, k_shape
