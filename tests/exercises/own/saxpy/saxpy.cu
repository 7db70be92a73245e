#ifdef SKELETON
// SAXPY: y[i] = a x[i] + y[i] for all i below n, for any grid.
//
// A thread takes a part of its own, so the lanes of a warp load from 32 places. Let them load neighbours.

#else
// SAXPY with a grid-stride loop.

#endif
__global__ void saxpy(int n, float a, const float *x, float *y)
{
#ifdef SKELETON
    const int threads = gridDim.x * blockDim.x, part = (n + threads - 1) / threads;
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) * part;
    for (int i = first; i < min(first + part, n); ++i)
#else
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
#endif
        y[i] = a * x[i] + y[i];
}
