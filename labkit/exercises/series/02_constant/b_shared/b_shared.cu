// 02b shared: the block's mask in shared memory, one channel at a time.
//
// Shared memory also broadcasts one word to all 32 lanes, and it can deliver 32 different words from 32
// banks. The cost is a copy and two barriers per channel. Requires K <= 32.

#ifdef SKELETON
__constant__ float mask[16384];    // [M,C,K,K], 64 KB: all there is

#endif
extern "C" __global__
void conv(const float *x, const float *k, float *y,
          int B, int C, int H, int W, int M, int K)
{
#ifdef SKELETON
    const int Ho = H - K + 1, Wo = W - K + 1;
#else
    __shared__ float mask[32 * 32];                         // [K,K] of one map and channel
    const int Ho = H - K + 1, Wo = W - K + 1;
#endif

    // The output of this thread. Neighbours in threadIdx.x are neighbours in w and in memory.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int h = blockIdx.x / tiles * blockDim.y + threadIdx.y;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int m = blockIdx.y;
    const int b = blockIdx.z;
#ifdef SKELETON
    if (h >= Ho || w >= Wo) return;                         // the last tiles extend beyond the map
#else
    const bool mine = h < Ho && w < Wo;                     // other threads only load and reach the barriers
#endif

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

#ifdef SKELETON
    y[h * Wo + w] = 0;
    for (int c = 0; c < C; ++c)
        for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q)
                y[h * Wo + w] += x[(c * H + h + p) * W + w + q] * mask[((m * C + c) * K + p) * K + q];
#else
    if (mine) y[h * Wo + w] = 0;
    for (int c = 0; c < C; ++c) {
        for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < K * K; i += blockDim.x * blockDim.y)
            mask[i] = k[(m * C + c) * K * K + i];
        __syncthreads();                                    // the mask is complete
        if (mine)
            for (int p = 0; p < K; ++p)
                #pragma unroll 1                            // unrolled by 4, nvcc reads y again for each part
                for (int q = 0; q < K; ++q)
                    y[h * Wo + w] += x[(c * H + h + p) * W + w + q] * mask[p * K + q];
        __syncthreads();                                    // all threads have read it: next channel
    }
#endif
}
