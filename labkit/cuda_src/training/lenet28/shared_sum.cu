// lenet28, shared_sum: one block per sum, and one addition to memory per block.
//
// Idea      As shuffle, with a tree in shared memory: in each round half of the threads add the other half's sums.
// Delta     from shuffle: block_sum in place of warp_sum, in the two longest sums.
// Launch    A block per parameter, THREADS threads, a power of two; grid.y: the images of the batch.

#include "lenet28.h"

constexpr int THREADS = 128;

// The sum of a value over the block; thread 0 gets it.
__device__ inline float block_sum(float value)
{
    __shared__ float sums[THREADS];
    sums[threadIdx.x] = value;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    return sums[threadIdx.x];
}

extern "C" __global__ void bp_weight_s1(const Values *values, Weights *gradient, int)
{
    const int t = blockIdx.x, b = blockIdx.y, p = t / POOL, q = t % POOL;       // t = POOL * POOL: the bias
    float sum = 0;
    for (int j = threadIdx.x; j < FEATURES; j += THREADS) {
        const int m = j / (S1 * S1), h = j / S1 % S1, w = j % S1;
        const float x = t < POOL * POOL ? values[b].c1[m][h * POOL + p][w * POOL + q] : 1;
        sum += values[b].d_s1[m][h][w] * x;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(t < POOL * POOL ? &gradient->s1[p][q] : &gradient->s1_bias, sum);
}

extern "C" __global__ void bp_weight_c1(const float *images, const int *order, const Values *values,
                                        Weights *gradient, int)
{
    const int i = blockIdx.x, b = blockIdx.y;
    const int m = i / (K * K + 1), t = i % (K * K + 1), p = t / K, q = t % K;   // t = K * K: the bias
    const float *image = images + (size_t)order[b] * PIXELS;
    float sum = 0;
    for (int n = threadIdx.x; n < POSITIONS; n += THREADS) {
        const int h = n / C1, w = n % C1;
        sum += values[b].d_c1[m][h][w] * (t < K * K ? image[(h + p) * SIDE + w + q] : 1);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) atomicAdd(t < K * K ? &gradient->c1[m][p][q] : &gradient->c1_bias[m], sum);
}
