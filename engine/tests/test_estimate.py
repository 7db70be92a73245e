"""Estimated times: what the engine counts for them, the machine code, the units, and what gets no time."""

import dataclasses
import json
import math
import re
import sys

import numpy as np
import pytest

import hostcuda.estimate as estimate
from hostcuda.check.instrument import FLOW
from hostcuda.errors import EngineError
from hostcuda.estimate import constants, flow, model
from hostcuda.estimate.work import CODE, merged, work
from hostcuda.gpu import sass
from hostcuda.gpu.sass import Block, Instruction
from hostcuda.profile import recorded
from hostcuda.runtime.elf import Elf

pytestmark = pytest.mark.thorough("tools and documents of the engine")

H200 = model.card("H200")

PROGRAM = """
#include <cuda_runtime.h>
__constant__ float table[4096];
__global__ void copy(const float *x, float *y) { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[i]; }
__global__ void strided(const float *x, float *y) { int i = threadIdx.x; y[i] = x[32 * i]; }
__global__ void shared(float *y) {
    __shared__ float s[64];
    int i = threadIdx.x;
    s[i] = i;
    __syncthreads();
    y[i] = s[i] + s[blockIdx.x];
}
__global__ void loop(const float *x, float *y, int n) {
    float sum = 0;
    for (int k = 0; k < n; k++) sum += x[k] * table[k];
    y[threadIdx.x] = sum;
}
int main() {
    float *x, *y;
    cudaMalloc(&x, 1 << 20);
    cudaMalloc(&y, 1 << 20);
    cudaMemset(x, 0, 1 << 20);
    copy<<<8, 64>>>(x, y);
    strided<<<1, 64>>>(x, y);
    shared<<<2, 64>>>(y);
    loop<<<2, 64>>>(x, y, 100);
    return cudaDeviceSynchronize();
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("estimate") / "program.cu"
    path.write_text(PROGRAM)
    return path


@pytest.fixture(scope="module")
def counted(program):
    launches, modules, ended = recorded([sys.executable, "-m", "hostcuda", "run", str(program)])
    ended.require("counting")
    return {record["kernel"]: record for record in launches}, modules


@pytest.fixture(scope="module")
def records(counted):
    return counted[0]


def _sites(record, space, op):
    (site,) = [row for row in record["sites"] if (row["space"], row["op"]) == (space, op)]
    return site


def test_each_request_has_its_passes_lines_and_new_sectors(records):
    load = _sites(records["copy"], "global", "ld")
    assert (load["requests"], load["passes"], load["lines"], load["loaded"]) == (16, 16, 16, 64)
    # 32 lanes, 128 bytes apart: one bank, 32 lines
    load = _sites(records["strided"], "global", "ld")
    assert (load["requests"], load["passes"], load["lines"], load["loaded"]) == (2, 64, 64, 64)


def test_a_sector_is_new_once_per_block(records):
    # 100 words are 13 sectors, for two warps of each of two blocks
    load = _sites(records["loop"], "global", "ld")
    assert (load["requests"], load["loaded"]) == (400, 2 * 13)


def test_requests_of_one_or_two_addresses_are_counted(records):
    load = [
        site
        for site in records["shared"]["sites"]
        if (site["space"], site["op"]) == ("shared", "ld")
    ]
    assert sum(site["broadcast"] for site in load) == 4  # s[blockIdx.x], by 4 warps


def test_the_engine_says_how_often_each_block_ran(records):
    record = records["loop"]
    blocks = json.loads(Elf(record["module"]).content(FLOW))
    plays = flow.count_executions(record, blocks)
    lines = flow.count_by_line(record, blocks, plays)
    line = next(number for number, text in enumerate(PROGRAM.splitlines(), 1) if "sum += x" in text)
    assert lines["program.cu", line].arithmetic == 400
    assert max(plays) >= 400


def test_constant_requests_are_traced_in_order(records):
    traces = records["loop"]["constant_traces"]
    assert len(traces) == 2  # a warp of each block
    for trace in traces:
        lines = [
            (line, times)
            for piece in trace
            for line, times in zip(piece[::2], piece[1::2], strict=True)
        ]
        assert sum(times for _, times in lines) == 100
        assert [line for line, _ in lines] == sorted(line for line, _ in lines)
        assert len({line for line, _ in lines}) == 7  # 400 bytes, 64 per line


# ------------------------------------------------------------------------------- the constant cache
def _march(lines):
    return [[line, 16] for line in range(lines)]


@pytest.mark.parametrize(
    ("traces", "warps", "blocks", "least", "most"),
    [
        ([_march(12)] * 4, 4, 4, 0, 0.002),
        ([_march(200)], 1, 1, 0.8 / 16, 1.2 / 16),
        ([], 8, 8, 0, 0),
    ],
    ids=[
        "a table that fits is loaded once",
        "a large one misses once per line",
        "no requests miss nothing",
    ],
)
def test_the_rate_of_misses(traces, warps, blocks, least, most):
    assert least <= constants.miss_rate(traces, warps=warps, blocks=blocks) <= most


def test_warps_far_apart_displace_each_others_lines():
    alone = constants.miss_rate([_march(800)], warps=1, blocks=1)
    assert constants.miss_rate([_march(800)], warps=1, blocks=32) > 2 * alone


def test_barriers_keep_the_warps_of_a_block_together():
    marching = [[line, 16] for line in range(400)]
    meeting = [piece for line in range(400) for piece in ([line, 16], [0, 0])]
    assert constants.miss_rate([meeting], 8, 1) <= constants.miss_rate([marching], 8, 1)


# ------------------------------------------------------------------------------------- machine code
SASS = """
\t.section\t.text.f,"ax",@progbits
.text.f:
        //## File "/a/f.cu", line 3
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   ISETP.GE.AND P0, PT, R2, R3, PT ;
        /*0020*/               @P0 BRA `(.L_x_1) ;
.L_x_0:
        //## File "/a/g.h", line 9 inlined at "/a/f.cu", line 5
        //## File "/a/f.cu", line 5
        /*0030*/                   LDG.E.128 R4, desc[UR4][R8.64] ;
        /*0040*/                   FFMA R0, R4, c[0x3][0x10], R0 ;
        /*0050*/              @!P1 BRA `(.L_x_0) ;
.L_x_1:
        //## File "/a/f.cu", line 7
        /*0060*/                   STG.E desc[UR4][R8.64], R0 ;
        /*0070*/                   EXIT ;
"""


def test_blocks_and_what_may_follow_them():
    (blocks,) = sass.read(SASS).values()
    assert [[instruction.name for instruction in block.code] for block in blocks] == [
        ["LDC", "ISETP", "BRA"],
        ["LDG", "FFMA", "BRA"],
        ["STG", "EXIT"],
    ]
    assert [block.next for block in blocks] == [[2, 1], [1, 2], []]
    load = blocks[1].code[0]
    assert (load.pipe, load.bytes, load.places) == ("global", 16, (("g.h", 9), ("f.cu", 5)))
    assert blocks[1].code[1].pipe == "fma"


def test_a_warp_waits_for_its_load():
    (blocks,) = sass.read(SASS).values()
    near, far = (sass.warp_cycles(blocks[1].code, cycles) for cycles in (36, 280))
    assert far - near == 280 - 36


def _record(counts, block=(32, 1, 1), grid=(1, 1, 1), plays=()):
    sites = [
        {"file": "f.cu", "line": line, "space": space, "op": op, "size": size, "requests": requests}
        for line, space, op, size, requests in counts
    ]
    return {"sites": sites, "plays": list(plays), "block": list(block), "grid": list(grid)}


def test_executions_follow_from_the_requests_of_each_line():
    (blocks,) = sass.read(SASS).values()
    # 25 loads of 16 bytes, as 100 of 4 bytes in the source; one store.
    record = _record([(5, "global", "ld", 4, 100), (7, "global", "st", 4, 1)])
    solution = flow.solve(blocks, record, [])
    assert solution.times == pytest.approx([1, 25, 1], rel=0.01)
    assert solution.missed < 0.01


def test_counts_that_do_not_fit_the_code_are_told():
    code = [
        Instruction(word, "", "R0, R0, R0, R0", (("f.cu", 5),))
        for word in ("LDG.E", "STG.E", "EXIT")
    ]
    record = _record([(5, "global", "ld", 4, 100), (5, "global", "st", 4, 1)])
    assert flow.solve([Block("entry", code)], record, []).missed > 0.3


@pytest.mark.skipif(not estimate.fine(), reason="no nvcc, no nvdisasm or no SciPy here")
def test_nvccs_code_executes_what_the_source_says(counted):
    records, modules = counted
    kind, rows = estimate.works([records["loop"]], modules)
    assert kind == "fine"
    assert rows[0][f"{CODE}fma"] == pytest.approx(400, rel=0.02)
    assert rows[0][f"{CODE}missed"] < 0.05
    assert 0 < rows[0][f"{CODE}occupancy"] <= 1


# ---------------------------------------------------------------------------------------- the units
def _work(records, kernel):
    record = records[kernel]
    return work(record, json.loads(Elf(record["module"]).content(FLOW))) | {"kernel": kernel}


def _with_code(own, **more):
    """Return work with the figures of a machine code that fits it and limits nothing."""
    hosts = sum(own[name] for name in ("arithmetic", "integer", "branches", "memory_instructions"))
    code = {
        "instructions": hosts,
        "occupancy": 1.0,
        "missed": 0.0,
        "warp_cycles": 1.0,
        "warp_cycles_l2": 1.0,
    }
    return own | {f"{CODE}{name}": value for name, value in {**code, **more}.items()}


@pytest.fixture
def copy(records):
    """Return the work of a copy by 2^21 blocks of 64 floats, in and out."""
    return _with_code(merged([_work(records, "copy")], 2**18)) | {"kernel": "copy"}


# the card, as if copies had been timed well
KNOWN = dataclasses.replace(H200, intervals={"DRAM": (0.9, 1.2)})


def test_a_copy_takes_as_long_as_its_bytes(copy):
    bytes_moved = 2 * 4 * 64 * 2**21
    assert copy["unique_bytes"] == bytes_moved
    assert model.time_ms(copy, H200) == pytest.approx(
        bytes_moved / (H200.dram_tb_s * 1e9) + H200.launch_ms, rel=0.02
    )
    estimated = estimate.estimated([copy], "fine", KNOWN)
    assert (
        estimated.busiest == "DRAM" and not estimated.why_not and "not measured" in estimated.note
    )
    assert "the launch itself" in estimated.units and "launch" not in estimated.units


def test_only_an_interval_of_two_digits_is_shown(copy):
    estimated = estimate.estimated([copy], "fine", KNOWN)
    most = model.time_ms(copy, H200)
    assert estimated.interval == pytest.approx((0.9 * (most - H200.launch_ms), 1.2 * most))
    assert str(estimated) == "0.23 to 0.32 ms. Busiest: DRAM" and not hasattr(estimated, "ms")
    assert {"low_ms", "high_ms"} <= {*estimated.table} and "ms" not in estimated.table
    assert re.findall(r"\d+\.\d+", repr(estimated.launches())) == ["0.23", "0.32"]


def test_a_limit_that_was_not_predicted_well_gets_no_time(copy):
    estimated = estimate.estimated(
        [copy], "fine", dataclasses.replace(H200, intervals={"L1 data pipe": (0.9, 1.2)})
    )
    assert estimated.busiest == "DRAM" and math.isnan(estimated.interval[0])
    assert "limited by DRAM" in estimated.why_not and str(estimated).startswith(
        "no time (copy: it is limited"
    )


def test_without_machine_code_there_is_a_unit_and_no_time(copy, monkeypatch):
    monkeypatch.setattr(estimate, "nvcc_available", lambda: True)
    monkeypatch.setattr(estimate.nsight, "find", lambda tool: None)
    estimated = estimate.estimated([copy], "coarse", KNOWN)
    assert estimated.busiest == "DRAM"
    assert str(estimated) == "no time. Busiest: DRAM"  # the reason is told once, in the note
    text = f"{estimated.against(estimated)}. {estimated.note}"
    assert (
        text.count("counts alone (nvdisasm is missing: pip install nvidia-cuda-nvdisasm (4 MB))")
        == 1
    )
    assert text.count("nvdisasm is missing") == 1 and "coarse" not in text


def test_few_blocks_fill_little_of_the_card_and_wait(copy):
    one = copy | {
        "blocks": 1,
        "warps": 8,
        "block_warps": 8,
        f"{CODE}warp_cycles": 1e7,
        f"{CODE}warp_cycles_l2": 1e7,
    }
    many = one | {
        "blocks": 1056,
        "warps": 8448,
        f"{CODE}warp_cycles": 1e4,
        f"{CODE}warp_cycles_l2": 1e4,
    }
    assert model.time_ms(one, KNOWN) > 10 * model.time_ms(many, KNOWN)  # the same bytes
    assert estimate.estimated([one], "fine", KNOWN).busiest == "latency"
    assert "the warps of its 1 blocks are 0.095 % of what the card holds" in estimate.why_not(
        one, KNOWN
    )
    assert not estimate.why_not(many, KNOWN)


def test_sectors_written_in_part_take_longer(records):
    own = _work(records, "copy") | {"stored_sectors": 1e6, "unique_bytes": 0}
    full, half = ({**own, "stored_bytes": share * 32e6} for share in (1.0, 0.5))
    assert model.unit_times(half, H200)["L2 writes"] == pytest.approx(
        1.5 * model.unit_times(full, H200)["L2 writes"]
    )


def test_what_was_not_validated_gets_a_unit_but_no_time(copy):
    assert not estimate.why_not(copy, KNOWN)
    loaded, stored = 32 * copy["loaded_sectors"], copy["stored_bytes"]
    for more, words in (
        ({"atomic_sectors": 100.0}, "atomic"),
        ({f"{CODE}tensor": 1.0}, "tensor cores"),
        ({"matrices": 1.0}, "tensor cores"),
        ({f"{CODE}occupancy": 0.1}, "its occupancy is 10 %"),
        ({f"{CODE}missed": 0.5}, "does not fit"),
        ({f"{CODE}fp64": copy[f"{CODE}instructions"]}, "half or double precision"),
        ({f"{CODE}local": copy["memory_instructions"]}, "spill"),
        ({"lane_bytes": 3 * (loaded + stored)}, "few lanes"),
        ({"loaded_bytes": loaded / 8}, "gathers, or reads with a stride"),
        ({f"{CODE}xu": 1e9}, "slow functions"),
        (
            {"loaded_sectors": 2 * copy["loaded_sectors"], "loaded_bytes": 2 * loaded},
            "as a stencil's do",
        ),
    ):
        assert words in estimate.why_not(copy | more, KNOWN), more
    estimated = estimate.estimated([copy | {"atomic_sectors": 100.0}], "fine", KNOWN)
    assert math.isnan(estimated.interval[1]) and estimated.busiest and estimated.table["why_not"][0]


def test_an_edit_is_told_beside_what_was_before(copy):
    after = copy | {
        name: 0.6 * copy[name] for name in copy if name.endswith(("_bytes", "_sectors"))
    }

    def both(one, other):
        return estimate.estimated([one], "fine", KNOWN).against(
            estimate.estimated([other], "fine", KNOWN)
        )

    assert both(after, copy) == "0.14 to 0.19 ms; before 0.23 to 0.32 ms. Busiest: DRAM, as before"
    atomic = {"atomic_sectors": 100.0}
    for now, before, words in (
        (after, copy, "less time than"),
        (copy, after, "more time than"),
        (copy, copy, "about as much time as"),
    ):
        text = both(now | atomic, before)
        assert (
            text.startswith("no time (copy: its atomic operations")
            and f"busiest unit needs {words} before" in text
        )


def test_an_unknown_card_is_refused():
    with pytest.raises(
        EngineError, match="no estimate for 'A100': times were recorded on NVIDIA H200"
    ):
        model.card("A100")


# -------------------------------------------------------------------------------------- the command
def test_the_command_estimates_each_kernel(program, tmp_path, hostcuda_command):
    options = "--json", "--csv", tmp_path / "out.csv"
    status, out, err = hostcuda_command("profile", "--estimate", "H200", *options, program)
    assert status == 0, err
    rows = json.loads(out)
    assert [row["kernel"] for row in rows] == ["copy", "strided", "shared", "loop"]
    # few blocks, or no nvcc
    assert all(row["busiest"] and row["why_not"] and row["low_ms"] is None for row in rows)
    assert (tmp_path / "out.csv").read_text().count("\n") == 5


def test_the_command_refuses_what_it_cannot_estimate(write_program, hostcuda_command):
    empty = write_program("int main() { return 0; }")
    for card, words in (("B100", "no estimate for 'B100'"), ("H200", "no kernel was launched")):
        assert words in hostcuda_command("profile", "--estimate", card, empty)[2]


def test_the_flow_is_in_the_file_and_not_in_memory(records):
    sections = {section.name: section for section in Elf(records["copy"]["module"]).sections}
    assert sections[FLOW].flags == 0
    assert (
        np.frombuffer(Elf(records["copy"]["module"]).content(FLOW), np.uint8).size
        == sections[FLOW].bytes
    )
