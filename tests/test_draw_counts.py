"""What figures draw is what a loop, the kernels or the engine count; lines and boxes stand where the numbers are."""

import functools
import itertools
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib import image
from matplotlib.colors import to_hex, to_rgb, to_rgba
from matplotlib.patches import Rectangle
from test_draw import FLOORS, NOTE, ODD, collisions, compose, noted, planned, reasons, render, rungs  # noqa: F401  fixtures

import labkit
import labkit.draw as draw
from hostcuda import driver, metrics
from hostcuda.compiler import SourceModule
from labkit.base import numerals
from labkit.base.errors import LabError
from labkit.draw import style
from labkit.draw.lines import sum_ones
from labkit.draw.machine import simulate_issue
from labkit.draw.matrices import locate_sums, place_weights
from labkit.draw.patterns import split_bits
from labkit.draw.tiles import compute_costs, count_tiles, count_wavefronts
from labkit.ladder.rungs.tensor_cores import WMMA_SHAPES
from labkit.ladder.source import module_arguments
from labkit.measure.rounding import rounding_errors
from labkit.networks.fused import KERNELS, arrange_convolution
from labkit.records.recorded import recorded
from labkit.spec.layers import LENET72, LENET86, Layer
from labkit.spec.reference import conv_float64

pytestmark = [
    pytest.mark.thorough("figures, which the notebooks draw, too"),
    pytest.mark.filterwarnings("error"),
]


def boxes(page):
    """Return the rectangles of a page that are wider than a line."""
    return [
        box
        for box in page.fig.findobj(Rectangle)
        if box.get_width() > 1 and box is not page.fig.patch
    ]


# ------------------------------------------------------------------------ threads, tiles, registers
def count_idle(layer, width, height):
    """Return how many threads of a map's blocks have no output, and how many there are."""
    h, w = np.ogrid[: -(-layer.Ho // height) * height, : -(-layer.Wo // width) * width]
    idle = (h >= layer.Ho) | (w >= layer.Wo)
    return idle.sum(), idle.size


def test_a_grid_has_its_idle_threads(compose):  # noqa: F811
    for layer, block in ((LENET86[1], (16, 16)), (LENET72[0], (32, 8)), (ODD[0], (7, 5))):
        idle, total = count_idle(layer, *block)
        page = compose(draw.grid, layer, block)
        assert idle == 0 or f"idle: {idle:,} of {total:,} threads" in page.words
        assert f"{style.percent(idle / total)} of the threads" in page.alt


def test_sectors_have_visible_boundaries(compose):  # noqa: F811
    """Each sector has a box, dark-framed and numbered; none touches another, and gaps in memory are wider."""
    page = compose(draw.sectors, np.concatenate([np.arange(16), np.arange(86, 102)]) * 4)
    frames = [box for box in boxes(page) if box.get_edgecolor() == to_rgba(style.INK)]
    gaps = np.array([b.get_x() - a.get_x() - a.get_width() for a, b in itertools.pairwise(frames)])
    assert len(frames) == 5 and gaps.min() > 3
    assert gaps.argmax() == 1 and gaps.max() > 3 * gaps.min()
    assert {"0", "1", "10", "11", "12"} <= set(page.words)


@pytest.mark.parametrize("width", [1, 3, 8, 16, 27, 32])
@pytest.mark.parametrize("layer", [LENET86[0], LENET72[1], Layer("odd", 2, 13, 29, 5, 4)], ids=str)
def test_costs_of_tiles_are_as_counted(layer, width):
    cost, side, (idle, threads) = (
        compute_costs(layer, width),
        width + layer.K - 1,
        count_idle(layer, width, width),
    )
    h, w = (
        np.add.outer(np.arange(0, outputs, width), np.arange(side))
        for outputs in (layer.Ho, layer.Wo)
    )
    loaded = (
        (h[:, None, :, None] < layer.H) & (w[:, None] < layer.W)
    ).sum()  # by tile and by place in it
    assert cost["idle"] == pytest.approx(idle / threads)
    assert cost["loaded"] == pytest.approx(loaded / (layer.H * layer.W))
    assert cost["across"] * cost["down"] * width**2 == threads
    assert cost["bytes"] == labkit.variant(4, tile=width).launches(layer)[0].shared


def test_wavefronts_are_those_counted():
    variants = [labkit.variant(4, tile=tile) for tile in (8, 16, 27, 32)]
    counts = labkit.profile(variants, LENET86[0]).counts["wavefronts_per_shared_load"]
    assert counts.tolist() == pytest.approx(
        [np.mean(count_wavefronts(t, t + 6)) for t in (8, 16, 27, 32)], rel=0.03
    )
    assert count_wavefronts(16, 22) == [2] * 8
    assert count_wavefronts(16, 48) == [1] * 8
    assert count_wavefronts(2, 3) == [1]


def test_fill_is_that_of_the_launch():
    for layer, shape in itertools.product((*LENET86, *LENET72), WMMA_SHAPES):
        launch = labkit.variant(9, wmma=shape).launches(layer)[0]
        tiles, share = count_tiles(layer.M, shape)
        assert launch.grid[1] == tiles
        assert share == pytest.approx(layer.M / (launch.grid[1] * shape[0]))


@pytest.mark.parametrize(("rows", "maps", "K"), [(1, 1, 1), (10, 4, 7), (20, 8, 7), (5, 1, 3)])
def test_outputs_a_thread_counts_what_is_loaded_and_used(render, rows, maps, K):  # noqa: F811
    page = render(draw.outputs_per_thread, rows, maps, K)
    loads, products = rows + K - 1 + maps * K, rows * maps * K
    assert f"{loads} numbers loaded for {products} products" in page.alt
    # nothing leaves the page; of 20 rows, numbers touch
    assert all(len(found) == 4 for found in collisions(page))
    faces = [to_hex(box.get_facecolor()) for box in boxes(page)]
    # and the legend
    assert sum(face in (style.ORANGE, style.PALE, style.TINT) for face in faces) == rows * K + 3
    followed = min(K - 1 + rows // 2, rows + K - 2)
    assert faces.count(style.ORANGE) == sum(0 <= followed - row < K for row in range(rows)) + 1
    assert max(box.get_xy()[0] + box.get_width() for box in boxes(page)) <= page.width


@pytest.mark.parametrize("K", range(1, 8))
def test_the_rows_times_a_window_are_the_square(K):
    """Weights put where the figure says, times a window of an image, are a convolution's four outputs in four maps."""
    random = np.random.default_rng(K)
    k, where = random.standard_normal((4, K, K)), place_weights(K)
    rows, high = np.zeros(where.shape), where.shape[1] // 8
    window = random.standard_normal((high, 8))
    for w, m, h in np.ndindex(2, 4, 2):
        rows[8 * w + 2 * m + h, where[8 * w + 2 * m + h]] = k[m].ravel()
    y = (rows @ window.ravel()).reshape(2, 4, 2).transpose(1, 2, 0)
    np.testing.assert_allclose(y, conv_float64(window[None, None], k[:, None])[0][:, :2, :2])


# A product of page 13's first convolution and its own pool. For each output of the pool, `keep` notes the lane, too.
POOL = """
#include "tensor.cuh"
struct Stored { int lane; float value; };
struct Block { Stored maps[1][4 * 8]; };
struct First { static constexpr int ACROSS = 8, PAIRS = 1; };
struct Second { static constexpr int ROWS = 1, PITCH = 8, WORDS = 0; };
__device__ inline void keep(Stored *to, int, float value) { *to = {(int)threadIdx.x, value}; }
#define half Stored
POOL_OF_THE_PAGE
extern "C" __global__ void run(const uint4 *a, const uint2 *b, float *d, Block *out)
{
    const int lane = threadIdx.x;
    float sum[1][1][4] = {};
    for (int step = 0; step < 4; ++step)
        mma(sum[0][0], a[32 * step + lane], b[32 * step + lane].x, b[32 * step + lane].y);
    for (int i = 0; i < 4; ++i)
        d[4 * lane + i] = sum[0][0][i];
    pool(First(), *out, sum, lane % 4 * 2, 0, 0, 1);
}
"""


def test_sums_lie_and_move_as_the_figure_of_the_pool_says(render):  # noqa: F811
    """A convolution's outputs are in the lanes of `locate_sums`, and page 13's pool stores as the figure says."""
    random = np.random.default_rng(13)
    x, k = random.integers(-9, 10, (8, 22)), random.integers(-9, 10, (4, 1, 7, 7))
    windows = np.stack([x[:, 2 * n : 2 * n + 8].ravel() for n in range(8)])
    step, lane, register, column = np.indices((4, 32, 2, 2), sparse=True)
    b = windows[lane // 4, 16 * step + 8 * register + lane % 4 * 2 + column].astype(np.float16)
    a = np.ascontiguousarray(arrange_convolution(k)[0, 0].astype(np.float16))
    d, out = np.empty((32, 4), np.float32), np.zeros((4, 8), [("lane", "i4"), ("value", "f4")])
    source = POOL.replace("POOL_OF_THE_PAGE", labkit.FusedNetwork.source("pool(First").source)
    module = SourceModule(**module_arguments(source, KERNELS[None].path))
    module.get_function("run")(
        driver.In(a), driver.In(b), driver.Out(d), driver.InOut(out), grid=(1, 1), block=(32, 1, 1)
    )
    y = conv_float64(x[None, None].astype(float), k.astype(float))[0]  # [4, 2, 16]
    held = np.array([[y[place] for place in locate_sums(lane)] for lane in range(32)])
    np.testing.assert_array_equal(d, held)
    maxima = y.reshape(4, 2, 8, 2).max(axis=(1, 3), initial=0)
    np.testing.assert_array_equal(out["value"], maxima)
    m, square = np.indices((4, 8))
    np.testing.assert_array_equal(out["lane"], 8 * m + square // 2 + square % 2 * 4)
    for m, square in ((0, 0), (0, 1), (1, 4), (2, 3), (3, 7)):
        lane = out["lane"][m, square]
        page = render(draw.pool, lane)
        assert f"Of map {m}, squares {square & ~1} and {square | 1}, " in page.alt
        assert re.search(rf"\b[Ll]ane {lane} keeps that of square {square} ", page.alt)
        assert f"ane {lane} stores square {square}" in page.alt or (
            f"lane {lane} square {square}." in page.alt
        )


@pytest.mark.parametrize("down", [1, 2])
@pytest.mark.parametrize("tall", [1, 7])
def test_each_k_step_of_a_window_takes_two_rows(render, down, tall):  # noqa: F811
    page, channels, rows = render(draw.stack, down, tall), 3 - down, 6 + down + down * (tall - 1)
    assert not collisions(page)
    for step in range(7 if down == 1 else 4):
        lanes = channels * rows if step < 4 else 0  # each row has a word per lane
        assert page.words.count(str(step)) == lanes + 2 * tall


def test_an_inputs_copies_and_a_shuffles_sums_are_all_there(compose):  # noqa: F811
    assert compose(draw.im2col).words.count("12") == 1 + 9
    words = compose(draw.shuffle, lanes=32).words
    assert [words.count(str(sums)) for sums in (2, 4, 8, 16, 32)] == [
        16 + 1,
        8 + 1,
        4 + 1,
        2 + 1,
        1,
    ]


# ---------------------------------------------------------------------------------------- schedules
@pytest.mark.parametrize(
    ("warps", "work", "latency"), [(1, 3, 24), (4, 3, 24), (9, 3, 24), (12, 3, 24), (2, 1, 1)]
)
def test_a_scheduler_is_as_busy_as_its_warps_allow(warps, work, latency):
    """One instruction per cycle; a warp needs work + latency cycles for its work instructions."""
    period = work + latency
    issue_slots = simulate_issue(warps, work, latency, 20 * period)
    busy = sum("issues" in cycle for cycle in zip(*issue_slots, strict=True))
    assert max(cycle.count("issues") for cycle in zip(*issue_slots, strict=True)) == 1
    assert abs(busy / (20 * period) - min(1, warps * work / period)) < 0.05
    assert issue_slots[0][: period + 1] == ["issues"] * work + ["waits"] * latency + [
        issue_slots[0][period]
    ]


@pytest.mark.parametrize(("fetch", "compute", "store"), [(3, 4, 2), (6, 4, 2), (1, 1, 5)])
def test_teams_wait_for_the_slowest(compose, fetch, compute, store):  # noqa: F811
    """In the end an image takes the time of the slowest team."""
    alt = compose(draw.teams, fetch, compute, store).alt
    ends = [int(end) for end in re.findall(r"store warps, image \d: \d+ to (\d+)", alt)]
    assert ends[0] == fetch + compute + store and ends[-1] - ends[-2] == max(fetch, compute, store)


@pytest.mark.parametrize("exponent", range(-20, 18))
def test_two_halves_keep_the_bits_that_are_drawn(exponent):
    """The largest error is half of the last bit that is kept."""
    numbers = np.random.default_rng(2).uniform(0.5, 1, 20_000).astype(np.float32)
    numbers = np.ldexp(
        numbers[numbers < 65_504 / 2**16], exponent
    )  # below the largest half at 2^16
    with np.errstate(over="ignore", invalid="ignore"):
        high = numbers.astype(np.float16)
        rest = (numbers - high).astype(np.float16)
        error = np.max(np.abs(numbers - high - rest) / numbers)
    in_high, in_low, lost = split_bits(exponent)
    assert in_high + in_low + lost == 24
    if exponent > 16:
        assert not np.isfinite(error) and lost == 24
    else:
        assert 2.0 ** -(in_high + in_low + 0.1) < error <= 2.0 ** -(in_high + in_low)


@pytest.mark.parametrize("seed", range(4))
def test_a_ring_is_as_far_ahead_as_its_barriers_let_it(compose, seed):  # noqa: F811
    """One buffer takes all times together; a producer that waits at `full` has use for two stages alone."""
    random = np.random.default_rng(seed)
    load, read = random.integers(1, 9, 8).tolist(), int(random.integers(1, 9))

    def time_ring(stages, at_full):
        alt = compose(draw.ring, load, read, {"ring": (stages, at_full)}).alt
        return int(re.findall(r"to (\d+)", alt)[-1])

    assert time_ring(1, "bar.sync") == time_ring(1, "bar.arrive") == sum(load) + 8 * read
    assert time_ring(5, "bar.sync") == time_ring(2, "bar.sync") == time_ring(2, "bar.arrive")
    whole_ring = time_ring(8, "bar.arrive")  # no load waits
    assert whole_ring == max(sum(load[: i + 1]) + (8 - i) * read for i in range(8))
    assert whole_ring <= time_ring(3, "bar.arrive") <= time_ring(2, "bar.arrive")


def test_a_gantt_chart_begins_at_zero_wherever_the_timeline_does(compose):  # noqa: F811
    late = planned()
    late[["start_ms", "end_ms"]] += 1000
    assert compose(draw.gantt, late).alt == compose(draw.gantt, planned()).alt


def test_a_convolution_has_one_color_in_both_bars_of_the_network(compose):  # noqa: F811
    """The bars are 22 pixels high. In the second one copies come before the convolutions."""
    page = compose(draw.network, LENET86, times={"copies": 1.0, "conv1": 1.0, "conv2": 1.0})
    bars = [part for part in page.fig.findobj(Rectangle) if part.get_height() == 22]
    conv1, conv2, rest = style.BLUE, style.STEEL, style.FAINT
    assert [to_hex(part.get_facecolor()) for part in bars] == [
        *(conv1, conv2, rest),
        *(rest, conv1, conv2),
    ]


def test_every_kernel_can_be_seen_however_short(render):  # noqa: F811
    page = render(draw.gantt, planned(pinned=False, kernel_ms=0.01))
    pixels = image.imread(page.file)[160:, :, :3]  # below the legend
    orange = (np.abs(pixels - to_rgb(style.ORANGE)) < 0.1).all(axis=2).any(axis=0).astype(int)
    assert (np.diff(orange) == 1).sum() == 10  # one place a chunk


def test_several_timelines_share_an_axis(compose):  # noqa: F811
    page = compose(draw.gantt, {"three streams": planned(), "one stream": planned(streams=1)})
    assert len({ax.get_xlim() for ax in page.fig.axes if ax.get_xlim()[1] > 2}) == 1


def test_a_stall_too_short_to_be_seen_is_among_the_others(compose):  # noqa: F811
    cycles = dict.fromkeys(metrics.STALLS, 0.0) | {"wait": 2, "barrier": 0.05}
    page = compose(draw.stalls, pd.DataFrame([reasons(**cycles)]))
    assert "a barrier" not in page.words and "other reasons 0.1" in page.alt  # 0.05 cycles of 3.05
    assert len({*metrics.STALLS.values()}) == len(metrics.STALLS)


# ------------------------------------------------------------------------- the ladder, the roofline
def test_ladder_says_the_times_it_was_given(compose):  # noqa: F811
    table = rungs(5)
    page = compose(draw.ladder, table, date="2026-01-01")
    for row in table.itertuples():
        assert f"{numerals.ms(row.op_ms)}  {numerals.times(row.x_reference)}" in page.words
        assert row.label in page.words
        assert f"{row.label} {numerals.ms(row.op_ms)}" in page.alt
    assert "reference 1.21 ms" in page.words
    assert not any("Not GPU times" in text for text in page.words)
    assert page.subtitle == "lenet86 layer 2   ·   batch 10,000   ·   NVIDIA H200   ·   2026-01-01"
    dots = [
        line.get_xdata()[0]
        for line in page.fig.axes[0].lines
        if line.get_marker() == "o" and line.get_markerfacecolor() == style.BLUE
    ]
    assert np.allclose(dots, table["op_ms"])


def test_ladder_shows_what_each_rung_saves_and_loses(compose):  # noqa: F811
    """A line joins the rung's time to the ring at the time of the row above.

    It is orange where time is lost, and absent where the two differ by less than 2 %. The green
    line is the reference time of the row's own precision.
    """
    table = rungs(5).assign(
        op_ms=[8.0, 2.0, 2.01, 6.0, 1.0], x_reference=[8.0, 2.0, 2.01, 6.0, 4.0]
    )
    page = compose(draw.ladder, table.assign(dtype=["float32"] * 4 + ["float16"]))
    lines = page.fig.axes[0].lines
    spans = [
        (line.get_color(), *line.get_xdata(), line.get_ydata()[0])
        for line in lines
        if len(line.get_xdata()) == 2
    ]
    assert [span for span in spans if span[0] != style.GREEN] == [
        (style.BLUE, 8, 2, 1),
        (style.ORANGE, 2.01, 6, 3),
        (style.BLUE, 6, 1, 4),
    ]
    assert [x for color, x, _, _ in spans if color == style.GREEN] == [1, 1, 1, 1, 0.25]
    rings = [line.get_xdata()[0] for line in lines if line.get_markerfacecolor() == style.PAPER]
    assert rings == [8, 2.01, 6]
    assert {"time saved (ring: row above, same precision)", "time lost"} <= set(page.words)
    assert not {"time saved (ring: row above, same precision)"} & set(
        compose(draw.ladder, rungs(1)).words
    )


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ((8, 2, 9, 3), "3 to 4 times as fast as 01 baseline"),
        ((1, 3, 2, 4), "takes 2 to 3 times as long as 01 baseline"),
        ((2, 2, 3, 3.01), "as fast as 01 baseline"),
        ((2, 2, 3, 4), "slower than 01 baseline on 1 of 2 layers"),
        ((2, 1, 3, 4), "faster than 01 baseline on 1 of 2 layers, slower on 1"),
    ],
)
def test_ladders_title_is_its_verdict(compose, times, verdict):  # noqa: F811
    page = compose(draw.ladder, rungs(2, list(FLOORS)[:2]).assign(op_ms=times, x_reference=times))
    after = times[1::2]
    assert (
        page.title
        == f"02 constant: {verdict}; {min(after):.3g} to {max(after):.3g}× the reference time"
    )
    assert page.title in page.alt


def test_ladder_leaves_the_whole_network_out(compose):  # noqa: F811
    whole = {"label": "01 baseline", "layer": "", "batch": 10000, "total_s": 4}
    assert len(compose(draw.ladder, pd.concat([rungs(2), pd.DataFrame([whole])])).fig.axes) == 1


def test_half_precision_is_marked_and_has_the_librarys_own_row(compose):  # noqa: F811
    table = rungs(2).assign(dtype=["float32", "float16"], x_reference=[5.0, 40.0])
    page = compose(draw.ladder, table, library=recorded("H200").cudnn("lenet86", "float16"))
    assert f"{numerals.ms(table['op_ms'].iloc[1])}  40.0×  FP16" in page.words
    over = recorded("H200").op_ms("cuDNN FP16", LENET86[1]) / LENET86[1].reference_ms(
        10000, "float16", "H200"
    )
    assert any(text.endswith(f"{over:.2f}×  FP16") for text in page.words)


def test_roofline_puts_points_at_their_intensity(compose):  # noqa: F811
    table = rungs(3)
    page = compose(draw.roofline, table, device="H200")
    rings = [line for line in page.fig.axes[0].lines if line.get_marker() == "o"]
    points = [(ring.get_xdata()[0], ring.get_ydata()[0]) for ring in rings]
    assert np.allclose(
        points, [(LENET86[1].intensity(np.float32, 10000), rate) for rate in table["gflop_s"]]
    )
    assert (
        page.title
        == f"03 registers reaches {style.percent(table['gflop_s'].iloc[-1] / 60000)} of its roof"
    )


# ---------------------------------------------------------------------------- errors of half's sums
@pytest.fixture(scope="module")
def errors():
    """Return the table of rounding errors of the figure's kernels."""
    variants = [6, *(labkit.variant(8, step=step) for step in ("storage", "half_sum", "half2")), 8]
    return rounding_errors(
        variants, [Layer(f"{4 * C} products", C, 4, 5, 3, 2) for C in (2, 40, 300)]
    )


def test_errors_are_within_the_bound_and_half_sums_are_the_worst(errors):
    assert (errors["typical"] <= errors["largest"]).all()
    assert (errors["largest"] <= errors["bound"]).all()
    assert (errors["largest"] > 0).all()
    at = errors.set_index(["label", "terms"])["largest"].unstack()
    assert (at.loc["08 fp16, half_sum"] == at.loc["08 fp16, half2"]).all(), (
        "the same products, in the same order"
    )
    assert at.loc["08 fp16, half2", 1200] > 5 * at.loc["08 fp16", 1200] > 0
    assert at.loc["08 fp16, storage", 1200] > 20 * at.loc["06 fusion", 1200]
    assert at.loc["08 fp16, half2", 1200] > 2 * at.loc["08 fp16, half2", 8]


def test_an_error_that_is_there_is_found():
    """A kernel whose sums are a tenth too large is off by a tenth of a sum of positive products."""
    source = labkit.variant(6).source.replace("] = sum;", "] = 1.1f * sum;")
    table = rounding_errors(labkit.variant(6, source=source), Layer("one", 1, 1, 1, 1, 1), batch=1)
    assert table["largest"].iloc[0] == pytest.approx(0.1, rel=1e-3)
    assert table["largest"].iloc[0] > 100 * table["bound"].iloc[0]


def test_errors_of_a_layer_that_a_variant_does_not_take():
    with pytest.raises(LabError, match="limit"):
        rounding_errors(9, Layer("deep", 60, 9, 9, 4, 7))


def test_rounding_draws_each_variant_and_its_bound(render, errors):  # noqa: F811
    page = render(draw.rounding, errors)
    assert not collisions(page)
    assert page.title.startswith("From 8 to 1,200 products: 08 fp16, half")
    assert len(page.fig.axes[0].get_lines()) == 2 * 5
    for label in errors["label"].unique():
        assert label in page.words and f"{label}: " in page.alt
    assert not any(character.isdigit() for character in page.plain)
    for table in (errors.drop(columns="bound"), errors[errors["terms"] == 8]):
        with pytest.raises(LabError, match=r"draw\.rounding"):
            draw.rounding(table)


def test_the_names_of_lines_that_end_at_the_bottom_stay_above_the_axis(render, errors):  # noqa: F811
    close = errors.assign(
        largest=errors["bound"].min() * (1 + errors["label"].factorize()[0] / 100)
    )
    page = render(draw.rounding, close)
    (axis,) = (text for text in page.fig.axes[0].get_xticklabels() if text.get_text() == "1,200")
    renderer = page.fig.canvas.get_renderer()
    names = [
        text.get_window_extent(renderer)
        for text in page.fig.texts
        if text.get_text() in {*close["label"]}
    ]
    assert len(names) == 5 and min(name.y0 for name in names) > axis.get_window_extent(renderer).y1
    assert not collisions(page)


def test_running_sums_stop_where_half_does():
    """The page's statements about half come from NumPy's arithmetic; test_kernels.py has kernels whose sums stop."""
    assert sum_ones(2048, 0)[-1] == sum_ones(3000, 0)[-1] == 2048
    assert sum_ones(3000, 16).tolist() == list(range(1, 3001))
    assert sum_ones(5000, 4096)[4095] == 2048, "a part may be too long, too"


# ---------------------------------------------------------------------------------------- heat maps
def swept(
    layers=("one", "two"), rows=(1, 2, 10), maps=(1, 4), blocks=("8x1", "160x1"), engine="gpu"
):
    """Return a made-up sweep; a layer's fastest point is the last one, that of the second layer the first."""
    table = pd.DataFrame(
        itertools.product(layers, rows, maps, blocks), columns=["layer", "rows", "maps", "block"]
    )
    size = len(table) // len(layers)
    table["op_ms"] = [
        1 + (size - i % size) / 10 if i < size else 1 + (i % size) / 5 for i in range(len(table))
    ]
    table["registers"] = table["rows"] * table["maps"] + 20
    return table.assign(device="NVIDIA H200", engine=engine, batch=1000, reason="")


@pytest.fixture
def heat(render):  # noqa: F811
    return functools.partial(render, draw.heatmap, x="rows", y="maps")


def count_framed(page):
    """Return how many boxes have an orange frame."""
    return sum(
        box.get_edgecolor()[:3] == pytest.approx(to_rgb(style.ORANGE), abs=0.01)
        for box in boxes(page)
    )


def test_a_cell_is_the_fastest_of_its_points(heat):
    page = heat(swept(("one",)))
    assert {
        f"{value:.2f}" for value in swept(("one",)).groupby(["rows", "maps"])["op_ms"].min()
    } <= {*page.words}
    assert "the fastest of all other options" in page.subtitle
    assert len(boxes(page)) == 6 + 1  # and the frame
    assert count_framed(page) == 1
    assert "20.0" in heat(swept(("one",)).assign(op_ms=19.96)).words  # three digits


def test_each_layer_has_a_panel_and_a_best_cell(heat):
    page = heat(swept())
    assert {"one", "two"} <= set(page.words)
    assert count_framed(page) == 2
    assert (
        "one, fastest at maps 4, rows 10." in page.alt
        and "two, fastest at maps 1, rows 1." in page.alt
    )
    assert page.title.endswith("each layer has a best choice of its own")
    same = pd.concat([swept(("one",)), swept(("one",)).assign(layer="two")])
    assert heat(same).title.endswith("the same choice is best on every layer")
    two_of_three = pd.concat([swept(), swept(("one",)).assign(layer="three")])
    assert heat(two_of_three).title.endswith("no choice is best on every layer")


def test_blocks_are_in_the_order_of_their_numbers(heat):
    page = heat(swept(blocks=("160x1", "8x1", "64x2")), x="block")
    assert [text for text in page.words if re.fullmatch(r"\d+x\d", text)][:3] == [
        "8x1",
        "64x2",
        "160x1",
    ]


def test_what_cannot_run_is_hatched_and_what_was_not_tried_is_empty(heat):
    table = swept(("one",))
    table.loc[(table["rows"] == 10) & (table["maps"] == 4), ["op_ms", "reason"]] = [
        float("nan"),
        "registers",
    ]
    page = heat(table[(table["rows"] != 2) | (table["maps"] != 4)])
    assert sum(bool(box.get_hatch()) for box in boxes(page)) == 1
    assert len(boxes(page)) == 4 + 1 + 1  # timed, hatched, the frame
    assert any("Hatched" in text for text in page.words)
    assert not any("Hatched" in text for text in heat(swept()).words)


def test_other_values_are_those_of_the_fastest_point(heat):
    page = heat(swept(("one",)), value="registers")
    assert {"21", "22", "24", "28", "30", "60"} <= set(page.words)
    assert page.subtitle.startswith("registers per thread")


def test_a_large_heat_map_is_tidy_and_dark_cells_have_light_text(heat):
    page = heat(noted(swept(rows=range(1, 13), engine="cpu")))
    assert not collisions(page) and NOTE in page.words
    assert style.PAPER in {text.get_color() for text in page.fig.texts}
    assert not any(letter.isdigit() for letter in page.plain)


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
        draw.heatmap(table, "rows", "maps")
