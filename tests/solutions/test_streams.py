"""Exercises 12a and 12b: solutions on the host, held against their goals."""

import math

import numpy as np
import pytest

import labkit as lab
from labkit.measure.pipeline import schedule, span_ms

BATCH = 10_000
RUNG = 3  # whose recorded op time the tests take; the exercises hold for any kernel that the link hides
FIRST = [lab.LENET86[0], lab.LENET72[0]]


def op_ms(layer):
    return lab.recorded("H200").op_ms(RUNG, layer, BATCH)


def planned(layer, chunk):
    return span_ms(schedule(layer, BATCH, op_ms(layer), chunk, streams=2, on="H200"))


# ---------------------------------------------------------------------------------------------------- the solutions
def fewest_chunks(layer, batch, kernel_ms, slack=0.05):
    """12a: only the first chunk's way in and kernel are visible beside the way back."""
    into, back = layer.link_ms(batch, device="H200")
    return math.ceil((into + kernel_ms) / (slack * back))


def growing_chunks(batch, count=8, factor=2):
    """12b: each chunk is `factor` times the one before, the last takes what is left."""
    sizes = [batch * factor**i // (factor**count - 1) for i in range(count - 1)]
    return (*sizes, batch - sum(sizes))


# --------------------------------------------------------------------------------------------------------- the goals
@pytest.mark.parametrize("layer", FIRST, ids=str)
def test_10a_is_the_fewest(layer):
    reference = layer.link_reference_ms(BATCH, device="H200")
    good = [count for count in range(1, 40) if planned(layer, math.ceil(BATCH / count)) <= 1.05 * reference]
    assert fewest_chunks(layer, BATCH, op_ms(layer)) == good[0] < 12


def test_the_starting_point_of_10a_misses_its_goal():
    assert planned(FIRST[0], 5000) > 1.05 * FIRST[0].link_reference_ms(BATCH, device="H200")


@pytest.mark.parametrize("layer", FIRST, ids=str)
def test_10b_comes_within_one_per_cent_in_eight_chunks(layer):
    reference = layer.link_reference_ms(BATCH, device="H200")
    sizes = growing_chunks(BATCH)
    assert len(sizes) <= 8
    assert planned(layer, sizes) <= 1.01 * reference
    equal = min(planned(layer, math.ceil(BATCH / count)) for count in range(1, 9))
    assert equal > 1.01 * reference  # no eight equal ones do


def test_10b_computes_the_same():
    layer = lab.Layer("odd", C=2, H=13, W=11, M=3, K=5)
    rng = np.random.default_rng(0)
    x, k = (rng.integers(-2, 3, shape).astype(np.float32) for shape in (layer.x_shape(20), layer.k_shape))
    sizes = growing_chunks(20, count=4)
    assert sum(sizes) == 20
    with lab.Pipeline(lab.variant(RUNG), layer, 20, chunk=sizes, streams=2) as pipeline:
        assert np.array_equal(pipeline.run(x, k), lab.conv_float64(x, k))


def test_growing_chunks_are_no_slower_on_an_h200_than_equal_ones():
    rows = lab.recorded("H200").streams(layer=FIRST[0], streams=None, chunk=None, order=None, sizes=None)
    for label in set(rows.loc[rows["sizes"] == "growing", "label"]):
        mine = rows[rows["label"] == label].groupby("sizes")["steady_ms"].min()
        assert mine["growing"] <= 1.01 * mine["equal"], label
