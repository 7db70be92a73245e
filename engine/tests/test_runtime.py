"""The CPU engine's runtime: how the threads of a block take turns, how faults end a launch, streams, memory."""

import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import IMPORTS, kernel_source, run_python

from hostcuda.api import driver
from hostcuda.api.compiler import SourceModule
from hostcuda.host import toolchain
from hostcuda.runtime import building, native

pytestmark = pytest.mark.core("what every kernel runs on")

few = settings(max_examples=25, deadline=None)


def on_device(array):
    return driver.to_device(np.ascontiguousarray(array))


def values(allocation, like):
    return driver.from_device(allocation, like.shape, like.dtype)


# ---- Barriers and warps
# --------------------------------------------------------------------------------------------


@pytest.fixture(
    scope="module",
    autouse=True,
    params=["fibers", pytest.param("loops", marks=pytest.mark.thorough)],
)
def _mode(request):
    """Choose fibers: these tests are about the turns that fibers take; test_loops.py has those of thread loops."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOSTCUDA_EXECUTION_MODE", request.param)
        yield


@pytest.fixture(scope="module")
def blocks():
    return SourceModule(kernel_source("runtime"), no_extern_c=True)


@few
@given(
    st.tuples(st.integers(1, 40), st.integers(1, 5), st.integers(1, 4)),
    st.integers(1, 3),
    st.data(),
)
def test_threads_may_leave_before_a_barrier(blocks, block, grid, data):
    threads, most = int(np.prod(block)), 4
    seed = data.draw(st.integers(0, 2**32 - 1))
    rounds = np.random.default_rng(seed).integers(0, most + 1, threads).astype(np.int32)
    seen = on_device(np.zeros((grid, threads, most), np.int32))
    blocks.get_function("leaving")(
        on_device(rounds), seen, np.int32(most), grid=(grid, 1), block=block
    )
    left = np.array([(rounds > r).sum() for r in range(most)])
    expected = np.where(np.arange(most) < rounds[:, None], left, 0)
    assert (values(seen, np.empty((grid, threads, most), np.int32)) == expected).all()


@few
@given(st.integers(1, 1024), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_a_barrier_in_a_device_function(blocks, threads, grid, seed):
    numbers = np.random.default_rng(seed).integers(-1000, 1000, (grid, threads)).astype(np.int32)
    out = on_device(np.zeros_like(numbers))
    blocks.get_function("running_totals")(
        on_device(numbers), out, grid=(grid, 1), block=(threads, 1, 1)
    )
    assert (values(out, numbers) == np.cumsum(numbers, 1) - np.arange(1, threads + 1)).all()


@few
@given(st.integers(1, 300), st.sampled_from([0, 0.5, 0.99, 1]), st.integers(0, 2**32 - 1))
def test_barriers_that_vote(blocks, threads, share, seed):
    message = (np.random.default_rng(seed).random(threads) < share).astype(np.int32)
    out = on_device(np.full((3, threads), -1, np.int32))
    blocks.get_function("votes")(on_device(message), out, block=(threads, 1, 1))
    count, every, some = values(out, np.empty((3, threads), np.int32))
    assert (
        (count == message.sum()).all()
        and (every == message.all()).all()
        and (some == message.any()).all()
    )


def test_half_warps_meet_by_themselves(blocks):
    threads = 128
    out = on_device(np.zeros(threads, np.int32))
    blocks.get_function("half_warps")(out, block=(threads, 1, 1))
    group, thread = np.arange(threads) // 16, np.arange(threads)
    expected = [sum(thread[group == g].sum() + 16 * r for r in range(g + 1)) for g in group]
    assert values(out, np.empty(threads, np.int32)).tolist() == expected


def test_lanes_that_left_are_not_waited_for(blocks):
    out = on_device(np.zeros(96, np.uint32))
    blocks.get_function("thinning")(out, block=(96, 1, 1))
    lane = np.arange(96) % 32
    expected = np.array([sum(1 << j for j in range(i, 32)) if i else 0 for i in lane], np.uint32)
    assert (values(out, expected) == expected).all()


@few
@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_barriers_hold_whatever_the_warps_do_between_them(blocks, warps, rounds, data):
    chosen = st.lists(st.integers(0, 8), min_size=warps * rounds, max_size=warps * rounds)
    errand = np.array(data.draw(chosen), np.int32).reshape(rounds, warps)
    left = np.maximum.accumulate(np.isin(errand, (5, 8)))
    errand[(errand == 7) & left] = 0  # a barrier with a number expects whole warps
    answer, late = on_device(np.zeros(32 * warps, np.int32)), on_device(np.zeros(1, np.int32))
    block = (32 * warps, 1, 1)
    blocks.get_function("errands")(on_device(errand), answer, late, np.int32(rounds), block=block)
    expected, lane = np.zeros((warps, 32), np.int32), np.arange(32)
    live = np.ones((warps, 32), bool)
    for r, errands in enumerate(errand, 1):
        for warp, what in enumerate(errands):
            if what == 1:
                partner = np.where(live[warp, lane ^ 5], lane ^ 5, lane)
                expected[warp] += np.where(live[warp], 32 * warp + partner + r, 0)
            if what == 4:
                expected[warp] += np.where(
                    live[warp], np.where(lane < 16, min(r, 16), live[warp, 16:].sum()), 0
                )
            if what in (5, 8):
                live[warp, 21 if what == 5 else 31 :] = False
        if r % 2 == 0:
            expected += np.where(live, (errands == 6).any(), 0)
    assert values(late, np.empty(1, np.int32))[0] == 0
    assert (values(answer, np.empty((warps, 32), np.int32)) == expected).all()


@pytest.mark.parametrize("threads", [1, 31, 32, 50, 256])
def test_diverged_lanes_find_each_other(blocks, threads):
    out = on_device(np.zeros(threads, np.uint32))
    blocks.get_function("diverged")(out, block=(threads, 1, 1))
    expected = [
        sum(
            1 << (j % 32)
            for j in range(threads)
            if j // 32 == i // 32 and (j % 3 == 0) == (i % 3 == 0)
        )
        for i in range(threads)
    ]
    assert values(out, np.empty(threads, np.uint32)).tolist() == expected


@pytest.mark.parametrize(("grid", "threads"), [(1, 256), (1, 1024), (6, 64)])
def test_a_lock_between_threads_is_passed_on(blocks, grid, threads):
    lock, count = on_device(np.zeros(1, np.int32)), on_device(np.zeros(1, np.int32))
    blocks.get_function("lock")(lock, count, np.int32(3), grid=(grid, 1), block=(threads, 1, 1))
    assert values(count, np.empty(1, np.int32))[0] == 3 * grid * threads


def test_shared_memory_is_not_zero_at_first(blocks):
    for _ in range(3):
        out = on_device(np.zeros(128, np.float32))
        blocks.get_function("fresh_shared")(out, block=(64, 1, 1), shared=256)
        assert np.isnan(values(out, np.empty(128, np.float32))).all()


def test_variables_of_every_kind(blocks):
    pairs = np.array([(0, (0, 0)), (1.5, (7, 20))], np.dtype([("low", "f4"), ("high", "i4", 2)]))
    counter = np.full(1, 40, np.int32)
    for name, value in {
        "hidden": np.full(5, 2.5, np.float32),
        "pairs": pairs,
        "counter": counter,
    }.items():
        address, size = blocks.get_global(name)
        assert size == value.nbytes
        driver.memcpy_htod(address, value)
    assert blocks.get_global("three")[1] == 12
    out = on_device(np.zeros(4, np.float32))
    blocks.get_function("constants")(out, block=(1, 1, 1))
    assert values(out, np.empty(4, np.float32)).tolist() == [3, 2.5, 21.5, 40]
    driver.memcpy_dtoh(counter, blocks.get_global("counter")[0])
    assert counter[0] == 41


def test_a_thread_may_have_256_kb_of_its_own(blocks):
    out = on_device(np.zeros(64, np.int32))
    blocks.get_function("long_thread_local_array")(out, block=(64, 1, 1))
    assert (values(out, np.empty(64, np.int32)) == 128 * np.arange(64)).all()


def test_kernels_of_every_kind_are_described():
    source = """
        #include <cuda_fp16.h>
        struct Size { double d; char c; };
        enum Colour : short { red };
        namespace inner {
        using ushort_ = unsigned short;
        template <int N, class T>
        __global__ void typed(const T *x, Size s, bool b, char c, ushort_ u, double d, __half h, Colour e) {}
        template __global__ void typed<16, float>(const float *, Size, bool, char, ushort_, double, __half, Colour);
        static __global__ void local(unsigned long long n) {}
        }
        extern "C" { __global__ void plain() {} }
    """
    module = SourceModule(source, no_extern_c=True)
    kernels = {}
    for info in module.module.kernels():
        parameters = [(chr(p.kind), p.size, p.offset) for p in info.parameters]
        kernels[info.name] = info.symbol, parameters, info.packed_bytes
    assert kernels["plain"] == ("plain", [], 0)
    assert kernels["local"] == ("_ZN5innerL5localEy", [("u", 8, 0)], 8)
    symbol, parameters, size = kernels["typed<16, float>"]
    assert symbol.startswith("_ZN5inner5typedILi16EfEEv")
    assert parameters == [
        ("P", 8, 0),
        ("s", 16, 8),
        ("u", 1, 24),
        ("i", 1, 25),
        ("u", 2, 26),
        ("f", 8, 32),
        ("f", 2, 40),
        ("i", 2, 42),
    ]
    assert size == 48


# ---- Faults
# --------------------------------------------------------------------------------------------------

FAULTS = kernel_source("faults")


@pytest.fixture(scope="module")
def faults():
    return SourceModule(FAULTS, no_extern_c=True)


x86 = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="this processor loads from any address"
)
WRONGS = [
    (0, r"thread \(3,0,0\): a write to 0x10, a null pointer"),
    (
        1,
        r"divergent barrier, its threads wait at different ones: "
        r"thread \(0,0,0\) and 4 more at __syncthreads \(faults.cu:12\); "
        r"thread \(5,0,0\) and 58 more at __syncthreads \(faults.cu:13\)",
    ),
    (
        2,
        r"deadlock, all 8 threads wait: thread \(0,0,0\) and 4 more at __syncthreads \(faults.cu:14\); "
        r"thread \(5,0,0\) and 2 more at __syncwarp \(faults.cu:15\)",
    ),
    (3, r"thread \(7,0,0\): assertion .i != 7' failed at faults.cu:16"),
    (
        4,
        r"integer division by zero: it ends the launch here, while a GPU goes on with a number that has no meaning",
    ),
    (5, r"stack overflow: its local arrays and calls need more than 512 KB"),
    (6, r"thread \(9,0,0\): __trap\(\) at faults.cu:19"),
    (7, r"a read of 0x"),
    (9, r"a write to byte \d+ of dynamic shared memory, of which the launch has 1024 bytes"),
    (
        10,
        r"__shfl_sync at faults.cu:22 with mask 0x0000000f, which does not name the calling lane 4",
    ),
    (11, r"a misaligned address .*, or one that does not exist"),
    pytest.param(12, r"thread \(0,0,0\): a misaligned address \(that of a float4", marks=x86),
    (
        13,
        r"divergent barrier, its threads wait at different ones: "
        r"thread \(0,0,0\) and 39 more at __syncthreads \(faults.cu:26\); "
        r"thread \(5,0,0\) and 23 more at __syncthreads \(faults.cu:27\)",
    ),
    (
        14,
        r"deadlock, all 32 threads wait: thread \(0,0,0\) and 4 more at __syncthreads \(faults.cu:29\); "
        r"thread \(5,0,0\) and 26 more at __syncwarp \(faults.cu:30\)",
    ),
]


@pytest.mark.parametrize(("which", "words"), WRONGS)
def test_a_fault_ends_the_launch_and_nothing_else(faults, which, words):
    data = on_device(np.zeros(64, np.int32))
    faults.get_function("fault")(data, np.int32(which), grid=(3, 1), block=(64, 1, 1), shared=1024)
    with pytest.raises(driver.LaunchError) as caught:
        driver.Context.synchronize()
    assert re.search(r"kernel fault, block \(\d,0,0\)", str(caught.value))
    assert re.search(words, str(caught.value))
    driver.Context.synchronize()  # it is told once
    faults.get_function("fine")(data, block=(64, 1, 1))
    assert (values(data, np.empty(64, np.int32)) == np.arange(64)).all()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("how", range(4))
def test_endless_kernels_can_be_abandoned(faults, how):
    flag = on_device(np.zeros(64, np.int32))
    stream = driver.Stream()
    for _ in range(3):
        faults.get_function("endless")(
            flag, np.int32(how), grid=(3, 1), block=(64, 1, 1), stream=stream
        )
    after = driver.Event().record(stream)
    time.sleep(0.02)
    assert not stream.is_done() and not after.query()
    assert native.library().hc_abort() == native.OK
    driver.Context.synchronize()
    assert after.query()
    faults.get_function("fine")(flag, block=(64, 1, 1))
    assert values(flag, np.empty(64, np.int32))[63] == 63


def test_faults_of_the_program_itself_stay_its_own():
    done = run_python("""
        import ctypes, faulthandler, sys
        from hostcuda.api import driver
        driver.init()
        faulthandler.enable()
        ctypes.string_at(0)
    """)
    assert (
        done.returncode < 0 and "Segmentation fault" in done.stderr and "string_at" in done.stderr
    )


def test_a_handler_installed_later_does_not_hide_a_kernels_fault():
    done = run_python(f"""{IMPORTS}
import faulthandler
fault = SourceModule({FAULTS!r}, no_extern_c=True).get_function("fault")
faulthandler.enable()
fault(cuda.mem_alloc(4096), np.int32(0), block=(64, 1, 1))
try:
    cuda.Context.synchronize()
except cuda.LaunchError as error:
    print(error)
""")
    assert done.returncode == 0 and "null pointer" in done.stdout


# ---- Streams
# --------------------------------------------------------------------------------------------------

STREAMS = r"""
extern "C" {
__global__ void wait_for(volatile int *flag, int value) { while (*flag != value) __nanosleep(50); }
__global__ void set(volatile int *flag, int value) { *flag = value; }
__global__ void append(int *log, int value) { log[atomicAdd(log, 1) + 1] = value; }
__global__ void slow(int *data, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = 0; r < rounds; ++r)
        data[i] = data[i] * 3 + 1;
}
}
"""


@pytest.fixture(scope="module")
def streams():
    return SourceModule(STREAMS, no_extern_c=True)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor, one worker")
@pytest.mark.usefixtures("no_collection")
def test_kernels_of_one_block_run_side_by_side(streams):
    flags = on_device(np.zeros(2, np.int32))
    first, second = driver.Stream(), driver.Stream()
    wait_for, set_ = streams.get_function("wait_for"), streams.get_function("set")
    for turn in range(1, 200):
        wait_for(flags, np.int32(turn), block=(1, 1, 1), stream=first)
        set_(np.uintp(int(flags) + 4), np.int32(turn), block=(1, 1, 1), stream=first)
        set_(flags, np.int32(turn), block=(1, 1, 1), stream=second)
        wait_for(np.uintp(int(flags) + 4), np.int32(turn), block=(1, 1, 1), stream=second)
    driver.Context.synchronize()


def test_random_streams_and_events_keep_cudas_order(streams):
    """Operations append their number to a log; every pair that CUDA orders has to be in order there."""
    rng = np.random.default_rng(5)
    append = streams.get_function("append")
    queues = [None, *(driver.Stream() for _ in range(4))]
    for _ in range(6):
        count = 60
        log = on_device(np.zeros(count + 1, np.int32))
        before = {}  # operation -> the operations that must be done before it
        # what the next operation of a stream comes after
        last = {queue: set() for queue in range(5)}
        for number in range(count):
            queue = int(rng.integers(5))
            if rng.random() < 0.3:
                other = int(rng.integers(5))
                event = driver.Event()
                event.record(queues[other])
                if queues[queue] is not None and queues[other] is not None:
                    queues[queue].wait_for_event(event)
                    last[queue] = last[queue] | last[other]
            earlier = set().union(*last.values()) if queue == 0 else last[queue] | last[0]
            before[number] = earlier
            append(log, np.int32(number), grid=(1, 1), block=(1, 1, 1), stream=queues[queue])
            last[queue] = earlier | {number}
        driver.Context.synchronize()
        order = values(log, np.empty(count + 1, np.int32))
        assert order[0] == count and sorted(order[1:]) == list(range(count))
        place = {int(number): i for i, number in enumerate(order[1:])}
        for number, earlier in before.items():
            assert all(place[e] < place[number] for e in earlier)


def test_threads_of_the_program_share_the_device(streams):
    slow = streams.get_function("slow")

    def check_launches(seed):
        rng = np.random.default_rng(seed)
        stream = driver.Stream()
        for _ in range(20):
            data = rng.integers(0, 100, (int(rng.integers(1, 30)), 32)).astype(np.int32)
            rounds = int(rng.integers(1, 6))
            device = on_device(data)
            slow(device, np.int32(rounds), grid=(len(data), 1), block=(32, 1, 1), stream=stream)
            stream.synchronize()
            expected = data.copy()
            for _ in range(rounds):
                expected = expected * 3 + 1
            assert (values(device, data) == expected).all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(check_launches, range(4)))


# ---- Memory
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 255, 4096, (1 << 20) + 3, (40 << 20) + 5])
def test_memory_is_aligned_poisoned_and_fenced(size):
    address = native.mem_alloc(size)
    assert address % 256 == 0 and native.mem_range(address + size - 1) == (address, size)
    head = np.empty(min(size, 1 << 16), np.uint8)
    for offset in {0, size // 2 // 4096 * 4096, size - head.size} - {size}:
        part = head[: size - offset]
        driver.memcpy_dtoh(part, address + offset)
        assert (part == 0xFF).all()
    native.mem_free(address)
    assert native.mem_range(address) is None


@pytest.fixture(scope="module")
def overrun():
    module = SourceModule("""
        __global__ void write(int *p, int i) { p[i] = 7; }
        __global__ void write_there(int **p, int i) { (*p)[i] = 7; }
    """)
    return module.get_function("write"), module.get_function("write_there")


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (-1, "up to 4 bytes before an allocation of 400 bytes: is an index negative"),
        (-64, "up to 256 bytes before an allocation of 400 bytes"),
        (
            100,
            r"up to 4 bytes past the end of an allocation of 400 bytes: is a guard such as `if \(i < n\)` missing",
        ),
        (163, "up to 256 bytes past the end of an allocation of 400 bytes"),
    ],
)
def test_a_red_zone_tells(faults, overrun, offset, words):
    write, write_there = overrun
    address = native.mem_alloc(400)
    inside = np.uintp(address + 8)  # a pointer into the allocation
    write(inside, np.int32(offset - 2), block=(1, 1, 1))
    with pytest.raises(
        driver.LaunchError, match=f"cuCtxSynchronize failed: kernel write wrote {words}"
    ):
        driver.Context.synchronize()
    driver.Context.synchronize()  # it is told once
    pointer = driver.to_device(np.array([address], np.uint64))
    write_there(pointer, np.int32(offset), block=(1, 1, 1))
    driver.Context.synchronize()  # the address is not among the arguments
    with pytest.raises(driver.LaunchError, match=f"cuMemFree failed: a kernel wrote {words}"):
        native.mem_free(address)


def test_a_red_zone_names_its_kernel_at_the_first_call_that_waits(overrun):
    write, _ = overrun
    count, words = (
        np.int32(100),
        "kernel write wrote up to 4 bytes past the end of an allocation of 400 bytes",
    )
    array = np.zeros(100, np.int32)
    for handler in (driver.Out(array), driver.InOut(array)):
        with pytest.raises(driver.LaunchError, match=words):
            write(handler, count, block=(1, 1, 1))
    device = driver.to_device(array)
    for wait in (
        lambda: driver.memcpy_dtoh(array, device),
        lambda: values(device, array),
        device.free,
    ):
        write(device, count, block=(1, 1, 1))
        with pytest.raises(driver.LaunchError, match=words):
            wait()


def test_a_red_zone_is_not_damaged_by_writes_up_to_the_end(overrun):
    write, _ = overrun
    for size in (4, 12, 256, 4000, 4096, 8192 - 256):
        device = driver.mem_alloc(size)
        for at in (0, size // 4 - 1):
            write(device, np.int32(at), block=(1, 1, 1))
        driver.memset_d8(device, 0, size)
        driver.Context.synchronize()
        device.free()


def test_an_overrun_that_no_call_has_reported_is_told_at_exit():
    done = run_python(f"""{IMPORTS}
write = SourceModule("__global__ void write(int *p, int i) {{ p[i] = 7; }}").get_function("write")
y = cuda.mem_alloc(400)
write(y, np.int32(100), block=(1, 1, 1))
del y  # waits for the kernel
""")
    assert done.returncode == 0 and len(done.stderr.splitlines()) == 1
    assert (
        "kernel write wrote up to 4 bytes past the end of an allocation of 400 bytes" in done.stderr
    )


@pytest.mark.parametrize(
    ("stride", "words"), [(-13, "before"), (13, "past the end of"), (-100_000, "before")]
)
def test_a_loop_that_runs_away_reaches_nothing_else(stride, words):
    address = native.mem_alloc(400)
    source = "__global__ void run(volatile int *p, int stride) { for (long i = 0;; i += stride) p[i] = 7; }"
    SourceModule(source).get_function("run")(np.uintp(address), np.int32(stride), block=(1, 1, 1))
    with pytest.raises(
        driver.LaunchError,
        match=rf"run, .* a write to .* bytes {words} the allocation of 400 bytes",
    ):
        driver.Context.synchronize()
    with contextlib.suppress(driver.LaunchError):  # its red zones
        native.mem_free(address)


def test_untouched_memory_costs_nothing():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    driver.init()
    size = min(1 << 30, native.mem_info()[0] // 2)
    before = resident()
    address = native.mem_alloc(size)
    assert resident() - before < 64 << 20
    native.mem_free(address)


def test_the_limit_is_kept(streams):
    library = native.library()
    try:
        library.hc_mem_limit(driver.mem_get_info()[1] - driver.mem_get_info()[0] + (1 << 20))
        kept = driver.mem_alloc(1 << 19)
        with pytest.raises(driver.MemoryError):
            driver.mem_alloc((1 << 19) + 1)
        kept.free()
        driver.mem_alloc(1 << 20).free()
    finally:
        library.hc_mem_limit(0)


def test_too_little_memory_for_a_worker_is_an_error():
    done = run_python(
        """
        import resource
        from hostcuda.api import driver
        from hostcuda.runtime.building import build_library
        build_library()
        pages = int(open("/proc/self/statm").read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (64 << 20),) * 2)
        try:
            driver.init()
        except driver.MemoryError as error:
            print(error)
    """,
        HOSTCUDA_WORKERS="2",
    )
    assert "cuInit failed: there is no memory for a worker" in done.stdout, done.stderr


def test_a_long_print_keeps_both_ends_and_says_how_much_is_missing(capsys):
    source = 'extern "C" __global__ void tell(int n) { for (int i = 0; i < n; ++i) printf("line %d of many\\n", i); }'
    SourceModule(source, no_extern_c=True).get_function("tell")(np.int32(100_000), block=(1, 1, 1))
    driver.Context.synchronize()
    lines = capsys.readouterr().out.splitlines()
    (gap,) = (i for i, line in enumerate(lines) if line.startswith("["))
    missing = int(
        re.fullmatch(
            r"\[(\d+) bytes of printf are missing here: its buffer holds 1 MB\]", lines[gap]
        )[1]
    )
    numbers = [int(line.split()[1]) for line in (*lines[:gap], *lines[gap + 1 :])]
    assert (numbers[0], numbers[-1]) == (0, 99_999)
    assert numbers == [*range(gap), *range(100_000 - (len(lines) - gap - 1), 100_000)]
    assert missing == sum(len(f"line {i} of many\n") for i in range(gap, numbers[gap]))


def test_a_fault_signal_that_somebody_sends_ends_the_program():
    done = run_python(f"""{IMPORTS}
kernel = SourceModule("__global__ void one(int *x) {{ *x = 1; }}").get_function("one")
kernel(cuda.Out(np.zeros(1, np.int32)), block=(1, 1, 1))
os.kill(os.getpid(), signal.SIGSEGV)
print("still here")
""")
    assert done.returncode == -signal.SIGSEGV, done.stderr
    assert "still here" not in done.stdout


@pytest.mark.thorough("builds the library")
@pytest.mark.skipif(
    toolchain.is_clang(toolchain.find()) or not shutil.which("nm"),
    reason="needs g++, and nm of binutils",
)
def test_the_runtime_library_has_no_copy_of_the_standard_library(tmp_path, monkeypatch):
    """With a compiler that has only the static one, as on some GPU machines.

    An extension module that is loaded later would throw by the copy and catch by the shared one.
    """
    compiler = tmp_path / "g++"
    compiler.write_text(
        """#!/bin/sh
case "$*" in *-print-file-name=libstdc++.so) echo libstdc++.so; exit;; esac
exec g++ "$@" -static-libstdc++
"""
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("HOSTCUDA_CACHE_DIR", str(tmp_path / "cache"))
    command = ["nm", "-D", building.build_library(checks=False, with_header=False)]
    symbols = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert " T hc_launch" in symbols
    assert " U __cxa_begin_catch" in symbols and " T __cxa_begin_catch" not in symbols
