// transpose_tiled: a matrix of SIZE x SIZE floats. Columns of a tile in shared memory are read: one bank.

#include "program.cuh"

// A block of 32 x 8 threads moves a tile of 32 x 32.
__global__ void transpose_tiled(const float *x, float *y, int n)
{
    __shared__ float tile[32][32];
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        tile[threadIdx.y + i][threadIdx.x] = x[(row + i) * n + column];
    __syncthreads();
    const int to_column = blockIdx.y * 32 + threadIdx.x, to_row = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        y[(to_row + i) * n + to_column] = tile[threadIdx.x][threadIdx.y + i];
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 8192, 32);
    const int n = arguments.size;
    const size_t count = (size_t)n * n;
    const std::vector<float> values = small_integers(count);
    float *x = on_device(values), *y = poisoned(count);
    const float ms = median_ms(arguments.repeats, [=] {
        transpose_tiled<<<dim3(n / 32, n / 32), dim3(32, 8)>>>(x, y, n);
    });
    const std::vector<float> result = on_host(y, count);
    for (size_t i = 0; i < count; ++i)
        require(result[i] == values[i % n * n + i / n], "transpose_tiled: an element is in the wrong place");
    printf("transpose_tiled,%d,transpose_tiled,%.6g\n", n, ms);
}
