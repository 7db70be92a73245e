"""The solutions of page 07 with other sizes than those that are graded."""

import pytest

import labkit
from labkit import LENET72, Layer, variant

pytestmark = pytest.mark.thorough("solutions beyond their goals")

SIZES = {"rows": 5, "maps": 4, "block": (64, 1)}


def test_masks_are_stored_without_conflicts():
    rung, ordered = variant(7, **SIZES), labkit.solution("07a", **SIZES)
    profile = labkit.profile([rung, ordered], LENET72[0], engine="cpu")  # of the stores as written: nvcc joins some
    assert profile.value("wavefronts_per_shared_store", rung.label) > 3
    assert profile.value("wavefronts_per_shared_store", ordered.label) <= 1.05
    assert profile.ratio("shared_load_wavefronts", ordered.label, rung.label) == 1
    assert profile.ratio("global_load_sectors", ordered.label, rung.label) > 1  # what it costs


@pytest.mark.parametrize("channels", [1, 3])
def test_the_barrier_is_there_where_it_is_needed(channels):
    report = labkit.sanitize(labkit.solution("07b", **SIZES, channels=channels), Layer("three", 3, 12, 13, 5, 3))
    assert not len(report.table)
