// 04 two channels: the tiles of two channels are loaded between two barriers.
//
// Wanted    Half the barriers, and twice the loads in flight, for twice the shared memory.
// Launch    As rung 04.
// Requires  M*C*K*K <= 16384.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    constexpr int SIDE = TILE + K - 1;                      // the tile with its halo
    __shared__ float tile[2][SIDE][SIDE];
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
    for (int c0 = 0; c0 < C; c0 += 2) {
        const int two = min(2, C - c0);                     // of an odd number of channels the last one is alone
        for (int c = 0; c < two; ++c)
            for (int i = 0; i < SIDE; i += TILE)
                for (int j = 0; j < SIDE; j += TILE)
                    if (threadIdx.y + i < SIDE && threadIdx.x + j < SIDE)
                        tile[c][threadIdx.y + i][threadIdx.x + j] =
                            h + i < H && w + j < W ? x[((c0 + c) * H + h + i) * W + w + j] : 0;
        __syncthreads();                                    // both tiles are complete
        for (int c = 0; c < two; ++c)
            #pragma unroll
            for (int p = 0; p < K; ++p)
                #pragma unroll
                for (int q = 0; q < K; ++q)
                    sum += tile[c][threadIdx.y + p][threadIdx.x + q] * mask[((m * C + c0 + c) * K + p) * K + q];
        __syncthreads();                                    // all threads have read them: next two
    }
    if (h < Ho && w < Wo)                                   // the last tiles extend beyond the map
        y[h * Wo + w] = sum;
}
