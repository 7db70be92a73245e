// scan: the running sums of each block's 512 of SIZE floats, by Hillis and Steele: 9 steps, two buffers.

#include "program.cuh"

__global__ void scan_block(const float *x, float *y)
{
    __shared__ float sums[2][512];
    const int i = threadIdx.x, at = blockIdx.x * 512 + i;
    int now = 0;
    sums[0][i] = x[at];
    __syncthreads();
    for (int apart = 1; apart < 512; apart *= 2) {
        sums[1 - now][i] = i >= apart ? sums[now][i] + sums[now][i - apart] : sums[now][i];
        now = 1 - now;
        __syncthreads();
    }
    y[at] = sums[now][i];
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 1 << 26, 512);
    const std::vector<float> values = small_integers(arguments.size);
    float *x = on_device(values), *y = poisoned(arguments.size);
    const float ms = median_ms(arguments.repeats, [=] { scan_block<<<arguments.size / 512, 512>>>(x, y); });
    const std::vector<float> result = on_host(y, arguments.size);
    float sum = 0;
    for (int i = 0; i < arguments.size; ++i) {
        sum = i % 512 ? sum + values[i] : values[i];
        require(result[i] == sum, "scan: a running sum is wrong");
    }
    printf("scan,%d,scan_block,%.6g\n", arguments.size, ms);
}
