// Clusters that no GPU has, and bounds of a kernel that are no cluster's.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void __cluster_dims__(32) wide(int *p) { p[blockIdx.x] = 1; }
__global__ void __cluster_dims__(0) empty(int *p) { p[blockIdx.x] = 1; }
__global__ void __cluster_dims__(8, 4) large(int *p) { p[blockIdx.x] = 1; }
__global__ void __launch_bounds__(2048) bounded(int *p) { p[blockIdx.x] = 1; }
template <int blocks> __global__ void __cluster_dims__(blocks) of_template(int *p) { p[blockIdx.x] = 1; }
__global__ void plain(int *p) { p[blockIdx.x] = 1; }
void no_kernel(int *) {}

int main()
{
    int *p;
    cudaMalloc(&p, 4096);
    wide<<<64, 32>>>(p);
    empty<<<64, 32>>>(p);
    large<<<dim3(8, 4), 32>>>(p);
    of_template<64><<<64, 32>>>(p);
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {1 << 17, 1 << 15, 1};   // their product is 0 in 32 bits
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1 << 17, 1 << 15);
    config.blockDim = 32;
    config.attrs = &attribute;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, plain, p);
    attribute.val.clusterDim = {2, 1, 1};
    cudaLaunchKernelEx(&config, no_kernel, p);          // whose clusters are not those of the next launch
    bounded<<<63, 32>>>(p);
    puts(cudaGetErrorString(cudaDeviceSynchronize()));
}
