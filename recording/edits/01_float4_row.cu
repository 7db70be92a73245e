// 01 float4 row: a thread computes four neighbouring outputs from inputs that it loads four at a time.
//
// Wanted    A quarter of the load instructions: a float4 is one instruction for 16 bytes. Rows begin at multiples of 16
//           bytes only if W is a multiple of 4, as in layer 2 of lenet86.
// Launch    As rung 01. A tile is four times as wide; the blocks that are left over have nothing to do.
// Requires  W a multiple of 4, K <= 8, x aligned to 16 bytes.

extern "C" __global__
void conv(const float *x, const float *k, float *y,
          int B, int C, int H, int W, int M, int K)
{
    const int Ho = H - K + 1, Wo = W - K + 1;

    // The outputs of this thread: w to w + 3.
    const int tiles = (Wo + 4 * blockDim.x - 1) / (4 * blockDim.x);    // tiles side by side across a map
    const int h = blockIdx.x / tiles * blockDim.y + threadIdx.y;
    const int w = (blockIdx.x % tiles * blockDim.x + threadIdx.x) * 4;
    const int m = blockIdx.y;
    const int b = blockIdx.z;
    if (h >= Ho || w >= Wo) return;

    // From here on x is image b, y its output map m. A batch may need 64-bit offsets, an image does not.
    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;

    float sum[4] = {};
    for (int c = 0; c < C; ++c)
        for (int p = 0; p < K; ++p) {
            __align__(16) float row[12];                               // 4 outputs and K <= 8: 11 inputs at most
            #pragma unroll
            for (int i = 0; i < 12; i += 4)
                if (w + i < W)
                    *(float4 *)&row[i] = *(const float4 *)&x[(c * H + h + p) * W + w + i];
            #pragma unroll
            for (int q = 0; q < 8; ++q) {                   // unrolled, so that row stays in registers
                if (q == K) break;
                const float element = k[((m * C + c) * K + p) * K + q];
                #pragma unroll
                for (int i = 0; i < 4; ++i)
                    if (w + i < Wo)
                        sum[i] += row[i + q] * element;
            }
        }
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        if (w + i < Wo)
            y[h * Wo + w + i] = sum[i];
}
