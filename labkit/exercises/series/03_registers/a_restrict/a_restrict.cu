// 03a restrict: rung 02 with __restrict__ alone.
//
// The source still accumulates in y. But y overlaps no other array now, so no other access can see what it
// holds in the loop: the compiler keeps the sum in a register.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
#ifdef SKELETON
void conv(const float *x, const float *k, float *y,
#else
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
#endif
          int B, int C, int H, int W, int M, int K)
{
    const int Ho = H - K + 1, Wo = W - K + 1;

    // The output of this thread. Neighbours in threadIdx.x are neighbours in w and in memory.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int h = blockIdx.x / tiles * blockDim.y + threadIdx.y;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int m = blockIdx.y;
    const int b = blockIdx.z;
    if (h >= Ho || w >= Wo) return;                         // the last tiles extend beyond the map

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    y[h * Wo + w] = 0;
    for (int c = 0; c < C; ++c)
        for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q)
                y[h * Wo + w] += x[(c * H + h + p) * W + w + q] * mask[((m * C + c) * K + p) * K + q];
}
