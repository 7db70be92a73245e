// 06b two pixels: a thread sums two outputs, and loads an element of the mask once for both.
//
// Of 06. A block computes a tile of TILE x 2 TILE; the launch is that of the rung, so every second block has
// nothing to do.

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
#ifdef SKELETON
    __shared__ float k_tile[TILE][TILE], u_tile[TILE][TILE];
#else
    __shared__ float k_tile[TILE][TILE], u_tile[TILE][2 * TILE];
#endif
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo, depth = C * K * K;          // y [M,pixels] = k [M,depth] u [depth,pixels]
#ifdef SKELETON
    const int n = blockIdx.x * TILE + threadIdx.x;
#else
    const int n = blockIdx.x * 2 * TILE + threadIdx.x;      // first pixel; the second is TILE columns later
#endif
    const int m = blockIdx.y * TILE + threadIdx.y;
    const int b = blockIdx.z;
#ifdef SKELETON
#else
    if (blockIdx.x * 2 * TILE >= pixels) return;            // the whole block: another block does its work
#endif

    // From here on x is image b and y its output.
    x += (size_t)b * C * H * W;
    y += (size_t)b * M * pixels;

#ifdef SKELETON
    const int h = n / Wo, w = n % Wo;
    float sum = 0;
#else
    float sum[2] = {};
#endif
    for (int step = 0; step < depth; step += TILE) {
        const int column = step + threadIdx.x;              // of k
        k_tile[threadIdx.y][threadIdx.x] = m < M && column < depth ? k[m * depth + column] : 0;
        const int row = step + threadIdx.y;                 // of u: element (c, p, q) of a window
        const int c = row / (K * K), p = row / K % K, q = row % K;
#ifdef SKELETON
        u_tile[threadIdx.y][threadIdx.x] = row < depth && n < pixels ? x[(c * H + h + p) * W + w + q] : 0;
#else
        for (int j = 0; j < 2; ++j) {
            const int pixel = n + j * TILE, h = pixel / Wo, w = pixel % Wo;
            u_tile[threadIdx.y][threadIdx.x + j * TILE] =
                row < depth && pixel < pixels ? x[(c * H + h + p) * W + w + q] : 0;
        }
#endif
        __syncthreads();                                    // both tiles are complete
        #pragma unroll
#ifdef SKELETON
        for (int i = 0; i < TILE; ++i)
            sum += k_tile[threadIdx.y][i] * u_tile[i][threadIdx.x];
#else
        for (int i = 0; i < TILE; ++i) {
            const float weight = k_tile[threadIdx.y][i];    // loaded once, used twice
            sum[0] += weight * u_tile[i][threadIdx.x];
            sum[1] += weight * u_tile[i][threadIdx.x + TILE];
        }
#endif
        __syncthreads();                                    // all threads have read them: next step
    }
#ifdef SKELETON
    if (m < M && n < pixels)
        y[m * pixels + n] = sum;
}
#else
    for (int j = 0; j < 2; ++j)
        if (m < M && n + j * TILE < pixels)
            y[m * pixels + n + j * TILE] = sum[j];
}
#endif
