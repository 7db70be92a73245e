// 09b all maps: a tile of u is filled once for two tiles of maps.
//
// Filling a tile of u is most of the work, and with 24 maps two blocks did it for the same pixels. Now every
// other block takes the maps of its neighbour as well: two accumulators, two products for each tile of u.

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
#ifdef SKELETON
    __shared__ __align__(32) half k_tile[WM][ROWS + 8];     // 8 more: the rows begin in different banks
#else
    __shared__ __align__(32) half k_tile[2 * WM][ROWS + 8]; // 8 more: the rows begin in different banks
#endif
    __shared__ __align__(32) half u_tile[WARPS][DEPTH][WN]; // WMMA loads and stores at 32-byte boundaries
    __shared__ __align__(32) float y_tile[WARPS][WM][WN];
    __shared__ __align__(16) unsigned offset[LINES][ROWS / LINES + 4]; // bytes; row LINES j + i of u: [i][j]
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo, depth = C * K * K;          // y [M,pixels] = k [M,depth] u [depth,pixels]
    const int lane = threadIdx.x, warp = threadIdx.y;
#ifdef SKELETON
#else
    if (blockIdx.y % 2) return;                             // the block before computes these maps, too
#endif
    const int m0 = blockIdx.y * WM;
    const int b = blockIdx.z;

    // From here on x is image b and y its output.
    x += (size_t)b * C * H * W;
    y += (size_t)b * M * pixels;

    // Once for all pixels: the mask's rows, filled up with zeros, and the offsets.
    const half zero = __float2half(0);
#ifdef SKELETON
    for (int i = warp * 32 + lane; i < WM * ROWS; i += WARPS * 32) {
#else
    for (int i = warp * 32 + lane; i < 2 * WM * ROWS; i += WARPS * 32) {
#endif
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
#ifdef SKELETON
    wmma::fragment<wmma::accumulator, WM, WN, DEPTH, float> sum;
#else
    wmma::fragment<wmma::accumulator, WM, WN, DEPTH, float> sum[2];
#endif
    for (int n0 = (blockIdx.x * WARPS + warp) * WN; n0 < pixels; n0 += gridDim.x * WARPS * WN) {
        const int n = n0 + lane % WN;
        const int last = min(n, pixels - 1);                // beyond the map: the last pixel's window
        const char *window = (const char *)(x + last / Wo * W + last % Wo);
#ifdef SKELETON
        wmma::fill_fragment(sum, 0.0f);
#else
        for (auto &each : sum)
            wmma::fill_fragment(each, 0.0f);
#endif
        for (int step = 0; step < depth; step += DEPTH) {
            half column[DEPTH / LINES];                     // of u_tile, the lane's share
            #pragma unroll
            for (int i = 0; i < DEPTH / LINES; ++i)
                column[i] = *(const half *)(window + offset[lane / WN][step / LINES + i]);
            #pragma unroll
            for (int i = 0; i < DEPTH / LINES; ++i)         // all loads have been issued by now
                u_tile[warp][i * LINES + lane / WN][lane % WN] = column[i];
            __syncwarp();                                   // the warp's tile is complete
#ifdef SKELETON
            wmma::load_matrix_sync(k_fragment, &k_tile[0][step], ROWS + 8);
#endif
            wmma::load_matrix_sync(u_fragment, &u_tile[warp][0][0], WN);
#ifdef SKELETON
            wmma::mma_sync(sum, k_fragment, u_fragment, sum);
#else
            #pragma unroll
            for (int t = 0; t < 2; ++t) {
                wmma::load_matrix_sync(k_fragment, &k_tile[t * WM][step], ROWS + 8);
                wmma::mma_sync(sum[t], k_fragment, u_fragment, sum[t]);
            }
#endif
            __syncwarp();                                   // all lanes have read it: next step
        }
        // Which lane holds which element of a fragment is not documented: go through shared memory.
#ifdef SKELETON
        wmma::store_matrix_sync(&y_tile[warp][0][0], sum, WN, wmma::mem_row_major);
        __syncwarp();
        for (int i = lane / WN; i < WM && m0 + i < M; i += 32 / WN)
            if (n < pixels)
                y[(m0 + i) * pixels + n] = __float2half(y_tile[warp][i][lane % WN]);
#else
        #pragma unroll
        for (int t = 0; t < 2; ++t) {
            wmma::store_matrix_sync(&y_tile[warp][0][0], sum[t], WN, wmma::mem_row_major);
            __syncwarp();
            for (int i = lane / WN; i < WM && m0 + t * WM + i < M; i += 32 / WN)
                if (n < pixels)
                    y[(m0 + t * WM + i) * pixels + n] = __float2half(y_tile[warp][i][lane % WN]);
            __syncwarp();                                   // read before the next sums are stored
        }
#endif
    }
}
