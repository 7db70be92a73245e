// 09a no conflicts: the rows of a warp's tile of u begin in different banks.
//
// load_matrix_sync reads eight rows of 16 bytes at a time. Rows of 16 halves lie 8 banks apart, so rows
// 0 and 4 conflict; 8 halves more make it 12 banks, without conflicts. 32 halves need 8 more, 8 halves none:
// WN | 8. The stride stays a multiple of 16 bytes, as WMMA asks.

#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

extern "C" __global__
void conv(const half *__restrict__ x, const half *__restrict__ k, half *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    constexpr int DEPTH = 16;                               // of one WMMA
    constexpr int LINES = 32 / WN;                          // rows of u_tile that a warp fills at a time
    __shared__ __align__(32) half k_tile[WM][ROWS + 8];     // 8 more: the rows begin in different banks
#ifdef SKELETON
    __shared__ __align__(32) half u_tile[WARPS][DEPTH][WN]; // WMMA loads and stores at 32-byte boundaries
#else
    __shared__ __align__(32) half u_tile[WARPS][DEPTH][WN | 8]; // WMMA loads at 32-byte boundaries
#endif
    __shared__ __align__(32) float y_tile[WARPS][WM][WN];
    __shared__ __align__(16) unsigned offset[LINES][ROWS / LINES + 4]; // bytes; row LINES j + i of u: [i][j]
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo, depth = C * K * K;          // y [M,pixels] = k [M,depth] u [depth,pixels]
    const int lane = threadIdx.x, warp = threadIdx.y;
    const int m0 = blockIdx.y * WM;
    const int b = blockIdx.z;

    // From here on x is image b and y its output.
    x += (size_t)b * C * H * W;
    y += (size_t)b * M * pixels;

    // Once for all pixels: the mask's rows, filled up with zeros, and the offsets.
    const half zero = __float2half(0);
    for (int i = warp * 32 + lane; i < WM * ROWS; i += WARPS * 32) {
        const int m = m0 + i / ROWS, column = i % ROWS;
        k_tile[i / ROWS][column] = m < M && column < depth ? k[m * depth + column] : zero;
    }
    for (int row = warp * 32 + lane; row < ROWS; row += WARPS * 32) {
        const int c = row / (K * K), p = row / K % K, q = row % K;
        offset[row % LINES][row / LINES] = row < depth ? 2u * ((c * H + p) * W + q) : 0;
    }
    __syncthreads();

    wmma::fragment<wmma::matrix_a, WM, WN, DEPTH, half, wmma::row_major> k_fragment;
    wmma::fragment<wmma::matrix_b, WM, WN, DEPTH, half, wmma::row_major> u_fragment;
    wmma::fragment<wmma::accumulator, WM, WN, DEPTH, float> sum;
    for (int n0 = (blockIdx.x * WARPS + warp) * WN; n0 < pixels; n0 += gridDim.x * WARPS * WN) {
        const int n = n0 + lane % WN;
        const int last = min(n, pixels - 1);                // beyond the map: the last pixel's window
        const char *window = (const char *)(x + last / Wo * W + last % Wo);
        wmma::fill_fragment(sum, 0.0f);
        for (int step = 0; step < depth; step += DEPTH) {
            half column[DEPTH / LINES];                     // of u_tile, the lane's share
            #pragma unroll
            for (int i = 0; i < DEPTH / LINES; ++i)
                column[i] = *(const half *)(window + offset[lane / WN][step / LINES + i]);
            #pragma unroll
            for (int i = 0; i < DEPTH / LINES; ++i)         // all loads have been issued by now
                u_tile[warp][i * LINES + lane / WN][lane % WN] = column[i];
            __syncwarp();                                   // the warp's tile is complete
            wmma::load_matrix_sync(k_fragment, &k_tile[0][step], ROWS + 8);
#ifdef SKELETON
            wmma::load_matrix_sync(u_fragment, &u_tile[warp][0][0], WN);
#else
            wmma::load_matrix_sync(u_fragment, &u_tile[warp][0][0], WN | 8);
#endif
            wmma::mma_sync(sum, k_fragment, u_fragment, sum);
            __syncwarp();                                   // all lanes have read it: next step
        }
        // Which lane holds which element of a fragment is not documented: go through shared memory.
        wmma::store_matrix_sync(&y_tile[warp][0][0], sum, WN, wmma::mem_row_major);
        __syncwarp();
        for (int i = lane / WN; i < WM && m0 + i < M; i += 32 / WN)
            if (n < pixels)
                y[(m0 + i) * pixels + n] = __float2half(y_tile[warp][i][lane % WN]);
    }
}
