// 09 row: a lane decodes its row of u once per step.
//
// Idea      All elements of a row of u have one (c, p, q). A lane that fills a part of one row decodes it
//           once and uses it for every pixel of its part. The pixels are still decoded one by one.
// Delta     from 09 plain: the lanes are 16 rows and two parts of the pixels, not one row of 32 elements.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float16, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid (pixels / (WARPS WN), M / WM, B), block (32, WARPS).
//           Shared memory: 32 WM + WARPS (32 WN + 4 WM WN) bytes. WM x WN is 16 x 16, 8 x 32 or 32 x 8.
// Requires  M/WM and B <= 65535; |y| < 65504, the largest half; compute capability 7.0. Compiled once for
//           each K.

#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

extern "C" __global__
void conv(const half *__restrict__ x, const half *__restrict__ k, half *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    constexpr int DEPTH = 16;                               // of one WMMA
    __shared__ __align__(32) half k_tile[WM][DEPTH];        // WMMA loads and stores at 32-byte boundaries
    __shared__ __align__(32) half u_tile[WARPS][DEPTH][WN];
    __shared__ __align__(32) float y_tile[WARPS][WM][WN];
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo, depth = C * K * K;          // y [M,pixels] = k [M,depth] u [depth,pixels]
    const int lane = threadIdx.x, warp = threadIdx.y;
    const int n0 = (blockIdx.x * WARPS + warp) * WN;        // the warp's first pixel
    const int m0 = blockIdx.y * WM;
    const int b = blockIdx.z;

    // From here on x is image b and y its output.
    x += (size_t)b * C * H * W;
    y += (size_t)b * M * pixels;

    const half zero = __float2half(0);
    wmma::fragment<wmma::matrix_a, WM, WN, DEPTH, half, wmma::row_major> k_fragment;
    wmma::fragment<wmma::matrix_b, WM, WN, DEPTH, half, wmma::row_major> u_fragment;
    wmma::fragment<wmma::accumulator, WM, WN, DEPTH, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int step = 0; step < depth; step += DEPTH) {
        #pragma unroll
        for (int j = 0; j < WM * DEPTH; j += WARPS * 32) {
            const int i = j + warp * 32 + lane, m = m0 + i / DEPTH, column = step + i % DEPTH;
            if (i < WM * DEPTH)
                k_tile[i / DEPTH][i % DEPTH] = m < M && column < depth ? k[m * depth + column] : zero;
        }
        const int row = step + lane % DEPTH;                // of u: element (c, p, q) of every window
        const int c = row / (K * K), p = row / K % K, q = row % K;
        for (int i = lane / DEPTH; i < WN; i += 32 / DEPTH) {
            const int n = n0 + i, h = n / Wo, w = n % Wo;
            u_tile[warp][lane % DEPTH][i] =
                row < depth && n < pixels ? x[(c * H + h + p) * W + w + q] : zero;
        }
        __syncthreads();                                    // both tiles are complete
        wmma::load_matrix_sync(k_fragment, &k_tile[0][0], DEPTH);
        wmma::load_matrix_sync(u_fragment, &u_tile[warp][0][0], WN);
        wmma::mma_sync(sum, k_fragment, u_fragment, sum);
        __syncthreads();                                    // all threads have read them: next step
    }
    // Which lane holds which element of a fragment is not documented: go through shared memory.
    wmma::store_matrix_sync(&y_tile[warp][0][0], sum, WN, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < WM * WN; i += 32) {
        const int m = m0 + i / WN, n = n0 + i % WN;
        if (m < M && n < pixels)
            y[m * pixels + n] = __float2half(y_tile[warp][i / WN][i % WN]);
    }
}
