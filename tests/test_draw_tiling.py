"""The figures of page 04."""

import numpy as np
import pandas as pd
import pytest
from test_draw import collisions, drawn, said  # noqa: F401  fixtures

import labkit
import labkit.draw as draw
from hostcuda import metrics
from labkit.base.errors import LabError
from labkit.draw.tiles import compute_costs, wavefronts
from labkit.spec.layers import LENET72, LENET86, Layer

pytestmark = pytest.mark.thorough("figures, which the notebooks draw, too")

ODD = Layer("odd", 2, 13, 29, 5, 4)


@pytest.mark.parametrize("layer", [LENET86[1], LENET72[1], ODD], ids=str)
def test_a_figure_says_what_it_shows_and_nothing_overlaps(drawn, layer):  # noqa: F811
    page = drawn(draw.tilings, layer)
    assert not collisions(page)
    for width in (8, 16, 27, 32):
        assert f"Tiles of {width}: " in page.alt


def test_the_message_names_the_best_width_and_the_worst(said):  # noqa: F811
    page = said(draw.tilings, LENET86[1])
    assert page.title == "72 % of the threads idle under tiles of 32, 28 % under tiles of 8"
    assert "Tiles of 16: 3 down, 3 across; threads without an output 50 %, inputs loaded" in page.alt
    assert said(draw.tilings, LENET72[1]).title.endswith(", 0 % under tiles of 27")


@pytest.mark.parametrize("width", [1, 3, 8, 16, 27, 32])
@pytest.mark.parametrize("layer", [LENET86[0], LENET72[1], ODD], ids=str)
def test_costs_are_those_of_the_loops(layer, width):
    cost, side = compute_costs(layer, width), width + layer.K - 1
    threads = idle = loaded = 0
    for top in range(0, layer.Ho, width):
        for left in range(0, layer.Wo, width):
            threads += width * width
            idle += sum(top + y >= layer.Ho or left + x >= layer.Wo for y in range(width) for x in range(width))
            loaded += sum(top + i < layer.H and left + j < layer.W for i in range(side) for j in range(side))
    assert cost["idle"] == pytest.approx(idle / threads)
    assert cost["loaded"] == pytest.approx(loaded / (layer.H * layer.W))
    assert cost["across"] * cost["down"] * width**2 == threads
    assert cost["bytes"] == labkit.variant(4, tile=width).launches(layer)[0].shared


def test_wavefronts_are_those_counted():
    variants = [labkit.variant(4, tile=tile) for tile in (8, 16, 27, 32)]
    counts = labkit.profile(variants, LENET86[0]).counts["wavefronts_per_shared_load"]
    assert counts.tolist() == pytest.approx([np.mean(wavefronts(t, t + 6)) for t in (8, 16, 27, 32)], rel=0.03)
    assert wavefronts(16, 22) == [2] * 8
    assert wavefronts(16, 48) == [1] * 8
    assert wavefronts(2, 3) == [1]


# ---------------------------------------------------------------------------------------------------------- stalls
def reasons(label="04 tiling", layer="lenet86 layer 1", **cycles):
    """Return a made-up row of recorded counters: half a cycle for each reason that is not given."""
    stalled = {f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio": cycles.get(name, 0.5)
               for name in metrics.STALLS}
    return {"label": label, "layer": layer, "device": "NVIDIA H200", "date": "2026-11-21", **stalled}


@pytest.mark.parametrize("rows", [
    [reasons(mio_throttle=9)],
    [reasons("03 registers", long_scoreboard=12.25), reasons("04 tiling, columns", "lenet72 layer 2", barrier=30)] * 4,
    [reasons("04 tiling, skip", short_scoreboard=0)],
])
def test_stalls_say_what_they_show_and_nothing_overlaps(drawn, rows):  # noqa: F811
    page = drawn(draw.stalls, pd.DataFrame(rows), subtitle="1000 images")
    assert not collisions(page)
    for row in rows:
        assert f"{row['label']}, {row['layer']}: " in page.alt


def test_stalls_add_up_to_the_cycles_per_instruction(said):  # noqa: F811
    page = said(draw.stalls, pd.DataFrame([reasons(mio_throttle=4, lg_throttle=3), reasons("05", long_scoreboard=2)]))
    assert "room in the queue to shared memory 4.0, room in the queue to global memory 3.0" in page.alt
    assert f"04 tiling, lenet86 layer 1: {7 + 0.5 * (len(metrics.STALLS) - 2) + 1:.1f}, of these" in page.alt


@pytest.mark.parametrize(("cycles", "share"), [(5.4, "50 %"), (5.6, "most")])
def test_only_more_than_half_is_most(said, cycles, share):  # noqa: F811
    page = said(draw.stalls, pd.DataFrame([reasons(lg_throttle=cycles)]))
    assert page.title == f"04 tiling on lenet86 layer 1: {share} of the stall cycles are LG Throttle"


def test_the_title_of_stalls_says_what_changed(said):  # noqa: F811
    before, after = reasons(long_scoreboard=40, lg_throttle=9), reasons("05", mio_throttle=16)
    title = "From 04 tiling to 05: less Long Scoreboard, more MIO Throttle"
    assert said(draw.stalls, pd.DataFrame([before, reasons("04 tiling, maps"), after])).title == title
    elsewhere = reasons("05", "lenet86 layer 2", mio_throttle=99)  # on a layer that the first kernel lacks
    assert said(draw.stalls, pd.DataFrame([before, elsewhere])).title.startswith("05 on lenet86 layer 2: most")
    more = said(draw.stalls, pd.DataFrame([reasons(), reasons("05", barrier=5)]))
    assert more.title == "From 04 tiling to 05: more Barrier"


def test_each_reason_has_its_own_words_and_is_shown(said):  # noqa: F811
    page = said(draw.stalls, pd.DataFrame([reasons(wait=5, math_pipe_throttle=3)]))
    assert page.title == "04 tiling on lenet86 layer 1: 38 % of the stall cycles are Wait"
    assert {"MIO Throttle", "LG Throttle", "IMC Miss", "Barrier", "Not Selected", "Selected"} <= set(page.words)
    assert "MIO Throttle is room in the queue to shared memory" in page.alt
    assert "a busy arithmetic pipe 3.0, a fixed latency 5.0" in page.alt
    assert "its issue slot: another warp was issued 0.5" in page.alt
    assert len(set(metrics.STALLS.values())) == len(metrics.STALLS)
    assert {*metrics.STALLS.values(), "other reasons", "nothing: it is issued"} <= set(page.words)
    cycles = dict.fromkeys(metrics.STALLS, 0.0) | {"wait": 2, "barrier": 0.05}
    few = said(draw.stalls, pd.DataFrame([reasons(**cycles)]))
    assert "a barrier" not in few.words and "other reasons 0.1" in few.alt  # 0.05 cycles of 3.05 are not visible


def test_stalls_refuse_a_table_without_them():
    with pytest.raises(LabError, match="lacks smsp__average_warps_issue_stalled_long_scoreboard"):
        draw.stalls(pd.DataFrame([{"label": "a", "layer": "b"}]))
    with pytest.raises(LabError, match="without a row"):
        draw.stalls(pd.DataFrame([reasons()])[:0])
