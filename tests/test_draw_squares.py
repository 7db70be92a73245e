"""The figure of page 10."""

import numpy as np
import pytest
from test_draw import collisions, drawn, said  # noqa: F401  fixtures

import labkit.draw as draw
from labkit.base.errors import LabError
from labkit.draw.matrices import place_weights

pytestmark = pytest.mark.thorough("figures, which the notebooks draw, too")


@pytest.mark.parametrize("K", range(1, 8))
def test_a_figure_says_what_it_shows_and_nothing_overlaps(drawn, K):  # noqa: F811
    page = drawn(draw.squares, K)
    assert not collisions(page)
    assert f"the mask of {K} by {K} " in page.alt
    assert page.alt.endswith(".")


@pytest.mark.parametrize("K", range(1, 8))
def test_the_rows_times_a_window_are_the_square(K):
    """Weights put where the figure says, times a window of an image, are a convolution's four outputs in four maps."""
    random = np.random.default_rng(K)
    k, where = random.standard_normal((4, K, K)), place_weights(K)
    rows, high = np.zeros(where.shape), where.shape[1] // 8
    window = random.standard_normal((high, 8))
    for w, m, h in np.ndindex(2, 4, 2):
        rows[8 * w + 2 * m + h, where[8 * w + 2 * m + h]] = k[m].ravel()
    y = rows @ window.ravel()
    for w, m, h in np.ndindex(2, 4, 2):
        assert y[8 * w + 2 * m + h] == pytest.approx(np.sum(k[m] * window[h : h + K, w : w + K]))


def test_how_much_is_of_use(said):  # noqa: F811
    assert "8 × 8 inputs; 77 % of the terms are weights" in said(draw.squares).title
    assert "4 × 8 inputs; 28 % of the terms are weights" in said(draw.squares, 3).title
    assert "64 terms, 4 steps of 16 terms, two rows of the window each: 77 % of them" in said(draw.squares).alt


def test_a_lane_supplies_a_word_of_every_row(said):  # noqa: F811
    words = said(draw.squares, lane=2).words
    assert [words.count(str(lane)) for lane in range(4)] == [8 + 8] * 4
    assert "lane 2 of the warp" in said(draw.squares, lane=2).subtitle


@pytest.mark.parametrize(("K", "lane"), [(0, 0), (8, 0), (7, 4), (7, -1)])
def test_what_cannot_be_drawn_is_refused(K, lane):
    with pytest.raises(LabError, match=r"draw\.squares: K, lane = "):
        draw.squares(K, lane)
