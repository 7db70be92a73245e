// 07 maps: a thread computes its rows in MAPS maps.
//
// Idea      All maps need the same inputs. A column in registers serves MAPS x ROWS x K products: with 10
//           rows in 4 maps, 44 loads for 280 products, 0.16 per product, in 96 registers per thread. 28 of
//           the 44 load mask elements. UNROLL limits the code, which grows with MAPS.
// Delta     from 07 rows: MAPS x ROWS sums; where M is no multiple of MAPS, the last maps are not stored.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid (tiles of an output map, M / MAPS, B), quotients rounded up, block (16, Y), Y <= 16 to fit
//           the map: a tile is Y ROWS rows of 16 outputs.
// Requires  ROWS <= Ho. M*C*K*K <= 16384: a device has 64 KB of constant memory. M / MAPS and B <= 65535.
//           Compiled once for each K and choice of sizes.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    const int Ho = H - K + 1, Wo = W - K + 1, Q = UNROLL;    // the loop over q unrolls by Q

    // The outputs of this thread. Neighbours in threadIdx.x are neighbours in w. The last thread of a column
    // moves up to fill its rows: it computes some of its neighbour's outputs again and does not store them.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int first = (blockIdx.x / tiles * blockDim.y + threadIdx.y) * ROWS;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int h = min(first, Ho - ROWS);
    const int m0 = blockIdx.y * MAPS;                       // the thread's first map
    const int b = blockIdx.z;
    if (first >= Ho || w >= Wo) return;                     // the last tiles extend beyond the map

    // From here on x and y point at the thread's first input and output.
    x += (size_t)b * C * H * W + h * W + w;
    y += (((size_t)b * M + m0) * Ho + h) * Wo + w;

    float sum[MAPS][ROWS] = {};
    for (int c = 0; c < C; ++c, x += H * W)
        #pragma unroll Q
        for (int q = 0; q < K; ++q) {
            float column[ROWS + K - 1];
            #pragma unroll
            for (int i = 0; i < ROWS + K - 1; ++i)
                column[i] = x[i * W + q];
            #pragma unroll
            for (int p = 0; p < K; ++p)
                #pragma unroll
                for (int m = 0; m < MAPS; ++m)
                    #pragma unroll
                    for (int r = 0; r < ROWS; ++r)
                        sum[m][r] += column[r + p] * mask[((min(m0 + m, M - 1) * C + c) * K + p) * K + q];
        }
    #pragma unroll
    for (int m = 0; m < MAPS; ++m)
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
            if (m0 + m < M && h + r >= first)               // rows above first are the neighbour's
                y[(m * Ho + r) * Wo] = sum[m][r];
}
