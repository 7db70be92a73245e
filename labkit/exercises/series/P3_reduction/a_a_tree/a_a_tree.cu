// P3a a tree: the threads' sums come together in shared memory, half as many in each step.

__global__ void sum(const float *x, int n, float *total)
{
#ifdef SKELETON
    // add all n numbers to *total, which is 0 before the launch; blockDim.x is a power of two, 256 at most

#else
    __shared__ float part[256];
    float mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += x[i];
    part[threadIdx.x] = mine;
    __syncthreads();                                        // all sums are there
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();                                    // half as many are left
    }
    if (threadIdx.x == 0) atomicAdd(total, part[0]);
#endif
}
