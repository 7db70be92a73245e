// 07 rows: a thread computes ROWS outputs below each other.
//
// Idea      x
// Delta     x
// Shapes    x
// Launch    x
// Requires  x

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    const int Ho = H - K + 1, Wo = W - K + 1;

    // Which outputs are mine? Neighbours in threadIdx.x are neighbours in w. Where the last rows do not
    // fill a thread, it moves up and computes some of its neighbour's again.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int first = (blockIdx.x / tiles * blockDim.y + threadIdx.y) * ROWS;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int h = min(first, Ho - ROWS);
    const int m = blockIdx.y;
    const int b = blockIdx.z;
    if (first >= Ho || w >= Wo) return;                     // the last tiles stick out of the map

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    float sum[ROWS] = {};
    for (int c = 0; c < C; ++c)
        #pragma unroll
        for (int q = 0; q < K; ++q) {
            float column[ROWS + K - 1];
            #pragma unroll
            for (int i = 0; i < ROWS + K - 1; ++i)
                column[i] = x[(c * H + h + i) * W + w + q];
            #pragma unroll
            for (int p = 0; p < K; ++p)
                #pragma unroll
                for (int r = 0; r < ROWS; ++r)
                    sum[r] += column[r + p] * mask[((m * C + c) * K + p) * K + q];
        }
    #pragma unroll
    for (int r = 0; r < ROWS; ++r)
        if (h + r >= first)                                 // the neighbour stores its own
            y[(h + r) * Wo + w] = sum[r];
}
