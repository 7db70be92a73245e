"""WMMA in check mode: the loads and stores that nvcc 13 makes for sm_90, read from its machine code."""

import json

import pytest
from running import run_script

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

# Operand of a load, or sums of a store: shape, element type, layout -> instructions and bytes a
# lane, of a tile in global memory (LDG, STG) and, where it differs, in shared memory: an LDSM of 4
# parts moves 16 bytes a lane.
EXPECTED = {
    ("a", (16, 16, 16), "half", "row"): ((4, 4), (1, 16)),
    ("a", (16, 16, 16), "half", "col"): ((4, 4), (1, 16)),
    ("b", (16, 16, 16), "half", "row"): ((4, 4), (1, 16)),
    ("a", (32, 8, 16), "half", "col"): ((8, 4), (2, 16)),
    ("b", (32, 8, 16), "half", "row"): ((2, 4), (1, 8)),
    ("a", (8, 32, 16), "half", "row"): ((2, 4), (1, 8)),
    ("b", (8, 32, 16), "half", "col"): ((8, 4), (2, 16)),
    ("a", (16, 16, 16), "__nv_bfloat16", "col"): ((4, 4), (4, 4)),
    ("a", (16, 16, 16), "signed char", "row"): ((2, 4), (1, 8)),
    ("b", (16, 16, 16), "signed char", "row"): ((8, 1), (8, 1)),
    ("a", (32, 8, 16), "signed char", "row"): ((4, 4), (2, 8)),
    ("b", (32, 8, 16), "signed char", "col"): ((1, 4), (1, 4)),
    ("a", (16, 16, 8), "float", "row"): ((4, 4), (4, 4)),
    ("b", (8, 8, 4), "double", "col"): ((1, 8), (1, 8)),
    ("sum", (16, 16, 16), "float", "row"): ((4, 8), (4, 8)),
    ("sum", (16, 16, 16), "float", "col"): ((8, 4), (8, 4)),
    ("sum", (32, 8, 16), "float", "row"): ((4, 8), (4, 8)),
    ("sum", (8, 32, 16), "float", "row"): ((8, 4), (8, 4)),
    ("sum", (8, 32, 16), "float", "col"): ((4, 8), (4, 8)),
    ("sum", (16, 16, 16), "half", "col"): ((4, 4), (4, 4)),
    ("sum", (8, 8, 4), "double", "row"): ((1, 16), (1, 16)),
}

SCRIPT = r"""
source = "#include <cuda_bf16.h>\n#include <mma.h>\nusing namespace nvcuda;\n"
for i, (use, (m, n, k), element, layout) in enumerate(cases := json.loads(sys.argv[1])):
    kind = "wmma::precision::tf32" if (element, k) == ("float", 8) else element
    fragment = (f"wmma::fragment<wmma::accumulator, {m}, {n}, {k}, {kind}>" if use == "sum" else
                f"wmma::fragment<wmma::matrix_{use}, {m}, {n}, {k}, {kind}, wmma::{layout}_major>")
    for place in ("global", "shared"):
        memory = f"__shared__ __align__(128) {element} tile[2048]" if place == "shared" else f"{element} *tile = x"
        action = (f"for (int i = 0; i < f.num_elements; i++) f.x[i] = ({element})0.0f;"
                  f"wmma::store_matrix_sync(tile, f, 32, wmma::mem_{layout}_major);" if use == "sum" else
                  "wmma::load_matrix_sync(f, tile, 32);")
        source += f'extern "C" __global__ void case_{i}_{place}({element} *x) {{ {memory}; {fragment} f; {action} }}\n'
module = SourceModule(source, no_extern_c=True)
x = cuda.to_device(np.zeros(4096, np.float64))
for i in range(len(cases)):
    for place in ("global", "shared"):
        module.get_function(f"case_{i}_{place}")(x, block=(32, 1, 1))
cuda.Context.synchronize()
print(json.dumps([record.sites for record in checking.launches()]))
"""


@pytest.fixture(scope="module")
def sites():
    records = iter(run_script(SCRIPT, json.dumps(list(EXPECTED))))
    return {case: {place: next(records) for place in ("global", "shared")} for case in EXPECTED}


@pytest.mark.parametrize("case", EXPECTED, ids=str)
def test_accesses_are_the_hardware_s(sites, case):
    for place, expected in zip(("global", "shared"), EXPECTED[case], strict=True):
        (site,) = [row for row in sites[case][place] if row["space"] == place]
        assert (site["requests"], site["size"]) == expected
        assert site["op"] == ("st" if case[0] == "sum" else "ld")
        (m, n, k), size = (
            case[1],
            {"half": 2, "__nv_bfloat16": 2, "signed char": 1, "double": 8}.get(case[2], 4),
        )
        # each element once
        assert site["bytes"] == {"a": m * k, "b": k * n, "sum": m * n}[case[0]] * size


def test_lines_that_share_banks_conflict(sites):
    """Lines of 16-bit elements 64 bytes apart: 8 of them lie in two sets of banks, so each part takes 4 wavefronts."""
    (site,) = [
        row for row in sites["a", (16, 16, 16), "half", "row"]["shared"] if row["space"] == "shared"
    ]
    assert (site["wavefronts"], site["conflicts"]) == (16, 12)
