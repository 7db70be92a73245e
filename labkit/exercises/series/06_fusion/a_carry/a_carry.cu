// 06a carry: no division in the loop.
//
// Of 06. From step to step the row grows by TILE, a constant: (c, p, q) are digits of the row to the bases
// K*K, K and 1, and adding a constant to digits takes additions and carries.

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    __shared__ float k_tile[TILE][TILE], u_tile[TILE][TILE];
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo, depth = C * K * K;          // y [M,pixels] = k [M,depth] u [depth,pixels]
    const int n = blockIdx.x * TILE + threadIdx.x;
    const int m = blockIdx.y * TILE + threadIdx.y;
    const int b = blockIdx.z;

    // From here on x is image b and y its output.
    x += (size_t)b * C * H * W;
    y += (size_t)b * M * pixels;

    const int h = n / Wo, w = n % Wo;
#ifdef SKELETON
#else
    constexpr int DC = TILE / (K * K), DP = TILE / K % K, DQ = TILE % K;    // TILE rows of u later
    int c = threadIdx.y / (K * K), p = threadIdx.y / K % K, q = threadIdx.y % K;
#endif
    float sum = 0;
    for (int step = 0; step < depth; step += TILE) {
        const int column = step + threadIdx.x;              // of k
        k_tile[threadIdx.y][threadIdx.x] = m < M && column < depth ? k[m * depth + column] : 0;
        const int row = step + threadIdx.y;                 // of u: element (c, p, q) of a window
#ifdef SKELETON
        const int c = row / (K * K), p = row / K % K, q = row % K;
#endif
        u_tile[threadIdx.y][threadIdx.x] = row < depth && n < pixels ? x[(c * H + h + p) * W + w + q] : 0;
        __syncthreads();                                    // both tiles are complete
        #pragma unroll
        for (int i = 0; i < TILE; ++i)
            sum += k_tile[threadIdx.y][i] * u_tile[i][threadIdx.x];
        __syncthreads();                                    // all threads have read them: next step
#ifdef SKELETON
#else
        q += DQ;
        p += DP + (q >= K);                                 // carry, as in written addition
        c += DC + (p >= K);
        q -= q >= K ? K : 0;
        p -= p >= K ? K : 0;
#endif
    }
    if (m < M && n < pixels)
        y[m * pixels + n] = sum;
}
