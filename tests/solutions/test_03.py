"""The exercises of page 03: their solutions reach the goals."""

import pytest

import labkit
from labkit import LENET86, variant

FIRST = LENET86[0]


@pytest.fixture(scope="module")
def profile():
    chosen = [variant(2), variant(3), *(variant(3, source=labkit.solution(name)) for name in ("03a", "03b"))]
    return labkit.profile(chosen, FIRST)


PROMISED, PAIRS = "03 registers, 03a_restrict.cu", "03 registers, 03b_two_maps.cu"


def test_a_promise_alone_removes_the_stores_of_a_product(profile):
    """One store for the zero, one for the sum; without the promise one for each of the 49 products, too."""
    once = profile.value("global_store_requests", 3)
    assert profile.value("global_store_requests", 2) == (FIRST.terms + 1) * once
    assert profile.value("global_store_requests", PROMISED) <= 2 * once
    assert labkit.diff(2, variant(3, source=labkit.solution("03a"))).changed_lines == 1


def test_two_maps_share_each_load(profile):
    assert profile.ratio("global_load_requests", 3, PAIRS) == pytest.approx(2, rel=0.01)
    assert profile.ratio("global_store_requests", 3, PAIRS) == 1
    assert labkit.diff(3, variant(3, source=labkit.solution("03b"))).changed_lines <= 10


def test_two_maps_of_an_odd_number():
    odd = labkit.Layer("three maps", 2, 12, 19, 3, 7)
    labkit.check(variant(3, source=labkit.solution("03b")), [(odd, 2)])
