// Cooperative groups: each thread's view of its group, exchanges, reductions and scans.
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
