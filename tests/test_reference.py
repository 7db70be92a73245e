"""The references against each other, and against a convolution written another way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.base.errors import LabError
from labkit.spec.reference import conv_float64, conv_loops, conv_numpy, error_scale

pytestmark = pytest.mark.core("what every kernel is held against")


def _draw(B, C, H, W, M, K, dtype=np.float32):
    """Return a random x [B, C, H, W] and k [M, C, K, K], the same ones for the same sizes."""
    rng = np.random.default_rng([B, C, H, W, M, K])
    return rng.standard_normal((B, C, H, W)).astype(dtype), rng.standard_normal(
        (M, C, K, K)
    ).astype(dtype)


@given(*(st.integers(*ends) for ends in ((1, 3), (1, 3), (0, 5), (0, 7), (1, 4), (1, 4))))
@settings(max_examples=40, deadline=None)
def test_loops_numpy_and_float64_agree(B, C, extra_h, extra_w, M, K):
    x, k = _draw(B, C, K + extra_h, K + extra_w, M, K)
    exact, unit = conv_float64(x, k), 2.0**-24
    assert exact.shape == (B, M, extra_h + 1, extra_w + 1)
    assert (np.abs(conv_loops(x, k) - exact) <= 1.001 * unit * np.abs(exact)).all()
    assert (np.abs(conv_numpy(x, k) - exact) <= (C * K * K + 1) * unit * error_scale(x, k)).all()


def test_against_scipy():
    # here: it takes more than a second, in each process that collects tests
    from scipy.signal import correlate

    x, k = _draw(2, 3, 9, 12, 4, 5)
    theirs = np.stack(
        [
            [correlate(image.astype(float), mask.astype(float), "valid")[0] for mask in k]
            for image in x
        ]
    )
    np.testing.assert_allclose(conv_float64(x, k), theirs, rtol=1e-12, atol=1e-12)


def test_dtypes():
    x, k = _draw(1, 2, 5, 6, 3, 3, np.float16)
    assert conv_loops(x, k).dtype == conv_numpy(x, k).dtype == np.float32
    assert conv_float64(x, k).dtype == error_scale(x, k).dtype == np.float64


def test_the_error_scale_bounds_the_result():
    x, k = _draw(2, 3, 8, 7, 4, 3)
    assert (np.abs(conv_float64(x, k)) <= error_scale(x, k)).all()
    np.testing.assert_allclose(
        error_scale(np.abs(x), np.abs(k)), conv_float64(np.abs(x), np.abs(k))
    )


@pytest.mark.parametrize(
    ("x_shape", "k_shape", "says"),
    [
        ((5, 5), (1, 1, 3, 3), "have to be"),
        ((1, 2, 5, 5), (1, 3, 3, 3), "C = 2 channels.*C = 3"),
        ((1, 1, 5, 5), (1, 1, 3, 2), "square"),
        ((1, 1, 3, 9), (1, 1, 4, 4), "no larger"),
    ],
)
@pytest.mark.parametrize("conv", [conv_loops, conv_numpy, conv_float64, error_scale])
def test_shapes_that_do_not_go_together(conv, x_shape, k_shape, says):
    with pytest.raises(LabError, match=says):
        conv(np.zeros(x_shape), np.zeros(k_shape))
