// 04 maps: the block computes MAPS output maps from each tile that it has loaded.
//
// Idea      In 04 the M blocks at one position load the same tile M times. Here each thread keeps MAPS sums
//           and loads it once for all of them. And an input read from shared memory serves MAPS products.
// Delta     from 04: blockIdx.y counts groups of MAPS maps; sum is an array. Maps beyond M repeat the last
//           one's mask, and are not stored.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid (tiles of an output map, groups of MAPS maps, B), block (TILE, TILE). Shared memory, in
//           bytes: 4 (TILE+K-1)^2.
// Requires  M*C*K*K <= 16384: a device has 64 KB of constant memory. M and B <= 65535. Compiled once for
//           each K, TILE and MAPS.

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
    const int m = blockIdx.y * MAPS;                        // the first of this thread's maps
    const int b = blockIdx.z;

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    float sum[MAPS] = {};
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
                #pragma unroll
                for (int n = 0; n < MAPS; ++n)
                    sum[n] += tile[threadIdx.y + p][threadIdx.x + q]
                              * mask[((min(m + n, M - 1) * C + c) * K + p) * K + q];
        __syncthreads();                                    // all threads have read it: next channel
    }
    for (int n = 0; n < MAPS; ++n)
        if (h < Ho && w < Wo && m + n < M)                  // the last tiles extend beyond the map
            y[(n * Ho + h) * Wo + w] = sum[n];
}
