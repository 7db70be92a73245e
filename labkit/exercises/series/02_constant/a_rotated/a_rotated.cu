// 02a rotated: each lane starts its row of the mask at a different element.
//
// The products of a row are the same, in another order. But in each iteration the lanes of a
// warp now ask for up to K different elements, and constant memory serves them one after the other.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *x, const float *k, float *y,
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
#ifdef SKELETON
            for (int q = 0; q < K; ++q)
                y[h * Wo + w] += x[(c * H + h + p) * W + w + q] * mask[((m * C + c) * K + p) * K + q];
#else
            for (int i = 0; i < K; ++i) {
                const int q = (i + threadIdx.x) % K;        // neighbours begin at neighbouring elements
                y[h * Wo + w] += x[(c * H + h + p) * W + w + q] * mask[((m * C + c) * K + p) * K + q];
            }
#endif
}
