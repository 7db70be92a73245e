"""Shared accesses of 8 and 16 bytes a lane, and atomics, in check mode: as ncu counted the same ones on an H200."""

import json

import pytest
from running import run_script

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

# The 4-byte word where each lane's access begins -> wavefronts of loads of 4, 8, 16 bytes,
# conflicts of these, wavefronts of stores of 8 and 16 bytes, sectors of an atomicAdd on that word
# of global memory.
MEASURED = {
    "0 * l": ((1, 1, 2), (0, 0, 0), (2, 4), 32),
    "l // 16 * 16": ((1, 1, 2), (0, 0, 0), (2, 4), 32),
    "l // 8 * 16": ((2, 2, 2), (1, 1, 0), (2, 4), 32),
    "l // 4 * 16": ((4, 4, 4), (3, 3, 2), (4, 4), 32),
    "l // 2 * 4": ((2, 2, 2), (1, 1, 0), (2, 4), 16),
    "l % 2 * 4": ((1, 1, 2), (0, 0, 0), (2, 4), 16),
    "l % 4 * 4": ((1, 2, 4), (0, 0, 0), (2, 4), 16),
    "l % 16 * 4": ((2, 4, 4), (1, 2, 0), (4, 4), 16),
    "4 * l": ((4, 4, 4), (3, 2, 0), (4, 4), 16),
    "8 * l": ((8, 8, 8), (7, 6, 4), (8, 8), 32),
    "32 * l": ((32, 32, 32), (31, 30, 28), (32, 32), 32),
    "l // 16 * 32": ((2, 2, 2), (1, 1, 0), (2, 4), 32),
    "(l ^ 1) // 2 * 4": ((2, 2, 2), (1, 1, 0), (2, 4), 16),
    "124 - 4 * l": ((4, 4, 4), (3, 2, 0), (4, 4), 16),
}

SCRIPT = r"""
source = "__constant__ int word[32];\n"
for size, kind in ((4, "float"), (8, "float2"), (16, "float4")):
    source += f'''
extern "C" __global__ void load{size}({kind} *y) {{
    extern __shared__ float4 memory[];
    y[threadIdx.x] = *({kind} *)((float *)memory + word[threadIdx.x]);
}}
extern "C" __global__ void store{size}({kind} *y) {{
    extern __shared__ float4 memory[];
    *({kind} *)((float *)memory + word[threadIdx.x]) = y[threadIdx.x];
}}
'''
source += 'extern "C" __global__ void add(int *y) { atomicAdd(&y[word[threadIdx.x]], 1); }'
module = SourceModule(source, no_extern_c=True)
y = cuda.mem_alloc(8192)
l = np.arange(32)
for words in json.loads(sys.argv[1]):
    cuda.memcpy_htod(module.get_global("word")[0], eval(words).astype(np.int32))
    for name in ("load4", "load8", "load16", "store8", "store16", "add"):
        module.get_function(name)(y, block=(32, 1, 1), shared=4096)
cuda.Context.synchronize()
print(json.dumps([record.counts for record in checking.launches()]))
"""
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
SECTORS = (
    "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
)


@pytest.fixture(scope="module")
def counts():
    records = iter(run_script(SCRIPT, json.dumps(list(MEASURED))))
    return {words: [next(records) for _ in range(6)] for words in MEASURED}


@pytest.mark.parametrize("words", MEASURED)
def test_wavefronts_conflicts_and_atomic_sectors(counts, words):
    loads, stores, add = counts[words][:3], counts[words][3:5], counts[words][5]
    assert (
        tuple(counts[WAVEFRONTS.format("ld")] for counts in loads),
        tuple(counts[CONFLICTS.format("ld")] for counts in loads),
        tuple(counts[WAVEFRONTS.format("st")] for counts in stores),
        sum(add.get(name, 0) for name in SECTORS),
    ) == MEASURED[words]
