// Memory of the host and the C++ library, wide parameters, attributes of the device, memory pools.
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
struct alignas(64) Eight { double at[8]; };
__global__ void sum(double *out, Eight a, char c, Eight b)
{
    out[threadIdx.x] = 0;
    for (int i = 0; i < 8; i++) out[threadIdx.x] += a.at[i] * b.at[i] + c;
}
int main()
{
    for (int i = 0; i < 200; i++) {   // the C++ library frees what the program allocates, and the other way
        std::istream *words = new std::istringstream(std::string(i, 'x') + " some words");
        std::string *word = new std::string;
        while (*words >> *word) *word += std::string(2 * i, 'y');
        delete word;
        delete words;
    }
    double *out, seen[4];
    cudaMalloc(&out, sizeof seen);
    Eight a, b;
    for (int i = 0; i < 8; i++) a.at[i] = i, b.at[i] = 2;
    double total = 0;
    for (int i = 0; i < 20; i++) {    // wherever the arguments are kept
        sum<<<1, 4>>>(out, a, 1, b);
        total += cudaMemcpy(seen, out, sizeof seen, cudaMemcpyDeviceToHost) ? 1e9 : seen[3];
    }
    long zeros = 0, *fresh = (long *)malloc(256 << 10);
    for (int i = 0; i < (256 << 10) / 8; i++) zeros += fresh[i] == 0;
    printf("aligned: %g, fresh: %ld\n", total, zeros);

    int width, stack, pools;
    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    cudaDeviceGetAttribute(&width, cudaDevAttrMaxTexture2DWidth, 0);
    cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, 0);
    cudaDeviceGetAttribute(&stack, cudaDevAttrComputeMode, 0);
    printf("attributes: %d %d %d\n", width == properties.maxTexture2D[0], pools, stack == cudaComputeModeDefault);

    cudaPointerAttributes kinds[4];
    static char registered[64];
    double *pinned;
    cudaMallocHost(&pinned, 64);
    cudaHostRegister(registered, sizeof registered, 0);
    cudaPointerGetAttributes(&kinds[0], out + 1);
    cudaPointerGetAttributes(&kinds[1], pinned + 1);
    cudaPointerGetAttributes(&kinds[2], registered + 1);
    cudaPointerGetAttributes(&kinds[3], seen);
    for (auto &kind : kinds) printf("%d ", kind.type);
    printf("kinds of memory\n");

    cudaMemPool_t pool, own;
    unsigned long long kept = 1 << 20, told = 0;
    cudaDeviceGetDefaultMemPool(&pool, 0);
    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept);
    cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &told);
    cudaMemPoolProps wanted = {cudaMemAllocationTypePinned, cudaMemHandleTypeNone, {cudaMemLocationTypeDevice, 0}};
    cudaMemPoolCreate(&own, &wanted);
    double *p;
    int failed = cudaMallocFromPoolAsync(&p, 64, own, 0);
    failed += cudaMemsetAsync(p, 0, 64, 0) + cudaFreeAsync(p, 0) + cudaMemPoolTrimTo(own, 0) + cudaMemPoolDestroy(own);
    printf("pools: %d %d %d\n", told == kept, failed, cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &told));
}
