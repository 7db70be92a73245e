// lenet28, together: what won, in six launches.
//
// Idea      A launch costs the host microseconds, as much as these kernels. Kernels whose inputs are ready at the same
//           time become one, and a block that has a map of c1 in shared memory computes its part of s1, too.
// Delta     from shuffle: fp_c1 and fp_s1 are one kernel; bp_weight_f and bp_s1; bp_weight_s1 and bp_c1.
// Launch    Each kernel says it; grid.y: the images of the batch.

#include "lenet28.h"

// c1 and s1: a block per map, any number of threads. The image and the mask are in shared memory, sums in registers.
extern "C" __global__ void fp_c1_s1(const float *images, const int *order, const Weights *weights, Values *values)
{
    __shared__ float image[SIDE][SIDE], k[K][K], c1[C1][C1];
    const int m = blockIdx.x, b = blockIdx.y;
    for (int n = threadIdx.x; n < PIXELS; n += blockDim.x)
        (&image[0][0])[n] = images[(size_t)order[b] * PIXELS + n];
    for (int t = threadIdx.x; t < K * K; t += blockDim.x)
        (&k[0][0])[t] = (&weights->c1[m][0][0])[t];
    __syncthreads();
    for (int n = threadIdx.x; n < POSITIONS; n += blockDim.x) {
        const int h = n / C1, w = n % C1;
        float sum = weights->c1_bias[m];
        #pragma unroll
        for (int p = 0; p < K; ++p)
            #pragma unroll
            for (int q = 0; q < K; ++q)
                sum += image[h + p][w + q] * k[p][q];
        values[b].c1[m][h][w] = c1[h][w] = sigmoid(sum);
    }
    __syncthreads();
    for (int n = threadIdx.x; n < S1 * S1; n += blockDim.x) {
        const int h = n / S1, w = n % S1;
        float sum = weights->s1_bias;
        #pragma unroll
        for (int p = 0; p < POOL; ++p)
            #pragma unroll
            for (int q = 0; q < POOL; ++q)
                sum += c1[h * POOL + p][w * POOL + q] * weights->s1[p][q];
        values[b].s1[m][h][w] = sigmoid(sum);
    }
}

// The gradients of f and its biases, and d_s1: a thread per value of s1 goes through the classes.
extern "C" __global__ void bp_f(const Weights *weights, Values *values, Weights *gradient)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (j < CLASSES) atomicAdd(&gradient->f_bias[j], values[b].d_f[j]);
    if (j >= FEATURES) return;
    const float y = (&values[b].s1[0][0][0])[j];
    float sum = 0;
    #pragma unroll
    for (int o = 0; o < CLASSES; ++o) {
        const float d = values[b].d_f[o];
        sum += weights->f[o][j] * d;
        atomicAdd(&gradient->f[o][j], d * y);
    }
    (&values[b].d_s1[0][0][0])[j] = sum * slope(y);
}

// The gradients of s1's filter and bias, and d_c1: a block per map, a warp per element of the filter, and one for the
// bias. A lane goes through windows: it has the product for the sum and the value of c1 under its element.
extern "C" __global__ void bp_s1_c1(const Weights *weights, Values *values, Weights *gradient, int)
{
    const int t = threadIdx.x / 32, p = t / POOL, q = t % POOL, lane = threadIdx.x % 32;
    const int m = blockIdx.x, b = blockIdx.y;
    float sum = 0;
    for (int n = lane; n < S1 * S1; n += 32) {
        const int h = n / S1, w = n % S1;
        const float d = values[b].d_s1[m][h][w];
        if (t == POOL * POOL) {
            sum += d;
        } else {
            const float y = values[b].c1[m][h * POOL + p][w * POOL + q];
            sum += d * y;
            values[b].d_c1[m][h * POOL + p][w * POOL + q] = d * weights->s1[p][q] * slope(y);
        }
    }
    sum = warp_sum(sum);
    if (lane == 0) atomicAdd(t < POOL * POOL ? &gradient->s1[p][q] : &gradient->s1_bias, sum);
}
