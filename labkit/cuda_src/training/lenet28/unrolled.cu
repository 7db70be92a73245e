// lenet28, unrolled: the compiler copies the bodies of the loops.
//
// Idea      An unrolled loop counts and compares less, and its loads wait together instead of one after the other.
// Delta     from register: `#pragma unroll`. Short loops disappear; of the long ones eight rounds become one.

#include "lenet28.h"

extern "C" __global__ void fp_c1(const float *images, const int *order, const Weights *weights, Values *values)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i >= OUTPUTS) return;
    const int m = i / POSITIONS, h = i / C1 % C1, w = i % C1;
    const float *x = images + (size_t)order[b] * PIXELS + h * SIDE + w;     // this output's window
    float sum = weights->c1_bias[m];
    #pragma unroll
    for (int p = 0; p < K; ++p)
        #pragma unroll
        for (int q = 0; q < K; ++q)
            sum += x[p * SIDE + q] * weights->c1[m][p][q];
    values[b].c1[m][h][w] = sigmoid(sum);
}

extern "C" __global__ void fp_s1(const Weights *weights, Values *values)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i >= FEATURES) return;
    const int m = i / (S1 * S1), h = i / S1 % S1, w = i % S1;
    float sum = weights->s1_bias;
    #pragma unroll
    for (int p = 0; p < POOL; ++p)
        #pragma unroll
        for (int q = 0; q < POOL; ++q)
            sum += values[b].c1[m][h * POOL + p][w * POOL + q] * weights->s1[p][q];
    values[b].s1[m][h][w] = sigmoid(sum);
}

extern "C" __global__ void fp_f(const int *labels, const int *order, const Weights *weights, Values *values)
{
    const int o = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (o >= CLASSES) return;
    const float *s1 = &values[b].s1[0][0][0];
    float sum = weights->f_bias[o];
    #pragma unroll 8
    for (int j = 0; j < FEATURES; ++j)
        sum += s1[j] * weights->f[o][j];
    const float y = sigmoid(sum);
    values[b].f[o] = y;
    values[b].d_f[o] = y - (labels[order[b]] == o);
}

extern "C" __global__ void bp_s1(const Weights *weights, Values *values)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (j >= FEATURES) return;
    float sum = 0;
    #pragma unroll
    for (int o = 0; o < CLASSES; ++o)
        sum += weights->f[o][j] * values[b].d_f[o];
    (&values[b].d_s1[0][0][0])[j] = sum * slope((&values[b].s1[0][0][0])[j]);
}

extern "C" __global__ void bp_weight_s1(const Values *values, Weights *gradient, int B)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > POOL * POOL) return;
    const int p = i / POOL, q = i % POOL;                       // i = POOL * POOL: the bias
    float sum = 0;
    #pragma unroll 8
    for (int n = 0; n < B * FEATURES; ++n) {
        const int b = n / FEATURES, m = n / (S1 * S1) % MAPS, h = n / S1 % S1, w = n % S1;
        const float x = i < POOL * POOL ? values[b].c1[m][h * POOL + p][w * POOL + q] : 1;
        sum += values[b].d_s1[m][h][w] * x;
    }
    *(i < POOL * POOL ? &gradient->s1[p][q] : &gradient->s1_bias) += sum;
}

extern "C" __global__ void bp_weight_c1(const float *images, const int *order, const Values *values,
                                        Weights *gradient, int B)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= MAPS * (K * K + 1)) return;
    const int m = i / (K * K + 1), t = i % (K * K + 1), p = t / K, q = t % K;   // t = K * K: the bias
    float sum = 0;
    #pragma unroll 8
    for (int n = 0; n < B * POSITIONS; ++n) {
        const int b = n / POSITIONS, h = n / C1 % C1, w = n % C1;
        const float x = t < K * K ? images[(size_t)order[b] * PIXELS + (h + p) * SIDE + w + q] : 1;
        sum += values[b].d_c1[m][h][w] * x;
    }
    *(t < K * K ? &gradient->c1[m][p][q] : &gradient->c1_bias[m]) += sum;
}
