// gelu: the GELU of SIZE floats, by its approximation with tanh.

#include <cmath>

#include "program.cuh"

__global__ void gelu(const float *x, float *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float v = x[i];
    y[i] = 0.5f * v * (1 + tanhf(0.7978846f * (v + 0.044715f * v * v * v)));
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 1 << 26, 256);
    const int n = arguments.size;
    const std::vector<float> values = small_integers(n);
    float *x = on_device(values), *y = poisoned(n);
    const float ms = median_ms(arguments.repeats, [=] { gelu<<<n / 256, 256>>>(x, y); });
    const std::vector<float> result = on_host(y, n);
    for (int i = 0; i < n; ++i) {
        const double v = values[i];
        require(fabs(result[i] - 0.5 * v * (1 + tanh(0.7978846 * (v + 0.044715 * v * v * v)))) < 1e-5,
                "gelu: an element is wrong");
    }
    printf("gelu,%d,gelu,%.6g\n", n, ms);
}
