// Prefix sums and what is made of them.
#include <cooperative_groups.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

#define PADDED(i) ((i) + ((i) >> 5))

__device__ int warp_inclusive(int v)
{
    int lane = threadIdx.x & 31;
    for (int delta = 1; delta < 32; delta <<= 1) {
        int other = __shfl_up_sync(0xffffffffu, v, delta);
        if (lane >= delta) v += other;
    }
    return v;
}

extern "C" {

__global__ void scan_hillis_steele(const int *x, int *y, int n)
{
    extern __shared__ int buffer[];
    int t = threadIdx.x, out = 0, in = 1;
    buffer[t] = t > 0 ? x[t - 1] : 0;
    __syncthreads();
    for (int offset = 1; offset < n; offset *= 2) {
        out = 1 - out;
        in = 1 - out;
        buffer[out * n + t] = buffer[in * n + t] + (t >= offset ? buffer[in * n + t - offset] : 0);
        __syncthreads();
    }
    y[t] = buffer[out * n + t];
}

__global__ void scan_blelloch(const int *x, int *y, int n)
{
    extern __shared__ int s[];
    int t = threadIdx.x, offset = 1;
    s[2 * t] = x[2 * t];
    s[2 * t + 1] = x[2 * t + 1];
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) s[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int low = offset * (2 * t + 1) - 1, high = offset * (2 * t + 2) - 1, left = s[low];
            s[low] = s[high];
            s[high] += left;
        }
    }
    __syncthreads();
    y[2 * t] = s[2 * t];
    y[2 * t + 1] = s[2 * t + 1];
}

__global__ void scan_blelloch_without_bank_conflicts(const int *x, int *y, int n)
{
    extern __shared__ int s[];
    int t = threadIdx.x, offset = 1, a = t, b = t + n / 2;
    s[PADDED(a)] = x[a];
    s[PADDED(b)] = x[b];
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) s[PADDED(offset * (2 * t + 2) - 1)] += s[PADDED(offset * (2 * t + 1) - 1)];
        offset *= 2;
    }
    if (t == 0) s[PADDED(n - 1)] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int low = PADDED(offset * (2 * t + 1) - 1), high = PADDED(offset * (2 * t + 2) - 1), left = s[low];
            s[low] = s[high];
            s[high] += left;
        }
    }
    __syncthreads();
    y[a] = s[PADDED(a)];
    y[b] = s[PADDED(b)];
}

__global__ void scan_shuffles(const int *x, int *y)
{
    __shared__ int of_warp[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, mine = warp_inclusive(x[threadIdx.x]);
    if (lane == 31) of_warp[warp] = mine;
    __syncthreads();
    if (warp == 0) of_warp[lane] = warp_inclusive(lane < blockDim.x / 32 ? of_warp[lane] : 0);
    __syncthreads();
    y[threadIdx.x] = mine + (warp > 0 ? of_warp[warp - 1] : 0);
}

// Any length in one launch: a block adds the sum of those before it, which the block before has published.
__global__ void scan_chained(const int *x, int *y, volatile int *sums, int n)
{
    __shared__ int of_warp[8], before;
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int mine = warp_inclusive(i < n ? x[i] : 0);
    if (lane == 31) of_warp[warp] = mine;
    __syncthreads();
    for (int w = 0; w < warp; w++) mine += of_warp[w];
    if (threadIdx.x == blockDim.x - 1) {
        int sum = 0;
        if (blockIdx.x > 0)
            while ((sum = atomicAdd((int *)&sums[blockIdx.x - 1], 0)) < 0) {}
        atomicExch((int *)&sums[blockIdx.x], sum + mine);
        before = sum;
    }
    __syncthreads();
    if (i < n) y[i] = before + mine;
}

__global__ void scan_segmented(const int *x, const int *head, int *y)
{
    int lane = threadIdx.x & 31, v = x[threadIdx.x];
    unsigned heads = __ballot_sync(~0u, head[threadIdx.x]) | 1u, below = heads & (0xffffffffu >> (31 - lane));
    int first = 31 - __clz(below);
    for (int delta = 1; delta < 32; delta <<= 1) {
        int other = __shfl_up_sync(~0u, v, delta);
        if (lane - delta >= first) v += other;
    }
    y[threadIdx.x] = v;
}

__global__ void scan_groups(const int *x, int *inclusive, int *exclusive)
{
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    inclusive[threadIdx.x] = cg::inclusive_scan(tile, x[threadIdx.x], cg::plus<int>());
    exclusive[threadIdx.x] = cg::exclusive_scan(tile, x[threadIdx.x]);
}

// Keep the positive numbers, in their order.
__global__ void compact(const int *x, int *y, int *count, int n)
{
    __shared__ int of_warp[32], base;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (threadIdx.x == 0) base = 0;
    for (int first = 0; first < n; first += blockDim.x) {
        int i = first + threadIdx.x, v = i < n ? x[i] : 0;
        unsigned kept = __ballot_sync(0xffffffffu, v > 0);
        if (lane == 0) of_warp[warp] = __popc(kept);
        __syncthreads();
        int at = base + __popc(kept & ((1u << lane) - 1));
        for (int w = 0; w < warp; w++) at += of_warp[w];
        if (v > 0) y[at] = v;
        __syncthreads();
        if (threadIdx.x == 0)
            for (int w = 0; w < blockDim.x / 32; w++) base += of_warp[w];
        __syncthreads();
    }
    if (threadIdx.x == 0) *count = base;
}

__global__ void run_lengths(const int *x, const int *start, int *value, int *length, int runs, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= runs) return;
    value[i] = x[start[i]];
    length[i] = (i + 1 < runs ? start[i + 1] : n) - start[i];
}

}
