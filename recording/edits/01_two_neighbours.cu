// 01 two neighbours: a thread computes two outputs beside each other.
//
// Wanted    To read a mask element once for two outputs. The outputs of a thread are w and w + 1, so neighbouring
//           threads are two words apart.
// Launch    As rung 01. A tile is now twice as wide; the blocks that are left over have nothing to do.

extern "C" __global__
void conv(const float *x, const float *k, float *y,
          int B, int C, int H, int W, int M, int K)
{
    const int Ho = H - K + 1, Wo = W - K + 1;

    // The outputs of this thread: w and w + 1.
    const int tiles = (Wo + 2 * blockDim.x - 1) / (2 * blockDim.x);    // tiles side by side across a map
    const int h = blockIdx.x / tiles * blockDim.y + threadIdx.y;
    const int w = (blockIdx.x % tiles * blockDim.x + threadIdx.x) * 2;
    const int m = blockIdx.y;
    const int b = blockIdx.z;
    if (h >= Ho || w >= Wo) return;
    const int next = w + 1 < Wo ? 1 : 0;                    // the last output of an odd row is alone

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    float left = 0, right = 0;
    for (int c = 0; c < C; ++c)
        for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q) {
                const float element = k[((m * C + c) * K + p) * K + q];
                left += x[(c * H + h + p) * W + w + q] * element;
                right += x[(c * H + h + p) * W + w + q + next] * element;
            }
    y[h * Wo + w] = left;
    if (next) y[h * Wo + w + 1] = right;
}
