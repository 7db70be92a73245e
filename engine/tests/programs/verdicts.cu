#include <cstdio>

__global__ void one(float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = 1; }
__global__ void more(float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i <= n) x[i] = 1; }
__global__ void three(const float *a, float *b, float *c) {
  int i = threadIdx.x;
  float v = a[i];
  b[i] = v;
  c[i + 1] = v;
}
__global__ void below(float *x, unsigned n) { unsigned i = threadIdx.x; x[i] = x[i - 1]; }
__global__ void too_large(float *x, int rows, int pitch) { x[rows * pitch + (int)threadIdx.x] = 1; }
__global__ void reversed(float *x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  x[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void forever(volatile int *go) { while (!*go) ; }
__global__ void noisy() { for (int i = 0; i < 100; i++) printf("line %d of a program that prints much\n", i); }
__global__ void lanes(float *x) { int i = threadIdx.x; if (i >= 16) return; x[i] = __shfl_down_sync(~0u, x[i], 8); }
__global__ void keep(float **x) { __shared__ float s[4]; s[threadIdx.x] = 1; *x = s; }
__global__ void use(float **x) { (*x)[threadIdx.x] = 1; }

int main(int count, char **words) {
  float *x, *y, *z, h[64] = {}; int what = words[1][0] - 'a';
  cudaMalloc(&x, 256); cudaMalloc(&y, 128); cudaMalloc(&z, 128); cudaMemset(x, 0, 256);
  switch (what) {
    case 0: one<<<1, 64>>>(x, 64); break;
    case 1: return 0;
    case 2: one<<<1, 64>>>(x, 64); cudaDeviceSynchronize(); return 3;
    case 3: one<<<1, 2048>>>(x, 64); break;
    case 4: one<<<1, 64>>>(x, 64); cudaMemcpy(x, h, 256, cudaMemcpyDeviceToHost); break;
    case 5: more<<<1, 128>>>(x, 64); break;
    case 6: three<<<1, 64>>>(x, y, z); break;
    case 7: below<<<1, 32>>>(x, 64); break;
    case 8: too_large<<<1, 32>>>(x, 65536, 32768); break;
    case 9: one<<<1, 64>>>((float *)malloc(256), 64); break;
    case 10: reversed<<<1, 64>>>(x); break;
    case 11: cudaMemset(y, 0, 4); forever<<<1, 1>>>((int *)y); break;
    case 12: noisy<<<1, 1>>>(); break;
    case 13: lanes<<<1, 32>>>(x); break;
    case 14: one<<<1, 2048>>>(x, 64); if (cudaGetLastError()) cudaMemset(x, 0, 4); break;
    case 15: if (cudaMalloc(&z, 1ull << 60)) cudaGetLastError(); one<<<1, 64>>>(x, 64); break;
    case 17:
    case 18: {
      one<<<1, 2048>>>(x, 64);
      cudaError_t error = cudaGetLastError();
      if (what == 18) printf("%s\n", cudaGetErrorString(error));
      if (error != cudaErrorInvalidValue) return 2;
      one<<<1, 64>>>(x, 64);
      break;
    }
    case 16: keep<<<1, 1>>>((float **)x); use<<<1, 1>>>((float **)x); break;
  }
  cudaDeviceSynchronize(); return 0;
}
