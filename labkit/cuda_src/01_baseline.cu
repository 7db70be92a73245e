// 01 baseline: one thread computes one output element.
//
// Idea      The loops over b, m, h and w become the grid; each thread keeps the three inner loops.
// Delta     from the plain loops of labkit/spec/reference.py: nothing else. The sum grows in y, in global
//           memory, as the formula is written; rung 03 shows what that costs.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid (tiles of an output map, M, B), block (16, 16): a tile is blockDim.y rows of blockDim.x
//           outputs.
// Requires  M and B <= 65535, the grid's limit in y and z. Any block size, any H, W, K: the tail is guarded.

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

    y[h * Wo + w] = 0;
    for (int c = 0; c < C; ++c)
        for (int p = 0; p < K; ++p)
            for (int q = 0; q < K; ++q)
                y[h * Wo + w] += x[(c * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
}
