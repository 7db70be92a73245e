// 07a shared weights: the weights of a channel in shared memory, those of a thread's maps side by side.
//
// Of 07, and from its step maps to its step masks. Weights in constant memory come one per load. From shared
// memory one load brings four. All threads of a block fill the array, also those without an output, so the
// guard moves behind the barriers.

#ifdef SKELETON
__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

#endif
extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    const int Ho = H - K + 1, Wo = W - K + 1, Q = UNROLL;    // the loop over q unrolls by Q
#ifdef SKELETON
#else
    constexpr int TERMS = K * K;                            // of an input channel
    __shared__ __align__(16) float mask[TERMS][MAPS];
#endif

    // The outputs of this thread. Neighbours in threadIdx.x are neighbours in w. The last thread of a column
    // moves up to fill its rows: it computes some of its neighbour's outputs again and does not store them.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int first = (blockIdx.x / tiles * blockDim.y + threadIdx.y) * ROWS;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int h = min(first, Ho - ROWS);
    const int m0 = blockIdx.y * MAPS;                       // the thread's first map
    const int b = blockIdx.z;
#ifdef SKELETON
    if (first >= Ho || w >= Wo) return;                     // the last tiles extend beyond the map
#else
    const bool inside = first < Ho && w < Wo;               // the last tiles extend beyond the map
#endif

    // From here on x and y point at the thread's first input and output.
    x += (size_t)b * C * H * W + h * W + w;
    y += (((size_t)b * M + m0) * Ho + h) * Wo + w;

    float sum[MAPS][ROWS] = {};
#ifdef SKELETON
    for (int c = 0; c < C; ++c, x += H * W)
#else
    for (int c = 0; c < C; ++c, x += H * W) {
        __syncthreads();                                    // the previous masks are no longer read
        for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < TERMS * MAPS; i += blockDim.x * blockDim.y) {
            const int m = i / TERMS, t = i % TERMS;
            mask[t][m] = m0 + m < M ? k[((m0 + m) * C + c) * TERMS + t] : 0;
        }
        __syncthreads();                                    // the masks are complete
#endif
        #pragma unroll Q
#ifdef SKELETON
        for (int q = 0; q < K; ++q) {
#else
        for (int q = 0; q < K && inside; ++q) {
#endif
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
#ifdef SKELETON
                        sum[m][r] += column[r + p] * mask[((min(m0 + m, M - 1) * C + c) * K + p) * K + q];
#else
                        sum[m][r] += column[r + p] * mask[p * K + q][m];
#endif
        }
#ifdef SKELETON
#else
    }
#endif
    #pragma unroll
    for (int m = 0; m < MAPS; ++m)
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
#ifdef SKELETON
            if (m0 + m < M && h + r >= first)               // rows above first are the neighbour's
#else
            if (inside && m0 + m < M && h + r >= first)     // rows above first are the neighbour's
#endif
                y[(m * Ho + r) * Wo] = sum[m][r];
}
