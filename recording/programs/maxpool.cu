// maxpool: the maximum of each window of 2 x 2 in SIZE x SIZE floats.

#include "program.cuh"

__global__ void maxpool(const float2 *x, float *y, int n)
{
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y, half = n / 2;
    const float2 upper = x[2 * row * half + column], lower = x[(2 * row + 1) * half + column];
    y[row * half + column] = fmaxf(fmaxf(upper.x, upper.y), fmaxf(lower.x, lower.y));
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 8192, 64);
    const int n = arguments.size, half = n / 2;
    const std::vector<float> values = small_integers((size_t)n * n);
    float *x = on_device(values), *y = poisoned((size_t)half * half);
    const float ms = median_ms(arguments.repeats, [=] {
        maxpool<<<dim3(half / 32, half / 8), dim3(32, 8)>>>((const float2 *)x, y, n);
    });
    const std::vector<float> result = on_host(y, (size_t)half * half);
    for (int row = 0; row < half; ++row)
        for (int column = 0; column < half; ++column) {
            const float *window = &values[(size_t)2 * row * n + 2 * column];
            require(result[(size_t)row * half + column]
                    == std::max(std::max(window[0], window[1]), std::max(window[n], window[n + 1])),
                    "maxpool: a maximum is wrong");
        }
    printf("maxpool,%d,maxpool,%.6g\n", n, ms);
}
