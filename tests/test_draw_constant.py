"""The figures of pages 02 and 03."""

import numpy as np
import pytest
from test_draw import collisions, drawn, said  # noqa: F401  fixtures

import labkit.draw as draw
from labkit.base.errors import LabError
from labkit.spec.layers import LENET72, LENET86, Layer

pytestmark = pytest.mark.thorough("figures, which the notebooks draw, too")

LANE = np.arange(32)
TOO_LARGE = Layer("a layer with a name as long as this", 64, 20, 20, 64, 3)
SWEEP = {"global memory": {1: 5.0, 2: 6.0, 16: 31.5}, "constant memory": {16: 31.0, 1: 4.0}}


@pytest.mark.parametrize(("figure", "arguments"), [
    (draw.constant_budget, ([*LENET86, *LENET72, TOO_LARGE],)),
    (draw.constant_budget, ([LENET72[1]],)),
    (draw.constant_reads, ({"one": LANE * 0 + 16383, "all of them": LANE * 49, "few": np.array([3, -1, 3, 4])},)),
    (draw.constant_divergence, (SWEEP,)),
    (draw.constant_divergence, ({"one": {4: 1e-3}},)),
])
def test_a_figure_says_what_it_shows_and_nothing_overlaps(drawn, figure, arguments):  # noqa: F811
    page = drawn(figure, *arguments)
    assert not collisions(page)
    assert page.alt.endswith(".")


def test_the_budget_is_64_kilobytes(said):  # noqa: F811
    page = said(draw.constant_budget, [*LENET72, Layer("full", 64, 9, 9, 64, 2), TOO_LARGE])
    assert page.title == "3 of 4 masks fit into constant memory"
    assert "lenet72 layer 2: 24·12·7·7 elements, 56,448 bytes, 86 %." in page.alt
    assert "full: 64·64·2·2 elements, 65,536 bytes, 100 %." in page.alt
    assert "147,456 bytes, 225 %, too many." in page.alt
    assert said(draw.constant_budget, [LENET86[0]]).title == "The mask fits into constant memory"


@pytest.mark.parametrize(("elements", "words"), [
    (LANE * 0 + 7, "1 turn serves all 32 lanes"),
    (LANE % 16 * 196, "16 turns of 2 lanes"),
    (LANE, "32 turns of 1 lane"),
    (LANE % 7, "7 turns of up to 5 lanes"),
    (np.array([-1, 5, 5]), "1 turn serves 2 lanes"),
])
def test_a_turn_an_element(said, elements, words):  # noqa: F811
    page = said(draw.constant_reads, {"here": elements})
    assert words in page.words
    assert f"here: {words}." in page.alt


def test_divergence_names_the_last_series_and_its_span(said):  # noqa: F811
    page = said(draw.constant_divergence, SWEEP)
    assert page.title == "constant memory: 7.8 times as long with 16 elements as with 1"
    assert "31" not in page.plain  # a re-executed notebook compares equal


@pytest.mark.parametrize(("call", "message"), [
    (lambda: draw.constant_budget([]), "no layer"),
    (lambda: draw.constant_reads(np.arange(33)), "32 lanes"),
    (lambda: draw.constant_reads(LANE * 0.5), "float64"),
    (lambda: draw.constant_reads(LANE * 0 - 1), "no lane takes part"),
    (lambda: draw.constant_divergence({}), "no measurement"),
    (lambda: draw.constant_divergence({"one": {}}), "no measurement"),
])
def test_a_mistake_is_named(call, message):
    with pytest.raises(LabError, match=message):
        call()


MIXES = {"02 constant": {"multiply-add": 1.0, "input": 1.0, "mask": 1.0, "stores": 1.02, "integer": 7.5, "other": 2.0},
         "03 registers": {"multiply-add": 1.0, "input": 1.0, "mask": 1.0, "integer": 0.4}}


def test_instructions_add_up(drawn):  # noqa: F811
    page = drawn(draw.instructions, MIXES)
    assert not collisions(page)
    assert page.title == "03 registers: 3.4 instructions per product, 02 constant 13.5"
    assert "03 registers: 3.40, of these multiply-add 1.00, input 1.00, mask 1.00, integer 0.40." in page.alt
    assert "13.5" not in page.plain


@pytest.mark.parametrize(("mixes", "message"), [
    ({}, "0 kinds"),
    ({"one": {str(kind): 1 for kind in range(7)}}, "7 kinds"),
    ({"one": {"multiply-add": float("nan")}}, "negative or not a number"),
])
def test_instructions_that_cannot_be_drawn(mixes, message):
    with pytest.raises(LabError, match=message):
        draw.instructions(mixes)


def test_occupancy_is_a_staircase(drawn):  # noqa: F811
    """65,536 registers hold 2,048 threads of 32, and 7 blocks of 256 threads with 40."""
    page = drawn(draw.occupancy, {"03 registers, rolled": 24, "03 registers": 32, "own": 40, "large": 255})
    assert not collisions(page)
    assert page.title == "Up to 32 registers per thread, 100 % of the warps can be resident"
    for words in ("03 registers: 32 registers, 100 % of 64 warps.", "own: 40 registers, 75 % of 64 warps.",
                  "large: 255 registers, 12 % of 64 warps."):
        assert words in page.alt


@pytest.mark.parametrize(("call", "message"), [
    (lambda: draw.occupancy({}), "1 to 255"),
    (lambda: draw.occupancy({"one": 256}), "1 to 255"),
])
def test_occupancy_that_no_kernel_has(call, message):
    with pytest.raises(LabError, match=message):
        call()
