// A kernel that is called like a function does not run.
#include <cstdio>
__global__ void set(int *x) { *x = 1; }
template <class T> __global__ void sum(T *x)
{
    __shared__ T copy[32];
    copy[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) for (int i = 1; i < 32; i++) x[0] += copy[i];
}
template <class Kernel, class... A> void call(Kernel kernel, A... arguments) { kernel(arguments...); }
int main()
{
    int *x, result;
    cudaMalloc(&x, 128);
    cudaMemset(x, 1, 128);
    call(set, x);
    printf("%s, ", cudaGetErrorName(cudaGetLastError()));
    call(sum<int>, x);
    printf("%s, ", cudaGetErrorName(cudaGetLastError()));
    sum<<<1, 32>>>(x);
    cudaMemcpy(&result, x, 4, cudaMemcpyDeviceToHost);
    printf("%x", result);
}
