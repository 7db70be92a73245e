"""The exercises of page 04: their solutions reach the goals."""

import pytest

import labkit
from labkit import LENET72, LENET86, variant

PADDED, WIDE = "04 tiling, 04a_no_conflicts.cu", "04 tiling, 04b_wide_loads.cu"


def solved(exercise, **options):
    return variant(4, source=labkit.solution(exercise), **options)


@pytest.mark.parametrize("layer", [LENET86[0], LENET72[1]], ids=str)
def test_distant_rows_have_no_conflicts(layer):
    profile = labkit.profile([4, solved("04a")], layer)
    assert profile.value("wavefronts_a_shared_load", "04 tiling") > 1.9
    assert profile.value("wavefronts_a_shared_load", PADDED) <= 1.05
    assert profile.ratio("global_sectors", PADDED, "04 tiling") == 1
    assert labkit.diff(4, solved("04a")).changed_lines == 1


@pytest.mark.parametrize("tile", [8, 27, 32])
def test_distant_rows_have_no_conflicts_at_any_tile(tile):
    profile = labkit.profile(solved("04a", tile=tile), LENET86[0])
    assert profile.value("wavefronts_a_shared_load") <= 1.05


def test_wide_loads_are_a_quarter():
    layer = LENET72[0]
    profile = labkit.profile([4, solved("04b")], layer)
    assert profile.ratio("global_load_requests", WIDE, "04 tiling") <= 1 / 4
    assert profile.ratio("global_load_sectors", WIDE, "04 tiling") == 1
    assert labkit.diff(4, solved("04b")).changed_lines <= 11


def test_rows_that_are_no_multiple_of_four_are_loaded_one_by_one():
    profile = labkit.profile([4, solved("04b")], LENET72[1])
    assert LENET72[1].W % 4
    assert profile.ratio("global_load_requests", WIDE, "04 tiling") == 1


@pytest.mark.parametrize("tile", [6, 8])
def test_wide_loads_at_other_tiles(tile):
    """Tiles that begin at multiples of four, and tiles that do not."""
    labkit.check(solved("04b", tile=tile), [(labkit.Layer("rows of twenty", 2, 19, 20, 3, 7), 2)])
