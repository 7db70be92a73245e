// 01b register: the sum in a register, stored once.
//
// A local variable has no address, so no pointer can reach it: the compiler keeps it in a register. One
// store of an output is left, of C*K*K + 1.

extern "C" __global__
void conv(const float *x, const float *k, float *y,
          int B, int C, int H, int W, int M, int K)
{
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

#ifdef SKELETON
    y[h * Wo + w] = 0;
#else
    float sum = 0;
#endif
    for (int c = 0; c < C; ++c)
        for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q)
#ifdef SKELETON
                y[h * Wo + w] += x[(c * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
#else
                sum += x[(c * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
    y[h * Wo + w] = sum;
#endif
}
