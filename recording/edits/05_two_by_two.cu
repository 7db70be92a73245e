// 05 two by two: a thread of the product computes 2 x 2 elements of y.
//
// Wanted    Two loads from each tile serve four products, not two loads one: half of the shared memory's traffic. A
//           block computes a tile of 2 TILE x 2 TILE, so TILE is 8 here.
// Launch    As rung 05, both kernels. Three of four blocks of gemm have nothing to do.

extern "C" __global__
void im2col(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ u,
            int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo;
    const int n = blockIdx.x * blockDim.x + threadIdx.x;    // the output pixel: a column of u
    const int c = blockIdx.y;
    const int b = blockIdx.z;
    if (n >= pixels) return;

    // From here on x is channel c of image b and u starts at that channel's first row.
    x += ((size_t)b * C + c) * H * W;
    u += ((size_t)b * C + c) * K * K * pixels;

    const int h = n / Wo, w = n % Wo;
    #pragma unroll
    for (int p = 0; p < K; ++p)
        #pragma unroll
        for (int q = 0; q < K; ++q)
            u[(p * K + q) * pixels + n] = x[(h + p) * W + w + q];
}

extern "C" __global__
void gemm(const float *__restrict__ u, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    __shared__ float k_tile[2 * TILE][TILE], u_tile[TILE][2 * TILE];
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo, depth = C * K * K;          // y [M,pixels] = k [M,depth] u [depth,pixels]
    const int n0 = blockIdx.x * 2 * TILE, m0 = blockIdx.y * 2 * TILE;
    const int b = blockIdx.z;
    if (n0 >= pixels || m0 >= M) return;                    // the whole block: another one does its work

    // From here on u and y are the matrices of image b.
    u += (size_t)b * depth * pixels;
    y += (size_t)b * M * pixels;

    float sum[2][2] = {};
    for (int step = 0; step < depth; step += TILE) {
        for (int r = 0; r < 2; ++r) {
            const int column = step + threadIdx.x, m = m0 + r * TILE + threadIdx.y;
            k_tile[r * TILE + threadIdx.y][threadIdx.x] = m < M && column < depth ? k[m * depth + column] : 0;
            const int row = step + threadIdx.y, n = n0 + r * TILE + threadIdx.x;
            u_tile[threadIdx.y][r * TILE + threadIdx.x] = row < depth && n < pixels ? u[row * pixels + n] : 0;
        }
        __syncthreads();                                    // both tiles are complete
        #pragma unroll
        for (int i = 0; i < TILE; ++i) {
            const float a0 = k_tile[threadIdx.y][i], a1 = k_tile[TILE + threadIdx.y][i];
            const float b0 = u_tile[i][threadIdx.x], b1 = u_tile[i][TILE + threadIdx.x];
            sum[0][0] += a0 * b0;
            sum[0][1] += a0 * b1;
            sum[1][0] += a1 * b0;
            sum[1][1] += a1 * b1;
        }
        __syncthreads();                                    // all threads have read them: next step
    }
    for (int r = 0; r < 2; ++r)
        for (int s = 0; s < 2; ++s) {
            const int m = m0 + r * TILE + threadIdx.y, n = n0 + s * TILE + threadIdx.x;
            if (m < M && n < pixels)
                y[m * pixels + n] = sum[r][s];
        }
}
