"""The figures of pages 10 and 11."""

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


def test_a_register_holds_two_terms_of_an_output(said):  # noqa: F811
    words = said(draw.squares, lane=2).words
    assert [words.count(f"a[{register}]") for register in range(4)] == [1] * 4
    assert "lane 2 holds" in said(draw.squares, lane=2).subtitle
    assert said(draw.squares, lane=2).alt != said(draw.squares, lane=3).alt


@pytest.mark.parametrize("down", [1, 2])
@pytest.mark.parametrize("tall", [1, 7])
def test_each_k_step_of_a_window_takes_two_rows(drawn, said, down, tall):  # noqa: F811
    assert not collisions(drawn(draw.stack, down, tall))
    words, channels, rows = said(draw.stack, down, tall).words, 3 - down, 6 + down + down * (tall - 1)
    for step in range(7 if down == 1 else 4):
        lanes = channels * rows if step < 4 else 0  # each row has a word per lane
        assert words.count(str(step)) == lanes + 2 * tall


def test_what_a_stack_of_windows_shares(said):  # noqa: F811
    assert "is loaded once for 4 windows" in said(draw.stack).title
    assert "two channels share the last" in said(draw.stack, 1, 5).title
    assert "a further one begins 2 rows below" in said(draw.stack).alt


@pytest.mark.parametrize(("K", "lane"), [(0, 0), (8, 0), (7, 32), (7, -1)])
def test_squares_that_cannot_be_drawn_are_refused(K, lane):
    with pytest.raises(LabError, match=r"draw\.squares: K, lane = "):
        draw.squares(K, lane)


@pytest.mark.parametrize(("down", "tall"), [(0, 4), (3, 4), (2, 0), (1, 8)])
def test_stacks_that_cannot_be_drawn_are_refused(down, tall):
    with pytest.raises(LabError, match=r"draw\.stack: down, tall = "):
        draw.stack(down, tall)
