"""Pipelines: equal results for every way to cut and issue a batch, honest timelines, refusals that name the limit."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import labkit as lab
from hostcuda import driver
from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.ladder.plan import LayerKernel
from labkit.measure import pipeline as pipeline_module
from labkit.measure import streams as streams_module
from labkit.measure.check import CheckFailed
from labkit.measure.pipeline import (
    ORDERS,
    STEPS,
    Pipeline,
    busy_ms,
    chunk_sizes,
    host_arrays,
    issue_order,
    one_at_a_time,
    overlap,
    schedule,
    span_ms,
)
from labkit.measure.streams import bench_streams
from labkit.spec import devices
from labkit.spec.devices import device
from recording import keep

pytestmark = pytest.mark.core("what pages 12 and 13 run on")

ODD = lab.Layer("odd", C=2, H=13, W=11, M=3, K=5)
FIRST = lab.LENET86[0]


def integers(layer, batch, dtype=np.float32, seed=0):
    """Draw inputs whose products and sums are exact in half, too."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, layer.x_shape(batch)).astype(dtype)
    return x, rng.integers(-2, 3, layer.k_shape).astype(dtype)


def steps(*rows):
    """Return a timeline made by hand: (stream, what, chunk, start, end)."""
    table = pd.DataFrame(rows, columns=["stream", "what", "chunk", "start_ms", "end_ms"])
    return table.assign(ready_ms=table["start_ms"])


# ------------------------------------------------------------------------------------------ results
@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize(
    ("batch", "chunk", "streams"),
    [(1, 1000, 3), (7, 3, 2), (7, 1, 8), (6, (1, 2, 3), 2), (5, 5, 3), (8, 3, 1)],
)
def test_every_cut_gives_the_same_result(number, batch, chunk, streams):
    variant = lab.variant(number)
    x, k = integers(ODD, batch, variant.io_dtype)
    expected = lab.conv_float64(x, k)
    for pinned in (True, False):
        for order in ORDERS:
            with Pipeline(variant, ODD, batch, chunk, streams, pinned, order) as pipeline:
                pipeline.y.fill(np.nan)
                y = pipeline.run(x, k)
                assert y.dtype == variant.io_dtype
                assert np.array_equal(y, expected), (pinned, order)


def test_pipelines_that_share_a_constant_mask_do_not_disturb_each_other():
    variant = lab.variant(2)
    x, k = integers(ODD, 6)
    with Pipeline(variant, ODD, 6, 1, 3) as one, Pipeline(variant, ODD, 6, 2, 3) as other:
        one.run(x, k)
        other.run(x, 2 * k)
        assert np.array_equal(one.run(), lab.conv_float64(x, k))
        # new images and the old mask
        assert np.array_equal(other.run(x + 1), lab.conv_float64(x + 1, 2 * k))
        assert np.array_equal(other.run(k=k + 1), lab.conv_float64(x + 1, k + 1))
        with variant.plan(ODD, 6) as plan:
            plan.load(x, 3 * k)
            plan.run()
            assert np.array_equal(one.run(), lab.conv_float64(x, k))
            plan.run()
            assert np.array_equal(plan.result(), lab.conv_float64(x, 3 * k))


def test_host_arrays_of_the_caller_are_used_in_place():
    x, k = integers(ODD, 4)
    host = host_arrays(ODD, 4)
    host[0][...] = x
    with Pipeline(lab.variant(1), ODD, 4, 2, host=host) as pipeline:
        assert pipeline.run(k=k) is host[1]
    assert np.array_equal(host[1], lab.conv_float64(x, k))


def test_the_device_holds_a_chunk_a_stream_not_the_batch():
    an_image = 4 * (2 * 13 * 11 + 3 * 9 * 7)
    with Pipeline(lab.variant(1), ODD, 100, chunk=7, streams=2) as pipeline:
        assert pipeline.device_bytes == 2 * 7 * an_image
        assert pipeline.chunks == (7,) * 14 + (2,)
    with Pipeline(lab.variant(1), ODD, 3, chunk=7, streams=8) as pipeline:
        assert (pipeline.streams, pipeline.chunks) == (1, (3,))


def test_closing_frees_the_device_memory(buffers):
    pipeline = Pipeline(lab.variant(5), FIRST, 60, chunk=20, streams=3)
    pipeline.close()
    pipeline.close()
    assert buffers.all_freed()
    with pytest.raises(LabError, match="closed"):
        pipeline.run(k=np.ones(FIRST.k_shape))


# ----------------------------------------------------------------------------------------- refusals
MANY = lab.Layer("many maps", 16, 20, 20, 24, 7)
REFUSALS = [
    *(
        ({"chunk": chunk}, f"chunk of {size}")
        for chunk, size in (
            (0, "0 images"),
            (-3, -3),
            (2.5, 2.5),
            (True, True),
            ((), 0),
            ((3, 0), 0),
        )
    ),
    *(
        ({"streams": streams}, f"streams={streams}: an integer from 1 to 32")
        for streams in (0, 33, True)
    ),
    ({"batch": 0}, "batch of 0"),
    ({"chunk": (3, 3)}, "2 chunks have 6 images in total; the batch has 4"),
    ({"order": "random"}, "depth or breadth"),
    ({"host": (np.zeros((4, 2, 13, 11)), np.zeros((4, 3, 9, 7)))}, "host's x is float64"),
    ({"variant": 2, "layer": MANY}, "constant memory, 65,536 bytes.*has 75,264"),
]


@pytest.mark.parametrize(("options", "message"), REFUSALS)
def test_what_is_none_is_refused(options, message):
    with pytest.raises(LabError, match=message):
        Pipeline(**{"variant": 1, "layer": ODD, "batch": 4, **options})


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda pipeline: pipeline.run(), "no mask yet"),
        (
            lambda pipeline: pipeline.run(np.zeros(ODD.x_shape(3)), np.zeros(ODD.k_shape)),
            "x has the shape",
        ),
        (lambda pipeline: pipeline.run(k=np.zeros((1, 1))), "k has the shape"),
        (lambda pipeline: pipeline.timeline, "no events"),
    ],
)
def test_a_use_without_its_inputs_is_refused(use, message):
    with Pipeline(lab.variant(1), ODD, 4) as pipeline, pytest.raises(LabError, match=message):
        use(pipeline)


def test_a_device_that_is_too_small_is_named(monkeypatch):
    plan, freed = LayerKernel.plan, []

    def few(self, images, *buffers, k=None):
        """Make the first plan; once it is made, memory is full."""
        if freed:
            raise driver.MemoryError("cuMemAlloc failed: out of memory")
        new_plan = plan(self, images, *buffers, k=k)
        close = new_plan.close
        new_plan.close = lambda: (freed.append("closed"), close())
        freed.append("made")
        return new_plan

    monkeypatch.setattr(LayerKernel, "plan", few)
    with pytest.raises(
        LabError, match=r"3 streams of 2 images need .* take a smaller chunk or fewer streams"
    ):
        Pipeline(lab.variant(1), ODD, 6, 2, 3)
    assert freed == ["made", "closed"]


# --------------------------------------------------------------------------------- chunks and order
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("chunks", "streams"), [(1, 1), (7, 3), (6, 3), (5, 8)])
def test_an_order_has_every_step_once_and_no_step_before_its_own(order, chunks, streams):
    issued = issue_order(chunks, streams, order)
    assert sorted(issued) == sorted((i, step) for i in range(chunks) for step in STEPS)
    for i in range(chunks):
        assert [step for chunk, step in issued if chunk == i] == list(STEPS)
        if i >= streams:  # a stream's next chunk comes after the one before
            assert issued.index((i, "copy in")) > issued.index((i - streams, "copy out"))


def test_breadth_first_issues_a_copy_on_each_stream_first():
    assert (
        chunk_sizes(10, 4) == (4, 4, 2)
        and chunk_sizes(10, 99) == (10,)
        and chunk_sizes(10, [1, 9]) == (1, 9)
    )
    assert issue_order(5, 3, "breadth")[:4] == [
        (0, "copy in"),
        (1, "copy in"),
        (2, "copy in"),
        (0, "kernel"),
    ]
    assert issue_order(5, 3, "depth")[:4] == [
        (0, "copy in"),
        (0, "kernel"),
        (0, "copy out"),
        (1, "copy in"),
    ]


# ---------------------------------------------------------------------------------------- timelines
def test_the_timeline_has_every_step_in_the_order_of_its_stream():
    x, k = integers(FIRST, 9)
    with Pipeline(lab.variant(3), FIRST, 9, 2, 3) as pipeline:
        pipeline.run(x, k)
        timeline = pipeline.timeline
    assert len(timeline) == 3 * 5
    assert (timeline["stream"] == timeline["chunk"] % 3).all()
    assert timeline.groupby("what")["images"].sum().eq(9).all()
    assert (timeline["end_ms"] >= timeline["start_ms"]).all()
    assert (timeline["start_ms"] >= 0).all()
    for _, mine in timeline.groupby("stream"):
        assert (mine["start_ms"].to_numpy()[1:] >= mine["end_ms"].to_numpy()[:-1]).all()
    assert timeline.attrs["note"] == lab.device().note


def test_overlap_counts_the_engines_at_work():
    serial = steps((0, "copy in", 0, 0, 1), (0, "kernel", 0, 1, 3), (0, "copy out", 0, 5, 6))
    assert overlap(serial) == 1
    assert span_ms(serial) == 6
    both = steps((0, "copy in", 0, 0, 2), (1, "kernel", 1, 0, 2), (2, "copy out", 2, 0, 2))
    assert overlap(both) == 3
    twice = steps((0, "copy in", 0, 0, 4), (1, "copy in", 1, 1, 2), (2, "kernel", 2, 3, 5))
    assert busy_ms(twice).tolist() == [4, 2, 0]
    assert overlap(twice) == pytest.approx(6 / 5)


def test_on_a_gpu_a_step_begins_when_the_one_before_of_its_kind_has_ended():
    table = steps(
        (0, "copy in", 0, 0, 2),
        (1, "copy in", 1, 0, 4),
        (0, "kernel", 0, 2, 3),
        (1, "kernel", 1, 4, 9),
        (2, "copy in", 2, 0, 6),
        (0, "copy out", 0, 3, 5),
    )
    one_at_a_time(table)
    assert table["start_ms"].tolist() == [0, 2, 2, 4, 4, 3]


# ----------------------------------------------------------------------------------------- schedule
def test_one_stream_adds_everything_up_several_hide_all_but_the_first_chunk_behind_the_busiest():
    into, back = FIRST.link_ms(10_000, device="H200")
    for chunk in (100, 2000):
        serial, hidden = (
            schedule(FIRST, 10_000, 3.7, chunk, streams, on="H200") for streams in (1, 3)
        )
        assert span_ms(serial) == pytest.approx(into + 3.7 + back) and overlap(
            serial
        ) == pytest.approx(1)
        assert span_ms(hidden) == pytest.approx(back + (into + 3.7) * chunk / 10_000)
        assert busy_ms(hidden).tolist() == pytest.approx([into, 3.7, back])


def test_ordinary_memory_keeps_the_host_waiting():
    into, back = FIRST.link_ms(10_000, device="H200", pinned=False)
    deep = schedule(FIRST, 10_000, 3.7, 1000, 3, pinned=False, on="H200")
    assert span_ms(deep) == pytest.approx(into + 3.7 + back)
    broad = schedule(FIRST, 10_000, 3.7, 1000, 3, pinned=False, order="breadth", on="H200")
    assert into + back < span_ms(broad) < span_ms(deep)  # kernels run while another chunk is copied


@pytest.mark.parametrize("streams", [1, 2, 3, 8])
def test_a_schedule_is_possible(streams):
    for order in ORDERS:
        table = schedule(
            lab.LENET72[1], 1000, 3.3, (100, 200, 700), streams, order=order, on="H200"
        )
        for _, mine in [*table.groupby("what"), *table.groupby("stream")]:
            mine = mine.sort_values("start_ms")
            assert (mine["start_ms"].to_numpy()[1:] >= mine["end_ms"].to_numpy()[:-1] - 1e-9).all()
        assert span_ms(table) >= lab.LENET72[1].link_reference_ms(1000, device="H200")


# ----------------------------------------------------------------------------------- reference time
def test_the_links_reference_time_is_that_of_its_busier_direction():
    assert FIRST.link_reference_ms(10_000, device="H200") == pytest.approx(1.024e9 / 55.4e9 * 1e3)
    assert FIRST.link_reference_ms(10_000, np.float16, "H200") == pytest.approx(
        0.512e9 / 55.4e9 * 1e3
    )
    into, back = FIRST.link_ms(10_000, device="H200", pinned=False)
    assert into == pytest.approx((10_000 * 86 * 86 + 4 * 49) * 4 / 8.9e9 * 1e3)
    assert back == pytest.approx(1.024e9 / 19.1e9 * 1e3)
    other = dataclasses.replace(lab.device("H200"), name="another GPU", measured=None)
    with pytest.raises(LabError, match=r"between another GPU and.*to_device_pinned_gb_s.*H200"):
        FIRST.link_reference_ms(10, device=other)


def test_a_layer_time_that_the_link_does_not_permit_is_refused():
    h200, variant = device("H200"), lab.variant(3)
    streams_module.refuse_impossible(variant, FIRST, 10_000, 18.5, h200)
    for impossible in (16.2, float("nan")):
        with pytest.raises(LabError, match=r"takes at least 16.25 ms"):
            streams_module.refuse_impossible(variant, FIRST, 10_000, impossible, h200)


# -------------------------------------------------------------------------------------- measurement
@pytest.fixture(scope="module")
def verified():
    """Return a variant that has passed `check`."""
    variant = lab.variant(3)
    lab.check(variant, [(ODD, 2)])
    return variant


def test_bench_has_a_row_a_combination(verified):
    table = bench_streams(verified, ODD, 12, [3, (2, 4, 6)], [1, 2], [True, False], repeat=1)
    assert len(table) == 8
    assert set(zip(table["sizes"], table["streams"], table["pinned"], strict=True)) == {
        (sizes, streams, pinned)
        for sizes in ("equal", "growing")
        for streams in (1, 2)
        for pinned in (True, False)
    }
    assert (table[["layer_ms", "steady_ms", "in_ms", "kernel_ms", "out_ms"]] > 0).all(axis=None)
    for column in ("pin_ms", "register_ms"):
        assert (table[column] > 0).equals(table["pinned"])
    assert table.loc[table["sizes"] == "equal", "chunks"].eq(4).all()
    assert table.attrs["note"] == lab.device().note


def test_bench_refuses_what_is_not_verified_and_no_run(verified):
    for kernel, message in (
        (lab.variant(1, block=(8, 4)), "not verified"),
        (verified, "repeat = 0"),
    ):
        with pytest.raises(LabError, match=message):
            bench_streams(kernel, ODD, 4, repeat=0)


def run_swapped(pipeline, *arguments, run=Pipeline.run, **options):
    """Run a pipeline, then turn the order of its images round."""
    run(pipeline, *arguments, **options)
    pipeline.y[...] = pipeline.y[::-1].copy()


@pytest.mark.parametrize(
    ("place", "name", "wrong"),
    [
        (
            pipeline_module,
            "issue_order",
            lambda *cut: [pair for pair in issue_order(*cut) if pair[0] != 2],
        ),
        (Pipeline, "run", run_swapped),
    ],
    ids=["a chunk that does not come back", "a chunk in the wrong place"],
)
def test_bench_sees_a_wrong_result(verified, monkeypatch, place, name, wrong):
    monkeypatch.setattr(place, name, wrong)
    with pytest.raises(CheckFailed, match="wrong before timing"):
        bench_streams(verified, ODD, 40, 5, 2, repeat=1)


# ----------------------------------------------------------------------------------------- recorded
def test_a_configuration_that_was_not_recorded_is_named():
    """Those that were recorded are on the pages."""
    recorded = lab.recorded("H200")
    assert (
        recorded.streams(7, FIRST)["steady_ms"] > FIRST.link_reference_ms(10_000, device="H200")
    ).all()
    with pytest.raises(
        LabError, match=r"no times on streams for rung 7, .*streams 77.*It has .*streams: 1, "
    ):
        recorded.streams(7, streams=77)


def test_recorded_measurements_replace_those_of_the_same_configuration(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "device", lambda: SimpleNamespace(name="NVIDIA H200", software=""))
    (tmp_path / "results").symlink_to(data_dir() / "results")
    recorded = lab.recorded("H200")
    times, lines = recorded.streams(7), recorded.timelines(7, FIRST, pinned=True, streams=2)
    for steady in (1.0, 2.0):
        path = keep.record_streams(times.assign(steady_ms=steady), lines, tmp_path)
    assert path.read_text().splitlines()[1].startswith("tuning,tuning,lenet")
    again = lab.recorded("H200", tmp_path)
    assert again.streams()["steady_ms"].tolist() == [2.0] * 4
    assert again.timelines()["label"].tolist() == lines["label"].tolist()


# ------------------------------------------------------------------------------------------ network
@pytest.mark.parametrize("number", [2, 8])
def test_the_network_in_pipelines_says_the_same(number):
    digits = lab.dataset("digits", split="test", size=86)
    images, variant = digits.images[:5], lab.variant(number)
    plain = lab.Network(conv=variant)
    network = lab.Network(conv=variant, streams={"chunk": 2, "streams": 2})
    expected = plain.forward(images, course=True)
    assert np.array_equal(network.forward(images, course=True), expected)
    assert all(
        op < layer for op, layer in zip(network.times.op_ms, network.times.layer_ms, strict=True)
    )
    # without copies in between there is nothing to overlap
    assert np.array_equal(network.forward(images), expected)


def test_the_courses_table_of_rung_12_is_recorded_as_such(tmp_path):
    digits = lab.dataset("digits", split="test", size=86)
    network = lab.Network(conv=lab.variant(3), streams={"chunk": 1, "streams": 2})
    table = network.course_table(digits.images, digits.labels, (3,))
    keep.record_course(table, network, tmp_path, rung=12, label="12 streams", options="03; chunk=1")
    recorded = lab.recorded(lab.device().name, tmp_path)
    assert recorded.course(12)["accuracy"].tolist() == table["accuracy"].tolist()
    assert recorded.select("streams", "")["options"].tolist() == ["03; chunk=1"]
