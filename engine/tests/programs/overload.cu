// An overload of a kernel is only declared, or declared with a default argument.
#include <cstdio>
__global__ void fill(int *x, int n, int value);
__global__ void fill(int *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = threadIdx.x; }
__global__ void twice(int *first, int n = 2);
__global__ void twice(int *x, int) { x[threadIdx.x] *= 2; }
int main()
{
    int *x;
    cudaMallocManaged(&x, 128);
    fill<<<1, 32>>>(x, 32);
    twice<<<1, 32>>>(x);
    cudaDeviceSynchronize();
    printf("%d", x[31]);
}
