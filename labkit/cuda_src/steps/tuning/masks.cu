// 07 masks: the masks in shared memory, with the MAPS elements that a thread needs together side by side.
//
// Idea      In 07 maps most loads are loads of one mask element. Elements side by side in shared memory need
//           one load for up to four: 23 loads for 280 products with 10 rows in 4 maps, 0.08 per product, not
//           0.16. Constant memory has a small cache; shared memory has all masks of the channel.
// Delta     from 07 maps: the masks of one channel in shared memory; two barriers per channel, so threads
//           without an output may not return early.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid (tiles of an output map, M / MAPS, B), quotients rounded up, block (16, Y), Y <= 16 to fit
//           the map: a tile is Y ROWS rows of 16 outputs. Shared memory: 4 K K MAPS bytes.
// Requires  ROWS <= Ho. M / MAPS and B <= 65535. Compiled once for each K and choice of sizes.

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    const int Ho = H - K + 1, Wo = W - K + 1, Q = UNROLL;    // the loop over q unrolls by Q
    constexpr int TERMS = K * K;                            // of an input channel
    __shared__ __align__(16) float mask[TERMS][MAPS];

    // The outputs of this thread. Neighbours in threadIdx.x are neighbours in w. The last thread of a column
    // moves up to fill its rows: it computes some of its neighbour's outputs again and does not store them.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int first = (blockIdx.x / tiles * blockDim.y + threadIdx.y) * ROWS;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int h = min(first, Ho - ROWS);
    const int m0 = blockIdx.y * MAPS;                       // the thread's first map
    const int b = blockIdx.z;
    const bool inside = first < Ho && w < Wo;               // the last tiles extend beyond the map

    // From here on x and y point at the thread's first input and output.
    x += (size_t)b * C * H * W + h * W + w;
    y += (((size_t)b * M + m0) * Ho + h) * Wo + w;

    float sum[MAPS][ROWS] = {};
    for (int c = 0; c < C; ++c, x += H * W) {
        __syncthreads();                                    // the previous masks are no longer read
        for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < TERMS * MAPS; i += blockDim.x * blockDim.y) {
            const int m = i / TERMS, t = i % TERMS;
            mask[t][m] = m0 + m < M ? k[((m0 + m) * C + c) * TERMS + t] : 0;
        }
        __syncthreads();                                    // the masks are complete
        #pragma unroll Q
        for (int q = 0; q < K && inside; ++q) {
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
                        sum[m][r] += column[r + p] * mask[p * K + q][m];
        }
    }
    #pragma unroll
    for (int m = 0; m < MAPS; ++m)
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
            if (inside && m0 + m < M && h + r >= first)     // rows above first are the neighbour's
                y[(m * Ho + r) * Wo] = sum[m][r];
}
