// Threads of OpenMP launch kernels, and wait for them.
#include <cstdio>
#include <omp.h>
__global__ void fill(int *x, int value) { x[threadIdx.x] = value; }
int main()
{
    int *x, sum = 0;
    cudaMallocManaged(&x, 4 * 32 * sizeof *x);
    #pragma omp parallel num_threads(4) reduction(+ : sum)
    {
        const int i = omp_get_thread_num();
        fill<<<1, 32>>>(x + 32 * i, i + 1);
        sum += cudaDeviceSynchronize() == cudaSuccess && omp_get_num_threads() == 4 ? x[32 * i + 31] : 100;
    }
    printf("%d\n", sum);
}
