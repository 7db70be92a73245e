"""Cooperative groups: each thread's view of its group, exchanges, reductions and scans, held against NumPy."""

import numpy as np
import pytest
from running import kernel_source, launch

import hostcuda.autoinit  # noqa: F401
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule

pytestmark = pytest.mark.thorough("breadth of CUDA's API")

SOURCE = kernel_source("groups")


THREADS = np.arange(128)


def test_a_function_of_any_group(module):
    out = np.zeros((4, 128), np.int32)
    launch(module, "generic", cuda.Out(out), threads=128)
    for row, size in zip(out, (128, 8, 2, 32), strict=True):
        assert (row == THREADS.reshape(-1, size).sum(1).repeat(size)).all()


def test_partitions_by_label_and_predicate(module):
    label = np.random.default_rng(1).integers(-2, 3, 32).astype(np.int32)
    out = np.zeros((32, 8), np.int32)
    launch(module, "partitions", cuda.In(label), cuda.Out(out))
    firsts = sorted({np.flatnonzero(label == value)[0] for value in label})
    for thread, row in enumerate(out):
        same, odd = (
            np.flatnonzero(label == label[thread]),
            np.flatnonzero((label & 1) == (label[thread] & 1)),
        )
        number = firsts.index(same[0])
        assert tuple(row[:4]) == ((same < thread).sum(), same.size, number, len(firsts))
        rank = (odd < thread).sum()
        assert tuple(row[4:7]) == (rank, odd.size, label[thread] & 1)
        assert row[7] == odd[rank // 4 * 4] * 100 + rank // 4


def test_exchanges_and_scans_of_a_tile(module):
    x = np.random.default_rng(2).integers(0, 50, 64).astype(np.int32)
    out, pairs = np.zeros((64, 8), np.int32), np.zeros((64, 4))
    launch(module, "exchanges", cuda.In(x), cuda.Out(out), cuda.Out(pairs), threads=64)
    tiles, rank = x.reshape(4, 16), np.arange(16)
    assert (out[:, 0] == tiles[:, 3].repeat(16)).all()
    assert (out[:, 1] == tiles[:, rank ^ 5].ravel()).all()
    assert (out[:, 2] == tiles.cumsum(1).ravel()).all()
    assert (out[:, 3] == (tiles.cumsum(1) - tiles).ravel()).all()
    assert (out[:, 4] == np.maximum.accumulate(tiles, 1).ravel()).all()
    assert (out[:, 5] == tiles.sum(1).repeat(16)).all()
    assert (out[:, 6] == tiles[:, 0].repeat(16)).all()
    assert (out[:, 7] == np.arange(64) // 16 * 100 + 4).all()
    assert (pairs[:, 0] == tiles.min(1).repeat(16)).all() and (
        pairs[:, 1] == tiles.max(1).repeat(16)
    ).all()
    assert (pairs[:, 2] == 16).all() and (pairs[:, 3] == tiles[:, 0].repeat(16)).all()


def test_tiles_of_several_warps(module):
    x = np.random.default_rng(3).integers(0, 50, 256).astype(np.int32)
    x[:128] += 10
    x[200] = 7
    out = np.zeros((256, 6), np.int32)
    launch(module, "large_tiles", cuda.In(x), cuda.Out(out), threads=256)
    tiles, halves = x.reshape(2, 128), x.reshape(4, 64)
    assert (out[:, 0] == tiles.sum(1).repeat(128)).all()
    assert (out[:128, 1] == halves[:2].sum(1).repeat(64)).all() and (
        out[128:, 1] == tiles[1, 100]
    ).all()
    assert (out[:, 2] == (halves.cumsum(1) - halves).ravel()).all()
    assert (out[:128, 3] == 1).all() and (out[128:, 3] == 3).all()
    assert (out[:, 4] == np.arange(256) % 128).all() and (
        out[:, 5] == np.arange(256) % 128 // 64
    ).all()


def test_copies_of_a_group(module):
    x = np.random.default_rng(4).random(200, np.float32)
    y = np.zeros((3, 64), np.float32)
    launch(module, "copies", cuda.In(x), cuda.Out(y), np.int32(40), threads=64)
    assert (y[:, ::-1] == [x[:64], x[65:129], x[1:65]]).all()


def test_ranks_in_the_grid(module):
    out = np.zeros((6 * 32, 4), np.uint64)
    module.get_function("grid")(cuda.Out(out), block=(32, 1, 1), grid=(3, 2))
    rank = np.arange(6 * 32) // 32
    assert (out == np.stack([rank, 0 * rank + 192, 0 * rank + 6, 30 + rank // 3], 1)).all()


@pytest.mark.usefixtures("cpu_engine")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "grid_sync",
            r"grid.sync\(\) at groups.cu:\d+: the launch is not cooperative: .* or end the kernel here",
        ),
        (
            "lonely",
            r"deadlock, all 6 threads wait: thread \(64,0,0\) and 5 more at sync \(groups.cu:\d+\)",
        ),
    ],
)
def test_a_group_that_cannot_meet(module, name, words):
    launch(SourceModule(SOURCE, no_extern_c=True), name, np.uintp(0), threads=96)
    with pytest.raises(cuda.LaunchError, match=words):
        cuda.Context.synchronize()
