// rings: sums of long rows, a block of (32, 4) threads per row, to be compared with exercise P10a's ring of stages.

#include <cuda_pipeline.h>

// All threads load and add up.
extern "C" __global__ void plain_loads(const int *x, int columns, int *total)
{
    const int *row = x + (size_t)blockIdx.x * columns;
    int part = 0;
    for (int j = threadIdx.y * 32 + threadIdx.x; j < columns; j += 128)
        part += row[j];
    part = __reduce_add_sync(0xffffffff, part);
    if (threadIdx.x == 0)
        atomicAdd(&total[blockIdx.x], part);
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
    int part = 0;
    copy(0);
    for (int now = 0; now < tiles; ++now) {
        __pipeline_wait_prior(0);
        __syncthreads();                                    // the tile is complete, and the other buffer is free
        if (now + 1 < tiles)
            copy(now + 1);
        for (int j = thread; j < min(T, columns - now * T); j += 128)
            part += buffers[now % 2][j];
    }
    part = __reduce_add_sync(0xffffffff, part);
    if (threadIdx.x == 0)
        atomicAdd(&total[blockIdx.x], part);
}
