"""Single requests of a warp: the worst of each access, and all of one warp, beside what the same launch was counted."""

import json

import pytest
from running import run_script

import hostcuda
from hostcuda import checking
from hostcuda.errors import EngineError

pytestmark = pytest.mark.core("what every access is drawn from")

SCRIPT = r"""
module = SourceModule('''#line 1 "requests.cu"
__constant__ int steps[64];
// Block b, warp w: the lanes' distance grows with both, up to a sector each in the last warp.
extern "C" __global__ void strided(const float *x, float *y) {
    __shared__ float tile[1024];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, far = 1 + 2 * blockIdx.x + warp;
    tile[threadIdx.x] = x[lane * far];
    __syncthreads();
    float sum = tile[lane * far];
    for (int i = 0; i < 3; i++)
        if (lane < 8 + i) sum += steps[lane % 4];
    y[threadIdx.x] = sum;
}''', no_extern_c=True)
x, y = cuda.to_device(np.zeros(4096, np.float32)), cuda.to_device(np.zeros(4096, np.float32))

def launch():
    module.get_function("strided")(x, y, grid=(4, 1), block=(64, 1, 1))
    cuda.Context.synchronize()
    return checking.launches()[-1]

plain = launch()
checking.follow()
worst = launch()
everything = []
for block in range(4):
    for warp in range(2):
        checking.follow((block, 0, 0), warp)
        everything.append(launch().requests)
print(json.dumps({"plain": plain.sites, "requests": plain.requests, "worst": worst.sites, "all": everything,
                  "x": int(x)}))
"""


@pytest.fixture(scope="module")
def seen():
    return run_script(SCRIPT)


def site(sites, line, space):
    (match,) = (row for row in sites if (row["line"], row["space"]) == (line, space))
    return match


def test_nothing_changes_where_nobody_asks(seen):
    assert seen["requests"] == [] and not any("worst" in row for row in seen["plain"])
    assert [{**row, "worst": None} for row in seen["worst"]] == [
        {**row, "worst": None} for row in seen["plain"]
    ]


def test_the_worst_request_is_that_of_the_warp_with_the_greatest_distance(seen):
    load, shared = site(seen["worst"], 6, "global"), site(seen["worst"], 8, "shared")
    assert load["worst"] == {
        "units": 32,
        "warp": 1,
        "block": [3, 0, 0],
    }  # 8 floats apart: a sector per lane
    assert shared["worst"] == {"units": 8, "warp": 1, "block": [3, 0, 0]}
    assert site(seen["worst"], 11, "global")["worst"] == {
        "units": 4,
        "warp": 0,
        "block": [0, 0, 0],
    }  # the first


@pytest.mark.parametrize(
    ("line", "space", "name"),
    [
        (6, "global", "sectors"),
        (6, "shared", "wavefronts"),
        (8, "shared", "wavefronts"),
        (10, "constant", "wavefronts"),
        (11, "global", "sectors"),
    ],
)
def test_the_requests_of_all_warps_make_up_the_counts(seen, line, space, name):
    own = [
        access
        for warp in seen["all"]
        for access in warp
        if (access["line"], access["space"]) == (line, space)
    ]
    total = site(seen["plain"], line, space)
    assert (len(own), sum(access["units"] for access in own)) == (total["requests"], total[name])
    assert total["bytes"] == sum(4 * sum(at >= 0 for at in access["addresses"]) for access in own)


def test_a_request_has_the_address_of_each_lane_and_what_it_belongs_to(seen):
    last = seen["all"][7]
    load = next(access for access in last if access["line"] == 6 and access["space"] == "global")
    assert load["addresses"] == [seen["x"] + 4 * 8 * lane for lane in range(32)]
    assert (load["base"], load["bytes"], load["name"], load["op"]) == (
        seen["x"],
        4 * 4096,
        "",
        "ld",
    )
    stored = next(access for access in last if access["space"] == "shared")
    assert (stored["op"], stored["name"], stored["bytes"]) == ("st", "tile", 4096)
    masks = [
        sum(at >= 0 for at in access["addresses"])
        for access in last
        if access["space"] == "constant"
    ]
    assert masks == [8, 9, 10]


def test_it_needs_check_mode():
    hostcuda.ensure_context()
    if not checking.TOOLS:
        with pytest.raises(EngineError, match="HOSTCUDA_CHECK=profile"):
            checking.follow()


TABLES = {
    "__device__ const float t[64] = {1, 2};": "global",
    "const __device__ int t[2][32] = {{1}, {2}};": "global",
    "namespace own { __device__ float const t[] = {1, 2, 3}; } using own::t;": "global",
    "static const __device__ float2 t[32] = {{1, 2}};": "global",
    "__constant__ const float t[64] = {1, 2};": "constant",
    "__constant__ float t[64] = {1, 2};": "constant",
}
READS = """
y, found = cuda.mem_alloc(4 * 32), []
for table in json.loads(sys.argv[1]):
    kernel = "void f(float *y) { y[threadIdx.x] = *(const float *)&t[threadIdx.x % 2]; }"
    module = SourceModule(f"{table}\\nextern \\"C\\" __global__ {kernel}", no_extern_c=True)
    module.get_function("f")(y, block=(32, 1, 1))
    cuda.Context.synchronize()
    sites = [(site["space"], site["requests"]) for site in checking.launches()[-1].sites if site["op"] == "ld"]
    found.append([sites, float(cuda.from_device(y, 32, np.float32).view(np.float32)[0])])
print(json.dumps(found))
"""


def test_reads_of_constant_arrays_are_counted():
    """A compiler records no read of memory that cannot change."""
    sites, values = zip(*run_script(READS, json.dumps([*TABLES])), strict=True)
    assert sites == tuple([[space, 1]] for space in TABLES.values())
    assert all(
        value == 1 for table, value in zip(TABLES, values, strict=True) if "int" not in table
    )


ARGUMENTS = r"""
module = SourceModule('''#line 1 "arguments.cu"
#include <cuda_fp16.h>
extern "C" __global__ void pack(const half *a, const half *b, unsigned *c, int K) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    auto word = [](half low, half high) {
        return __half_as_ushort(low) | (unsigned)__half_as_ushort(high) << 16;
    };
    unsigned sum = 0;
    for (int k = 0; k < K; k += 16) {
        unsigned words[2];
        for (int i = 0; i < 2; ++i) {
            const half *from = b + (k + 2 * t + i * 8) * 8 + g;
            words[i] = word(from[0], from[8]);
        }
        sum += words[0] ^ words[1];
    }
    c[threadIdx.x] = sum;
}''', no_extern_c=True)
a, c = cuda.to_device(np.zeros(4096, np.float16)), cuda.to_device(np.zeros(32, np.uint32))
module.get_function("pack")(a, a, c, np.int32(64), grid=(1, 1), block=(32, 1, 1))
cuda.Context.synchronize()
print(json.dumps([[row["line"], row["op"]] for row in checking.launches()[-1].sites if row["space"] == "global"]))
"""


def test_a_copy_of_an_argument_has_the_line_of_its_call():
    assert {(line, op) for line, op in run_script(ARGUMENTS)} == {(12, "ld"), (16, "st")}
