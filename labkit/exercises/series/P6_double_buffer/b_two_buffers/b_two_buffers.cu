// P6b two buffers: while a block compares with one tile, the next one is copied into the other buffer.
//
// One barrier per tile says two things: the tile is complete, and nobody reads the one before any more. So the copies that
// overwrite the one before begin behind it.

#include <cuda_pipeline.h>

extern "C" __global__ void ranks(const float *x, int n, int *rank)
{
#ifdef SKELETON
    // begin with your kernel of P6a: when can the copies of the next tile begin, and into which buffer?

#else
    __shared__ float tile[2][1024];
    const int i = blockIdx.x * blockDim.x + threadIdx.x, T = blockDim.x;
    const float mine = i < n ? x[i] : 0;
    int smaller = 0;
    if (threadIdx.x < n) __pipeline_memcpy_async(&tile[0][threadIdx.x], &x[threadIdx.x], sizeof(float));
    __pipeline_commit();
    for (int first = 0, now = 0; first < n; first += T, now ^= 1) {
        __pipeline_wait_prior(0);                           // this thread's copy into buffer `now` is complete
        __syncthreads();                                    // all copies are, and nobody reads the other buffer
        const int from = first + T + threadIdx.x;
        if (from < n) __pipeline_memcpy_async(&tile[now ^ 1][threadIdx.x], &x[from], sizeof(float));
        __pipeline_commit();
        for (int j = 0; j < min(T, n - first); ++j) smaller += tile[now][j] < mine;
    }
    if (i < n) rank[i] = smaller;
#endif
}
