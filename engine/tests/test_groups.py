"""Cooperative groups: each thread's view of its group, exchanges, reductions and scans, held against NumPy."""

import numpy as np
import pytest

import hostcuda.autoinit  # noqa: F401
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule

pytestmark = pytest.mark.thorough("breadth of CUDA's API")

SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
namespace cg = cooperative_groups;

struct Pair {
    double least, most;
    int count;
    __device__ Pair(double least, double most, int count) : least(least), most(most), count(count) {}
};

__device__ int sum_of(const cg::thread_group &g, int *scratch, int value)
{
    int *mine = scratch + threadIdx.x - g.thread_rank();
    scratch[threadIdx.x] = value;
    for (unsigned stride = 1; stride < g.size(); stride *= 2) {
        g.sync();
        int other = g.thread_rank() + stride < g.size() ? mine[g.thread_rank() + stride] : 0;
        g.sync();
        scratch[threadIdx.x] += other;
    }
    g.sync();
    int sum = mine[0];
    g.sync();
    return sum;
}

template <unsigned size> __device__ int tile_sum(const cg::thread_block_tile<size> &tile, int value)
{
    return cg::reduce(tile, value, cg::plus<int>());
}

extern "C" {

// out[kind][thread]
__global__ void generic(int *out)
{
    __shared__ int scratch[128];
    cg::thread_block block = cg::this_thread_block();
    cg::thread_group tile = cg::tiled_partition(block, 8), quarter = cg::tiled_partition(tile, 2);
    out[threadIdx.x] = sum_of(block, scratch, threadIdx.x);
    out[128 + threadIdx.x] = sum_of(tile, scratch, threadIdx.x);
    out[256 + threadIdx.x] = sum_of(quarter, scratch, threadIdx.x);
    out[384 + threadIdx.x] = sum_of(cg::tiled_partition<32>(block), scratch, threadIdx.x);
}

__global__ void partitions(const int *label, int *out)
{
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    auto same = cg::labeled_partition(tile, label[threadIdx.x]);
    int at = threadIdx.x * 8;
    out[at] = same.thread_rank();
    out[at + 1] = same.num_threads();
    out[at + 2] = same.meta_group_rank();
    out[at + 3] = same.meta_group_size();
    auto odd = cg::binary_partition(tile, label[threadIdx.x] & 1);
    out[at + 4] = odd.thread_rank();
    out[at + 5] = odd.num_threads();
    out[at + 6] = odd.meta_group_rank();
    auto few = cg::tiled_partition(odd, 4);
    out[at + 7] = cg::reduce(few, (int)threadIdx.x, cg::less<int>()) * 100 + few.meta_group_rank();
}

__global__ void exchanges(const int *x, int *out, double *pairs)
{
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    int mine = x[threadIdx.x], at = threadIdx.x * 8;
    out[at] = tile.shfl(mine, 3);
    out[at + 1] = tile.shfl_xor(mine, 5);
    out[at + 2] = cg::inclusive_scan(tile, mine);
    out[at + 3] = cg::exclusive_scan(tile, mine, cg::plus<int>());
    out[at + 4] = cg::inclusive_scan(tile, mine, cg::greater<int>());
    out[at + 5] = tile_sum<16>(tile, mine);
    out[at + 6] = cg::invoke_one_broadcast(tile, [&] { return mine; });
    out[at + 7] = tile.meta_group_rank() * 100 + tile.meta_group_size();
    Pair pair(mine, mine, 1);
    auto join = [](const Pair &a, const Pair &b) {
        return Pair(a.least < b.least ? a.least : b.least, a.most > b.most ? a.most : b.most, a.count + b.count);
    };
    Pair all = cg::reduce(tile, pair, join), next = tile.shfl_down(all, 1), first = tile.shfl(pair, 0);
    double *to = pairs + threadIdx.x * 4;
    to[0] = next.least;
    to[1] = next.most;
    to[2] = next.count;
    to[3] = first.most;
}

__global__ void large_tiles(const int *x, int *out)
{
    __shared__ cg::block_tile_memory<256> memory;
    auto block = cg::this_thread_block(memory);
    auto tile = cg::tiled_partition<128>(block);
    auto half = cg::tiled_partition<64>(tile);
    int mine = x[threadIdx.x], at = threadIdx.x * 6;
    out[at] = cg::reduce(tile, mine, cg::plus<int>());
    if (tile.meta_group_rank() == 0) out[at + 1] = cg::reduce(half, mine, cg::plus<int>());   // the other tile goes on
    else out[at + 1] = tile.shfl(mine, 100);
    out[at + 2] = cg::exclusive_scan(half, mine);
    out[at + 3] = tile.any(mine == 7) * 2 + tile.all(mine >= 0);
    out[at + 4] = tile.thread_rank();
    tile.sync();
    auto token = block.barrier_arrive();
    out[at + 5] = half.meta_group_rank();
    block.barrier_wait(std::move(token));
}

__global__ void copies(const float *x, float *y, int n)
{
    __shared__ __align__(16) float rows[4][64];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    cg::memcpy_async(block, rows[0], x, sizeof(float) * 64);
    cg::memcpy_async(warp, rows[1] + 32 * warp.meta_group_rank(), 32, x + 65 + 32 * warp.meta_group_rank(), n);
    cg::wait_prior<1>(block);
    cg::memcpy_async(block, rows[2], x + 1, cuda::aligned_size_t<4>(sizeof(float) * 64));
    cg::wait(block);
    for (int i = 0; i < 3; i++) y[i * 64 + threadIdx.x] = rows[i][63 - threadIdx.x];
}

__global__ void grid(unsigned long long *out)
{
    auto grid = cg::this_grid();
    unsigned long long rank = grid.thread_rank();
    out[rank * 4] = grid.block_rank();
    out[rank * 4 + 1] = grid.size();
    out[rank * 4 + 2] = grid.num_blocks();
    out[rank * 4 + 3] = grid.dim_blocks().x * 10 + grid.block_index().y;
}

__global__ void grid_sync(int *) { cg::this_grid().sync(); }
__global__ void lonely(int *) { if (threadIdx.x < 70) cg::tiled_partition<64>(cg::this_thread_block()).sync(); }

}
"""


@pytest.fixture(scope="module")
def module():
    return SourceModule(SOURCE, no_extern_c=True)


def call(module, name, *arguments, threads=32, grid=(1, 1)):
    module.get_function(name)(*arguments, block=(threads, 1, 1), grid=grid)


THREADS = np.arange(128)


def test_a_function_of_any_group(module):
    out = np.zeros((4, 128), np.int32)
    call(module, "generic", cuda.Out(out), threads=128)
    for row, size in zip(out, (128, 8, 2, 32), strict=True):
        assert (row == THREADS.reshape(-1, size).sum(1).repeat(size)).all()


def test_partitions_by_label_and_predicate(module):
    label = np.random.default_rng(1).integers(-2, 3, 32).astype(np.int32)
    out = np.zeros((32, 8), np.int32)
    call(module, "partitions", cuda.In(label), cuda.Out(out))
    firsts = sorted({np.flatnonzero(label == value)[0] for value in label})
    for thread, row in enumerate(out):
        same, odd = np.flatnonzero(label == label[thread]), np.flatnonzero((label & 1) == (label[thread] & 1))
        number = firsts.index(same[0])
        assert tuple(row[:4]) == ((same < thread).sum(), same.size, number, len(firsts))
        rank = (odd < thread).sum()
        assert tuple(row[4:7]) == (rank, odd.size, label[thread] & 1)
        assert row[7] == odd[rank // 4 * 4] * 100 + rank // 4


def test_exchanges_and_scans_of_a_tile(module):
    x = np.random.default_rng(2).integers(0, 50, 64).astype(np.int32)
    out, pairs = np.zeros((64, 8), np.int32), np.zeros((64, 4))
    call(module, "exchanges", cuda.In(x), cuda.Out(out), cuda.Out(pairs), threads=64)
    tiles, rank = x.reshape(4, 16), np.arange(16)
    assert (out[:, 0] == tiles[:, 3].repeat(16)).all()
    assert (out[:, 1] == tiles[:, rank ^ 5].ravel()).all()
    assert (out[:, 2] == tiles.cumsum(1).ravel()).all()
    assert (out[:, 3] == (tiles.cumsum(1) - tiles).ravel()).all()
    assert (out[:, 4] == np.maximum.accumulate(tiles, 1).ravel()).all()
    assert (out[:, 5] == tiles.sum(1).repeat(16)).all()
    assert (out[:, 6] == tiles[:, 0].repeat(16)).all()
    assert (out[:, 7] == np.arange(64) // 16 * 100 + 4).all()
    assert (pairs[:, 0] == tiles.min(1).repeat(16)).all() and (pairs[:, 1] == tiles.max(1).repeat(16)).all()
    assert (pairs[:, 2] == 16).all() and (pairs[:, 3] == tiles[:, 0].repeat(16)).all()


def test_tiles_of_several_warps(module):
    x = np.random.default_rng(3).integers(0, 50, 256).astype(np.int32)
    x[:128] += 10
    x[200] = 7
    out = np.zeros((256, 6), np.int32)
    call(module, "large_tiles", cuda.In(x), cuda.Out(out), threads=256)
    tiles, halves = x.reshape(2, 128), x.reshape(4, 64)
    assert (out[:, 0] == tiles.sum(1).repeat(128)).all()
    assert (out[:128, 1] == halves[:2].sum(1).repeat(64)).all() and (out[128:, 1] == tiles[1, 100]).all()
    assert (out[:, 2] == (halves.cumsum(1) - halves).ravel()).all()
    assert (out[:128, 3] == 1).all() and (out[128:, 3] == 3).all()
    assert (out[:, 4] == np.arange(256) % 128).all() and (out[:, 5] == np.arange(256) % 128 // 64).all()


def test_copies_of_a_group(module):
    x = np.random.default_rng(4).random(200, np.float32)
    y = np.zeros((3, 64), np.float32)
    call(module, "copies", cuda.In(x), cuda.Out(y), np.int32(40), threads=64)
    assert (y[:, ::-1] == [x[:64], x[65:129], x[1:65]]).all()


def test_ranks_in_the_grid(module):
    out = np.zeros((6 * 32, 4), np.uint64)
    call(module, "grid", cuda.Out(out), grid=(3, 2))
    rank = np.arange(6 * 32) // 32
    assert (out == np.stack([rank, 0 * rank + 192, 0 * rank + 6, 30 + rank // 3], 1)).all()


@pytest.mark.usefixtures("cpu_engine")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("grid_sync", r"grid.sync\(\) at kernel.cu:\d+: .* not cooperative, .*; end the kernel here and launch"),
        ("lonely", r"deadlock, all 6 threads wait: thread \(64,0,0\) and 5 more at sync \(kernel.cu:\d+\)"),
    ],
)
def test_a_group_that_cannot_meet(module, name, words):
    call(SourceModule(SOURCE, no_extern_c=True), name, np.uintp(0), threads=96)
    with pytest.raises(cuda.LaunchError, match=words):
        cuda.Context.synchronize()
