"""The exercises of page 03: their solutions reach the goals."""

import pytest

import labkit
from labkit import LENET86, variant

FIRST = LENET86[0]


@pytest.fixture(scope="module")
def promised():
    return labkit.profile([variant(2), variant(3), labkit.solution("registers", "a")], FIRST)


def test_restrict_alone_removes_the_stores_per_product(promised):
    """One store for the zero, one for the sum; without the promise one for each of the 49 products, too."""
    once = promised.value("global_store_requests", 3)
    assert promised.value("global_store_requests", 2) == (FIRST.terms + 1) * once
    assert promised.value("global_store_requests", "03 registers, a_restrict.cu") <= 2 * once
    assert labkit.diff(2, labkit.solution("registers", "a")).changed_lines == 1


def test_two_outputs_share_each_element_of_the_mask():
    pairs = labkit.solution("registers", "b")
    profile = labkit.profile([variant(3), pairs], FIRST, engine="cpu")
    assert profile.ratio("constant_requests", 3, pairs.label) == 2
    assert profile.value("constant_serialized", pairs.label) == 0
    for name in ("global_load_requests", "global_store_requests"):
        assert profile.ratio(name, 3, pairs.label) == 1
    assert labkit.diff(3, pairs).changed_lines <= 10


def test_two_outputs_of_an_odd_map():
    odd = labkit.Layer("13 rows of outputs", 2, 19, 12, 3, 7)
    labkit.check(labkit.solution("registers", "b"), [(odd, 2)])
