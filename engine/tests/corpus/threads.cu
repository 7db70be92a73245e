// Threads that work together: warps, locks, flags, groups, pipelines, memory of the device's heap.
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
namespace cg = cooperative_groups;

__device__ int lock = 0;
__device__ volatile int shared_counter = 0;

struct Node {
    int value;
    Node *next;
};

extern "C" {

__global__ void butterfly(const float *x, float *y)
{
    float v = x[threadIdx.x];
    for (int mask = 1; mask < 32; mask <<= 1) v += __shfl_xor_sync(0xffffffffu, v, mask);
    y[threadIdx.x] = v;
}

__global__ void rotate(const int *x, int *y)
{
    int lane = threadIdx.x % 32;
    y[threadIdx.x] = __shfl_sync(0xffffffffu, x[threadIdx.x], (lane + 1) % 8, 8);
}

// One atomic operation per warp instead of one per thread.
__global__ void aggregated_atomics(const int *x, int *out, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] % 3 == 0) {
        auto active = cg::coalesced_threads();
        int base = 0;
        if (active.thread_rank() == 0) base = atomicAdd(count, (int)active.size());
        out[active.shfl(base, 0) + active.thread_rank()] = x[i];
    }
}

__global__ void count_equal(const int *x, int *equal, int *leader)
{
    unsigned peers = __match_any_sync(0xffffffffu, x[threadIdx.x]);
    equal[threadIdx.x] = __popc(peers);
    leader[threadIdx.x] = __ffs(peers) - 1 == (threadIdx.x & 31);
}

__global__ void odd_and_even(const int *x, int *sums)
{
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    auto part = cg::binary_partition(tile, x[threadIdx.x] & 1);
    int sum = x[threadIdx.x];
    for (int offset = part.size() / 2, left = part.size(); left > 1; left = (left + 1) / 2, offset = left / 2) {
        int other = part.shfl_down(sum, (left + 1) / 2);
        if (part.thread_rank() < left / 2) sum += other;
    }
    if (part.thread_rank() == 0) sums[x[threadIdx.x] & 1] = sum;
}

__global__ void spin_lock(int *total)
{
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(&lock, 0, 1) != 0) {}
        __threadfence();
        shared_counter = shared_counter + 1;
        __threadfence();
        atomicExch(&lock, 0);
    }
    __syncthreads();
    if (threadIdx.x == 0) atomicMax(total, shared_counter);
}

// A stack without a lock: each thread pushes its node.
__global__ void push_nodes(Node *nodes, Node **top, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Node *mine = nodes + i, *before = *(Node *volatile *)top, *seen;
    mine->value = i;
    do {
        seen = before;
        mine->next = seen;
        __threadfence();
        before = (Node *)atomicCAS((unsigned long long *)top, (unsigned long long)seen, (unsigned long long)mine);
    } while (before != seen);
}

__global__ void sum_of_stack(const Node *, Node *const *top, long long *out)
{
    long long sum = 0, count = 0;
    for (const Node *node = *top; node; node = node->next) sum += node->value, count++;
    out[0] = sum;
    out[1] = count;
}

__global__ void heap_memory(int *out, int n)
{
    __shared__ int *row;
    if (threadIdx.x == 0) row = (int *)malloc(n * sizeof(int));
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) row[i] = i * blockIdx.x;
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < n; i++) sum += row[i];
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) free(row);
}

// The next tile is copied while this one is summed.
__global__ void staged_sum(const float *x, float *out, int tiles)
{
    __shared__ float tile[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    float sum = 0.0f;
    for (int ahead = 0, t = 0; t < tiles; t++) {
        for (; ahead < tiles && ahead < t + 2; ahead++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, tile[ahead % 2], x + ahead * 64, cuda::aligned_size_t<16>(256), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += tile[t % 2][(threadIdx.x + t) % 64];
        pipe.consumer_release();
    }
    out[threadIdx.x] = sum;
}

__global__ void arrive_and_wait(const int *x, int *y)
{
    __shared__ int s[128];
    __shared__ cuda::barrier<cuda::thread_scope_block> ready;
    if (threadIdx.x == 0) init(&ready, blockDim.x);
    __syncthreads();
    s[threadIdx.x] = x[threadIdx.x];
    auto token = ready.arrive();
    int own = x[threadIdx.x] * 2;                     // needs nobody
    ready.wait(std::move(token));
    y[threadIdx.x] = own + s[127 - threadIdx.x];
}

__global__ void atomic_objects(const int *x, int *least, int *most, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    cuda::atomic_ref<int, cuda::thread_scope_device>(*least).fetch_min(x[i], cuda::memory_order_relaxed);
    cuda::atomic_ref<int, cuda::thread_scope_device>(*most).fetch_max(x[i], cuda::memory_order_relaxed);
}

}
