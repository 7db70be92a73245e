// reduce_shuffle: the sum of each block's 256 of SIZE floats, in each warp by shuffles, and then over the 8 warps.

#include "program.cuh"

__device__ float sum_of_warp(float value)
{
    for (int apart = 16; apart > 0; apart /= 2)
        value += __shfl_down_sync(0xffffffff, value, apart);
    return value;                                           // in lane 0
}

__global__ void reduce_shuffle(const float *x, float *sums)
{
    __shared__ float part[8];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float sum = sum_of_warp(x[blockIdx.x * 256 + threadIdx.x]);
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        const float total = sum_of_warp(lane < 8 ? part[lane] : 0);
        if (lane == 0) sums[blockIdx.x] = total;
    }
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 1 << 27, 256);
    const int blocks = arguments.size / 256;
    const std::vector<float> values = small_integers(arguments.size);
    float *x = on_device(values), *sums = poisoned(blocks);
    const float ms = median_ms(arguments.repeats, [=] { reduce_shuffle<<<blocks, 256>>>(x, sums); });
    const std::vector<float> result = on_host(sums, blocks);
    for (int block = 0; block < blocks; ++block) {
        float sum = 0;
        for (int i = 0; i < 256; ++i)
            sum += values[(size_t)block * 256 + i];
        require(result[block] == sum, "reduce_shuffle: the sum of a block is wrong");
    }
    printf("reduce_shuffle,%d,reduce_shuffle,%.6g\n", arguments.size, ms);
}
