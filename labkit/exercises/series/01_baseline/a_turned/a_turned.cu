// 01a turned: threadIdx.x runs along h.
//
// The lanes of a warp are counted along threadIdx.x first. In a block of 8 x 8 a warp has all 8 values of
// threadIdx.x and 4 of threadIdx.y: in rung 01 4 rows of 8 outputs, here 8 rows of 4. A row of layer 1 has
// 80 outputs, 10 sectors exactly. So a store touches 4 sectors in rung 01, all of them whole, and here 8,
// each of them half. Requires a square block.

extern "C" __global__
void conv(const float *x, const float *k, float *y,
          int B, int C, int H, int W, int M, int K)
{
    const int Ho = H - K + 1, Wo = W - K + 1;

#ifdef SKELETON
    // The output of this thread. Neighbours in threadIdx.x are neighbours in w and in memory.
#else
    // The output of this thread. Neighbours in threadIdx.x are a row apart.
#endif
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
#ifdef SKELETON
    const int h = blockIdx.x / tiles * blockDim.y + threadIdx.y;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
#else
    const int h = blockIdx.x / tiles * blockDim.y + threadIdx.x;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.y;
#endif
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
                y[h * Wo + w] += x[(c * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
}
