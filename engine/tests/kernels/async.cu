// Copies in the background, barriers in two steps, pipelines and atomic objects.
#include <cooperative_groups.h>
#include <cublas_v2.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#if __has_include(<cuda/std/algorithm>)   // not in CUDA 13.0
#include <cuda/std/algorithm>
#define LARGER cuda::std::max
#else
#define LARGER max
#endif
#include <cuda/std/array>
#include <cuda/std/limits>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

extern "C" {

// Two stages: the tile of the next step is copied while this one is added up.
__global__ void primitives(const float *x, float *y, int tiles)
{
    __shared__ __align__(16) float tile[2][128];
    auto copy = [&](int t) {
        if (t < tiles)
            __pipeline_memcpy_async(&tile[t % 2][threadIdx.x * 4], x + t * 128 + threadIdx.x * 4, 16, t == 2 ? 4 : 0);
        __pipeline_commit();
    };
    float sum = 0.0f;
    copy(0);
    for (int t = 0; t < tiles; t++) {
        copy(t + 1);
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int i = 0; i < 4; i++) sum += tile[t % 2][(threadIdx.x * 4 + 4 + i) % 128];
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}

__global__ void block_pipeline(const float *x, float *y, int tiles)
{
    constexpr auto scope = cuda::thread_scope_block;
    __shared__ cuda::pipeline_shared_state<scope, 2> state;
    __shared__ float tile[2][64];
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    auto copy = [&](int t) {
        pipe.producer_acquire();
        if (t < tiles) cuda::memcpy_async(block, tile[t % 2], x + t * 64, sizeof(float) * 64, pipe);
        pipe.producer_commit();
    };
    copy(0);
    float sum = 0.0f;
    for (int t = 0; t < tiles; t++) {
        copy(t + 1);
        pipe.consumer_wait();
        sum += tile[t % 2][63 - threadIdx.x];
        pipe.consumer_release();
    }
    y[threadIdx.x] = sum;
}

// The first warp copies, the others add.
__global__ void producers_and_consumers(const float *x, float *y, int tiles)
{
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 3> state;
    __shared__ float tile[3][64];
    auto block = cg::this_thread_block();
    bool produces = threadIdx.x < 32;
    auto role = produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipe = cuda::make_pipeline(block, &state, role);
    float sum = 0.0f;
    for (int t = 0; t < tiles; t++) {
        if (produces) {
            pipe.producer_acquire();
            for (int i = threadIdx.x; i < 64; i += 32)
                cuda::memcpy_async(&tile[t % 3][i], x + t * 64 + i, cuda::aligned_size_t<4>(4), pipe);
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            sum += tile[t % 3][95 - threadIdx.x];
            pipe.consumer_release();
        }
    }
    if (!produces) y[threadIdx.x - 32] = sum;
}

__global__ void split_barrier(const float *x, float *y)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> ready;
    __shared__ float tile[64];
    if (threadIdx.x == 0) init(&ready, blockDim.x);
    __syncthreads();
    float sum = 0.0f;
    for (int step = 0; step < 3; step++) {
        cuda::memcpy_async(&tile[threadIdx.x], x + step * 64 + threadIdx.x, sizeof(float), ready);
        auto token = ready.arrive();
        sum += step;                                  // work that needs no tile
        ready.wait(std::move(token));
        sum += tile[threadIdx.x ^ 32];
        ready.arrive_and_wait();
    }
    y[threadIdx.x] = sum;
    if (threadIdx.x >= 48) { ready.arrive_and_drop(); return; }
    ready.arrive_and_wait();
    tile[threadIdx.x] = 2.0f * sum;
    ready.wait_parity((ready.arrive(), 1));
    y[threadIdx.x] += tile[47 - threadIdx.x];
}

__device__ cuda::atomic<unsigned, cuda::thread_scope_device> blocks_done;

__global__ void atomics(const int *x, int *out, double *most, int n)
{
    __shared__ cuda::atomic<int, cuda::thread_scope_block> sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        sum += x[i];
        cuda::atomic_ref<double, cuda::thread_scope_device>(*most).fetch_max((double)x[i], cuda::memory_order_relaxed);
        cuda::std::atomic_ref<int> odd(out[1]);
        if (x[i] & 1) odd++;
        int seen = out[3];
        while (!cuda::atomic_ref<int>(out[3]).compare_exchange_weak(seen, seen ^ x[i])) {}
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    atomicAdd(&out[0], sum.load());
    if (blocks_done.fetch_add(1u) == gridDim.x - 1) {
        out[2] = cuda::atomic_ref<int, cuda::thread_scope_device>(out[0]).load(cuda::memory_order_acquire);
        blocks_done.store(0);
    }
}

// Thread 0 waits in a loop for the flag of the last one.
__global__ void flag(int *out)
{
    __shared__ cuda::atomic<int, cuda::thread_scope_block> ready;
    __shared__ int value;
    if (threadIdx.x == 0) ready.store(0);
    __syncthreads();
    if (threadIdx.x == 0) {
        while (ready.load(cuda::memory_order_acquire) == 0) {}
        out[0] = value;
    } else if (threadIdx.x == blockDim.x - 1) {
        value = 42;
        ready.store(1, cuda::memory_order_release);
    }
}

__global__ void standard(double *out)
{
    cuda::std::array<float, 3> a{1, 2, 4};
    cuda::std::tuple<int, float> t(3, 0.5f);
    static_assert(cuda::std::is_same_v<cuda::std::uint8_t, uint8_t>);
    float sum = 0;
    for (float each : a) sum += each;
    out[0] = sum + cuda::std::get<1>(t) + LARGER(1, cuda::std::get<0>(t));
    out[1] = cuda::std::numeric_limits<float>::max();
}

__global__ void stuck(int *)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> ready;
    if (threadIdx.x == 0) init(&ready, blockDim.x + 1);
    __syncthreads();
    ready.arrive_and_wait();
}

}
