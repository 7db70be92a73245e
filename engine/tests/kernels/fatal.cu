#include <assert.h>
__device__ int deeper(int n) {
    volatile int room[64];
    room[0] = n;
    return deeper(n + 1) + room[0];
}
__global__ void local_array(const int *n, int *o) {
    int a[8], i = threadIdx.x;
    for (int j = 0; j < 8; j++) a[j] = i * j;
    o[i] = a[n[i] + 100000];
}
__global__ void traps(const int *n, int *o) {
    if (n[threadIdx.x] == 3)
        __trap();
}
__global__ void asserts(const int *n, int *o) {
    assert(n[threadIdx.x] < 3);
}
__global__ void recurses(const int *n, int *o) {
    o[0] = deeper(n[0]);
}
__global__ void divides(const int *n, int *o) {
    o[0] = 5 / n[threadIdx.x];
}
__global__ void not_in_its_mask(const int *n, int *o) {
    o[threadIdx.x] = __shfl_sync(0x0000ffff, n[threadIdx.x], 0);
}
__global__ void waits_for_a_later_block(volatile int *flag, int *o) {
    if (blockIdx.x == 1)
        flag[0] = 0;
    else
        while (flag[0] < 5) ;
}
__global__ void grid_barrier(int *arrived, int *o) {
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(&arrived[0], 1);
        while (atomicAdd(&arrived[0], 0) < (int)gridDim.x) ;
    }
    __syncthreads();
}
