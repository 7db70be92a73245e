"""The solutions of page 08, tested beyond their goals."""

import re

import pytest

import labkit
from labkit import LENET72, Layer, variant
from labkit.measure.rounding import rounding_errors

pytestmark = pytest.mark.thorough("solutions beyond their goals")

HALF2 = variant(8, step="half2")
ONE_STORE, NO_FLOAT = (labkit.solution("fp16", exercise) for exercise in "ab")


def test_an_odd_number_of_pixels_is_stored_one_by_one():
    layer = LENET72[1]
    assert layer.Ho * layer.Wo % 2 == 1
    assert labkit.profile([8, ONE_STORE], layer).ratio("global_store_requests", ONE_STORE.label, "08 fp16") == 1


def test_two_levels_in_half_without_a_float():
    assert not re.search(r"float(?!2half\(0\))", NO_FLOAT.source[NO_FLOAT.source.index("#include") :])
    layer = Layer("588 products", 12, 10, 11, 4, 7)
    error = rounding_errors([HALF2, NO_FLOAT, 8], layer).set_index("label")["largest"]
    assert error["08 fp16"] < error[NO_FLOAT.label] <= error[HALF2.label] / 3
