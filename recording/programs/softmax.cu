// softmax: of each of SIZE / 512 rows of 512 floats; a warp per row, 16 values per lane in registers.

#include <cmath>

#include "program.cuh"

__global__ void softmax(const float *x, float *y)
{
    const size_t row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    float value[16], most = -INFINITY, sum = 0;
    for (int k = 0; k < 16; ++k) {
        value[k] = x[row * 512 + k * 32 + lane];
        most = fmaxf(most, value[k]);
    }
    for (int apart = 16; apart > 0; apart /= 2)
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, apart));
    for (int k = 0; k < 16; ++k)
        sum += value[k] = expf(value[k] - most);
    for (int apart = 16; apart > 0; apart /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, apart);
    for (int k = 0; k < 16; ++k)
        y[row * 512 + k * 32 + lane] = value[k] / sum;
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 1 << 26, 4096);
    const int n = arguments.size;
    const std::vector<float> values = small_integers(n);
    float *x = on_device(values), *y = poisoned(n);
    const float ms = median_ms(arguments.repeats, [=] { softmax<<<n / 4096, 256>>>(x, y); });
    const std::vector<float> result = on_host(y, n);
    for (int row = 0; row < n / 512; ++row) {
        double sum = 0;
        for (int i = 0; i < 512; ++i)
            sum += exp(values[row * 512 + i]);
        for (int i = 0; i < 512; ++i)
            require(fabs(result[row * 512 + i] - exp(values[row * 512 + i]) / sum) < 1e-6, "softmax: a value is wrong");
    }
    printf("softmax,%d,softmax,%.6g\n", n, ms);
}
