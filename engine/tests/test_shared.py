"""A block's shared memory: where its arrays are, and what happens at their ends."""

import re

import numpy as np
import pytest
from running import IMPORTS, kernel_source, run_python

from hostcuda.api import driver
from hostcuda.api.compiler import SourceModule

pytestmark = pytest.mark.core("what every tiled kernel relies on")

SOURCE = kernel_source("shared")


def error_of(function, *arguments, **geometry):
    """Return the message of the launch's error."""
    function(*arguments, **geometry)
    with pytest.raises(driver.LaunchError) as caught:
        driver.Context.synchronize()
    return str(caught.value)


X = np.full(128, 5, np.float32)


@pytest.mark.parametrize("past", [0, 1, 15, 16, 1000, 100_000])
def test_a_write_past_the_only_array_faults_in_its_thread(module, past):
    x = driver.to_device(X)
    text = error_of(
        module.get_function("write_at"), x, np.int32(128 + past), block=(128, 1, 1), grid=(2, 1)
    )
    where = r"kernel write_at, block \([01],0,0\), thread \(0,0,0\): a write to "
    assert re.search(
        where + f"byte {512 + 4 * past} of the __shared__ array s, which has 512 bytes", text
    )


def test_a_read_past_an_array_faults(module):
    x, y = driver.to_device(X), driver.mem_alloc(512)
    text = error_of(module.get_function("read_at"), x, y, np.int32(1), block=(128, 1, 1))
    assert (
        "thread (127,0,0): a read of byte 512 of the __shared__ array s, which has 512 bytes"
        in text
    )


def test_a_write_before_an_array_is_found_after_the_block(module):
    text = error_of(
        module.get_function("write_at"), driver.to_device(X), np.int32(-1), block=(128, 1, 1)
    )
    assert (
        "kernel write_at, block (0,0,0): a write to bytes -4 to -1 of the __shared__ array s"
        in text
    )


@pytest.mark.parametrize(
    ("which", "name", "size"), [(0, "first", 33), (1, "second", 168), (2, "last", 3)]
)
@pytest.mark.parametrize("past", [0, 5, -1])
def test_each_of_several_arrays_is_named(module, which, name, size, past):
    text = error_of(
        module.get_function("odd_sizes"),
        np.int32(which),
        np.int32(past),
        grid=(4, 1),
        block=(32, 1, 1),
    )
    at = past if past < 0 else size + past
    assert "kernel odd_sizes, block (2,0,0)" in text
    assert re.search(
        rf": a write to byte(s {at} to)? {at} of the __shared__ array {name}, which has {size} b",
        text,
    )


@pytest.mark.parametrize("at", [100, 255, -1])
def test_the_ends_of_dynamic_memory_that_are_not_at_a_guard(module, at):
    text = error_of(module.get_function("sized"), np.int32(at), block=(64, 1, 1), shared=100)
    assert (
        f"a write to bytes {at} to {at} of dynamic shared memory, of which the launch has 100 bytes"
        in text
    )


def test_the_next_launch_is_right(module):
    y = np.empty(32, np.int32)
    error_of(
        module.get_function("odd_sizes"), np.int32(0), np.int32(0), grid=(3, 1), block=(32, 1, 1)
    )
    module.get_function("all_kinds")(driver.Out(y), block=(32, 1, 1), shared=128)
    t = np.arange(32)
    assert (y == 5 * (31 - t) + np.where(t < 5, 4 - t, 0)).all()


def test_an_array_can_be_accessed_as_float4(module):
    y = np.empty(16, np.float32)
    module.get_function("as_float4")(driver.Out(y), block=(16, 1, 1))
    assert (y == 4).all()


def test_two_modules_share_the_workers_memory(module):
    """Launches of two modules take turns on the workers, each with its own layout."""
    other = SourceModule("""
        __global__ void turn(int *y, int n) { __shared__ int s[64], t[3]; t[threadIdx.x % 3] = 7;
            for (int i = 0; i < n; i++) { s[threadIdx.x] = y[threadIdx.x]; __syncthreads();
                y[threadIdx.x] = s[63 - threadIdx.x] + 1; __syncthreads(); } }""").get_function(
        "turn"
    )
    streams = driver.Stream(), driver.Stream()
    a, b = driver.to_device(np.zeros(64, np.int32)), driver.to_device(np.zeros(32, np.int32))
    for _ in range(20):
        other(a, np.int32(10), block=(64, 1, 1), stream=streams[0])
        module.get_function("all_kinds")(b, block=(32, 1, 1), shared=128, stream=streams[1])
    assert (driver.from_device(a, 64, np.int32) == 200).all()
    assert (driver.from_device(b, 32, np.int32) >= 0).all()


COUNTED = f"""{IMPORTS}
f = SourceModule({SOURCE!r}, no_extern_c=True).get_function("write_at")
for past in 0, 100_000:
    f(cuda.to_device(np.zeros(128, np.float32)), np.int32(128 + past), block=(128, 1, 1))
    try:
        cuda.Context.synchronize()
    except cuda.LaunchError as error:
        print(error)
print([(f.tool, f.kind, f.line) for launch in checking.launches() for f in launch.findings])
"""


@pytest.mark.parametrize("tools", ["profile", "memcheck"])
def test_check_mode_names_the_array_too(tools):
    first, second, findings = run_python(COUNTED, HOSTCUDA_CHECK=tools).stdout.splitlines()
    for at, text in (512, first), (400512, second):
        place = f"element {at // 4}" if tools == "memcheck" else f"byte {at}"
        assert re.search(
            rf"block \(0,0,0\), thread \(0,0,0\): .*{place} of the __shared__ array s", text
        )
    assert findings == str([("memcheck", "out of bounds", 9)] * 2 if tools == "memcheck" else [])


HEAP = r"""
#include <exception>
#include <stdlib.h>
extern "C" void __stack_chk_fail();
__device__ int *volatile kept;
extern "C" __global__ void f(int *x, int how) {
    if (threadIdx.x != 5) return;
    switch (how) {
    case 0: kept = (int *)malloc(64); free(kept); free(kept); break;
    case 1: free(x); break;
    case 2: kept = new int[500]; delete[] kept; delete[] kept; break;
    case 3: kept = (int *)malloc(64); kept[16] = 1; free(kept); break;
    case 4: abort();
    case 5: exit(3);
    case 6: _Exit(0);
    case 7: std::terminate();
    case 9: __stack_chk_fail();
    case 8: kept = (int *)malloc(64); kept[15] = 7; x[0] = kept[15]; free(kept); free(nullptr);
            kept = new int[5]{1}; x[1] = kept[0]; delete[] kept;
    }
}
"""


@pytest.fixture(scope="module")
def heap():
    return SourceModule(HEAP, no_extern_c=True).get_function("f")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (0, r"free of 0x\w+, which was freed before"),
        (1, r"free of 0x\w+, which is not the start of an allocation of a kernel"),
        (2, r"free of 0x\w+, which was freed before"),
        (3, r"a write past the end of the 64 bytes that malloc or new returned"),
        (4, r"abort\(\) was called"),
        (5, r"exit\(\) was called: leave a kernel with return"),
        (6, r"exit\(\) was called"),
        (7, r"std::terminate\(\) was called"),
        (9, r"the C or C\+\+ library has called abort\(\)"),
    ],
)
def test_what_would_end_a_process_ends_the_launch(heap, how, words):
    text = error_of(heap, driver.to_device(np.zeros(64, np.int32)), np.int32(how), block=(64, 1, 1))
    assert re.search(r"kernel f, block \(0,0,0\), thread \(5,0,0\): " + words, text)


def test_memory_from_malloc_and_new(heap):
    x = np.zeros(2, np.int32)
    heap(driver.InOut(x), np.int32(8), block=(64, 1, 1))
    assert x.tolist() == [7, 1]
