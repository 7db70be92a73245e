"""Estimated times: what the engine counts for them, the machine code, the units, and what gets no time."""

import json
import math
import shutil
import subprocess
import sys

import numpy as np
import pytest

import hostcuda.estimate as estimate
from hostcuda.check.instrument import FLOW
from hostcuda.errors import EngineError
from hostcuda.estimate import constants, flow, model
from hostcuda.estimate.work import CODE, merged, without_code, work
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
    load = _sites(records["strided"], "global", "ld")  # 32 lanes, 128 bytes apart: one bank, 32 lines
    assert (load["requests"], load["passes"], load["lines"], load["loaded"]) == (2, 64, 64, 64)


def test_a_sector_is_new_once_per_block(records):
    load = _sites(records["loop"], "global", "ld")  # 100 words are 13 sectors, for two warps of each of two blocks
    assert (load["requests"], load["loaded"]) == (400, 2 * 13)


def test_requests_of_one_or_two_addresses_are_counted(records):
    load = [site for site in records["shared"]["sites"] if (site["space"], site["op"]) == ("shared", "ld")]
    assert sum(site["broadcast"] for site in load) == 4  # s[blockIdx.x], by 4 warps


def test_the_engine_says_how_often_each_block_ran(records):
    record = records["loop"]
    blocks = json.loads(Elf(record["module"]).content(FLOW))
    plays = flow.executions(record, blocks)
    lines = flow.lines(record, blocks, plays)
    line = next(number for number, text in enumerate(PROGRAM.splitlines(), 1) if "sum += x" in text)
    assert lines["program.cu", line].arithmetic == 400
    assert max(plays) >= 400


def test_constant_requests_are_traced_in_order(records):
    traces = records["loop"]["constant_traces"]
    assert len(traces) == 2  # a warp of each block
    for trace in traces:
        lines = [(line, times) for piece in trace for line, times in zip(piece[::2], piece[1::2], strict=True)]
        assert sum(times for _, times in lines) == 100
        assert [line for line, _ in lines] == sorted(line for line, _ in lines)
        assert len({line for line, _ in lines}) == 7  # 400 bytes, 64 per line


# ------------------------------------------------------------------------------------------------- the constant cache
def _march(lines):
    return [[line, 16] for line in range(lines)]


def test_a_table_that_fits_is_loaded_once():
    assert constants.miss_rate([_march(12)] * 4, warps=4, blocks=4) < 0.002


def test_a_large_table_misses_once_per_line_and_warp_that_is_alone():
    assert constants.miss_rate([_march(200)], warps=1, blocks=1) == pytest.approx(1 / 16, rel=0.2)


def test_warps_far_apart_displace_each_others_lines():
    alone = constants.miss_rate([_march(800)], warps=1, blocks=1)
    assert constants.miss_rate([_march(800)], warps=1, blocks=32) > 2 * alone


def test_barriers_keep_the_warps_of_a_block_together():
    marching = [[line, 16] for line in range(400)]
    meeting = [piece for line in range(400) for piece in ([line, 16], [0, 0])]
    assert constants.miss_rate([meeting], 8, 1) <= constants.miss_rate([marching], 8, 1)


def test_no_requests_miss_nothing():
    assert constants.miss_rate([], 8, 8) == 0


# ------------------------------------------------------------------------------------------------- machine code
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
        ["LDC", "ISETP", "BRA"], ["LDG", "FFMA", "BRA"], ["STG", "EXIT"],
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
    code = [Instruction(word, "", "R0, R0, R0, R0", (("f.cu", 5),)) for word in ("LDG.E", "STG.E", "EXIT")]
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


# ------------------------------------------------------------------------------------------------- the units
def _work(records, kernel):
    record = records[kernel]
    return work(record, json.loads(Elf(record["module"]).content(FLOW))) | {"kernel": kernel}


def test_a_copy_takes_as_long_as_its_bytes(records):
    own = merged([_work(records, "copy")], 2**18)  # 2^21 blocks of 64 floats, in and out
    bytes_moved = 2 * 4 * 64 * 2**21
    assert own["unique_bytes"] == bytes_moved
    assert model.time_ms(own, H200) == pytest.approx(bytes_moved / (H200.dram_tb_s * 1e9) + H200.launch_ms, rel=0.02)
    estimated = estimate.estimated([own | {"kernel": "copy"}], "coarse", H200)
    assert estimated.busiest == "DRAM" and not estimated.why_not
    low, high = estimated.interval
    assert low < estimated.ms < high
    assert str(estimated).startswith("about ") and "coarse" in estimated.note and "not measured" in estimated.note


def test_sectors_written_in_part_take_longer(records):
    own = _work(records, "copy") | {"stored_sectors": 1e6, "unique_bytes": 0}
    full, half = ({**own, "stored_bytes": share * 32e6} for share in (1.0, 0.5))
    assert model.units(half, H200)["L2 writes"] == pytest.approx(1.5 * model.units(full, H200)["L2 writes"])


def test_what_was_not_validated_gets_a_unit_but_no_time(records):
    own = _work(records, "copy")
    for more, words in (
        ({"atomic_sectors": 100.0}, "atomic"),
        ({f"{CODE}tensor": 1.0}, "tensor cores"),
        ({"matrices": 1.0}, "tensor cores"),
        ({f"{CODE}occupancy": 0.1}, "occupancy"),
        ({f"{CODE}missed": 0.5}, "does not fit"),
        ({f"{CODE}fp64": 9.0, f"{CODE}instructions": 10.0}, "half or double precision"),
        ({f"{CODE}local": 1000.0}, "spill"),
    ):
        assert words in estimate.why_not(own | more)
    estimated = estimate.estimated([without_code(own) | {"atomic_sectors": 100.0}], "coarse", H200)
    assert math.isnan(estimated.ms) and estimated.busiest and estimated.table["why_not"][0]


def test_an_edit_is_told_beside_what_was_before(records):
    before = merged([_work(records, "copy")], 2**18) | {"kernel": "copy"}
    after = before | {"unique_bytes": before["unique_bytes"] / 4}
    text = estimate.estimated([after], "coarse", H200).against(estimate.estimated([before], "coarse", H200))
    assert "; before about" in text and "before: DRAM" in text


def test_an_unknown_card_is_refused():
    with pytest.raises(EngineError, match="no estimate for 'A100': times were recorded on NVIDIA H200"):
        model.card("A100")


# ------------------------------------------------------------------------------------------------- the command
def _run(*arguments):
    command = [sys.executable, "-m", "hostcuda", "profile", "--estimate", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_command_estimates_each_kernel(program, tmp_path):
    done = _run("H200", "--json", "--csv", str(tmp_path / "out.csv"), str(program))
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["kernel"] for row in rows] == ["copy", "strided", "shared", "loop"]
    *timed, loop = rows
    if loop["why_not"]:  # with nvcc: it loads the table's words by ULDC
        assert "words of constant memory as a whole" in loop["why_not"] and loop["ms"] is None
    else:
        timed.append(loop)
    assert all(row["ms"] > 0 and row["low_ms"] < row["ms"] < row["high_ms"] for row in timed)
    assert (tmp_path / "out.csv").read_text().count("\n") == 5


def test_the_command_refuses_what_it_cannot_estimate(program, tmp_path):
    assert "no estimate for 'B100'" in _run("B100", str(program)).stderr
    (tmp_path / "empty.cu").write_text("int main() { return 0; }")
    assert "no kernel was launched" in _run("H200", str(tmp_path / "empty.cu")).stderr


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_the_flow_is_in_the_file_and_not_in_memory(records):
    sections = {section.name: section for section in Elf(records["copy"]["module"]).sections}
    assert sections[FLOW].flags == 0
    assert np.frombuffer(Elf(records["copy"]["module"]).content(FLOW), np.uint8).size == sections[FLOW].bytes
