// lenet28, shared_input: the masks of c1 and the image in shared memory.
//
// Idea      The windows of neighbouring outputs overlap: each pixel is read up to K x K times per map. A block copies
//           the whole image, 3 KB, to shared memory first.
// Delta     from shared_mask: `image`.

#include "lenet28.h"

extern "C" __global__ void fp_c1(const float *images, const int *order, const Weights *weights, Values *values)
{
    __shared__ float k[MAPS][K][K], image[SIDE][SIDE];
    const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
    for (int t = threadIdx.x; t < MAPS * K * K; t += blockDim.x)
        (&k[0][0][0])[t] = (&weights->c1[0][0][0])[t];
    for (int n = threadIdx.x; n < PIXELS; n += blockDim.x)
        (&image[0][0])[n] = images[(size_t)order[b] * PIXELS + n];
    __syncthreads();
    if (i >= OUTPUTS) return;
    const int m = i / POSITIONS, h = i / C1 % C1, w = i % C1;
    float sum = weights->c1_bias[m];
    #pragma unroll
    for (int p = 0; p < K; ++p)
        #pragma unroll
        for (int q = 0; q < K; ++q)
            sum += image[h + p][w + q] * k[m][p][q];
    values[b].c1[m][h][w] = sigmoid(sum);
}
