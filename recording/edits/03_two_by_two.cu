// 03 two by two: a thread computes a square of 2 x 2 outputs.
//
// Wanted    (K+1)^2 inputs for four outputs, not K^2 for each: an input in a register serves all of them. Neighbouring
//           threads are two words apart.
// Launch    As rung 03. A tile is twice as wide and twice as high; three of four blocks have nothing to do.
// Requires  M*C*K*K <= 16384.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    const int Ho = H - K + 1, Wo = W - K + 1;

    // The outputs of this thread: rows h and h + 1, columns w and w + 1.
    const int tiles = (Wo + 2 * blockDim.x - 1) / (2 * blockDim.x);    // tiles side by side across a map
    const int h = (blockIdx.x / tiles * blockDim.y + threadIdx.y) * 2;
    const int w = (blockIdx.x % tiles * blockDim.x + threadIdx.x) * 2;
    const int m = blockIdx.y;
    const int b = blockIdx.z;
    if (h >= Ho || w >= Wo) return;

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    float sum[2][2] = {};
    for (int c = 0; c < C; ++c)
        #pragma unroll
        for (int i = 0; i <= K; ++i) {                      // row i of the inputs: row i of the mask for the upper
            float row[K + 1];                               // outputs, row i - 1 for the lower ones
            #pragma unroll
            for (int j = 0; j <= K; ++j)                    // beyond the image there is no output: any input will do
                row[j] = x[(c * H + min(h + i, H - 1)) * W + min(w + j, W - 1)];
            #pragma unroll
            for (int r = 0; r < 2; ++r)
                #pragma unroll
                for (int q = 0; q < K; ++q)
                    if (0 <= i - r && i - r < K) {
                        const float element = mask[((m * C + c) * K + i - r) * K + q];
                        sum[r][0] += row[q] * element;
                        sum[r][1] += row[q + 1] * element;
                    }
        }
    #pragma unroll
    for (int r = 0; r < 2; ++r)
        #pragma unroll
        for (int s = 0; s < 2; ++s)
            if (h + r < Ho && w + s < Wo)
                y[(h + r) * Wo + w + s] = sum[r][s];
}
