"""The busiest unit by the counts: as Nsight Compute recorded it, for a variant, and drawn."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import labkit
from hostcuda.units import CARDS, Units, card, compute_cycles
from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.draw import bars
from labkit.evidence.units import BATCH, count_work, scale_work
from labkit.records import store
from recording.units import list_counted

pytestmark = pytest.mark.core("what readers see of the busiest unit")

H200 = card("H200")
KEY = ["label", "layer", "kernel"]
# Nsight Compute's metric of how busy a unit is, and the per cent that it reaches if nothing else
# limits the kernel.
BUSY = {
    "instruction issue": ("smsp__issue_active.avg.pct_of_peak_sustained_active", 88),
    "L1 data pipe": ("l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed", 95),
    "constant cache": ("idc__request_cycles_active.avg.pct_of_peak_sustained_elapsed", 95),
    "L2": ("lts__throughput.avg.pct_of_peak_sustained_elapsed", 92),
}
# a unit -> that of `BUSY` whose metric has it, too
SAME = {"L2 reads": "L2", "L2 writes": "L2", "DRAM": "L2", "L1 tags": "L1 data pipe"}


@pytest.fixture(scope="module")
def busy_kernels():
    """Return the counted work of the kernels that keep a unit at least 60 % busy, and ncu's figures, in rows."""
    works = store.read_as_stored(data_dir() / "units" / "work.csv")
    counted = store.read_as_stored(data_dir() / "counters" / "nvidia-h200.csv")
    counted = counted[counted["idc__requests.sum"].notna()].drop_duplicates(KEY)
    rows = works.merge(counted, on=KEY, validate="one_to_one")
    assert len(rows) == len(works)
    shares = pd.DataFrame({unit: rows[metric] / most for unit, (metric, most) in BUSY.items()})
    is_busy = shares.max(axis=1) >= 0.6
    return rows[is_busy].reset_index(drop=True), shares[is_busy].reset_index(drop=True)


def _compare(rows, shares, gpu):
    """Return for how many of the kernels the busiest unit is ncu's, and is within a tenth of it, as shares."""
    same, near = [], []
    for work, busy in zip(rows.to_dict("records"), shares.to_dict("records"), strict=True):
        cycles = compute_cycles(work, gpu)
        unit = max(cycles, key=cycles.__getitem__)
        unit = SAME.get(unit, unit)
        same.append(unit == max(busy, key=busy.__getitem__))
        near.append(busy[unit] >= 0.9 * max(busy.values()))
    return np.mean(same), np.mean(near)


def test_the_busiest_unit_is_mostly_that_of_nsight_compute(busy_kernels):
    rows, shares = busy_kernels
    assert len(rows) == 204
    named = rows["matrices"] == 0  # for the others the lab names none
    for chosen in (named | True, named):
        same, near = _compare(rows[chosen], shares[chosen], H200)
        print(f"{chosen.sum()} kernels: the same in {same:.1%}, within a tenth in {near:.1%}")
        assert same >= 0.85 and near >= 0.9
    # what the rates bring: with one instruction of the GPU for each of the host's it is not so
    equal = dataclasses.replace(H200, instructions=dict.fromkeys(H200.instructions, 1.0))
    assert _compare(rows, shares, equal)[0] < 0.65


def test_the_weights_give_the_instructions_that_nsight_compute_counts(busy_kernels):
    rows = busy_kernels[0][busy_kernels[0]["matrices"] == 0]
    counted = rows["smsp__inst_executed.sum"] / rows["batch"] * BATCH
    expected = sum(weight * rows[kind] for kind, weight in H200.instructions.items())
    assert np.log(expected / counted).abs().median() < 0.16


def test_the_recorded_work_is_what_is_counted_today():
    works = store.read_as_stored(data_dir() / "units" / "work.csv").set_index(KEY)
    listed = {(variant.label[3:], layer.name) for variant, layer in list_counted()}
    assert {key[:2] for key in works.index} == listed
    variant, layer = labkit.variant(5), labkit.LENET86[1]
    for work in count_work(variant, layer):
        row = works.loc[("unroll gemm", layer.name, work["kernel"])]
        assert {name: work[name] for name in row.index} == pytest.approx(dict(row), rel=0.01)


def test_the_weights_are_loaded_once_however_large_the_batch():
    layer, variant = labkit.LENET86[0], labkit.variant(1)
    work = {"kernel": "conv", "why_none": "", "unique_bytes": 5000.0, "matrices": 0}
    (scaled,) = scale_work(variant, layer, [work], 2, 10)
    assert scaled == {**work, "unique_bytes": (5000 - 4 * 4 * 49) * 5}
    (scaled,) = scale_work(labkit.variant(2), layer, [work, work], 2, 10)
    assert scaled["unique_bytes"] == 2 * 5000 * 5


def test_a_variant_has_the_units_of_its_kernels():
    units = labkit.units(5, labkit.LENET86[1])
    assert list(units.table["kernel"]) == ["im2col", "gemm"]
    assert units.shares.max(axis=1).tolist() == [100, 100]
    assert str(units).startswith("Busiest: im2col: ") and "H200" in units.note
    tensor = labkit.units(9, labkit.LENET86[1])
    assert "none is named, because products of matrices" in str(tensor)
    with pytest.raises(LabError, match="has no unit to draw"):
        bars.units(tensor)


def test_what_the_cpu_engine_cannot_run_is_refused():
    with pytest.raises(LabError, match="the CPU engine cannot run it"):
        labkit.units(labkit.variant(10, step="warpgroups"), labkit.LENET86[1])


def test_each_kernel_is_drawn_in_per_cent_of_its_own_busiest_unit(tmp_path):
    def describe(*units):
        """Draw units; return the words in the picture's file."""
        bars.units(*units, path=tmp_path / "units.png")
        with Image.open(tmp_path / "units.png") as image:
            return image.info["Description"]

    def make(**work):
        """Return the work of a kernel: 0 of each kind, except for what is given."""
        names = ("unique_bytes", "loaded_sectors", "stored_sectors", "global_lines")
        names += ("global_passes", "shared_wavefronts", "constant_requests", *H200.instructions)
        return {"kernel": "conv", "why_none": "", **dict.fromkeys(names, 0), **work}

    now = Units.from_works([make(shared_wavefronts=50, constant_requests=10)], CARDS[0])
    before = Units.from_works([make(shared_wavefronts=100, constant_requests=200)], CARDS[0])
    alt = describe(now, before)
    assert "L1 data pipe 100 % (before 25 %), constant cache 40 % (before 100 %)" in alt
    assert "Busiest: L1 data pipe; before: constant cache" in alt
    assert "before" not in describe(now)
