// 03 row ahead: the next row of inputs is loaded while the present one is multiplied.
//
// Wanted    To hide the latency of the loads: K inputs wait in registers when their products begin. After the last row
//           of a channel comes the first of the next; after the very last one, the thread loads its first row again.
// Launch    As rung 03.
// Requires  M*C*K*K <= 16384.

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

    x += h * W + w;                                         // the thread's window
    float now[K], next[K];
    #pragma unroll
    for (int q = 0; q < K; ++q)
        now[q] = x[q];
    float sum = 0;
    for (int c = 0; c < C; ++c)
        #pragma unroll
        for (int p = 0; p < K; ++p) {
            const int ahead = p + 1 < K ? (c * H + p + 1) * W : c + 1 < C ? (c + 1) * H * W : 0;
            #pragma unroll
            for (int q = 0; q < K; ++q)
                next[q] = x[ahead + q];
            #pragma unroll
            for (int q = 0; q < K; ++q)
                sum += now[q] * mask[((m * C + c) * K + p) * K + q];
            #pragma unroll
            for (int q = 0; q < K; ++q)
                now[q] = next[q];
        }
    y[h * Wo + w] = sum;
}
