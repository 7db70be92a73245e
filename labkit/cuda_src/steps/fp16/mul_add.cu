// 08 mul add: the product and the sum written apart.
//
// Idea      __hmul rounds the product, __hadd rounds the sum: two instructions where __hfma has one, and one
//           rounding more. Does the compiler join them?
// Delta     from 08 direct: __hadd(sum, __hmul(x, mask)) in place of __hfma(x, mask, sum).
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float16, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid (tiles of an output map, M, B), block (TILE, TILE): a tile is blockDim.y rows of blockDim.x
//           outputs.
// Requires  M*C*K*K <= 32768: a device has 64 KB of constant memory. M and B <= 65535; every partial sum <
//           65504, the largest half. Compiled once for each K.

#include <cuda_fp16.h>

__constant__ half mask[32768];     // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const half *__restrict__ x, const half *__restrict__ k, half *__restrict__ y,
          int B, int C, int H, int W, int M, int)
{
    constexpr int K = FIXED_K;                              // the last argument, known to the compiler
    const int Ho = H - K + 1, Wo = W - K + 1;

    // The output of this thread. Neighbours in threadIdx.x are neighbours in w and in memory.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int h = blockIdx.x / tiles * blockDim.y + threadIdx.y;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int m = blockIdx.y;
    const int b = blockIdx.z;
    if (h >= Ho || w >= Wo) return;                         // the last tiles extend beyond the map

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    half sum = __float2half(0);
    for (int c = 0; c < C; ++c)
        #pragma unroll
        for (int p = 0; p < K; ++p)
            #pragma unroll
            for (int q = 0; q < K; ++q)
                sum = __hadd(sum, __hmul(x[(c * H + h + p) * W + w + q],
                                         mask[((m * C + c) * K + p) * K + q]));
    y[h * Wo + w] = sum;
}
