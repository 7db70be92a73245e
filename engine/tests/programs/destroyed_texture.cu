// A texture is destroyed while a kernel reads it, and used afterwards.
#include <cstdio>
__global__ void slow(cudaTextureObject_t t, int *x)
{
    for (volatile int i = 0; i < 20000000; i++) ;
    *x = tex1Dfetch<int>(t, 3);
}
int main()
{
    int *x, *y;
    cudaMallocManaged(&x, 64), cudaMallocManaged(&y, 4);
    x[3] = 5;
    cudaResourceDesc resource = {cudaResourceTypeLinear};
    resource.res.linear = {x, cudaCreateChannelDesc<int>(), 64};
    cudaTextureDesc how = {};
    cudaTextureObject_t t;
    cudaCreateTextureObject(&t, &resource, &how, nullptr);
    slow<<<1, 1>>>(t, y);
    int failed = cudaDestroyTextureObject(t);
    failed += cudaDeviceSynchronize();
    printf("%d %d\n", failed, *y);
    slow<<<1, 1>>>(t, y);
    return cudaDeviceSynchronize() == cudaSuccess;
}
