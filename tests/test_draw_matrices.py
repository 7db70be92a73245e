"""The figures of pages 05 and 06."""

import pandas as pd
import pytest
from test_draw import collisions, drawn, said  # noqa: F401  fixtures

import labkit.draw as draw
from labkit.base.errors import LabError
from labkit.draw.style import percent
from labkit.spec.layers import LENET72, LENET86, Layer

pytestmark = pytest.mark.thorough("figures, which the notebooks draw, too")


def parts(layers=("lenet86 layer 1", "lenet86 layer 2"), labels=("05 unroll gemm", "05 unroll gemm, gemm=cublas")):
    """Return times by kernel as `kernel_times` does."""
    rows = [(label, layer, 1000, kernel, 0.4 * (i + 1) + 3 * (kernel == "gemm"), "NVIDIA H200")
            for i, layer in enumerate(layers) for label in labels for kernel in ("im2col", "gemm")]
    return pd.DataFrame(rows, columns=["label", "layer", "batch", "kernel", "op_ms", "device"])


@pytest.mark.parametrize(("figure", "arguments"), [
    (draw.im2col, ()),
    (draw.im2col, (4, 6, 2, (0, 0), (0, 0))),
    (draw.im2col, (7, 8, 4, (3, 4), (3, 3))),
    (draw.im2col, (3, 3, 1)),
    (draw.fused_index, (LENET86[1], 152, 429)),
    (draw.fused_index, (LENET72[1], 587, 728)),
    (draw.fused_index, (Layer("flat", 1, 5, 40, 2, 3), 0, 0)),
    *((draw.gemm_tiles, (layer, tile)) for layer in (*LENET86, *LENET72) for tile in (16, 32)),
    (draw.gemm_tiles, (Layer("many maps and channels", 64, 9, 9, 128, 3),)),
    (draw.kernels, (parts(),)),
    (draw.kernels, (parts(layers=("lenet72 layer 2",), labels=("05 unroll gemm, tile=32, block=512",)),)),
])
def test_a_figure_says_what_it_shows_and_nothing_overlaps(drawn, figure, arguments):  # noqa: F811
    page = drawn(figure, *arguments)
    assert not collisions(page)
    assert page.alt.endswith(".")


def test_the_copies_of_an_input(said):  # noqa: F811
    """The middle of 5 × 5 is in all nine windows of 3 × 3, the corner in one."""
    page = said(draw.im2col)
    assert page.title == "Every window becomes a column; input 12 is in 9 of them"
    assert "x has 25 elements, u has 9 × 9 = 81" in page.subtitle
    assert "Input 12 is in 9 places: row 0 column 8, row 1 column 7, row 2 column 6, row 3 column 5" in page.alt
    assert "window of output (1, 1) is column 4" in page.alt
    assert page.words.count("12") == 1 + 9
    corner = said(draw.im2col, element=(0, 0))
    assert corner.title.endswith("input 0 is in one")
    assert "1 place: row 0 column 0." in corner.alt


def test_the_index_leads_back_to_what_im2col_copied(said):  # noqa: F811
    page = said(draw.fused_index, LENET86[1], 152, 429)
    assert "152 = (3 · 7 + 0) · 7 + 5" in page.words
    assert "429 = 12 · 34 + 21" in page.words
    assert "so the element is x[3, 12, 26]." in page.alt
    assert "offset (3 · 40 + 12) · 40 + 26 = 5,306" in page.words


@pytest.mark.parametrize(("layer", "tile", "rows", "useful"), [
    (LENET86[0], 16, "25 %", 4 / 16 * 49 / 64),
    (LENET86[0], 32, "12 %", 4 / 32 * 49 / 64),
    (LENET86[1], 16, "100 %", 196 / 208 * 1156 / 1168),
    (LENET72[0], 16, "75 %", 12 / 16 * 49 / 64 * 4356 / 4368),
    (LENET72[1], 16, "75 %", 24 / 32 * 588 / 592 * 729 / 736),
    (LENET72[1], 32, "75 %", 24 / 32 * 588 / 608 * 729 / 736),
])
def test_how_full_the_tiles_are(said, layer, tile, rows, useful):  # noqa: F811
    page = said(draw.gemm_tiles, layer, tile)
    assert rows in page.words
    assert page.title == f"{percent(useful)} of the multiply-adds are useful"


def test_kernels_says_each_time(said):  # noqa: F811
    page = said(draw.kernels, parts())
    assert "lenet86 layer 2, 05 unroll gemm: 4.60 ms, of these im2col 0.800 ms, gemm 3.80 ms." in page.alt
    assert page.title == "im2col takes 11 % to 17 % of the op time"
    assert "NVIDIA H200" in page.subtitle
    assert "3.8" not in page.plain  # a re-executed notebook compares equal
    table = parts()
    table.attrs["note"] = "Not GPU times: measured on the CPU engine."
    assert "Not GPU times" in said(draw.kernels, table).alt


@pytest.mark.parametrize(("call", "message"), [
    (lambda: draw.im2col(3, 3, 4), "3×3 and K = 4 make 0×0 outputs"),
    (lambda: draw.im2col(10, 10, 3), "8×8 outputs"),
    (lambda: draw.im2col(window=(3, 0)), r"no window \(3, 0\); the outputs are 3×3"),
    (lambda: draw.im2col(element=(0, 5)), r"no input \(0, 5\); the input is 5×5"),
    (lambda: draw.fused_index(LENET86[0], 49, 0), r"49 × 6,400 elements; \(49, 0\) is none"),
    (lambda: draw.gemm_tiles(LENET86[0], 0), "tile = 0"),
    (lambda: draw.kernels(parts().drop(columns="kernel")), "lacks kernel"),
    (lambda: draw.kernels(pd.concat([parts(), parts().assign(batch=10)])), "got batches 1000, 10"),
])
def test_what_cannot_be_drawn_is_refused(call, message):
    with pytest.raises(LabError, match=message):
        call()
