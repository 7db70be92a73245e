// lenet28, atomics: one thread per product, which atomicAdd adds to its sum.
//
// Idea      A sum of n products keeps n threads busy instead of one. But the hardware executes the additions to one
//           address one after the other. The gradients are few sums with many products each; the outputs are many
//           sums, which had enough threads before.
// Delta     from loops: every kernel with a sum. The outputs begin as their biases (fp_start), and a launch of its own
//           applies the sigmoid: only then are the sums complete.
// Launch    grid.y: the images of the batch. Threads: as many as products.

#include "lenet28.h"

// Biases into the outputs, zeros into d_s1: a thread per value.
extern "C" __global__ void fp_start(const Weights *weights, Values *values)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i < OUTPUTS) (&values[b].c1[0][0][0])[i] = weights->c1_bias[i / POSITIONS];
    if (i < FEATURES) (&values[b].s1[0][0][0])[i] = weights->s1_bias;
    if (i < FEATURES) (&values[b].d_s1[0][0][0])[i] = 0;
    if (i < CLASSES) values[b].f[i] = weights->f_bias[i];
}

extern "C" __global__ void fp_c1(const float *images, const int *order, const Weights *weights, Values *values)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i >= K * K * OUTPUTS) return;
    const int p = i / OUTPUTS / K, q = i / OUTPUTS % K, m = i / POSITIONS % MAPS, h = i / C1 % C1, w = i % C1;
    const float x = images[(size_t)order[b] * PIXELS + (h + p) * SIDE + w + q];
    atomicAdd(&values[b].c1[m][h][w], x * weights->c1[m][p][q]);
}

extern "C" __global__ void activate_c1(Values *values)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i >= OUTPUTS) return;
    float *y = &values[b].c1[0][0][0] + i;
    *y = sigmoid(*y);
}

extern "C" __global__ void fp_s1(const Weights *weights, Values *values)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i >= OUTPUTS) return;
    const int m = i / POSITIONS, h = i / C1 % C1, w = i % C1;
    atomicAdd(&values[b].s1[m][h / POOL][w / POOL], values[b].c1[m][h][w] * weights->s1[h % POOL][w % POOL]);
}

extern "C" __global__ void activate_s1(Values *values)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i >= FEATURES) return;
    float *y = &values[b].s1[0][0][0] + i;
    *y = sigmoid(*y);
}

extern "C" __global__ void fp_f(const int *, const int *, const Weights *weights, Values *values)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i >= CLASSES * FEATURES) return;
    const int o = i / FEATURES, j = i % FEATURES;
    atomicAdd(&values[b].f[o], (&values[b].s1[0][0][0])[j] * weights->f[o][j]);
}

extern "C" __global__ void activate_f(const int *labels, const int *order, Values *values)
{
    const int o = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (o >= CLASSES) return;
    float *y = &values[b].f[o];
    *y = sigmoid(*y);
    values[b].d_f[o] = *y - (labels[order[b]] == o);
}

extern "C" __global__ void bp_weight_f(const Values *values, Weights *gradient, int)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i >= CLASSES * (FEATURES + 1)) return;
    const int o = i / (FEATURES + 1), j = i % (FEATURES + 1);   // j = FEATURES: the bias
    float *sum = j < FEATURES ? &gradient->f[o][j] : &gradient->f_bias[o];
    atomicAdd(sum, values[b].d_f[o] * (j < FEATURES ? (&values[b].s1[0][0][0])[j] : 1));
}

extern "C" __global__ void bp_s1(const Weights *weights, Values *values)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i >= CLASSES * FEATURES) return;
    const int o = i / FEATURES, j = i % FEATURES;
    const float d = weights->f[o][j] * values[b].d_f[o];
    atomicAdd(&values[b].d_s1[0][0][0] + j, d * slope((&values[b].s1[0][0][0])[j]));
}

// Neighbouring threads add to one address: i counts the positions of one weight after those of the other.
extern "C" __global__ void bp_weight_s1(const Values *values, Weights *gradient, int)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i >= (POOL * POOL + 1) * FEATURES) return;
    const int t = i / FEATURES, p = t / POOL, q = t % POOL;     // t = POOL * POOL: the bias
    const int m = i / (S1 * S1) % MAPS, h = i / S1 % S1, w = i % S1;
    const float x = t < POOL * POOL ? values[b].c1[m][h * POOL + p][w * POOL + q] : 1;
    atomicAdd(t < POOL * POOL ? &gradient->s1[p][q] : &gradient->s1_bias, values[b].d_s1[m][h][w] * x);
}

extern "C" __global__ void bp_weight_c1(const float *images, const int *order, const Values *values,
                                        Weights *gradient, int)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i >= MAPS * (K * K + 1) * POSITIONS) return;
    const int m = i / ((K * K + 1) * POSITIONS), t = i / POSITIONS % (K * K + 1), p = t / K, q = t % K;
    const int h = i / C1 % C1, w = i % C1;
    const float x = t < K * K ? images[(size_t)order[b] * PIXELS + (h + p) * SIDE + w + q] : 1;
    atomicAdd(t < K * K ? &gradient->c1[m][p][q] : &gradient->c1_bias[m], values[b].d_c1[m][h][w] * x);
}
