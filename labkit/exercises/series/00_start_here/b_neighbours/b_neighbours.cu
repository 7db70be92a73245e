// 00b neighbours: neighbouring threads add neighbouring elements.
//
// A warp's load of 32 neighbours is 128 bytes, 4 sectors. If each thread adds four neighbours, the lanes'
// elements lie 16 bytes apart, and the same load touches 16 sectors. The four elements of a thread may lie
// anywhere, so they lie as many elements apart as the grid has threads.

__global__ void add(const float *a, const float *b, float *sum, int n)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (int j = 0; j < 4; ++j) {                           // each thread adds four elements
#ifdef SKELETON
        const int i = 4 * thread + j;
#else
        const int i = j * gridDim.x * blockDim.x + thread;
#endif
        if (i < n) sum[i] = a[i] + b[i];
    }
}
