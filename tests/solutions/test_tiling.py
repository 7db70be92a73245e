"""The solution of exercise 04a at other tile sizes than the one that is graded."""

import pytest

import labkit
from labkit import LENET86

pytestmark = pytest.mark.thorough("solutions beyond their goals")


@pytest.mark.parametrize("tile", [8, 27, 32])
def test_distant_rows_have_no_conflicts_at_any_tile(tile):
    profile = labkit.profile(labkit.solution("04a", tile=tile), LENET86[0])
    assert profile.value("wavefronts_per_shared_load") <= 1.05
