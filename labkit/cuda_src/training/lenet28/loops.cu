// lenet28, loops: a training step, with one thread per output and a loop over its sum.
//
// Idea      The forward pass fills `values`, the backward pass their derivatives d_, and adds to `gradient`; the
//           update subtracts rate x gradient from the weights. Sums grow in global memory, as in report 001's first
//           program.
// Shapes    images [N,SIDE,SIDE], labels [N]; order [B]: the images of this step; values [B]. See lenet28.h.
// Launch    In the order of this file; 1-D blocks of any size. grid.y: the images of the batch, where `b` says so.
//           B counts the batch where a thread sums over it.
// Requires  gradient holds zeros before the backward pass; `update` leaves it so. B <= 65535.

#include "lenet28.h"

// c1 = sigmoid(bias + convolution): a thread per output.
extern "C" __global__ void fp_c1(const float *images, const int *order, const Weights *weights, Values *values)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i >= OUTPUTS) return;
    const int m = i / POSITIONS, h = i / C1 % C1, w = i % C1;
    const float *x = images + (size_t)order[b] * PIXELS + h * SIDE + w;     // this output's window
    float *y = &values[b].c1[m][h][w];
    *y = weights->c1_bias[m];
    #pragma unroll 1
    for (int p = 0; p < K; ++p)
        #pragma unroll 1
        for (int q = 0; q < K; ++q)
            *y += x[p * SIDE + q] * weights->c1[m][p][q];
    *y = sigmoid(*y);
}

// s1 = sigmoid(bias + the window under the filter): a thread per output.
extern "C" __global__ void fp_s1(const Weights *weights, Values *values)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i >= FEATURES) return;
    const int m = i / (S1 * S1), h = i / S1 % S1, w = i % S1;
    float *y = &values[b].s1[m][h][w];
    *y = weights->s1_bias;
    #pragma unroll 1
    for (int p = 0; p < POOL; ++p)
        #pragma unroll 1
        for (int q = 0; q < POOL; ++q)
            *y += values[b].c1[m][h * POOL + p][w * POOL + q] * weights->s1[p][q];
    *y = sigmoid(*y);
}

// f = sigmoid(bias + product), and d_f, the loss's derivative: a thread per class.
extern "C" __global__ void fp_f(const int *labels, const int *order, const Weights *weights, Values *values)
{
    const int o = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (o >= CLASSES) return;
    const float *s1 = &values[b].s1[0][0][0];
    float *y = &values[b].f[o];
    *y = weights->f_bias[o];
    #pragma unroll 1
    for (int j = 0; j < FEATURES; ++j)
        *y += s1[j] * weights->f[o][j];
    *y = sigmoid(*y);
    values[b].d_f[o] = *y - (labels[order[b]] == o);
}

// The gradients of f and its biases: a thread per parameter sums over the batch.
extern "C" __global__ void bp_weight_f(const Values *values, Weights *gradient, int B)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= CLASSES * (FEATURES + 1)) return;
    const int o = i / (FEATURES + 1), j = i % (FEATURES + 1);   // j = FEATURES: the bias
    float *sum = j < FEATURES ? &gradient->f[o][j] : &gradient->f_bias[o];
    #pragma unroll 1
    for (int b = 0; b < B; ++b)
        *sum += values[b].d_f[o] * (j < FEATURES ? (&values[b].s1[0][0][0])[j] : 1);
}

// d_s1 from d_f: a thread per value of s1 sums over the classes.
extern "C" __global__ void bp_s1(const Weights *weights, Values *values)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (j >= FEATURES) return;
    float *d = &values[b].d_s1[0][0][0] + j;
    *d = 0;
    #pragma unroll 1
    for (int o = 0; o < CLASSES; ++o)
        *d += weights->f[o][j] * values[b].d_f[o];
    *d *= slope((&values[b].s1[0][0][0])[j]);
}

// The gradients of s1's filter and bias: a thread per parameter sums over the batch, the maps and the positions.
extern "C" __global__ void bp_weight_s1(const Values *values, Weights *gradient, int B)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > POOL * POOL) return;
    const int p = i / POOL, q = i % POOL;                       // i = POOL * POOL: the bias
    float *sum = i < POOL * POOL ? &gradient->s1[p][q] : &gradient->s1_bias;
    #pragma unroll 1
    for (int n = 0; n < B * FEATURES; ++n) {
        const int b = n / FEATURES, m = n / (S1 * S1) % MAPS, h = n / S1 % S1, w = n % S1;
        const float x = i < POOL * POOL ? values[b].c1[m][h * POOL + p][w * POOL + q] : 1;
        *sum += values[b].d_s1[m][h][w] * x;
    }
}

// d_c1 from d_s1: a thread per value of c1. The windows of s1 do not overlap, so there is no sum.
extern "C" __global__ void bp_c1(const Weights *weights, Values *values)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i >= OUTPUTS) return;
    const int m = i / POSITIONS, h = i / C1 % C1, w = i % C1;
    values[b].d_c1[m][h][w] = values[b].d_s1[m][h / POOL][w / POOL] * weights->s1[h % POOL][w % POOL]
                            * slope(values[b].c1[m][h][w]);
}

// The gradients of c1's masks and biases: a thread per parameter sums over the batch and the positions.
extern "C" __global__ void bp_weight_c1(const float *images, const int *order, const Values *values,
                                        Weights *gradient, int B)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= MAPS * (K * K + 1)) return;
    const int m = i / (K * K + 1), t = i % (K * K + 1), p = t / K, q = t % K;   // t = K * K: the bias
    float *sum = t < K * K ? &gradient->c1[m][p][q] : &gradient->c1_bias[m];
    #pragma unroll 1
    for (int n = 0; n < B * POSITIONS; ++n) {
        const int b = n / POSITIONS, h = n / C1 % C1, w = n % C1;
        const float x = t < K * K ? images[(size_t)order[b] * PIXELS + (h + p) * SIDE + w + q] : 1;
        *sum += values[b].d_c1[m][h][w] * x;
    }
}

// weights -= rate x gradient, and the gradient back to zero: a thread per parameter. As in report 001, the rates of
// c1 are divided by its positions and that of s1's bias by the values of s1: each is a sum of so many terms.
// `rate` is already divided by the batch. The gradient may come in several parts, one behind the other.
extern "C" __global__ void update(Weights *weights, Weights *gradient, float rate, int parts)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= PARAMETERS) return;
    const int s1 = MAPS * (K * K + 1), s1_bias = s1 + POOL * POOL;              // where these begin
    const float divisor = i < s1 ? POSITIONS : i == s1_bias ? FEATURES : 1;
    float *w = (float *)weights + i, sum = 0;
    for (int part = 0; part < parts; ++part) {
        float *g = (float *)(gradient + part) + i;
        sum += *g;
        *g = 0;
    }
    *w -= rate / divisor * sum;
}
