// Attributes of launches: of two host threads at once, of a chain beside another stream, and how many blocks a cluster may have.
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda_runtime.h>
#include <thread>

const int N = 1 << 18;

__global__ void count_blocks(int *blocks, int) { *blocks = cooperative_groups::this_cluster().num_blocks(); }

__global__ void write(int *x)
{
    cudaTriggerProgrammaticLaunchCompletion();
    for (int i = threadIdx.x; i < N / 2; i += blockDim.x) x[2 * i] = i;
}
__global__ void nothing() {}
__global__ void read(const int *x, int *y)
{
    y[threadIdx.x] = x[2 * threadIdx.x];
    cudaGridDependencySynchronize();
}

// An argument that is made while another thread launches.
struct Late {
    int *blocks;
    operator int() const
    {
        std::thread([=] { count_blocks<<<1, 1>>>(blocks, 0); }).join();
        return 0;
    }
};

int main()
{
    int *x, *y, seen[2];
    cudaMalloc(&x, N * sizeof(int));
    cudaMalloc(&y, 1024 * sizeof(int));
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config = {};
    config.gridDim = config.blockDim = 1;
    config.gridDim.x = 2;
    config.attrs = &attribute;
    config.numAttrs = 1;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {2, 1, 1};
    cudaLaunchKernelEx(&config, count_blocks, y, Late{y + 1});
    cudaMemcpy(seen, y, sizeof seen, cudaMemcpyDeviceToHost);
    printf("blocks %d %d\n", seen[0], seen[1]);

    int most[3];
    cudaOccupancyMaxPotentialClusterSize(&most[0], (void *)count_blocks, &config);
    cudaFuncSetAttribute(count_blocks, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    cudaOccupancyMaxPotentialClusterSize(&most[1], (void *)count_blocks, &config);
    config.dynamicSmemBytes = 300 << 10;
    cudaOccupancyMaxPotentialClusterSize(&most[2], (void *)count_blocks, &config);
    printf("at most %d %d %d\n", most[0], most[1], most[2]);

    cudaStream_t stream, other;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = 1;
    config.blockDim = 64;
    config.dynamicSmemBytes = 0;
    config.stream = stream;
    cudaLaunchKernelEx(&config, write, x);
    nothing<<<1, 1, 0, other>>>();
    cudaLaunchKernelEx(&config, read, (const int *)x, y);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
