"""How check mode puts lanes that have parted together again, and what it takes for one instruction of a warp."""

import pytest
from running import kernel_source, run_script

from hostcuda.metrics import COUNTERS

pytestmark = pytest.mark.core("what every count relies on")

LD, ST, ATOM, RED = (
    f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum" for op in ("ld", "st", "atom", "red")
)
SHARED_ST = "smsp__inst_executed_op_shared_st.sum"

SCRIPT = """
from hostcuda.check import instrument

if sys.argv[1] == "calls":  # the log is written by calls, as on processors for which instrument.py knows no code
    instrument.can_instrument = lambda: False

module = SourceModule(sys.argv[2], no_extern_c=True, cache_dir=False)
x, y = cuda.to_device(np.zeros(4096, np.float32)), cuda.to_device(np.zeros(4096, np.float32))
for name, *arguments in (("padded", x, y, np.int32(49)), ("unequal", x, y, np.int32(3000)), ("calls", x, y),
                         ("constructed", x, y, np.int32(5)), ("first_come", x, y), ("reductions", x, y),
                         ("unrolled", x, y), ("through_a_function", x), ("shared_atomics", y),
                         ("exchanges", x, y, y)):
    module.get_function(name)(*arguments, block=(32, 1, 1))
module.get_function("phases")(y, block=(64, 1, 1))
module.get_function("roles")(y, block=(96, 1, 1), grid=(2, 1))
module.get_function("neighbours")(y, block=(32, 1, 1))
module.get_function("left_half_full")(block=(96, 1, 1), grid=(2, 1))
cuda.Context.synchronize()
z = cuda.from_device(y, 64, np.float32)
print(json.dumps({r.kernel: r.counts for r in checking.launches()}))
"""


@pytest.fixture(scope="module")
def counts():
    return run_script(SCRIPT, "log", kernel_source("matching"))


def test_both_ways_of_a_branch_meet_at_what_follows_it(counts):
    """In 4 turns of 16 both arrays are stored to once each, whichever lanes loaded; in the last one lane loads."""
    assert counts["padded"][SHARED_ST] == 8
    assert counts["padded"][LD] == 7  # 4 of the first; of the second none is left in the last turn
    assert counts["padded"][ST] == 1


def test_a_full_log_parts_nobody(counts):
    assert counts["unequal"][LD] == 3000 * (3 + 1)
    assert counts["unequal"][ST] == 1


def test_lanes_wait_behind_a_call(counts):
    assert counts["calls"][LD] == 2 + 6
    assert counts["calls"][ST] == 1


def test_barriers_of_code_with_constructors(counts):
    assert (
        counts["constructed"][SHARED_ST] == 5
        and counts["constructed"][LD] == 5
        and counts["constructed"][ST] == 5
    )


def test_lanes_that_take_turns(counts):
    assert counts["first_come"][LD] == 33 and counts["first_come"][ST] == 33


def test_an_atomic_without_a_use_of_its_result_is_a_reduction(counts):
    assert (counts["reductions"][RED], counts["reductions"][ATOM]) == (4, 4)


def test_the_use_may_be_behind_a_function(counts):
    assert (counts["through_a_function"][RED], counts["through_a_function"][ATOM]) == (1, 1)


def test_in_shared_memory_there_are_no_reductions(counts):
    assert counts["shared_atomics"]["smsp__inst_executed_op_shared_atom.sum"] == 1
    assert counts["shared_atomics"][RED] == counts["shared_atomics"][ATOM] == 0


def test_a_barrier_of_cuda_barrier_counts_once_per_warp(counts):
    assert counts["phases"]["lab__barriers.sum"] == 2 + 2 * 2
    assert counts["phases"]["lab__barriers_of_blocks.sum"] == 2


def test_an_arrival_at_a_named_barrier_counts_also_if_nobody_waits(counts):
    named = {counter.name: counts["left_half_full"].get(counter.metric) for counter in COUNTERS}
    assert (named["named_barriers"], named["barriers"]) == (2 * 3, 0)


def test_lines_exchanges_and_what_atomics_return(counts):
    """The second load begins in the middle of a line; a barrier exchanges nothing."""
    named = {counter.name: counts["exchanges"].get(counter.metric) for counter in COUNTERS}
    assert (named["global_load_lines"], named["global_store_lines"]) == (1 + 2, 32 + 1)
    assert (named["lane_exchanges"], named["largest_atomic_result"]) == (2, 5)
    assert named["counter_results"] == 0  # of an array of many values


def test_what_warps_do_on_their_own(counts):
    named = {counter.name: counts["roles"].get(counter.metric) for counter in COUNTERS}
    assert named["two_way_warps"] == 2  # one per block
    assert named["busiest_warp"] == 3  # a store, a load, and a store to global memory


def test_loads_that_a_compiler_can_join_are_one_group(counts):
    """Words that a warp reads one after the other, in the same 16 bytes, with one address for all lanes."""
    named = {counter.name: counts["neighbours"].get(counter.metric) for counter in COUNTERS}
    assert named["shared_load_instructions"] == 128 + 128 + 2
    assert named["shared_load_groups"] == 128 / 4 + 128 + 2


def test_a_log_written_by_calls_says_the_same(counts):
    """Where the order of the code is not known, lanes may meet later."""
    other = run_script(SCRIPT, "calls", kernel_source("matching"))
    for kernel in ("first_come", "reductions", "through_a_function", "shared_atomics"):
        assert other[kernel] == counts[kernel]
    assert other["padded"][ST] == 1 and other["padded"][SHARED_ST] >= 8


ORDER = """
source = "__global__ void f(int *y) { y[blockIdx.x + 3 * blockIdx.y] = atomicAdd(&y[6], 1); }"
y, f = cuda.to_device(np.zeros(7, np.int32)), SourceModule(source).get_function("f")
checking.begin_with(4)
f(y, grid=(3, 2), block=(1, 1, 1))
print(cuda.from_device(y, 7, np.int32).tolist())
"""


def test_any_block_can_be_first():
    assert run_script(ORDER) == [2, 3, 4, 5, 0, 1, 6]


LOOPS = """
#pragma unroll
for (int a = 0; a < 2; ++a) {   // four levels: this one stays
    #pragma unroll
    // with a comment (between
    for (int b = 0; b < 2; ++b)
        #pragma unroll
        for (int c = 0; c < 2; ++c)
            #pragma unroll
            for (int d = 0; d < 2; ++d) f(a, (b + c) * d);
}
#pragma unroll
for (int e = 0; e < 2; ++e) { f(0, e); }
#pragma unroll 4
for (int g = 0; g < 8; ++g) f(1, g);
#pragma unroll
int h;
"""


TWO_MODULES = r"""
import gc
y = cuda.to_device(np.zeros(64, np.float32))
for n in range(4):
    body = "".join(f"if (i < {2 * j + n}) y[i] = {j}; " for j in range(n + 1))
    module = SourceModule(f"__global__ void f(volatile float *y) {{ int i = threadIdx.x; {body} }}")
    module.get_function("f")(y, block=(32, 1, 1))
    cuda.Context.synchronize()
    del module
    gc.collect()
shuffle = SourceModule("__global__ void g(double *y) { y[0] = __shfl_down_sync(~0u, (double)threadIdx.x, 1); }")
shuffle.get_function("g")(y, block=(32, 1, 1))
cuda.Context.synchronize()
print([r.counts["l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"] for r in checking.launches()])
"""


@pytest.mark.thorough("five seconds or more")
@pytest.mark.parametrize("tools", ["profile", "profile,memcheck,racecheck"])
def test_modules_that_come_and_go_and_shuffles_of_eight_bytes(tools):
    """A module may be loaded where another one stood; the host's compiler writes 16 bytes of a lane's slot at once."""
    assert run_script(TWO_MODULES, tools=tools) == [0, 2, 3, 4, 1]


def test_loops_are_unrolled_but_for_the_outer_of_many():
    from hostcuda.check.mode import unroll_loops

    lines = unroll_loops(LOOPS).splitlines()
    assert len(lines) == len(LOOPS.splitlines())
    loops = [lines[i + 1].strip() for i, line in enumerate(lines) if "GCC unroll" in line]
    assert [line[:12] for line in loops] == [
        "// with a co",
        "for (int c =",
        "for (int d =",
        "for (int e =",
    ]


def test_instructions_are_those_of_unrolled_loops(counts):
    """As nvcc has it: what the lanes load in a loop of a known number of turns, they load with constant addresses."""
    assert counts["unrolled"][LD] == 12 and counts["unrolled"][ST] == 1
