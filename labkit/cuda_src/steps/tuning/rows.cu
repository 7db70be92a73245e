// 07 rows: a thread computes ROWS outputs of a column of the map.
//
// Idea      In 03 every product loads an input and a mask element. In one column of the mask, ROWS outputs
//           of a column share ROWS + K - 1 inputs, and each mask element serves all of them. With
//           ROWS = 10 and K = 7 that makes 23 loads for 70 products, 0.33 per product, in 56 registers per
//           thread. 03 has two loads per product and 32 registers.
// Delta     from 03: ROWS sums; the loop over q is outside; a column of inputs in registers.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid (tiles of an output map, M, B), block (16, Y), Y <= 16 to fit the map: a tile is Y ROWS
//           rows of 16 outputs.
// Requires  ROWS <= Ho. M*C*K*K <= 16384: a device has 64 KB of constant memory. M and B <= 65535. Compiled
//           once for each K and ROWS.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    const int Ho = H - K + 1, Wo = W - K + 1;

    // The outputs of this thread. Neighbours in threadIdx.x are neighbours in w. The last thread of a column
    // moves up to fill its rows: it computes some of its neighbour's outputs again and does not store them.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int first = (blockIdx.x / tiles * blockDim.y + threadIdx.y) * ROWS;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int h = min(first, Ho - ROWS);
    const int m = blockIdx.y;
    const int b = blockIdx.z;
    if (first >= Ho || w >= Wo) return;                     // the last tiles extend beyond the map

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    float sum[ROWS] = {};
    for (int c = 0; c < C; ++c)
        #pragma unroll
        for (int q = 0; q < K; ++q) {
            float column[ROWS + K - 1];
            #pragma unroll
            for (int i = 0; i < ROWS + K - 1; ++i)
                column[i] = x[(c * H + h + i) * W + w + q];
            #pragma unroll
            for (int p = 0; p < K; ++p)
                #pragma unroll
                for (int r = 0; r < ROWS; ++r)
                    sum[r] += column[r + p] * mask[((m * C + c) * K + p) * K + q];
        }
    #pragma unroll
    for (int r = 0; r < ROWS; ++r)
        if (h + r >= first)                                 // rows above first are the neighbour's
            y[(h + r) * Wo + w] = sum[r];
}
