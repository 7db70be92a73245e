// stencil3d: one step of a seven-point stencil on SIZE x SIZE x SIZE floats; the border stays as it is.

#include "program.cuh"

__global__ void seven_points(const float *x, float *y, int n)
{
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y, plane = blockIdx.z;
    const int i = (plane * n + row) * n + column;
    if (column % (n - 1) == 0 || row % (n - 1) == 0 || plane % (n - 1) == 0)
        y[i] = x[i];
    else
        y[i] = 0.5f * x[i] + 0.125f * (x[i - 1] + x[i + 1] + x[i - n] + x[i + n] + x[i - n * n] + x[i + n * n]);
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 512, 32);
    const int n = arguments.size;
    const size_t count = (size_t)n * n * n;
    const std::vector<float> x = small_integers(count);
    float *from = on_device(x), *to = poisoned(count);
    const float ms = median_ms(arguments.repeats, [=] {
        seven_points<<<dim3(n / 32, n / 8, n), dim3(32, 8)>>>(from, to, n);
    });
    const std::vector<float> result = on_host(to, count);
    for (size_t i = 0; i < count; ++i) {                    // whole eighths: exact in float
        const size_t column = i % n, row = i / n % n, plane = i / n / n;
        const bool border = column % (n - 1) == 0 || row % (n - 1) == 0 || plane % (n - 1) == 0;
        require(result[i] == (border ? x[i] : 0.5f * x[i] + 0.125f * (x[i - 1] + x[i + 1] + x[i - n] + x[i + n]
                                                                     + x[i - n * n] + x[i + n * n])),
                "stencil3d: an element is wrong");
    }
    printf("stencil3d,%d,seven_points,%.6g\n", n, ms);
}
