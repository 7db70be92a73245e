"""The figures: they say what they were given, nothing overlaps, and every one can be read without seeing it."""

import inspect
import io
import itertools
import re
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from PIL import Image, ImageChops

import labkit.draw as draw
from hostcuda.errors import EngineError
from labkit.base import numerals
from labkit.base.errors import LabError
from labkit.base.paths import PACKAGE, cuda_src
from labkit.draw import style
from labkit.draw.dark import dark
from labkit.records.recorded import recorded
from labkit.spec.layers import LENET28, LENET72, LENET86, PRESETS, Layer
from recording import pictures

pytestmark = [pytest.mark.thorough("figures, which the notebooks draw, too"), pytest.mark.filterwarnings("error")]

NAMES = ["01 baseline", "02 constant", "03 registers", "04 tiling", "05 unroll_gemm", "06 fusion", "08 fp16",
         "09 tensor_cores", "07 tuning", "12 streams", "11 training", "10 speed of light"]
FLOORS = {"lenet86 layer 1": 0.42, "lenet86 layer 2": 1.21, "lenet72 layer 1": 0.85, "lenet72 layer 2": 3.43}


def rungs(count=8, layers=("lenet86 layer 2",), batches=(10000,), seed=0):
    """Return a made-up table as `bench` returns it."""
    random = np.random.default_rng(seed)
    rows = []
    for layer, batch in itertools.product(layers, batches):
        for label in NAMES[:count]:
            over = float(np.exp(random.uniform(0.1, 3.5))) * (1 + 100 / batch)
            op_ms = FLOORS[layer] * over * batch / 10000
            rows.append((label, layer, batch, op_ms, over, 25000 / over))
    table = pd.DataFrame(rows, columns=["label", "layer", "batch", "op_ms", "x_reference", "gflop_s"])
    return table.assign(dtype="float32", device="NVIDIA H200", engine="gpu")


def activity(kernels=5, calls=10):
    """Return a made-up summary of a trace."""
    rows = [("kernel", f"kernel_number_{i}", i + 1, 20.0 / (i + 1) ** 2) for i in range(kernels)]
    rows += [("copy", "copy host to device", 9, 5.3)] if kernels else []
    rows += [("api", f"cuCall{i}", 2 * i + 1, 30.0 / (i + 1) ** 3) for i in range(calls)]
    return pd.DataFrame(rows, columns=["kind", "name", "calls", "total_ms"])


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draw into a file; return the page as it was when it was saved, with its texts."""
    pages = []
    save = style.save
    monkeypatch.setattr(style, "save", lambda page, path: (pages.append(page), save(page, path)))

    def call(function, *args, **options):
        assert function(*args, path=tmp_path / f"{len(pages)}.png", **options) is None
        page = pages[-1]
        page.file = tmp_path / f"{len(pages) - 1}.png"
        page.words = texts(page)
        page.title, page.subtitle = (text.get_text() for text in page.fig.texts[:2])
        return page

    return call


@pytest.fixture
def said(monkeypatch, drawn):
    """Draw like `drawn`, for tests of the words alone: nothing is rendered, which takes most of the time."""
    monkeypatch.setattr(style, "png", lambda page: b"not rendered")
    return drawn


def texts(page):
    texts = (text.get_text() for text in page.fig.findobj(Text) if text.get_visible())
    return [text for text in texts if text.strip()]


def collisions(page):
    """Return pairs of texts that cover each other, and texts that leave the page."""
    dpi = page.fig.dpi
    page.fig.set_dpi(style.DPI * style.DENSITY)  # where the texts were laid out when the page was saved
    boxes = []
    for text in page.fig.findobj(Text):
        if text.get_visible() and text.get_text().strip():
            boxes.append((text.get_text(), text.get_window_extent(), text.get_rotation() % 90))
    edge = page.fig.bbox.frozen()
    page.fig.set_dpi(dpi)
    pairs = []
    for (a, box_a, slope_a), (b, box_b, slope_b) in itertools.combinations(boxes, 2):
        if slope_a or slope_b:  # the box of a slanted text is mostly empty
            continue
        across = min(box_a.x1, box_b.x1) - max(box_a.x0, box_b.x0)
        down = min(box_a.y1, box_b.y1) - max(box_a.y0, box_b.y0)
        if across > 2 and down > 6:  # pixels: a line's box has air above and below
            pairs.append((a, b, round(across), round(down)))
    outside = [(text, box.bounds) for text, box, _ in boxes
               if box.x0 < 0 or box.y0 < -1 or box.x1 > edge.x1 or box.y1 > edge.y1 + 1]
    return pairs + outside


LAYERS = [layer for preset in PRESETS.values() for layer in preset]
ODD = [Layer("odd", 3, 13, 29, 5, 1), Layer("odd", 2, 11, 9, 3, 2), Layer("odd", 1, 40, 50, 2, 11),
       Layer("odd", 64, 9, 9, 128, 3)]
TRIPLES = [("01 baseline", 59.0, 3800.0), ("02 constant", 59.0, 3900.0), ("03 registers", 9.5, 7400.0),
           ("04", 0.5, 900.0)]
ROOF = {"peaks": {"FP32 GEMM": 50.9e3, "FP32 peak": 66.9e3}, "bandwidths": {"copy": 4230.0, "L2": 12000.0}}
FIGURES = {
    **{f"network {p.name}": (draw.network, (p,), {}) for p in PRESETS.values()},
    "network times": (draw.network, (LENET86,), {"times": {"conv1": 5.0, "conv2": 18.9, "everything else": 3.1}}),
    "network small": (draw.network, (LENET86,), {"times": {"conv1": 0.1, "conv2": 99, "copies": 0.5, "others": 0.2}}),
    **{f"convolution {layer}": (draw.convolution, (layer,), {}) for layer in LAYERS + ODD},
    **{f"grid {layer} {block}": (draw.grid, (layer,), {"block": block, "batch": batch})
       for layer, block, batch in [(LAYERS[1], (16, 16), 10000), (LAYERS[2], (32, 8), None), (LAYERS[3], (27, 27), 100),
                                   (ODD[0], (1, 1), None), (ODD[1], (1, 128), 1), (ODD[2], (1024, 1), 7)]},
    **{f"tile {T} {K}": (draw.tile, (), {"T": T, "K": K}) for T, K in ((1, 1), (1, 7), (4, 7), (16, 7), (32, 1))},
    **{f"coalescing {layer} {block}": (draw.coalescing, (layer, block), {})
       for layer, block in ((LAYERS[0], (16, 16)), (LAYERS[1], (8, 2)), (LAYERS[2], (27, 27)))},
    "sectors": (draw.sectors, (np.arange(32) * 8 + 4,), {}),
    "sectors one": (draw.sectors, (np.zeros(32, int),), {"size": 16}),
    "sectors few": (draw.sectors, ({"one": np.array([-1, 64, -1, 4096]), "wide": np.arange(32) * 16},), {"size": 16}),
    "steps": (draw.steps, ({"four": [1, 2, 3, 4], "two": [4, 6, None, None]}, [[(0, 0), (2, 0), (1, 1), (3, 1)]]), {}),
    "steps one row": (draw.steps, ({"a row of its own": range(32)}, []), {}),
    "descriptor": (draw.descriptor, (), {"columns": 8}),
    "teams": (draw.teams, (), {"fetch": 6}),
    "lanes": (draw.lanes, ({"a": np.arange(128).reshape(16, 8) // 4, "b": np.eye(16, 16, dtype=int)},), {"lane": 1}),
    "images": (draw.images, (np.ones((20, 1, 8, 8)), range(20)), {}),
    "images wrong": (draw.images, (np.zeros((6, 8, 8)), range(6), [0, 1, 2, 3, 4, 6]), {}),
    "time": (draw.time, (activity(),), {"subtitle": "lenet86"}),
    "time one": (draw.time, (activity(1, 0),), {}),
    "time calls": (draw.time, (activity(0, 3),), {}),
    "time long": (draw.time, (activity(30, 30).replace("kernel_number_0", "void f<16, true>(" + "x" * 90),), {}),
    **{f"ladder {n} rungs": (draw.ladder, (rungs(n),), {"layer": LENET86[1], "date": "today"}) for n in (1, 2, 12)},
    **{f"ladder seed {seed}": (draw.ladder, (rungs(12, list(FLOORS)[:2 * seed], seed=seed),), {}) for seed in (1, 2)},
    "ladder batches": (draw.ladder, (rungs(3, batches=(100, 1000)),), {}),
    "roofline": (draw.roofline, (TRIPLES,), ROOF),
    "roofline one": (draw.roofline, (TRIPLES[:1],), ROOF),
    **{f"roofline seed {s}": (draw.roofline, (rungs(12, seed=s),), {"device": "H200"}) for s in range(2)},
    "roofline layers": (draw.roofline, (rungs(6, list(FLOORS)[:2]),), {"device": "H200"}),
}


@pytest.mark.parametrize(("rows", "moves", "says"), [
    ({}, [], "rows of 1 to 32 cells"), ({"a": [1]}, [[(0, 0)]], "and 1 list of moves"),
    ({"a": range(33)}, [], r"rows of \[33\] cells"), ({"a": [1], "b": [1]}, [[(0, 1)]], "a move leads beyond"),
])
def test_steps_that_do_not_fit_are_refused(rows, moves, says):
    with pytest.raises(LabError, match=says):
        draw.steps(rows, moves)


@pytest.mark.parametrize(("fetch", "compute", "store"), [(3, 4, 2), (6, 4, 2), (1, 1, 5)])
def test_teams_wait_for_the_slowest(said, fetch, compute, store):
    """In the end an image takes the time of the slowest team."""
    alt = said(draw.teams, fetch, compute, store, images=9).alt
    ends = [int(end) for end in re.findall(r"store warps, image \d: \d+ to (\d+)", alt)]
    assert ends[0] == fetch + compute + store and ends[-1] - ends[-2] == max(fetch, compute, store)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_tidy_and_described(drawn, name):
    """There is no warning, no text over another or off the page; there are a message, a description, a small file."""
    function, args, options = FIGURES[name]
    page = drawn(function, *args, **options)
    assert not collisions(page)
    assert any(letter.isalpha() for letter in page.title)
    assert len(page.alt) > 60
    assert "\n" not in page.alt
    assert page.file.stat().st_size < 120_000
    with Image.open(page.file) as image:
        assert image.size == (2 * page.width, 2 * round(page.height))
        assert image.info["Description"] == page.alt


def test_the_collision_check_finds_collisions():
    """A check that cannot fail would prove nothing about the figures."""
    page = style.Page()
    page.open(200, "")
    page.text(20, 50, "one text")
    page.text(40, 52, "another")
    page.text(700, 100, "a text that leaves the page")
    assert len(collisions(page)) == 2


# ------------------------------------------------------------------------------------- what the figures say
def test_network_counts_multiply_adds(said):
    page = said(draw.network, LENET86)
    macs = [4 * 80**2 * 49, 16 * 34**2 * 4 * 49, 1296 * 32 + 320]
    assert f"conv1  {100 * macs[0] / sum(macs):.0f} %" in page.words
    assert f"conv2  {100 * macs[1] / sum(macs):.0f} %" in page.words
    assert {"1×86×86", "4×80×80", "4×40×40", "16×34×34", "16×9×9", "32", "10"} <= set(page.words)
    assert f"{sum(macs) / 1e6:.2f} million per image" in page.words


def test_network_of_every_preset_has_its_shapes(said):
    for preset in (LENET72, LENET28):
        page = said(draw.network, preset)
        for layer in preset:
            assert {f"{layer.C}×{layer.H}×{layer.W}", f"{layer.M}×{layer.Ho}×{layer.Wo}"} <= set(page.words)


def test_convolution_counts_what_is_read_again(said):
    page = said(draw.convolution, LENET86[1])
    assert page.title == "Neighbouring threads read 168 of the same 196 inputs"
    threads, inputs = 16 * 34**2, 4 * 40**2
    reads = threads * 4 * 7 * 7
    assert f"has {inputs:,} inputs. Its {threads:,} threads ask for {reads:,}: each input 566 times." in page.alt
    assert round(reads / inputs) == 566


def test_grid_counts_idle_threads_as_a_loop_does(said):
    for layer, (bx, by) in ((LENET86[1], (16, 16)), (LENET72[0], (32, 8)), (ODD[0], (7, 5))):
        idle = total = 0
        for h in range(0, layer.Ho, by):
            for w in range(0, layer.Wo, bx):
                total += bx * by
                idle += sum(h + y >= layer.Ho or w + x >= layer.Wo for y in range(by) for x in range(bx))
        page = said(draw.grid, layer, (bx, by))
        assert idle == 0 or f"idle: {idle:,} of {total:,} threads" in page.words
        assert f"{style.percent(idle / total)} of the threads" in page.alt
    assert said(draw.grid, LENET86[0], (16, 16)).title.startswith("Every thread has an output")


def test_tile_counts_loads_as_the_kernel_does(said):
    for T, K in ((16, 7), (4, 7), (32, 5), (8, 1)):
        passes = len(range(0, T + K - 1, T)) ** 2
        page = said(draw.tile, T, K)
        assert f"{(T + K - 1) ** 2:,} inputs" in page.title
        assert f"{T * T * K * K:,}" in page.title
        assert any(f"{passes} passes" in text or (passes == 1 and "one pass" in text) for text in page.words)


def test_sectors_are_those_touched(said):
    """32 floats in a row are 4 sectors, shifted by one they are 5, and in a column each lane has its own."""
    lanes = np.arange(32)
    for addresses, expected in (
        (lanes * 4, "4 sectors, 128 of 128 bytes used (100 %)"),
        (lanes * 4 + 4, "5 sectors, 128 of 160 bytes used (80 %)"),
        (lanes * 160, "32 sectors, 128 of 1,024 bytes used (12 %)"),
        (lanes * 0, "1 sector, 4 of 32 bytes used (12 %)"),
        (np.array([30]), "2 sectors, 4 of 64 bytes used (6.2 %)"),
        (np.array([-1, 30, -1]), "2 sectors, 4 of 64 bytes used (6.2 %)"),
    ):
        page = said(draw.sectors, addresses)
        assert expected in page.words
        assert expected in page.alt


def test_sectors_have_visible_boundaries(said):
    """Each sector has a box, dark-framed and numbered; none touches another, and gaps in memory are wider."""
    page = said(draw.sectors, np.concatenate([np.arange(16), np.arange(86, 102)]) * 4)
    frames = [box for box in page.fig.findobj(Rectangle) if box.get_edgecolor() == to_rgba(style.INK)]
    gaps = np.array([b.get_x() - a.get_x() - a.get_width() for a, b in itertools.pairwise(frames)])
    assert len(frames) == 5 and gaps.min() > 3
    assert gaps.argmax() == 1 and gaps.max() > 3 * gaps.min()
    assert {"0", "1", "10", "11", "12"} <= set(page.words)


def test_coalescing_compares_rows_with_columns(said):
    page = said(draw.coalescing, LENET86[1], (32, 8))
    assert page.title == "One request of a warp moves 4 sectors or 32"


def test_images_mark_what_was_read_wrongly(said):
    page = said(draw.images, np.zeros((3, 8, 8)), [7, 2, 1], [7, 2, 4])
    assert page.title == "2 of these 3 are read correctly"
    assert said(draw.images, np.zeros((3, 8, 8)), [7, 2, 1], [7, 2, 1]).title == "All 3 are read correctly"
    assert "1 → 4" in page.words
    assert "7" in page.words
    assert "1 wrong" in page.alt


def test_time_shows_shares_and_what_makes_up_90_percent(said):
    table = pd.DataFrame(
        [("kernel", "big", 2, 80.0), ("copy", "copy", 1, 15.0), ("kernel", "small", 7, 5.0), ("api", "call", 9, 0.25)],
        columns=["kind", "name", "calls", "total_ms"],
    )
    page = said(draw.time, table.sample(frac=1, random_state=1))
    assert page.title == "big takes 80 % of the device’s time"
    assert {"80 %", "15 %", "5.0 %", "80.0 ms", "15.0 ms", "5.00 ms", "0.250 ms", "2", "7", "9"} <= set(page.words)
    assert "2 of 3 take 90 % of 100 ms" in page.words
    assert "0.250 ms in all" in page.words


def test_time_takes_a_trace(said):
    class Trace:
        def summary(self):
            return activity()

    assert said(draw.time, Trace()).alt == said(draw.time, activity()).alt


def test_time_spells_copies_out(said):
    table = activity().replace("copy host to device", "HtoD")
    assert "copy host → device" in said(draw.time, table).words


def test_time_merges_the_many_short_ones(said):
    page = said(draw.time, activity(0, 30))
    assert "23 others" in page.words and any("of 30 take 90 %" in text for text in page.words)


def test_ladder_says_the_times_it_was_given(said):
    table = rungs(5)
    page = said(draw.ladder, table, date="2026-01-01")
    for row in table.itertuples():
        assert f"{numerals.ms(row.op_ms)}  {numerals.times(row.x_reference)}" in page.words
        assert row.label in page.words
        assert f"{row.label} {numerals.ms(row.op_ms)}" in page.alt
    assert "reference 1.21 ms" in page.words
    assert all(part in page.subtitle for part in ("lenet86 layer 2", "batch 10,000", "NVIDIA H200", "2026-01-01"))
    dots = [line.get_xdata()[0] for line in page.fig.axes[0].lines
            if line.get_marker() == "o" and line.get_markerfacecolor() == style.BLUE]
    assert np.allclose(dots, table["op_ms"])


def test_ladder_shows_what_each_rung_saves_and_loses(said):
    """A line joins the rung's time to the ring at the time of the row above.

    It is orange where time is lost, and absent where the two differ by less than 2 %. The green line is the reference
    time of the row's own precision.
    """
    table = rungs(5).assign(op_ms=[8.0, 2.0, 2.01, 6.0, 1.0], x_reference=[8.0, 2.0, 2.01, 6.0, 4.0])
    page = said(draw.ladder, table.assign(dtype=["float32"] * 4 + ["float16"]))
    lines = page.fig.axes[0].lines
    spans = [(line.get_color(), *line.get_xdata(), line.get_ydata()[0]) for line in lines if len(line.get_xdata()) == 2]
    assert [span for span in spans if span[0] != style.GREEN] == [
        (style.BLUE, 8, 2, 1), (style.ORANGE, 2.01, 6, 3), (style.BLUE, 6, 1, 4)]
    assert [x for color, x, _, _ in spans if color == style.GREEN] == [1, 1, 1, 1, 0.25]
    rings = [line.get_xdata()[0] for line in lines if line.get_markerfacecolor() == style.PAPER]
    assert rings == [8, 2.01, 6]
    assert {"time saved against the row above (ring)", "time lost"} <= set(page.words)
    assert not {"time saved against the row above (ring)"} & set(said(draw.ladder, rungs(1)).words)


@pytest.mark.parametrize(("times", "verdict"), [
    ((8, 2, 9, 3), "3 to 4 times as fast as 01 baseline"),
    ((1, 3, 2, 4), "takes 2 to 3 times as long as 01 baseline"),
    ((2, 2, 3, 3.01), "as fast as 01 baseline"), ((2, 2, 3, 4), "slower than 01 baseline on 1 of 2 layers"),
    ((2, 1, 3, 4), "faster than 01 baseline on 1 of 2 layers, slower on 1"),
])
def test_ladders_title_is_its_verdict(said, times, verdict):
    table = rungs(2, list(FLOORS)[:2]).assign(op_ms=times, x_reference=times)
    after = times[1::2]
    spread = f"{min(after):.3g} to {max(after):.3g}"
    page = said(draw.ladder, table)
    assert page.title == f"02 constant: {verdict}; {spread}× the reference time"
    assert page.title in page.alt


def test_ladder_takes_recorded_results_and_leaves_the_whole_network_out(said):
    whole = {"label": "01 baseline", "layer": "", "batch": 10000, "total_s": 4}
    table = pd.concat([rungs(2), pd.DataFrame([whole])])
    page = said(draw.ladder, SimpleNamespace(table=table, device="NVIDIA H200", date="2026-02-03"))
    assert "2026-02-03" in page.subtitle
    assert len(page.fig.axes) == 1


def test_ladder_draws_the_library(drawn):
    cudnn = rungs(1).assign(label="cuDNN FP32", op_ms=5.69, x_reference=4.7)
    page = drawn(draw.ladder, rungs(3), library=cudnn)
    assert "5.69 ms  4.70×" in page.words
    assert "cuDNN FP32 5.69 ms (4.70×)" in page.alt
    assert not collisions(page)


def test_ladder_refuses_the_library_of_another_device(said):
    said(draw.ladder, rungs(2), library=recorded("H200").cudnn("lenet86"))
    with pytest.raises(LabError, match="rungs on TITAN V: no chart compares machines"):
        said(draw.ladder, rungs(2).assign(device="TITAN V"), library=recorded("H200").cudnn("lenet86"))


def test_half_precision_is_marked_and_has_the_librarys_own_row(said):
    table = rungs(2).assign(dtype=["float32", "float16"], x_reference=[5.0, 40.0])
    page = said(draw.ladder, table, library=recorded("H200").cudnn("lenet86", "float16"))
    assert f"{numerals.ms(table['op_ms'].iloc[1])}  40.0×  FP16" in page.words
    over = recorded("H200").op_ms("cuDNN FP16", LENET86[1]) / LENET86[1].reference_ms(10000, "float16", "H200")
    assert any(text.endswith(f"{over:.2f}×  FP16") for text in page.words)


def test_ladder_draws_times_below_the_reference(drawn):
    """A reference time is a yardstick, not a bound: a CPU whose caches help may take less."""
    page = drawn(draw.ladder, rungs(3).assign(x_reference=[0.8, 2.0, 0.9]))
    assert not collisions(page)


@pytest.mark.parametrize("function", [draw.ladder, draw.roofline])
def test_cpu_times_are_called_what_they_are(drawn, function):
    """They are on a line of their own, whether the table says so in words or only by its engine."""
    options = ROOF if function is draw.roofline else {}
    table = rungs(2).assign(engine="cpu", device="a CPU")
    assert "Not GPU times: measured on the CPU engine." in drawn(function, table, **options).words
    table.attrs["note"] = "Not GPU times: measured on the CPU engine (A(R) Processor(TM) 8481C @ 2.70GHz, 2 workers)."
    page = drawn(function, table, **options)
    assert table.attrs["note"] in page.words
    assert not collisions(page)
    assert not any("Not GPU times" in text for text in drawn(function, rungs(2), **options).words)


def test_a_trace_of_the_cpu_engine_is_called_that(drawn):
    table = activity()
    table.attrs["note"] = "Not GPU times: measured on the CPU engine."
    page = drawn(draw.time, table)
    assert table.attrs["note"] in page.words
    assert not collisions(page)


def test_roofline_puts_points_at_their_intensity(said):
    table = rungs(3)
    page = said(draw.roofline, table, device="H200")
    rings = [line for line in page.fig.axes[0].lines if line.get_marker() == "o"]
    points = [(ring.get_xdata()[0], ring.get_ydata()[0]) for ring in rings]
    assert np.allclose(points, [(LENET86[1].intensity(np.float32, 10000), rate) for rate in table["gflop_s"]])
    share = table["gflop_s"].iloc[-1] / 60000
    assert page.title == f"03 registers reaches {style.percent(share)} of its roof"


# --------------------------------------------------------------------------------------------- how they are shown
class Screen:
    """A stand-in for IPython's display."""

    def __init__(self, monkeypatch):
        self.shown = []
        monkeypatch.setattr(style, "_kernel", lambda: self)
        monkeypatch.setattr("IPython.display.display", lambda *args, **options: self.shown.append((args, options)))


def test_a_notebook_gets_a_png_with_alt_text(monkeypatch):
    screen = Screen(monkeypatch)
    assert draw.tile(16, 7) is None
    (((data,), options),) = screen.shown
    about = options["metadata"]["image/png"]
    assert options["raw"]
    assert about["width"] == 760
    assert "484" in about["alt"]
    assert data["text/plain"] == about["alt"]
    assert data["image/png"].startswith("iVBORw0KGgo")


@pytest.mark.parametrize(("function", "args"), [
    (draw.time, activity), (draw.ladder, rungs), (draw.roofline, lambda: TRIPLES)])
def test_text_plain_of_a_measurement_has_no_numbers(monkeypatch, function, args):
    """The command nbval compares text/plain: it has to stay the same when the times do not."""
    screen = Screen(monkeypatch)
    function(args(), **(ROOF if function is draw.roofline else {}))
    (data,), _ = screen.shown[0]
    assert data["text/plain"].startswith("Figure: ") and not any(letter.isdigit() for letter in data["text/plain"])


def test_without_a_screen_the_words_are_printed(capsys):
    draw.tile(16, 7)
    assert "484 inputs" in capsys.readouterr().out


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(LabError, match=r"name it \.png"):
        draw.tile(16, 7, path=tmp_path / "tile.gif")
    assert not list(tmp_path.iterdir())


def test_a_picture_replaces_a_figure_of_the_lab_and_nothing_else(tmp_path):
    path = tmp_path / "tile.png"
    for _ in range(2):
        draw.tile(16, 7, path=path)
    path.write_bytes(b"mine")
    with pytest.raises(LabError, match=r"tile\.png is there, and is no figure of the lab"):
        draw.tile(16, 7, path=path)
    assert path.read_bytes() == b"mine"


def test_a_picture_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "tile.png"
    draw.tile(16, 7, path=path)
    before = path.read_bytes()

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(EngineError, match=r"tile\.png"):
        draw.tile(16, 7, path=path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_no_figure_is_left_open(monkeypatch):
    import matplotlib.pyplot as plt

    draw.tile(16, 7)
    monkeypatch.setattr(style, "_show", lambda page: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        draw.tile(16, 7)
    assert not plt.get_fignums()


def test_matplotlib_is_left_as_it_was(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    draw.tile(16, 7, path=tmp_path / "a.png")
    with pytest.raises(LabError):
        draw.tile(99, 7)
    assert dict(matplotlib.rcParams) == before


def test_a_dark_style_does_not_get_in(drawn):
    import matplotlib

    with matplotlib.rc_context({"figure.facecolor": "black", "font.size": 30, "lines.linewidth": 9}):
        dark = drawn(draw.tile, 16, 7).file.read_bytes()
    assert dark == drawn(draw.tile, 16, 7).file.read_bytes()


@pytest.mark.parametrize("name", draw.__all__)
def test_every_figure_says_what_it_takes_and_refuses(name):
    doc = inspect.getdoc(getattr(draw, name))
    parameters, _, raises = doc.partition("\nRaises\n------\n")
    names = re.findall(r"^(\w+(?:, \w+)*)(?: : .+)?$", parameters.partition("\nParameters\n----------\n")[2], re.M)
    assert [word for line in names for word in line.split(", ")] == [*inspect.signature(getattr(draw, name)).parameters]
    assert raises.startswith("LabError\n    If ")


@pytest.mark.parametrize("modules", [
    "labkit, labkit.draw",
    "labkit.evidence.child, labkit.evidence.steps, labkit.evidence.accesses, labkit.exercises.grader",  # run kernels
])
def test_importing_is_light(modules):
    code = f"import {modules}, sys; sys.exit('matplotlib' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# ------------------------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(("call", "message"), [
    (lambda: draw.ladder(rungs(2).drop(columns="x_reference")), "lacks x_reference"),
    (lambda: draw.ladder(rungs(2).iloc[:0]), "without a row"),
    (lambda: draw.ladder(rungs(2), layer=LENET72[0]), "layer = 'lenet72 layer 1'; the table has lenet86 layer 2"),
    (lambda: draw.ladder(rungs(2), batch=7), "batch = 7; the table has 10000"),
    (lambda: draw.ladder(pd.concat([rungs(2), rungs(1)])), "several rows of 01 baseline"),
    (lambda: draw.time(pd.DataFrame({"kind": []})), "lacks name, calls, total_ms"),
    (lambda: draw.time(activity(0, 0)), "trace something first"),
    (lambda: draw.lanes({"a row": [1, 2]}), "give matrices of lanes"),
    (lambda: draw.teams(fetch=0), "times above 0; got 4 images"),
    (lambda: draw.descriptor(at=8), "8 or 16 columns at a multiple of 16"),
    (lambda: draw.roofline([], **ROOF), "no point"),
    (lambda: draw.roofline([("a", 0.0, 1.0)], **ROOF), "positive"),
    (lambda: draw.grid(LENET86[0], (33, 32)), "1056 threads"),
    (lambda: draw.tile(33, 7), "T = 33"),
    (lambda: draw.sectors(np.arange(33)), "32 lanes"),
    (lambda: draw.sectors(np.arange(32) * 0.5), "float64"),
    (lambda: draw.sectors(np.full(32, -1)), "no lane takes part"),
    (lambda: draw.images(np.zeros((2, 8, 8)), [1]), "'labels': 1"),
    (lambda: draw.images(np.zeros((0, 8, 8)), []), "one each per image"),
])
def test_refusals_say_what_is_wrong(call, message):
    with pytest.raises(LabError, match=message):
        call()


# ----------------------------------------------------------------------------------------------- the README's pictures
IMAGES = PACKAGE.parent / "docs" / "images"


@pytest.mark.parametrize("name", ["lab.png", "ladder.png"])
def test_the_readme_shows_what_was_recorded(drawn, monkeypatch, name):
    """The pictures in the repository show the recorded results of today."""
    script = vars(pictures)
    make = {"lab.png": script["draw_lab"], "ladder.png": script["draw_ladders"]}[name]
    page = drawn(make, recorded("H200"))
    assert not collisions(page)
    assert page.file.stat().st_size < 140_000
    with Image.open(IMAGES / name) as image:
        assert image.info["Description"] == page.alt, "stale: run python -m recording pictures"
    by_night = Image.open(io.BytesIO(dark((IMAGES / name).read_bytes())))
    assert ImageChops.difference(by_night, Image.open(IMAGES / name.replace(".png", "-dark.webp"))).getbbox() is None


def test_the_readmes_code_is_the_kernels():
    script = vars(pictures)
    source = cuda_src() / "01_baseline.cu"
    lines = script["read_excerpt"](source)
    kernel = [line.split("//")[0].strip() for line in source.read_text().splitlines()]
    assert all(line.strip() in [*kernel, "…"] for line in lines)
    assert sum("for (" in line for line in lines) == 3
    assert max(map(len, lines)) < 95


# ------------------------------------------------------------------------------------------------------ numbers
@pytest.mark.parametrize(("value", "text"), [
    (0, "0 µs"), (0.00123, "1.23 µs"), (0.0994, "99.4 µs"), (0.0996, "0.0996 ms"), (0.42, "0.420 ms"),
    (4.966, "4.97 ms"),
    (18.94, "18.9 ms"), (177.4, "177 ms"), (5060, "5,060 ms"), (25142.6, "25.1 s"), (1.2e6, "1,200 s")])
def test_milliseconds(value, text):
    assert numerals.ms(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1, "1.00×"), (15.62, "15.6×"), (0.131, "0.13×"), (0.0131, "0.0131×"), (1234, "1,234×")]
)
def test_times(value, text):
    assert numerals.times(value) == text


# ------------------------------------------------------------------------------------------------------- colours
def linear(color):
    rgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """Return CIE L*a*b* of linear sRGB (IEC 61966-2-1, D65)."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb
    f = xyz / [0.9505, 1, 1.089]
    f = np.where(f > (6 / 29) ** 3, np.cbrt(f), f / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Complete dichromacy: Machado, Oliveira and Fernandes, IEEE TVCG 15(6), 2009, table 1, severity 1.0.
SIGHT = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_stay_apart_for_colour_blind_readers(sight):
    """The lines of a chart differ by more than 30 in CIE76 for everybody (2.3 is just noticeable)."""
    colours = [lab(np.clip(SIGHT[sight] @ linear(color), 0, 1)) for color in style.CYCLE]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(colours, 2)) > 30


INKS = {style.INK, style.MUTED, style.AMBER, style.GREEN, *(style.READABLE.get(color, color) for color in style.CYCLE)}


@pytest.mark.parametrize("ink", sorted(INKS))
def test_text_colours_have_contrast(ink):
    """WCAG 2.2, success criterion 1.4.3: 4.5 to 1 on the page's white."""
    luminance = np.array([0.2126, 0.7152, 0.0722]) @ linear(ink)
    assert 1.05 / (luminance + 0.05) >= 4.5


def test_warnings_would_have_been_seen():
    with pytest.raises(UserWarning):
        warnings.warn("seen", stacklevel=1)
