// 04 barrier: rung 03 with 04's barriers, and no tile.
//
// Idea      One barrier per channel keeps the warps of a block together. What is that worth by itself, with
//           every input still read from global memory?
// Delta     from 03: one barrier per channel; all threads must reach it, so the guard moves from the top to
//           the sum and the store.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid (tiles of an output map, M, B), block (TILE, TILE).
// Requires  M*C*K*K <= 16384: a device has 64 KB of constant memory. M and B <= 65535. Compiled once for
//           each K.

__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

extern "C" __global__
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
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

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    float sum = 0;
    for (int c = 0; c < C; ++c) {
        __syncthreads();                                    // all warps of the block begin this channel
        if (h < Ho && w < Wo)                               // the last tiles extend beyond the map
            #pragma unroll
            for (int p = 0; p < K; ++p)
                #pragma unroll
                for (int q = 0; q < K; ++q)
                    sum += x[(c * H + h + p) * W + w + q] * mask[((m * C + c) * K + p) * K + q];
    }
    if (h < Ho && w < Wo)
        y[h * Wo + w] = sum;
}
