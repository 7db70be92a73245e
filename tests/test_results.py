"""The results store: what goes in comes out, and what is not there is said so."""

from types import SimpleNamespace

import pandas as pd
import pytest

from labkit.base.errors import LabError
from labkit.ladder.rungs import rung
from labkit.ladder.variants import solutions, variant
from labkit.page import overview
from labkit.records import results
from labkit.records.published import cudnn_times, published, published_training
from labkit.records.results import COLUMNS, record, recorded
from labkit.spec.layers import LENET72, LENET86


def row(rung=1, label=None, layer=LENET86[0].name, batch=1000, op_ms=1.0, **more):
    label = label or f"{rung:02d} rung"
    facts = {"rung": rung, "label": label, "layer": layer, "batch": batch, "dtype": "float32", "op_ms": op_ms}
    return facts | {"engine": "gpu", "device": "NVIDIA H200", "options": "block=16x16"} | more


def table(*rows):
    return pd.DataFrame(list(rows))


@pytest.fixture
def store(tmp_path):
    record(
        table(
            row(1, op_ms=4.0),
            row(1, batch=10000, op_ms=40.0),
            row(2, op_ms=2.0, layer_ms=9.5),
            row(2, "02 rung, block=32x8", op_ms=1.5),
            row(2, layer=LENET86[1].name, op_ms=8.0),
            row(1, "01 rung", layer="", network="lenet86", total_s=3.5, accuracy=0.886, op1_ms=1.25, distinct=360),
        ),
        tmp_path,
        date="2026-11-21",
    )
    return tmp_path


def test_what_goes_in_comes_out(store):
    saved = recorded("H200", store)
    assert saved.path == store / "nvidia-h200.csv"
    assert saved.device == "NVIDIA H200"
    assert saved.date == "2026-11-21"
    assert list(saved.table.columns) == list(COLUMNS)
    assert len(saved.table) == 6
    assert saved.value("op_ms", rung=1, layer=LENET86[0], batch=1000) == 4.0
    assert saved.value("layer_ms", 2, "lenet86 layer 1") == 9.5
    assert saved.value("accuracy", 1, "", network="lenet86") == 0.886
    assert set(saved.table["network"]) == {"lenet86"}


def test_ratio(store):
    saved = recorded("H200", store)
    assert saved.ratio("op_ms", 2, 1, layer=LENET86[0], batch=1000) == 0.5
    assert saved.ratio("op_ms", 1, 2, LENET86[0]) == 2.0  # 1000 is the largest batch that both have
    assert saved.value("op_ms", 1, LENET86[0]) == 40.0  # 10000 is the largest there is


def test_a_rung_is_its_default_options_unless_a_label_is_given(store):
    saved = recorded("H200", store)
    assert saved.value("op_ms", 2, LENET86[0]) == 2.0
    assert saved.value("op_ms", layer=LENET86[0], label="02 rung, block=32x8") == 1.5


def test_a_kernel_that_has_changed_since_it_was_measured_is_named(tmp_path):
    baseline, tiled = variant(1), variant(4, step="weights")
    record(table(row(1, baseline.label, code=baseline.code), row(4, tiled.label, code="0ld0ld00")), tmp_path)
    saved = recorded("H200", tmp_path)
    assert overview.outdated(saved) == ["04 tiling, weights"]
    assert "Changed since they were measured: 04 tiling, weights." in overview.caption(saved)
    commented = variant(1, source=baseline.source.replace("\n", "    // a remark\n"))
    assert commented.code == baseline.code != variant(2).code


def test_a_solution_never_stands_for_its_rung(tmp_path):
    """Nor does a reader's kernel: what the pages ask for is the same with every solution on record."""
    record(recorded("H200").table, tmp_path)
    before = recorded("H200", tmp_path)
    own = variant(1, source=rung(2).source)
    rows = [
        row(each.rung.number, each.label, layer.name, 10_000, op_ms=0.001, dtype=each.io_dtype.name,
            options=each.options_text)
        for each in (*solutions(), own)
        for layer in (*LENET86, *LENET72)
    ]
    record(table(*rows, row(1, own.label, batch=7)), tmp_path)
    after = recorded("H200", tmp_path)
    for asked in (
        overview.rows,
        overview.layer_times,
        lambda saved: pd.concat([saved.ladder(10, network) for network in overview.NETWORKS]),
        lambda saved: pd.concat([saved.select(rung=number, layer=LENET86[1]) for number in range(1, 11)]),
        lambda saved: saved.select(network="lenet72", batch=10_000),
    ):
        then, now = (asked(saved).reset_index(drop=True) for saved in (before, after))
        pd.testing.assert_frame_equal(now, then)
    with pytest.raises(LabError, match=r"nothing for rung 1, .*batch 7"):
        after.value("op_ms", rung=1, layer=LENET86[0], batch=7)
    for each in (*solutions(), own):
        assert after.value("op_ms", label=each.label, layer=LENET86[1]) == 0.001


def test_a_later_measurement_replaces_the_same_and_nothing_else(store):
    record(table(row(2, op_ms=1.0), row(3, op_ms=0.5)), store, date="2026-12-01")
    saved = recorded("H200", store)
    assert len(saved.table) == 7
    assert saved.value("op_ms", 2, LENET86[0]) == 1.0
    assert saved.value("op_ms", 1, LENET86[0], 1000) == 4.0
    assert saved.date == "2026-12-01"
    assert sorted(saved.table["date"].unique()) == ["2026-11-21", "2026-12-01"]


def test_recording_the_same_twice_changes_nothing(store):
    path = store / "nvidia-h200.csv"
    before = path.read_bytes()
    record(recorded("H200", store).table, store, date="2026-11-21")
    assert path.read_bytes() == before
    assert [each.name for each in store.iterdir()] == [path.name]  # nothing half-written beside it


def test_the_file_does_not_depend_on_the_order_of_recording(tmp_path):
    rows = [row(1), row(2), row(1, batch=10)]
    a, b = tmp_path / "a", tmp_path / "b"
    record(table(*rows), a, date="2026-11-21")
    for each in reversed(rows):
        record(table(each), b, date="2026-11-21")
    assert (a / "nvidia-h200.csv").read_bytes() == (b / "nvidia-h200.csv").read_bytes()


def test_what_is_not_there_is_said_with_what_is(store):
    saved = recorded("H200", store)
    with pytest.raises(LabError, match=r"nothing for rung 7, layer lenet86 layer 1.*rung: 1, 2"):
        saved.value("op_ms", 7, LENET86[0])
    with pytest.raises(LabError, match="no column 'oops'"):
        saved.value("oops", 1, LENET86[0])
    with pytest.raises(LabError, match="no accuracy for rung 1"):
        saved.value("accuracy", 1, LENET86[0])
    with pytest.raises(LabError, match=r"2 rows for rung 2.*layer 1.*layer 2.*Say which"):
        saved.value("op_ms", 2)
    with pytest.raises(LabError, match=r"0 recorded devices.*'A40'.*nvidia-h200"):
        recorded("A40", store)
    with pytest.raises(LabError, match="results of: none"):
        recorded("H200", store / "nowhere")


def test_ambiguous_device_names(store):
    record(table(row(device="NVIDIA H200 NVL")), store)
    assert recorded("NVIDIA H200", store).device == "NVIDIA H200"
    assert recorded("nvl", store).device == "NVIDIA H200 NVL"
    with pytest.raises(LabError, match="2 recorded devices"):
        recorded("H20", store)


def test_what_cannot_be_recorded(tmp_path):
    with pytest.raises(LabError, match="empty"):
        record(table(), tmp_path)
    with pytest.raises(LabError, match="without label"):
        record(table(row()).drop(columns="label"), tmp_path)
    with pytest.raises(LabError, match="one device's results"):
        record(table(row(), row(device="NVIDIA A40")), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_damaged_file_is_not_overwritten(tmp_path):
    path = tmp_path / "nvidia-h200.csv"
    path.write_text("this,is\nno,table\n")
    with pytest.raises(LabError, match="no table of results"):
        record(table(row()), tmp_path)
    assert path.read_text() == "this,is\nno,table\n"


def test_a_bench_table_can_be_recorded(tmp_path, monkeypatch):
    from fakes import FakeVariant

    from labkit.measure.bench import bench
    from labkit.measure.check import check
    from labkit.spec.devices import device

    variant = FakeVariant(label="01 baseline")
    check(variant, [LENET86[1]])
    path = record(bench(variant, LENET86[1], 2, 1), tmp_path)
    saved = recorded(device().name, tmp_path)
    assert saved.path == path
    assert saved.table["network"][0] == "lenet86"
    assert saved.table["software"][0] == device().software
    assert saved.value("op_ms", 99, LENET86[1]) > 0


def test_the_courses_table_can_be_recorded(tmp_path):
    from fakes import FakeVariant

    from labkit.spec.devices import device

    conv = FakeVariant(label="01 baseline")
    network = SimpleNamespace(conv=(conv, conv), layers=tuple(LENET86))
    columns = ["batch", *(f"{kind} time {i} ms" for kind in ("op", "layer") for i in (1, 2))]
    columns += ["total s", "accuracy", "distinct images"]
    measured = pd.DataFrame([[100, 1.5, 2.5, 3.0, 4.0, 0.5, 0.875, 100], [10, 0.5, 1.0, 1.5, 2.0, 0.25, 1.0, 10]])
    measured.columns = columns
    results.record_course(measured, network, tmp_path)
    saved = recorded(device().name, tmp_path)
    pd.testing.assert_frame_equal(saved.course(99), measured[::-1].reset_index(drop=True), check_dtype=False)
    assert saved.value("total_s", label="01 baseline", layer="", batch=10) == 0.25
    with pytest.raises(LabError, match="nothing for rung 3, layer , network lenet86"):
        saved.course(3)


def test_the_ceilings_are_the_devices(store):
    assert recorded("H200", store).ceilings["copy"] == pytest.approx(4.23e12)


def test_the_recorded_files_in_the_repository_can_be_read():
    for path in results.results_dir().glob("*.csv"):
        saved = recorded(path.stem)
        assert saved.path == path
        assert not saved.table.duplicated(results.KEY).any()


def test_published_figures():
    everything = published()
    assert len(everything) == 71
    assert set(everything["network"]) == {"lenet86", "lenet72"}
    assert set(everything["report"]) == {"000", "002", "003", "004"}
    baseline = published("lenet86", "Baseline")
    assert list(baseline["report"].unique()) == ["000", "003"]
    at_10000 = baseline[baseline["batch"] == 10000].iloc[0]
    assert (at_10000["op1_ms"], at_10000["op2_ms"]) == (15.9715, 62.4858)
    assert at_10000["accuracy"] == 0.8714
    with pytest.raises(
        LabError, match=r"nothing was published for network lenet86, step teleport\. There is 000 lenet86: baseline"
    ):
        published("lenet86", "teleport")
    with pytest.raises(LabError, match="lenet99"):
        published("lenet99")
    loops = published(report="002", step="cpu LOOPS")
    assert list(loops["op2_ms"]) == [151186.232]


def test_published_training_and_cudnn():
    assert published_training()["test_accuracy_pct"].max() == 96.86
    best = cudnn_times().groupby(["network", "layer", "batch"])["median_ms"].min()
    assert best["lenet86", 2, 10000] == 1.0161
    assert len(cudnn_times()) == 72


def test_counters_are_found_by_device_and_rung():
    table = results.counters("H200", rung=1)
    assert list(table["layer"]) == ["lenet86 layer 1", "lenet86 layer 2"]
    assert (table["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] > 0).all()
    with pytest.raises(LabError, match="no counters of any kernel on lenet99; it has those of 01 "):
        results.counters("H200", network="lenet99")
    with pytest.raises(LabError, match=r"no counters of rung 99 on lenet86; it has those of 01 .*02 constant"):
        results.counters("H200", rung=99)
    with pytest.raises(LabError, match="nvidia-h200"):
        results.counters("TITAN V")


def test_evidence_is_stamped_with_date_and_device(tmp_path, monkeypatch):
    gpu = SimpleNamespace(engine="gpu", name="NVIDIA H200")
    monkeypatch.setattr(results, "device", lambda: gpu)
    counted = pd.DataFrame({"kernel": ["conv"], "sectors": [12345678901]})
    path = results.record_evidence(counted, tmp_path / "counters")
    assert path == tmp_path / "counters" / "nvidia-h200.csv"
    saved = pd.read_csv(path)
    assert list(saved) == ["date", "device", "kernel", "sectors"] and list(counted) == ["kernel", "sectors"]
    assert saved.iloc[0].tolist()[1:] == ["NVIDIA H200", "conv", 12345678901]
    results.record_evidence(counted.assign(kernel="gemm"), tmp_path / "counters", by=["kernel"])
    path = results.record_evidence(counted.assign(sectors=7), tmp_path / "counters", by=["kernel"])
    assert pd.read_csv(path).set_index("kernel")["sectors"].to_dict() == {"conv": 7, "gemm": 12345678901}
    with pytest.raises(LabError, match="nothing to record"):
        results.record_evidence(counted[:0], tmp_path)
    gpu.engine = "cpu"
    with pytest.raises(LabError, match="recorded on a GPU"):
        results.record_evidence(counted, tmp_path)


def test_merged_rows_replace_those_of_the_same_key_and_bring_their_columns(tmp_path):
    path = tmp_path / "some-gpu.csv"
    row = {"device": "X", "chunk": 100, "streams": 1, "steady_ms": 2.0}
    key = ["device", "chunk", "streams"]
    results.merge(path, table(row, {**row, "chunk": 200}), key)
    results.merge(path, table({"warm": True, **row, "steady_ms": 1.23456789}), key)
    assert path.read_text().splitlines() == [
        "device,chunk,streams,steady_ms,warm", "X,200,1,2,", "X,100,1,1.23457,True",
    ]  # fmt: skip
    results.merge(path, table(row), key=None)
    assert path.read_text().splitlines() == ["device,chunk,streams,steady_ms", "X,100,1,2"]


@pytest.mark.parametrize("folder", ["counters", "streams", "streams/timelines"])
def test_merging_a_file_with_its_own_rows_changes_nothing(tmp_path, folder):
    for path in sorted((results.data_dir() / folder).glob("*.csv")):
        copy = tmp_path / path.name
        copy.write_bytes(path.read_bytes())
        rows, keys = pd.read_csv(path), ["label", "layer"]
        one = rows[keys].eq(rows[keys].iloc[-1]).all(axis=1)  # the last rows, which come last again
        results.merge(copy, rows[one], keys, digits=10)
        assert copy.read_bytes() == path.read_bytes()
