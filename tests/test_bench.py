"""The bench function: what it reports, and what it refuses."""

import dataclasses
import functools
import re

import fakes
import numpy as np
import pytest
from fakes import HALF, SINGLE, FakeVariant, correct, unwritten

import hostcuda
import labkit.ladder.plan
from labkit.base.errors import LabError
from labkit.ladder.rung import Rounding
from labkit.ladder.variants import variant
from labkit.measure import bench as bench_module
from labkit.measure.bench import bench, fastest_unit, kernel_times, refuse_impossible
from labkit.measure.check import CheckFailed, check
from labkit.spec.devices import device
from labkit.spec.layers import Layer
from labkit.spec.reference import conv_numpy

pytestmark = pytest.mark.core("what every time is taken with")

ODD = Layer("odd layer 1", C=3, H=11, W=16, M=5, K=4)
FEW = [ODD, Layer("odder", 1, 5, 9, 2, 2)]


def quick(x, k, state):
    return conv_numpy(x, k)


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(bench_module, "WARM_UP_S", 0)
    monkeypatch.setattr(bench_module, "SECONDS", 0.05)


def verified(compute=quick, **facts):
    """Return a fake variant that has passed `check`, and then computes as given."""
    variant = FakeVariant(compute, **facts)
    sound = variant.compute
    variant.compute = correct
    check(variant, FEW)
    variant.compute = sound
    return variant


def test_the_table():
    fast, slow = verified(label="98 fast", takes_s=0.002), verified(label="99 slow", takes_s=0.008)
    table = bench([fast, slow], FEW, batch=[3, 5], repeat=4)
    assert list(table.columns)[:17] == [
        "rung",
        "label",
        "layer",
        "batch",
        "dtype",
        "op_ms",
        "op_min_ms",
        "op_q1_ms",
        "op_q3_ms",
        "op_max_ms",
        "layer_ms",
        "gflop_s",
        "gb_s",
        "x_reference",
        "images_s",
        "engine",
        "device",
    ]
    assert len(table) == 2 * 2 * 2
    assert list(table["layer"].unique()) == ["odd layer 1", "odder"]
    assert list(table["batch"].unique()) == [3, 5]
    assert set(table["repeat"]) == {4}
    assert bench_module._inputs.cache_info().currsize == 0
    quantiles = table[["op_min_ms", "op_q1_ms", "op_ms", "op_q3_ms", "op_max_ms"]]
    assert (quantiles.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
    by_label = table.groupby("label")["op_ms"].min()
    assert by_label["98 fast"] >= 2
    assert by_label["99 slow"] >= 8
    row = table[(table["layer"] == ODD.name) & (table["batch"] == 5)].iloc[0]
    assert row["gflop_s"] == pytest.approx(ODD.flops(5) / (row["op_ms"] * 1e6))
    assert row["gb_s"] == pytest.approx(ODD.bytes(5) / (row["op_ms"] * 1e6))
    assert row["images_s"] == pytest.approx(5e3 / row["op_ms"])
    assert row["x_reference"] == pytest.approx(row["op_ms"] / ODD.reference_ms(5))
    assert row["dtype"] == "float32"
    assert row["options"] == "block=16x16"
    assert table.attrs["note"] == device().note
    assert ("Not GPU times" in table.attrs["note"]) == (device().engine == "cpu")


def test_the_layer_time_covers_a_fresh_plan(monkeypatch):
    # also on a busy machine there is time for all runs
    monkeypatch.setattr(bench_module, "SECONDS", 60)
    variant = verified(takes_s=0.003)
    before = variant.plans
    table = bench(variant, ODD, 2, 3)
    assert variant.plans == before + 1 + 1 + bench_module.LAYER_RUNS
    assert table["layer_ms"][0] >= 3


def test_defaults_suit_the_engine():
    table = bench(verified(), ODD)
    assert table["batch"][0] == bench_module.BATCH[device().engine]
    fewest, most = bench_module.RUNS
    assert fewest <= table["repeat"][0] <= most


def test_runs_alternate():
    order = []
    variants = [
        verified(
            lambda x, k, state, name=name: order.append(name) or quick(x, k, state), label=name
        )
        for name in "ab"
    ]
    bench(variants, ODD, 2, 3)
    assert "ababab" in "".join(order)


def test_each_kernel_of_several_is_timed_apart():
    two = verified(label="99 two", kernels={"short": 0.001, "long": 0.006})
    table = bench([verified(label="98 one", takes_s=0.001), two], ODD, 2, 3)
    assert table["kernels_ms"][0] == ""
    parts = kernel_times(table)
    assert list(parts["kernel"]) == ["short", "long"]
    assert set(parts["label"]) == {"99 two"}
    assert parts["op_ms"][0] >= 1
    assert parts["op_ms"][1] >= 6
    assert parts["share"].sum() == pytest.approx(1)
    assert parts["share"][1] == pytest.approx(parts["op_ms"][1] / parts["op_ms"].sum())
    assert parts.attrs["note"] == device().note
    with pytest.raises(LabError, match=r"the table has 98 one, and each of these has one kernel"):
        kernel_times(table[:1])


def test_launches_of_one_kernel_are_added_up(monkeypatch):
    """Rung 05 computes a large batch in chunks: im2col, gemm, im2col, gemm, and so on."""
    layer, chunk = Layer("small", 2, 9, 11, 3, 7), 2
    monkeypatch.setattr(labkit.ladder.plan, "MAX_GRID", (2**31 - 1, 65535, chunk))
    stamps = iter((0, 1, 11, 13, 33))  # ms, at four launches and the end

    class Event:
        """An event of hostcuda whose time is the next of the given stamps."""

        def record(self):
            self.at = next(stamps)
            return self

        def synchronize(self):
            pass

        def time_till(self, other):
            return other.at - self.at

    with variant(5).plan(layer, 2 * chunk) as plan:
        plan.load(np.zeros(layer.x_shape(4)), np.zeros(layer.k_shape))
        monkeypatch.setattr(hostcuda.driver, "Event", Event)
        assert bench_module._time_kernels(plan) == {"im2col": 1 + 2, "gemm": 10 + 20}


def test_data_types_share_no_buffer():
    single, half = verified(), verified(correct, rounding=Rounding(HALF, SINGLE))
    table = bench([single, half], ODD, 4, 2)
    assert list(table["dtype"]) == ["float32", "float16"]
    assert table["gb_s"][0] / table["gb_s"][1] * table["op_ms"][0] / table["op_ms"][
        1
    ] == pytest.approx(2)


def test_the_check_of_one_variant_does_not_verify_another():
    with pytest.raises(LabError, match=r"99 fake is not verified.*labkit\.check"):
        bench([verified(), FakeVariant()], ODD)
    check(variant(3), [ODD])
    assert bench(3, ODD, batch=2, repeat=1, layer_time=False)["label"].tolist() == ["03 registers"]


def one_off(x, k, state):
    """Change one element of the last image."""
    y = quick(x, k, state)
    y[-1, 0, 0, 0] += 1
    return y


def wears_out(x, k, state):
    state["runs"] = state.get("runs", 0) + 1
    return quick(x, k, state) * (1 if state["runs"] < 4 else 1.01)


def once(x, k, state):
    """Write nothing after the first run: the poison shows."""
    first = "ran" not in state
    state["ran"] = True
    return quick(x, k, state) if first else None


@pytest.mark.parametrize(
    ("compute", "when"),
    [
        (lambda x, k, state: quick(x, k, state) * 1.01, "before timing"),
        (one_off, "before timing"),
        (wears_out, "after timing"),
        (once, "after timing"),
    ],
)
def test_a_result_that_is_or_goes_wrong_is_refused(compute, when):
    with pytest.raises(CheckFailed, match=f"wrong {when}"):
        bench(verified(compute), ODD, 2, 5)
    assert bench_module._inputs.cache_info().currsize == 0  # the inputs are let go


def test_an_interrupt_says_how_far_it_was():
    def interrupted(x, k, state):
        """Compute; Ctrl-C comes at the sixth run."""
        state["runs"] = state.get("runs", 0) + 1
        if state["runs"] > 5:
            raise KeyboardInterrupt
        return quick(x, k, state)

    with pytest.raises(KeyboardInterrupt) as stop:
        bench([verified(quick), verified(interrupted)], ODD, 2, 4)
    (line,) = stop.value._render_traceback_()
    # the order is random
    assert re.fullmatch("Interrupted: bench was stopped after [01] of 2 measurements", line)


def test_an_interrupt_of_the_check_before_the_first_measurement_is_named_too(monkeypatch):
    def stop(variant):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_module, "require_verified", stop)
    with pytest.raises(KeyboardInterrupt) as stopped:
        bench([verified(quick), verified(quick)], ODD, 2, 4)
    (line,) = stopped.value._render_traceback_()
    assert line == "Interrupted: bench was stopped after 0 of 2 measurements"


def test_an_image_that_nobody_writes_is_found_even_if_it_is_not_compared(monkeypatch):
    monkeypatch.setattr(
        bench_module, "SampledImages", functools.partial(bench_module.SampledImages, count=2)
    )

    def forgets_some(x, k, state):
        """Compute, but leave two images unwritten."""
        y = quick(x, k, state)
        y[5:7] = unwritten(y.dtype)
        return y

    with pytest.raises(
        CheckFailed, match=r"99 fake is wrong before timing, .*: NaN in 2 images, 5 to 6"
    ):
        bench(verified(forgets_some), ODD, 9)


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 1000])
def test_the_images_looked_at(batch):
    images = bench_module.SampledImages(ODD, batch, {}, np.random.default_rng(0)).images
    assert images[0] == 0
    assert images[-1] == batch - 1
    assert len(set(images)) == len(images) == min(batch, bench_module.CHECKED_IMAGES)


def test_a_time_that_cannot_be_is_refused(monkeypatch):
    monkeypatch.setattr(bench_module, "time_run", lambda run: run() or 1e-9)
    with pytest.raises(
        LabError, match=r"cannot move the bytes .* in less than.*The measurement is wrong"
    ):
        bench(verified(), ODD, 10)


UNITS = {
    "FP32": (
        "y[i] += x[i] * k[j];  // not on tensor cores with mma.sync, nor half2 /* wmma:: */",
        "peak_flops",
    ),
    "half2": ("half2 sum = __hfma2(u, k, half2());", "peak_half2_flops"),
    "tensor cores": ("wmma::mma_sync(sum, a, b, sum);", "peak_tensor_flops"),
}


@pytest.mark.parametrize("storage", [HALF, SINGLE])
@pytest.mark.parametrize("unit", UNITS)
def test_a_time_just_under_the_floor_of_the_fastest_unit_is_refused(unit, storage):
    """The type of x and y does not matter: float results may come from tensor cores, whose peak is the floor."""
    source, peak = UNITS[unit]
    # arithmetic takes longer than the bytes do
    h200, layer = (device("H200"), Layer("deep", 64, 40, 40, 64, 7))
    variant = FakeVariant(rounding=Rounding(storage, SINGLE), source=source)
    by_flops = 1e3 * layer.flops(10000) / getattr(h200, peak)
    refuse_impossible(variant, layer, 10000, by_flops * 1.001, h200)
    for impossible in (by_flops * 0.999, 0.0, -1.0, np.nan):
        with pytest.raises(
            LabError, match=f"{unit}, the fastest unit in the source.*The measurement is wrong"
        ):
            refuse_impossible(variant, layer, 10000, impossible, h200)


def test_the_fastest_unit_of_a_rung_and_of_a_readers_own_source(tmp_path):
    own = variant(1).source
    assert [fastest_unit(variant(number)) for number in (1, 7, 8, 9)] == [
        "FP32",
        "FP32",
        "half2",
        "tensor cores",
    ]
    assert fastest_unit(variant(1, source=own)) == "FP32"
    (tmp_path / "products.h").write_text('#define PRODUCT asm("wgmma.mma_async.sync …")\n')
    (tmp_path / "mine.cu").write_text('#include "products.h"\n' + own)
    assert fastest_unit(variant(1, source=tmp_path / "mine.cu")) == "tensor cores"
    assert (
        fastest_unit(FakeVariant(source='asm("mma.sync.aligned.m16n8k16.row.col.f32.f16 …");'))
        == "tensor cores"
    )
    assert (
        fastest_unit(variant(1, source=own.replace("float *", "float /* lemma, gamma */ *")))
        == "FP32"
    )
    assert fastest_unit(variant(5, gemm="cublas")) == "tensor cores"


def test_an_output_that_fits_into_the_l2_need_not_reach_memory():
    h200, layer, variant = device("H200"), Layer("pointwise", 1, 100, 100, 1, 1), FakeVariant()
    bandwidth_ms = 1e3 * layer.bytes(100) / h200.peak_bandwidth
    refuse_impossible(variant, layer, 100, 0.6 * bandwidth_ms, h200)
    with pytest.raises(LabError):
        refuse_impossible(variant, layer, 100, 0.4 * bandwidth_ms, h200)
    no_cache = dataclasses.replace(h200, l2_bytes=0)
    with pytest.raises(LabError):
        refuse_impossible(variant, layer, 100, 0.9 * bandwidth_ms, no_cache)


def test_out_of_memory_names_the_batch(monkeypatch):
    from hostcuda import driver

    def full(*_):
        raise driver.MemoryError("out of memory")

    variant = verified()
    monkeypatch.setattr(fakes.FakeKernel, "plan", full)
    with pytest.raises(LabError, match=r"B = 4 needs more than .* GB.*take a smaller batch"):
        bench(variant, ODD, 4)


@pytest.mark.parametrize(
    ("batch", "repeat", "says"), [(0, None, "batch of 0"), (2, 0, "repeat = 0")]
)
def test_bad_arguments(batch, repeat, says):
    with pytest.raises(LabError, match=says):
        bench(verified(), ODD, batch, repeat)
