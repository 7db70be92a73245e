// P6a in the background: tiles of x go to shared memory by asynchronous copies, and every thread compares with each tile.
//
// A copy is complete for its own thread when that thread has waited for it, and for the others after the barrier.

#include <cuda_pipeline.h>

extern "C" __global__ void ranks(const float *x, int n, int *rank)
{
#ifdef SKELETON
    // rank[i] is how many of the n numbers are smaller than x[i]

#else
    __shared__ float tile[1024];
    const int i = blockIdx.x * blockDim.x + threadIdx.x, T = blockDim.x;
    const float mine = i < n ? x[i] : 0;
    int smaller = 0;
    for (int first = 0; first < n; first += T) {
        const int from = first + threadIdx.x;
        if (from < n) __pipeline_memcpy_async(&tile[threadIdx.x], &x[from], sizeof(float));
        __pipeline_commit();
        __pipeline_wait_prior(0);                           // this thread's copy is complete
        __syncthreads();                                    // and so are those of all others
        for (int j = 0; j < min(T, n - first); ++j) smaller += tile[j] < mine;
        __syncthreads();                                    // nobody reads the tile any more
    }
    if (i < n) rank[i] = smaller;
#endif
}
