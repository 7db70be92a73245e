// lenet28, minibatch: the gradients of a mini-batch, each block's from many images.
//
// Idea      A mini-batch has work for the whole device and needs one update. The blocks of a grid row take every
//           gridDim.y-th image and keep their sums in registers until the last one: the number of atomics depends on
//           the rows, not on the size of the batch.
// Delta     from together: loops over `b`; bp_s1 apart from bp_weight_f; a thread keeps all K x K sums of a mask.
// Launch    grid.y: rows of blocks, at most B. Each kernel says the rest.

#include "lenet28.h"

#ifndef ADD
#define ADD(sum, value) atomicAdd(&(sum), value)
#endif

// The gradients of f and its biases: a thread per parameter.
extern "C" __global__ void bp_weight_f(const Values *values, Weights *gradient, int B)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= CLASSES * (FEATURES + 1)) return;
    const int o = i / (FEATURES + 1), j = i % (FEATURES + 1);   // j = FEATURES: the bias
    float sum = 0;
    for (int b = blockIdx.y; b < B; b += gridDim.y)
        sum += values[b].d_f[o] * (j < FEATURES ? (&values[b].s1[0][0][0])[j] : 1);
    ADD(*(j < FEATURES ? &gradient->f[o][j] : &gradient->f_bias[o]), sum);
}

// The gradients of s1's filter and bias, and d_c1: a warp per element of the filter, and one for the bias. A block has
// all of them and goes through all maps, so that an address gets one addition per row of blocks.
extern "C" __global__ void bp_s1_c1(const Weights *weights, Values *values, Weights *gradient, int B)
{
    const int t = threadIdx.x / 32, p = t / POOL, q = t % POOL, lane = threadIdx.x % 32;
    const float k = t < POOL * POOL ? weights->s1[p][q] : 0;
    float sum = 0;
    for (int b = blockIdx.y; b < B; b += gridDim.y)
        for (int j = lane; j < FEATURES; j += 32) {
            const int m = j / (S1 * S1), h = j / S1 % S1, w = j % S1;
            const float d = values[b].d_s1[m][h][w];
            if (t == POOL * POOL) {
                sum += d;
            } else {
                const float y = values[b].c1[m][h * POOL + p][w * POOL + q];
                sum += d * y;
                values[b].d_c1[m][h * POOL + p][w * POOL + q] = d * k * slope(y);
            }
        }
    sum = warp_sum(sum);
    if (lane == 0) ADD(*(t < POOL * POOL ? &gradient->s1[p][q] : &gradient->s1_bias), sum);
}

// The gradients of c1's masks and biases: a block per map, whole warps. A thread loads d_c1 of its positions once, and
// multiplies it with all K x K pixels of its window.
extern "C" __global__ void bp_weight_c1(const float *images, const int *order, const Values *values,
                                        Weights *gradient, int B)
{
    __shared__ float image[SIDE][SIDE], sums[K * K + 1];
    const int m = blockIdx.x;
    float sum[K * K + 1] = {};                                  // the last: the bias
    for (int b = blockIdx.y; b < B; b += gridDim.y) {
        __syncthreads();                                        // the previous image is no longer read
        for (int n = threadIdx.x; n < PIXELS; n += blockDim.x)
            (&image[0][0])[n] = images[(size_t)order[b] * PIXELS + n];
        __syncthreads();
        for (int n = threadIdx.x; n < POSITIONS; n += blockDim.x) {
            const int h = n / C1, w = n % C1;
            const float d = values[b].d_c1[m][h][w];
            #pragma unroll
            for (int p = 0; p < K; ++p)
                #pragma unroll
                for (int q = 0; q < K; ++q)
                    sum[p * K + q] += d * image[h + p][w + q];
            sum[K * K] += d;
        }
    }
    // The warps add one after the other, so that the order of the sums is always the same.
    #pragma unroll
    for (int t = 0; t <= K * K; ++t)
        sum[t] = warp_sum(sum[t]);
    for (int warp = 0; warp < blockDim.x / 32; ++warp) {
        if (threadIdx.x == 32 * warp)
            #pragma unroll
            for (int t = 0; t <= K * K; ++t)
                sums[t] = warp ? sums[t] + sum[t] : sum[t];
        __syncthreads();
    }
    for (int t = threadIdx.x; t <= K * K; t += blockDim.x)
        ADD(*(t < K * K ? &gradient->c1[m][t / K][t % K] : &gradient->c1_bias[m]), sums[t]);
}
