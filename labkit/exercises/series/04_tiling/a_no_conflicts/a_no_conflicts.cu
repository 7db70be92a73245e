// 04a no conflicts: rows of the tile lie TILE + 32 words apart.
//
// At tile 16 a warp covers two rows of outputs. With rows SIDE = 22 words apart, the second row's banks 22
// to 37 overlap the first row's 0 to 15, modulo 32. If rows lie TILE words apart, modulo 32, then thread
// number n of the block reads bank n, plus a constant: 32 consecutive threads use 32 banks, whatever
// TILE is. TILE + 32 is such a distance and has room for the halo of any K up to 33. It costs shared
// memory: 22 x 48 words, not 22 x 22.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    constexpr int SIDE = TILE + K - 1;                      // the tile with its halo
#ifdef SKELETON
    __shared__ float tile[SIDE][SIDE];
#else
    __shared__ float tile[SIDE][TILE + 32];                 // bank of a thread: its number, modulo 32
#endif
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
