// 07 maps: a thread computes its rows in MAPS maps.
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
    const int Ho = H - K + 1, Wo = W - K + 1, Q = UNROLL;    // the loop over q unrolls by Q

    // Which outputs are mine? Neighbours in threadIdx.x are neighbours in w. Where the last rows do not
    // fill a thread, it moves up and computes some of its neighbour's again.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int first = (blockIdx.x / tiles * blockDim.y + threadIdx.y) * ROWS;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int h = min(first, Ho - ROWS);
    const int m0 = blockIdx.y * MAPS;                       // my first map
    const int b = blockIdx.z;
    if (first >= Ho || w >= Wo) return;                     // the last tiles stick out of the map

    // From here on x and y point at my first input and output.
    x += (size_t)b * C * H * W + h * W + w;
    y += (((size_t)b * M + m0) * Ho + h) * Wo + w;

    float sum[MAPS][ROWS] = {};
    for (int c = 0; c < C; ++c, x += H * W)
        #pragma unroll Q
        for (int q = 0; q < K; ++q) {
            float column[ROWS + K - 1];
            #pragma unroll
            for (int i = 0; i < ROWS + K - 1; ++i)
                column[i] = x[i * W + q];
            #pragma unroll
            for (int p = 0; p < K; ++p)
                #pragma unroll
                for (int m = 0; m < MAPS; ++m)
                    #pragma unroll
                    for (int r = 0; r < ROWS; ++r)
                        sum[m][r] += column[r + p] * mask[((min(m0 + m, M - 1) * C + c) * K + p) * K + q];
        }
    #pragma unroll
    for (int m = 0; m < MAPS; ++m)
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
            if (m0 + m < M && h + r >= first)               // the neighbour stores its own
                y[(m * Ho + r) * Wo] = sum[m][r];
}
