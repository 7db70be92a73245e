// reduce_tree: the sum of each block's 256 of SIZE floats, as an interleaved tree in shared memory: the threads at
// work are spread over all warps to the end.

#include "program.cuh"

__global__ void reduce_tree(const float *x, float *sums)
{
    __shared__ float part[256];
    const int i = threadIdx.x;
    part[i] = x[blockIdx.x * 256 + i];
    __syncthreads();
    for (int apart = 1; apart < 256; apart *= 2) {
        if (i % (2 * apart) == 0)
            part[i] += part[i + apart];
        __syncthreads();
    }
    if (i == 0) sums[blockIdx.x] = part[0];
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 1 << 27, 256);
    const int blocks = arguments.size / 256;
    const std::vector<float> values = small_integers(arguments.size);
    float *x = on_device(values), *sums = poisoned(blocks);
    const float ms = median_ms(arguments.repeats, [=] { reduce_tree<<<blocks, 256>>>(x, sums); });
    const std::vector<float> result = on_host(sums, blocks);
    for (int block = 0; block < blocks; ++block) {
        float sum = 0;
        for (int i = 0; i < 256; ++i)
            sum += values[(size_t)block * 256 + i];
        require(result[block] == sum, "reduce_tree: the sum of a block is wrong");
    }
    printf("reduce_tree,%d,reduce_tree,%.6g\n", arguments.size, ms);
}
