// stencil: one step of a five-point stencil on SIZE x SIZE floats; the border stays as it is.

#include "program.cuh"

__global__ void five_points(const float *x, float *y, int n)
{
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    const int i = row * n + column;
    if (row == 0 || row == n - 1 || column == 0 || column == n - 1)
        y[i] = x[i];
    else
        y[i] = 0.5f * x[i] + 0.125f * (x[i - n] + x[i + n] + x[i - 1] + x[i + 1]);
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 8192, 32);
    const int n = arguments.size;
    const size_t count = (size_t)n * n;
    const std::vector<float> x = small_integers(count);
    float *from = on_device(x), *to = poisoned(count);
    const float ms = median_ms(arguments.repeats, [=] {
        five_points<<<dim3(n / 32, n / 8), dim3(32, 8)>>>(from, to, n);
    });
    const std::vector<float> result = on_host(to, count);
    for (size_t i = 0; i < count; ++i) {                    // whole eighths: exact in float
        const bool border = i < n || i >= count - n || i % n == 0 || i % n == n - 1;
        require(result[i] == (border ? x[i] : 0.5f * x[i] + 0.125f * (x[i - n] + x[i + n] + x[i - 1] + x[i + 1])),
                "stencil: an element is wrong");
    }
    printf("stencil,%d,five_points,%.6g\n", n, ms);
}
