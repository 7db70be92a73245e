"""Hopper's asynchronous instructions: programs with planted mistakes, and rings against a model of their phases."""

import json
import random
from dataclasses import astuple

import numpy as np
import pytest
from hopper import rings, table
from hopper.checked import check
from hopper.planted import FOLDER, MISTAKES, ONLY_BY_RESULT, PROGRAMS, REFUSED, RIGHT
from running import kernel_source, run_program, run_script

from hostcuda.frontend.rewrite import rewrite
from hostcuda.profile import profile_script
from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.thorough("whole programs in both modes: 80 s")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_has_the_expected_result_in_both_modes(program):
    verdict = run_program(FOLDER / f"{program}.cu").stdout.splitlines()[-1]
    found = check(program)
    assert verdict.startswith("PASS bad=0 checksum=")
    assert found.table.empty and not found.notes() and verdict in found.ended.output


def test_the_accesses_of_a_program_with_bulk_copies_are_counted():
    counted = profile_script(str(FOLDER / "ring.cu"), engine="cpu", capture=True, nvcc=False)
    assert "PASS" in counted.ended.output
    assert counted.value("global_load_requests") == 0
    assert counted.value("shared_load_instructions") == 2 * 11 * 3 * 2  # x and y of three warps


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        # 1 to 5 dimensions and all swizzles, against loops over the elements
        ("boxes", "PASS of 20 cases\n"),
        # by the functions of <cuda/barrier> and <cuda/ptx>
        ("boxes_and_clusters", "PASS no error\n"),
    ],
)
def test_boxes_move_as_the_host_computes(program, printed):
    path = FOLDER.parent / f"{program}.cu"
    assert run_program(path).stdout == printed
    assert sanitize_script(str(path), engine="cpu", capture=True).table.empty


SOME = {
    ("mbarrier", 2),
    ("bulk_in", 1),
    ("ring", 5),
    ("proxy_fence", 3),
    ("cluster", 2),
    ("multicast", 6),
    ("dependent", 4),
    ("tensor_map", 1),
    ("wgmma", 6),
}


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(
            mistake,
            id=f"{mistake.program}-{mistake.bug}",
            marks=()
            if (mistake.program, mistake.bug) in SOME
            else pytest.mark.exhaustive("of each kind of mistake one is thorough"),
        )
        for mistake in MISTAKES
    ],
)
def test_a_planted_mistake_is_named_with_its_line_and_its_cause(mistake):
    found = check(mistake.program, mistake.bug)
    assert mistake.is_named(found), found
    assert mistake.kind != "note" or found.table.empty


def test_the_page_of_verdicts_is_that_of_the_results():
    assert table.PAGE.read_text() == table.write_page(), "python -m tests.hopper.table writes it"


@pytest.mark.exhaustive("as the other variants of the programs")
@pytest.mark.parametrize(("program", "bug"), sorted(ONLY_BY_RESULT | REFUSED))
def test_a_mistake_in_values_alone_fails_the_comparison(program, bug):
    found = check(program, bug)
    assert found.table.empty and not found.notes() and "FAIL" in found.ended.output


@pytest.mark.exhaustive("as the other variants of the programs")
@pytest.mark.parametrize(("program", "bug"), sorted(RIGHT))
def test_a_variant_without_a_mistake_is_not_accused(program, bug):
    found = check(program, bug)
    assert found.table.empty and not found.notes()


RINGS = """
ring = SourceModule(sys.argv[2], no_extern_c=True).get_function("ring")
results = []
for fields in json.loads(sys.argv[1]):
    stages, producers, consumers, pieces, tiles = fields[:5]
    x = np.random.default_rng(pieces).integers(0, 1000, (tiles, pieces, 8)).astype(np.int32)
    y, failed = np.zeros((consumers, 32), np.int32), ""
    try:
        ring(cuda.In(x), cuda.InOut(y), np.array(fields, np.int32),
             block=(32 * (producers + consumers), 1, 1), shared=32 * stages * pieces)
        cuda.Context.synchronize()
    except cuda.LaunchError as error:
        failed = str(error)
    results.append((y.tolist(), failed))
cuda.Context.synchronize()
launches = checking.launches() if os.environ.get("HOSTCUDA_CHECK") else []
kinds = [[finding.kind for finding in launch.findings] for launch in launches]
names = "lab__bytes_of_asynchronous_copies.sum", "lab__bytes_of_bulk_copies_ahead.max"
print(json.dumps([results, kinds, [[launch.counts[name] for name in names] for launch in launches]]))
"""


def compute_ring(ring):
    """Return what a ring computes if nothing goes wrong: a sum per lane of the consumers."""
    shape = ring.tiles, ring.pieces, rings.PIECE
    x = np.random.default_rng(ring.pieces).integers(0, 1000, shape)
    y = np.zeros((ring.consumers, 32), int)
    for tile, piece in np.ndindex(shape[:2]):
        consumer = (tile if ring.consumers_take_turns else piece) % ring.consumers
        neighbors = np.roll(x[tile, piece], -1).reshape(-1, ring.lanes)
        y[consumer, : ring.lanes] += neighbors.sum(0) * (tile + 1)
    return y.tolist()


@pytest.mark.parametrize(
    ("seed", "count"),
    [(5, 100), pytest.param(6, 400, marks=pytest.mark.exhaustive("more rings"))],
)
def test_random_rings_agree_with_a_model_of_phases(seed, count):
    """In both modes; every second ring is legal, and what is found in the others the model has found in some order."""
    source = random.Random(seed)
    drawn = [rings.draw(source, is_legal=i % 2 == 0) for i in range(count)]
    arguments = json.dumps([*map(astuple, drawn)]), kernel_source("rings")
    checked, kinds, counts = run_script(
        RINGS, *arguments, tools="racecheck,synccheck,memcheck,initcheck"
    )
    ran, *_ = run_script(RINGS, *arguments, tools="")
    for i, (ring, found, counted) in enumerate(zip(drawn, kinds, counts, strict=True)):
        outcomes = rings.list_outcomes(ring)
        found = {"race" if kind == "race with a copy" else kind for kind in found}
        right = [compute_ring(ring), ""]
        if not any(outcomes):
            assert not found and checked[i] == ran[i] == right, ring
            if ring.copies:
                in_turns = ring.producers_take_turns or ring.consumers_take_turns
                ahead = min(ring.stages, ring.tiles) - 1  # tiles under way while one is read
                assert counted[0] == 32 * ring.pieces * ring.tiles, ring
                assert in_turns or counted[1] == 32 * ring.pieces * ahead, ring
        else:
            assert i % 2, (ring, outcomes)
            assert found <= set.union(*outcomes), (ring, found, outcomes)
            assert found or (not all(outcomes) and checked[i] == right), (ring, outcomes)
            assert ("deadlock" in found) == ("deadlock" in checked[i][1]), ring


PRODUCTS = """
module = SourceModule(sys.argv[1], no_extern_c=True)
rng = np.random.default_rng(3)
a, b = (rng.integers(-9, 10, shape).astype(np.float16) for shape in ((64, 16), (16, 24)))
for name in ("by_columns", "by_rows"):
    c = np.zeros((64, 24), np.float32)
    module.get_function(name)(cuda.In(a), cuda.In(b), cuda.Out(c), block=(128, 1, 1))
    assert (c == 0.25 - a.astype(np.float32) @ b.astype(np.float32)).all(), name
cuda.Context.synchronize()
print(json.dumps([finding.message for launch in checking.launches() for finding in launch.findings]))
"""


ELSEWHERE = """
#include <cuda/ptx>
namespace ptx = cuda::ptx;
extern "C" __global__ void barrier(uint64_t *to) { ptx::mbarrier_init(to, 1); }
extern "C" __global__ void target(uint64_t *from) {
    __shared__ uint64_t full;
    alignas(16) volatile uint64_t local[2] = {};
    ptx::mbarrier_init(&full, 1);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, (void *)local, from, 16, &full);
}
"""
TRY_BOTH = """
import json, sys
module = SourceModule(sys.argv[1], no_extern_c=True)
said = []
for name in ("barrier", "target"):
    try:
        module.get_function(name)(cuda.to_device(np.zeros(8)), block=(1, 1, 1))
        cuda.Context.synchronize()
    except cuda.Error as error:
        said.append(str(error))
print(json.dumps(said))
"""


@pytest.mark.parametrize("tools", ["", "memcheck"])
def test_barriers_and_targets_of_copies_are_not_anywhere(tools):
    """What the engine writes later must not be on a stack, where another function may be by then."""
    barrier, target = run_script(TRY_BOTH, ELSEWHERE, tools=tools)
    assert "an mbarrier is in shared memory, and this address is not" in barrier
    assert "a bulk copy is between shared and global memory" in target


def test_clusters_that_no_gpu_has_are_refused():
    """Also those whose sizes, multiplied or kept in few bits, look like others; bounds of threads make no cluster."""
    said = run_program(FOLDER.parent / "clusters_refused.cu").stderr.splitlines()
    assert [line.removeprefix("hostcuda: kernel ").partition(" (")[0] for line in said[:5]] == [
        "wide: a cluster has 1 to 16 blocks, and here 32 along x",
        "empty: a cluster has 1 to 16 blocks, and here 0 along x",
        "large: a cluster of 32 blocks, of which a GPU has at most 16",
        "of_template<64>: a cluster has 1 to 16 blocks, and here 64 along x",
        "plain: a cluster has 1 to 16 blocks, and here 131072 along x",
    ]
    assert not any("bounded" in line for line in said)


def test_a_cooperative_launch_by_its_attribute():
    ended = run_program(FOLDER.parent / "cooperative_ex.cu")
    assert ended.stdout.split("\n")[0] == "no error" and "13 12 11 10 " in ended.stdout
    refused = ended.stderr.splitlines()
    assert "the CPU engine has no cooperative launch of clusters (" in refused[0]
    assert "cooperative_ex.cu:31)" in refused[0]
    assert "cudaOccupancyMaxActiveClusters failed: a cluster has no blocks" in refused[1]


ENDED = """
#include <cuda/ptx>
namespace ptx = cuda::ptx;
__device__ void end(uint64_t *at) {
    asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"((unsigned)__cvta_generic_to_shared(at)));
}
__device__ void begin(uint64_t *full, int *tile, const int *x) {
    ptx::mbarrier_init(full, 1);
    ptx::fence_proxy_async();
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, x, 16, full);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full, 16);
}
extern "C" __global__ void copied(const int *x, int *y) {
    __shared__ alignas(16) int tile[4];
    __shared__ uint64_t full;
    begin(&full, tile, x);
    end(&full);
}
extern "C" __global__ void awaited(const int *x, int *y) {
    __shared__ uint64_t full;
    if (threadIdx.x == 0) ptx::mbarrier_init(&full, 2);
    __syncthreads();
    if (threadIdx.x == 0) while (!ptx::mbarrier_try_wait_parity(&full, 0)) {}
    else end(&full);
}
extern "C" __global__ void used(const int *x, int *y) {
    __shared__ uint64_t full;
    ptx::mbarrier_init(&full, 1);
    end(&full);
    ptx::mbarrier_arrive(&full);
}
extern "C" __global__ void anew(const int *x, int *y) {
    __shared__ alignas(16) int tile[4];
    __shared__ uint64_t full;
    for (int i = 0; i < 100; i++) {
        begin(&full, tile, x);
        while (!ptx::mbarrier_try_wait_parity(&full, 0)) {}
        y[0] += tile[3];
        end(&full);
    }
}
"""
TRY_ENDED = """
module = SourceModule(sys.argv[1], no_extern_c=True)
x, y, said = cuda.to_device(np.arange(4, dtype=np.int32)), np.zeros(1, np.int32), []
for name, threads in ("copied", 1), ("awaited", 33), ("used", 1), ("anew", 1):
    try:
        module.get_function(name)(x, cuda.InOut(y), block=(threads, 1, 1))
        cuda.Context.synchronize()
    except cuda.Error as error:
        said.append(str(error))
findings = [each.message for each in checking.launches()[-1].findings] if sys.argv[2] else []
print(json.dumps([said, findings, int(y[0])]))
"""


@pytest.mark.parametrize("tools", ["", "racecheck,memcheck"])
def test_an_mbarrier_ends_when_nothing_needs_it_any_more(tools):
    """Copies under way and threads that wait know it by its address in the engine."""
    (copied, awaited, used), findings, total = run_script(TRY_ENDED, ENDED, tools, tools=tools)
    assert "ends an mbarrier that counts the bytes of a copy under way (cp.async.bulk at" in copied
    assert "ends an mbarrier for which a thread waits (mbarrier.try_wait.parity at" in awaited
    assert "where no thread of the block has made an mbarrier (mbarrier.init)" in used
    assert total == 300 and findings == []


def test_a_warpgroup_multiplies_registers_with_both_layouts_of_shared_memory():
    tools = "racecheck,synccheck,memcheck,initcheck"
    assert run_script(PRODUCTS, kernel_source("warpgroup"), tools=tools) == []


ORDERS = """
module, said, kinds, first = SourceModule(sys.argv[1], no_extern_c=True), {}, {}, 0
for name, threads, blocks in json.loads(sys.argv[2]):
    y, said[name], shared = np.zeros(128, np.int32), "", 64 * (name == "beyond")
    try:
        module.get_function(name)(cuda.InOut(y), block=(threads, 1, 1), grid=(blocks, 1), shared=shared)
        cuda.Context.synchronize()
    except cuda.Error as error:
        said[name] = str(error)
    said[name] = said[name] or str(y[0])
    launches = checking.launches()
    kinds[name] = [each.kind for launch in launches[first:] for each in launch.findings]
    first = len(launches)
print(json.dumps([said, kinds]))
"""


def test_each_warp_and_each_block_of_a_cluster_waits_for_itself():
    launches = [
        ("lock", 64, 2),
        ("read_by_three_of_three", 128, 1),
        ("read_by_two_of_three", 128, 1),
        ("wait_for_one", 128, 1),
        ("written_in_two_phases", 128, 1),
        ("take_given", 384, 1),
        ("take_more", 384, 1),
        ("take_of_a_warp", 384, 1),
        ("give_by_a_warp", 384, 1),
        ("take_behind_a_barrier", 384, 1),
        ("many_barriers", 1, 16),
        ("map_global", 1, 1),
        ("beyond", 1, 2),
        ("convert_global", 1, 1),
    ]
    said, kinds = run_script(
        ORDERS, kernel_source("orders"), json.dumps(launches), tools="racecheck,memcheck,synccheck"
    )
    assert kinds["lock"] == [] and said["lock"] == "2"
    assert kinds["read_by_three_of_three"] == [] and kinds["read_by_two_of_three"] == ["race"]
    assert kinds["written_in_two_phases"][0] == "race"  # which leads to a deadlock
    assert kinds["take_given"] == [] and said["take_given"] == "240"
    assert "deadlock, all 256 threads wait: " in said["take_more"]
    assert "and 255 more at setmaxnreg.inc (orders.cu:" in said["take_more"]
    assert "a thread has 168 at first" in said["take_more"] and "warpgroup" not in said["take_more"]
    of_a_warp = (
        "32 of the 128 threads of warpgroup 0 set 24 registers (setmaxnreg.dec at orders.cu:"
    )
    assert of_a_warp in said["take_of_a_warp"] and "the others do not" in said["take_of_a_warp"]
    # the instruction is ahead of the others, which wait
    waits = said["take_behind_a_barrier"]
    assert "32 of the 128 threads of warpgroup 0 set 240 registers" in waits
    assert "the others have not done so yet" in waits
    assert kinds["give_by_a_warp"] == ["partial warpgroup"] and said["give_by_a_warp"] == "168"
    assert {*kinds["wait_for_one"]} == {"race with a product"} and said["wait_for_one"] == "16"
    assert (
        "racecheck follows 49024 mbarriers of a block or a cluster, and no more"
        in (said["many_barriers"])
    )
    assert "the address is in no shared memory" in said["map_global"]
    assert said["beyond"] == "1"
    assert "in no shared memory was taken for one there" in said["convert_global"]


def test_attributes_belong_to_the_launch_of_their_thread_and_chains_to_their_stream():
    found = sanitize_script(
        str(FOLDER.parent / "cluster_launches.cu"), engine="cpu", capture=True, tool="racecheck"
    )
    assert "blocks 2 1\nat most 8 16 0\nno error\n" in found.ended.output
    (early,) = found.rows
    assert "which kernel write, the launch before, writes" in early["message"]
    assert "more than 65536 separate pieces" in found.verdict()


def ptx(text):
    """Return the C++ of a kernel with this asm statement, or the message that refuses it."""
    return rewrite(
        f"__global__ void f(int *x) {{ int y = 0; asm volatile({text}); x[0] = y; }}"
    ).text


def test_a_loop_of_labels_and_branches_becomes_one_of_cpp():
    wait = (
        '"{\\n.reg .pred %%p;\\nLAB_WAIT_%=: mbarrier.try_wait.parity.shared::cta.b64 %%p, [%0], 1, 0x989680;\\n'
        '@%%p bra.uni DONE_%=;\\nbra.uni LAB_WAIT_%=;\\nDONE_%=:\\n}" :: "r"(y) : "memory"'
    )
    assert "goto lr_LAB_WAIT__" in ptx(wait) and "lr_DONE__: " in ptx(wait)
    assert "static_assert" not in ptx(wait)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"bra NOWHERE;"', "branches to NOWHERE, a label that its asm statement does not have"),
        ('"@q bra X; X:"', "the predicate q of inline PTX is not declared"),
        ('"cp.async.bulk.madeup [%0], 1;" :: "r"(y)', "instruction cp.async.bulk.madeup"),
        ('"mbarrier.arrive.sometimes.b64 _, [%0];" :: "r"(y)', "mbarrier.arrive.sometimes.b64"),
        *(
            (f'"{name} {operands};" :: "r"(y)', name)
            for name, operands in (
                ("mbarrier.arrive.acquire.cta.b64", "_, [%0]"),
                ("mbarrier.expect_tx.release.cta.b64", "[%0], 16"),
                ("barrier.cluster.arrive.acquire", ""),
                ("barrier.cluster.wait.release", ""),
            )
        ),
    ],
)
def test_what_is_not_known_is_refused_by_name(text, words):
    refused = ptx(text)
    assert "static_assert" in refused and words in refused
