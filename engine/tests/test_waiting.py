"""Loops in which a thread waits for a word of memory that another thread writes."""

import time

import numpy as np
import pytest
from running import kernel_source

from hostcuda.api import driver
from hostcuda.api.compiler import SourceModule

pytestmark = pytest.mark.thorough("modes against each other: minutes")


@pytest.fixture(scope="module")
def kernels():
    return SourceModule(kernel_source("waiting"), no_extern_c=True)


def run(kernels, name, x, *arguments, block, grid=1):
    kernels.get_function(name)(*arguments, driver.InOut(x), block=(block, 1, 1), grid=(grid, 1))
    return x


def word(value=0):
    return driver.InOut(np.array([value], np.int32))


@pytest.mark.parametrize("name", ["one_waits", "with_a_counter"])
@pytest.mark.parametrize("block", [2, 33, 1024])
def test_a_thread_waits_for_a_later_one(kernels, name, block):
    x = run(kernels, name, np.zeros(1, np.int32), word(), block=block)[0]
    assert x == 7 or (name == "with_a_counter" and x != 0)


@pytest.mark.parametrize("block", [2, 33, 97])
def test_all_threads_wait_in_turn_and_keep_their_registers(kernels, block):
    t = np.arange(block, dtype=np.float32)
    assert (
        run(kernels, "all_wait", np.zeros(block, np.float32), block=block) == 4 * t + t * t
    ).all()


def test_two_threads_hand_a_word_back_and_forth(kernels):
    x = run(kernels, "back_and_forth", np.zeros(2, np.int32), word(), np.int32(100), block=2)
    assert x.tolist() == [4950, 4950]


def test_threads_wait_between_barriers_in_several_blocks(kernels):
    assert (
        run(kernels, "between_barriers", np.zeros(1, np.int32), np.int32(9), block=96, grid=6)[0]
        == 9 * 96 * 6
    )


def test_lanes_of_a_warp_wait_for_each_other(kernels):
    assert (
        run(kernels, "in_a_warp", np.zeros(32, np.int32), block=32) == (np.arange(32) ^ 1)
    ).all()


# ---- Loops that never end
# -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def endless():
    return SourceModule(kernel_source("endless"), no_extern_c=True)


@pytest.mark.parametrize(
    ("name", "block", "grid", "reason"),
    [
        ("nobody_writes", 64, 1, "or it waits for memory that nobody writes"),
        ("nobody_writes", 1, 1, "or it waits for memory that nobody writes"),
        ("never_released", 256, 3, "or it waits for memory that nobody writes"),
        ("forgets_its_step", 64, 1, "any more: its condition stays true"),
        ("all_blocks_meet", 64, 64, "Of the 64 blocks of its grid"),
    ],
)
def test_a_loop_that_never_ends_is_refused(endless, name, block, grid, reason):
    start = time.monotonic()
    says = f"kernel {name}, block .*thread .*it repeats a loop in which nothing changes .*{reason}"
    with pytest.raises(driver.LaunchError, match=says):
        endless.get_function(name)(word(), block=(block, 1, 1), grid=(grid, 1))
    assert time.monotonic() - start < 60  # 3 to 4 s on an idle machine
    # the engine goes on
    assert endless.get_function("all_blocks_meet")(word(), block=(64, 1, 1)) is None


@pytest.mark.parametrize("name", ["counts_slowly", "counts_in_a_register"])
def test_a_loop_that_makes_progress_for_seconds_ends(endless, name):
    endless.get_function(name)(word(), block=(1, 1, 1))


def test_a_kernel_waits_for_what_the_host_will_write(endless):
    stream, flag = driver.Stream(), driver.to_device(np.zeros(1, np.int32))
    endless.get_function("nobody_writes")(flag, block=(2, 1, 1), stream=stream)
    time.sleep(4.5)
    assert not stream.is_done()
    other = driver.Stream()
    one = driver.pagelocked_zeros(1, np.int32) + np.int32(1)
    driver.memcpy_htod_async(flag, one, other)
    stream.synchronize()
