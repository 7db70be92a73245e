"""Copies in the background, barriers in two steps, pipelines and atomic objects, held against NumPy."""

import numpy as np
import pytest
from running import kernel_source, launch

import hostcuda.autoinit  # noqa: F401
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule

pytestmark = pytest.mark.thorough("breadth of CUDA's API")

SOURCE = kernel_source("async")


def test_a_thread_copies_ahead(module):
    x = np.random.default_rng(1).random((4, 128), np.float32)
    y = np.zeros(32, np.float32)
    launch(module, "primitives", cuda.In(x), cuda.Out(y), np.int32(4))
    x[2].reshape(32, 4)[:, 3] = 0
    np.testing.assert_allclose(y, np.roll(x.reshape(4, 32, 4).sum((0, 2)), -1), rtol=1e-6)


def test_a_block_wide_pipeline(module):
    x = np.random.default_rng(2).random((5, 64), np.float32)
    y = np.zeros(64, np.float32)
    launch(module, "block_pipeline", cuda.In(x), cuda.Out(y), np.int32(5), threads=64)
    np.testing.assert_allclose(y, x.sum(0)[::-1], rtol=1e-6)


def test_a_warp_copies_for_the_others(module):
    x = np.random.default_rng(3).random((7, 64), np.float32)
    y = np.zeros(64, np.float32)
    launch(module, "producers_and_consumers", cuda.In(x), cuda.Out(y), np.int32(7), threads=96)
    np.testing.assert_allclose(y, x.sum(0)[::-1], rtol=1e-6)


def test_a_barrier_in_two_steps(module):
    x = np.random.default_rng(4).random((3, 64), np.float32)
    y = np.zeros(64, np.float32)
    launch(module, "split_barrier", cuda.In(x), cuda.Out(y), threads=64)
    sums = 3 + np.roll(x.sum(0), 32)
    sums[:48] += 2 * sums[47::-1]
    np.testing.assert_allclose(y, sums, rtol=1e-6)


def test_atomic_objects(module):
    x = np.random.default_rng(5).integers(-100, 1000, 1000).astype(np.int32)
    for _ in range(2):  # the counter of blocks is reset
        out, most = np.zeros(4, np.int32), np.full(1, -1e9)
        launch(
            module,
            "atomics",
            cuda.In(x),
            cuda.InOut(out),
            cuda.InOut(most),
            np.int32(1000),
            threads=128,
            blocks=8,
        )
        assert (
            list(out) == [x.sum(), (x & 1).sum(), x.sum(), np.bitwise_xor.reduce(x)]
            and most == x.max()
        )


def test_a_loop_that_waits_for_an_atomic_object_ends(module):
    out = np.zeros(1, np.int32)
    launch(module, "flag", cuda.Out(out), threads=64)
    assert out == 42


def test_the_standard_library(module):
    out = np.zeros(2)
    launch(module, "standard", cuda.Out(out), threads=1)
    assert list(out) == [10.5, np.finfo(np.float32).max]


@pytest.mark.usefixtures("cpu_engine")
def test_a_barrier_that_expects_too_many_names_its_line():
    launch(SourceModule(SOURCE, no_extern_c=True), "stuck", np.uintp(0), threads=40)
    line = SOURCE[: SOURCE.rindex("ready.arrive_and_wait")].count("\n")
    words = rf"thread \(0,0,0\) and 39 more at cuda::barrier::wait \(async.cu:{line}\)"
    with pytest.raises(cuda.LaunchError, match=words):
        cuda.Context.synchronize()
