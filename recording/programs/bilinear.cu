// bilinear: a picture of SIZE x SIZE floats, twice as large: each new pixel from its four neighbours.

#include "program.cuh"

__global__ void bilinear(const float *x, float *y, int n)
{
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    const int left = column / 2, top = row / 2, right = min(left + 1, n - 1), below = min(top + 1, n - 1);
    const float s = 0.5f * (column % 2), r = 0.5f * (row % 2);
    const float upper = x[top * n + left] * (1 - s) + x[top * n + right] * s;
    const float lower = x[below * n + left] * (1 - s) + x[below * n + right] * s;
    y[(size_t)row * 2 * n + column] = upper * (1 - r) + lower * r;
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 4096, 32);
    const int n = arguments.size;
    const std::vector<float> values = small_integers((size_t)n * n);
    float *x = on_device(values), *y = poisoned((size_t)4 * n * n);
    const float ms = median_ms(arguments.repeats, [=] {
        bilinear<<<dim3(n / 16, n / 4), dim3(32, 8)>>>(x, y, n);
    });
    const std::vector<float> result = on_host(y, (size_t)4 * n * n);
    for (int row = 0; row < n - 1; ++row)
        for (int column = 0; column < n - 1; ++column) {    // whole quarters: exact in float
            const float *from = &values[(size_t)row * n + column];
            require(result[(size_t)(2 * row + 1) * 2 * n + 2 * column + 1]
                    == 0.25f * (from[0] + from[1] + from[n] + from[n + 1]), "bilinear: a pixel is wrong");
        }
    printf("bilinear,%d,bilinear,%.6g\n", n, ms);
}
