// smooth: y[i] = (x[i] + ... + x[i + K - 1]) / K for all i below n, by blocks of BLOCK threads.
#define K 3
#define BLOCK 64

__global__ void smooth(const float *x, float *y, int n)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
#ifdef SKELETON
    if (i >= n) return;
    float sum = 0;
    for (int q = 0; q < K; ++q) sum += x[i + q];
    y[i] = sum / K;
#else
    __shared__ float tile[BLOCK + K - 1];
    for (int j = threadIdx.x; j < BLOCK + K - 1 && i - threadIdx.x + j < n + K - 1; j += BLOCK)
        tile[j] = x[i - threadIdx.x + j];
    __syncthreads();
    if (i >= n) return;
    float sum = 0;
    for (int q = 0; q < K; ++q) sum += tile[threadIdx.x + q];
    y[i] = sum / K;
#endif
}
