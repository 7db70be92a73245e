// 00a all threads: the loop over the elements is shared among all threads of the grid.
//
// With T threads in the grid, thread number t adds the elements t, t + T, t + 2T and so on. Such a
// grid-stride loop is right for every n and every grid. A warp loads 32 neighbours at a time, so one load
// request serves 32 elements in place of one.

__global__ void add(const float *a, const float *b, float *sum, int n)
{
#ifdef SKELETON
    if (blockIdx.x > 0 || threadIdx.x > 0) return;          // one thread does all the work
    for (int i = 0; i < n; ++i)
#else
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
#endif
        sum[i] = a[i] + b[i];
}
