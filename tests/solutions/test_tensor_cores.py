"""The exercises of page 09: their solutions reach the goals."""

import pytest

import labkit
from labkit import LENET72, LENET86

RUNG = "09 tensor cores"
NO_CONFLICTS, ALL_MAPS = (labkit.solution("tensor_cores", exercise) for exercise in "ab")


@pytest.mark.parametrize("layer", [LENET86[0], LENET72[1]], ids=str)
def test_loads_of_the_tensor_cores_have_no_conflicts(layer):
    profile = labkit.profile([9, NO_CONFLICTS], layer, engine="cpu")
    assert profile.value("shared_load_conflicts", RUNG) > 0
    assert profile.value("shared_load_conflicts", NO_CONFLICTS.label) == 0
    assert profile.ratio("shared_load_instructions", NO_CONFLICTS.label, RUNG) == 1
    assert labkit.diff(9, NO_CONFLICTS).changed_lines == 2


@pytest.mark.parametrize("shape", [(8, 32, 16), (32, 8, 16)])
def test_tiles_of_another_shape_have_none_either(shape):
    own = labkit.solution("tensor_cores", "a", wmma=shape)
    labkit.check(own, [(LENET86[0], 1)])
    assert labkit.profile(own, LENET86[0], engine="cpu").value("shared_load_conflicts") == 0


def test_a_tile_of_inputs_serves_all_maps():
    layer = LENET72[1]
    profile = labkit.profile([9, ALL_MAPS], layer)
    assert layer.M == 24
    assert profile.ratio("global_load_requests", ALL_MAPS.label, RUNG) <= 0.53
    assert profile.ratio("global_store_requests", ALL_MAPS.label, RUNG) == 1
    assert labkit.diff(9, ALL_MAPS).changed_lines <= 21


@pytest.mark.parametrize("layer", list(LENET86), ids=str)
def test_layers_of_one_tile_of_maps_ask_for_the_same(layer):
    assert layer.M <= 16
    assert labkit.profile([9, ALL_MAPS], layer).ratio("global_load_requests", ALL_MAPS.label, RUNG) == 1
