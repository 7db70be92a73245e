// 03 channels: the loop over the channels unrolled, too.
//
// Idea      With C known at compile time the whole sum unrolls: C*K*K products without a counter, and every
//           offset a constant. The code grows by the factor C.
// Delta     from 03: #pragma unroll on the loop over c, which ends at FIXED_C.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid (tiles of an output map, M, B), block (16, 16): a tile is blockDim.y rows of blockDim.x
//           outputs.
// Requires  M*C*K*K <= 16384: a device has 64 KB of constant memory. M and B <= 65535. Compiled once for each
//           C and K.

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
    if (h >= Ho || w >= Wo) return;                         // the last tiles extend beyond the map

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    float sum = 0;
    #pragma unroll
    for (int c = 0; c < FIXED_C; ++c)                       // C, known to the compiler
        #pragma unroll
        for (int p = 0; p < K; ++p)
            #pragma unroll
            for (int q = 0; q < K; ++q)
                sum += x[(c * H + h + p) * W + w + q] * mask[((m * C + c) * K + p) * K + q];
    y[h * Wo + w] = sum;
}
