// 06 constant mask: the mask comes from constant memory, as in rung 02, and only u has a tile.
//
// Wanted    One load from shared memory per product, not two. But in a block of 16 x 16 a warp has two values of
//           threadIdx.y, so it reads the masks of two maps at a time.
// Launch    As rung 06.
// Requires  M*C*K*K <= 16384.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    __shared__ float u_tile[TILE][TILE];
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo, depth = C * K * K;          // y [M,pixels] = k [M,depth] u [depth,pixels]
    const int n = blockIdx.x * TILE + threadIdx.x;
    const int m = blockIdx.y * TILE + threadIdx.y;
    const int b = blockIdx.z;

    // From here on x is image b and y its output.
    x += (size_t)b * C * H * W;
    y += (size_t)b * M * pixels;

    const int h = n / Wo, w = n % Wo;
    const float *weights = mask + min(m, M - 1) * depth;    // a thread without an output reads the last map's
    float sum = 0;
    for (int step = 0; step < depth; step += TILE) {
        const int row = step + threadIdx.y;                 // of u: element (c, p, q) of a window
        const int c = row / (K * K), p = row / K % K, q = row % K;
        u_tile[threadIdx.y][threadIdx.x] = row < depth && n < pixels ? x[(c * H + h + p) * W + w + q] : 0;
        __syncthreads();                                    // the tile is complete
        #pragma unroll
        for (int i = 0; i < TILE; ++i)                      // beyond depth u_tile is 0; the last weight serves
            sum += weights[min(step + i, depth - 1)] * u_tile[i][threadIdx.x];
        __syncthreads();                                    // all threads have read it: next step
    }
    if (m < M && n < pixels)
        y[m * pixels + n] = sum;
}
