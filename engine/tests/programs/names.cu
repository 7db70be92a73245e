// What findings call kernels, arrays and barriers; the argument is the case.
#include <cstdio>
#include <cstdlib>
#include <cuda/barrier>
#include <cuda_fp16.h>
namespace one {
__global__ void k(const float *in, float *out) { out[threadIdx.x] = in[threadIdx.x] + blockIdx.z; }
}  // namespace one
namespace two {
__global__ void k(const float *keys, float *counts) { counts[threadIdx.x] = keys[threadIdx.x] + blockIdx.z; }  // found: 0
}  // namespace two
__global__ void scale(const float *in, float *out) { out[threadIdx.x + 1] = in[threadIdx.x]; }  // found: 1
__global__ void scale(const int *in, int *counts) { counts[in[threadIdx.x] & 3] = 1; }
typedef int (*Function)(int);
__global__ void call(const Function *functions, int *out) {
    *out = functions[0](1);  // found: 2
}
__global__ void some_arrive(int *out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> all;
    if (threadIdx.x == 0) init(&all, 64);
    __syncthreads();
    if (threadIdx.x < 40) all.arrive_and_wait();  // found: 3
    out[threadIdx.x] = 1;
}
#define ROWS 8
__global__ void turn(const half *in, half *out) {
    __shared__ half tile[4][ROWS][8];
    int z = threadIdx.x / 64, y = threadIdx.x / 8 % 8, x = threadIdx.x % 8;
    tile[z][y][x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[4 - z][y][x];  // found: 4
}
int main(int, char **words) {
    int way = atoi(words[1]);
    float *x, *y;
    cudaMalloc(&x, 1024), cudaMalloc(&y, 1024);
    cudaMemset(x, 0, 1024);
    if (way == 0) one::k<<<1, 128>>>(x, y), two::k<<<dim3(1, 1, 2), 128>>>(x, y);
    if (way == 1) scale<<<1, 256>>>(x, y), scale<<<1, 256>>>((int *)x, (int *)y);
    if (way == 2) call<<<1, 1>>>((Function *)x, (int *)y);
    if (way == 3) some_arrive<<<1, 64>>>((int *)y);
    if (way == 4) turn<<<1, 256>>>((half *)x, (half *)y);
    cudaDeviceSynchronize();
}
