// 04b together: several maps per tile, weights in shared memory, no unused sums, no conflicts.
//
// The step weights, with two changes. Threads without an output load inputs and skip the sum: the
// guard stands before the sum, the barriers outside of it. Rows of the tile lie TILE + 32 words apart, as
// in 04a.

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    constexpr int SIDE = TILE + K - 1;                      // the tile with its halo
#ifdef SKELETON
    __shared__ float tile[SIDE][SIDE];
#else
    __shared__ float tile[SIDE][TILE + 32];                 // bank of a thread: its number, modulo 32
#endif
    __shared__ __align__(16) float weights[K * K][MAPS];
    const int Ho = H - K + 1, Wo = W - K + 1;

    // The output of this thread. Neighbours in threadIdx.x are neighbours in w and in memory.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int h = blockIdx.x / tiles * blockDim.y + threadIdx.y;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int m = blockIdx.y * MAPS;                        // the first of this thread's maps
    const int b = blockIdx.z;

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    float sum[MAPS] = {};
    for (int c = 0; c < C; ++c) {
        // The tile is wider than the block: each thread loads its own input and those TILE apart.
        for (int i = 0; i < SIDE; i += TILE)
            for (int j = 0; j < SIDE; j += TILE)
                if (threadIdx.y + i < SIDE && threadIdx.x + j < SIDE)
                    tile[threadIdx.y + i][threadIdx.x + j] =
                        h + i < H && w + j < W ? x[(c * H + h + i) * W + w + j] : 0;
        for (int i = threadIdx.y * TILE + threadIdx.x; i < MAPS * K * K; i += TILE * TILE) {
            const int n = i / (K * K), pq = i % (K * K);    // in the order of k, which is read along its rows
            weights[pq][n] = k[(min(m + n, M - 1) * C + c) * K * K + pq];
        }
        __syncthreads();                                    // tile and weights are complete
#ifdef SKELETON
        #pragma unroll
        for (int p = 0; p < K; ++p)
            #pragma unroll
            for (int q = 0; q < K; ++q)
                #pragma unroll
                for (int n = 0; n < MAPS; ++n)
                    sum[n] += tile[threadIdx.y + p][threadIdx.x + q] * weights[p * K + q][n];
#else
        if (h < Ho && w < Wo)                               // no output, no sum
            #pragma unroll
            for (int p = 0; p < K; ++p)
                #pragma unroll
                for (int q = 0; q < K; ++q)
                    #pragma unroll
                    for (int n = 0; n < MAPS; ++n)
                        sum[n] += tile[threadIdx.y + p][threadIdx.x + q] * weights[p * K + q][n];
#endif
        __syncthreads();                                    // all threads have read them: next channel
    }
    for (int n = 0; n < MAPS; ++n)
        if (h < Ho && w < Wo && m + n < M)                  // the last tiles extend beyond the map
            y[(n * Ho + h) * Wo + w] = sum[n];
}
