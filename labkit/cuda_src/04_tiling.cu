// 04 tiling: the block loads its inputs once, into shared memory.
//
// Idea      A tile of TILE x TILE outputs needs (TILE+K-1) x (TILE+K-1) inputs of a channel: the tile and its
//           halo. Load them once from global memory, then read each of them up to K*K times from shared
//           memory.
// Delta     from 03: per channel the block fills `tile`, waits, and sums from it. All threads have to reach
//           the barriers, so the guard moves from the top to the store.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid (tiles of an output map, M, B), block (TILE, TILE). Shared memory: 4 (TILE+K-1)^2 bytes.
// Requires  M*C*K*K <= 16384: a device has 64 KB of constant memory. M and B <= 65535. Compiled once for each
//           K and TILE.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    constexpr int SIDE = TILE + K - 1;                      // the tile with its halo
    __shared__ float tile[SIDE][SIDE];
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
        // The tile is wider than the block: each thread loads its own input and those TILE apart.
        for (int i = 0; i < SIDE; i += TILE)
            for (int j = 0; j < SIDE; j += TILE)
                if (threadIdx.y + i < SIDE && threadIdx.x + j < SIDE)
                    tile[threadIdx.y + i][threadIdx.x + j] =
                        h + i < H && w + j < W ? x[(c * H + h + i) * W + w + j] : 0;
        __syncthreads();                                    // the tile is complete
        #pragma unroll
        for (int p = 0; p < K; ++p)
            #pragma unroll
            for (int q = 0; q < K; ++q)
                sum += tile[threadIdx.y + p][threadIdx.x + q] * mask[((m * C + c) * K + p) * K + q];
        __syncthreads();                                    // all threads have read it: next channel
    }
    if (h < Ho && w < Wo)                                   // the last tiles extend beyond the map
        y[h * Wo + w] = sum;
}
