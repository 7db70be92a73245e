"""The exercises of page 08: their solutions reach the goals."""

import re

import pytest

import labkit
from labkit import LENET72, LENET86, Layer, variant
from labkit.measure.rounding import rounding_errors

HALF2 = variant(8, step="half2")
ONE_STORE, NO_FLOAT = (labkit.solution("fp16", exercise) for exercise in "ab")


@pytest.mark.parametrize("layer", list(LENET86), ids=str)
def test_pairs_of_pixels_leave_in_half_the_stores(layer):
    profile = labkit.profile([8, ONE_STORE], layer)
    assert layer.Ho * layer.Wo % 2 == 0
    assert profile.ratio("global_store_requests", ONE_STORE.label, "08 fp16") == 1 / 2
    assert profile.ratio("global_load_requests", ONE_STORE.label, "08 fp16") == 1
    assert labkit.diff(8, ONE_STORE).changed_lines <= 8


def test_an_odd_number_of_pixels_is_stored_one_by_one():
    layer = LENET72[1]
    assert layer.Ho * layer.Wo % 2 == 1
    assert labkit.profile([8, ONE_STORE], layer).ratio("global_store_requests", ONE_STORE.label, "08 fp16") == 1


def test_two_levels_in_half_without_a_float():
    assert not re.search(r"float(?!2half\(0\))", NO_FLOAT.source[NO_FLOAT.source.index("#include") :])
    long = [Layer(f"{49 * C} products", C, 10, 11, 4, 7) for C in (12, 64)]
    error = rounding_errors([HALF2, NO_FLOAT, 8], long).set_index(["terms", "label"])["largest"]
    for terms in (588, 3136):
        assert error[terms, NO_FLOAT.label] <= error[terms, HALF2.label] / 3
        assert error[terms, NO_FLOAT.label] > error[terms, "08 fp16"]
    assert labkit.diff(HALF2, NO_FLOAT).changed_lines <= 3
