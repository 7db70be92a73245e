"""The exercises of page 06: their solutions reach the goals, counted on the CPU engine."""

import re

import pytest

import labkit
from labkit import LENET72, LENET86, variant

CARRY, TWO = "06 fusion, a_carry.cu", "06 fusion, b_two_pixels.cu"


def solved(exercise, **options):
    return labkit.solution("fusion", exercise, **options)


def loop(source):
    """The body of the loop over the steps, without comments."""
    code = re.sub(r"//[^\n]*", "", source)
    return code[code.index("for (int step") : code.index("    if (m < M" if "    if (m < M" in code else "y[m")]


def test_no_division_in_the_loop():
    assert re.search(r"[/%]", loop(variant(6).source))
    assert not re.search(r"[/%]", loop(solved("a").source))
    assert labkit.diff(variant(6), solved("a")).changed_lines <= 8


@pytest.mark.parametrize("tile", [3, 14])
def test_the_carry_works_for_tiles_below_and_above_k(tile):
    shapes = [(labkit.Layer("odd", 3, 12, 15, 5, K), 1) for K in (1, 4, 7)]
    labkit.check(solved("a", tile=tile), shapes)


@pytest.mark.parametrize("layer", [LENET86[0], LENET72[1]], ids=str)
def test_the_carry_loads_what_the_rung_loads(layer):
    profile = labkit.profile([variant(6), solved("a")], layer, engine="cpu")
    assert profile.ratio("global_sectors", CARRY, "06 fusion") == 1


@pytest.mark.parametrize("layer", [LENET86[0], LENET72[1]], ids=str)
def test_two_pixels_share_the_mask_element(layer):
    profile = labkit.profile([variant(6), solved("b")], layer, engine="cpu")
    assert profile.ratio("shared_load_instructions", TWO, "06 fusion") < 0.8
    assert labkit.diff(variant(6), solved("b")).changed_lines <= 20


@pytest.mark.parametrize("tile", [5, 32])
def test_two_pixels_at_other_tiles(tile):
    labkit.check(solved("b", tile=tile), [(labkit.Layer("odd", 3, 21, 44, 19, 7), 2)])
