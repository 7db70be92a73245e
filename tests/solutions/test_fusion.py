"""The solutions of page 06 at other tile sizes than the one that is graded."""

import pytest

import labkit
from labkit import Layer

pytestmark = pytest.mark.thorough("solutions beyond their goals")


@pytest.mark.parametrize("tile", [3, 14])
def test_the_carry_works_for_tiles_below_and_above_k(tile):
    shapes = [(Layer("odd", 3, 12, 15, 5, K), 1) for K in (1, 4, 7)]
    labkit.check(labkit.solution("06a", tile=tile), shapes)


@pytest.mark.parametrize("tile", [5, 32])
def test_two_pixels_at_other_tiles(tile):
    labkit.check(labkit.solution("06b", tile=tile), [(Layer("odd", 3, 21, 44, 19, 7), 2)])
