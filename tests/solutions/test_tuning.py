"""The solutions of page 07 with other sizes than those that are graded."""

import pytest

import labkit
from labkit import LENET72, Layer, variant

pytestmark = pytest.mark.thorough("solutions beyond their goals")

SIZES = {"rows": 5, "maps": 4, "block": (64, 1)}


def test_no_weight_comes_from_constant_memory():
    start, near = variant(7, step="constant", **SIZES), labkit.solution("07a", **SIZES)
    profile = labkit.profile([start, near], LENET72[0], engine="cpu")
    assert profile.value("constant_requests", near.label) == 0
    assert profile.value("shared_load_instructions", near.label) == profile.value("constant_requests", start.label)
    assert profile.ratio("global_load_requests", near.label, start.label) < 1.5  # a block loads each weight once


@pytest.mark.parametrize("channels", [1, 3])
def test_the_barrier_is_there_where_it_is_needed(channels):
    report = labkit.sanitize(labkit.solution("07b", **SIZES, channels=channels), Layer("three", 3, 12, 13, 5, 3))
    assert not len(report.table)
