"""The charts of chunks and streams: tidy, described in words, and true to what they were given."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib import image
from matplotlib.colors import to_rgb
from test_draw import collisions, drawn, said  # noqa: F401  fixtures

import labkit as lab
import labkit.draw as draw
from labkit.base.errors import LabError
from labkit.draw import style
from labkit.measure.pipeline import schedule

pytestmark = [pytest.mark.thorough("figures, which the notebooks draw, too"), pytest.mark.filterwarnings("error")]

FIRST = lab.LENET86[0]


def planned(chunk=1000, streams=3, pinned=True, kernel_ms=3.7, layer=FIRST):
    return schedule(layer, 10_000, kernel_ms, chunk, streams, pinned, on="H200")


def swept(counts=(1, 2, 3, 8), chunks=(100, 1000, 10_000), seed=0):
    random = np.random.default_rng(seed)
    rows = [(n, c, 18.5 + 9 * (c / 10_000 if n > 1 else 1) + random.uniform(0, 1))
            for n, c in itertools.product(counts, chunks)]
    return pd.DataFrame(rows, columns=["streams", "chunk", "steady_ms"])


NOT_A_GPU = planned()
NOT_A_GPU.attrs["note"] = "Not GPU times: measured on the CPU engine (some processor, 2 workers)."
THREE = {"ordinary memory, three streams": planned(pinned=False), "page-locked memory, one stream": planned(streams=1),
         "page-locked memory, three streams": planned()}

FIGURES = {
    "gantt": (draw.gantt, (planned(),), {"reference_ms": 18.5, "subtitle": "lenet86 layer 1"}),
    "gantt one chunk": (draw.gantt, (planned(10_000),), {}),
    "gantt many chunks": (draw.gantt, (planned(20, 8),), {"reference_ms": 18.5}),
    "gantt of 12 streams": (draw.gantt, (planned(500, 12),), {}),
    "gantt of a slow kernel": (draw.gantt, (planned(kernel_ms=250.0),), {}),
    "gantt noted": (draw.gantt, (NOT_A_GPU,), {"subtitle": "lenet86 layer 1"}),
    "gantt several": (draw.gantt, (THREE,), {"reference_ms": 18.5, "subtitle": "lenet86 layer 1, 10 000 images"}),
    "chunks": (draw.chunk_sizes, (swept(),), {"reference_ms": 18.5, "subtitle": "lenet86 layer 1"}),
    "chunks predicted": (draw.chunk_sizes, (swept((3,)),), {"predicted": {100: 18.6, 1000: 19.4, 10_000: 27.5}}),
    "chunks one": (draw.chunk_sizes, (swept((1,), (7,)),), {}),
    "chunks far off": (draw.chunk_sizes, (swept((1, 2, 3, 4, 8)).assign(steady_ms=lambda t: 9 * t["steady_ms"]),),
                       {"reference_ms": 18.5}),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_tidy_and_described(drawn, name):  # noqa: F811
    function, args, options = FIGURES[name]
    page = drawn(function, *args, **options)
    assert not collisions(page)
    assert len(page.alt) > 60
    assert "\n" not in page.alt
    assert not any(digit in page.plain for digit in "0123456789")
    assert page.file.stat().st_size < 150_000


def test_a_gantt_chart_says_who_is_busy_and_for_how_long(said):  # noqa: F811
    page = said(draw.gantt, planned(), reference_ms=18.48)
    assert page.title == "Copies out keep the link busy for 95 % of the time"
    assert {"copies in 28 %", "kernels 19 %", "copies out 95 %", "stream 0", "stream 2"} <= set(page.words)
    assert "3 streams, 10 chunks, 19.4 ms" in page.alt
    assert "overlap 1.42" in page.alt
    assert "reference time, 18.5 ms" in page.alt
    slow = said(draw.gantt, planned(kernel_ms=100.0))
    assert slow.title.startswith("Kernels keep the multiprocessors busy")


def test_a_gantt_chart_begins_at_zero_wherever_the_timeline_does(said):  # noqa: F811
    late = planned()
    late[["start_ms", "end_ms"]] += 1000
    assert said(draw.gantt, late).alt == said(draw.gantt, planned()).alt


def test_every_kernel_can_be_seen_however_short(drawn):  # noqa: F811
    page = drawn(draw.gantt, planned(pinned=False, kernel_ms=0.01))
    pixels = image.imread(page.file)[160:, :, :3]  # below the legend
    orange = (np.abs(pixels - to_rgb(style.ORANGE)) < 0.1).all(axis=2).any(axis=0).astype(int)
    assert (np.diff(orange) == 1).sum() == 10  # one place a chunk


def test_several_timelines_share_an_axis_and_are_named(said):  # noqa: F811
    page = said(draw.gantt, THREE)
    assert set(THREE) <= set(page.words)
    limits = {ax.get_xlim() for ax in page.fig.axes if ax.get_xlim()[1] > 2}
    assert len(limits) == 1
    assert all(f"{name}: " in page.alt for name in THREE)


def test_a_note_is_shown(said):  # noqa: F811
    assert any("Not GPU times" in text for text in said(draw.gantt, NOT_A_GPU).words)


def test_the_best_chunk_is_the_message(said):  # noqa: F811
    table = swept()
    best = table.loc[table["steady_ms"].idxmin()]
    page = said(draw.chunk_sizes, table, reference_ms=10.0)
    assert f"{best['chunk']:,.0f} images per chunk" in page.title
    assert f"{best['steady_ms'] / 10:.2f} times the reference time" in page.title


@pytest.mark.parametrize("figure", [draw.gantt, draw.chunk_sizes])
def test_what_cannot_be_drawn_is_refused(figure, tmp_path):
    with pytest.raises(LabError, match="lacks"):
        figure(pd.DataFrame({"chunk": [1]}), path=tmp_path / "x.png")
    empty = planned().iloc[:0] if figure is draw.gantt else swept().iloc[:0]
    with pytest.raises(LabError, match=r"got (no timeline|a table without)"):
        figure(empty, path=tmp_path / "x.png")
    assert not list(tmp_path.iterdir())
