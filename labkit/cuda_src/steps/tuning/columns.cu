// 07 columns: the threads of a block count columns of outputs, across the map and then down.
//
// Idea      Tiles of 16 columns leave 14 of 48 lanes without an output on a map of 34 columns. Columns in one
//           sequence fill every block but the last: a third fewer loads per product on lenet86 layer 2, none
//           on layer 1, whose map of 80 columns has no such tail. threadIdx.y now counts groups of maps.
// Delta     from 07 masks: n counts columns of ROWS outputs; THREADS of them and GROUPS of maps in a block.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid (Wo * Ho / ROWS / THREADS, M / (MAPS GROUPS), B), quotients rounded up, block (THREADS,
//           GROUPS). Shared memory: 4 K K MAPS GROUPS bytes.
// Requires  ROWS <= Ho. M / (MAPS GROUPS) and B <= 65535. Compiled once for each K and choice of sizes.

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    const int Ho = H - K + 1, Wo = W - K + 1, Q = UNROLL;    // the loop over q unrolls by Q
    constexpr int TERMS = K * K;                            // of an input channel
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
    for (int c = 0; c < C; ++c, x += H * W) {
        __syncthreads();                                    // the previous masks are no longer read
        for (int i = threadIdx.y * THREADS + threadIdx.x; i < TERMS * GROUPS * MAPS; i += THREADS * GROUPS) {
            const int m = i / TERMS, t = i % TERMS;
            mask[t][m] = m0 + m < M ? k[((m0 + m) * C + c) * TERMS + t] : 0;
        }
        __syncthreads();                                    // the masks are complete
        #pragma unroll Q
        for (int q = 0; q < K && first < Ho; ++q) {
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
                        sum[m][r] += column[r + p] * mask[p * K + q][mine + m];
        }
    }
    #pragma unroll
    for (int m = 0; m < MAPS; ++m)
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
            if (m0 + mine + m < M && h + r >= first)        // rows above first are the neighbour's
                y[(m * Ho + r) * Wo] = sum[m][r];
}
