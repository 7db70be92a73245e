// 08a one store: both pixels of a thread are stored as one half2.
//
// A half2 must be aligned to four bytes. Pixel n is even, so it is aligned if every map
// begins at an even element: if a map has an even number of pixels. Otherwise the thread stores twice.

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
    float2 sum = {0, 0};
    for (int step = 0; step < depth; step += TILE) {
        const int column = step + threadIdx.x;              // of k
        k_tile[threadIdx.y][threadIdx.x] = m < M && column < depth ? k[m * depth + column] : zero;
        const int row = step + threadIdx.y;                 // of u: element (c, p, q) of a window
        const int c = row / (K * K), p = row / K % K, q = row % K;
        u_tile[threadIdx.y][threadIdx.x] = __halves2half2(
            row < depth && n < pixels ? x[(c * H + h + p) * W + w + q] : zero,
            row < depth && n + 1 < pixels ? x[(c * H + h2 + p) * W + w2 + q] : zero);
        __syncthreads();                                    // both tiles are complete
        half2 part = __halves2half2(zero, zero);
        #pragma unroll
        for (int i = 0; i < TILE; ++i)
            part = __hfma2(__half2half2(k_tile[threadIdx.y][i]), u_tile[i][threadIdx.x], part);
        sum.x += __low2float(part);
        sum.y += __high2float(part);
        __syncthreads();                                    // all threads have read them: next step
    }
#ifdef SKELETON
    if (m < M && n < pixels)
        y[m * pixels + n] = __float2half(sum.x);
    if (m < M && n + 1 < pixels)
        y[m * pixels + n + 1] = __float2half(sum.y);
#else
    if (m < M && n < pixels && pixels % 2 == 0)             // y and n are even, and n + 1 is a pixel, too
        *(half2 *)(y + m * pixels + n) = __float22half2_rn(sum);
    else {
        if (m < M && n < pixels)
            y[m * pixels + n] = __float2half(sum.x);
        if (m < M && n + 1 < pixels)
            y[m * pixels + n + 1] = __float2half(sum.y);
    }
#endif
}
