// rmsnorm: each of SIZE / 1024 rows of 1024 floats over the root of its mean square; a block of 256 threads per row.

#include <cmath>

#include "program.cuh"

__global__ void rmsnorm(const float4 *x, float4 *y)
{
    __shared__ float part[8];
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float4 v = x[i];
    float sum = v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    for (int apart = 16; apart > 0; apart /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, apart);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0;
    for (int warp = 0; warp < 8; ++warp)
        total += part[warp];
    const float scale = rsqrtf(total / 1024 + 1e-5f);
    y[i] = make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 1 << 26, 1024);
    const int n = arguments.size;
    const std::vector<float> values = small_integers(n);
    float *x = on_device(values), *y = poisoned(n);
    const float ms = median_ms(arguments.repeats, [=] {
        rmsnorm<<<n / 1024, 256>>>((const float4 *)x, (float4 *)y);
    });
    const std::vector<float> result = on_host(y, n);
    for (int row = 0; row < n / 1024; ++row) {
        double sum = 0;
        for (int i = 0; i < 1024; ++i)
            sum += values[row * 1024 + i] * values[row * 1024 + i];
        for (int i = 0; i < 1024; ++i)
            require(fabs(result[row * 1024 + i] - values[row * 1024 + i] / sqrt(sum / 1024 + 1e-5)) < 1e-5,
                    "rmsnorm: an element is wrong");
    }
    printf("rmsnorm,%d,rmsnorm,%.6g\n", n, ms);
}
