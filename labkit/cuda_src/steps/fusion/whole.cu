// 06 whole: the mask and all rows of u are in shared memory at once.
//
// Idea      The product needs two barriers per step. With room for the whole depth there is one step, so one
//           barrier. The price is shared memory, and with it the blocks that fit on a multiprocessor.
// Delta     from 06: the tiles have DEPTH columns and rows instead of TILE; the loop over the steps is gone.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid (pixels / TILE, M / TILE, B), block (TILE, TILE). Shared memory: 8 TILE DEPTH bytes.
// Requires  M/TILE and B <= 65535; at most 48 KB of shared memory: with TILE = 16, a depth of 384. Compiled
//           once for each K, TILE and DEPTH = C*K*K.

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    __shared__ float k_tile[TILE][DEPTH], u_tile[DEPTH][TILE];
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo;                             // y [M,pixels] = k [M,DEPTH] u [DEPTH,pixels]
    const int n = blockIdx.x * TILE + threadIdx.x;
    const int m = blockIdx.y * TILE + threadIdx.y;
    const int b = blockIdx.z;

    // From here on x is image b and y its output.
    x += (size_t)b * C * H * W;
    y += (size_t)b * M * pixels;

    const int h = n / Wo, w = n % Wo;
    float sum = 0;
    for (int column = threadIdx.x; column < DEPTH; column += TILE)    // of k: all of them
        k_tile[threadIdx.y][column] = m < M ? k[m * DEPTH + column] : 0;
    for (int row = threadIdx.y; row < DEPTH; row += TILE) { // of u: element (c, p, q) of a window
        const int c = row / (K * K), p = row / K % K, q = row % K;
        u_tile[row][threadIdx.x] = n < pixels ? x[(c * H + h + p) * W + w + q] : 0;
    }
    __syncthreads();                                        // both tiles are complete: the only barrier
    #pragma unroll 16
    for (int i = 0; i < DEPTH; ++i)
        sum += k_tile[threadIdx.y][i] * u_tile[i][threadIdx.x];
    if (m < M && n < pixels)
        y[m * pixels + n] = sum;
}
