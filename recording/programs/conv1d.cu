// conv1d: SIZE sums of 17 neighbours, with weights in constant memory.

#include "program.cuh"

__constant__ float weights[17];

__global__ void conv1d(const float *x, float *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 17; ++k)
        sum += weights[k] * x[i + k];
    y[i] = sum;
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 1 << 24, 256);
    const int n = arguments.size;
    const std::vector<float> values = small_integers(n + 16), mask = small_integers(17);
    CUDA(cudaMemcpyToSymbol(weights, mask.data(), 17 * sizeof(float)));
    float *x = on_device(values), *y = poisoned(n);
    const float ms = median_ms(arguments.repeats, [=] { conv1d<<<n / 256, 256>>>(x, y); });
    const std::vector<float> result = on_host(y, n);
    for (int i = 0; i < n; ++i) {
        float sum = 0;
        for (int k = 0; k < 17; ++k)
            sum += mask[k] * values[i + k];
        require(result[i] == sum, "conv1d: a sum is wrong");
    }
    printf("conv1d,%d,conv1d,%.6g\n", n, ms);
}
