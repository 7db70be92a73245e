"""Counters: compared with Nsight Compute's, and complete whichever way a program ends."""

import math
import shutil

import pytest

import labkit
from hostcuda import profile as profile_module
from hostcuda.errors import EngineError
from hostcuda.limits import DRIVER_BYTES, MULTIPROCESSOR, occupancy
from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.evidence import child
from labkit.evidence.resources import resources
from labkit.ladder.rungs import LADDER, rung
from labkit.ladder.variants import variants
from labkit.records import store

pytestmark = pytest.mark.thorough("counters, which the notebooks show, too")


@pytest.fixture(scope="module")
def first_rungs():
    return labkit.profile([1, 2, 3, 4], labkit.LENET86[0], batch=2, engine="cpu")


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_global_traffic_is_what_ncu_counts(first_rungs, number):
    theirs = store.read(data_dir() / "counters" / "exact" / "nvidia-h200.csv")
    theirs = theirs.set_index(["program", "shape"]).loc[rung(number).label, labkit.LENET86[0].name]
    for name in (
        "global_load_requests",
        "global_load_sectors",
        "global_store_requests",
        "global_store_sectors",
    ):
        assert first_rungs.value(name, number) == pytest.approx(theirs[name], rel=0.01), name


def test_a_half_that_two_products_share_is_loaded_once():
    """Rung 08 computes 102,400 half2 products per image and warp of layer 1: a half and a half2 for each."""
    profile = labkit.profile(8, labkit.LENET86[0], engine="cpu")
    assert profile.value("shared_load_instructions", 8) == 2 * 102_400


def test_a_rungs_number_is_its_own_kernel_beside_its_steps():
    profile = labkit.profile(
        [3, labkit.variant(3, step="rolled")], labkit.Layer("small", 1, 9, 9, 1, 3), engine="cpu"
    )
    assert profile.value("global_load_requests", 3) == profile.value(
        "global_load_requests", "03 registers"
    )
    with pytest.raises(EngineError, match="0 rows of this profile are 2"):
        profile.value("global_load_requests", 2)


def test_every_row_says_where_it_comes_from(first_rungs):
    table = first_rungs.table
    assert set(table["source"]) == {profile_module.COUNTED}
    assert (table["blocks_counted"] <= table["blocks"]).all() and (
        table["blocks_counted"] > 0
    ).all()
    assert table["grid"].iloc[0] == (25, 4, 2) and table["block"].iloc[0] == (16, 16, 1)
    assert profile_module.COUNTED in first_rungs.note


def test_an_unknown_counter_or_rung_is_named(first_rungs):
    with pytest.raises(EngineError, match=r"no counter 'sectorz'.*global_sectors"):
        first_rungs.value("sectorz", 1)
    with pytest.raises(EngineError, match="01 baseline"):
        first_rungs.value("global_sectors", 9)
    with pytest.raises(EngineError, match="4 rows"):
        first_rungs.value("global_sectors")


def test_counts_are_proportional_to_the_batch(first_rungs):
    one = labkit.profile(1, labkit.LENET86[0], engine="cpu")
    assert 2 * one.value("global_sectors") == first_rungs.value("global_sectors", 1)


def test_a_choice_between_an_address_and_a_variable_is_no_local_request():
    """Nor if no lane of a copy of an unrolled loop chooses the address: nvcc makes stacks of 0 bytes of them.

    And none is what an inlined function around mma.sync takes by reference, as in rung 10.
    """
    kernels = [labkit.variant(8), labkit.variant(9, step="plain"), labkit.variant(10)]
    result = labkit.profile(kernels, labkit.LENET86[0], engine="cpu")
    assert result.table["lab__local_requests_address_taken.sum"].isna().all()
    assert not (result.sites["space"] == "local").any()


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_a_profile_and_the_resources_agree():
    kernels = [labkit.variant(4), labkit.variant(9)]  # extern shared memory, and WMMA
    table = child.watch_variants(
        "counting", profile_module.watch, kernels, labkit.LENET86[0], 1, "cpu", 600, nvcc=True
    )[0].table
    expected = resources(kernels, labkit.LENET86[0])
    assert table["launch__registers_per_thread"].tolist() == expected["registers"].tolist()
    assert (table["sm__maximum_warps_per_active_cycle_pct"] / 100).tolist() == expected[
        "occupancy"
    ].tolist()


@pytest.mark.parametrize("watched", [labkit.profile, labkit.sanitize])
def test_what_is_no_work_is_refused_before_anything_runs(watched):
    with pytest.raises(LabError, match=r"^a batch of 0"):
        watched(3, labkit.LENET86[0], 0, engine="cpu")
    with pytest.raises(LabError, match=r"^a Preset is not a layer: take labkit\.LENET86\[0\]"):
        watched(3, labkit.LENET86, engine="cpu")


def test_occupancy_is_what_nsight_compute_says_of_every_kernel_that_was_recorded():
    recorded = store.read(data_dir() / "counters" / "nvidia-h200.csv")
    every = {kernel.label: kernel for rung in LADDER for kernel in variants(rung.number)}
    held = 0
    for row in recorded[recorded["label"].isin(every)].to_dict("records"):
        launches = every[row["label"]].launches(
            labkit.spec.layers.layer(row["layer"]), row["batch"]
        )
        launch = next(launch for launch in launches if launch.kernel == row["kernel"])
        shared = row["launch__shared_mem_per_block"] - DRIVER_BYTES  # ncu adds the driver's
        share = occupancy(
            math.prod(launch.block),
            row["launch__registers_per_thread"],
            shared,
            MULTIPROCESSOR["sm_90"],
        )
        assert 100 * share == pytest.approx(
            row["sm__maximum_warps_per_active_cycle_pct"], abs=0.01
        ), row["label"]
        held += 1
    assert held > 100
