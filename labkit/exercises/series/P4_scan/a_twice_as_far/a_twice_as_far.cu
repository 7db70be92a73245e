// P4a twice as far: each place adds what lies 1, 2, 4, 8, ... places before it (Hillis and Steele).

__global__ void scan(const int *x, int *y, int columns)
{
#ifdef SKELETON
    // row blockIdx.x of y: y[i] = x[0] + x[1] + ... + x[i] of that row; a thread per number, 256 columns at most

#else
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
#endif
}
