// 07 shared: the inputs in shared memory, as in 04.
//
// Idea      Once per channel, a block copies all columns of the rows that it needs. They are contiguous in
//           memory. The threads then read their columns from shared memory.
// Delta     from 07: the tile of whole rows, its copy and two barriers per channel.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid (Wo * Ho / ROWS / THREADS, M / (MAPS GROUPS), B), quotients rounded up, block (THREADS,
//           GROUPS). Shared memory: 4 CHANNELS K K MAPS GROUPS bytes, and 4 W per row of the tile.
// Requires  ROWS <= Ho. M / (MAPS GROUPS) and B <= 65535. Compiled once for each layer and choice of sizes.

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int, int, int M, int)
{
    constexpr int K = FIXED_K, H = FIXED_H, W = FIXED_W;    // the missing arguments, known to the compiler
    constexpr int Ho = H - K + 1, Wo = W - K + 1, Q = UNROLL;    // the loop over q unrolls by Q
    constexpr int TERMS = CHANNELS * K * K;                 // of CHANNELS input channels
    constexpr int SPAN = (THREADS + Wo - 2) / Wo * ROWS + ROWS + K - 1;
    constexpr int DEEP = SPAN < H ? SPAN : H;               // the most rows that a block needs
    __shared__ float tile[DEEP * W];                        // whole rows: contiguous in memory
    __shared__ __align__(16) float mask[TERMS][GROUPS * MAPS];

    // The outputs of this thread. Neighbours in threadIdx.x are neighbours in w. The last thread of a column
    // moves up to fill its rows: it computes some of its neighbour's outputs again and does not store them.
    const int n = blockIdx.x * THREADS + threadIdx.x;
    const int first = n / Wo * ROWS, w = n % Wo;
    const int h = min(first, Ho - ROWS);
    const int m0 = blockIdx.y * GROUPS * MAPS;              // the block's first map
    const int mine = threadIdx.y * MAPS;                    // the thread's first map, counted from m0
    const int b = blockIdx.z;

    const int top = min(int(blockIdx.x) * THREADS / Wo * ROWS, H - DEEP);    // the block's first row

    // From here on x points at the block's first input, y at the thread's first output.
    x += ((size_t)b * C * H + top) * W;
    y += (((size_t)b * M + m0 + mine) * Ho + h) * Wo + w;

    float sum[MAPS][ROWS] = {};
    for (int c0 = 0; c0 < C; c0 += CHANNELS) {
        __syncthreads();                                    // the previous masks are no longer read
        for (int i = threadIdx.y * THREADS + threadIdx.x; i < TERMS * GROUPS * MAPS; i += THREADS * GROUPS) {
            const int m = i / TERMS, t = i % TERMS;
            mask[t][m] = m0 + m < M && c0 * K * K + t < C * K * K ? k[((m0 + m) * C + c0) * K * K + t] : 0;
        }
        __syncthreads();                                    // the masks are complete
        for (int c = 0; c < CHANNELS && c0 + c < C; ++c, x += H * W) {
            __syncthreads();                                // the previous channel is no longer read
            for (int j = 0; j < DEEP * W; j += THREADS * GROUPS) {    // the same rounds for all threads
                const int i = j + threadIdx.y * THREADS + threadIdx.x;
                if (i < DEEP * W)
                    tile[i] = x[i];
            }
            __syncthreads();                                // the channel is complete
            #pragma unroll Q
            for (int q = 0; q < K && first < Ho; ++q) {
                float column[ROWS + K - 1];
                #pragma unroll
                for (int i = 0; i < ROWS + K - 1; ++i)
                    column[i] = tile[(h - top + i) * W + w + q];
                #pragma unroll
                for (int p = 0; p < K; ++p)
                    #pragma unroll
                    for (int m = 0; m < MAPS; ++m)
                        #pragma unroll
                        for (int r = 0; r < ROWS; ++r)
                            sum[m][r] += column[r + p] * mask[(c * K + p) * K + q][mine + m];
            }
        }
    }
    #pragma unroll
    for (int m = 0; m < MAPS; ++m)
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
            if (m0 + mine + m < M && h + r >= first)        // rows above first are the neighbour's
                y[(m * Ho + r) * Wo] = sum[m][r];
}
