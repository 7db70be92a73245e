"""The busiest unit: what the engine counts for it, the units, and where none is named."""

import json
import sys

import pytest

from hostcuda import units
from hostcuda.check.instrument import FLOW
from hostcuda.errors import EngineError
from hostcuda.profile import recorded
from hostcuda.runtime.elf import Elf

pytestmark = pytest.mark.thorough("tools and documents of the engine")

PROGRAM = """
#include <cuda_runtime.h>
#include <mma.h>
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
__global__ void matrices(float *y) {
    using namespace nvcuda::wmma;
    fragment<accumulator, 16, 16, 16, float> c;
    fill_fragment(c, 1.0f);
    store_matrix_sync(y, c, 16, mem_row_major);
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
    matrices<<<1, 32>>>(y);
    return cudaDeviceSynchronize();
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("units") / "program.cu"
    path.write_text(PROGRAM)
    return path


@pytest.fixture(scope="module")
def records(program):
    launches, _, ended = recorded([sys.executable, "-m", "hostcuda", "run", str(program)])
    ended.require("counting")
    return {record["kernel"]: record for record in launches}


def _site(record, space, op):
    (site,) = [row for row in record["sites"] if (row["space"], row["op"]) == (space, op)]
    return site


def test_each_request_has_its_passes_lines_and_new_sectors(records):
    load = _site(records["copy"], "global", "ld")
    assert (load["requests"], load["passes"], load["lines"], load["loaded"]) == (16, 16, 16, 64)
    # 32 lanes, 128 bytes apart: one bank, 32 lines
    load = _site(records["strided"], "global", "ld")
    assert (load["requests"], load["passes"], load["lines"], load["loaded"]) == (2, 64, 64, 64)
    # 100 words are 13 sectors, for two warps of each of two blocks
    load = _site(records["loop"], "global", "ld")
    assert (load["requests"], load["loaded"]) == (400, 2 * 13)


def test_requests_of_one_or_two_addresses_are_counted(records):
    sites = records["shared"]["sites"]
    load = [site for site in sites if (site["space"], site["op"]) == ("shared", "ld")]
    assert sum(site["broadcast"] for site in load) == 4  # s[blockIdx.x], by 4 warps


def test_the_engine_says_how_often_each_block_ran(records):
    blocks = json.loads(Elf(records["loop"]["module"]).content(FLOW))
    assert max(units.count_executions(records["loop"], blocks)) >= 400
    (work,) = units.works([records["loop"]])
    assert work["arithmetic"] == 400  # a multiplication and an addition are one
    assert work["constant_requests"] == 400 and work["memory_instructions"] == 804


def test_the_flow_is_in_the_file_and_not_in_memory(records):
    elf = Elf(records["copy"]["module"])
    (section,) = [section for section in elf.sections if section.name == FLOW]
    assert section.flags == 0 and len(elf.content(FLOW)) == section.bytes


def test_the_busiest_unit_follows_from_the_rates(records):
    found = units.units([records["copy"], records["copy"], records["strided"]])
    assert list(found.table["kernel"]) == ["copy", "strided"]
    assert list(found.table["launches"]) == [2, 1]
    assert "why none" not in repr(found.summary()) and "100" in repr(found.summary())
    assert "copy: DRAM" in str(found) and "strided: L2 reads" in str(found)
    # each of its rows counts against its own busiest unit
    assert found.shares.max(axis=1).tolist() == [100, 100]
    (work,) = units.works([records["strided"]])
    cycles = units.compute_cycles(work, units.CARDS[0])
    assert cycles["L1 data pipe"] == 64 + 2 and cycles["L1 tags"] == (64 + 2) / units.CARDS[0].tags


def test_where_counts_are_missing_no_unit_is_named(records):
    copy, abandoned = records["copy"], {**records["copy"], "error": "line 3: out of bounds"}
    for record, why in (
        (records["matrices"], "products of matrices"),
        ({**copy, "module": "no such file"}, "only on x86-64, and only in a program of one file"),
        (abandoned, "abandoned: line 3"),
        ({**copy, "sites": [], "plays": [], "counts": {}}, "nothing was counted"),
    ):
        found = units.units([record])
        assert why in found.table["why_none"][0] and not found.table["busiest"][0]
        assert found.shares.isna().all(axis=None) and why in repr(found.summary())
        assert f"none is named, because {found.table['why_none'][0]}" in str(found)


def test_what_is_unknown_is_refused(records):
    with pytest.raises(EngineError, match="no rates of 'A100': the busiest unit is known for NVI"):
        units.units([records["copy"]], "A100")
    with pytest.raises(EngineError, match="no kernel was launched"):
        units.units([])


def test_the_command_names_each_kernels_busiest_unit(program, tmp_path, hostcuda_command):
    options = "--json", "--csv", tmp_path / "out.csv"
    status, out, err = hostcuda_command("profile", "--units", "H200", *options, program)
    assert status == 0, err
    rows = json.loads(out)
    assert [row["kernel"] for row in rows] == ["copy", "strided", "shared", "loop", "matrices"]
    assert [bool(row["busiest"]) for row in rows] == [True] * 4 + [False]
    assert (tmp_path / "out.csv").read_text().count("\n") == 6
