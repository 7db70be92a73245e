// 07b one barrier: there is nothing to wait for before the first masks.
//
// The barrier at the top keeps fast warps from storing new masks while slow ones still read the old. The
// first pass has no old masks, and if CHANNELS covers C there is no second pass. c0 is the same in all
// threads of a block, so the barrier is not divergent.

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int, int, int M, int)
{
    constexpr int K = FIXED_K, H = FIXED_H, W = FIXED_W;    // the missing arguments, known to the compiler
    constexpr int Ho = H - K + 1, Wo = W - K + 1, Q = UNROLL;    // the loop over q unrolls by Q
    constexpr int TERMS = CHANNELS * K * K;                 // of CHANNELS input channels
    __shared__ __align__(16) float mask[TERMS][GROUPS * MAPS];

    // The outputs of this thread. Neighbours in threadIdx.x are neighbours in w. The last thread of a column
    // moves up to fill its rows: it computes some of its neighbour's outputs again and does not store them.
    const int n = blockIdx.x * THREADS + threadIdx.x;
    const int first = n / Wo * ROWS, w = n % Wo;
    const int h = min(first, Ho - ROWS);
    const int m0 = blockIdx.y * GROUPS * MAPS;              // the block's first map
    const int mine = threadIdx.y * MAPS;                    // the thread's first map, counted from m0
    const int b = blockIdx.z;

    // From here on x and y point at the thread's first input and output.
    x += (size_t)b * C * H * W + h * W + w;
    y += (((size_t)b * M + m0 + mine) * Ho + h) * Wo + w;

    float sum[MAPS][ROWS] = {};
    for (int c0 = 0; c0 < C; c0 += CHANNELS) {
#ifdef SKELETON
        __syncthreads();                                    // the previous masks are no longer read
#else
        if (c0) __syncthreads();                            // the previous masks are no longer read
#endif
        for (int i = threadIdx.y * THREADS + threadIdx.x; i < TERMS * GROUPS * MAPS; i += THREADS * GROUPS) {
            const int m = i / TERMS, t = i % TERMS;
            mask[t][m] = m0 + m < M && c0 * K * K + t < C * K * K ? k[((m0 + m) * C + c0) * K * K + t] : 0;
        }
        __syncthreads();                                    // the masks are complete
        for (int c = 0; c < CHANNELS && c0 + c < C && first < Ho; ++c, x += H * W)
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
                            sum[m][r] += column[r + p] * mask[(c * K + p) * K + q][mine + m];
            }
    }
    #pragma unroll
    for (int m = 0; m < MAPS; ++m)
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
            if (m0 + mine + m < M && h + r >= first)        // rows above first are the neighbour's
                y[(m * Ho + r) * Wo] = sum[m][r];
}
