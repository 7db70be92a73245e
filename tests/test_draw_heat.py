"""Heat maps show what was swept: the fastest point of each cell, the best one framed, what cannot run hatched."""

import functools
import itertools

import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from test_draw import drawn  # noqa: F401  a fixture

import labkit
from labkit import LabError
from labkit.draw import heatmap, style

pytestmark = [pytest.mark.thorough("figures, which the notebooks draw, too"), pytest.mark.filterwarnings("error")]


def swept(layers=("one", "two"), rows=(1, 2, 10), maps=(1, 4), blocks=("8x1", "160x1"), engine="gpu"):
    """Return a made-up sweep; a layer's fastest point is the last one, that of the second layer the first."""
    table = pd.DataFrame(itertools.product(layers, rows, maps, blocks), columns=["layer", "rows", "maps", "block"])
    size = len(table) // len(layers)
    table["op_ms"] = [1 + (size - i % size) / 10 if i < size else 1 + (i % size) / 5 for i in range(len(table))]
    table["registers"] = table["rows"] * table["maps"] + 20
    return table.assign(device="NVIDIA H200", engine=engine, batch=1000, reason="")


@pytest.fixture
def draw(drawn):  # noqa: F811
    return functools.partial(drawn, heatmap)


def texts(page):
    return [text.get_text() for text in page.fig.texts]


def boxes(page):
    return [box for box in page.fig.findobj(Rectangle) if box.get_width() > 1 and box is not page.fig.patch]


def framed(page):
    return [box for box in boxes(page) if box.get_edgecolor()[:3] == pytest.approx((0.91, 0.588, 0.118), abs=0.01)]


def test_a_cell_is_the_fastest_of_its_points(draw):
    page = draw(swept(("one",)), "rows", "maps")
    table = swept(("one",)).groupby(["rows", "maps"])["op_ms"].min()
    for value in table:
        assert f"{value:.2f}" in texts(page)
    assert "the fastest of all other options" in page.alt or any("all other options" in text for text in texts(page))
    assert len(boxes(page)) == 6 + 1  # and the frame
    assert len(framed(page)) == 1


def test_each_layer_has_a_panel_and_a_best_cell(draw):
    page = draw(swept(), "rows", "maps")
    assert {"one", "two"} <= set(texts(page))
    assert len(framed(page)) == 2
    assert "one, fastest at maps 4, rows 10." in page.alt and "two, fastest at maps 1, rows 1." in page.alt
    assert any("each layer has a best choice of its own" in text for text in texts(page))
    same = pd.concat([swept(("one",)), swept(("one",)).assign(layer="two")])
    assert any("the same choice is best on every layer" in text for text in texts(draw(same, "rows", "maps")))
    two_of_three = pd.concat([swept(), swept(("one",)).assign(layer="three")])
    assert any("no choice is best on every layer" in text for text in texts(draw(two_of_three, "rows", "maps")))


def test_times_have_three_digits(draw):
    table = swept(("one",)).assign(op_ms=lambda rows: rows["op_ms"].where(rows["op_ms"] > 1.2, 19.96))
    assert "20.0" in texts(draw(table[table["rows"] == 10], "rows", "maps"))


def test_blocks_are_in_the_order_of_their_numbers(draw):
    page = draw(swept(blocks=("160x1", "8x1", "64x2")), "block", "maps")
    assert [text for text in texts(page) if "x" in text and text[0].isdigit()][:3] == ["8x1", "64x2", "160x1"]


def test_what_cannot_run_is_hatched_and_what_was_not_tried_is_empty(draw):
    table = swept(("one",))
    table.loc[(table["rows"] == 10) & (table["maps"] == 4), ["op_ms", "reason"]] = [float("nan"), "registers"]
    table = table[(table["rows"] != 2) | (table["maps"] != 4)]
    page = draw(table, "rows", "maps")
    assert sum(bool(box.get_hatch()) for box in boxes(page)) == 1
    assert len(boxes(page)) == 4 + 1 + 1  # timed, hatched, the frame
    assert any("Hatched" in text for text in texts(page))
    assert not any("Hatched" in text for text in texts(draw(swept(), "rows", "maps")))


def test_other_values_are_those_of_the_fastest_point(draw):
    page = draw(swept(("one",)), "rows", "maps", value="registers")
    assert {"21", "22", "24", "28", "30", "60"} <= set(texts(page))
    assert any("registers per thread" in text for text in texts(page))


def test_times_of_the_cpu_engine_are_labelled(draw):
    table = swept(engine="cpu")
    table.attrs["note"] = "Not GPU times."
    assert "Not GPU times." in texts(draw(table, "rows", "maps"))


def test_nothing_leaves_the_page_and_dark_cells_have_light_text(draw):
    page = draw(swept(rows=range(1, 13)), "rows", "maps")
    page.fig.canvas.draw()
    for text in page.fig.texts:
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= page.fig.bbox.width, text.get_text()
    assert isinstance(page.fig, Figure)
    assert style.PAPER in {text.get_color() for text in page.fig.texts}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (swept().drop(columns="maps"), "no column 'maps'"),
        (swept().assign(op_ms=float("nan")), "no point of this sweep has a time"),
        (pd.concat([swept(), swept().assign(batch=5)]), r"several of batch \(1000, 5\)"),
        (pd.concat([swept(), swept().assign(device="A40")]), "several of device"),
    ],
)
def test_sweeps_that_are_no_heat_map(table, message):
    with pytest.raises(LabError, match=message):
        heatmap(table, "rows", "maps")


@pytest.mark.parametrize(("rows", "maps", "K"), [(1, 1, 1), (10, 4, 7), (20, 8, 7), (5, 1, 3)])
def test_outputs_a_thread_counts_what_is_loaded_and_used(drawn, rows, maps, K):  # noqa: F811
    page = drawn(labkit.draw.outputs_per_thread, rows, maps, K)
    loads, products = rows + K - 1 + maps * K, rows * maps * K
    assert f"{loads} numbers loaded for {products} products" in page.alt
    page.fig.canvas.draw()
    for text in page.fig.texts:
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= page.fig.bbox.width and box.y0 >= 0 and box.y1 <= page.fig.bbox.height
    faces = [to_hex(box.get_facecolor()) for box in boxes(page)]
    assert sum(face in (style.ORANGE, style.PALE, style.TINT) for face in faces) == rows * K + 3  # and the legend
    followed = min(K - 1 + rows // 2, rows + K - 2)
    assert faces.count(style.ORANGE) == sum(0 <= followed - row < K for row in range(rows)) + 1
    assert max(box.get_xy()[0] + box.get_width() for box in boxes(page)) <= page.width


def test_outputs_a_thread_refuses_what_it_cannot_draw():
    with pytest.raises(LabError, match="rows, maps, K = 21, 4, 7: at most 20, 8 and 7"):
        labkit.draw.outputs_per_thread(21, 4, 7)
