// 02b two maps: a thread computes the outputs of two maps, and loads each input once for both.
//
// The sums are in registers, so the stores are gone that hid what constant memory saves. Each load now
// serves two products, whose weights come from the constant cache.

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
#ifdef SKELETON
    if (h >= Ho || w >= Wo) return;                         // the last tiles extend beyond the map
#else
    if (h >= Ho || w >= Wo || m % 2) return;                // the block of map m - 1 computes these
    const int next = m + 1 < M ? m + 1 : m;                 // the last of odd maps has no partner
#endif

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

#ifdef SKELETON
    y[h * Wo + w] = 0;
    for (int c = 0; c < C; ++c)
        for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q)
                y[h * Wo + w] += x[(c * H + h + p) * W + w + q] * mask[((m * C + c) * K + p) * K + q];
#else
    float sum = 0, sum_next = 0;
    for (int c = 0; c < C; ++c)
        for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q) {
                const float input = x[(c * H + h + p) * W + w + q];
                sum += input * mask[((m * C + c) * K + p) * K + q];
                sum_next += input * mask[((next * C + c) * K + p) * K + q];
            }
    y[h * Wo + w] = sum;
    if (next > m) y[(Ho + h) * Wo + w] = sum_next;
#endif
}
