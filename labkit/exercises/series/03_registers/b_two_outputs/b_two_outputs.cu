// 03b two outputs: a thread computes two outputs of a map, and reads each mask element once for both.
//
// The constant cache of a multiprocessor delivers one element in two cycles. Each element now serves 64
// products in place of 32.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    const int Ho = H - K + 1, Wo = W - K + 1;

    // The output of this thread. Neighbours in threadIdx.x are neighbours in w and in memory.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int h = blockIdx.x / tiles * blockDim.y + threadIdx.y;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int m = blockIdx.y;
    const int b = blockIdx.z;
#ifdef SKELETON
    if (h >= Ho || w >= Wo) return;                         // the last tiles extend beyond the map
#else
    const int half = (Ho + 1) / 2;                          // the second output lies half a map below
    if (h >= half || w >= Wo) return;
    const int down = h + half < Ho ? half : 0;              // the middle row of an odd map has none
#endif

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

#ifdef SKELETON
    float sum = 0;
#else
    float sum = 0, below = 0;
#endif
    for (int c = 0; c < C; ++c)
        #pragma unroll
        for (int p = 0; p < K; ++p)
            #pragma unroll
#ifdef SKELETON
            for (int q = 0; q < K; ++q)
                sum += x[(c * H + h + p) * W + w + q] * mask[((m * C + c) * K + p) * K + q];
    y[h * Wo + w] = sum;
#else
            for (int q = 0; q < K; ++q) {
                const float element = mask[((m * C + c) * K + p) * K + q];
                sum += x[(c * H + h + p) * W + w + q] * element;
                below += x[(c * H + h + down + p) * W + w + q] * element;
            }
    y[h * Wo + w] = sum;
    if (down) y[(h + down) * Wo + w] = below;
#endif
}
