"""What NVIDIA's tools print, read: pieces of real output of ncu and compute-sanitizer 2025.3 on an H200."""

import pytest

from hostcuda.errors import EngineError
from hostcuda.gpu import nsight

pytestmark = pytest.mark.core("the names of every count")

LOADS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
CSV = f'''==PROF== Connected to process 1425 (/usr/bin/python3.12)
==WARNING== Note: Running with unmodified GPU clocks. If not controlled otherwise, results may be inconsistent.
==PROF== Disconnected from process 1425
"ID","Process ID","Kernel Name","Context","Stream","Block Size","Grid Size","{LOADS}","l1tex__t_sector_hit_rate.pct"
"","","","","","","","","%"
"0","1425","conv","1","7","(16, 16, 1)","(25, 4, 1000)","78,400,000","97.38"
"1","1425","void gemm<16>(const float *, int)","1","7","(16, 16, 1)","(9, 16, 2)","n/a","97.73"
'''


def test_one_row_per_launch():
    first, second = nsight.read_ncu(CSV)
    assert first == {
        "index": 0,
        "kernel": "conv",
        "grid": (25, 4, 1000),
        "block": (16, 16, 1),
        LOADS: 78_400_000,
        "l1tex__t_sector_hit_rate.pct": 97.38,
    }
    assert second["kernel"] == "void gemm<16>(const float *, int)"
    assert LOADS not in second, "a metric that was not collected is not zero"


def test_what_is_left_out():
    """Metrics that were not asked for, and a row that was cut off; no launch is no error."""
    first, _ = nsight.read_ncu(CSV, [LOADS])
    assert LOADS in first and "l1tex__t_sector_hit_rate.pct" not in first
    assert len(nsight.read_ncu(CSV[:-40])) == 1
    assert nsight.read_ncu("==WARNING== No kernels were profiled.\n") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access GPU counters",
            "admin",
        ),
        ("==ERROR== Failed to find metric nonsense.sum\n", "nonsense.sum"),
        ('"ID","Name"\n"0","conv"\n', "Kernel Name"),
    ],
)
def test_ncu_says_why_there_are_no_counters(text, words):
    with pytest.raises(EngineError, match=words):
        nsight.read_ncu(text)


def test_a_machine_without_the_tools(monkeypatch, tmp_path):
    monkeypatch.setattr(nsight, "find", lambda tool: None)
    with pytest.raises(EngineError, match="ncu is not on this machine"):
        nsight.ncu_command(["python"], tmp_path / "log")
    with pytest.raises(EngineError, match="compute-sanitizer is not on this machine"):
        nsight.sanitizer_command(["python"], "memcheck", tmp_path / "log")


MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at no_guard+0xc0 in bounds.cu:33
=========     by thread (4,0,0) in block (3,0,0)
=========     Access to 0x7fde92800390 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7fde92800200 of size 400 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at no_guard+0xc0 in bounds.cu:33
=========     by thread (5,0,0) in block (3,0,0)
=========     Access to 0x7fde92800394 is out of bounds
=========     and is 5 bytes after the nearest allocation at 0x7fde92800200 of size 400 bytes
=========
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) due to "unspecified launch failure" on CUDA API call.
=========
========= ERROR SUMMARY: 3 errors
"""


def test_reports_of_one_line_are_one_finding():
    (finding,) = nsight.read_sanitizer(MEMCHECK, "memcheck")
    assert (finding["kind"], finding["kernel"]) == ("out of bounds", "no_guard")
    assert (finding["file"], finding["line"]) == ("bounds.cu", 33)
    assert (finding["thread"], finding["block"], finding["count"]) == ((4, 0, 0), (3, 0, 0), 2)
    assert finding["address"] == 0x7FDE92800390 and finding["size"] == 4
    assert finding["buffer"] == {"base": 0x7FDE92800200, "bytes": 400, "missed_by": 4}


@pytest.mark.parametrize(
    "name", ["no_guard(float *, int)", "void no_guard<(int)4>(float *, const int *)"]
)
def test_a_signature_may_have_blanks(name):
    (finding,) = nsight.read_sanitizer(MEMCHECK.replace("no_guard", name), "memcheck")
    assert finding["kernel"].startswith("no_guard") and (finding["file"], finding["line"]) == (
        "bounds.cu",
        33,
    )


READ, NEAREST = (
    "Invalid __global__ read of size 4 bytes",
    "the nearest allocation at 0x7f6c800000 of size 400 bytes",
)


@pytest.mark.parametrize(
    ("head", "place", "more", "tool", "kind", "missed"),
    [
        (
            READ,
            " in a.cu:7",
            f"Access to 0x7f6c7ffffc is out of bounds\n=========     and is 4 bytes before {NEAREST}",
            "memcheck",
            "out of bounds",
            -4,
        ),
        (
            READ,
            " in a.cu:7",
            f"Access to 0x0 is out of bounds\n=========     and is 140,117,914 bytes before {NEAREST}",
            "memcheck",
            "null pointer",
            None,
        ),
        (
            READ,
            " in a.cu:7",
            f"Access to 0x7f6c800004 is misaligned\n=========     and is inside {NEAREST}",
            "memcheck",
            "misaligned",
            None,
        ),
        (
            "Invalid __shared__ write of size 4 bytes",
            "",
            "Access to 0x500 is out of bounds",
            "memcheck",
            "out of bounds",
            None,
        ),  # an address in shared memory is no null pointer
        (
            "Barrier error detected. Divergent thread(s) in block.",
            " in a.cu:7",
            "",
            "synccheck",
            "divergent barrier",
            None,
        ),
        (
            "Uninitialized __global__ memory read of size 4 bytes",
            " in a.cu:7",
            "",
            "initcheck",
            "uninitialized",
            None,
        ),
    ],
)
def test_kinds_of_errors(head, place, more, tool, kind, missed):
    lines = [
        head,
        f"    at f+0x60{place}",
        "    by thread (32,0,0) in block (1,0,0)",
        f"    {more}",
    ]
    (finding,) = nsight.read_sanitizer("\n".join(f"========= {line}" for line in lines), tool)
    assert (finding["kind"], finding["kernel"], finding["line"]) == (kind, "f", 7 if place else 0)
    assert (finding["thread"], finding["block"], finding["message"]) == (
        (32, 0, 0),
        (1, 0, 0),
        head,
    )
    assert (finding["buffer"] or {"missed_by": None})["missed_by"] == missed


def test_a_race_names_both_sides():
    text = """========= Error: Potential RAW hazard detected at __shared__ 0x47c in block (0,0,0) :
=========     Write Thread (31,0,0) at tile+0xe0 in races.cu:8
=========     Read Thread (32,0,0) at tile+0xf0 in races.cu:10
=========     Current Value : 0
=========
========= Error: Potential RAW hazard detected at __shared__ 0x47d in block (0,0,0) :
=========     Write Thread (31,0,0) at tile+0xe0 in races.cu:8
=========     Read Thread (32,0,0) at tile+0xf0 in races.cu:10
=========     Current Value : 0
=========
========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)
"""
    (finding,) = nsight.read_sanitizer(text, "racecheck")
    assert (finding["kind"], finding["line"], finding["thread"]) == ("race", 8, (31, 0, 0))
    assert finding["other"] == {"file": "races.cu", "line": 10, "thread": (32, 0, 0)}
    assert finding["block"] == (0, 0, 0) and finding["count"] == 2 and "RAW" in finding["message"]


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_a_clean_report_has_no_findings(tool):
    summary = {
        "memcheck": "ERROR SUMMARY: 0 errors",
        "racecheck": "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)",
    }
    assert (
        nsight.read_sanitizer(f"========= COMPUTE-SANITIZER\n========= {summary[tool]}\n", tool)
        == []
    )
