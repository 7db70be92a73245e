// lenet28, shared_mask: the masks of c1 in shared memory.
//
// Idea      All positions of a map need the same mask. A block copies all masks, 600 bytes, to shared memory first.
// Delta     from unrolled: fp_c1.

#include "lenet28.h"

extern "C" __global__ void fp_c1(const float *images, const int *order, const Weights *weights, Values *values)
{
    __shared__ float k[MAPS][K][K];
    for (int t = threadIdx.x; t < MAPS * K * K; t += blockDim.x)
        (&k[0][0][0])[t] = (&weights->c1[0][0][0])[t];
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    if (i >= OUTPUTS) return;
    const int m = i / POSITIONS, h = i / C1 % C1, w = i % C1;
    const float *x = images + (size_t)order[b] * PIXELS + h * SIDE + w;     // this output's window
    float sum = weights->c1_bias[m];
    #pragma unroll
    for (int p = 0; p < K; ++p)
        #pragma unroll
        for (int q = 0; q < K; ++q)
            sum += x[p * SIDE + q] * k[m][p][q];
    values[b].c1[m][h][w] = sigmoid(sum);
}
