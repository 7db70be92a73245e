#include "shared.h"
#define N 40
static __global__ void step(int *x) { *x += N; }
static int count() { return 1; }
__device__ int own = 1000;
__device__ int helper() { return 1000; }
__global__ void added(int *x) { *x += helper() + own; }
#ifdef WRONG
int wrong = nowhere;
#endif
template <class T> __global__ void typed(T *x, int n) { *x += n; }
__global__ void everywhere(int *x) { *x = far(10); total = factor[0]; }
void other(int *x) {
    step<<<1, 1>>>(x); typed<<<1, 1>>>(x, 200); added<<<1, 1>>>(x); cudaDeviceSynchronize(); *x += count();
}
