// 07a shared weights: the block's weights in shared memory, those of a thread's maps side by side.
//
// Of 07, and from its step constant. Weights in constant memory miss in its small cache on the second
// layers. All threads of a block fill the array, also those without an output, so the guard moves behind
// the barriers.

#ifdef SKELETON
__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

#endif
extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int, int, int M, int)
{
    constexpr int K = FIXED_K, H = FIXED_H, W = FIXED_W;    // the missing arguments, known to the compiler
    constexpr int Ho = H - K + 1, Wo = W - K + 1, Q = UNROLL;    // the loop over q unrolls by Q
#ifdef SKELETON
#else
    constexpr int TERMS = CHANNELS * K * K;                 // of CHANNELS input channels
    __shared__ __align__(16) float mask[TERMS][GROUPS * MAPS];
#endif

    // The outputs of this thread. Neighbours in threadIdx.x are neighbours in w. The last thread of a column
    // moves up to fill its rows: it computes some of its neighbour's outputs again and does not store them.
    const int n = blockIdx.x * THREADS + threadIdx.x;
    const int first = n / Wo * ROWS, w = n % Wo;
    const int h = min(first, Ho - ROWS);
#ifdef SKELETON
    const int m0 = (blockIdx.y * GROUPS + threadIdx.y) * MAPS;      // the thread's first map
#else
    const int m0 = blockIdx.y * GROUPS * MAPS;              // the block's first map
    const int mine = threadIdx.y * MAPS;                    // the thread's first map, counted from m0
#endif
    const int b = blockIdx.z;

    // From here on x and y point at the thread's first input and output.
    x += (size_t)b * C * H * W + h * W + w;
#ifdef SKELETON
    y += (((size_t)b * M + m0) * Ho + h) * Wo + w;
#else
    y += (((size_t)b * M + m0 + mine) * Ho + h) * Wo + w;
#endif

    float sum[MAPS][ROWS] = {};
#ifdef SKELETON
    for (int c = 0; c < C && first < Ho; ++c, x += H * W)
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
#else
    for (int c0 = 0; c0 < C; c0 += CHANNELS) {
        __syncthreads();                                    // the previous masks are no longer read
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
#endif
    #pragma unroll
    for (int m = 0; m < MAPS; ++m)
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
#ifdef SKELETON
            if (m0 + m < M && h + r >= first)               // rows above first are the neighbour's
#else
            if (m0 + mine + m < M && h + r >= first)        // rows above first are the neighbour's
#endif
                y[(m * Ho + r) * Wo] = sum[m][r];
}
