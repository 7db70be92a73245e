// 02 rows rotated: every row of threads begins with another row of the mask.
//
// Wanted    The threads of a block should not all ask for the same row of the image at once. But a warp has two rows of
//           threads in a block of 16 x 16, and they now read two different mask elements at a time.
// Launch    As rung 02.
// Requires  M*C*K*K <= 16384.

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

    float sum = 0;
    for (int c = 0; c < C; ++c) {
        int p = threadIdx.y % K;
        for (int i = 0; i < K; ++i) {
            for (int q = 0; q < K; ++q)
                sum += x[(c * H + h + p) * W + w + q] * mask[((m * C + c) * K + p) * K + q];
            if (++p == K) p = 0;                            // after the last row comes the first
        }
    }
    y[h * Wo + w] = sum;
}
