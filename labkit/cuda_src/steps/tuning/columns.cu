// 07 columns: x
//
// Idea      x
// Delta     x
// Shapes    x
// Launch    x
// Requires  x

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    const int Ho = H - K + 1, Wo = W - K + 1, Q = UNROLL;    // the loop over q unrolls by Q
    constexpr int TERMS = K * K;                            // of an input channel
    __shared__ __align__(16) float mask[TERMS][GROUPS * MAPS];

    // Which outputs are mine? Neighbours in threadIdx.x are neighbours in w. Where the last rows do not
    // fill a thread, it moves up and computes some of its neighbour's again.
    const int n = blockIdx.x * THREADS + threadIdx.x;
    const int first = n / Wo * ROWS, w = n % Wo;
    const int h = min(first, Ho - ROWS);
    const int m0 = blockIdx.y * GROUPS * MAPS;              // the block's first map
    const int mine = threadIdx.y * MAPS;                    // and mine, counted from it
    const int b = blockIdx.z;

    // From here on x and y point at my first input and output.
    x += (size_t)b * C * H * W + h * W + w;
    y += (((size_t)b * M + m0 + mine) * Ho + h) * Wo + w;

    float sum[MAPS][ROWS] = {};
    for (int c = 0; c < C; ++c, x += H * W) {
        __syncthreads();                                    // nobody reads the masks of the channel before
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
            if (m0 + mine + m < M && h + r >= first)        // the neighbour stores its own
                y[(m * Ho + r) * Wo] = sum[m][r];
}
