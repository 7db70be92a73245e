// mandelbrot: how many of 64 steps z * z + c stays below 2, at SIZE x SIZE places: neighbours end at different steps.

#include "program.cuh"

__host__ __device__ inline int steps(int column, int row, int n)
{
    const float a = 3.0f * column / n - 2.25f, b = 3.0f * row / n - 1.5f;
    float x = 0, y = 0;
    int k = 0;
    for (; k < 64 && x * x + y * y < 4; ++k) {
        const float next = x * x - y * y + a;
        y = 2 * x * y + b;
        x = next;
    }
    return k;
}

__global__ void mandelbrot(float *y, int n)
{
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    y[(size_t)row * n + column] = steps(column, row, n);
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 8192, 32);
    const int n = arguments.size;
    float *y = poisoned((size_t)n * n);
    const float ms = median_ms(arguments.repeats, [=] {
        mandelbrot<<<dim3(n / 32, n / 8), dim3(32, 8)>>>(y, n);
    });
    const std::vector<float> result = on_host(y, (size_t)n * n);
    size_t same = 0;                                        // chaotic: a rounding may move a place by a step
    for (int row = 0; row < n; row += 16)
        for (int column = 0; column < n; ++column)
            same += result[(size_t)row * n + column] == steps(column, row, n);
    require(same > 0.98 * n * (n / 16), "mandelbrot: the numbers of steps are wrong");
    printf("mandelbrot,%d,mandelbrot,%.6g\n", n, ms);
}
