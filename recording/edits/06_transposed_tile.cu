// 06 transposed tile: the tile of u has a row per pixel.
//
// Wanted    Both tiles are read along their rows, k_tile[y][i] and u_tile[x][i], as a dot product is written. Lanes of
//           a warp are TILE words apart in u_tile.
// Launch    As rung 06.

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    __shared__ float k_tile[TILE][TILE], u_tile[TILE][TILE];    // u_tile: [pixel][row of u]
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo, depth = C * K * K;          // y [M,pixels] = k [M,depth] u [depth,pixels]
    const int n = blockIdx.x * TILE + threadIdx.x;
    const int m = blockIdx.y * TILE + threadIdx.y;
    const int b = blockIdx.z;

    // From here on x is image b and y its output.
    x += (size_t)b * C * H * W;
    y += (size_t)b * M * pixels;

    const int h = n / Wo, w = n % Wo;
    float sum = 0;
    for (int step = 0; step < depth; step += TILE) {
        const int column = step + threadIdx.x;              // of k
        k_tile[threadIdx.y][threadIdx.x] = m < M && column < depth ? k[m * depth + column] : 0;
        const int row = step + threadIdx.y;                 // of u: element (c, p, q) of a window
        const int c = row / (K * K), p = row / K % K, q = row % K;
        u_tile[threadIdx.x][threadIdx.y] = row < depth && n < pixels ? x[(c * H + h + p) * W + w + q] : 0;
        __syncthreads();                                    // both tiles are complete
        #pragma unroll
        for (int i = 0; i < TILE; ++i)
            sum += k_tile[threadIdx.y][i] * u_tile[threadIdx.x][i];
        __syncthreads();                                    // all threads have read them: next step
    }
    if (m < M && n < pixels)
        y[m * pixels + n] = sum;
}
