// lenet28, shared_s1: the maps of s1 in shared memory.
//
// Idea      All classes read all values of s1, so a block copies them to shared memory first.
// Delta     from register: fp_f.
// Launch    A block per image, grid (1, B).

#include "lenet28.h"

extern "C" __global__ void fp_f(const int *labels, const int *order, const Weights *weights, Values *values)
{
    __shared__ float s1[FEATURES];
    const int b = blockIdx.y;
    for (int j = threadIdx.x; j < FEATURES; j += blockDim.x)
        s1[j] = (&values[b].s1[0][0][0])[j];
    __syncthreads();
    for (int o = threadIdx.x; o < CLASSES; o += blockDim.x) {
        float sum = weights->f_bias[o];
        #pragma unroll 1
        for (int j = 0; j < FEATURES; ++j)
            sum += s1[j] * weights->f[o][j];
        const float y = sigmoid(sum);
        values[b].f[o] = y;
        values[b].d_f[o] = y - (labels[order[b]] == o);
    }
}
