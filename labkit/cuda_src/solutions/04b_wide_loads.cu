// 04b wide loads: four inputs of a row in one instruction.
//
// A 16-byte load needs an address that is a multiple of 16. Rows of the image begin at multiples of 4 W
// bytes, tiles at multiples of TILE columns: so W and TILE have to be multiples of 4, else the tile is
// loaded as in 04. Then no four inputs straddle the end of a row, either. The threads of the block share
// out the tile's groups of four.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    constexpr int SIDE = TILE + K - 1;                      // the tile with its halo
    constexpr int FOURS = (SIDE + 3) / 4;                   // of a row of the tile
    __shared__ __align__(16) float tile[SIDE][4 * FOURS];
    const int Ho = H - K + 1, Wo = W - K + 1;

    // Which output is mine? Neighbours in threadIdx.x are neighbours in w, and so in memory.
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
        if (W % 4 == 0 && TILE % 4 == 0)
            for (int n = threadIdx.y * TILE + threadIdx.x; n < SIDE * FOURS; n += TILE * TILE) {
                const int i = n / FOURS, j = n % FOURS * 4;
                const int row = h - threadIdx.y + i, column = w - threadIdx.x + j;
                float4 four = {0, 0, 0, 0};
                if (row < H && column < W) four = *(const float4 *)&x[(c * H + row) * W + column];
                *(float4 *)&tile[i][j] = four;
            }
        else for (int i = threadIdx.y; i < SIDE; i += TILE)
            for (int j = threadIdx.x; j < SIDE; j += TILE) {
                const int row = h - threadIdx.y + i, column = w - threadIdx.x + j;
                tile[i][j] = row < H && column < W ? x[(c * H + row) * W + column] : 0;
            }
        __syncthreads();                                    // the tile is complete
        #pragma unroll
        for (int p = 0; p < K; ++p)
            #pragma unroll
            for (int q = 0; q < K; ++q)
                sum += tile[threadIdx.y + p][threadIdx.x + q] * mask[((m * C + c) * K + p) * K + q];
        __syncthreads();                                    // nobody reads it any more: next channel
    }
    if (h < Ho && w < Wo)                                   // the last tiles stick out of the map
        y[h * Wo + w] = sum;
}
