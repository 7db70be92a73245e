// 08b no float: a sum in two levels, both of them half.
//
// A product takes part in TILE additions and then one per further step, instead of one per further
// product. The error bound falls from depth to TILE + depth / TILE units, without a single float.

#include <cuda_fp16.h>

extern "C" __global__
void conv(const half *__restrict__ x, const half *__restrict__ k, half *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    __shared__ half k_tile[TILE][TILE];
    __shared__ half2 u_tile[TILE][TILE];
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int pixels = Ho * Wo, depth = C * K * K;          // y [M,pixels] = k [M,depth] u [depth,pixels]
    const int n = (blockIdx.x * TILE + threadIdx.x) * 2;    // and n + 1
    const int m = blockIdx.y * TILE + threadIdx.y;
    const int b = blockIdx.z;

    // From here on x is image b and y its output.
    x += (size_t)b * C * H * W;
    y += (size_t)b * M * pixels;

    const int h = n / Wo, w = n % Wo;
    const int h2 = (n + 1) / Wo, w2 = (n + 1) % Wo;         // the neighbour may start the next row
    const half zero = __float2half(0);
    half2 sum = __halves2half2(zero, zero);
    for (int step = 0; step < depth; step += TILE) {
        const int column = step + threadIdx.x;              // of k
        k_tile[threadIdx.y][threadIdx.x] = m < M && column < depth ? k[m * depth + column] : zero;
        const int row = step + threadIdx.y;                 // of u: element (c, p, q) of a window
        const int c = row / (K * K), p = row / K % K, q = row % K;
        u_tile[threadIdx.y][threadIdx.x] = __halves2half2(
            row < depth && n < pixels ? x[(c * H + h + p) * W + w + q] : zero,
            row < depth && n + 1 < pixels ? x[(c * H + h2 + p) * W + w2 + q] : zero);
        __syncthreads();                                    // both tiles are complete
#ifdef SKELETON
#else
        half2 part = __halves2half2(zero, zero);
#endif
        #pragma unroll
        for (int i = 0; i < TILE; ++i)
#ifdef SKELETON
            sum = __hfma2(__half2half2(k_tile[threadIdx.y][i]), u_tile[i][threadIdx.x], sum);
#else
            part = __hfma2(__half2half2(k_tile[threadIdx.y][i]), u_tile[i][threadIdx.x], part);
        sum = __hadd2(sum, part);
#endif
        __syncthreads();                                    // all threads have read them: next step
    }
    if (m < M && n < pixels)
        y[m * pixels + n] = __low2half(sum);
    if (m < M && n + 1 < pixels)
        y[m * pixels + n + 1] = __high2half(sum);
}
