// P4b by warps: each warp scans its numbers by shuffles; only the warps' sums go through shared memory.

__global__ void scan(const int *x, int *y, int columns)
{
#ifdef SKELETON
    __shared__ int part[256];
    const int i = threadIdx.x, at = blockIdx.x * columns + i;
    part[i] = i < columns ? x[at] : 0;
    __syncthreads();                                        // the row is there
    for (int apart = 1; apart < blockDim.x; apart *= 2) {
        const int before = i >= apart ? part[i - apart] : 0;
        __syncthreads();                                    // all have loaded
        part[i] += before;
        __syncthreads();                                    // all have added
    }
    if (i < columns) y[at] = part[i];
#else
    __shared__ int sums[8];                                 // of each warp
    const int i = threadIdx.x, at = blockIdx.x * columns + i, lane = i % 32, warp = i / 32;
    int sum = i < columns ? x[at] : 0;
    for (int apart = 1; apart < 32; apart *= 2) {
        const int before = __shfl_up_sync(0xffffffff, sum, apart);
        if (lane >= apart) sum += before;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads();                                        // the sums of all warps are there
    for (int w = 0; w < warp; ++w) sum += sums[w];
    if (i < columns) y[at] = sum;
#endif
}
