// 02 divergent global: the lanes of a warp work on different maps, the mask in global memory.
//
// Idea      The control of step "divergent": the same lanes ask for the same mask elements, but the L1
//           cache answers.
// Delta     from step "divergent": the mask is read from k in place of constant memory.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid (blocks of blockDim.y outputs of a map, blocks of blockDim.x maps, B), block (16, 16).
// Requires  B and M / blockDim.x <= 65535, the grid's limit in y and z.

extern "C" __global__
void conv(const float *x, const float *k, float *y,
          int B, int C, int H, int W, int M, int K)
{
    const int Ho = H - K + 1, Wo = W - K + 1;

    // The output of this thread. Neighbours in threadIdx.x are neighbours in m: same inputs, other masks.
    const int m = blockIdx.y * blockDim.x + threadIdx.x;
    const int output = blockIdx.x * blockDim.y + threadIdx.y;
    const int h = output / Wo;
    const int w = output % Wo;
    const int b = blockIdx.z;
    if (m >= M || h >= Ho) return;                          // the last block extends beyond the map

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
