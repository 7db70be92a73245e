// Mistakes of C++ after 2017: groups, barriers in memory, scopes, copies in the background, textures, values of a warp.
// A line with a mistake ends with its kind; with FIXED nothing is found. An argument runs what ends in a deadlock.
#include <cstdio>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>
#ifdef FIXED
#define PLANTED(wrong, right) right
#else
#define PLANTED(wrong, right) wrong
#endif
namespace cg = cooperative_groups;

__global__ void vote_for_a_barrier(const int *x, int *y) {
    __shared__ int s[32];
    s[threadIdx.x] = x[threadIdx.x];  // (race)
    PLANTED(, __syncwarp());
    bool any = __any_sync(~0u, x[threadIdx.x] > 100);
    y[threadIdx.x] = any ? 0 : s[31 - threadIdx.x];  // race
}
__global__ void shuffle_for_a_barrier(const int *x, int *y) {
    __shared__ int s[32];
    s[threadIdx.x] = x[threadIdx.x];  // (race)
    int next = __shfl_down_sync(~0u, s[threadIdx.x], 1);
    PLANTED(, __syncwarp());
    y[threadIdx.x] = next + s[31 - threadIdx.x];  // race
}
__global__ void group_for_a_barrier(const int *x, int *y) {
    __shared__ int s[32];
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    s[threadIdx.x] = x[threadIdx.x];  // (race)
    int sum = cg::reduce(tile, x[threadIdx.x], cg::plus<int>());
    PLANTED(, tile.sync());
    y[threadIdx.x] = sum + s[31 - threadIdx.x];  // race
}
__global__ void barrier_before_its_init(const int *x, int *y) {
    __shared__ cuda::barrier<cuda::thread_scope_block> ready;
    __shared__ int s[128];
    if (threadIdx.x == 0) init(&ready, 128);  // (race)
    PLANTED(, __syncthreads());
    s[threadIdx.x] = x[threadIdx.x];
    ready.arrive_and_wait();  // race
    y[threadIdx.x] = s[127 - threadIdx.x];
}
__global__ void some_members(int *y) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    if (threadIdx.x >= PLANTED(20, 32)) return;
    y[threadIdx.x] = cg::reduce(tile, 1, cg::plus<int>());  // exited lanes
}
__global__ void some_members_wait(int *y) {
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    if (threadIdx.x % 16 >= PLANTED(8, 16)) return;
    tile.sync();  // exited lanes
    y[threadIdx.x] = 1;
}
__global__ void block_scope(unsigned *count) {
    PLANTED(atomicAdd_block, atomicAdd)(count, 1u);  // race between blocks
}
__global__ void block_scope_of_a_reference(unsigned *count) {
    cuda::atomic_ref<unsigned, PLANTED(cuda::thread_scope_block, cuda::thread_scope_device)> counter(*count);
    counter.fetch_add(1u, cuda::memory_order_relaxed);  // race between blocks
}
__global__ void store_into_a_copy(const int *x, int *y) {
    __shared__ int s[128];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], x + t, 4);  // (race with a copy)
    __pipeline_commit();
    PLANTED(, __pipeline_wait_prior(0));
    s[t] = 2;  // race with a copy
    __pipeline_wait_prior(0);
    __syncthreads();
    y[t] = s[127 - t];
}
__global__ void store_into_the_copy_of_a_group(const int *x, int *y) {
    __shared__ int s[128];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, x, 512);  // race
    PLANTED(, cg::wait(block));
    if (threadIdx.x == 0) s[5] = 7;  // (race)
    cg::wait(block);
    y[threadIdx.x] = s[127 - threadIdx.x];
}
__global__ void vectors_at_one_place(const int4 *x, int *y) {
    __shared__ int4 s[32];
    s[threadIdx.x / PLANTED(2, 1)] = x[threadIdx.x % 8 + threadIdx.x / 32];  // race
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x / 2].x;
}
__global__ void copy_with_a_false_promise(const int *x, int *y) {
    __shared__ alignas(16) int s[64];
    __shared__ cuda::barrier<cuda::thread_scope_block> ready;
    if (threadIdx.x == 0) init(&ready, 32);
    __syncthreads();
    auto group = cg::this_thread_block();
    cuda::memcpy_async(group, s, x + 1, cuda::aligned_size_t<PLANTED(16, 4)>(128), ready);  // misaligned
    ready.arrive_and_wait();
    y[threadIdx.x] = s[threadIdx.x];
}
__global__ void one_stage_too_few(const int *x, int *y) {
    __shared__ int s[2][32];
    auto pipe = cuda::make_pipeline();
    int t = threadIdx.x;
    for (int stage = 0; stage < 2; stage++) {
        pipe.producer_acquire();
        cuda::memcpy_async(&s[stage][t], x + stage * 32 + t, sizeof(int), pipe);  // (race with a copy)
        pipe.producer_commit();
    }
    cuda::pipeline_consumer_wait_prior<PLANTED(1, 0)>(pipe);
    y[t] = s[0][t];
    y[t] += s[1][t];  // race with a copy
}
__global__ void texture_of_what_it_writes(cudaTextureObject_t texture, int *d, int *y) {
    d[threadIdx.x] = 1;  // (stale texture)
    y[threadIdx.x] = PLANTED(tex1Dfetch<int>(texture, threadIdx.x), d[threadIdx.x]);  // stale texture
}
__global__ void unset_texels(cudaTextureObject_t texture, int *y) {
    y[threadIdx.x] = tex1Dfetch<int>(texture, threadIdx.x + PLANTED(64, 0));  // uninitialized
}
__global__ void two_writers(cudaSurfaceObject_t surface) {
    surf2Dwrite((int)threadIdx.x, surface, threadIdx.x / PLANTED(2, 1) * 4, 0);  // race
}
__constant__ int weights[4] = {1, 2, 3, 4};
__device__ int values[4];
__global__ void constant_by_a_cast(int *y) {
    int *p = (int *)PLANTED(weights, values);
    p[threadIdx.x] = 5;  // constant memory
    y[threadIdx.x] = weights[threadIdx.x];
}
__device__ __noinline__ void add(int *sums, const int *x) {
    for (int i = 0; i < 32; i++) sums[i % 4] += x[i];  // uninitialized variable
}
__global__ void sums_by_a_function(const int *x, int *y) {
    int sums[4] PLANTED(, = {});
    add(sums, x);
    y[threadIdx.x] = sums[threadIdx.x % 4];
}
__global__ void two_votes(int *y) {
    unsigned votes;
    if (threadIdx.x < 16) votes = __ballot_sync(~0u, threadIdx.x & 1);
    else votes = PLANTED(__any_sync, __ballot_sync)(~0u, threadIdx.x & 1);  // divergent barrier
    y[threadIdx.x] = votes;
}

int main(int count, char **) {
    int *x, *y, *d;
    cudaMalloc(&x, 512), cudaMalloc(&y, 512), cudaMalloc(&d, 512);
    int values_of_x[128];
    for (int i = 0; i < 128; i++) values_of_x[i] = i % 50;
    cudaMemcpy(x, values_of_x, 512, cudaMemcpyHostToDevice), cudaMemset(y, 0, 512);
    if (count > 1) {
        two_votes<<<1, 32>>>(y);
        return cudaDeviceSynchronize() != cudaSuccess;
    }
    cudaResourceDesc of_memory = {}, of_array = {};
    of_memory.resType = cudaResourceTypeLinear;
    of_memory.res.linear.devPtr = d;
    of_memory.res.linear.sizeInBytes = 512;
    of_memory.res.linear.desc = cudaCreateChannelDesc<int>();
    cudaTextureDesc as_it_is = {};
    cudaTextureObject_t texture;
    cudaCreateTextureObject(&texture, &of_memory, &as_it_is, nullptr);
    cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
    cudaMallocArray(&of_array.res.array.array, &format, 64, 1, cudaArraySurfaceLoadStore);
    cudaSurfaceObject_t surface;
    cudaCreateSurfaceObject(&surface, &of_array);
    vote_for_a_barrier<<<1, 32>>>(x, y);
    shuffle_for_a_barrier<<<1, 32>>>(x, y);
    group_for_a_barrier<<<1, 32>>>(x, y);
    barrier_before_its_init<<<1, 128>>>(x, y);
    some_members<<<1, 32>>>(y);
    some_members_wait<<<1, 32>>>(y);
    block_scope<<<2, 128>>>((unsigned *)y);
    block_scope_of_a_reference<<<2, 128>>>((unsigned *)y);
    store_into_a_copy<<<1, 128>>>(x, y);
    one_stage_too_few<<<1, 32>>>(x, y);
    store_into_the_copy_of_a_group<<<1, 128>>>(x, y);
    vectors_at_one_place<<<1, 32>>>((int4 *)x, y);
    texture_of_what_it_writes<<<1, 64>>>(texture, d, y);
    unset_texels<<<1, 64>>>(texture, y);
    two_writers<<<1, 64>>>(surface);
    constant_by_a_cast<<<1, 4>>>(y);
    sums_by_a_function<<<1, 4>>>(x, y);
    copy_with_a_false_promise<<<1, 32>>>(x, y);  // the last one, because the context is lost
    return cudaDeviceSynchronize() != cudaSuccess;
}
