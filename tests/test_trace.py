"""Traces: what they hold after some work, and how they are summed up."""

import numpy as np
import pandas as pd
import pytest

import labkit
from labkit.measure.trace import Trace

pytestmark = pytest.mark.thorough("breadth of the lab: the notebooks run the main paths")


def test_kernels_copies_and_calls_are_seen():
    layer = labkit.LENET86[1]
    with labkit.variant(1).plan(layer, 2) as plan:
        plan.load(np.ones(layer.x_shape(2)), np.ones(layer.k_shape))
        plan.run()
        plan.result()
        with labkit.trace() as trace:
            plan.load(np.ones(layer.x_shape(2)))
            plan.run()
            plan.run()
            plan.result()
    records = trace.records
    first, second = records[records["kind"] == "kernel"].to_dict("records")
    assert (
        first["name"] == second["name"] == "conv"
        and min(first["duration_ms"], second["duration_ms"]) > 0
    )
    assert second["start_ms"] >= first["start_ms"] + first["duration_ms"]
    assert records["start_ms"].is_monotonic_increasing
    copies = records[records["kind"] == "copy"].set_index("name")["bytes"]
    assert copies["HtoD"] == 4 * np.prod(layer.x_shape(2))
    assert copies["DtoH"] == 4 * np.prod(layer.y_shape(2))
    calls = records[records["kind"] == "api"]["name"]
    assert (calls == "cuLaunchKernel").sum() == 2
    assert calls.isin(["cuMemcpyHtoD", "cuMemcpyDtoH"]).sum() == 2


def test_recording_ends_even_if_a_kernel_of_the_block_failed(monkeypatch):
    from hostcuda import driver

    def fails():
        raise driver.LaunchError("a kernel failed")

    with pytest.raises(driver.LaunchError), monkeypatch.context() as patch, labkit.trace():
        patch.setattr(driver.Context, "synchronize", fails)
    driver.mem_alloc(64).free()  # not recorded
    with labkit.trace() as after:
        pass
    assert "cuMemAlloc" not in set(after.records["name"]) and set(after.records["kind"]) <= {"api"}


def test_summary_adds_each_side_up_by_itself():
    trace = Trace()
    trace.records = pd.DataFrame(
        [
            ("kernel", "conv", 0.0, 6.0),
            ("kernel", "conv", 6.0, 2.0),
            ("copy", "HtoD", 8.0, 1.5),
            ("kernel", "fc", 9.5, 0.5),
            ("api", "cuLaunchKernel", 0.0, 1.0),
            ("api", "cuMemcpyHtoD", 1.0, 3.0),
        ],
        columns=["kind", "name", "start_ms", "duration_ms"],
    )
    table = trace.summary()
    device = table[table["side"] == "device"]
    assert list(device["name"]) == ["conv", "HtoD", "fc"]
    assert list(device["calls"]) == [2, 1, 1]
    assert list(device["share"]) == pytest.approx([0.8, 0.15, 0.05])
    assert list(device["cumulative"]) == pytest.approx([0.8, 0.95, 1.0])
    assert table.groupby("side")["share"].sum().to_list() == pytest.approx([1, 1])
    assert list(trace.top("device")["name"]) == ["conv", "HtoD"]
    assert list(trace.top("device", 0.8)["name"]) == ["conv"]
    assert list(trace.top("api")["name"]) == ["cuMemcpyHtoD", "cuLaunchKernel"]
