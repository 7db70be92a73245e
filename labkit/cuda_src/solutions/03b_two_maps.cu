// 03b two maps: a thread computes the outputs of two maps from one load of each input.
//
// Each input that a thread has loaded serves two sums: half the loads for the same products, at the price
// of a register and of half as many threads.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    const int Ho = H - K + 1, Wo = W - K + 1;

    // Which output is mine? Neighbours in threadIdx.x are neighbours in w, and so in memory.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int h = blockIdx.x / tiles * blockDim.y + threadIdx.y;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int m = 2 * blockIdx.y;                           // and m + 1
    const int b = blockIdx.z;
    if (h >= Ho || w >= Wo || m >= M) return;               // half of the blocks have no maps left

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    const int next = m + 1 < M ? C * K * K : 0;             // from the mask of m to that of m + 1, if any
    float sum = 0, more = 0;
    for (int c = 0; c < C; ++c)
        #pragma unroll
        for (int p = 0; p < K; ++p)
            #pragma unroll
            for (int q = 0; q < K; ++q) {
                const float input = x[(c * H + h + p) * W + w + q];
                sum += input * mask[((m * C + c) * K + p) * K + q];
                more += input * mask[((m * C + c) * K + p) * K + q + next];
            }
    y[h * Wo + w] = sum;
    if (next) y[Ho * Wo + h * Wo + w] = more;
}
