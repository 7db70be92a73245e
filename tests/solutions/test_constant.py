"""The exercises of page 02: their solutions reach the goals, counted on the CPU engine."""

import pytest

import labkit
from labkit import LENET86, variant


@pytest.fixture(scope="module")
def profile():
    chosen = [variant(2), *(labkit.solution("constant", exercise) for exercise in "ab")]
    return labkit.profile(chosen, LENET86[0], engine="cpu")


ROTATED, SHARED = "02 constant, a_rotated.cu", "02 constant, b_shared.cu"


def test_a_rotated_row_takes_a_turn_for_each_of_its_k_elements(profile):
    """All warps of layer 1 are full, and 16 columns begin at all 7 elements: 6 turns more a request."""
    requests = profile.value("constant_requests", ROTATED)
    assert requests == profile.value("constant_requests", 2)
    assert profile.value("constant_serialized", ROTATED) == 6 * requests
    assert profile.value("constant_serialized", 2) == 0
    assert labkit.diff(2, labkit.solution("constant", "a")).changed_lines <= 3


def test_a_mask_in_shared_memory_is_loaded_once_per_block(profile):
    loads = profile.value("constant_requests", 2)
    assert profile.value("constant_requests", SHARED) == 0
    assert profile.value("shared_load_instructions", SHARED) == loads
    assert profile.value("shared_load_conflicts", SHARED) == 0
    assert profile.value("global_load_requests", SHARED) <= 1.03 * profile.value("global_load_requests", 2)
