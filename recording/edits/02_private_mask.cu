// 02 private mask: each thread copies the mask of a channel into an array of its own.
//
// Wanted    The mask in registers, which are faster than any memory. But K is not known to the compiler, so the array
//           is indexed at run time, and that puts it into local memory.
// Launch    As rung 02.
// Requires  K <= 7; M*C*K*K <= 16384.

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

    float mine[49];                                         // [K,K] of one channel
    float sum = 0;
    for (int c = 0; c < C; ++c) {
        for (int i = 0; i < K * K; ++i)
            mine[i] = mask[(m * C + c) * K * K + i];
        for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q)
                sum += x[(c * H + h + p) * W + w + q] * mine[p * K + q];
    }
    y[h * Wo + w] = sum;
}
