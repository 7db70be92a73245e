"""The solutions of page 12, tested beyond their goals."""

import math

import numpy as np
import pytest

import labkit as lab
from labkit.measure.pipeline import schedule, span_ms

pytestmark = pytest.mark.thorough("solutions beyond their goals")

BATCH = 10_000
FIRST = [lab.LENET86[0], lab.LENET72[0]]
(GROWING,) = lab.solution("12b")


def planned(layer, chunk):
    """Return the planned time in multiples of the link's reference time."""
    op_ms = lab.recorded("H200").op_ms(7, layer, BATCH)
    return span_ms(schedule(layer, BATCH, op_ms, chunk, streams=2, on="H200")) / layer.link_reference_ms(
        BATCH, device="H200"
    )


@pytest.mark.parametrize(("layer", "fewest"), [*zip(FIRST, lab.solution("12a"), strict=True)], ids=str)
def test_12a_is_the_fewest(layer, fewest):
    assert fewest == next(n for n in range(1, 40) if planned(layer, math.ceil(BATCH / n)) <= 1.05)


@pytest.mark.parametrize("layer", FIRST, ids=str)
def test_growing_chunks_come_closer_than_any_eight_equal_ones(layer):
    equal = min(planned(layer, math.ceil(BATCH / count)) for count in range(1, 9))
    assert planned(layer, GROWING) <= 1.01 < equal


def test_growing_chunks_compute_the_same():
    layer = lab.Layer("odd", C=2, H=13, W=11, M=3, K=5)
    rng = np.random.default_rng(0)
    x, k = (rng.integers(-2, 3, shape).astype(np.float32) for shape in (layer.x_shape(20), layer.k_shape))
    with lab.Pipeline(lab.variant(3), layer, 20, chunk=(1, 3, 5, 11), streams=2) as pipeline:
        assert np.array_equal(pipeline.run(x, k), lab.conv_float64(x, k))


def test_growing_chunks_are_no_slower_on_an_h200_than_equal_ones():
    rows = lab.recorded("H200").streams(layer=FIRST[0], streams=None, chunk=None, order=None, sizes=None)
    for label in set(rows.loc[rows["sizes"] == "growing", "label"]):
        mine = rows[rows["label"] == label].groupby("sizes")["steady_ms"].min()
        assert mine["growing"] <= 1.01 * mine["equal"], label
