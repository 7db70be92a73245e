// transpose_naive: a matrix of SIZE x SIZE floats. Stores are n words apart in a warp.

#include "program.cuh"

// A block of 32 x 8 threads moves a tile of 32 x 32.
__global__ void transpose_naive(const float *x, float *y, int n)
{
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        y[column * n + row + i] = x[(row + i) * n + column];
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 8192, 32);
    const int n = arguments.size;
    const size_t count = (size_t)n * n;
    const std::vector<float> values = small_integers(count);
    float *x = on_device(values), *y = poisoned(count);
    const float ms = median_ms(arguments.repeats, [=] {
        transpose_naive<<<dim3(n / 32, n / 32), dim3(32, 8)>>>(x, y, n);
    });
    const std::vector<float> result = on_host(y, count);
    for (size_t i = 0; i < count; ++i)
        require(result[i] == values[i % n * n + i / n], "transpose_naive: an element is in the wrong place");
    printf("transpose_naive,%d,transpose_naive,%.6g\n", n, ms);
}
