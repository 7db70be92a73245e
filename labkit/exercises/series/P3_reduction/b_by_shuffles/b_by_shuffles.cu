// P3b by shuffles: a warp adds its sums from register to register; one sum per warp goes through shared memory.

__global__ void sum(const float *x, int n, float *total)
{
#ifdef SKELETON
    // begin with your kernel of P3a: which of its steps can a warp do alone?

#else
    __shared__ float part[32];                              // one for each warp
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += x[i];
    for (int apart = 16; apart > 0; apart /= 2) mine += __shfl_down_sync(0xffffffff, mine, apart);
    if (lane == 0) part[warp] = mine;
    __syncthreads();                                        // the sums of all warps are there
    if (warp == 0) {
        mine = lane < blockDim.x / 32 ? part[lane] : 0;
        for (int apart = 16; apart > 0; apart /= 2) mine += __shfl_down_sync(0xffffffff, mine, apart);
        if (lane == 0) atomicAdd(total, mine);
    }
#endif
}
