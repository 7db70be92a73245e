// 01 columns first: the lanes of a warp run down the columns of the tile, as they would in Fortran.
//
// Wanted    To see what the order of the threads is worth: x and y are exchanged inside the tile, for a block of
//           any shape. The sum is kept in a register, so that nothing else hides the difference.
// Launch    As rung 01.

extern "C" __global__
void conv(const float *x, const float *k, float *y,
          int B, int C, int H, int W, int M, int K)
{
    const int Ho = H - K + 1, Wo = W - K + 1;

    // The output of this thread. Neighbours in threadIdx.x are neighbours in h: a row apart in memory.
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;   // tiles side by side across a map
    const int i = threadIdx.y * blockDim.x + threadIdx.x;   // number of the thread in its block
    const int h = blockIdx.x / tiles * blockDim.y + i % blockDim.y;
    const int w = blockIdx.x % tiles * blockDim.x + i / blockDim.y;
    const int m = blockIdx.y;
    const int b = blockIdx.z;
    if (h >= Ho || w >= Wo) return;                         // the last tiles extend beyond the map

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    float sum = 0;
    for (int c = 0; c < C; ++c)
        for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q)
                sum += x[(c * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
    y[h * Wo + w] = sum;
}
