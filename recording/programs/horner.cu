// horner: a polynomial of degree 128 at SIZE places.

#include <cmath>

#include "program.cuh"

__global__ void horner(const float *x, float *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float value = x[i] / 16;
    float sum = 0;
    for (int k = 0; k <= 128; ++k)
        sum = sum * value + 1;
    y[i] = sum;
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 1 << 24, 256);
    const int n = arguments.size;
    const std::vector<float> values = small_integers(n);
    float *x = on_device(values), *y = poisoned(n);
    const float ms = median_ms(arguments.repeats, [=] { horner<<<n / 256, 256>>>(x, y); });
    const std::vector<float> result = on_host(y, n);
    for (int i = 0; i < n; ++i)                             // a geometric series
        require(fabs(result[i] - 1 / (1 - values[i] / 16)) < 1e-5, "horner: a value is wrong");
    printf("horner,%d,horner,%.6g\n", n, ms);
}
