// 08 convert: float in and out, and the conversion is a part of the op.
//
// Idea      The images arrive as float. A kernel of its own writes them as half, then the direct kernel reads
//           them. What does the conversion cost beside what it saves?
// Delta     from 08 direct: the kernel to_half and the buffer u; y is float. The host converts the mask when
//           it loads it: that happens once for all batches.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32; u [B,C,H,W], float16; row-major; Ho = H-K+1, Wo
//           = W-K+1.
// Launch    to_half: grid (C*H*W / 256, 1, B), block (256).   x, k, u
//           conv:    grid (tiles of an output map, M, B), block (TILE, TILE).   u, k, y
// Requires  M*C*K*K <= 32768: a device has 64 KB of constant memory. M and B <= 65535; |x|, |k| and every
//           partial sum < 65504, the largest half. Compiled once for each K. The host calls both for as many
//           images at a time as u has room for.

#include <cuda_fp16.h>

__constant__ half mask[32768];     // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void to_half(const float *__restrict__ x, const float *__restrict__ k, half *__restrict__ u,
             int B, int C, int H, int W, int M, int)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;    // the input of image blockIdx.z
    const size_t image = (size_t)blockIdx.z * C * H * W;
    if (i < C * H * W) u[image + i] = __float2half(x[image + i]);
}

extern "C" __global__
void conv(const half *__restrict__ u, const float *__restrict__ k, float *__restrict__ y,
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

    // From here on u is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    u += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    half sum = __float2half(0);
    for (int c = 0; c < C; ++c)
        #pragma unroll
        for (int p = 0; p < K; ++p)
            #pragma unroll
            for (int q = 0; q < K; ++q)
                sum = __hfma(u[(c * H + h + p) * W + w + q], mask[((m * C + c) * K + p) * K + q], sum);
    y[h * Wo + w] = __half2float(sum);
}
