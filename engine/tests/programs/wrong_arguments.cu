// The runtime API with wrong arguments: each call returns an error number, and the process goes on.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

__global__ void fill(float *x, int n) { for (int i = 0; i < n; i++) x[i] = i; }
__device__ int variable[4];

int main()
{
    int fine = 0, refused = 0;
    auto count = [&](cudaError_t error) { ++(error == cudaSuccess ? fine : refused); };
    float *d, *freed, host[64] = {};
    cudaMalloc(&d, sizeof host);
    cudaMalloc(&freed, 64);
    cudaFree(freed);
    void *unmapped = (void *)0x10000000000, *pointers[] = {nullptr, (void *)-1, (void *)8, unmapped, freed};
    const size_t sizes[] = {(size_t)-1, (size_t)1 << 62, (size_t)1 << 45};
    const char *readonly = "a string of 64 bytes in memory that is only read .............";
    for (void *p : pointers) {
        for (cudaMemcpyKind kind : {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault,
                                    cudaMemcpyHostToHost, (cudaMemcpyKind)77, (cudaMemcpyKind)-1}) {
            count(cudaMemcpy(d, p, 64, kind));
            count(cudaMemcpy(p, d, 64, kind));
            count(cudaMemcpy(p, p, 64, kind));
            count(cudaMemcpyAsync(p, host, 64, kind));
            count(cudaMemcpyAsync(host, p, 64, kind));
            count(cudaMemcpy2D(d, 8, p, 8, 8, 2, kind));
            count(cudaMemcpy2D(p, 8, d, 8, 8, 2, kind));
        }
        count(cudaMemset(p, 0, 64));
        count(cudaMemset2D(p, 8, 0, 8, 8));
        count(cudaMemcpyPeer(d, 0, p, 0, 8));
        if (p) count(cudaFree(p));
        if (p) count(cudaFreeHost(p));
        count(cudaHostRegister(p, 64, 0));
        count(cudaHostUnregister(p));
        count(cudaMemcpyToSymbol(variable, p, 16));
        count(cudaMemcpyFromSymbol(p, variable, 16));
        count(cudaStreamSynchronize((cudaStream_t)((size_t)p | 64)));
        count(cudaStreamDestroy((cudaStream_t)((size_t)p | 64)));
        count(cudaEventRecord((cudaEvent_t)p));
        count(cudaEventSynchronize((cudaEvent_t)p));
        count(cudaEventDestroy((cudaEvent_t)p));
        if (p == freed) continue;   // the others are no places for results
        count(cudaMalloc((void **)p, 64));
        count(cudaMallocHost((void **)p, 64));
        count(cudaMallocManaged((void **)p, 64));
        count(cudaMemGetInfo((size_t *)p, (size_t *)p));
        count(cudaGetDevice((int *)p));
        count(cudaGetDeviceCount((int *)p));
        count(cudaDeviceGetAttribute((int *)p, cudaDevAttrWarpSize, 0));
        count(cudaStreamCreate((cudaStream_t *)p));
        count(cudaEventCreate((cudaEvent_t *)p));
        count(cudaPointerGetAttributes((cudaPointerAttributes *)p, d));
        count(cudaFuncGetAttributes((cudaFuncAttributes *)p, fill));
        count(cudaDriverGetVersion((int *)p));
    }
    for (size_t bytes : sizes) {
        void *q;
        count(cudaMalloc(&q, bytes));
        count(cudaMallocHost(&q, bytes));
        count(cudaMallocManaged(&q, bytes));
        count(cudaHostRegister(host, bytes, 0));
        count(cudaMemcpy(d, host, bytes, cudaMemcpyHostToDevice));
        count(cudaMemcpy(host, d, bytes, cudaMemcpyDeviceToHost));
        count(cudaMemcpy(d, d, bytes, cudaMemcpyDeviceToDevice));
        count(cudaMemset(d, 0, bytes));
        count(cudaMemcpyToSymbol(variable, host, bytes));
        count(cudaMemcpyToSymbol(variable, host, 4, bytes));
        count(cudaMemcpy2D(d, bytes, host, bytes, bytes, 2, cudaMemcpyHostToDevice));
        count(cudaMemcpy2D(d, 8, host, 8, 8, bytes, cudaMemcpyHostToDevice));
        count(cudaMemset2D(d, bytes, 0, bytes, bytes));
    }
    count(cudaMemcpy((void *)readonly, d, 8, cudaMemcpyDeviceToHost));
    count(cudaSetDevice(-1));
    count(cudaLaunchHostFunc(0, nullptr, nullptr));
    count(cudaFuncSetAttribute(fill, (cudaFuncAttribute)-5, 3));
    count(cudaLaunchKernel((void *)nullptr, dim3(1), dim3(1), nullptr, 0, 0));
    printf("accepted: %d\n", fine);
    void *q;
    printf("%s\n", cudaGetErrorName(cudaMallocHost(&q, (size_t)1 << 60)));
    printf("%s\n", cudaGetErrorName(cudaMemcpy(d, nullptr, 64, cudaMemcpyHostToDevice)));
    cudaGetLastError();
    fill<<<1, 1>>>(d, 64);
    cudaMemcpy(host, d, sizeof host, cudaMemcpyDeviceToHost);
    printf("goes on: %g, %s\n", host[63], cudaGetErrorString(cudaGetLastError()));
    return refused > 300 ? 0 : 1;
}
