// 02 shared mask: the whole mask of the output map in shared memory, in place of constant memory.
//
// Wanted    No limit of 64 KB for all maps together: a block needs only the C*K*K elements of its own map. They are
//           loaded once, with one barrier. The sum is kept in a register.
// Launch    As rung 02.
// Requires  C*K*K <= 1024.

extern "C" __global__
void conv(const float *x, const float *k, float *y,
          int B, int C, int H, int W, int M, int K)
{
    const int Ho = H - K + 1, Wo = W - K + 1;
    __shared__ float mask[1024];                            // [C,K,K] of map m

    // The output of this thread. Neighbours in threadIdx.x are neighbours in w and in memory.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int h = blockIdx.x / tiles * blockDim.y + threadIdx.y;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int m = blockIdx.y;
    const int b = blockIdx.z;

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < C * K * K; i += blockDim.x * blockDim.y)
        mask[i] = k[m * C * K * K + i];
    __syncthreads();                                        // the mask is complete
    if (h >= Ho || w >= Wo) return;                         // the last tiles extend beyond the map

    float sum = 0;
    for (int c = 0; c < C; ++c)
        for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q)
                sum += x[(c * H + h + p) * W + w + q] * mask[(c * K + p) * K + q];
    y[h * Wo + w] = sum;
}
