// What barriers of some threads of a block order: named ones, tiles of several warps, the block's arrive and wait, and pipelines. Each
// wrong kernel is a right one with one change. Blocks have 128 threads.
#include <cooperative_groups.h>
#include <cuda/pipeline>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;
#define KERNEL extern "C" __global__ void

enum Mistake { none, full_too_early, free_too_early, wrong_number, not_waited, left_out, no_fence };

__device__ void meet(int number, int warps) { asm volatile("bar.sync %0, %1;" :: "r"(number), "r"(32 * warps) : "memory"); }
__device__ void arrive(int number, int warps) { asm volatile("bar.arrive %0, %1;" :: "r"(number), "r"(32 * warps) : "memory"); }
__device__ unsigned in_shared(const void *at) { return (unsigned)__cvta_generic_to_shared(at); }

// The first warp fills a ring of two stages, the other three read it.
template <Mistake mistake> __device__ void pass(int (*stage)[32], int *y)
{
    const int lane = threadIdx.x % 32, FULL = 1, FREE = 3;
    int sum = 0;
    for (int i = 0; i < 6; i++) {
        const int s = i % 2;
        if (threadIdx.x < 32) {
            if (i >= 2) meet(FREE + s, 4);
            if (mistake == full_too_early) arrive(FULL + s, 4);
            stage[s][lane] = i + lane;
            if (mistake != full_too_early) arrive(FULL + s, 4);
        } else {
            meet(FULL + s, 4);
            if (mistake == free_too_early && i < 4) arrive(FREE + s, 4);
            sum += stage[s][31 - lane];
            if (mistake != free_too_early && i < 4) arrive(FREE + s, 4);
        }
    }
    y[threadIdx.x] = sum;
}
template <Mistake mistake> __device__ void ring(int *y)
{
    __shared__ int stage[2][32];
    pass<mistake>(stage, y);
}
template <Mistake mistake> __device__ void global_ring(int *y) { pass<mistake>((int (*)[32])(y + 256), y); }

// A stage that cp.async fills.
template <Mistake mistake> __device__ void copied(int *y)
{
    __shared__ int stage[32];
    if (threadIdx.x < 32) {
        __pipeline_memcpy_async(&stage[threadIdx.x], &y[256 + threadIdx.x], 4);
        __pipeline_commit();
        if (mistake == full_too_early) arrive(1, 4);
        __pipeline_wait_prior(0);
        if (mistake != full_too_early) arrive(1, 4);
    } else {
        meet(1, 4);
        y[threadIdx.x] = stage[threadIdx.x % 32];
    }
}

// A bulk copy into a stage that three warps have read.
template <Mistake mistake> __device__ void bulk_copied(int *y)
{
    __shared__ alignas(16) int stage[32];
    __shared__ uint64_t landed;
    const int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) stage[lane] = lane;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(in_shared(&landed)) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x < 32) {
        meet(1, 4);
        if (lane == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" :: "r"(in_shared(&landed)) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                         :: "r"(in_shared(stage)), "l"(y + 256), "r"(in_shared(&landed)) : "memory");
        }
    } else {
        if (mistake == free_too_early) arrive(1, 4);
        int first = stage[31 - lane];
        if (mistake != free_too_early) arrive(1, 4);
        asm volatile("{.reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN;}"
                     :: "r"(in_shared(&landed)) : "memory");
        y[threadIdx.x] = first + stage[lane];
    }
}

// Three warps fill a buffer and meet; then one thread copies it to global memory, and they fill it again.
template <Mistake mistake> __device__ void bulk_stored(int *y)
{
    __shared__ alignas(16) int tile[96];
    if (threadIdx.x >= 96) return;
    if (mistake != left_out || threadIdx.x < 64) tile[threadIdx.x] = threadIdx.x;
    if (mistake != no_fence) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (mistake == left_out && threadIdx.x >= 64) {
        arrive(1, 3);
        tile[threadIdx.x] = threadIdx.x;
    } else {
        meet(1, 3);
    }
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 384;" :: "l"(y + 256), "r"(in_shared(tile)) : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        if (mistake != not_waited) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    meet(2, 3);
    tile[threadIdx.x] = 0;
    if (mistake == not_waited && threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// The second warp reads what the first one writes; the third one knows of that by the second, or not.
template <Mistake mistake> __device__ void third(int *y)
{
    __shared__ int x[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (warp == 0) x[lane] = lane;
    if (warp < 2) meet(1, 2);
    if (warp == 1 && mistake != left_out) arrive(2, 2);
    if (warp == 2 && mistake != left_out) meet(2, 2);
    if (warp == 1 || warp == 2) y[threadIdx.x] = x[31 - lane];
}

// Two pairs of warps, each at a barrier of its own.
template <Mistake mistake> __device__ void pairs(int *y)
{
    __shared__ int x[128];
    const int pair = threadIdx.x / 64, t = threadIdx.x % 64, from = mistake == left_out ? 1 - pair : pair;
    x[threadIdx.x] = t;
    meet(1 + pair, 2);
    y[threadIdx.x] = x[64 * from + 63 - t];
}
template <Mistake mistake> __device__ void global_pairs(int *y)
{
    const int pair = threadIdx.x / 64, t = threadIdx.x % 64, from = mistake == left_out ? 1 - pair : pair;
    y[256 + threadIdx.x] = t;
    meet(1 + pair, 2);
    y[threadIdx.x] = y[256 + 64 * from + 63 - t];
}

// Two warps fill a buffer each, for one of the others.
template <Mistake mistake> __device__ void buffers(int *y)
{
    __shared__ int x[2][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, its = warp % 2;
    if (warp < 2) {
        x[its][lane] = lane;
        arrive(1 + its, 2);
    } else {
        meet(mistake == wrong_number ? 2 - its : 1 + its, 2);
        y[threadIdx.x] = x[its][31 - lane];
    }
}

// Three warps use x, all or all but the second say so, and the fourth one writes it, or its bytes, or reads it.
template <Mistake mistake, bool updates, class Written> __device__ void three(int *x, int *y)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (warp < 3) x[32 * (1 + warp) + lane] = lane;              // so that this memory is one that the kernel stores to
    if (warp == 3 && !updates) x[lane] = lane;
    __syncthreads();
    const int arriving = mistake == left_out ? 3 : 4;
    if (warp < 3) {
        if (updates) atomicAdd(&x[lane], 1);
        else y[threadIdx.x] = x[lane];
        if (mistake != left_out || warp != 1) arrive(1, arriving);
    } else {
        meet(1, arriving);
        if (updates) y[threadIdx.x] = x[lane];
        else ((Written *)x)[lane] = 0;
    }
}
#define IN_SHARED(name, ...) template <Mistake mistake> __device__ void name(int *y) { __shared__ int x[128]; three<mistake, __VA_ARGS__>(x, y); }
#define IN_GLOBAL(name, ...) template <Mistake mistake> __device__ void name(int *y) { three<mistake, __VA_ARGS__>(y + 256, y); }
IN_SHARED(readers, false, int)
IN_SHARED(readers_of_words, false, char)
IN_SHARED(updates, true, int)
IN_GLOBAL(global_readers, false, int)
IN_GLOBAL(global_updates, true, int)

// A barrier for two phases: the second one has to be waited for, too.
template <Mistake mistake> __device__ void phases(int *y)
{
    __shared__ int x[2][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (warp == 0) {
        x[0][lane] = lane;
        arrive(1, 2);
        x[1][lane] = lane;
        meet(2, 2);
        arrive(1, 2);
    } else if (warp == 1) {
        meet(1, 2);
        int sum = x[0][31 - lane];
        arrive(2, 2);
        if (mistake != not_waited) meet(1, 2);
        sum += x[1][31 - lane];
        if (mistake == not_waited) meet(1, 2);
        y[threadIdx.x] = sum;
    }
}

// All threads of the block meet, or one warp leaves before.
template <Mistake mistake> __device__ void whole(int *y)
{
    __shared__ int x[128];
    x[threadIdx.x] = threadIdx.x;
    if (mistake == left_out && threadIdx.x >= 96) return;
    meet(1, mistake == left_out ? 3 : 4);
    y[threadIdx.x] = x[127 - threadIdx.x];
}

// The lanes of a warp.
template <Mistake mistake> __device__ void lanes(int *y)
{
    __shared__ int x[64];
    if (threadIdx.x >= 64) return;
    x[threadIdx.x] = threadIdx.x;
    if (mistake == not_waited && threadIdx.x < 32) arrive(1, 2);
    else meet(1, 2);
    y[threadIdx.x] = x[threadIdx.x ^ 1];
}

template <Mistake mistake> __device__ void tiles(int *y)
{
    __shared__ int x[128];
    __shared__ cg::block_tile_memory<128> memory;
    auto tile = cg::tiled_partition<64>(cg::this_thread_block(memory));
    x[threadIdx.x] = threadIdx.x;
    tile.sync();
    y[threadIdx.x] = x[threadIdx.x ^ (mistake == left_out ? 64 : 32)];
}

template <Mistake mistake> __device__ void split(int *y)
{
    __shared__ int x[128];
    auto block = cg::this_thread_block();
    if (mistake != full_too_early) x[threadIdx.x] = threadIdx.x;
    auto token = block.barrier_arrive();
    if (mistake == full_too_early) x[threadIdx.x] = threadIdx.x;
    if (mistake != not_waited) block.barrier_wait(std::move(token));
    y[threadIdx.x] = x[127 - threadIdx.x];
}

template <Mistake mistake> __device__ void pipeline(int *y)
{
    __shared__ int stage[2][32];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipe = cuda::make_pipeline(cg::this_thread_block(), &state, 32);
    const int lane = threadIdx.x % 32;
    int sum = 0;
    for (int i = 0; i < 6; i++)
        if (threadIdx.x < 32) {
            pipe.producer_acquire();
            if (mistake == full_too_early) pipe.producer_commit();
            stage[i % 2][lane] = i;
            if (mistake != full_too_early) pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            if (mistake == free_too_early) pipe.consumer_release();
            sum += stage[i % 2][31 - lane];
            if (mistake != free_too_early) pipe.consumer_release();
        }
    y[threadIdx.x] = sum;
}

// In each block of a cluster: its ring, and then that of the other block, which fills it again when it has been read.
template <Mistake mistake> __device__ void in_cluster(int *y)
{
    __shared__ int stage[2][32];
    auto cluster = cg::this_cluster();
    int *mine = y + 128 * cluster.block_rank();
    pass<mistake>(stage, mine);
    cluster.sync();
    mine[threadIdx.x] += *cluster.map_shared_rank(&stage[0][threadIdx.x % 32], 1 - cluster.block_rank());
    cluster.sync();
    pass<mistake>(stage, mine);
}

#define RIGHT(name) KERNEL name##_##right(int *y) { name<none>(y); }
#define WRONG(name, mistake) KERNEL name##_##mistake(int *y) { name<mistake>(y); }
RIGHT(ring)
WRONG(ring, full_too_early)
WRONG(ring, free_too_early)
RIGHT(global_ring)
WRONG(global_ring, full_too_early)
WRONG(global_ring, free_too_early)
RIGHT(copied)
WRONG(copied, full_too_early)
RIGHT(bulk_copied)
WRONG(bulk_copied, free_too_early)
RIGHT(bulk_stored)
WRONG(bulk_stored, left_out)
WRONG(bulk_stored, no_fence)
WRONG(bulk_stored, not_waited)
RIGHT(third)
WRONG(third, left_out)
RIGHT(pairs)
WRONG(pairs, left_out)
RIGHT(global_pairs)
WRONG(global_pairs, left_out)
RIGHT(buffers)
WRONG(buffers, wrong_number)
RIGHT(readers)
WRONG(readers, left_out)
RIGHT(readers_of_words)
WRONG(readers_of_words, left_out)
RIGHT(updates)
WRONG(updates, left_out)
RIGHT(global_readers)
WRONG(global_readers, left_out)
RIGHT(global_updates)
WRONG(global_updates, left_out)
RIGHT(phases)
WRONG(phases, not_waited)
RIGHT(whole)
WRONG(whole, left_out)
RIGHT(lanes)
WRONG(lanes, not_waited)
#undef KERNEL
#define KERNEL extern "C" __global__ void __cluster_dims__(2)
RIGHT(in_cluster)
WRONG(in_cluster, full_too_early)
WRONG(in_cluster, free_too_early)
#undef KERNEL
#define KERNEL extern "C" __global__ void
RIGHT(tiles)
WRONG(tiles, left_out)
RIGHT(split)
WRONG(split, full_too_early)
WRONG(split, not_waited)
RIGHT(pipeline)
WRONG(pipeline, full_too_early)
WRONG(pipeline, free_too_early)
