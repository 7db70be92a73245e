// rings: sums of long rows, a block of (32, 4) threads per row, to be compared with exercise P10a's ring of stages.

#include <cuda_pipeline.h>

// All threads load and add up.
extern "C" __global__ void plain_loads(const int *x, int columns, int *total)
{
    const int *row = x + (size_t)blockIdx.x * columns;
    int sum = 0;
    for (int j = threadIdx.y * 32 + threadIdx.x; j < columns; j += 128)
        sum += row[j];
    sum = __reduce_add_sync(0xffffffff, sum);
    if (threadIdx.x == 0)
        atomicAdd(&total[blockIdx.x], sum);
}

// As exercise P6b: all threads copy a tile asynchronously, and add up the one before meanwhile.
extern "C" __global__ void double_buffer(const int *x, int columns, int *total)
{
    constexpr int T = 1024;
    __shared__ alignas(16) int buffers[2][T];
    const int thread = threadIdx.y * 32 + threadIdx.x, tiles = (columns + T - 1) / T;
    const int *row = x + (size_t)blockIdx.x * columns;
    auto copy = [&](int i) {
        for (int j = 4 * thread; j < min(T, columns - i * T); j += 4 * 128)
            __pipeline_memcpy_async(&buffers[i % 2][j], &row[i * T + j], 16);
        __pipeline_commit();
    };
    int sum = 0;
    copy(0);
    for (int i = 0; i < tiles; ++i) {
        __pipeline_wait_prior(0);
        __syncthreads();                                    // tile i is complete, and the other buffer is free
        if (i + 1 < tiles)
            copy(i + 1);
        for (int j = thread; j < min(T, columns - i * T); j += 128)
            sum += buffers[i % 2][j];
    }
    sum = __reduce_add_sync(0xffffffff, sum);
    if (threadIdx.x == 0)
        atomicAdd(&total[blockIdx.x], sum);
}
