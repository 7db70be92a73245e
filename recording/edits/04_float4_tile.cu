// 04 float4 tile: the tile is loaded four inputs at a time.
//
// Wanted    A quarter of the load instructions, and of the stores to shared memory. A row of the tile is filled up to a
//           multiple of four words, so that each float4 is aligned.
// Launch    As rung 04.
// Requires  W and TILE multiples of 4, x aligned to 16 bytes; M*C*K*K <= 16384.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    constexpr int SIDE = TILE + K - 1, FOURS = (SIDE + 3) / 4;    // the tile with its halo: rows of FOURS float4
    __shared__ __align__(16) float tile[SIDE][4 * FOURS];
    const int Ho = H - K + 1, Wo = W - K + 1;

    // The output of this thread. Neighbours in threadIdx.x are neighbours in w and in memory.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int h = blockIdx.x / tiles * blockDim.y + threadIdx.y;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int m = blockIdx.y;
    const int b = blockIdx.z;
    const int h0 = h - threadIdx.y, w0 = w - threadIdx.x;   // the tile's first input

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    float sum = 0;
    for (int c = 0; c < C; ++c) {
        for (int i = threadIdx.y * TILE + threadIdx.x; i < SIDE * FOURS; i += TILE * TILE) {
            const int row = i / FOURS, column = i % FOURS * 4;
            float4 four = make_float4(0, 0, 0, 0);
            if (h0 + row < H && w0 + column < W)            // W is a multiple of 4: all four, or none
                four = *(const float4 *)&x[(c * H + h0 + row) * W + w0 + column];
            *(float4 *)&tile[row][column] = four;
        }
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
