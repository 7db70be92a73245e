// lenet28, shuffle: one warp per sum, and one addition to memory per warp.
//
// Idea      The lanes of a warp share the products of a sum and add in their registers; shuffles add the 32 results.
//           That leaves one atomicAdd per image and parameter, in place of one per product.
// Delta     from atomics: the kernels with long sums.
// Launch    32 threads per sum, blocks of whole warps; grid.y: the images of the batch.

#include "lenet28.h"

extern "C" __global__ void fp_f(const int *labels, const int *order, const Weights *weights, Values *values)
{
    const int o = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, b = blockIdx.y;
    if (o >= CLASSES) return;                                   // the whole warp
    const float *s1 = &values[b].s1[0][0][0];
    float sum = 0;
    for (int j = lane; j < FEATURES; j += 32)
        sum += s1[j] * weights->f[o][j];
    sum = warp_sum(sum);
    if (lane) return;
    const float y = sigmoid(sum + weights->f_bias[o]);
    values[b].f[o] = y;
    values[b].d_f[o] = y - (labels[order[b]] == o);
}

extern "C" __global__ void bp_weight_s1(const Values *values, Weights *gradient, int)
{
    const int t = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, b = blockIdx.y;
    if (t > POOL * POOL) return;
    const int p = t / POOL, q = t % POOL;                       // t = POOL * POOL: the bias
    float sum = 0;
    for (int j = lane; j < FEATURES; j += 32) {
        const int m = j / (S1 * S1), h = j / S1 % S1, w = j % S1;
        const float x = t < POOL * POOL ? values[b].c1[m][h * POOL + p][w * POOL + q] : 1;
        sum += values[b].d_s1[m][h][w] * x;
    }
    sum = warp_sum(sum);
    if (lane == 0) atomicAdd(t < POOL * POOL ? &gradient->s1[p][q] : &gradient->s1_bias, sum);
}

extern "C" __global__ void bp_weight_c1(const float *images, const int *order, const Values *values,
                                        Weights *gradient, int)
{
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, b = blockIdx.y;
    if (i >= MAPS * (K * K + 1)) return;
    const int m = i / (K * K + 1), t = i % (K * K + 1), p = t / K, q = t % K;   // t = K * K: the bias
    const float *image = images + (size_t)order[b] * PIXELS;
    float sum = 0;
    for (int n = lane; n < POSITIONS; n += 32) {
        const int h = n / C1, w = n % C1;
        sum += values[b].d_c1[m][h][w] * (t < K * K ? image[(h + p) * SIDE + w + q] : 1);
    }
    sum = warp_sum(sum);
    if (lane == 0) atomicAdd(t < K * K ? &gradient->c1[m][p][q] : &gradient->c1_bias[m], sum);
}
