"""`recording.compare_counters`: which differences nvcc's instructions explain, and which they do not."""

import numpy as np
import pandas as pd
import pytest

from labkit.base.paths import cuda_src
from labkit.exercises.exercise import exercises
from labkit.ladder.variants import solutions
from recording import compare_counters as script

pytestmark = pytest.mark.thorough("counters, which the notebooks show, too")

OWNER = {
    "program": "05 unroll gemm",
    "shape": "lenet86 layer 1",
    "source": "12345678",
    "kernel": "gemm",
}
INSTRUCTIONS = pd.DataFrame(
    [
        {
            **OWNER,
            "line": line,
            "instruction": name,
            "space": "shared",
            "op": op,
            "bytes": size,
            "predicated": False,
            "count": count,
        }
        for line, name, op, size, count in (
            (58, "STS", "st", 4, 1),
            (64, "LDS", "ld", 4, 16),
            (64, "LDS.128", "ld", 16, 4),
        )
    ]
)
SITES = pd.DataFrame(
    [
        {
            "launch": 0,
            "line": 58,
            "space": "shared",
            "op": "st",
            "size": 4,
            "requests": 1000,
            "wavefronts": 1000.0,
        },
        {
            "launch": 0,
            "line": 64,
            "space": "shared",
            "op": "ld",
            "size": 4,
            "requests": 32000,
            "wavefronts": 32000.0,
        },
        {
            "launch": 0,
            "line": 68,
            "space": "global",
            "op": "st",
            "size": 4,
            "requests": 5,
            "wavefronts": np.nan,
        },
    ]
)


def explained(ours, theirs, instructions=INSTRUCTIONS, sites=SITES):
    """Map each counter of one launch to its explained row."""
    ours, theirs = (pd.DataFrame([{**OWNER, **values}]) for values in (ours, theirs))
    table = script.explain_rows(
        script.compare_tables(ours, theirs), script.Code(sites, instructions)
    )
    return {row.counter: row for row in table.itertuples()}


def test_joined_loads_are_predicted_by_the_machine_code():
    loads = {"shared_load_instructions": 32000, "shared_load_wavefronts": 32000}
    rows = explained(loads, {"shared_load_instructions": 20000, "shared_load_wavefronts": 24000})
    instructions, wavefronts = rows["shared_load_instructions"], rows["shared_load_wavefronts"]
    assert (instructions.as_written, instructions.expected) == (False, 20000)
    assert wavefronts.expected == 16000 + 2 * 4000
    assert instructions.why == wavefronts.why == "line 64: 16 LDS, 4 LDS.128"


@pytest.mark.parametrize(("left", "expected"), [("LDS", 40000), ("LDS.128", 16000)])
def test_loads_that_are_not_joined_keep_their_conflicts(left, expected):
    """Such as a tile's loads, beside a row of weights that all lanes share."""
    conflicts = SITES.assign(
        wavefronts=SITES["wavefronts"] + np.where(SITES["line"] == 64, 16000, 0)
    )
    code = INSTRUCTIONS.copy()
    code.loc[(code["line"] == 64) & (left == "LDS.128"), "bytes"] = 16  # all of them are joined
    row = explained(
        {"shared_load_wavefronts": 48000}, {"shared_load_wavefronts": 24000}, code, conflicts
    )
    assert row["shared_load_wavefronts"].expected == expected


def explain_stores(requests, sectors, sizes=(4, 16)):
    """Return the rows of stores of 16 bytes per lane, 10 in the source, which nvcc makes 13 of: 4 of one of them."""
    made = [("STG.E", sizes[0], 4), ("STG.E.128", sizes[1], 9)]
    store = {"line": 128, "space": "global", "op": "st"}
    code = [
        {**OWNER, **store, "instruction": name, "bytes": size, "predicated": True, "count": count}
        for name, size, count in made
    ]
    site = {
        "launch": 0,
        **store,
        "size": 16,
        "requests": 400,
        "sectors": 6400,
        "wavefronts": np.nan,
    }
    return explained(
        {"global_store_requests": 400, "global_store_sectors": 6400},
        {"global_store_requests": requests, "global_store_sectors": sectors},
        pd.DataFrame(code),
        pd.DataFrame([site]),
    )


def test_stores_that_nvcc_splits_are_predicted_by_the_machine_code():
    rows = explain_stores(520, 8320)
    assert [row.expected for row in rows.values()] == [520, 8320]
    assert {row.why for row in rows.values()} == {"line 128: 4 STG.E, 9 STG.E.128"}
    # a number that does not follow, and instructions as wide as the source's stores
    for others in (explain_stores(700, 11200), explain_stores(520, 8320, sizes=(16, 16))):
        assert all(row.why == "" and np.isnan(row.expected) for row in others.values())


@pytest.mark.parametrize(("instructions", "wavefronts"), [(22000, 19000), (32000, 33000)])
def test_what_the_machine_code_does_not_predict_has_no_reason(instructions, wavefronts):
    loads = {"shared_load_instructions": 32000, "shared_load_wavefronts": 32000}
    rows = explained(
        loads, {"shared_load_instructions": instructions, "shared_load_wavefronts": wavefronts}
    )
    assert rows["shared_load_instructions"].why == rows["shared_load_wavefronts"].why == ""


def test_a_kernel_whose_machine_code_is_not_recorded_is_told_from_an_unknown_reason():
    loads = {"shared_load_instructions": 32000}, {"shared_load_instructions": 20000}
    assert (
        "not been recorded"
        in explained(*loads, INSTRUCTIONS.iloc[:0])["shared_load_instructions"].unknown
    )
    assert explained(*loads)["shared_load_instructions"].unknown == "unknown"


def test_accesses_as_written_have_no_reason():
    row = explained({"shared_store_wavefronts": 1000}, {"shared_store_wavefronts": 1100})[
        "shared_store_wavefronts"
    ]
    assert (row.as_written, row.why) == (True, "") and row.error > script.ALLOWED


THEIRS = pd.DataFrame(
    [
        {
            **OWNER,
            "device": "NVIDIA H200",
            "date": "2026-11-21",
            "shared_load_wavefronts": 5000,
            "shared_load_needed": 5000,
            "shared_load_conflicts": 7,
            "shared_store_wavefronts": 1100,
            "shared_store_needed": 1000,
            "shared_store_conflicts": 130,
        }
    ]
)


def test_wavefronts_that_no_address_needs_are_subtracted():
    counters = script.separate_extra_wavefronts(THEIRS).iloc[0]
    names = [
        f"shared_{op}_{name}"
        for op in ("store", "load")
        for name in ("wavefronts", "conflicts", "added")
    ]
    assert counters[names].tolist() == [1000, 30, 100, 5000, 7, 0]
    text = script.format_extra_wavefronts(script.separate_extra_wavefronts(THEIRS))
    assert "| 05 unroll gemm | lenet86 layer 1 | gemm | stores | 1,000 | 100 |\n" in text
    assert "| loads |" not in text


def test_predicated_instructions_run_for_warps_without_a_lane():
    predicated = INSTRUCTIONS.assign(predicated=True)
    rows = explained(
        {"shared_store_instructions": 1000}, {"shared_store_instructions": 1500}, predicated
    )
    assert rows["shared_store_instructions"].why.startswith("line 58: 1 STS executed also")


def test_the_report_counts_what_agrees_and_names_what_does_not():
    ours = {
        "global_load_sectors": 100,
        "shared_load_instructions": 32000,
        "shared_store_wavefronts": 1000,
    }
    theirs = {
        "global_load_sectors": 103,
        "shared_load_instructions": 20000,
        "shared_store_wavefronts": 1000,
    }
    table = pd.DataFrame(explained(ours, theirs).values())
    texts = script.write_report(table, script.separate_extra_wavefronts(THEIRS), "nvcc 13.0, sm_90")
    text = "".join(texts.values())
    assert "| global loads and stores | 1 | 0 | 1 without |" in text
    assert "| shared memory, accesses as written | 1 | 1 |  |" in text
    assert "| shared memory, accesses joined by nvcc | 1 | 0 | 1 with a reason |" in text
    assert (
        "| shared load instructions | 32,000 | 20,000 | 20,000 | line 64: 16 LDS, 4 LDS.128 |"
        in text
    )
    assert "| 100 / 103 |" in text


def test_other_launches_are_refused():
    a, b, twice = (
        pd.DataFrame(
            [{**OWNER, "source": text, "global_load_sectors": n} for n, text in enumerate(texts, 1)]
        )
        for texts in ("a", "b", "bb")
    )
    with pytest.raises(script.LabError, match="other sources"):
        script.compare_tables(a, b)
    table = script.compare_tables(pd.concat([a, twice], ignore_index=True), twice)
    assert table[["launch", "counted", "ncu"]].to_numpy().tolist() == [[1, 1, 1], [2, 2, 2]]
    assert table.attrs["left_out"] == ["05 unroll gemm (lenet86 layer 1)"]


def test_every_kernel_file_of_the_ladder_is_compared():
    compared = {job.variant.path.name for job in script.jobs.list_ladder_jobs()}
    expected = {path.name for path in cuda_src().rglob("*.cu") if "training" not in path.parts}
    expected |= {kernel.path.name for kernel in solutions()}
    expected -= {"00_network.cu", "13_network.cu", "buffers.cu"}
    expected -= {"warpgroups.cu"}  # on the CPU engine other instructions than on an H200
    assert compared == expected


def test_the_solutions_of_the_practice_pages_are_compared():
    practice = {job.exercise: job for job in script.jobs.list_all_jobs() if job.group == "practice"}
    assert practice.keys() == {number for number in exercises() if number.startswith("P")}
    counted, _ = script.count_on_cpu([practice["P6a"], practice["P7b"]])
    counts = counted.set_index(["program", "shape"])["atomic_requests"].to_dict()
    assert counts == {
        ("P6 double buffer, a_in_the_background.cu", "512 numbers"): 0,
        ("P7 persistent grid, b_from_a_queue.cu", "48 rows"): 48 + 4,
    }
