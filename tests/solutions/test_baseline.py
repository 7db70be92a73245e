"""The solutions of page 01, tested beyond their goals."""

import pytest

import labkit

pytestmark = pytest.mark.thorough("solutions beyond their goals")


def test_the_turned_mapping_takes_any_square_block():
    for side in (7, 16):
        labkit.check(labkit.solution("baseline", "a", block=(side, side)))
