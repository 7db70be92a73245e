"""The solutions of page 02, tested beyond their goals."""

import pytest

import labkit
from labkit import LENET86, variant

pytestmark = pytest.mark.thorough("solutions beyond their goals")


def test_rotated_rows_are_read_as_often():
    rotated = labkit.solution("constant", "a")
    profile = labkit.profile([variant(2), rotated], LENET86[0], engine="cpu")
    assert profile.ratio("constant_requests", 2, rotated.label) == 1
    assert profile.value("constant_serialized", 2) == 0
