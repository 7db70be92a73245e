"""The results store: rows are read as they were written, and a message says what is missing."""

from types import SimpleNamespace

import pandas as pd
import pytest
from fakes import FakeVariant

from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.ladder.rungs import rung
from labkit.ladder.variants import solutions, variant
from labkit.measure.bench import bench
from labkit.measure.check import check
from labkit.page import overview
from labkit.records import results, store
from labkit.records.published import published, published_training
from labkit.records.recorded import recorded
from labkit.records.results import COLUMNS
from labkit.spec import devices
from labkit.spec.devices import device
from labkit.spec.layers import LENET72, LENET86
from recording import keep
from recording.keep import merge_rows, record_times

pytestmark = pytest.mark.core("what every recorded value is read through")


def row(rung=1, label=None, layer=LENET86[0].name, batch=1000, op_ms=1.0, **more):
    """Return a row as `bench` would write it; `more` replaces or adds columns."""
    label = label or store.label(rung)
    facts = {
        "rung": rung,
        "label": label,
        "layer": layer,
        "batch": batch,
        "dtype": "float32",
        "op_ms": op_ms,
    }
    return facts | {"engine": "gpu", "device": "NVIDIA H200", "options": "block=16x16"} | more


def table(*rows):
    return pd.DataFrame(list(rows))


@pytest.fixture
def store_dir(tmp_path):
    """Return a folder with recorded times of two rungs and a network."""
    record_times(
        table(
            row(1, op_ms=4.0),
            row(1, batch=10000, op_ms=40.0),
            row(2, op_ms=2.0, layer_ms=9.5),
            row(2, "02 constant, block=32x8", op_ms=1.5),
            row(2, layer=LENET86[1].name, op_ms=8.0),
            row(
                1,
                "01 baseline",
                layer="",
                network="lenet86",
                total_s=3.5,
                accuracy=0.886,
                op1_ms=1.25,
                distinct=360,
            ),
        ),
        tmp_path,
        date="2026-11-21",
    )
    return tmp_path


def test_what_goes_in_comes_out(store_dir):
    saved = recorded("H200", store_dir)
    assert saved.path == store_dir / "results" / "nvidia-h200.csv"
    assert saved.device == "NVIDIA H200"
    assert saved.date == "2026-11-21"
    assert list(saved.table.columns) == list(COLUMNS)
    assert len(saved.table) == 6
    assert saved.value("op_ms", 1, LENET86[0], batch=1000) == 4.0
    assert saved.value("layer_ms", 2, "lenet86 layer 1") == 9.5
    assert saved.value("accuracy", 1, "") == 0.886
    assert set(saved.table["network"]) == {"lenet86"}


def test_a_rung_is_its_default_options_at_the_largest_batch_unless_a_label_or_a_batch_is_given(
    store_dir,
):
    saved = recorded("H200", store_dir)
    assert saved.value("op_ms", 2, LENET86[0]) == 2.0
    assert saved.value("op_ms", "02 constant, block=32x8", LENET86[0]) == 1.5
    assert saved.ratio("op_ms", 2, 1, layer=LENET86[0], batch=1000) == 0.5
    assert saved.ratio("op_ms", 1, 2, LENET86[0]) == 2.0  # 1000 is the largest batch that both have
    assert saved.value("op_ms", 1, LENET86[0]) == 40.0  # 10000 is the largest there is


def test_a_ratio_is_not_made_of_times_for_different_batches(tmp_path):
    rows = table(row(1, variant(1).label, batch=1000), row(2, variant(2).label, batch=100))
    record_times(rows, tmp_path)
    with pytest.raises(LabError, match="no batch with which both kernels"):
        recorded("H200", tmp_path).ratio("op_ms", 1, 2, LENET86[0])


def test_a_kernel_that_has_changed_since_it_was_measured_is_named(tmp_path):
    baseline, tiled = variant(1), variant(4, step="weights")
    record_times(
        table(row(1, baseline.label, code=baseline.code), row(4, tiled.label, code="0ld0ld00")),
        tmp_path,
    )
    saved = recorded("H200", tmp_path)
    assert overview.list_outdated(saved) == ["04 tiling, weights"]
    assert "Kernels have changed since they were measured: 04 tiling." in overview.list_notes(saved)
    commented = variant(1, source=baseline.source.replace("\n", "    // a remark\n"))
    assert commented.code == baseline.code != variant(2).code


def test_a_solution_never_stands_for_its_rung(tmp_path):
    """Nor does a reader's kernel: the pages find the same rows with every solution on record."""
    (tmp_path / "cudnn").symlink_to(data_dir() / "cudnn")
    record_times(recorded("H200").table, tmp_path)
    before = recorded("H200", tmp_path)
    own = variant(1, source=rung(2).source)
    rows = [
        row(
            kernel.rung.number,
            kernel.label,
            layer.name,
            10_000,
            op_ms=0.001,
            dtype=kernel.io_dtype.name,
            options=kernel.options_text,
        )
        for kernel in (*solutions(), own)
        for layer in (*LENET86, *LENET72)
    ]
    record_times(table(*rows, row(1, own.label, batch=7)), tmp_path)
    after = recorded("H200", tmp_path)
    for asked in (
        overview.list_rows,
        overview.format_layer_times,
        lambda saved: pd.concat([saved.ladder(10, network) for network in overview.NETWORKS]),
        lambda saved: pd.concat([saved.select(number, LENET86[1]) for number in range(1, 11)]),
        lambda saved: saved.select(network="lenet72", batch=10_000),
    ):
        then, now = (asked(saved).reset_index(drop=True) for saved in (before, after))
        pd.testing.assert_frame_equal(now, then)
    with pytest.raises(LabError, match=r"no times for rung 1, .*batch 7"):
        after.value("op_ms", 1, LENET86[0], batch=7)
    for kernel in (*solutions(), own):
        assert after.op_ms(kernel, LENET86[1]) == after.op_ms(kernel.label, LENET86[1]) == 0.001


def test_a_later_measurement_replaces_the_same_and_nothing_else(store_dir):
    record_times(table(row(2, op_ms=1.0), row(3, op_ms=0.5)), store_dir, date="2026-12-01")
    saved = recorded("H200", store_dir)
    assert len(saved.table) == 7
    assert saved.value("op_ms", 2, LENET86[0]) == 1.0
    assert saved.value("op_ms", 1, LENET86[0], 1000) == 4.0
    assert saved.date == "2026-12-01"
    assert sorted(saved.table["date"].unique()) == ["2026-11-21", "2026-12-01"]


def test_the_file_does_not_depend_on_the_order_of_recording_nor_on_how_often(store_dir, tmp_path):
    path, again = (
        folder / "results" / "nvidia-h200.csv" for folder in (store_dir, tmp_path / "again")
    )
    before, rows = path.read_bytes(), recorded("H200", store_dir).table
    record_times(rows, store_dir, date="2026-11-21")
    for number in reversed(range(len(rows))):
        record_times(rows[number : number + 1], tmp_path / "again", date="2026-11-21")
    assert path.read_bytes() == again.read_bytes() == before
    # nothing half-written beside it
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_what_is_not_there_is_said_with_what_is(store_dir):
    saved = recorded("H200", store_dir)
    for column, kernel, layer, message in (
        (
            "op_ms",
            7,
            LENET86[0],
            r"no times for rung 7, layer lenet86 layer 1.*rung: 01 baseline, 02 constant",
        ),
        ("oops", 1, LENET86[0], "no column 'oops'"),
        ("accuracy", 1, LENET86[0], "no accuracy for rung 1"),
        ("op_ms", 2, None, r"2 rows for rung 2.*layer 1.*layer 2.*Say which"),
    ):
        with pytest.raises(LabError, match=message):
            saved.value(column, kernel, layer)
    with pytest.raises(LabError, match=r"no recorded device.*'A40'.*nvidia-h200"):
        recorded("A40", store_dir)
    with pytest.raises(LabError, match="results of no device"):
        recorded("H200", store_dir / "nowhere")


def test_ambiguous_device_names(store_dir):
    record_times(table(row(device="NVIDIA H200 NVL")), store_dir)
    assert recorded("NVIDIA H200", store_dir).device == "NVIDIA H200"
    assert recorded("nvl", store_dir).device == "NVIDIA H200 NVL"
    with pytest.raises(LabError, match="2 recorded devices"):
        recorded("H20", store_dir)


def test_what_cannot_be_recorded(tmp_path):
    for rows, message in (
        (table(), "empty"),
        (table(row()).drop(columns="label"), "without label"),
        (table(row(), row(device="NVIDIA A40")), "one device's results"),
    ):
        with pytest.raises(LabError, match=message):
            record_times(rows, tmp_path)
    assert not list(tmp_path.iterdir())
    path = tmp_path / "results" / "nvidia-h200.csv"  # a damaged file is not overwritten
    path.parent.mkdir()
    path.write_text("this,is\nno,table\n")
    with pytest.raises(LabError, match="not a table of results"):
        record_times(table(row()), tmp_path)
    assert path.read_text() == "this,is\nno,table\n"


def test_a_bench_table_can_be_recorded(tmp_path):
    variant = FakeVariant(label="01 baseline")
    variant.rung = rung(1)
    check(variant, [LENET86[1]])
    path = record_times(bench(variant, LENET86[1], 2, 1), tmp_path)
    saved = recorded(device().name, tmp_path)
    assert saved.path == path
    assert saved.table["network"][0] == "lenet86"
    assert saved.table["software"][0] == device().software
    assert saved.op_ms(1, LENET86[1]) > 0


def test_the_courses_table_can_be_recorded(tmp_path):
    conv = FakeVariant(label="01 baseline")
    conv.rung = rung(1)
    network = SimpleNamespace(conv=(conv, conv), layers=tuple(LENET86))
    columns = ["batch", *(f"{kind} time {i} ms" for kind in ("op", "layer") for i in (1, 2))]
    columns += ["total s", "accuracy", "distinct images"]
    measured = pd.DataFrame(
        [[100, 1.5, 2.5, 3.0, 4.0, 0.5, 0.875, 100], [10, 0.5, 1.0, 1.5, 2.0, 0.25, 1.0, 10]]
    )
    measured.columns = columns
    keep.record_course(measured, network, tmp_path)
    saved = recorded(device().name, tmp_path)
    pd.testing.assert_frame_equal(
        saved.course(1), measured[::-1].reset_index(drop=True), check_dtype=False
    )
    assert saved.value("total_s", "01 baseline", "", batch=10) == 0.25
    with pytest.raises(LabError, match="no times for rung 3, layer , network lenet86"):
        saved.course(3)
    assert (
        recorded("H200").course(["tuning", 12])["label"].tolist() == ["07 tuning", "12 streams"] * 3
    )


def test_the_recorded_files_in_the_repository_can_be_read():
    for path in (data_dir() / "results").glob("*.csv"):
        saved = recorded(path.stem)
        assert saved.path == path
        assert not saved.table.duplicated(results.KEY).any()


def test_published_figures():
    """The pages show them by network, step and report; any case will do."""
    assert len(published()) == 71
    with pytest.raises(
        LabError,
        match=r"nothing was published for network lenet86, step teleport\. It has .*: base",
    ):
        published("lenet86", "teleport")
    assert list(published(report="002", step="cpu LOOPS")["op2_ms"]) == [151186.232]
    assert published_training()["test_accuracy_pct"].max() == 96.86


# -------------------------------------------------------------------------------- keyed by the name
def test_a_file_names_rungs_and_a_table_has_their_numbers(store_dir):
    text = (store_dir / "results" / "nvidia-h200.csv").read_text()
    assert (
        ",constant,constant," in text
        and ',constant,"constant, block=32x8",' in text
        and "02 constant" not in text
    )
    assert set(recorded("H200", store_dir).table["label"]) == {
        "01 baseline",
        "02 constant",
        "02 constant, block=32x8",
    }


@pytest.mark.parametrize(
    "label",
    [
        "07 tuning, rows=4",
        "07 tuning, constant",
        "10 speed of light, persistent",
        "03 registers + 06 fusion",
        "12 streams",
        "05 unroll gemm, a_scatter.cu",
        "01 baseline, own source",
        "00 network",
        "textbook",
    ],
)
def test_labels_come_back_with_their_numbers(label):
    named = store.remove_rung_numbers(table({"label": label, "options": "rows=4"}))
    assert not any(character.isdigit() for character in named["label"][0].replace("=4", ""))
    assert store.add_rung_numbers(named, "a file")["label"][0] == label
    assert store.remove_rung_numbers(named)["label"][0] == named["label"][0]


def test_a_number_that_changes_changes_no_file(store_dir, monkeypatch):
    """If rung 02 becomes 05, its recorded times are found by the new number; the file stays the same."""
    numbers = {**store.NUMBERS, "constant": 5, "unroll_gemm": 2}
    monkeypatch.setattr(store, "NUMBERS", numbers)
    monkeypatch.setattr(
        store, "_WORDS", {name.replace("_", " "): number for name, number in numbers.items()}
    )
    saved = recorded("H200", store_dir)
    assert (
        saved.value("op_ms", 5, LENET86[0]) == saved.value("op_ms", "constant", LENET86[0]) == 2.0
    )
    assert saved.value("op_ms", "05 constant, block=32x8", LENET86[0]) == 1.5


def test_rungs_that_the_ladder_does_not_have(store_dir):
    with pytest.raises(LabError, match=r"rung 99 cannot be recorded: the ladder has 1, 2, "):
        record_times(table(row(99, "99 fake")), store_dir)
    path = store_dir / "results" / "nvidia-h200.csv"
    path.write_text(path.read_text().replace(",constant,constant,", ",texture,texture,"))
    with pytest.raises(
        LabError,
        match=r"nvidia-h200.csv names the rung 'texture'; the ladder has baseline, constant",
    ):
        recorded("H200", store_dir)


# ---------------------------------------------------------------------------------- several at once
def test_a_ratio_of_several_kernels_is_that_of_their_times():
    """The pages show tables of `op_ms` by kernel and by layer; here is what none of them divides."""
    saved = recorded("H200")
    tiled = variant(4, tile=32)
    ratios = saved.op_ms([tiled, 4], LENET86) / saved.op_ms(3, LENET86)
    assert saved.ratio("op_ms", [tiled, 4], 3, LENET86).equals(ratios)
    assert saved.ratio("op_ms", 4, 3, LENET86).tolist() == ratios.loc["04 tiling"].tolist()
    pairs = saved.ratio("op_ms", [tiled, 4], [3, 3], LENET86[0])
    assert list(pairs) == ratios[LENET86[0].name].tolist()
    table = saved.ratio("op_ms", 3, [4, 5], LENET86)
    assert table.shape == (2, 2) and table.iloc[1, 1] == pytest.approx(
        saved.ratio("op_ms", 3, 5, LENET86[1])
    )


def test_the_parts_of_an_op_time_are_its_kernels():
    """Their sum is the op time, within the events between the launches."""
    saved, label = recorded("H200"), "05 unroll gemm, block=512"
    parts = sum(saved.op_ms(label, LENET86, kernel=name) for name in ("im2col", "gemm"))
    assert (parts / saved.op_ms(label, LENET86)).between(0.95, 1.05).all()


# ----------------------------------------------------------------------------------------- counters
def test_counters_are_found_under_short_and_full_names():
    """The pages show counters of several kernels, and per image."""
    saved, stores = recorded("H200"), "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
    rows = saved.counters([4, 3], LENET86, "global_store_sectors", stores)
    assert rows["label"].tolist() == ["04 tiling"] * 2 + ["03 registers"] * 2
    assert (rows["global_store_sectors"] == rows[stores]).all()
    sectors = saved.counters(
        3, LENET86, "global_load_sectors", "global_load_requests", "sectors_per_load"
    )
    assert (
        sectors["sectors_per_load"]
        == sectors["global_load_sectors"] / sectors["global_load_requests"]
    ).all()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda saved: saved.op_ms([4, "04 tiling, tile=5"]),
            r"no times for kernel 04 tiling, tile=5, .*It has kernel: 04 tiling, 04 ",
        ),
        (
            lambda saved: saved.op_ms("05 unroll gemm, block=512", LENET86[0], kernel="conv"),
            r"no time of a kernel 'conv' of 05 unroll gemm, block=512; .* im2col, gemm",
        ),
        (
            lambda saved: saved.op_ms(3, LENET86[0], kernel="gemm"),
            "'gemm' of 03 registers; there are none: it has only one kernel",
        ),
        (
            lambda saved: saved.cudnn("lenet86", "int8"),
            r"for network lenet86, dtype int8, batch 10000\. It has .*tf32, float16",
        ),
        (
            lambda saved: saved.op_ms("cuDNN INT8", LENET86[1]),
            "no times for kernel cuDNN INT8, layer lenet86 layer 2",
        ),
        (
            lambda saved: saved.counters(1, LENET72[0]),
            r"no counters for rung 1, layer lenet72 layer 1\. It has rung: 01 .*: lenet86",
        ),
        (
            lambda saved: saved.counters(1, None, "oops"),
            r"no counter 'oops'; it has global_load_requests, .*sectors_per_load",
        ),
        (
            lambda saved: saved.counter("time_ns", 5, LENET86[0]),
            r"2 rows for rung 5, layer lenet86 layer 1: .*im2col; .*gemm\. Say which",
        ),
        (lambda saved: saved.ratio("op_ms", [4, 5], [3], LENET86[0]), "pairs 2 kernels with 1"),
        (lambda saved: saved.select([]), "no kernel was given"),
    ],
)
def test_what_was_not_recorded_is_refused_with_what_was(ask, message):
    with pytest.raises(LabError, match=message):
        ask(recorded("H200"))


def test_evidence_is_stamped_with_date_and_device(tmp_path, monkeypatch):
    gpu = SimpleNamespace(engine="gpu", name="NVIDIA H200", slug="nvidia-h200")
    monkeypatch.setattr(devices, "device", lambda: gpu)
    counted = pd.DataFrame({"kernel": ["conv"], "sectors": [12345678901]})
    path = keep.record_evidence(counted, tmp_path / "counters")
    assert path == tmp_path / "counters" / "nvidia-h200.csv"
    saved = pd.read_csv(path)
    assert list(saved) == ["date", "device", "kernel", "sectors"] and list(counted) == [
        "kernel",
        "sectors",
    ]
    assert saved.iloc[0].tolist()[1:] == ["NVIDIA H200", "conv", 12345678901]
    keep.record_evidence(counted.assign(kernel="gemm"), tmp_path / "counters", by=["kernel"])
    path = keep.record_evidence(counted.assign(sectors=7), tmp_path / "counters", by=["kernel"])
    assert pd.read_csv(path).set_index("kernel")["sectors"].to_dict() == {
        "conv": 7,
        "gemm": 12345678901,
    }
    with pytest.raises(LabError, match="nothing to record"):
        keep.record_evidence(counted[:0], tmp_path)
    gpu.engine = "cpu"
    with pytest.raises(LabError, match="recorded on a GPU"):
        keep.record_evidence(counted, tmp_path)


def test_merged_rows_replace_those_of_the_same_key_and_bring_their_columns(tmp_path):
    path = tmp_path / "some-gpu.csv"
    row = {"device": "X", "chunk": 100, "streams": 1, "steady_ms": 2.0}
    key = ["device", "chunk", "streams"]
    merge_rows(path, table(row, {**row, "chunk": 200}), key)
    merge_rows(path, table({"warm": True, **row, "steady_ms": 1.23456789}), key)
    assert path.read_text().splitlines() == [
        "device,chunk,streams,steady_ms,warm",
        "X,200,1,2,",
        "X,100,1,1.23457,True",
    ]
    merge_rows(path, table(row), key=None)
    assert path.read_text().splitlines() == ["device,chunk,streams,steady_ms", "X,100,1,2"]


@pytest.mark.parametrize("folder", ["counters", "streams", "streams/timelines"])
def test_merging_a_file_with_its_own_rows_changes_nothing(tmp_path, folder):
    for path in sorted((data_dir() / folder).glob("*.csv")):
        copy = tmp_path / path.name
        copy.write_bytes(path.read_bytes())
        rows, keys = pd.read_csv(path), ["label", "layer"]
        one = rows[keys].eq(rows[keys].iloc[-1]).all(axis=1)  # the last rows, which come last again
        merge_rows(copy, rows[one], keys, digits=10)
        assert copy.read_bytes() == path.read_bytes()


def test_a_run_against_others_has_each_contestant_once_the_fastest_first():
    run = recorded("H100").versus(LENET86[1])
    assert run["label"].is_unique and run["median_ms"].is_monotonic_increasing
    assert run.set_index("label")["layout"]["cuDNN FP16"] == "NHWC"  # the faster one of two
    with pytest.raises(
        LabError, match="has no run against others for network lenet86, layer 2, batch 7"
    ):
        recorded("H100").versus(LENET86[1], 7)
