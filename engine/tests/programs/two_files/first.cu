// Both files have their own `step`, `count` and `typed`; with OWN also their own `own` and `helper`.
#include "shared.h"
#define N 3
static __global__ void step(int *x) { __shared__ int s[8]; s[0] = N; *x += s[0]; }
static int count() { return 100; }
#ifdef OWN
__device__ int own = 7;
__device__ int helper() { return 7; }
#endif
template <class T> __global__ void typed(T *x) { *x += sizeof(T); }
__device__ int total;
__constant__ int factor[2];
__device__ int far(int v) { return v * factor[1]; }
int main() {
    int *x, value, host[2] = {5, 6};
    cudaMallocManaged(&x, 4);
    *x = 0;
    step<<<1, 1>>>(x); cudaDeviceSynchronize(); printf("%d\n", *x);
    other(x); cudaDeviceSynchronize(); printf("%d %d\n", *x, count());
    typed<<<1, 1>>>(x); typed<<<1, 1>>>((char *)x); cudaDeviceSynchronize(); printf("%d\n", *x);
    cudaMemcpyToSymbol(factor, host, sizeof host);
    everywhere<<<1, 1>>>(x);
    cudaMemcpyFromSymbol(&value, total, 4);
    printf("%d %d\n", *x, value);
}
