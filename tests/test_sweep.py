"""Sweeps: every point checked, kept and resumed, and a device that is lost."""

import json

import pandas as pd
import pytest

import labkit
from labkit import LENET72, LENET86, LabError, Layer, sweep, variant
from labkit.base.paths import data_dir
from labkit.ladder.rungs import rung, tuning
from labkit.ladder.source import digest
from labkit.ladder.tables import as_options
from labkit.measure import bench as bench_module
from labkit.measure import sweep as sweep_module
from labkit.page import overview
from labkit.records import sweeps
from recording.keep import record_sweep
from recording.sweep import write_tuned_sizes

pytestmark = pytest.mark.thorough("breadth of the lab: the notebooks run the main paths")

SMALL = Layer("small", 2, 14, 17, 5, 3)
GRID = {"rung": 7, "rows": (1, 3, 5), "maps": (1, 2), "block": [(16, 1)], "channels": 1}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "points.jsonl"


def lines(path):
    """Return the entries of a file of finished points."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def small(path, variants=GRID, layers=SMALL, **options):
    return sweep(variants, layers, 2, path=path, repeat=1, **options)


# ---------------------------------------------------------------------------------------- the table
def test_a_grid_is_every_combination_and_every_point_a_row(path):
    table = small(path)
    assert list(zip(table["rows"], table["maps"], strict=True)) == [
        (r, m) for r in (1, 3, 5) for m in (1, 2)
    ]
    assert (table["op_ms"] > 0).all() and (table["reason"] == "").all()
    assert (table["op_min_ms"] <= table["op_ms"]).all() and (table["x_reference"] > 0).all()
    assert set(table["block"]) == {"16x1"}
    assert set(table["threads"]) == {16}
    assert list(table["shared_bytes"]) == [4 * 9 * maps for maps in table["maps"]]
    assert table.attrs["measured"] == 6 and table.attrs["resumed"] == 0
    assert table.attrs["note"] == labkit.device().note
    assert table["device"].eq(labkit.device().name).all()
    assert table["code"].eq(digest(rung("tuning").source)).all()  # all sizes are chosen
    assert [line["row"]["label"] for line in lines(path)] == list(table["label"])


def test_a_layers_points_share_their_inputs_which_are_let_go_at_the_end(path, monkeypatch):
    samples, spots = [], bench_module.SampledImages
    monkeypatch.setattr(
        bench_module, "SampledImages", lambda *facts: samples.append(facts) or spots(*facts)
    )
    assert small(path).attrs["measured"] == 6
    assert len(samples) == 1
    assert bench_module._inputs.cache_info().currsize == 0


def test_points_that_cannot_run_are_rows_with_the_reason(path):
    table = small(path, {"rung": 4, "tile": (8, 33, 16)}, [SMALL, Layer("deep", 65, 9, 9, 64, 2)])
    assert list(table["op_ms"].notna()) == [True, True, False, False, False, False]
    assert list(table["tile"]) == [8, 16, 8, 16, 33, 33]
    reasons = dict(
        zip(zip(table["layer"], table["tile"], strict=True), table["reason"], strict=True)
    )
    assert "the mask of deep" in reasons["deep", 8] and "65,536 bytes" in reasons["deep", 16]
    assert "33x33 = 1089 threads" in reasons["small", 33]


def test_a_wrong_kernel_is_a_row_without_a_time(path):
    source = rung(1).source
    wrong = variant(
        1, source.replace("k[((m * C + c) * K + p) * K + q]", "k[((m * C + c) * K + q) * K + p]")
    )
    broken = variant(1, source.replace("y[h * Wo + w] = 0;", "y[h * Wo + w] = nothing;"))
    table = small(path, [wrong, broken, variant(1)])
    assert list(table["op_ms"].notna()) == [False, False, True]
    assert "is wrong on small" in table["reason"][0]
    assert "rows and columns of the mask were swapped" in table["reason"][0]
    assert "nothing" in table["reason"][1]


def test_a_kernel_after_which_the_device_is_gone_ends_the_sweep_and_is_passed_by_the_next_time(
    path, monkeypatch
):
    """A fault takes a GPU's context with it: no later point may be blamed for that."""
    real, answers = sweep_module._measure_columns, []

    def timed(point):
        """Measure a point; the first one with three rows fails."""
        if point.variant.options["rows"] == 3 and not answers:
            answers.append(False)
            raise LabError("an illegal address")
        return real(point)

    monkeypatch.setattr(sweep_module, "_measure_columns", timed)
    monkeypatch.setattr(sweep_module, "_responds", lambda: not answers)
    with pytest.raises(
        LabError, match=r"after .*rows=3, .* does not respond: an illegal address.*in a new process"
    ):
        small(path)
    assert len(lines(path)) == 3
    monkeypatch.setattr(sweep_module, "_responds", lambda: True)
    table = small(path)
    assert table.attrs["resumed"] == 3
    assert list(table["reason"] == "an illegal address") == [
        False,
        False,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("variants", "batch", "message"),
    [
        ([], 2, "an empty sweep"),
        ({"rows": (1, 2)}, 2, "a grid needs a rung"),
        (
            {"rung": 7, "tile": (8, 16)},
            2,
            "07 tuning with no option 'tile': one rung, and options of rows, maps",
        ),
        ({"rung": (4, 9)}, 2, "with 2 rungs"),
        ({"rung": 99}, 2, "no rung 99"),
        (variant(1), 0, "the number of images has to be a positive integer"),
    ],
)
def test_a_sweep_that_is_none(path, variants, batch, message):
    with pytest.raises(LabError, match=message):
        sweep(variants, SMALL, batch, path=path)
    assert not path.exists()


# ---------------------------------------------------------------------------------- finished points
def test_an_interrupted_sweep_goes_on_where_it_stopped_and_measures_nothing_twice(
    path, monkeypatch
):
    real, calls = sweep_module._measure_columns, []

    def timed(point):
        """Measure a point; Ctrl-C comes at the third."""
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(point)
        return real(point)

    monkeypatch.setattr(sweep_module, "_measure_columns", timed)
    with pytest.raises(KeyboardInterrupt):
        small(path)
    assert len(lines(path)) == 2
    monkeypatch.setattr(sweep_module, "_measure_columns", real)
    complete = small(path)
    assert complete.attrs["measured"] == 4
    assert len({line["key"] for line in lines(path)}) == len(lines(path)) == 6
    monkeypatch.setattr(sweep_module, "_measure_columns", None)  # nothing is left to time
    again = small(path)
    assert again.attrs["measured"] == 0 and again.attrs["resumed"] == 6
    pd.testing.assert_frame_equal(complete, again)


def test_another_layer_batch_source_or_default_size_is_another_point(path, monkeypatch):
    other, changed = Layer("other", 1, 9, 11, 2, 3), variant(1, rung(1).source + "// a comment\n")
    table = small(path, variant(7), [SMALL, other])
    assert list(table["layer"]) == ["small", "other"] and table.attrs["measured"] == 2
    assert sweep(variant(7), SMALL, 3, path=path, repeat=1).attrs["measured"] == 1
    assert small(path, [variant(1), changed]).attrs["measured"] == 2
    monkeypatch.setitem(
        tuning.TUNED, f"{SMALL.C}x{SMALL.H}x{SMALL.W} {SMALL.M}x{SMALL.K}", {"rows": 2}
    )
    assert small(path, variant(7)).attrs["measured"] == 1
    assert small(path, variant(7)).attrs["measured"] == 0
    assert len(lines(path)) == 6


def test_half_a_line_of_a_killed_process_and_another_devices_points_are_none_of_this_one(path):
    small(path)
    path.write_text(path.read_text()[:-40])
    table = small(path)
    assert table.attrs["measured"] == 1 and (table["op_ms"] > 0).all()
    assert small(path).attrs["measured"] == 0  # the line after the torn one can be read
    path.write_text(path.read_text().replace(labkit.device().name, "another device"))
    assert small(path).attrs["measured"] == 6


def test_the_cache_is_the_default_place_and_a_grid_may_name_its_rung(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_CACHE_DIR", str(tmp_path))
    table = sweep({**GRID, "rung": "tuning", "rows": 2, "maps": [2, 0]}, SMALL, 2, repeat=1)
    assert list(table["rung"]) == [7, 7]
    assert list(table["reason"]) == ["", "maps=0: it has to be a positive integer"]
    assert len(lines(tmp_path / "sweeps" / f"{labkit.device().slug}.jsonl")) == 1


# ---------------------------------------------------------------------------------- recorded sweeps
def test_a_recorded_sweep_comes_back(path, tmp_path):
    table = small(path, {"rung": 4, "tile": (8, 33)}, LENET86[0])
    file = record_sweep(table, tmp_path)
    assert file.name == f"{labkit.device().slug}.csv"
    again = sweeps.read_sweep(labkit.device().name, tmp_path)
    assert list(again["tile"]) == [33, 8] and list(again["reason"] == "") == [False, True]
    assert again["op_ms"][1] == pytest.approx(table["op_ms"][0], rel=1e-4)
    record_sweep(table.assign(op_ms=5.0), tmp_path)
    later = sweeps.read_sweep(labkit.device().name, tmp_path)
    assert len(later) == 2 and set(later["op_ms"]) == {5.0}


def test_recording_a_part_of_a_sweep_again_changes_nothing(tmp_path):
    there, again = (folder / "sweeps" / "nvidia-h200.csv" for folder in (data_dir(), tmp_path))
    again.parent.mkdir()
    again.write_bytes(there.read_bytes())
    record_sweep(labkit.recorded("H200").sweep()[::-7], tmp_path)
    assert again.read_bytes() == there.read_bytes()


def test_a_sweep_of_another_source_is_named(tmp_path):
    """Older records do not tell their source; and a digest that is all digits is still a text."""
    (tmp_path / "results").symlink_to(data_dir() / "results")
    recorded = labkit.recorded("H200", tmp_path)
    about = {
        "device": "NVIDIA H200",
        "rung": 7,
        "layer": LENET86[0].name,
        "batch": 1000,
        "op_ms": 1.0,
        "code": "",
    }
    points = [variant(7, rows=2), variant(7, step="shared"), variant(7, rung(1).source)]
    rows = [
        about | {"label": point.label, "options": point.options_text, "code": point.code}
        for point in points
    ]
    older = about | {"label": variant(7, rows=4).label, "options": "rows=4"}

    def named(*rows):
        record_sweep(pd.DataFrame(rows), tmp_path)
        return overview.list_outdated(recorded)

    without = overview.list_outdated(recorded)
    assert named(*rows, older) == without
    assert recorded.sweep()["code"].ne("").sum() == 3
    assert named(older | {"code": "00000012"}) == [*without, "the sweep of 07 tuning"]
    assert "00000012" in set(recorded.sweep()["code"])


def test_ones_own_layer_and_points_that_are_unrolled_less_are_recorded_beside_the_others(
    path, tmp_path
):
    own, sizes = Layer("a layer of one's own", 1, 9, 11, 2, 3), {**GRID, "rows": 2, "maps": 2}
    record_sweep(small(path, sizes, [own, LENET86[0]]), tmp_path)
    record_sweep(small(path, {**sizes, "unroll": [1, 2]}, own), tmp_path)
    again = sweeps.read_sweep(labkit.device().name, tmp_path)
    assert list(again["layer"]) == [LENET86[0].name, *[own.name] * 3] and (again["op_ms"] > 0).all()
    assert list(again["unroll"].fillna(0)) == [0, 0, 1, 2]
    assert len({line["key"] for line in lines(path)}) == 4


def test_a_table_of_two_devices_is_not_recorded(path, tmp_path):
    table = small(path, {**GRID, "rows": 1})
    with pytest.raises(LabError, match=r"holds one device's results, but the table has .*, other"):
        record_sweep(pd.concat([table, table.assign(device="other")]), tmp_path)
    with pytest.raises(LabError, match="the table has no rows"):
        record_sweep(table[:0], tmp_path)


def test_the_best_of_a_sweep(path):
    table = small(path)
    table["op_ms"] = [6, 5, 4, 1, 3, float("nan")]
    assert sweeps.best(table, SMALL) == variant(7, rows=3, maps=2, block=(16, 1), channels=1)
    larger, failed = (
        table.assign(batch=5, op_ms=[1, 2, 3, 4, 5, 6]),
        table.assign(batch=9, op_ms=float("nan")),
    )
    assert (
        sweeps.best(pd.concat([table, larger, failed], ignore_index=True), SMALL).options["rows"]
        == 1
    )
    with pytest.raises(
        LabError, match=r"no swept time of rung 7 on lenet86 layer 1: .*; swept were small"
    ):
        sweeps.best(table, LENET86[0])


# ----------------------------------------------------------------------------- the sizes of rung 07
LAYERS = (*LENET86, *LENET72)
OTHER = Layer("never swept", 3, 20, 31, 9, 5)


def test_the_file_of_default_sizes_is_what_the_recorded_sweep_says():
    assert (
        write_tuned_sizes(sweeps.read_sweep(tuning.TUNED_DEVICE)) == tuning.TUNED_FILE.read_text()
    )


def test_the_default_sizes_are_part_of_a_kernels_identity(monkeypatch):
    """Times recorded with other sizes are not this kernel's; kernels without those sizes keep their times."""
    chosen = {"rows": 2, "maps": 2, "block": (32, 1), "channels": 1}
    kernels = [{}, {"step": "runtime"}, {"rows": 2}, chosen]

    def read():
        """Return the identities and digests of the kernels, and the sizes of one, as text."""
        several = [variant(7, **options) for options in kernels]
        sizes = variant(7).on(LENET86[0]).options_text
        return [(kernel.identity, kernel.code) for kernel in several], sizes

    before, sizes = read()
    assert sizes == "rows=10 maps=4 block=128x1 channels=1 unroll=7"
    monkeypatch.setitem(tuning.TUNED["1x86x86 4x7"], "rows", 8)
    after, sizes = read()
    assert sizes == "rows=8 maps=4 block=128x1 channels=1 unroll=7"
    assert [a == b for (a, _), (b, _) in zip(before, after, strict=True)] == [
        False,
        False,
        False,
        True,
    ]
    assert [a == b for (_, a), (_, b) in zip(before, after, strict=True)] == [
        False,
        False,
        False,
        True,
    ]


def test_sizes_of_a_layer_that_was_not_swept():
    assert variant(7).defines(OTHER) == {
        "FIXED_K": 5,
        "FIXED_H": 20,
        "FIXED_W": 31,
        "ROWS": 8,
        "MAPS": 4,
        "THREADS": 54,
        "GROUPS": 3,
        "CHANNELS": 3,
        "UNROLL": 5,
    }
    one = variant(7).defines(Layer("one", 1, 1, 1, 1, 1))
    assert (one["ROWS"], one["MAPS"], one["THREADS"], one["GROUPS"], one["CHANNELS"]) == (
        1,
        1,
        1,
        1,
        1,
    )


def test_a_chosen_size_wins_and_the_others_stay():
    best = labkit.recorded("H200").best(LENET86[0]).defines(LENET86[0])
    assert variant(7, maps=3).defines(LENET86[0]) == {**best, "MAPS": 3}
    assert variant(7, rows=1000).defines(OTHER)["ROWS"] == OTHER.Ho
    assert variant(7, unroll=3).defines(LENET86[0]) == {**best, "UNROLL": 3}


def test_sizes_that_are_none():
    for name, value in (
        ("rows", 0),
        ("maps", -1),
        ("channels", 2.5),
        ("rows", "4"),
        ("maps", True),
        ("unroll", 0),
    ):
        with pytest.raises(LabError, match=rf"{name}=.*: it has to be a positive integer"):
            variant(7, **{name: value})
    with pytest.raises(
        LabError, match=r"50,176 bytes of shared memory per block .* limit is 49,152"
    ):
        variant(7, maps=8, block=(32, 4), channels=8).supports(LENET86[1])


def test_the_recorded_sweep_has_every_layer_and_only_what_this_kernel_can_do():
    table = labkit.recorded("H200").sweep()
    assert list(table["layer"].unique()) == [layer.name for layer in LAYERS]
    assert (table["op_ms"].notna() | (table["reason"] != "")).all()
    for layer in LAYERS:
        rows = table[table["layer"] == layer.name]
        assert {1000, 10_000} <= set(rows["batch"])
        for text in rows["options"]:
            variant(7, **as_options(text)).launches(layer, 2)
        assert (rows["x_reference"].dropna() > 1).all()
