// 06 double buffer: the tiles of the next step are loaded before the present ones are multiplied.
//
// Wanted    To hide the latency of the loads behind the products, and one barrier per step, not two. Each tile exists
//           twice; with larger tiles of 32 x 32 that is 16 KB per block.
// Launch    As rung 06.

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    __shared__ float k_tile[2][TILE][TILE], u_tile[2][TILE][TILE];
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo, depth = C * K * K;          // y [M,pixels] = k [M,depth] u [depth,pixels]
    const int n = blockIdx.x * TILE + threadIdx.x;
    const int m = blockIdx.y * TILE + threadIdx.y;
    const int b = blockIdx.z;

    // From here on x is image b and y its output.
    x += (size_t)b * C * H * W;
    y += (size_t)b * M * pixels;

    const int h = n / Wo, w = n % Wo;
    const auto load = [&](int step, int into) {
        const int column = step + threadIdx.x;              // of k
        k_tile[into][threadIdx.y][threadIdx.x] = m < M && column < depth ? k[m * depth + column] : 0;
        const int row = step + threadIdx.y;                 // of u: element (c, p, q) of a window
        const int c = row / (K * K), p = row / K % K, q = row % K;
        u_tile[into][threadIdx.y][threadIdx.x] = row < depth && n < pixels ? x[(c * H + h + p) * W + w + q] : 0;
    };

    float sum = 0;
    load(0, 0);
    for (int step = 0, now = 0; step < depth; step += TILE, now = 1 - now) {
        __syncthreads();                                    // the tiles are complete, the other ones no longer read
        if (step + TILE < depth)
            load(step + TILE, 1 - now);
        #pragma unroll
        for (int i = 0; i < TILE; ++i)
            sum += k_tile[now][threadIdx.y][i] * u_tile[now][i][threadIdx.x];
    }
    if (m < M && n < pixels)
        y[m * pixels + n] = sum;
}
