// A cooperative launch by its attribute, with arguments and dynamic shared memory; then one of clusters, which is refused.
#include <cstdio>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void reversed(int *p, int add)
{
    extern __shared__ int own[];
    own[0] = blockIdx.x + add;
    p[blockIdx.x] = own[0];
    cg::this_grid().sync();
    if (blockIdx.x == 0)
        for (int i = gridDim.x; i-- > 0;) printf("%d ", p[i]);
}

int main()
{
    int *p;
    cudaMalloc(&p, 4096);
    cudaLaunchAttribute attributes[2]{};
    attributes[0].id = cudaLaunchAttributeCooperative;
    attributes[0].val.cooperative = 1;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim = {2, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = 4;
    config.blockDim = 1;
    config.dynamicSmemBytes = 4;
    config.attrs = attributes;
    for (config.numAttrs = 1; config.numAttrs <= 2; config.numAttrs++) {
        puts(cudaGetErrorString(cudaLaunchKernelEx(&config, reversed, p, 10)));
        cudaDeviceSynchronize();
    }
    int clusters = 0;
    attributes[1].val.clusterDim = {0, 1, 1};
    puts(cudaGetErrorString(cudaOccupancyMaxActiveClusters(&clusters, reversed, &config)));
}
