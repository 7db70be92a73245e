// Kernels allocate up to the limit of their heap.
#include <cstdio>
__device__ int n;
__device__ char *all[1 << 20];
__global__ void fill(size_t bytes) { n = 0; while (char *p = (char *)malloc(bytes)) all[n++] = p; }
__global__ void empty() { for (int i = 0; i < n; i++) free(all[i]); }
__global__ void churn() { for (int i = 0; i < 20; i++) { int *p = new int[1000]; if (!p) __trap(); delete[] p; } }
int main()
{
    int count;
    size_t limit;
    for (size_t bytes : {1 << 20, 1 << 10}) {
        fill<<<1, 1>>>(bytes); cudaMemcpyFromSymbol(&count, n, 4); printf("%d ", count);
        empty<<<1, 1>>>(); churn<<<16, 32>>>();
    }
    cudaDeviceSetLimit(cudaLimitMallocHeapSize, 24 << 20);
    fill<<<1, 1>>>(1 << 20); cudaMemcpyFromSymbol(&count, n, 4);
    cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize);
    printf("%d %zu %s\n", count, limit >> 20, cudaGetErrorString(cudaDeviceSynchronize()));
}
