// Kernels have the names of functions of the C library.
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
__global__ void write(int *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 2 * threadIdx.x; }
__global__ void div(int *x, int by)
{
    __shared__ int copy[32];
    copy[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = copy[31 - threadIdx.x] / by;
}
template <class T> __global__ void remove(T *x) { x[threadIdx.x] -= 1; }
int main()
{
    int *x;
    cudaMallocManaged(&x, 128);
    write<<<1, 32>>>(x, 32);
    div<<<1, 32>>>(x, 2);
    remove<<<1, 32>>>(x);
    cudaDeviceSynchronize();
    printf("%d %d", x[0], div(7, 2).quot);
}
