// lenet28, constant_input: the image in constant memory.
//
// Idea      All maps read the same image, which fits into constant memory. But constant memory serves one word per
//           warp and cycle, and the lanes of a warp want 32 neighbouring pixels.
// Delta     from unrolled: `image`, and a copy of the image from device memory to constant memory before each step.
// Requires  One image per step.

#include "lenet28.h"

__constant__ float image[SIDE][SIDE];

extern "C" __global__ void fp_c1(const float *, const int *, const Weights *weights, Values *values)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= OUTPUTS) return;
    const int m = i / POSITIONS, h = i / C1 % C1, w = i % C1;
    float sum = weights->c1_bias[m];
    #pragma unroll
    for (int p = 0; p < K; ++p)
        #pragma unroll
        for (int q = 0; q < K; ++q)
            sum += image[h + p][w + q] * weights->c1[m][p][q];
    values->c1[m][h][w] = sigmoid(sum);
}
