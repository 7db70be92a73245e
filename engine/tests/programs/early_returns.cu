// Threads that return before a barrier of the others, which is legal; and a branch around a barrier, with an argument.
#include <cstdio>
#include <cooperative_groups.h>

__global__ void in_the_kernel(const float *in, float *out, int n) {
  __shared__ float tile[64];
  if (threadIdx.x >= n) return;
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();  // in_the_kernel
  out[threadIdx.x] = tile[n - 1 - threadIdx.x];
}
__device__ float reversed(const float *in, int n) {
  __shared__ float tile[64];
  if (threadIdx.x >= n) return 0;
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();  // in_a_function
  return tile[n - 1 - threadIdx.x];
}
__global__ void in_a_function(const float *in, float *out, int n) {
  float x = reversed(in, n);
  if (threadIdx.x < n) out[threadIdx.x] = x;
}
__global__ void in_a_loop(const float *in, float *out, int n) {
  __shared__ float tile[64];
  for (int i = 0;; i++) {
    if (i * 8 > threadIdx.x + n) return;
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();  // in_a_loop
    out[threadIdx.x] = tile[threadIdx.x];
  }
}
__device__ int checked(int i) {
  if (i < 0) return 0;
  return i;
}
__global__ void around(const float *in, float *out, int n) {
  auto mine = [](int i) {
    if (i > 0) return i;
    return 0;
  };
  __shared__ float tile[64];
  if (mine(checked(threadIdx.x)) < n) {
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();  // around
    out[threadIdx.x] = tile[threadIdx.x];
  }
}
__global__ void before_the_grid(float *out, int n) {
  if (threadIdx.x >= n) return;
  cooperative_groups::this_grid().sync();  // the_grid
  out[threadIdx.x] = 1;
}

int main(int count, char **) {
  float *in, *out;
  cudaMalloc(&in, 256);
  cudaMalloc(&out, 256);
  cudaMemset(in, 0, 256);
  if (count > 1) {
    int n = 40;
    void *arguments[] = {&out, &n};
    around<<<1, 64>>>(in, out, n);
    cudaLaunchCooperativeKernel((const void *)before_the_grid, 1, 64, arguments);
    cudaDeviceSynchronize();
  }
  in_the_kernel<<<3, 64>>>(in, out, 40);
  in_a_function<<<1, 64>>>(in, out, 40);
  in_a_loop<<<1, 64>>>(in, out, 0);
  return cudaDeviceSynchronize();
}
