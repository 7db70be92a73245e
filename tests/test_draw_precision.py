"""The figures of pages 08 and 09, and the numbers that they are drawn from."""

import numpy as np
import pytest
from test_draw import collisions, drawn, said  # noqa: F401  fixtures

import labkit
import labkit.draw as draw
from labkit import LENET72, LENET86, LabError, Layer
from labkit.draw.lines import counted
from labkit.draw.tiles import fit
from labkit.ladder.rungs.tensor_cores import WMMA_SHAPES
from labkit.measure.rounding import rounding_errors

pytestmark = pytest.mark.thorough("figures, which the notebooks draw, too")

LONG = [Layer(f"{4 * C} products", C, 4, 5, 3, 2) for C in (2, 40, 300)]


# ------------------------------------------------------------------------------------------------------- the errors
@pytest.fixture(scope="module")
def errors():
    variants = [6, *(labkit.variant(8, step=step) for step in ("storage", "half_sum", "half2")), 8]
    return rounding_errors(variants, LONG)


def test_errors_are_within_the_bound_and_half_sums_are_the_worst(errors):
    assert (errors["typical"] <= errors["largest"]).all()
    assert (errors["largest"] <= errors["bound"]).all()
    assert (errors["largest"] > 0).all()
    at = errors.set_index(["label", "terms"])["largest"].unstack()
    assert (at.loc["08 fp16, half_sum"] == at.loc["08 fp16, half2"]).all(), "the same products, in the same order"
    assert at.loc["08 fp16, half2", 1200] > 5 * at.loc["08 fp16", 1200] > 0
    assert at.loc["08 fp16, storage", 1200] > 20 * at.loc["06 fusion", 1200]
    assert at.loc["08 fp16, half2", 1200] > 2 * at.loc["08 fp16, half2", 8]


def test_an_error_that_is_there_is_found(errors):
    """A kernel whose sums are a tenth too large is off by a tenth of a sum of positive products."""
    source = labkit.variant(6).source.replace("] = sum;", "] = 1.1f * sum;")
    table = rounding_errors(labkit.variant(6, source=source), Layer("one", 1, 1, 1, 1, 1), batch=1)
    assert table["largest"].iloc[0] == pytest.approx(0.1, rel=1e-3)
    assert table["largest"].iloc[0] > 100 * table["bound"].iloc[0]


def test_errors_of_a_layer_that_a_variant_does_not_take():
    with pytest.raises(LabError, match="limit"):
        rounding_errors(9, Layer("deep", 60, 9, 9, 4, 7))


def test_rounding_draws_each_variant_and_its_bound(drawn, errors):  # noqa: F811
    page = drawn(draw.rounding, errors)
    assert not collisions(page)
    assert page.title.startswith("From 8 to 1,200 products: 08 fp16, half")
    lines = page.fig.axes[0].get_lines()
    assert len(lines) == 2 * 5
    for label in errors["label"].unique():
        assert label in page.words
        assert f"{label}: " in page.alt
    assert not any(character.isdigit() for character in page.plain)


def test_the_names_of_lines_that_end_at_the_bottom_stay_above_the_axis(drawn, errors):  # noqa: F811
    close = errors.assign(largest=errors["bound"].min() * (1 + errors["label"].factorize()[0] / 100))
    page = drawn(draw.rounding, close)
    (axis,) = (text for text in page.fig.axes[0].get_xticklabels() if text.get_text() == "1,200")
    renderer = page.fig.canvas.get_renderer()
    names = [text.get_window_extent(renderer) for text in page.fig.texts if text.get_text() in {*close["label"]}]
    assert len(names) == 5 and min(name.y0 for name in names) > axis.get_window_extent(renderer).y1
    assert not collisions(page)


@pytest.mark.parametrize("change", [lambda t: t.drop(columns="bound"), lambda t: t[t["terms"] == 8]])
def test_rounding_of_a_table_that_is_none(errors, change):
    with pytest.raises(LabError, match=r"draw\.rounding"):
        draw.rounding(change(errors))


# ---------------------------------------------------------------------------------------------------------- the sums
def test_running_sums_stop_where_half_does():
    assert counted(2048, 0)[-1] == 2048
    assert counted(3000, 0)[-1] == 2048
    assert counted(3000, 16).tolist() == list(range(1, 3001))
    assert counted(5000, 4096)[4095] == 2048, "a part may be too long, too"


@pytest.mark.parametrize(("terms", "part", "title"), [
    (4096, 16, "Counting in half stops at 2,048"), (100, 1, "Half counts to 100 without an error"),
])
def test_running_sum_says_where_it_stops(drawn, terms, part, title):  # noqa: F811
    page = drawn(draw.running_sum, terms, part)
    assert page.title == title
    assert not collisions(page)
    assert f"the true sum is {terms:,}" in page.alt


@pytest.mark.parametrize(("terms", "part"), [(0, 16), (16, 0)])
def test_running_sum_of_nothing(terms, part):
    with pytest.raises(LabError, match="at least one"):
        draw.running_sum(terms, part)


# --------------------------------------------------------------------------------------------------------- the tiles
def test_fill_is_that_of_the_launch():
    for layer in (*LENET86, *LENET72):
        for shape in WMMA_SHAPES:
            launch = labkit.variant(9, wmma=shape).launches(layer)[0]
            tiles, share = fit(layer.M, shape)
            assert launch.grid[1] == tiles
            assert share == pytest.approx(layer.M / (launch.grid[1] * shape[0]))


@pytest.mark.parametrize("maps", [(4, 12, 16, 24), (1,), (6, 64)])
def test_wmma_fill_says_how_full(drawn, maps):  # noqa: F811
    page = drawn(draw.wmma_fill, maps)
    assert not collisions(page)
    for m in maps:
        assert f"{m} maps in tiles of 16×16×16: " in page.alt


def test_wmma_fill_names_the_emptiest_tile(said):  # noqa: F811
    page = said(draw.wmma_fill, (4, 12, 16, 24))
    assert page.title == "With 4 maps a 32×8×16 tile is 12 % full"
    assert "4 maps in tiles of 8×32×16: 1 tile, 50 % full" in page.alt
    assert "24 maps in tiles of 16×16×16: 2 tiles, 75 % full" in page.alt
    with pytest.raises(LabError, match="at least one"):
        draw.wmma_fill(())
    with pytest.raises(LabError, match="1 or more"):
        draw.wmma_fill((4, 0))


def test_the_roof_of_the_tensor_cores_fits_on_the_page(drawn):  # noqa: F811
    points = [("08 fp16", 146.0, 15_000.0), ("09 tensor cores", 146.0, 40_500.0)]
    page = drawn(draw.roofline, points, peaks={"FP16": 729e3, "FP32": 60e3}, bandwidths={"memory": 4300.0})
    assert "1,000,000" in page.words
    assert not collisions(page)


def test_numpy_rounds_as_the_kernels_do():
    """The page's statements about half come from NumPy's arithmetic; the engines' is the same."""
    layer = Layer("ones", 45, 7, 7, 1, 7)
    with labkit.variant(8, step="half_sum").plan(layer, 1) as plan:
        plan.load(np.ones(layer.x_shape(1)), np.ones(layer.k_shape))
        plan.run()
        assert plan.result().item() == counted(layer.terms, 0)[-1] == 2048
