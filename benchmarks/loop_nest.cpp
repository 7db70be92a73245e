// The convolution as a plain loop nest on one thread: what the CPU engine is measured against.
//
// The same loops as rung 03's kernel, and no more clever: a sum in a register, row-major arrays that do not overlap.
#include <cstddef>

extern "C" void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
                     int B, int C, int H, int W, int M, int K)
{
    const int Ho = H - K + 1, Wo = W - K + 1;
    for (int b = 0; b < B; ++b, x += (size_t)C * H * W)
        for (int m = 0; m < M; ++m, y += (size_t)Ho * Wo)
            for (int h = 0; h < Ho; ++h)
                for (int w = 0; w < Wo; ++w) {
                    float sum = 0;
                    for (int c = 0; c < C; ++c)
                        for (int p = 0; p < K; ++p)
                            for (int q = 0; q < K; ++q)
                                sum += x[(c * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
                    y[h * Wo + w] = sum;
                }
}
