"""The exercises of page 07: their solutions reach the goals."""

import pytest

import labkit
from labkit import LENET72, LENET86, Layer, variant

SIZES = {"rows": 5, "maps": 4, "block": (64, 1)}


def solved(exercise, **options):
    return labkit.solution("tuning", exercise, **{**SIZES, **options})


@pytest.mark.parametrize("layer", [LENET86[0], LENET72[0]], ids=str)
def test_masks_are_stored_without_conflicts(layer):
    rung, ordered = variant(7, **SIZES), solved("a")
    profile = labkit.profile([rung, ordered], layer, engine="cpu")  # of the stores as written: nvcc joins some
    assert profile.value("wavefronts_per_shared_store", rung.label) > 3
    assert profile.value("wavefronts_per_shared_store", ordered.label) <= 1.05
    assert profile.ratio("shared_load_wavefronts", ordered.label, rung.label) == 1
    assert profile.ratio("global_load_sectors", ordered.label, rung.label) > 1  # what it costs
    assert labkit.diff(rung, ordered).changed_lines == 1


def test_one_barrier_where_the_channels_fit():
    rung, mine = (variant(7, **SIZES, channels=1), solved("b", channels=1))
    assert labkit.diff(rung, mine).changed_lines == 1
    profile = labkit.profile([rung, mine], LENET86[0], engine="cpu")  # Nsight Compute does not count barriers
    assert profile.ratio("barriers", mine.label, rung.label) == 1 / 2


@pytest.mark.parametrize("channels", [1, 3])
def test_the_barrier_is_there_where_it_is_needed(channels):
    report = labkit.sanitize(solved("b", channels=channels), Layer("three channels", 3, 12, 13, 5, 3))
    assert not len(report.table)
