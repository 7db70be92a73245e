// Textbook kernels whose counters are easy to predict: for recording.compare_counters.
#include <mma.h>

extern "C" __global__ void saxpy(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.5f * x[i] + y[i];
}

extern "C" __global__ void copy_stride2(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (2 * i < n) y[2 * i] = x[2 * i];
}

extern "C" __global__ void copy_stride32(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (32 * i < n) y[32 * i] = x[32 * i];
}

extern "C" __global__ void copy_offset1(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i + 1 < n) y[i + 1] = x[i + 1];
}

extern "C" __global__ void copy_float4(const float4 *x, float4 *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (4 * i < n) y[i] = x[i];
}

extern "C" __global__ void transpose_naive(const float *x, float *y, int n) {
  int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  y[col * n + row] = x[row * n + col];
}

// A tile's columns are read: 32 lanes in one bank, unless each row is one word longer.
template <int WIDTH>
__device__ void transpose(const float *x, float *y, int n) {
  __shared__ float tile[32][WIDTH];
  tile[threadIdx.y][threadIdx.x] = x[(blockIdx.y * 32 + threadIdx.y) * n + blockIdx.x * 32 + threadIdx.x];
  __syncthreads();
  y[(blockIdx.x * 32 + threadIdx.y) * n + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void transpose_shared(const float *x, float *y, int n) { transpose<32>(x, y, n); }

extern "C" __global__ void transpose_padded(const float *x, float *y, int n) { transpose<33>(x, y, n); }

extern "C" __global__ void reduction(const float *x, float *y, int n) {
  __shared__ float sum[256];
  int i = threadIdx.x;
  sum[i] = x[blockIdx.x * 256 + i];
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (i < half) sum[i] += sum[i + half];
    __syncthreads();
  }
  if (i == 0) y[blockIdx.x] = sum[0];
}

extern "C" __global__ void histogram(const float *x, int *bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[(int)x[i] % 64], 1);
}

// As histogram, and each element learns how many were counted before it: the result is used.
extern "C" __global__ void ranks(const float *x, int *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (64 + i < n) y[64 + i] = atomicAdd(&y[(int)x[i] % 64], 1);
}

extern "C" __global__ void stencil(const float *x, float *y, int n) {
  __shared__ float tile[256 + 2];
  int i = blockIdx.x * 256 + threadIdx.x, t = threadIdx.x + 1;
  tile[t] = x[i];
  if (threadIdx.x == 0) tile[0] = i > 0 ? x[i - 1] : 0;
  if (threadIdx.x == 255) tile[257] = i + 1 < n ? x[i + 1] : 0;
  __syncthreads();
  y[i] = tile[t - 1] - 2 * tile[t] + tile[t + 1];
}

// x [32, 32], windows of 3 x 3 -> y [9, 30 * 30]
extern "C" __global__ void im2col(const float *x, float *y, int n) {
  int pixel = blockIdx.x * blockDim.x + threadIdx.x, tap = blockIdx.y;
  if (pixel < 900) y[tap * 900 + pixel] = x[(pixel / 30 + tap / 3) * 32 + pixel % 30 + tap % 3];
}

extern "C" __global__ void gemm(const float *a, float *c, int n) {
  __shared__ float as[16][16], bs[16][16];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
  float sum = 0;
  for (int t = 0; t < n; t += 16) {
    as[y][x] = a[row * n + t + x];
    bs[y][x] = a[(t + y) * n + col];
    __syncthreads();
    for (int k = 0; k < 16; k++) sum += as[y][k] * bs[k][x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}

// A warp a tile: a and b from shared memory, c straight to global memory.
extern "C" __global__ void wmma(const float *a, float *c, int n) {
  using namespace nvcuda::wmma;
  __shared__ __align__(32) half tile[256];  // where WMMA may load from
  fragment<matrix_a, 16, 16, 16, half, row_major> fa;
  fragment<matrix_b, 16, 16, 16, half, row_major> fb;
  fragment<accumulator, 16, 16, 16, float> sum;
  fill_fragment(sum, 0.0f);
  for (int i = threadIdx.x; i < 256; i += 32) tile[i] = __float2half(a[i]);
  __syncwarp();
  load_matrix_sync(fa, tile, 16);
  load_matrix_sync(fb, tile, 16);
  mma_sync(sum, fa, fb, sum);
  store_matrix_sync(c + blockIdx.x * 256, sum, 16, mem_row_major);
}
