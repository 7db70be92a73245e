"""The solutions of page 03, tested beyond their goals."""

import pytest

import labkit
from labkit import LENET86

pytestmark = pytest.mark.thorough("solutions beyond their goals")


def test_two_outputs_read_no_two_words_of_constant_memory_at_once():
    pairs = labkit.solution("registers", "b")
    assert labkit.profile(pairs, LENET86[0], engine="cpu").value("constant_serialized") == 0
