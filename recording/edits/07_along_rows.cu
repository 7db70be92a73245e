// 07 along rows: a thread computes ROWS outputs beside each other, not below each other.
//
// Wanted    The inputs of a thread in one piece: ROWS + K - 1 of a row of the image, which lie one after the other in
//           memory. Neighbouring threads are now ROWS words apart.
// Launch    As rung 07. A block computes further outputs if the grid is too small for a map that is not square.
// Requires  ROWS <= Wo.

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int, int, int M, int)
{
    constexpr int K = FIXED_K, H = FIXED_H, W = FIXED_W;    // the missing arguments, known to the compiler
    constexpr int Ho = H - K + 1, Wo = W - K + 1, Q = UNROLL;    // the loop over p unrolls by Q
    constexpr int TERMS = CHANNELS * K * K;                 // of CHANNELS input channels
    __shared__ __align__(16) float mask[TERMS][GROUPS * MAPS];

    const int across = (Wo + ROWS - 1) / ROWS;              // threads that cover a row of a map
    const int m0 = blockIdx.y * GROUPS * MAPS;              // the block's first map
    const int mine = threadIdx.y * MAPS;                    // the thread's first map, counted from m0
    const int b = blockIdx.z;
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m0 + mine) * Ho * Wo;

    for (int n0 = blockIdx.x * THREADS; n0 < Ho * across; n0 += gridDim.x * THREADS) {
        // The outputs of this thread. The last thread of a row moves to the left to fill its outputs: it computes some
        // of its neighbour's again and does not store them.
        const int h = (n0 + threadIdx.x) / across, first = (n0 + threadIdx.x) % across * ROWS;
        const int w = min(first, Wo - ROWS);

        float sum[MAPS][ROWS] = {};
        for (int c0 = 0; c0 < C; c0 += CHANNELS) {
            __syncthreads();                                // the previous masks are no longer read
            for (int i = threadIdx.y * THREADS + threadIdx.x; i < TERMS * GROUPS * MAPS; i += THREADS * GROUPS) {
                const int m = i / TERMS, t = i % TERMS;
                mask[t][m] = m0 + m < M && c0 * K * K + t < C * K * K ? k[((m0 + m) * C + c0) * K * K + t] : 0;
            }
            __syncthreads();                                // the masks are complete
            for (int c = 0; c < CHANNELS && c0 + c < C && h < Ho; ++c)
                #pragma unroll Q
                for (int p = 0; p < K; ++p) {
                    float row[ROWS + K - 1];
                    #pragma unroll
                    for (int i = 0; i < ROWS + K - 1; ++i)
                        row[i] = x[((c0 + c) * H + h + p) * W + w + i];
                    #pragma unroll
                    for (int q = 0; q < K; ++q)
                        #pragma unroll
                        for (int m = 0; m < MAPS; ++m)
                            #pragma unroll
                            for (int r = 0; r < ROWS; ++r)
                                sum[m][r] += row[r + q] * mask[(c * K + p) * K + q][mine + m];
                }
        }
        #pragma unroll
        for (int m = 0; m < MAPS; ++m)
            #pragma unroll
            for (int r = 0; r < ROWS; ++r)
                if (m0 + mine + m < M && h < Ho && w + r >= first)
                    y[(m * Ho + h) * Wo + w + r] = sum[m][r];
    }
}
