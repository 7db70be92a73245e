// Sums and other reductions, in the steps in which they are usually taught.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

template <unsigned threads> __device__ void last_warp(volatile float *s, unsigned t)
{
    // As since compute capability 7.0: a barrier between reading and writing.
    float v = s[t];
    if (threads >= 64) { v += s[t + 32]; __syncwarp(); s[t] = v; __syncwarp(); }
    if (threads >= 32) { v += s[t + 16]; __syncwarp(); s[t] = v; __syncwarp(); }
    v += s[t + 8]; __syncwarp(); s[t] = v; __syncwarp();
    v += s[t + 4]; __syncwarp(); s[t] = v; __syncwarp();
    v += s[t + 2]; __syncwarp(); s[t] = v; __syncwarp();
    v += s[t + 1]; __syncwarp(); s[t] = v; __syncwarp();
}

template <unsigned threads> __device__ void unrolled(const float *x, float *sums, int n)
{
    __shared__ float s[threads];
    unsigned t = threadIdx.x;
    float sum = 0.0f;
    for (unsigned i = blockIdx.x * threads * 2 + t; i < n; i += threads * 2 * gridDim.x) {
        sum += x[i];
        if (i + threads < n) sum += x[i + threads];
    }
    s[t] = sum;
    __syncthreads();
    if (threads >= 512) { if (t < 256) s[t] += s[t + 256]; __syncthreads(); }
    if (threads >= 256) { if (t < 128) s[t] += s[t + 128]; __syncthreads(); }
    if (threads >= 128) { if (t < 64) s[t] += s[t + 64]; __syncthreads(); }
    if (t < 32) last_warp<threads>(s, t);
    if (t == 0) sums[blockIdx.x] = s[0];
}

__inline__ __device__ float warp_sum(float v)
{
    for (int offset = warpSize / 2; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
    return v;
}

__inline__ __device__ float block_sum(float v)
{
    static __shared__ float of_warp[32];
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    v = warp_sum(v);
    if (lane == 0) of_warp[warp] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / warpSize ? of_warp[lane] : 0.0f;
    return warp == 0 ? warp_sum(v) : v;
}

__device__ unsigned blocks_done = 0;

extern "C" {

__global__ void reduce0_interleaved_divergent(const float *x, float *sums, int n)
{
    extern __shared__ float s[];
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (unsigned stride = 1; stride < blockDim.x; stride *= 2) {
        if (t % (2 * stride) == 0) s[t] += s[t + stride];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}

__global__ void reduce1_interleaved_strided(const float *x, float *sums, int n)
{
    extern __shared__ float s[];
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (unsigned stride = 1; stride < blockDim.x; stride *= 2) {
        unsigned at = 2 * stride * t;
        if (at < blockDim.x) s[at] += s[at + stride];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}

__global__ void reduce2_sequential(const float *x, float *sums, int n)
{
    extern __shared__ float s[];
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (unsigned stride = blockDim.x / 2; stride > 0; stride >>= 1) {
        if (t < stride) s[t] += s[t + stride];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}

__global__ void reduce3_first_add_during_load(const float *x, float *sums, int n)
{
    extern __shared__ float s[];
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + t;
    s[t] = (i < n ? x[i] : 0.0f) + (i + blockDim.x < n ? x[i + blockDim.x] : 0.0f);
    __syncthreads();
    for (unsigned stride = blockDim.x / 2; stride > 0; stride >>= 1) {
        if (t < stride) s[t] += s[t + stride];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}

__global__ void reduce4_last_warp(const float *x, float *sums, int n)
{
    extern __shared__ float s[];
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + t;
    s[t] = (i < n ? x[i] : 0.0f) + (i + blockDim.x < n ? x[i + blockDim.x] : 0.0f);
    __syncthreads();
    for (unsigned stride = blockDim.x / 2; stride > 32; stride >>= 1) {
        if (t < stride) s[t] += s[t + stride];
        __syncthreads();
    }
    if (t < 32) last_warp<64>(s, t);
    if (t == 0) sums[blockIdx.x] = s[0];
}

__global__ void reduce5_unrolled(const float *x, float *sums, int n) { unrolled<256>(x, sums, n); }

__global__ void reduce6_shuffles(const float *x, float *sums, int n)
{
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) sum += x[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void reduce_groups(const float *x, float *sum, int n)
{
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    float mine = 0.0f;
    for (int i = cg::this_grid().thread_rank(); i < n; i += cg::this_grid().size()) mine += x[i];
    mine = cg::reduce(tile, mine, cg::plus<float>());
    if (tile.thread_rank() == 0) atomicAdd(sum, mine);
}

__global__ void reduce_last_block(const float *x, volatile float *partial, float *sum, int n)
{
    __shared__ bool last;
    float mine = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) mine += x[i];
    mine = block_sum(mine);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = mine;
        __threadfence();
        last = atomicInc(&blocks_done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    mine = threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0.0f;
    mine = block_sum(mine);
    if (threadIdx.x == 0) *sum = mine;
}

__global__ void dot_product(const float *a, const float *b, float *c, int n)
{
    __shared__ float cache[256];
    int i = threadIdx.x + blockIdx.x * blockDim.x, at = threadIdx.x;
    float sum = 0.0f;
    while (i < n) {
        sum += a[i] * b[i];
        i += blockDim.x * gridDim.x;
    }
    cache[at] = sum;
    __syncthreads();
    int half = blockDim.x / 2;
    while (half != 0) {
        if (at < half) cache[at] += cache[at + half];
        __syncthreads();
        half /= 2;
    }
    if (at == 0) c[blockIdx.x] = cache[0];
}

__global__ void argmax(const float *x, int *where, float *most, int n)
{
    __shared__ float value[256];
    __shared__ int index[256];
    float best = -INFINITY;
    int at = -1;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (x[i] > best) best = x[i], at = i;
    value[threadIdx.x] = best;
    index[threadIdx.x] = at;
    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        __syncthreads();
        if (threadIdx.x < stride) {
            int other = threadIdx.x + stride;
            if (value[other] > value[threadIdx.x] || (value[other] == value[threadIdx.x] && index[other] < index[threadIdx.x])) {
                value[threadIdx.x] = value[other];
                index[threadIdx.x] = index[other];
            }
        }
    }
    if (threadIdx.x == 0) *where = index[0], *most = value[0];
}

// Chan's and Welford's way: counts, means and squared distances are joined in pairs.
__global__ void mean_and_variance(const float *x, float *out, int n)
{
    float count = 0.0f, mean = 0.0f, m2 = 0.0f;
    for (int i = threadIdx.x; i < n; i += 32) {
        float delta = x[i] - mean;
        mean += delta / ++count;
        m2 += delta * (x[i] - mean);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        float c = __shfl_xor_sync(~0u, count, offset), m = __shfl_xor_sync(~0u, mean, offset), s = __shfl_xor_sync(~0u, m2, offset);
        float delta = m - mean, both = count + c;
        mean += delta * c / both;
        m2 += s + delta * delta * count * c / both;
        count = both;
    }
    if (threadIdx.x == 0) out[0] = mean, out[1] = m2 / count;
}

__global__ void votes(const int *x, int *out)
{
    int positive = x[threadIdx.x] > 0;
    int all = __syncthreads_and(positive), any = __syncthreads_or(positive), count = __syncthreads_count(positive);
    if (threadIdx.x == 0) out[0] = all != 0, out[1] = any != 0, out[2] = count;
}

}
