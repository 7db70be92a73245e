"""Names in findings: kernels of one name, the parameters of the right one, elements of arrays, what is waited for."""

from pathlib import Path

import pytest
from running import IMPORTS

from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.core("findings name what the source names: 10 s")

PROGRAM = Path(__file__).parents[1] / "programs" / "names.cu"


@pytest.mark.parametrize(
    ("way", "kind", "kernel", "words"),
    [
        (0, "race between blocks", "two::k", "use counts[0], one of 256 floats"),
        (1, "out of bounds", "scale(const float *in, float *out)", "at out[256], one past the end"),
        (2, "null pointer", "call", "a call of a null function pointer"),
        (3, "deadlock", "some_arrive", "has 40 of 64 arrivals"),
        (4, "out of bounds", "turn", "at tile[4][0][0] of the __shared__ array tile, one past"),
    ],
)
def test_a_finding_names_what_the_source_names(way, kind, kernel, words):
    findings = sanitize_script(
        str(PROGRAM), [str(way)], engine="cpu", capture=True, options=["-std=c++17"]
    )
    (row,) = findings.table.to_dict("records")
    lines = PROGRAM.read_text().splitlines()
    assert (row["kind"], row["kernel"]) == (kind, kernel), findings
    assert lines[row["line"] - 1].endswith(f"// found: {way}"), findings
    assert words in row["message"] and not row["message"].startswith(kind)


@pytest.mark.parametrize(
    ("declaration", "index", "words"),
    [
        ("__align__(16) half s[8][8]", 64, "at s[8][0] of the __shared__ array s, 4 past the end"),
        ("alignas(16) half s[ROWS - 8][8]", 64, "at element 64 of the __shared__ array s, 4 past"),
        ("half s[ROWS - 8][8]", 64, "past the end of its 64 halfs"),
    ],
)
def test_an_access_to_several_elements_counts_those_of_the_shared_array(
    declaration, index, words, write_program
):
    source = f"""#include <cuda_fp16.h>
#define ROWS (8 * 2)
__global__ void wide(float2 *y, int i)
{{
    __shared__ {declaration};
    (&s[0][0])[threadIdx.x] = __float2half(1);
    __syncthreads();
    if (threadIdx.x == 0) y[0] = *reinterpret_cast<float2 *>(&s[0][0] + i);
}}"""
    path = write_program(
        IMPORTS
        + f"""
module = SourceModule({source!r})
y = cuda.mem_alloc(8)
module.get_function("wide")(y, np.int32({index}), grid=(1, 1), block=(64, 1, 1))
cuda.Context.synchronize()
""",
        "program.py",
    )
    findings = sanitize_script(str(path), engine="cpu", capture=True)
    (row,) = findings.table.to_dict("records")
    assert row["kind"] == "out of bounds" and words in row["message"], findings
