// A program that uses most of CUDA's runtime API; each line that it prints is one thing that works.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <vector>
#include <cuda_runtime.h>
#include "shared/saxpy.cuh"

#define CHECK(call)                                                                            \
    do {                                                                                       \
        cudaError_t error = (call);                                                            \
        if (error != cudaSuccess) {                                                            \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(error));      \
            std::exit(EXIT_FAILURE);                                                           \
        }                                                                                      \
    } while (0)

__constant__ float weights[4];
__device__ int visits;
__managed__ int managed[2] = {0, 40};

struct Line {
    float slope, offset;
    __host__ __device__ float at(float x) const { return slope * x + offset; }
};

template <class T, int BLOCK = 64> __global__ void total(const T *x, T *sum, int n)
{
    __shared__ T parts[BLOCK];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    parts[threadIdx.x] = i < n ? x[i] : T(0);
    __syncthreads();
    for (int half = BLOCK / 2; half; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(sum, parts[0]);
}

__global__ void line(float *y, Line l, int n);          // defined below main
namespace other {
__global__ void kernel(int *x) { x[threadIdx.x] = 2 * threadIdx.x; }   // overloaded, and named like the engine's own
__global__ void kernel(float *x) { x[threadIdx.x] = 0.5f * threadIdx.x; }
}  // namespace other
__global__ void dynamic(int *x)
{
    extern __shared__ int buffer[];
    buffer[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = buffer[blockDim.x - 1 - threadIdx.x];
}
__global__ void symbols(float *y)
{
    y[threadIdx.x] = weights[threadIdx.x];
    atomicAdd(&visits, 1);
    if (threadIdx.x == 0) managed[0] = managed[1] + 2;
}
static __global__ void speak(int who) { printf("thread %d of %d\n", threadIdx.x, who); }

template <class T> T sum_of(const std::vector<T> &host)
{
    T *x, *sum, result = 0;
    const size_t bytes = host.size() * sizeof(T);
    CHECK(cudaMalloc(&x, bytes));
    CHECK(cudaMalloc((void **)&sum, sizeof(T)));
    CHECK(cudaMemcpy(x, host.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(sum, 0, sizeof(T)));
    total<<<((int)host.size() + 63) / 64, 64>>>(x, sum, (int)host.size());
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&result, sum, sizeof(T), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(x));
    CHECK(cudaFree(sum));
    return result;
}

int main(int argc, char **argv)
{
    std::vector<int> numbers(100);
    std::iota(numbers.begin(), numbers.end(), 1);
    std::cout << "deduced: " << sum_of(numbers) << ", " << sum_of(std::vector<float>(1000, 0.25f)) << std::endl;
    std::cout << "special functions of C++17: " << std::beta(0.5, 1.0) << std::endl;

    float *y;
    CHECK(cudaMallocManaged(&y, 256 * sizeof(float)));
    for (int i = 0; i < 256; i++) y[i] = 1;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    line<<<dim3(4), dim3(64), 0, stream>>>(y, Line{2, 1}, 256);
    CHECK(cudaStreamSynchronize(stream));
    printf("managed, struct: %g %g\n", y[0], y[255]);
    saxpy<<<4, 64>>>(256, 2.0f, y, y);
    CHECK(cudaDeviceSynchronize());
    printf("header: %g\n", y[1]);

    int *pinned, *device;
    CHECK(cudaHostAlloc(&pinned, 64 * sizeof(int), cudaHostAllocDefault));
    CHECK(cudaMalloc(&device, 64 * sizeof(int)));
    other::kernel<<<1, 64, 0, stream>>>(device);
    dynamic<<<1, 64, 64 * sizeof(int), stream>>>(device);
    CHECK(cudaMemcpyAsync(pinned, device, 64 * sizeof(int), cudaMemcpyDeviceToHost, stream));
    cudaEvent_t start, stop;
    float ms = -1;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    CHECK(cudaEventRecord(start, stream));
    CHECK(cudaEventRecord(stop, stream));
    CHECK(cudaEventSynchronize(stop));
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    printf("overload, dynamic: %d %d %s\n", pinned[0], pinned[63], ms >= 0 ? "timed" : "not timed");
    other::kernel<<<1, 64>>>(y);

    const float given[4] = {1, 2, 3, 4};
    CHECK(cudaMemcpyToSymbol(weights, given, sizeof given));
    symbols<<<1, 4>>>(y);
    int seen = 0;
    CHECK(cudaMemcpyFromSymbol(&seen, visits, sizeof seen));
    printf("symbols: %g %d %d\n", y[3], seen, managed[0]);

    void (*chosen)(int) = argc > 1 ? speak : nullptr;
    chosen<<<1, 2>>>(argc);
    CHECK(cudaDeviceSynchronize());
    printf("argument %s\n", argv[1]);

    size_t pitch = 0;
    float *rows, back[3][5], table[3][5] = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}, {11, 12, 13, 14, 15}};
    CHECK(cudaMallocPitch(&rows, &pitch, sizeof table[0], 3));
    CHECK(cudaMemcpy2D(rows, pitch, table, sizeof table[0], sizeof table[0], 3, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2D(back, sizeof back[0], rows, pitch, sizeof back[0], 3, cudaMemcpyDeviceToHost));
    printf("pitch: %d %g\n", pitch >= sizeof table[0], back[2][4]);

    cudaDeviceProp properties;
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    CHECK(cudaGetDeviceProperties(&properties, 0));
    printf("device: %d, warps of %d, %d threads per block\n", count, properties.warpSize, properties.maxThreadsPerBlock);

    const clock_t before = clock();
    volatile double busy = 0;
    for (int i = 0; i < 30000000; i++) busy = busy + 1;
    const double seconds = double(clock() - before) / CLOCKS_PER_SEC;
    printf("the host's clock: %s\n", seconds > 0.001 && seconds < 100 ? "seconds" : "something else");

    int n = 256;
    Line steep{3, 0};
    void *arguments[] = {&y, &steep, &n};
    CHECK(cudaLaunchKernel(line, dim3(4), dim3(64), arguments));
    CHECK(cudaDeviceSynchronize());
    printf("by pointers: %g\n", y[2]);

    line<<<1, 2000>>>(y, steep, n);
    const cudaError_t first = cudaGetLastError(), second = cudaGetLastError();
    printf("error: %s, then %s\n", cudaGetErrorName(first), cudaGetErrorString(second));
    exit(3);
}

__global__ void line(float *y, Line l, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = l.at(y[i]);
}
