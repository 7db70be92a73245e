// 04 halo from global: the tile is as large as the block; the halo is read from global memory where it is needed.
//
// Wanted    One load per thread and no index arithmetic for the halo, since the neighbouring blocks keep it in the
//           cache anyway. But each product now asks whether its input is in the tile.
// Launch    As rung 04.
// Requires  M*C*K*K <= 16384.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    __shared__ float tile[TILE][TILE];
    const int Ho = H - K + 1, Wo = W - K + 1;

    // The output of this thread. Neighbours in threadIdx.x are neighbours in w and in memory.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int h = blockIdx.x / tiles * blockDim.y + threadIdx.y;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int m = blockIdx.y;
    const int b = blockIdx.z;

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    float sum = 0;
    for (int c = 0; c < C; ++c) {
        tile[threadIdx.y][threadIdx.x] = h < H && w < W ? x[(c * H + h) * W + w] : 0;
        __syncthreads();                                    // the tile is complete
        if (h < Ho && w < Wo)                               // another thread has no window
            #pragma unroll
            for (int p = 0; p < K; ++p)
                #pragma unroll
                for (int q = 0; q < K; ++q) {
                    const bool inside = threadIdx.y + p < TILE && threadIdx.x + q < TILE;
                    const float input = inside ? tile[threadIdx.y + p][threadIdx.x + q]
                                               : x[(c * H + h + p) * W + w + q];
                    sum += input * mask[((m * C + c) * K + p) * K + q];
                }
        __syncthreads();                                    // all threads have read it: next channel
    }
    if (h < Ho && w < Wo)                                   // the last tiles extend beyond the map
        y[h * Wo + w] = sum;
}
