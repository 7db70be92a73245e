// 02 two maps: a thread computes its output in two maps.
//
// Wanted    To load an input once for two products: the maps 2 m and 2 m + 1 read the same inputs.
// Launch    As rung 02. Half of the blocks have nothing to do.
// Requires  M*C*K*K <= 16384.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *x, const float *k, float *y,
          int B, int C, int H, int W, int M, int K)
{
    const int Ho = H - K + 1, Wo = W - K + 1;

    // The outputs of this thread. Neighbours in threadIdx.x are neighbours in w and in memory.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int h = blockIdx.x / tiles * blockDim.y + threadIdx.y;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int m = 2 * blockIdx.y;                           // and m + 1
    const int b = blockIdx.z;
    if (m >= M || h >= Ho || w >= Wo) return;
    const int next = m + 1 < M ? C * K * K : 0;             // from a map's mask to the next one's

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    float sum0 = 0, sum1 = 0;
    for (int c = 0; c < C; ++c)
        for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q) {
                const float input = x[(c * H + h + p) * W + w + q];
                const int i = ((m * C + c) * K + p) * K + q;
                sum0 += input * mask[i];
                sum1 += input * mask[i + next];
            }
    y[h * Wo + w] = sum0;
    if (next) y[(Ho + h) * Wo + w] = sum1;
}
