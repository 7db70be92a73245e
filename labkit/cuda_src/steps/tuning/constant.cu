// 07 constant: the masks in constant memory.
//
// Idea      Constant memory serves a warp whose lanes read the same address, as here. But each load reads one
//           mask element, where a load from shared memory reads up to four.
// Delta     from 07: the masks in constant memory, as in 02 to 04; no shared memory, no barrier.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid (Wo * Ho / ROWS / THREADS, M / (MAPS GROUPS), B), quotients rounded up, block (THREADS,
//           GROUPS).
// Requires  ROWS <= Ho. M / (MAPS GROUPS) and B <= 65535. M*C*K*K <= 16384: a device has 64 KB of
//           constant memory. Compiled once for each layer and choice of sizes.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int, int, int M, int)
{
    constexpr int K = FIXED_K, H = FIXED_H, W = FIXED_W;    // the missing arguments, known to the compiler
    constexpr int Ho = H - K + 1, Wo = W - K + 1, Q = UNROLL;    // the loop over q unrolls by Q

    // The outputs of this thread. Neighbours in threadIdx.x are neighbours in w. The last thread of a column
    // moves up to fill its rows: it computes some of its neighbour's outputs again and does not store them.
    const int n = blockIdx.x * THREADS + threadIdx.x;
    const int first = n / Wo * ROWS, w = n % Wo;
    const int h = min(first, Ho - ROWS);
    const int m0 = (blockIdx.y * GROUPS + threadIdx.y) * MAPS;      // the thread's first map
    const int b = blockIdx.z;

    // From here on x and y point at the thread's first input and output.
    x += (size_t)b * C * H * W + h * W + w;
    y += (((size_t)b * M + m0) * Ho + h) * Wo + w;

    float sum[MAPS][ROWS] = {};
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
    #pragma unroll
    for (int m = 0; m < MAPS; ++m)
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
            if (m0 + m < M && h + r >= first)               // rows above first are the neighbour's
                y[(m * Ho + r) * Wo] = sum[m][r];
}
