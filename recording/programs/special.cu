// special: SIZE sums of 64 values of exp and of the reciprocal square root.

#include <cmath>

#include "program.cuh"

__global__ void special(const float *x, float *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = x[i] + 1, sum = 0;
    for (int k = 0; k < 64; ++k)
        sum += expf(-value * k) + rsqrtf(value + k);
    y[i] = sum;
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 1 << 24, 256);
    const int n = arguments.size;
    const std::vector<float> values = small_integers(n);
    float *x = on_device(values), *y = poisoned(n);
    const float ms = median_ms(arguments.repeats, [=] { special<<<n / 256, 256>>>(x, y); });
    const std::vector<float> result = on_host(y, n);
    double expected[8] = {};
    for (int v = 0; v < 8; ++v)
        for (int k = 0; k < 64; ++k)
            expected[v] += exp(-(v + 1.0) * k) + 1 / sqrt(v + 1.0 + k);
    for (int i = 0; i < n; ++i)
        require(fabs(result[i] - expected[(int)values[i]]) < 1e-4, "special: a sum is wrong");
    printf("special,%d,special,%.6g\n", n, ms);
}
