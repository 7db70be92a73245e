"""The solutions of page 09, tested beyond their goals."""

import pytest

import labkit
from labkit import LENET72, LENET86

pytestmark = pytest.mark.thorough("solutions beyond their goals")


@pytest.mark.parametrize("shape", [(8, 32, 16), (32, 8, 16)])
def test_tiles_of_another_shape_have_no_conflicts_either(shape):
    own = labkit.solution("09a", wmma=shape)
    labkit.check(own, [(LENET86[0], 1)])
    assert labkit.profile(own, LENET86[0], engine="cpu").value("shared_load_conflicts") == 0


def test_a_tile_for_all_maps_stores_as_before():
    rung, mine = labkit.variant(9), labkit.solution("09b")
    profile = labkit.profile([rung, mine], LENET72[1])
    assert profile.ratio("global_store_requests", mine.label, rung.label) == 1
