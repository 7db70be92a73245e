// lenet28, shared_c1: the maps of c1 in shared memory.
//
// Idea      fp_s1 reads windows of c1. A block first copies the maps of an image to shared memory. But the windows do
//           not overlap: each value is read once, with or without the copy.
// Delta     from register: fp_s1.
// Launch    A block per image, grid (1, B).

#include "lenet28.h"

extern "C" __global__ void fp_s1(const Weights *weights, Values *values)
{
    __shared__ float c1[MAPS][C1][C1];
    const int b = blockIdx.y;
    for (int i = threadIdx.x; i < OUTPUTS; i += blockDim.x)
        (&c1[0][0][0])[i] = (&values[b].c1[0][0][0])[i];
    __syncthreads();
    for (int i = threadIdx.x; i < FEATURES; i += blockDim.x) {
        const int m = i / (S1 * S1), h = i / S1 % S1, w = i % S1;
        float sum = weights->s1_bias;
        #pragma unroll 1
        for (int p = 0; p < POOL; ++p)
            #pragma unroll 1
            for (int q = 0; q < POOL; ++q)
                sum += c1[m][h * POOL + p][w * POOL + q] * weights->s1[p][q];
        values[b].s1[m][h][w] = sigmoid(sum);
    }
}
