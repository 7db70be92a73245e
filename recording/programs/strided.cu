// strided: every eighth of 8 x SIZE floats.

#include "program.cuh"

__global__ void strided(const float *x, float *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[8 * i];
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 1 << 24, 256);
    const int n = arguments.size;
    const std::vector<float> values = small_integers(8 * (size_t)n);
    float *x = on_device(values), *y = poisoned(n);
    const float ms = median_ms(arguments.repeats, [=] { strided<<<n / 256, 256>>>(x, y); });
    const std::vector<float> result = on_host(y, n);
    for (int i = 0; i < n; ++i)
        require(result[i] == values[8 * (size_t)i], "strided: an element is wrong");
    printf("strided,%d,strided,%.6g\n", n, ms);
}
