// What orders threads of several warps and of the blocks of a cluster, and addresses and numbers at their limits.
#include <cooperative_groups.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;

__device__ unsigned in_shared(const void *at) { return (unsigned)__cvta_generic_to_shared(at); }
__device__ void make(uint64_t *barrier, unsigned count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(in_shared(barrier)), "r"(count) : "memory");
}
__device__ void arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(in_shared(barrier)) : "memory");
}
__device__ void await(uint64_t *barrier)
{
    asm volatile("{.reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN;}" :: "r"(in_shared(barrier)) : "memory");
}

// A thread of each block counts, with a lock of the first block.
extern "C" __global__ void __cluster_dims__(2) lock(int *y)
{
    __shared__ int taken, count;
    auto cluster = cg::this_cluster();
    if (threadIdx.x == 0) taken = count = 0;
    cluster.sync();
    int *its_lock = cluster.map_shared_rank(&taken, 0), *its_count = cluster.map_shared_rank(&count, 0);
    if (threadIdx.x == 32) {
        while (atomicCAS(its_lock, 0, 1)) {}
        *its_count += 1;
        atomicExch(its_lock, 0);
    }
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0) y[0] = count;
}

// Three warps read, `arriving` of them say so, and a fourth writes.
template <int arriving> __device__ void read_by_three(int *y)
{
    __shared__ int x[32];
    __shared__ uint64_t barrier;
    const int t = threadIdx.x;
    if (t < 32) x[t] = t;
    if (t == 0) make(&barrier, arriving);
    __syncthreads();
    if (t < 96) {
        y[t] = x[t % 32];
        __syncwarp();
        if (t % 32 == 0 && (arriving == 3 || t != 32)) arrive(&barrier);
    } else {
        await(&barrier);
        x[t % 32] = 0;
    }
}
extern "C" __global__ void read_by_three_of_three(int *y) { read_by_three<3>(y); }
extern "C" __global__ void read_by_two_of_three(int *y) { read_by_three<2>(y); }

// The first and the last warp wait for a phase in which one of the others arrives. The other one arrives in the next phase, which
// may be over, too, before those who wait go on.
extern "C" __global__ void written_in_two_phases(int *y)
{
    __shared__ int x[2];
    __shared__ uint64_t barrier;
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) make(&barrier, 1);
    __syncthreads();
    if (threadIdx.x % 32) return;
    if (warp % 3 == 0) {
        await(&barrier);
        y[warp] = x[0] + x[1];
    } else {
        x[warp - 1] = 1;
        arrive(&barrier);
    }
}

// The last two of three warpgroups take registers, which `giving` threads of the first one have to give: 168 are for each
// thread at first.
template <int giving, int taken> __device__ void take_registers(int *y)
{
    if (threadIdx.x >= 128) {
        if (taken == 240) asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        if (threadIdx.x == 128) y[0] = taken;
    } else if (threadIdx.x < giving) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    }
}
extern "C" __global__ void __launch_bounds__(384) take_given(int *y) { take_registers<128, 240>(y); }
extern "C" __global__ void __launch_bounds__(384) take_more(int *y) { take_registers<0, 240>(y); }
extern "C" __global__ void __launch_bounds__(384) take_of_a_warp(int *y) { take_registers<32, 240>(y); }
extern "C" __global__ void __launch_bounds__(384) give_by_a_warp(int *y) { take_registers<32, 168>(y); }

// One warp waits for registers, the others of its warpgroup in front of the same instruction: at a barrier for it.
extern "C" __global__ void __launch_bounds__(384) take_behind_a_barrier(int *y)
{
    if (threadIdx.x >= 128) return;
    if (threadIdx.x >= 32) asm volatile("bar.sync 1, 128;");
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 128;");
    if (threadIdx.x == 0) y[0] = 240;
}

// The last warp waits for both products, the others for the first one alone.
extern "C" __global__ void wait_for_one(int *y)
{
    __shared__ alignas(128) half tile[64 * 16];
    for (int i = threadIdx.x; i < 64 * 16; i += 128) tile[i] = 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const unsigned long long b = (in_shared(tile) & 0x3ffff) >> 4 | 128ull >> 4 << 16 | 256ull >> 4 << 32;
    float sums[2][4] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#define MULTIPLY(d)                                                                                                        \
    asm volatile("{.reg .pred p; setp.eq.u32 p, 1, 1; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "                  \
                 "{%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;}" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(b), "l"(b)); \
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    MULTIPLY(sums[0])
    MULTIPLY(sums[1])
    if (threadIdx.x / 32 == 3) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    else asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    y[threadIdx.x] = sums[0][0];
    y[threadIdx.x] += 100 * sums[1][0];
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// More mbarriers in a cluster than racecheck has numbers for.
extern "C" __global__ void __cluster_dims__(16) many_barriers(int *y)
{
    __shared__ uint64_t barriers[3072];
    for (int i = 0; i < 3072; i++) make(barriers + i, 1);
    y[blockIdx.x] = 1;
}

// An address of global memory, taken for one of shared memory.
extern "C" __global__ void convert_global(int *y)
{
    int x;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(x) : "r"(in_shared(y)));
    y[0] = x;
}
extern "C" __global__ void map_global(int *y) { y[0] = *cg::this_cluster().map_shared_rank(y, 0); }

// Behind the last variable of a block there is no memory of the next one.
extern "C" __global__ void __cluster_dims__(2) beyond(int *y)
{
    extern __shared__ int dynamic[];
    __shared__ int last;
    auto cluster = cg::this_cluster();
    last = 1;
    dynamic[0] = 10 + cluster.block_rank();
    cluster.sync();
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(in_shared(&last)), "r"(0));
    y[blockIdx.x] = (there + 64) >> 19 == there >> 19;
    cluster.sync();
}
