"""The exercises of page 04: their solutions reach the goals."""

import pytest

import labkit
from labkit import LENET72, LENET86, variant

PADDED = "04 tiling, a_no_conflicts.cu"


def solved(exercise, **options):
    return labkit.solution("tiling", exercise, **options)


@pytest.mark.parametrize("layer", [LENET86[0], LENET72[1]], ids=str)
def test_distant_rows_have_no_conflicts(layer):
    profile = labkit.profile([4, solved("a")], layer)
    assert profile.value("wavefronts_per_shared_load", "04 tiling") > 1.9
    assert profile.value("wavefronts_per_shared_load", PADDED) <= 1.05
    assert profile.ratio("global_sectors", PADDED, "04 tiling") == 1
    assert labkit.diff(4, solved("a")).changed_lines == 1


@pytest.mark.parametrize("tile", [8, 27, 32])
def test_distant_rows_have_no_conflicts_at_any_tile(tile):
    profile = labkit.profile(solved("a", tile=tile), LENET86[0])
    assert profile.value("wavefronts_per_shared_load") <= 1.05


def test_the_findings_put_together():
    step, together = variant(4, step="weights"), solved("b")
    profile = labkit.profile([step, together], LENET86[1])
    assert profile.ratio("shared_load_wavefronts", together.label, step.label) <= 0.6
    assert labkit.diff(step, together).changed_lines <= 12
    labkit.check(together)
